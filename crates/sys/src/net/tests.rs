use std::io::IoSlice;
use std::net::SocketAddr;

use proptest::prelude::*;
use vtare_units::{Monotonic, Span};

use super::control::{QueuedError, ReceiveControl, Room, SendControl, StampRequest};
use super::{LaunchClock, Layer, Message, PathMtu, ReceiveBatch, SendBatch, Socket, StampFlags, Waited, wait_readable};
use crate::clocks;

fn pair() -> (Socket, Socket, SocketAddr) {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let one = Socket::open(Layer::Udp, any).expect("UDP is everywhere");
    let other = Socket::open(Layer::Udp, any).expect("UDP is everywhere");
    one.bind(any).expect("port 0 is free");
    other.bind(any).expect("port 0 is free");
    let to = other.local_address().expect("it is bound");
    one.connect(to).expect("loopback has a route");
    (one, other, to)
}

fn wait(socket: &Socket) {
    let now = clocks::now::<Monotonic>();
    assert_eq!(wait_readable(socket, now, now + Span::from_secs(5)).expect("it can wait"), Waited::Ready);
}

#[test]
fn several_datagrams_go_in_one_call_and_come_in_order_with_their_sender() {
    let (one, other, _) = pair();
    let texts: [&[u8]; 3] = [b"first", b"second", b"third"];
    let parts = texts.map(|text| [IoSlice::new(&text[..2]), IoSlice::new(&text[2..])]);
    let messages = [0, 1, 2].map(|at| Message { parts: &parts[at], to: None, control: SendControl::default() });
    assert_eq!(SendBatch::new(8).send(&one, &messages).expect("room for three"), 3);
    let mut batch = ReceiveBatch::new(8, 64);
    wait(&other);
    assert_eq!(batch.receive(&other, 8).expect("three are there"), 3);
    for (index, text) in texts.iter().enumerate() {
        let got = batch.get(index).expect("three came");
        assert_eq!((&*got.bytes, got.cut), (*text, false));
        assert_eq!(got.from, one.local_address().ok());
    }
    assert_eq!(batch.receive(&other, 8).expect("nothing is no error"), 0);
}

#[test]
fn a_socket_that_may_wait_waits_for_one_datagram_and_no_longer_than_it_may() {
    let (one, other, _) = pair();
    other.may_wait(std::time::Duration::from_millis(20)).expect("sockets can wait");
    let mut batch = ReceiveBatch::new(4, 64);
    assert_eq!(batch.receive_waiting(&other, 4).expect("its time is over"), 0);
    assert_eq!(batch.receive(&other, 4).expect("this one does not wait"), 0);
    // More than one turn of the slots: what a call before left in a header is gone.
    for length in [60_usize, 1, 33] {
        let bytes = vec![7; length];
        let parts = [IoSlice::new(&bytes)];
        let message = Message { parts: &parts, to: None, control: SendControl::default() };
        SendBatch::new(1).send(&one, &[message]).expect("room for one");
        let mut got = 0;
        while got == 0 {
            got = batch.receive_waiting(&other, 4).expect("it comes");
        }
        let found = batch.get(0).expect("one came");
        assert_eq!((got, found.bytes.len(), found.cut, found.from), (1, length, false, one.local_address().ok()));
    }
}

#[test]
fn a_datagram_larger_than_its_slot_is_stated_to_be_cut() {
    let (one, other, _) = pair();
    let parts = [IoSlice::new(&[7; 100])];
    let message = Message { parts: &parts, to: None, control: SendControl::default() };
    SendBatch::new(1).send(&one, &[message]).expect("room for one");
    let mut batch = ReceiveBatch::new(1, 64);
    wait(&other);
    assert_eq!(batch.receive(&other, 1).expect("one is there"), 1);
    let got = batch.get(0).expect("one came");
    assert!(got.cut && got.bytes.len() == 64);
}

#[test]
fn one_large_send_becomes_many_datagrams() {
    let (one, other, _) = pair();
    if let Err(refused) = one.probe_segmentation() {
        return eprintln!("skipped: {refused}");
    }
    let data: Vec<u8> = (0..250).map(|at| (at / 100) as u8).collect();
    let parts = [IoSlice::new(&data)];
    let control = SendControl { segment_byte: Some(100), ..SendControl::default() };
    SendBatch::new(1).send(&one, &[Message { parts: &parts, to: None, control }]).expect("room for one");
    let mut batch = ReceiveBatch::new(8, 512);
    wait(&other);
    assert_eq!(batch.receive(&other, 8).expect("three are there"), 3);
    let lengths = [0, 1, 2].map(|at| batch.get(at).expect("three came").bytes.len());
    assert_eq!(lengths, [100, 100, 50]);
}

#[test]
fn arrivals_and_departures_are_stamped_between_send_and_receipt() {
    let (one, other, _) = pair();
    one.stamp(StampFlags { departures: true, ..StampFlags::default() }).expect("software stamps are everywhere");
    other
        .stamp(StampFlags { receive_software: true, ..StampFlags::default() })
        .expect("software stamps are everywhere");
    let parts = [IoSlice::new(b"probe")];
    let mut batch = ReceiveBatch::new(1, 64);
    let mut send = |control| {
        SendBatch::new(1).send(&one, &[Message { parts: &parts, to: None, control }]).expect("room for one");
        wait(&other);
        assert_eq!(batch.receive(&other, 1).expect("one is there"), 1);
        batch.get(0).and_then(|got| got.control.software_ns)
    };
    // The kernel turns its stamps on in the background: until then arrivals have none.
    assert!((0..100_000).any(|_| send(SendControl::default()).is_some()), "arrivals are never stamped");
    let control = SendControl { stamp: Some(StampRequest { hardware: false, key: None }), ..SendControl::default() };
    let before = clocks::now::<vtare_units::Wall>().as_nanos();
    let arrived = send(control).expect("the arrival is stamped");
    wait(&one);
    assert_eq!(batch.receive_errors(&one, 1).expect("the stamp is there"), 1);
    let control = batch.get(0).expect("one came").control;
    let after = clocks::now::<vtare_units::Wall>().as_nanos();
    assert_eq!(control.error, Some(QueuedError::Departure { key: 0 }));
    let departed = control.software_ns.expect("the departure is stamped");
    assert!(before <= departed && departed <= arrived && arrived <= after, "{before} {departed} {arrived} {after}");
}

#[test]
fn a_full_receive_buffer_is_counted() {
    let (one, other, _) = pair();
    // Not `set_buffers`, which may go past the system's limit.
    let bytes = vec![0_u8; 1_000];
    let parts = [IoSlice::new(&bytes)];
    let message = Message { parts: &parts, to: None, control: SendControl::default() };
    let mut batch = SendBatch::new(64);
    for _ in 0..64 {
        batch.send(&one, &[message; 64]).expect("loopback takes all");
    }
    let Ok(dropped) = other.drops() else { return eprintln!("skipped: no SO_MEMINFO") };
    let mut received = 0_u32;
    let mut arrivals = ReceiveBatch::new(64, 2_000);
    wait(&other);
    loop {
        match arrivals.receive(&other, 64).expect("receiving goes on") {
            0 => break,
            got => received += got as u32,
        }
    }
    assert_eq!(received + dropped, 64 * 64);
}

#[test]
fn nobody_listening_is_an_error_of_the_socket() {
    let (one, other, _) = pair();
    drop(other);
    let parts = [IoSlice::new(b"probe")];
    let message = Message { parts: &parts, to: None, control: SendControl::default() };
    SendBatch::new(1).send(&one, &[message]).expect("the first is taken");
    wait(&one);
    let error = ReceiveBatch::new(1, 64).receive(&one, 1).expect_err("ICMP reports that no socket has the port");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn the_path_of_loopback_has_an_mtu() {
    let (one, _other, _) = pair();
    assert!(one.mtu().expect("it is connected") >= 1_280);
}

/// The bytes of a control message: its head, and its data.
fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_launch_time_is_shown_as_the_kernel_wants_it() {
    let mut room = Room([0xff; super::control::SEND_BYTE]);
    let used = SendControl { launch_ns: Some(0x0102_0304_0506_0708), ..SendControl::default() }.write(&mut room);
    assert_eq!(room.0[..used], control(libc::SOL_SOCKET, libc::SCM_TXTIME, &0x0102_0304_0506_0708_u64.to_ne_bytes()));
    // Behind another one it stands where the next may begin.
    let stamp = Some(StampRequest { hardware: false, key: None });
    let both = SendControl { stamp, launch_ns: Some(7), ..SendControl::default() }.write(&mut room);
    assert_eq!(room.0[both - used..both], control(libc::SOL_SOCKET, libc::SCM_TXTIME, &7_u64.to_ne_bytes()));
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_packet_dropped_for_its_launch_time_is_shown_with_the_time_and_why() {
    // struct sock_extended_err: errno, origin, type, code, pad, info, data; then the address of nobody.
    let entry = |errno: i32, code: u8| {
        let mut data = errno.to_ne_bytes().to_vec();
        data.extend([6, 0, code, 0]);
        data.extend(0x0506_0708_u32.to_ne_bytes());
        data.extend(0x0102_0304_u32.to_ne_bytes());
        data.extend([0; 16]);
        ReceiveControl::parse(&control(libc::IPPROTO_IP, libc::IP_RECVERR, &data)).error
    };
    let launch_ns = 0x0102_0304_0506_0708;
    assert_eq!(entry(libc::ECANCELED, 2), Some(QueuedError::Launch { launch_ns, missed: true }));
    assert_eq!(entry(libc::EINVAL, 1), Some(QueuedError::Launch { launch_ns, missed: false }));
}

#[test]
fn launch_times_are_taken_whatever_becomes_of_them() {
    let (one, other, _) = pair();
    if let Err(refused) = one.launch_times(LaunchClock::Monotonic) {
        return eprintln!("skipped: {refused}");
    }
    let parts = [IoSlice::new(b"probe")];
    let launch_ns = Some(clocks::now::<Monotonic>().as_nanos());
    let control = SendControl { launch_ns, ..SendControl::default() };
    SendBatch::new(1).send(&one, &[Message { parts: &parts, to: None, control }]).expect("room for one");
    wait(&other);
    assert_eq!(ReceiveBatch::new(1, 64).receive(&other, 1).expect("one is there"), 1);
}

proptest! {
    #[test]
    fn control_data_of_any_bytes_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _whatever = ReceiveControl::parse(&bytes);
    }

    #[test]
    fn control_data_with_a_true_head_is_read_without_panic(
        length in 0_usize..80, level in 0_i32..300, kind in 0_i32..100,
        data in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        let _whatever = ReceiveControl::parse(&bytes);
    }
}

#[test]
fn the_rule_for_large_datagrams_holds_for_both_families_of_a_socket() {
    for (address, wanted) in [("127.0.0.1:0", (5, None)), ("[::]:0", (5, Some(5)))] {
        let Ok(socket) = Socket::open(Layer::Udp, address.parse().expect("it is an address")) else {
            eprintln!("skipped: no IPv6 here");
            continue;
        };
        socket.path_mtu(PathMtu::FragmentAtInterface).expect("Linux 3.15 or later");
        // linux/in.h, linux/in6.h: IP_PMTUDISC_OMIT and IPV6_PMTUDISC_OMIT are 5.
        assert_eq!(socket.path_mtu_rules().expect("it is open"), wanted, "{address}");
    }
}
