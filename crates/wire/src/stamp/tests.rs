use std::net::IpAddr;

use proptest::prelude::*;

use super::tlv::{self, Answer, Answers, Request, Source, Tlv};
use super::*;
use crate::tests::hex;

const SENT: Time = Time { bits: 0x0102_0304_0506_0708, format: TimeFormat::Ptp };
const SENDER: SenderPacket = SenderPacket {
    sequence: 0xa0a1_a2a3,
    sent: SENT,
    error: ErrorEstimate { synchronized: true, scale: 3, multiplier: 9 },
    session: 0xc0c1,
};
const REFLECTION: Reflection = Reflection {
    sequence: 0xb0b1_b2b3,
    replied: Time { bits: 0x1112_1314_1516_1718, format: TimeFormat::Ntp },
    error: ErrorEstimate { synchronized: false, scale: 0, multiplier: 1 },
    received: Time { bits: 0x2122_2324_2526_2728, format: TimeFormat::Ntp },
    sender_ttl: 63,
};
const ALL: [Request; 5] =
    [Request::Location, Request::Timestamps, Request::ClassOfService { dscp: 46 }, Request::Direct, Request::FollowUp];

fn key() -> StampKey {
    let mut bytes = [0; 32];
    (0..16).for_each(|at| bytes[usize::from(at)] = at);
    StampKey::new(bytes)
}

fn answers() -> Answers {
    Answers {
        local: (Some(IpAddr::from([192, 0, 2, 1])), 862),
        peer: (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]), 40_000),
        class: Some(0b1010_0011),
        any_class: true,
        source: Source::Ntp,
        counters: Some((90, 80)),
        before: Some((7, REFLECTION.replied)),
    }
}

/// A request with `requests`, `spare` bytes longer than it needs.
fn asked(requests: &[Request], key: Option<&StampKey>, spare: usize) -> Vec<u8> {
    let mut datagram = vec![0; packet_byte(key) + Request::bytes(requests, key) + spare];
    SENDER.encode(key, &mut datagram).expect("it has room");
    Request::write(requests, key, &mut datagram[packet_byte(key)..], SENDER.sequence, 100);
    datagram
}

#[test]
fn open_packets_lie_as_the_rfc_draws_them() {
    let mut datagram = [0xee_u8; 50];
    SENDER.encode(None, &mut datagram).expect("fits");
    // Sequence, timestamp, error estimate (S, Z, scale, multiplier), SSID, 28 B of zeros.
    assert_eq!(hex(&datagram[..16]), "a0a1a2a30102030405060708c309c0c1");
    assert_eq!(datagram[16..44], [0; 28]);
    let reply = reflect(None, &mut datagram, &REFLECTION).expect("well formed");
    let want = "b0b1b2b311121314151617180001c0c12122232425262728a0a1a2a30102030405060708c30900003f000000";
    assert_eq!(hex(&reply[..44]), want);
    assert_eq!((reply.len(), &reply[44..]), (50, &[0xee; 6][..]));
    assert_eq!(ReflectorPacket::decode(None, reply), Ok(ReflectorPacket { reflection: REFLECTION, sender: SENDER }));
}

/// The codes are those of Python's `hmac` and `hashlib` with the key's first 16 B over the bytes before them.
#[test]
fn authenticated_packets_lie_as_the_rfc_draws_them() {
    let key = key();
    let mut datagram = [0xee_u8; 115];
    SENDER.encode(Some(&key), &mut datagram).expect("fits");
    let zeros = |count: usize| "00".repeat(count);
    let want = format!("a0a1a2a3{}0102030405060708c309c0c1{}", zeros(12), zeros(68));
    assert_eq!(hex(&datagram[..96]), want);
    assert_eq!(hex(&datagram[96..112]), "99aa632ad328d82a93e16271b04d83a9");
    assert!(is_of_a_sender(Some(&key), &datagram));
    let reply = reflect(Some(&key), &mut datagram, &REFLECTION).expect("well formed");
    let want = format!(
        "b0b1b2b3{}11121314151617180001c0c1{}2122232425262728{}a0a1a2a3{}0102030405060708c309{}3f{}",
        zeros(12),
        zeros(4),
        zeros(8),
        zeros(12),
        zeros(6),
        zeros(15)
    );
    assert_eq!(hex(&reply[..96]), want);
    assert_eq!(hex(&reply[96..112]), "8d32f7a46a94595e06e09c81fbfe1763");
    assert_eq!(reply[112..], [0xee; 3]);
    assert!(!is_of_a_sender(Some(&key), reply), "else two reflectors would answer each other");
    let found = ReflectorPacket::decode(Some(&key), reply);
    assert_eq!(found, Ok(ReflectorPacket { reflection: REFLECTION, sender: SENDER }));
}

#[test]
fn another_key_fits_nothing() {
    let other = StampKey::new([9; 32]);
    let datagram = asked(&ALL, Some(&key()), 0);
    assert_eq!(SenderPacket::decode(Some(&other), &datagram), Err(WireError::Tag));
    assert_eq!(format!("{other:?}"), "StampKey(..)");
}

#[test]
fn an_error_estimate_with_multiplier_0_is_refused() {
    assert_eq!(SenderPacket::decode(None, &[0; 44]), Err(WireError::Reserved { found: 0 }));
}

#[test]
fn ntp_seconds_go_on_after_2036() {
    let after = 2_100_000_000 * 1_000_000_000_u64 + 123;
    assert_eq!(Time::from_unix_ns(after, TimeFormat::Ntp).unix_ns(), Some(after));
    let invalid = Time { bits: 1_000_000_000, format: TimeFormat::Ptp };
    assert_eq!(invalid.unix_ns(), None);
}

#[test]
fn requests_lie_as_rfc_8972_draws_them_and_are_answered_in_their_own_bytes() {
    for key in [None, Some(&key())] {
        for spare in [0, 3, 4, 100] {
            let mut datagram = asked(&ALL, key, spare);
            let tail = &mut datagram[packet_byte(key)..];
            let want = "8002002c00000000800400100000000000000000000000000000000080070010000000000000000000000000000000\
                        008003000400000000800400 04b8000000 8005000c000000640000000000000000 80070010"
                .replace(' ', "");
            assert!(hex(tail).starts_with(&want), "{}", hex(tail));
            let length = tail.len();
            let dscp = tlv::answer(key, tail, SENDER.sequence, REFLECTION.sequence, &answers());
            assert_eq!((dscp, tail.len()), (Some(46), length));
            assert!(tlv::is_authentic(key, tail, REFLECTION.sequence));
            let found: Vec<Answer> = Tlv::all(tail).filter_map(|tlv| tlv.answer()).collect();
            let want = [
                Answer::Location {
                    destination: (Some(IpAddr::from([192, 0, 2, 1])), 862),
                    source: (Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7])), 40_000),
                },
                Answer::Timestamps { received: (1, 2), replied: (1, 2) },
                Answer::ClassOfService { dscp: 0b10_1000, ecn: 3, kept: true },
                Answer::Direct { sent: 100, received: 90, replied: 80 },
                Answer::FollowUp { sequence: 7, bits: REFLECTION.replied.bits },
            ];
            assert_eq!(found, want);
            assert_eq!(found[4].follow_up(TimeFormat::Ntp), Some((7, REFLECTION.replied)));
            assert_eq!(Tlv::all(tail).any(|tlv| tlv.is_padding()), spare >= 4);
        }
    }
}

#[test]
fn what_a_reflector_cannot_state_is_returned_as_unknown() {
    let mut datagram = asked(&ALL, None, 0);
    let nothing = Answers { local: (None, 862), class: None, counters: None, before: None, ..answers() };
    assert_eq!(tlv::answer(None, &mut datagram[44..], 1, 1, &nothing), None);
    let found: Vec<Option<Answer>> = Tlv::all(&datagram[44..]).map(|tlv| tlv.answer()).collect();
    assert!(matches!(found[0], Some(Answer::Location { destination: (None, 862), source: (Some(_), 40_000) })));
    assert!(matches!(found[1], Some(Answer::Timestamps { .. })));
    assert_eq!(found[2..], [None; 3]);
    // A reflector that knows no extensions copies them.
    assert!(Tlv::all(&asked(&ALL, None, 0)[44..]).all(|tlv| tlv.answer().is_none()));
}

#[test]
fn the_first_reply_of_a_session_has_no_reply_before_it() {
    let mut datagram = asked(&[Request::FollowUp], None, 0);
    tlv::answer(None, &mut datagram[44..], 1, 1, &Answers { before: None, ..answers() });
    let answer = Tlv::all(&datagram[44..]).next().and_then(|tlv| tlv.answer());
    assert_eq!(answer, Some(Answer::FollowUp { sequence: 0, bits: 0 }));
    assert_eq!(answer.and_then(|answer| answer.follow_up(TimeFormat::Ntp)), None);
}

#[test]
fn a_class_that_may_not_be_given_is_refused_and_the_packets_own_is_kept() {
    let mut datagram = asked(&[Request::ClassOfService { dscp: 46 }], None, 0);
    let dscp = tlv::answer(None, &mut datagram[44..], 1, 1, &Answers { any_class: false, ..answers() });
    assert_eq!(dscp, Some(0b10_1000));
    let answer = Tlv::all(&datagram[44..]).next().and_then(|tlv| tlv.answer());
    assert_eq!(answer, Some(Answer::ClassOfService { dscp: 0b10_1000, ecn: 3, kept: false }));
}

#[test]
fn extensions_whose_code_does_not_fit_are_all_marked_and_none_is_answered() {
    let key = key();
    let at = packet_byte(Some(&key));
    let good = asked(&ALL, Some(&key), 8);
    // A flipped bit; no code at all; a number that the code is not over; something behind the code.
    let mut flipped = good.clone();
    flipped[at + 5] ^= 1;
    let mut bare = vec![0; at + 16];
    Request::write(&[Request::Direct], None, &mut bare[at..], SENDER.sequence, 0);
    let mut behind = good.clone();
    let padding = good.len() - 8;
    behind[padding + 1] = 3;
    for (mut datagram, sequence) in
        [(flipped, SENDER.sequence), (bare, SENDER.sequence), (good.clone(), 7), (behind, SENDER.sequence)]
    {
        let tail = &mut datagram[at..];
        assert_eq!(tlv::answer(Some(&key), tail, sequence, sequence, &answers()), None);
        assert!(Tlv::all(tail).count() > 0 && Tlv::all(tail).all(|tlv| tlv.flags == tlv::INTEGRITY));
        assert!(!tlv::is_authentic(Some(&key), tail, sequence));
    }
    assert!(tlv::is_authentic(Some(&key), &[], 7), "nothing that needs a code");
}

/// One extension.
fn extension(kind: u8, length: u16, value: &[u8]) -> Vec<u8> {
    [&[tlv::UNRECOGNIZED, kind][..], &length.to_be_bytes(), value].concat()
}

/// `extensions` with their code behind them, as a holder of the key sends them.
fn coded(extensions: &[u8]) -> Vec<u8> {
    let code = key().code(&[&SENDER.sequence.to_be_bytes(), extensions]);
    [extensions, &extension(8, 16, &code)].concat()
}

/// What a reflector makes of them: the bytes, and the class that it is to answer with.
fn reflected(mut tail: Vec<u8>) -> (Vec<u8>, Option<u8>) {
    let dscp = tlv::answer(Some(&key()), &mut tail, SENDER.sequence, REFLECTION.sequence, &answers());
    (tail, dscp)
}

#[test]
fn attack_hostile_extensions_before_a_valid_code() {
    let location = |inner: &[u8]| extension(2, 4 + inner.len() as u16, &[&[0; 4], inner].concat());
    let nested = (0..100).fold(Vec::new(), |inner, _| location(&[&extension(4, 16, &[0; 16])[..], &inner].concat()));
    let hostile = [
        ("empty values", [2, 3, 4, 5, 7].map(|kind| extension(kind, 0, &[])).concat()),
        ("a thousand", extension(3, 4, &[0; 4]).repeat(1_000)),
        ("a thousand without a value", extension(99, 0, &[]).repeat(1_000)),
        ("unknown types", (9..=255).flat_map(|kind| extension(kind, 3, &[1, 2, 3])).collect()),
        ("an inner length beyond the outer one", location(&extension(4, u16::MAX, &[0; 16]))),
        ("one in another in another", nested),
        ("half an inner header", location(&[0x80, 4, 0])),
    ];
    for (name, extensions) in hostile {
        let sent = coded(&extensions);
        let (tail, _) = reflected(sent.clone());
        assert_eq!(tail.len(), sent.len(), "{name}");
        assert!(tlv::is_authentic(Some(&key()), &tail, REFLECTION.sequence), "{name}: answered with its own code");
        assert_eq!(Tlv::all(&tail).count(), Tlv::all(&sent).count(), "{name}: no length is changed");
        // A sender that reads the answers of a hostile reflector meets the same.
        assert!(Tlv::all(&sent).filter_map(|tlv| tlv.answer()).count() <= sent.len());
    }
    // A length beyond the packet: nothing behind it is a code, so nothing is answered.
    let sent = coded(&extension(4, 60_000, &[46 << 2, 0, 0, 0]));
    let (tail, dscp) = reflected(sent.clone());
    assert_eq!((tail[0], &tail[1..], dscp), (tlv::MALFORMED, &sent[1..], None));
    println!("ATTACK extensions_before_a_code: survived, packets answered beyond their length 0 of 8");
}

#[test]
fn attack_extensions_behind_a_valid_code_are_not_answered() {
    let class = extension(4, 4, &[46 << 2, 0, 0, 0]);
    let between: [&[u8]; 6] =
        [&[], &[0x80, 0, 0, 0], &[0, 0, 0, 0], &extension(0, 2, &[1, 2]), &extension(1, 0, &[]), &coded(&[])];
    for hidden_by in between {
        let genuine = coded(&extension(3, 4, &[0; 4]));
        let sent = [&genuine[..], hidden_by, &class].concat();
        let (tail, dscp) = reflected(sent.clone());
        assert_eq!(dscp, None, "{hidden_by:?}: whoever added it has no key");
        let of_class = sent.len() - class.len() + 4;
        assert_eq!(tail[of_class..], sent[of_class..], "{hidden_by:?}");
    }
    println!("ATTACK extensions_behind_a_code: survived, answered 0 of 6");
}

#[test]
fn unknown_types_and_wrong_lengths_are_marked_and_padding_of_rfc_8762_stays() {
    let answered = |bytes: &[u8]| {
        let mut tail = bytes.to_vec();
        tlv::answer(None, &mut tail, 1, 1, &answers());
        tail
    };
    assert_eq!(answered(&[0x80, 99, 0, 1, 5]), [0x80, 99, 0, 1, 5], "unknown");
    assert_eq!(answered(&[0x80, 3, 0, 1, 5]), [0x40, 3, 0, 1, 5], "times take 4 B");
    assert_eq!(answered(&[0x80, 3, 0, 5, 0, 0, 0, 0]), [0x40, 3, 0, 5, 0, 0, 0, 0], "beyond the datagram");
    assert_eq!(answered(&[0x80, 8, 0, 1, 5]), [0x80, 8, 0, 1, 5], "a code without a key");
    assert_eq!(answered(&[0x80, 2, 0, 3, 1, 1, 1])[0], 0x40, "a location has ports");
    let sub = answered(&[0x80, 2, 0, 12, 0, 0, 0, 0, 0x80, 4, 0, 4, 0, 0, 0, 0]);
    assert_eq!((sub[0], sub[8]), (0, 0x40), "an address takes 16 B");
    for padding in [&[0; 9][..], &[0x5e; 9], &[0x80, 0, 0, 0, 0, 0]] {
        assert_eq!(answered(padding), padding);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_and_answered_without_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        kinds in proptest::collection::vec((0_u8..12, 0_u8..30), 0..6),
    ) {
        for forced in [false, true] {
            for key in [None, Some(&key())] {
                let at = packet_byte(key);
                if forced {
                    let mut place = at;
                    for (kind, length) in &kinds {
                        crate::bytes::put(&mut bytes, place, &[0x80, *kind, 0, *length]);
                        place += 4 + usize::from(*length);
                    }
                }
                if let Ok(packet) = SenderPacket::decode(key, &bytes) {
                    let mut again = vec![0; bytes.len()];
                    packet.encode(key, &mut again).expect("the length was right before");
                    prop_assert_eq!(SenderPacket::decode(key, &again), Ok(packet));
                }
                let _ = ReflectorPacket::decode(key, &bytes);
                if let Some(tail) = bytes.get(at..) {
                    let mut tail = tail.to_vec();
                    let length = tail.len();
                    let _ = tlv::answer(key, &mut tail, 1, 2, &answers());
                    prop_assert_eq!(tail.len(), length);
                    prop_assert!(Tlv::all(&tail).filter_map(|tlv| tlv.answer()).count() <= length);
                }
            }
        }
    }

    #[test]
    fn a_stamp_time_keeps_its_nanosecond(
        ns in 0_u64..4_000_000_000_000_000_000,
        error in 0_u64..1 << 60,
        synchronized: bool,
    ) {
        for format in [TimeFormat::Ntp, TimeFormat::Ptp] {
            prop_assert_eq!(Time::from_unix_ns(ns, format).unix_ns(), Some(ns));
        }
        let estimate = ErrorEstimate::of_ns(error, synchronized);
        prop_assert!(estimate.as_ns() >= error);
        // One step of a multiplier of at least 128 is less than 1 %.
        prop_assert!(estimate.as_ns() as f64 <= error as f64 * 1.01 + 2.0);
        prop_assert!(estimate.multiplier > 0 && estimate.scale < 64);
    }
}
