use proptest::prelude::*;

use super::super::frame::LinkType;
use super::super::probe::{Found, STAMP_PORT, find};
use super::super::sample::*;
use super::*;

/// Runs a filter as the kernel does; a load beyond the packet drops it.
fn run(filter: &[FilterStep], protocol: u16, packet: &[u8]) -> u32 {
    let (mut a, mut x, mut stored, mut at) = (0_u32, 0_u32, 0_u32, 0_usize);
    let byte = |at: u32| packet.get(at as usize).map(|&byte| u32::from(byte));
    let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
    loop {
        let (code, yes, no, k) = filter[at];
        at += 1;
        let loaded = match code {
            LOAD_HALF if k == PROTOCOL_AT => Some(protocol.into()),
            LOAD_HALF => half(k),
            LOAD_BYTE => byte(k),
            LOAD_HALF_X => half(x + k),
            LOAD_BYTE_X => byte(x + k),
            _ => Some(a),
        };
        let Some(loaded) = loaded else { return 0 };
        a = loaded;
        match code {
            HEADER_TO_X => {
                let Some(first) = byte(k) else { return 0 };
                x = (first & 0xf) * 4;
            }
            AND => a &= k,
            ADD => a = a.wrapping_add(k),
            SHIFT_LEFT => a <<= k,
            SET => a = k,
            SET_X => x = k,
            SUBTRACT => a = a.wrapping_sub(k),
            STORE => stored = a,
            LOAD_STORED => a = stored,
            TO_X => x = a,
            EQUAL => at += usize::from(if a == k { yes } else { no }),
            EQUAL_X => at += usize::from(if a == x { yes } else { no }),
            JUMP => at += k as usize,
            RETURN => return k,
            LOAD_HALF | LOAD_BYTE | LOAD_HALF_X | LOAD_BYTE_X => {}
            other => panic!("unknown code {other:#x}"),
        }
    }
}

fn wanted() -> Wanted {
    Wanted { ports: vec![8_462, 9_000], icmp: true, stamp: Some(STAMP_PORT) }
}

fn passes(wanted: &Wanted, packet: &[u8]) -> u32 {
    run(&filter(wanted), if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, packet)
}

#[test]
fn a_probe_passes_with_its_head_and_a_large_packet_with_all_of_it() {
    let there = (4_000, 8_462);
    assert_eq!(passes(&wanted(), &udp(V4, there, &full_request(1, 1_000))), HEAD_BYTE);
    let two = [full_request(1, 64), full_request(2, 64)].concat();
    assert_eq!(passes(&wanted(), &udp(V4, there, &two)), WHOLE);
    assert_eq!(passes(&wanted(), &udp(V4, there, &short_request(1, 18))), WHOLE);
    assert_eq!(passes(&wanted(), &udp(V6, there, &full_request(1, 64))), WHOLE);
    for ends in [V4, V6] {
        assert_eq!(passes(&wanted(), &echo(ends, true, 1, 2, 10)), HEAD_BYTE);
        assert!(passes(&wanted(), &udp(ends, (862, 5), &stamp_reply(1, 44))) > 0);
    }
}

#[test]
fn what_is_not_wanted_is_dropped_in_the_kernel() {
    let only_icmp = Wanted { ports: Vec::new(), icmp: true, stamp: None };
    for ends in [V4, V6] {
        for (wanted, packet) in [
            (&wanted(), udp(ends, (4_000, 53), &[0; 40])),
            (&Wanted::default(), echo(ends, false, 1, 2, 10)),
            (&Wanted::default(), udp(ends, (4_000, 862), &stamp_request(1, 44))),
            (&only_icmp, udp(ends, (4_000, 8_462), &full_request(1, 64))),
            (&wanted(), ip(ends, 6, &[0; 40])),
        ] {
            assert_eq!(passes(wanted, &packet), 0, "{packet:?}");
        }
    }
    assert_eq!(run(&filter(&wanted()), 0x0806, &[0; 40]), 0, "ARP");
    let mut fragment = udp(V4, (4_000, 8_462), &full_request(1, 64));
    fragment[7] = 1;
    assert_eq!(passes(&wanted(), &fragment), 0);
}

/// An IPv6 packet with these headers between its own and the payload: each the number of its kind, then its bytes from
/// the second on.
fn extended(headers: &[(u8, &[u8])], protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut packet = ip(V6, headers.first().map_or(protocol, |first| first.0), &[]);
    for (at, (_, rest)) in headers.iter().enumerate() {
        packet.push(headers.get(at + 1).map_or(protocol, |next| next.0));
        packet.extend_from_slice(rest);
    }
    packet.extend_from_slice(transport);
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet
}

/// Options: none, but eight bytes of them; routing over nobody; the first fragment of a packet.
const OPTIONS: [u8; 7] = [0, 1, 4, 0, 0, 0, 0];
const LONG_OPTIONS: [u8; 15] = [1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const FIRST_FRAGMENT: [u8; 7] = [0, 0, 1, 0, 0, 0, 9];

#[test]
fn probes_behind_extension_headers_pass_and_reports_of_multicast_listeners_do_not() {
    let datagram = &udp(V6, (4_000, 8_462), &full_request(1, 64))[40..];
    let other = &udp(V6, (4_000, 53), &full_request(1, 64))[40..];
    let request = &echo(V6, false, 1, 2, 10)[40..];
    let none = Wanted { ports: vec![8_462], icmp: false, stamp: None };
    // Router alert, then a report (RFC 3810) or the question for reports (RFC 2710).
    let alert: (u8, &[u8]) = (0, &[0, 5, 2, 0, 0, 1, 0]);
    for kind in [143, 130, 131] {
        let report = extended(&[alert], 58, &[kind, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0]);
        assert_eq!((passes(&wanted(), &report), passes(&none, &report)), (0, 0), "type {kind}");
    }
    for header in [(0, &OPTIONS[..]), (60, &LONG_OPTIONS), (43, &OPTIONS), (44, &FIRST_FRAGMENT)] {
        let whole = extended(&[header], 17, datagram);
        let read = frame::read(LinkType::RawIp, &whole).expect("a datagram");
        assert_ne!(find(&read, None, &wanted(), &mut |_| {}), Found::default());
        assert_eq!(passes(&wanted(), &whole), WHOLE);
        assert_eq!(passes(&wanted(), &extended(&[header], 17, other)), 0);
        assert_eq!(passes(&wanted(), &extended(&[header], 58, request)), WHOLE);
        assert_eq!(passes(&none, &extended(&[header], 58, request)), 0);
        // What stands behind a second one is for the program to check.
        assert_eq!(passes(&wanted(), &extended(&[header, (60, &OPTIONS)], 17, datagram)), WHOLE);
    }
    let later: (u8, &[u8]) = (44, &[0, 0, 9, 0, 0, 0, 9]);
    assert_eq!(passes(&wanted(), &extended(&[later], 17, datagram)), 0);
}

#[test]
fn the_largest_filter_has_jumps_that_fit() {
    let most = Wanted { ports: (1..=16).collect(), icmp: true, stamp: Some(STAMP_PORT) };
    let steps = filter(&most);
    assert!(steps.len() < 256, "{} steps", steps.len());
    for port in [1, 16, STAMP_PORT] {
        for ends in [V4, V6] {
            assert!(passes(&most, &udp(ends, (port, 40_000), &full_request(1, 64))) > 0);
            assert!(passes(&most, &udp(ends, (40_000, port), &full_request(1, 64))) > 0);
        }
    }
    assert_eq!(passes(&most, &udp(V4, (17, 18), &full_request(1, 64))), 0);
}

proptest! {
    #[test]
    fn what_holds_a_probe_passes_the_filter(
        bytes in proptest::collection::vec(any::<u8>(), 28..120),
        v6: bool, protocol in prop::sample::select(vec![1_u8, 17, 58]),
        at_port: bool, words in 5_u8..9,
    ) {
        // Random headers with the fields that decide made likely.
        let mut packet = bytes;
        packet.resize(120, 0x11);
        packet[0] = if v6 { 0x60 } else { 0x40 | words };
        let (kind_at, length_at, header) = if v6 { (6, 4, 40) } else { (9, 2, usize::from(words) * 4) };
        packet[kind_at] = protocol;
        packet[length_at] = 0;
        if at_port {
            packet[header + 2..header + 4].copy_from_slice(&8_462_u16.to_be_bytes());
        }
        let wanted = wanted();
        if let Ok(read) = frame::read(LinkType::RawIp, &packet) {
            let found = find(&read, None, &wanted, &mut |_| {});
            if found != Found::default() {
                prop_assert!(passes(&wanted, &packet) > 0);
            }
        }
    }
}
