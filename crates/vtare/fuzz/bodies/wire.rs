//! Any bytes through each decoder.

use vtare_units::{Span, Timestamp};
use vtare_wire::heartbeat::{self, HeartbeatKey};
use vtare_wire::stamp::{self, StampKey};
use vtare_wire::{SessionId, SessionKey, full, peek, short};

static KEY: SessionKey = SessionKey::new([7; 16]);
static STAMP_KEY: StampKey = StampKey::new([7; 32]);

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    let _ = peek(bytes);
    let context = short::Context { session: SessionId(1), handle: 2, key: &KEY };
    if let Ok(unverified) = full::Unverified::parse(bytes) {
        if let Ok(probe) = unverified.probe(&KEY) {
            let mut again = bytes.to_vec();
            probe.encode(&KEY, &mut again).expect("its size was right before");
            assert_eq!(again, bytes);
        }
        if let Ok(reply) = unverified.reply(&KEY) {
            let mut again = bytes.to_vec();
            full::Probe { wants_reply: true, ..reply.probe }
                .encode(&KEY, &mut again)
                .expect("its size was right before");
            let request = full::Unverified::parse(&mut again[..]).and_then(|it| it.request(&KEY)).expect("just made");
            assert_eq!(request.into_reply(&KEY, &reply.turnaround), bytes);
        }
    }
    if let Ok(packet) = full::Unverified::parse(bytes).and_then(|unverified| unverified.reverse(&KEY)) {
        let mut again = bytes.to_vec();
        packet.encode(&KEY, &mut again).expect("its size was right before");
        assert_eq!(again, bytes);
    }
    // With a right tag, so that more than one in 2^64 gets there.
    let mut sealed = bytes.to_vec();
    if let Some(probe) = full::Unverified::parse(bytes).ok().map(|unverified| unverified.session()) {
        let packet = full::Reverse { session: probe, sequence: bytes.len() as u64, sent: Timestamp::ZERO };
        packet.encode(&KEY, &mut sealed).expect("its size was right before");
        let unverified = full::Unverified::parse(&sealed[..]).expect("just made");
        assert_eq!(unverified.reverse(&KEY), Ok(packet));
        assert!(unverified.probe(&KEY).is_err() && unverified.reply(&KEY).is_err(), "nothing else is one");
    }
    if let Ok(unverified) = short::Unverified::parse(bytes) {
        let near = bytes.iter().fold(0_u64, |sum, &byte| sum.rotate_left(7) ^ u64::from(byte));
        if let Ok(probe) = unverified.probe(&context, near) {
            let _ = probe.sent_near(Timestamp::from_nanos(near));
            let mut again = bytes.to_vec();
            probe.encode(&context, &mut again).expect("its size was right before");
            assert_eq!(again, bytes);
        }
        if let Ok(reply) = unverified.reply(&context, near) {
            assert!(reply.turnaround.is_none_or(|span| span >= Span::ZERO));
        }
    }
    for key in [None, Some(&STAMP_KEY)] {
        stamp_packets(key, bytes);
    }
    heartbeats(bytes);
}

/// Heartbeats: any bytes, and replies made of them.
fn heartbeats(bytes: &[u8]) {
    let key = HeartbeatKey::derive(&STAMP_KEY);
    let keys = std::slice::from_ref(&key);
    if let Ok((nonce, _)) = heartbeat::read_request(keys, bytes) {
        assert_eq!(heartbeat::request(&key, &nonce), bytes);
    }
    if let Ok((nonce, statement)) = heartbeat::read_reply(&key, bytes) {
        assert_eq!(heartbeat::reply(&key, &nonce, &statement), bytes);
    }
    let number = |at| bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_be_bytes);
    let nonce = [bytes.len() as u8; 16];
    let statement = heartbeat::Statement {
        status: bytes.first().map_or(0, |first| first & 3),
        earliest_ns: number(1),
        latest_ns: number(9),
        generation: number(17),
        stamp_ns: number(25),
        host: number(33),
    };
    let mut sealed = heartbeat::reply(&key, &nonce, &statement);
    assert_eq!(heartbeat::read_reply(&key, &sealed), Ok((nonce, statement)));
    assert!(heartbeat::read_request(keys, &sealed).is_err() && peek(&sealed).is_err(), "nothing else is one");
    sealed[bytes.len() % sealed.len()] ^= 1;
    assert!(heartbeat::read_reply(&key, &sealed).is_err());
}

/// STAMP: a code fits by accident once in 2^128, so a sealed copy of the bytes is decoded, too.
fn stamp_packets(key: Option<&StampKey>, bytes: &[u8]) {
    let tail = stamp::packet_byte(key);
    let mut sealed = bytes.to_vec();
    let sent = stamp::Time { bits: bytes.len() as u64, format: stamp::TimeFormat::Ntp };
    let sender = stamp::SenderPacket { sequence: 5, sent, error: stamp::ErrorEstimate::of_ns(1, true), session: 6 };
    let sealed = if sender.encode(key, &mut sealed).is_ok() { &sealed[..] } else { bytes };
    for bytes in [bytes, sealed] {
        if let Ok(packet) = stamp::SenderPacket::decode(key, bytes) {
            let _ = (packet.sent.unix_ns(), packet.error.as_ns());
            let mut again = bytes.to_vec();
            packet.encode(key, &mut again).expect("its size was right before");
            assert_eq!(stamp::SenderPacket::decode(key, &again), Ok(packet));
            let answers = stamp::tlv::Answers {
                local: (None, 862),
                peer: (std::net::IpAddr::from([192, 0, 2, 1]), 40_000),
                class: Some(1),
                any_class: key.is_some(),
                source: stamp::tlv::Source::Ntp,
                counters: Some((2, 2)),
                before: Some((1, packet.sent)),
            };
            let _ = stamp::tlv::answer(key, &mut again[tail..], packet.sequence, 1, &answers);
            let reflection = stamp::Reflection {
                sequence: 1,
                replied: packet.sent,
                error: packet.error,
                received: packet.sent,
                sender_ttl: 1,
            };
            let reply = stamp::reflect(key, &mut again, &reflection).expect("a good packet");
            assert_eq!(reply.len(), bytes.len());
            let found = stamp::ReflectorPacket::decode(key, reply);
            assert_eq!(found, Ok(stamp::ReflectorPacket { reflection, sender: packet }));
        }
        if let Ok(packet) = stamp::ReflectorPacket::decode(key, bytes) {
            let _ = (packet.reflection.received.unix_ns(), packet.reflection.error.as_ns());
        }
        let _ = stamp::tlv::Tlv::all(bytes).filter_map(|tlv| tlv.answer()).count();
    }
}
