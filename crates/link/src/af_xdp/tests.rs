use vtare_sys::bpf::BpfError;
use vtare_sys::clocks;

use super::*;

const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 8_462);
const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 40_000);
const PASS: u32 = 2;

/// A datagram as this engine makes them.
fn frame(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let path = L2Path {
        interface: 1,
        name: "none".to_owned(),
        kind: None,
        mtu_byte: 1_500,
        from: [2, 0, 0, 0, 0, 1],
        to: [2, 0, 0, 0, 0, 2],
        next_hop: *to.ip(),
    };
    let mut bytes = headers(&path, from, to, payload.len() as u16).to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn the_payload_is_what_udp_states_and_no_padding_behind_it() {
    let mut bytes = frame(PEER, LOCAL, b"a probe");
    bytes.resize(60, 0xee);
    let at = Timestamp::from_nanos(9);
    let found = datagram(&Frame { bytes: &bytes, note: 7 }, at).expect("it is whole");
    assert_eq!((found.payload, found.arrived, found.ttl), (&b"a probe"[..], at, Some(64)));
    assert_eq!(found.stamp.map(|stamp| stamp.at), Some(Timestamp::from_nanos(7)));
    assert_eq!(datagram(&Frame { bytes: &bytes, note: 0 }, at).expect("it is whole").stamp, None);
    for end in 0..UDP_FRAME_HEADERS_BYTE + 7 {
        assert!(datagram(&Frame { bytes: &bytes[..end], note: 7 }, at).is_none(), "cut at {end}");
    }
    // A length that ends within the headers.
    bytes[39] = 7;
    assert!(datagram(&Frame { bytes: &bytes, note: 7 }, at).is_none());
}

#[test]
fn the_program_lets_all_pass_but_whole_replies_of_this_session_at_this_queue() {
    let object = Object::parse("af_xdp.bpf.o", vtare_bpf::AF_XDP).expect("it is in the tree");
    let maps = match object.create_maps() {
        Ok(maps) => maps,
        Err(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. })) => {
            return eprintln!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    let setup = maps.get("setup_map").view().expect("it can be mapped");
    describe(&setup, LOCAL, PEER);
    let program = object.load("to_socket", &maps).expect("the verifier takes it");
    let reply = frame(PEER, LOCAL, &[1; 64]);
    let before = clocks::now::<Monotonic>().as_nanos();
    let (answer, after) = program.run_once(&reply).expect("it runs");
    // Without a socket it passes, too, but with its stamp before it.
    assert_eq!((answer, after.len(), &after[8..]), (PASS, reply.len() + 8, &reply[..]));
    let stamp = u64::from_ne_bytes(after[..8].try_into().expect("eight"));
    assert!((before..=clocks::now::<Monotonic>().as_nanos()).contains(&stamp), "{stamp} is not after {before}");
    let passes = |bytes: &[u8]| {
        let (answer, after) = program.run_once(bytes).expect("it runs");
        assert_eq!((answer, &after[..]), (PASS, bytes), "untouched");
    };
    let other = |address: SocketAddrV4| SocketAddrV4::new(*address.ip(), address.port() + 1);
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 3), PEER.port());
    for (from, to) in [(other(PEER), LOCAL), (PEER, other(LOCAL)), (elsewhere, LOCAL), (PEER, elsewhere), (LOCAL, PEER)]
    {
        passes(&frame(from, to, &[1; 64]));
    }
    // Parts of datagrams, IP options, other protocols, IPv6, and any truncation.
    for (at, value) in [(20, 0x20), (21, 0x01), (14, 0x46), (23, 6), (12, 0x86)] {
        let mut bytes = reply.clone();
        bytes[at] = value;
        passes(&bytes);
    }
    (14..reply.len()).for_each(|end| passes(&reply[..end]));
    assert_eq!(setup.words()[word::ELSEWHERE].load(Ordering::Relaxed), 0);
    setup.words()[word::QUEUE].store(1, Ordering::Relaxed);
    passes(&reply);
    assert_eq!(setup.words()[word::ELSEWHERE].load(Ordering::Relaxed), 1, "counted where it is lost");
}
