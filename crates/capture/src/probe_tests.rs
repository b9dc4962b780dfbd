use proptest::prelude::*;

use super::super::frame::{self, LinkType};
use super::super::sample::*;
use super::*;

fn wanted() -> Wanted {
    Wanted { ports: vec![8_462, 9_000], icmp: true, stamp: Some(STAMP_PORT) }
}

fn found_in(packet: &[u8], segment_byte: Option<u16>, wanted: &Wanted) -> (Vec<Probe>, Found) {
    let mut probes = Vec::new();
    let packet = frame::read(LinkType::RawIp, packet).expect("a packet");
    let found = find(&packet, segment_byte, wanted, &mut |probe| probes.push(probe));
    assert_eq!(found.probes as usize, probes.len());
    (probes, found)
}

/// The one probe in a packet.
fn one(packet: &[u8]) -> Probe {
    let (probes, found) = found_in(packet, None, &wanted());
    assert_eq!(found, Found { probes: 1, ..Found::default() });
    assert!(!probes[0].merged);
    probes[0]
}

#[test]
fn each_form_states_whose_it_is_and_which() {
    let (there, back) = ((4_000, 8_462), (8_462, 4_000));
    let seen = |packet: Vec<u8>| {
        let probe = one(&packet);
        assert_eq!(probe.ip_byte as usize, packet.len());
        (probe.shape.as_str(), probe.shape.kind(probe.role), probe.session, probe.sequence)
    };
    for ends in [V4, V6] {
        let large = 1 << 40;
        assert_eq!(seen(udp(ends, there, &full_request(large, 64))), ("full", "request", SESSION.0, large));
        assert_eq!(seen(udp(ends, back, &full_reply(large, 64))), ("full", "reply", SESSION.0, large));
        assert_eq!(seen(udp(ends, there, &short_request(5, 18))), ("short", "request", HANDLE.into(), 5));
        assert_eq!(seen(udp(ends, back, &short_reply(5, 18))), ("short", "reply", HANDLE.into(), 5));
        assert_eq!(seen(udp(ends, (4_000, 862), &stamp_request(9, 44))), ("stamp", "stamp_request", 77, 9));
        assert_eq!(seen(udp(ends, (862, 4_000), &stamp_reply(9, 44))), ("stamp", "stamp_reply", 77, 9));
        assert_eq!(seen(udp(ends, (862, 862), &stamp_request(9, 44))), ("stamp", "stamp_request", 77, 9));
        assert_eq!(seen(echo(ends, false, 3, 4, 56)), ("icmp", "echo_request", 3, 4));
        assert_eq!(seen(echo(ends, true, 3, 4, 56)), ("icmp", "echo_reply", 3, 4));
    }
    let probe = one(&udp(V4, there, &full_request(0, 64)));
    assert_eq!(
        (probe.source.to_string(), probe.destination.to_string()),
        ("10.0.0.1:4000".into(), "10.0.0.2:8462".into())
    );
    assert_eq!(one(&echo(V6, false, 3, 4, 0)).source.to_string(), "fd00::1");
    assert_eq!(one(&udp(V6, there, &full_request(0, 64))).source.to_string(), "[fd00::1]:4000");
}

#[test]
fn what_was_not_asked_for_is_not_found() {
    let nothing = Found::default();
    let other = udp(V4, (4_000, 53), &full_request(0, 64));
    assert_eq!(found_in(&other, None, &wanted()).1, nothing);
    assert_eq!(found_in(&echo(V4, false, 3, 4, 56), None, &Wanted::default()).1, nothing);
    assert_eq!(found_in(&udp(V4, (4_000, 862), &stamp_request(9, 44)), None, &Wanted::default()).1, nothing);
    for noise in [&b"GET / HTTP/1.1 and so on for a while"[..], &[0x21; 64], &[0x14; 64], &full_request(0, 64)[..17]] {
        assert_eq!(found_in(&udp(V4, (4_000, 8_462), noise), None, &wanted()).1, nothing, "{noise:?}");
    }
}

#[test]
fn a_packet_cut_behind_its_head_is_still_shown() {
    let whole = udp(V4, (4_000, 8_462), &full_request(3, 1_000));
    let packet = frame::read(LinkType::RawIp, &whole[..28 + 20]).expect("a packet");
    let mut seen = None;
    find(&packet, None, &wanted(), &mut |probe| seen = Some(probe));
    assert_eq!(seen.map(|probe| (probe.sequence, probe.ip_byte, probe.merged)), Some((3, 1_028, false)));
}

/// A large packet of probes 10, 11, ... whose last has `last` bytes.
fn large(make: impl Fn(u64, usize) -> Vec<u8>, count: u64, byte: usize, last: usize) -> Vec<u8> {
    let of = |at: u64| make(10 + at, if at + 1 == count { last } else { byte });
    udp(V4, (4_000, 8_462), &(0..count).flat_map(of).collect::<Vec<u8>>())
}

#[test]
fn a_large_packet_is_split_into_its_probes_with_or_without_the_kernels_word() {
    type Make = fn(u64, usize) -> Vec<u8>;
    let makes: [(Make, usize); 3] = [(full_request, 64), (full_reply, 100), (short_request, 18)];
    for (make, byte) in makes {
        for told in [None, Some(byte as u16)] {
            let packet = large(make, 50, byte, byte);
            let (probes, found) = found_in(&packet, told, &wanted());
            assert_eq!(found, Found { probes: 50, ..Found::default() });
            assert!(probes.iter().all(|probe| probe.merged && probe.ip_byte as usize == 28 + byte));
            assert!(probes.iter().map(|probe| probe.sequence).eq(10..60));
        }
    }
    let (probes, _) = found_in(&large(full_request, 3, 100, 70), None, &wanted());
    assert_eq!(probes.iter().map(|probe| probe.ip_byte).collect::<Vec<_>>(), [128, 128, 98]);
}

#[test]
fn a_large_packet_with_a_lost_neighbour_is_split_too() {
    let packet = udp(V4, (4_000, 8_462), &[short_request(4, 20), short_request(7, 20), short_request(8, 20)].concat());
    assert_eq!(found_in(&packet, None, &wanted()).0.iter().map(|probe| probe.sequence).collect::<Vec<_>>(), [4, 7, 8]);
}

#[test]
fn what_of_a_large_packet_was_not_captured_is_counted() {
    let whole = large(full_request, 50, 64, 64);
    let packet = frame::read(LinkType::RawIp, &whole[..28 + 64 * 3 + 10]).expect("a packet");
    let mut probes = 0;
    let found = find(&packet, None, &wanted(), &mut |_| probes += 1);
    assert_eq!((probes, found), (3, Found { probes: 3, unread: 47, unsplit: false }));
}

#[test]
fn a_large_packet_that_cannot_be_split_is_stated_and_never_one_probe() {
    // Longer than any probe, and of no form that repeats.
    let mut payload = short_request(1, 18);
    payload.resize(20_000, 0xee);
    let (probes, found) = found_in(&udp(V4, (4_000, 8_462), &payload), None, &wanted());
    assert_eq!((probes.len(), found), (0, Found { unsplit: true, ..Found::default() }));
    // More parts than the kernel ever puts together.
    let (probes, found) = found_in(&large(full_request, 200, 60, 60), None, &wanted());
    assert_eq!((probes.len(), found.unsplit), (0, true));
}

proptest! {
    #[test]
    fn any_payload_is_read_without_panic_and_adds_up(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        first in prop::sample::select(vec![0x11_u8, 0x12, 0x13, 0x19, 0x1a, 0x1b]),
        segment in prop::option::of(0_u16..400),
        port in prop::sample::select(vec![8_462_u16, 862, 4_000]), from in any::<u16>(),
    ) {
        let payload = [&[first][..], &payload].concat();
        let (probes, found) = found_in(&udp(V4, (from, port), &payload), segment, &wanted());
        let most = payload.len() / short::HEADER_BYTE + 1;
        prop_assert!(found.probes as usize + found.unread as usize <= most);
        prop_assert!(probes.iter().all(|probe| probe.ip_byte as usize <= payload.len() + 28));
    }

    #[test]
    fn one_probe_with_any_padding_is_one_probe(
        padding in proptest::collection::vec(any::<u8>(), 0..60), sequence in 0_u64..1 << 32,
    ) {
        let mut datagram = short_request(sequence, 18 + padding.len());
        datagram[18..].copy_from_slice(&padding);
        // Padding that is itself a following probe of the session makes a large packet, which random bytes do not.
        let (probes, found) = found_in(&udp(V4, (4_000, 8_462), &datagram), None, &wanted());
        prop_assert_eq!((probes.len(), found.probes), (1, 1));
    }
}
