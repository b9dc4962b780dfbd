//! The STAMP reflector.

use std::io::IoSlice;
use std::net::IpAddr;

use vtare_sys::net::control::SendControl;
use vtare_sys::net::{Layer, Message, ReceiveBatch, SendBatch, Socket};
use vtare_wire::stamp::tlv::{self, Answer, Request, Tlv};
use vtare_wire::stamp::{ErrorEstimate, ReflectorPacket, SenderPacket, Time, TimeFormat, packet_byte};

use super::*;

/// RFC 8762, 4.2.1, by hand: number, NTP time, error estimate (S, Z, scale, multiplier), then zeros.
fn stamp_packet(sequence: u32, estimate: u16, size: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[0..4].copy_from_slice(&sequence.to_be_bytes());
    packet[4..12].copy_from_slice(&0xe000_0001_8000_0000_u64.to_be_bytes());
    packet[12..14].copy_from_slice(&estimate.to_be_bytes());
    packet
}

#[test]
fn a_stamp_packet_of_any_make_is_reflected_byte_for_byte_as_the_rfc_has_it() {
    let (running, stamp) = Running::with_stamp(1_000);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(stamp).expect("loopback is there");
    socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    let (mut before, mut replies) = (0, 0_u32);
    for (sequence, estimate, size) in [(7_u32, 0x8001_u16, 44), (u32::MAX, 0x0001, 44), (0, 0xc001, 1_000)] {
        let mut packet = stamp_packet(sequence, estimate, size);
        packet[14..16].copy_from_slice(&[0xab, 0xcd]);
        if size > 44 {
            packet[44..].fill(0x5e);
        }
        socket.send(&packet).expect("loopback takes it");
        let answer = reply(&socket);
        assert_eq!(answer.len(), size, "as long as it came");
        assert_eq!(answer[0..4], replies.to_be_bytes(), "a stateful reflector counts its replies");
        replies += 1;
        assert_eq!(answer[14..16], [0xab, 0xcd], "the identifier of RFC 8972");
        assert_eq!(answer[24..38], packet[0..14], "number, time and estimate of the sender");
        assert_eq!(answer[38..40], [0, 0]);
        assert_eq!(answer[40], 64, "the TTL that it came with");
        assert_eq!(answer[41..44], [0, 0, 0]);
        assert!(answer[44..].iter().all(|byte| *byte == 0x5e), "the padding comes back");
        // The reflector answers in the sender's format: NTP counts from 1900, PTP from 1970.
        let word = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().expect("8 B"));
        let (replied, received) = (word(4), word(16));
        assert!(received <= replied, "{received:x} {replied:x}");
        assert_eq!(answer[12] >> 6 & 1, u8::from(estimate & 0x4000 != 0));
        assert_ne!(answer[13], 0, "a multiplier of 0 is to be discarded");
        if estimate & 0x4000 == 0 {
            assert!(replied >> 32 > 3_900_000_000 && received >= before, "seconds since 1900");
            before = replied;
        } else {
            assert!(
                replied >> 32 < 3_900_000_000 && replied & 0xffff_ffff < 1_000_000_000,
                "seconds and ns since 1970"
            );
        }
    }
    running.end();
}

#[test]
fn what_a_reflector_answered_is_answered_by_no_other() {
    let ((first, one), (mut second, other)) = (Running::with_stamp(1_000), Running::with_stamp(1_000));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    for (sequence, estimate) in [(0, 0x0001_u16), (u32::MAX, 0xc001)] {
        socket.send_to(&stamp_packet(sequence, estimate, 60), one).expect("loopback takes it");
        let answer = reply(&socket);
        socket.send_to(&answer, other).expect("loopback takes it");
        second.wait_for_events("stamp_garbage", 1);
    }
    // Had it answered, that would have come before this.
    socket.send_to(&stamp_packet(7, 0x0001, 44), other).expect("loopback takes it");
    assert_eq!(reply(&socket)[24..28], 7_u32.to_be_bytes());
    first.end();
    second.end();
}

#[test]
fn a_stamp_reflector_drops_what_is_no_senders_packet_and_what_is_above_its_rate() {
    let (mut running, stamp) = Running::with_stamp(100);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(stamp).expect("loopback is there");
    // Too short; a multiplier of 0.
    for packet in [&stamp_packet(1, 0x8001, 43)[..], &stamp_packet(2, 0x8000, 44), b""] {
        socket.send(packet).expect("loopback takes it");
    }
    running.wait_for_events("stamp_garbage", 3);
    // 100 a second, 2 at once: some of 50 are too many, unless this machine takes half a second to send them.
    let (began, mut sent) = (now(), 0);
    let refused = loop {
        for sequence in 0..50 {
            socket.send(&stamp_packet(sequence, 0x8001, 44)).expect("loopback takes it");
        }
        sent += 50;
        if let Some(line) =
            running.lines.recv_timeout(Duration::from_secs(2)).ok().filter(|it| it.kind == "stamp_over_rate")
        {
            break line.count;
        }
        assert!(seconds_since(began) < FOREVER.as_secs(), "{sent} packets were never too many");
    };
    assert!((1..sent).contains(&refused), "{refused} of {sent}");
    // A reflector's port: two reflectors would answer each other for ever.
    let Ok(other) = UdpSocket::bind("127.0.0.1:1000") else { return };
    other.send_to(&stamp_packet(1, 0x8001, 44), stamp).expect("loopback takes it");
    running.wait_for_events("stamp_garbage", 1);
    running.end();
}

fn stamp_key(byte: u8) -> StampKey {
    StampKey::new([byte; 32])
}

#[test]
fn with_a_key_only_its_holders_are_answered_and_the_reply_has_a_code_of_its_own() {
    let key = stamp_key(7);
    let (mut running, stamp) = Running::with_stamp_key(1_000, Some(key.clone()));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(stamp).expect("loopback is there");
    socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    let requests = [Request::Location, Request::ClassOfService { dscp: 46 }, Request::Direct, Request::FollowUp];
    let sender = |sequence| SenderPacket {
        sequence,
        sent: Time::from_unix_ns(5, TimeFormat::Ntp),
        error: ErrorEstimate::of_ns(1, false),
        session: 77,
    };
    let asked = |sequence: u32, key: Option<&StampKey>| {
        let mut packet = vec![0; packet_byte(key) + Request::bytes(&requests, key)];
        sender(sequence).encode(key, &mut packet).expect("it has room");
        Request::write(&requests, key, &mut packet[packet_byte(key)..], sequence, sequence + 1);
        packet
    };
    // No code; another key's.
    socket.send(&asked(0, None)).expect("loopback takes it");
    socket.send(&asked(0, Some(&stamp_key(8)))).expect("loopback takes it");
    running.wait_for_events("stamp_garbage", 2);
    let mut first_left = None;
    for number in 0..2 {
        // Every second packet of the sender is lost on the way.
        socket.send(&asked(2 * number, Some(&key))).expect("loopback takes it");
        let answer = reply(&socket);
        let packet = ReflectorPacket::decode(Some(&key), &answer).expect("a code that fits");
        assert_eq!((packet.reflection.sequence, packet.sender), (number, sender(2 * number)));
        let tail = &answer[packet_byte(Some(&key))..];
        assert!(tlv::is_authentic(Some(&key), tail, number));
        let found: Vec<Answer> = Tlv::all(tail).filter_map(|tlv| tlv.answer()).collect();
        let here = IpAddr::from([127, 0, 0, 1]);
        let port = socket.local_addr().expect("it is bound").port();
        assert_eq!(found[0], Answer::Location { destination: (Some(here), stamp.port()), source: (Some(here), port) });
        assert_eq!(found[1], Answer::ClassOfService { dscp: 0, ecn: 0, kept: true });
        assert_eq!(
            found[2],
            Answer::Direct { sent: 2 * number + 1, received: number + 1, replied: number + 1 },
            "one of the three did not arrive"
        );
        let before = found[3].follow_up(TimeFormat::Ntp);
        if let Some((left, replied)) = first_left {
            let (sequence, at) = before.expect("there was a reply before");
            assert!(sequence == left && at.bits >= replied, "{at:?} is before {replied:x}");
        } else {
            assert_eq!(before, None, "nothing was answered before");
        }
        first_left = Some((number, packet.reflection.replied.bits));
    }
    running.end();
}

#[test]
fn a_reply_without_a_key_has_the_class_of_the_packet_and_with_one_that_which_was_asked_for() {
    for (key, dscp, kept) in [(None, 0, false), (Some(stamp_key(3)), 46, true)] {
        let (running, stamp) = Running::with_stamp_key(1_000, key.clone());
        let socket = Socket::open(Layer::Udp, stamp).expect("a socket opens");
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has a free port");
        socket.report_class().expect("every Linux can");
        let key = key.as_ref();
        let request = [Request::ClassOfService { dscp: 46 }];
        let mut packet = vec![0; packet_byte(key) + Request::bytes(&request, key)];
        let sent = Time::from_unix_ns(5, TimeFormat::Ptp);
        let sender = SenderPacket { sequence: 9, sent, error: ErrorEstimate::of_ns(1, false), session: 1 };
        sender.encode(key, &mut packet).expect("it has room");
        Request::write(&request, key, &mut packet[packet_byte(key)..], 9, 0);
        let parts = [IoSlice::new(&packet)];
        let control = SendControl::default();
        let message = Message { parts: &parts, to: Some(stamp), control };
        SendBatch::new(1).send(&socket, &[message]).expect("loopback takes it");
        let began = now();
        let mut batch = ReceiveBatch::new(1, 2_000);
        while batch.receive(&socket, 1).expect("it is open") == 0 {
            assert!(seconds_since(began) < FOREVER.as_secs(), "no reply");
            std::thread::yield_now();
        }
        let got = batch.get(0).expect("one came");
        assert_eq!(got.control.class, Some(dscp << 2));
        let answer = Tlv::all(&got.bytes[packet_byte(key)..]).next().and_then(|tlv| tlv.answer());
        assert_eq!(answer, Some(Answer::ClassOfService { dscp: 0, ecn: 0, kept }));
        running.end();
    }
}
