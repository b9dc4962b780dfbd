//! The STAMP reflector.

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
    let mut before = 0;
    for (sequence, estimate, size) in [(7_u32, 0x8001_u16, 44), (u32::MAX, 0x0001, 44), (0, 0xc001, 1_000)] {
        let mut packet = stamp_packet(sequence, estimate, size);
        packet[14..16].copy_from_slice(&[0xab, 0xcd]);
        if size > 44 {
            packet[44..].fill(0x5e);
        }
        socket.send(&packet).expect("loopback takes it");
        let answer = reply(&socket);
        assert_eq!(answer.len(), size, "as long as it came");
        assert_eq!(answer[0..4], packet[0..4], "a stateless reflector copies the number");
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
