use proptest::prelude::*;

use super::super::sample::{V4, V6, echo, ethernet, ip, udp};
use super::*;

fn udp_packet<'a>(packet: Result<Packet<'a>, NoPacket>) -> Packet<'a> {
    let packet = packet.expect("a packet");
    assert_eq!(packet.transport, Transport::Udp { source: 4_000, destination: 8_462 });
    packet
}

#[test]
fn a_datagram_is_found_behind_each_link_header() {
    for ends in [V4, V6] {
        let bare = udp(ends, (4_000, 8_462), &[7; 30]);
        let kind: [u8; 2] = if ends == V4 { [0x08, 0] } else { [0x86, 0xdd] };
        let cooked = |sent: u8| [&[0, sent, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &kind, &bare].concat();
        let cooked2 =
            |sent: u8| [&kind[..], &[0, 0, 0, 0, 0, 3, 0, 1, sent, 6, 2, 2, 2, 2, 2, 2, 0, 0], &bare].concat();
        let (rx, tx) = (Some(Direction::Rx), Some(Direction::Tx));
        for (link, frame, direction) in [
            (1, ethernet(&bare, &[]), None),
            (1, ethernet(&bare, &[0x8100]), None),
            (1, ethernet(&bare, &[0x88a8, 0x8100]), None),
            (101, bare.clone(), None),
            (0, [&[2, 0, 0, 0][..], &bare].concat(), None),
            (108, [&[0, 0, 0, 2][..], &bare].concat(), None),
            (113, cooked(0), rx),
            (113, cooked(4), tx),
            (276, cooked2(0), rx),
            (276, cooked2(4), tx),
        ] {
            let found = udp_packet(read(LinkType::from_number(link).expect("known"), &frame));
            assert_eq!((found.source, found.destination, found.direction), (ends.0, ends.1, direction), "link {link}");
            assert_eq!((found.ip_byte as usize, found.payload_byte, found.payload), (bare.len(), 30, &[7; 30][..]));
        }
    }
    assert_eq!(LinkType::from_number(105), None, "IEEE 802.11");
}

#[test]
fn options_and_extension_headers_are_passed_over() {
    let inner = udp(V4, (4_000, 8_462), &[7; 30])[20..].to_vec();
    let mut packet = ip(V4, 17, &[&[1; 8][..], &inner].concat());
    packet[0] = 0x47;
    assert_eq!(udp_packet(read(LinkType::RawIp, &packet)).payload, [7; 30]);

    let options = [60, 0, 1, 4, 0, 0, 0, 0];
    let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
    let packet = ip(V6, 0, &[&options[..], &[44, 1][..], &[0; 14], &fragment, &inner].concat());
    assert_eq!(udp_packet(read(LinkType::RawIp, &packet)).payload, [7; 30]);
}

#[test]
fn what_is_no_probe_states_why() {
    let bare = udp(V4, (4_000, 8_462), &[7; 30]);
    let mut fragment = bare.clone();
    fragment[7] = 3;
    assert_eq!(read(LinkType::RawIp, &fragment), Err(NoPacket::Fragment));
    let later = [17, 0, 0, 8, 0, 0, 0, 9];
    assert_eq!(read(LinkType::RawIp, &ip(V6, 44, &[&later[..], &bare].concat())), Err(NoPacket::Fragment));
    assert_eq!(read(LinkType::RawIp, &ip(V4, 6, &[0; 20])), Err(NoPacket::Other(Protocol::Ip(6))), "TCP");
    assert_eq!(read(LinkType::RawIp, &ip(V4, 1, &[3; 20])), Err(NoPacket::Other(Protocol::Icmp(3))));
    let mut arp = ethernet(&bare, &[]);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(read(LinkType::Ethernet, &arp), Err(NoPacket::Other(Protocol::EtherType(0x0806))));
    assert_eq!(read(LinkType::RawIp, &bare[..27]), Err(NoPacket::Cut));
    assert_eq!(read(LinkType::RawIp, &[]), Err(NoPacket::Cut));
}

/// A tunnel and the frame with a packet in it.
fn tunnels(bare: &[u8]) -> Vec<(Tunnel, Vec<u8>)> {
    let inner = ethernet(bare, &[]);
    let ethertype: &[u8] = if bare[0] >> 4 == 4 { &[0x08, 0] } else { &[0x86, 0xdd] };
    let protocol = if bare[0] >> 4 == 4 { 4 } else { 41 };
    let mut found = Vec::new();
    let mut over = |tunnel, packet: Vec<u8>| found.push((tunnel, ethernet(&packet, &[])));
    for ends in [V4, V6] {
        over(Tunnel::IpInIp, ip(ends, protocol, bare));
        over(Tunnel::Gre, ip(ends, 47, &[&[0, 0], ethertype, bare].concat()));
        over(Tunnel::Gre, ip(ends, 47, &[&[0xb0, 0], ethertype, &[9; 12], bare].concat()));
        over(Tunnel::Gre, ip(ends, 47, &[&[0, 0, 0x65, 0x58][..], &inner].concat()));
        for port in [4789, 8472] {
            over(Tunnel::Vxlan, udp(ends, (5_000, port), &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat()));
        }
        let geneve = [&[2, 0, 0x65, 0x58, 0, 0, 7, 0][..], &[1; 8], &inner].concat();
        over(Tunnel::Geneve, udp(ends, (5_000, 6081), &geneve));
    }
    for (tunnel, kind, header) in [
        (Tunnel::Mpls, 0x8847_u16, [0, 0x10, 0x01, 64].to_vec()),
        (Tunnel::Mpls, 0x8847, [0, 0x10, 0x00, 64, 0, 0x20, 0x01, 64].to_vec()),
        (Tunnel::Pppoe, 0x8864, [&[0x11, 0, 0, 1, 0, 9, 0][..], &[if protocol == 4 { 0x21 } else { 0x57 }]].concat()),
    ] {
        found.push((tunnel, [&[2; 12][..], &kind.to_be_bytes(), &header, bare].concat()));
    }
    let pseudowire = [&[2; 12][..], &[0x88, 0x47, 0, 0x10, 0x01, 64, 0, 0, 0, 0], &inner].concat();
    found.push((Tunnel::Mpls, pseudowire));
    found
}

#[test]
fn a_datagram_is_found_in_each_tunnel_and_in_tunnels_within_each_other() {
    for ends in [V4, V6] {
        let bare = udp(ends, (4_000, 8_462), &[7; 30]);
        for (tunnel, frame) in tunnels(&bare) {
            let found = udp_packet(read(LinkType::Ethernet, &frame));
            assert_eq!((found.source, found.tunnel, found.payload), (ends.0, Some(tunnel), &[7; 30][..]), "{tunnel:?}");
        }
        let twice = ip(V4, 4, &ip(V4, 4, &bare));
        if ends == V4 {
            assert_eq!(udp_packet(read(LinkType::RawIp, &twice)).payload, [7; 30]);
        }
        let deep = (0..9).fold(bare, |inner, _| ip(V4, 4, &inner));
        assert_eq!(read(LinkType::RawIp, &deep), Err(NoPacket::Other(Protocol::Inside(Tunnel::IpInIp))));
    }
}

#[test]
fn what_is_no_tunnel_at_the_port_of_one_is_an_ordinary_datagram() {
    for port in [4789, 6081] {
        let packet = udp(V4, (5_000, port), &[0xff; 30]);
        let found = read(LinkType::RawIp, &packet).expect("a datagram");
        assert_eq!((found.tunnel, found.payload), (None, &[0xff; 30][..]));
    }
    assert_eq!(
        read(LinkType::RawIp, &ip(V4, 47, &[0, 1, 8, 0, 0, 0])),
        Err(NoPacket::Other(Protocol::Inside(Tunnel::Gre)))
    );
}

#[test]
fn padding_is_no_part_of_a_packet_and_a_cut_one_keeps_its_length() {
    let bare = udp(V4, (4_000, 8_462), &[7; 4]);
    let frame = ethernet(&bare, &[]);
    assert_eq!((frame.len(), udp_packet(read(LinkType::Ethernet, &frame)).payload), (60, &[7; 4][..]));
    let long = udp(V4, (4_000, 8_462), &[7; 400]);
    let found = udp_packet(read(LinkType::RawIp, &long[..128]));
    assert_eq!((found.ip_byte, found.payload_byte, found.payload.len()), (428, 400, 100));
}

#[test]
fn echo_messages_of_both_families_are_distinguished_from_others() {
    for ends in [V4, V6] {
        for reply in [false, true] {
            let found = echo(ends, reply, 0x1234, 7, 20);
            let packet = read(LinkType::RawIp, &found).expect("echo");
            assert_eq!(packet.transport, Transport::Echo { reply, identifier: 0x1234, sequence: 7 });
            assert_eq!(packet.payload_byte, 20);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_packet_within_them_or_a_reason(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        link in prop::sample::select(vec![0_u16, 1, 101, 113, 276]),
    ) {
        if let Ok(packet) = read(LinkType::from_number(link).expect("known"), &bytes) {
            prop_assert!(packet.payload.len() <= packet.payload_byte as usize);
            prop_assert!(packet.payload_byte + 28 <= packet.ip_byte);
        }
    }

    #[test]
    fn a_frame_cut_anywhere_gives_less_and_no_panic(at in 0_usize..120, tagged: bool) {
        let frame = ethernet(&udp(V6, (4_000, 8_462), &[7; 40]), if tagged { &[0x8100] } else { &[] });
        match read(LinkType::Ethernet, &frame[..at.min(frame.len())]) {
            Ok(packet) => prop_assert_eq!(packet.payload_byte, 40),
            Err(why) => prop_assert_eq!(why, NoPacket::Cut),
        }
    }
}
