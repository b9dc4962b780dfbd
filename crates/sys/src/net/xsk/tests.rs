use std::process::Command;
use std::sync::atomic::Ordering;

use super::*;
use crate::bpf::{BpfError, MapView, Maps, Object, XdpLink};
use crate::clocks;
use crate::net::route;
use vtare_units::{Monotonic, Span};

const PROGRAM: &[u8] = include_bytes!("../../../../bpf/af_xdp.bpf.o");
const SIZE: XskSize = XskSize { chunk_byte: 2_048, receive: 64, send: 64 };
const FROM: ([u8; 4], u16) = ([10, 0, 0, 2], 8_462);
const TO: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);

/// A UDP datagram from the far end's port to this one's; its checksum is none.
fn frame(payload: &[u8], to_port: u16) -> Vec<u8> {
    let mut bytes = vec![0xff; 12];
    bytes.extend_from_slice(&[8, 0, 0x45, 0]);
    bytes.extend_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend_from_slice(&FROM.0);
    bytes.extend_from_slice(&TO.0);
    bytes.extend_from_slice(&FROM.1.to_be_bytes());
    bytes.extend_from_slice(&to_port.to_be_bytes());
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

fn ip(line: &str) -> bool {
    Command::new("ip").args(line.split(' ')).output().is_ok_and(|done| done.status.success())
}

/// Two ends of a veth in a network namespace of the calling thread's own; `None`, with a message, where that may not be
/// made.
fn veth() -> Option<[u32; 2]> {
    // SAFETY: takes a number only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("skipped: no network namespace of its own: {}", io::Error::last_os_error());
        return None;
    }
    let made = ip("link add va type veth peer name vb") && ip("link set va up") && ip("link set vb up");
    if !made {
        eprintln!("skipped: no veth pair can be made here");
        return None;
    }
    let index = |name: &str| {
        (1..10).find(|index| route::link(*index).is_ok_and(|link| link.name == name)).expect("it was made")
    };
    Some([index("va"), index("vb")])
}

/// The program at `interface`, that gives this test's datagrams to a socket; `None`, with a message, where it may not
/// be loaded.
fn program(interface: u32) -> Option<(Maps, MapView, XdpLink)> {
    let object = Object::parse("af_xdp", PROGRAM).expect("it is in the tree");
    let maps = match object.create_maps() {
        Ok(maps) => maps,
        Err(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. })) => {
            eprintln!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let view = maps.get("setup_map").view().expect("it can be mapped");
    let address = |bytes| u64::from(u32::from_ne_bytes(bytes));
    for (at, value) in
        [address(FROM.0), address(TO.0), u16::to_be(FROM.1).into(), u16::to_be(TO.1).into()].into_iter().enumerate()
    {
        view.words()[at].store(value, Ordering::Relaxed);
    }
    let program = object.load("to_socket", &maps).expect("the verifier takes it");
    let link = XdpLink::attach(&program, interface).expect("nothing is attached");
    Some((maps, view, link))
}

fn in_a_thread(test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(test).join().expect("the assertions hold");
}

fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + Span::from_millis(5));
    }
    panic!("it does not come");
}

#[test]
fn frames_arrive_whole_stamped_and_in_order_over_many_rounds_of_the_rings() {
    in_a_thread(|| {
        let Some([va, vb]) = veth() else { return };
        let Some((maps, view, _link)) = program(vb) else { return };
        let mut near = Xsk::open(va, 0, SIZE, XskMode::Copy).expect("the queue is free");
        let mut far = Xsk::open(vb, 0, SIZE, XskMode::Copy).expect("the queue is free");
        maps.get("sockets").update(&0_u32.to_ne_bytes(), &far.as_raw_fd().to_ne_bytes()).expect("there is room");
        let mut expected = 0_u64;
        for round in 0..20_u64 {
            let before = clocks::now::<Monotonic>().as_nanos();
            for number in 0..50 {
                let bytes = frame(&(round * 50 + number).to_be_bytes(), TO.1);
                assert!(near.put(bytes.len(), |place| place.copy_from_slice(&bytes)), "there is room for 64");
            }
            // Another port's datagram is the network stack's.
            let stray = frame(&[0; 8], TO.1 + 1);
            assert!(near.put(stray.len(), |place| place.copy_from_slice(&stray)));
            assert_eq!(near.send().expect("the interface is up"), 0);
            until(|| far.ready() >= 50);
            let after = clocks::now::<Monotonic>().as_nanos();
            let mut last = before;
            // Never more at once than asked for.
            while far.ready() > 0 {
                let got = far.receive(7, &mut |found| {
                    assert_eq!(found.bytes, frame(&expected.to_be_bytes(), TO.1));
                    assert!((last..=after).contains(&found.note), "{} is not in {last}..={after}", found.note);
                    (last, expected) = (found.note, expected + 1);
                });
                assert!((1..=7).contains(&got));
            }
            assert_eq!(expected, (round + 1) * 50);
        }
        assert_eq!(far.counts().expect("counted"), XskCounts::default());
        assert!(view.words()[8..10].iter().all(|count| count.load(Ordering::Relaxed) == 0));
    });
}

#[test]
fn frames_without_room_are_counted_and_the_others_are_whole() {
    in_a_thread(|| {
        let Some([va, vb]) = veth() else { return };
        let Some((maps, _view, _link)) = program(vb) else { return };
        let mut near = Xsk::open(va, 0, SIZE, XskMode::Copy).expect("the queue is free");
        let mut far = Xsk::open(vb, 0, SIZE, XskMode::Copy).expect("the queue is free");
        maps.get("sockets").update(&0_u32.to_ne_bytes(), &far.as_raw_fd().to_ne_bytes()).expect("there is room");
        for _ in 0..2 {
            for _ in 0..50 {
                let bytes = frame(&[7; 100], TO.1);
                assert!(near.put(bytes.len(), |place| place.copy_from_slice(&bytes)));
            }
            assert_eq!(near.send().expect("the interface is up"), 0);
        }
        let lost = |far: &Xsk| far.counts().map(|counts| counts.dropped + counts.ring_full).expect("counted");
        until(|| lost(&far) == 36);
        assert_eq!(far.receive(100, &mut |found| assert_eq!(found.bytes, frame(&[7; 100], TO.1))), 64);
        assert_eq!(far.receive(100, &mut |_| panic!("it is empty")), 0);
    });
}

#[test]
fn what_does_not_fit_finds_no_room_and_a_queue_has_one_socket() {
    in_a_thread(|| {
        let Some([va, _]) = veth() else { return };
        let mut socket = match Xsk::open(va, 0, SIZE, XskMode::Copy) {
            Ok(socket) => socket,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert!(!socket.put(2_049, |_| panic!("it is larger than a chunk")));
        for _ in 0..64 {
            assert!(socket.put(60, |place| place.fill(0xff)));
        }
        assert!(!socket.put(60, |_| panic!("64 are there already")));
        let taken = Xsk::open(va, 0, SIZE, XskMode::Copy).expect_err("one socket for each queue");
        assert_eq!(taken.errno(), Some(libc::EBUSY), "{taken}");
        let none = Xsk::open(va, 999, SIZE, XskMode::Copy).expect_err("no such queue");
        assert_eq!(none.errno(), Some(libc::EINVAL), "{none}");
        assert!(Xsk::open(va, 0, SIZE, XskMode::ZeroCopy).expect_err("a veth knows none").errno().is_some());
    });
}
