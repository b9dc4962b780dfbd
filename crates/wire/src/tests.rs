use proptest::prelude::*;
use vtare_units::{Span, Timestamp};

use super::{Form, Kind, LARGEST_BYTE, SessionId, SessionKey, WireError, full, peek, short};

static KEY: SessionKey = SessionKey::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn full_probe(sequence: u64) -> full::Probe {
    full::Probe {
        session: SessionId(0x1122_3344_5566_7788),
        sequence,
        sent: Timestamp::from_nanos(1_000_000_007),
        wants_reply: true,
    }
}

fn context() -> short::Context<'static> {
    short::Context { session: SessionId(0x1122_3344_5566_7788), handle: 0x0102, key: &KEY }
}

/// The bytes of docs/internals/wire.md: a change here is a change of the format.
#[test]
fn the_formats_are_as_documented() {
    let mut datagram = [0xee_u8; 64];
    full_probe(5).encode(&KEY, &mut datagram).expect("64 B hold a header");
    let head = "11000040112233445566778800000000000000050000 00003b9aca07";
    assert_eq!(hex(&datagram[..28]), head.replace(' ', ""));
    assert_eq!(datagram[28..52], [0; 24]);
    assert_eq!(datagram[60..], [0xee; 4]);
    assert_eq!(hex(&datagram[52..60]), hex(&sip_hash_2_4(&datagram[..52]).to_be_bytes()));

    let mut datagram = [0_u8; 18];
    let probe = short::Probe::new(0x1_0000_0007, Timestamp::from_nanos(0xaa_0000_0009), true);
    probe.encode(&context(), &mut datagram).expect("18 B hold a header");
    assert_eq!(hex(&datagram[..11]), "1901020000000700000009");
    let mut covered = datagram[..11].to_vec();
    covered.extend(0x1122_3344_5566_7788_u64.to_be_bytes());
    covered.extend(0x1_0000_0007_u64.to_be_bytes());
    assert_eq!(hex(&datagram[11..]), hex(&sip_hash_2_4(&covered).to_be_bytes()[..7]));
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SipHash-2-4 with [`KEY`], written out from the paper: what a BPF program or another language computes.
fn sip_hash_2_4(data: &[u8]) -> u64 {
    let (k0, k1) = (0x0706_0504_0302_0100_u64, 0x0f0e_0d0c_0b0a_0908_u64);
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    fn round(v: &mut [u64; 4]) {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
    let mut padded = data.to_vec();
    padded.resize(data.len() / 8 * 8 + 7, 0);
    padded.push(data.len() as u8);
    for word in padded.chunks_exact(8) {
        let m = u64::from_le_bytes(word.try_into().expect("8 B"));
        v[3] ^= m;
        round(&mut v);
        round(&mut v);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Appendix A of Aumasson and Bernstein 2012: the key above, 15 bytes.
#[test]
fn the_tag_is_the_published_function() {
    let message: Vec<u8> = (0..15).collect();
    assert_eq!(sip_hash_2_4(&message), 0xa129_ca61_49be_45e5);
    assert_eq!(KEY.tag(&message), 0xa129_ca61_49be_45e5);
}

#[test]
fn a_key_is_never_printed() {
    assert_eq!(format!("{KEY:?}"), "SessionKey(..)");
}

#[test]
fn errors_state_what_was_found_and_what_is_wanted() {
    let error = full_probe(0).encode(&KEY, &mut [0; 59]).expect_err("too short");
    assert_eq!(error.to_string(), "datagram of 59 B, its header needs 60 B");
    let error = full_probe(0).encode(&KEY, &mut vec![0; LARGEST_BYTE + 1]).expect_err("too long");
    assert_eq!(error.to_string(), "datagram of 9001 B, at most 9000 B are allowed");
    assert_eq!(peek(&[0x21]), Err(WireError::Version { found: 2 }));
    assert_eq!(peek(&[]), Err(WireError::TooShort { found_byte: 0, need_byte: 18 }));
    assert_eq!(peek(&[0x15]), Err(WireError::Kind { found: 5 }));
    assert_eq!(peek(&[0x1c]), Err(WireError::Kind { found: 12 }), "trains back have the full form");
    let mut datagram = [0; 80];
    full_probe(1).encode(&KEY, &mut datagram).expect("fits");
    let cut = full::Unverified::parse(&datagram[..70]).expect_err("10 B are missing");
    assert_eq!(cut.to_string(), "found a datagram of 70 B whose header states 80 B");
}

#[test]
fn a_reply_is_no_request_and_a_request_no_reply() {
    let mut datagram = [0_u8; 60];
    full_probe(1).encode(&KEY, &mut datagram).expect("fits");
    let unverified = full::Unverified::parse(&datagram[..]).expect("well formed");
    assert_eq!(unverified.reply(&KEY), Err(WireError::Kind { found: 1 }));
    let one_way = full::Probe { wants_reply: false, ..full_probe(1) };
    one_way.encode(&KEY, &mut datagram).expect("fits");
    let unverified = full::Unverified::parse(&mut datagram[..]).expect("well formed");
    assert_eq!(unverified.request(&KEY).expect_err("wants no reply"), WireError::Kind { found: 3 });
}

#[test]
fn a_short_packet_of_another_session_or_another_round_of_numbers_does_not_fit() {
    let mut datagram = [0_u8; 18];
    short::Probe::new(7, Timestamp::ZERO, true).encode(&context(), &mut datagram).expect("fits");
    let unverified = short::Unverified::parse(&datagram[..]).expect("well formed");
    assert!(unverified.probe(&context(), 3).is_ok());
    assert_eq!(unverified.probe(&context(), 1 << 33), Err(WireError::Tag));
    let other = short::Context { session: SessionId(1), ..context() };
    assert_eq!(unverified.probe(&other, 3), Err(WireError::Tag));
}

#[test]
fn a_turnaround_off_the_scale_is_missing_and_not_wrong() {
    for (turnaround, found) in [(4_294_967_294, Some(4_294_967_294)), (4_294_967_295, None), (5_000_000_000, None)] {
        let mut datagram = [0_u8; 18];
        short::Probe::new(7, Timestamp::ZERO, true).encode(&context(), &mut datagram).expect("fits");
        let unverified = short::Unverified::parse(&mut datagram[..]).expect("well formed");
        let request = unverified.request(&context(), 7).expect("right tag");
        let reply = request.into_reply(&context(), Span::from_nanos(turnaround));
        let reply = short::Unverified::parse(&reply[..]).and_then(|it| it.reply(&context(), 7)).expect("right tag");
        assert_eq!(reply.turnaround, found.map(Span::from_nanos));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        first in 0x10_u8..0x20,
        near in any::<u64>(),
    ) {
        for forced in [false, true] {
            if forced && !bytes.is_empty() {
                bytes[0] = first;
                if bytes.len() >= 4 {
                    let size = (bytes.len() as u16).to_be_bytes();
                    bytes[2..4].copy_from_slice(&size);
                }
            }
            if let Ok(unverified) = full::Unverified::parse(&bytes[..]) {
                prop_assert!(unverified.probe(&KEY).is_err() && unverified.reply(&KEY).is_err());
            }
            if let Ok(unverified) = short::Unverified::parse(&bytes[..]) {
                prop_assert!(unverified.probe(&context(), near).is_err());
                prop_assert!(unverified.reply(&context(), near).is_err());
            }
        }
    }

    #[test]
    fn a_full_exchange_brings_back_what_was_put_in(
        session in any::<u64>(), sequence in any::<u64>(), sent in any::<u64>(), size in 60_usize..9001,
        times in any::<(u64, u64, u64)>(), flags in 0_u8..8, pad in any::<u8>(),
    ) {
        let sent = Timestamp::from_nanos(sent);
        let probe = full::Probe { session: SessionId(session), sequence, sent, wants_reply: true };
        let mut datagram = vec![pad; size];
        probe.encode(&KEY, &mut datagram).expect("fits");
        prop_assert_eq!(peek(&datagram), Ok((Form::Full, Kind::Request)));
        let turnaround = full::Turnaround {
            received: Timestamp::from_nanos(times.0),
            replied: Timestamp::from_nanos(times.1),
            accepted: times.2,
            flags: full::ReplyFlags {
                rx_by_kernel: flags & 1 != 0,
                rx_by_hardware: flags & 2 != 0,
                wall_clock: flags & 4 != 0,
            },
        };
        let request = full::Unverified::parse(&mut datagram[..]).and_then(|it| it.request(&KEY)).expect("right tag");
        prop_assert_eq!(*request.probe(), probe);
        let reply = request.into_reply(&KEY, &turnaround);
        prop_assert_eq!(reply.len(), size);
        prop_assert!(reply[60..].iter().all(|&byte| byte == pad));
        let reply = full::Unverified::parse(&reply[..]).and_then(|it| it.reply(&KEY)).expect("right tag");
        prop_assert_eq!(reply, full::Reply { probe, turnaround });
    }

    #[test]
    fn one_flipped_bit_of_a_header_is_noticed(bit in 0_usize..480, short_bit in 0_usize..144) {
        let mut datagram = [0_u8; 64];
        full_probe(5).encode(&KEY, &mut datagram).expect("fits");
        datagram[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(full::Unverified::parse(&datagram[..]).and_then(|it| it.probe(&KEY)).is_err());
        let mut datagram = [0_u8; 18];
        short::Probe::new(5, Timestamp::ZERO, true).encode(&context(), &mut datagram).expect("fits");
        datagram[short_bit / 8] ^= 1 << (short_bit % 8);
        prop_assert!(short::Unverified::parse(&datagram[..]).and_then(|it| it.probe(&context(), 5)).is_err());
    }

    #[test]
    fn another_key_does_not_open_it(key in any::<[u8; 16]>()) {
        prop_assume!(key != *KEY.expose());
        let mut datagram = [0_u8; 60];
        full_probe(5).encode(&SessionKey::new(key), &mut datagram).expect("fits");
        prop_assert_eq!(full::Unverified::parse(&datagram[..]).and_then(|it| it.probe(&KEY)), Err(WireError::Tag));
    }

    #[test]
    fn a_short_number_is_made_whole_within_2_31_of_its_neighbour(
        near in any::<u64>(),
        ahead in -(1_i64 << 31)..1 << 31,
        sent in any::<u64>(),
        wait in 0_u64..2_000_000_000,
    ) {
        if let Some(sequence) = near.checked_add_signed(ahead) {
            prop_assert_eq!(short::whole_sequence(sequence as u32, near), sequence);
        }
        let arrived = Timestamp::from_nanos(sent.saturating_add(wait));
        let probe = short::Probe::new(0, Timestamp::from_nanos(sent), true);
        if arrived.as_nanos() - sent == wait {
            prop_assert_eq!(probe.sent_near(arrived), Timestamp::from_nanos(sent));
        }
    }
}
