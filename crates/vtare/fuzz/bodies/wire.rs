//! Any bytes through each decoder.

use vtare_units::{Span, Timestamp};
use vtare_wire::{SessionId, SessionKey, full, peek, short, stamp};

static KEY: SessionKey = SessionKey::new([7; 16]);

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
    if let Ok(packet) = stamp::SenderPacket::decode(bytes) {
        let _ = (packet.sent.unix_ns(), packet.error.as_ns());
        let mut again = bytes.to_vec();
        packet.encode(&mut again).expect("its size was right before");
        assert_eq!(stamp::SenderPacket::decode(&again), Ok(packet));
        let reflection = stamp::Reflection {
            sequence: packet.sequence,
            replied: packet.sent,
            error: packet.error,
            received: packet.sent,
            sender_ttl: 1,
        };
        let reply = stamp::reflect(&mut again, &reflection).expect("a good packet");
        assert_eq!(reply.len(), bytes.len());
        assert_eq!(stamp::ReflectorPacket::decode(reply), Ok(stamp::ReflectorPacket { reflection, sender: packet }));
    }
    if let Ok(packet) = stamp::ReflectorPacket::decode(bytes) {
        let _ = (packet.reflection.received.unix_ns(), packet.reflection.error.as_ns());
    }
}
