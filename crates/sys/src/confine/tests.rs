use super::*;
use std::io::ErrorKind;

/// Restrictions cannot be taken back, but a thread's end there: each test gives up its rights in a thread of its own.
fn in_a_thread(test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(test).join().expect("the thread ran");
}

#[test]
fn a_thread_without_files_can_open_none_and_still_use_what_is_open() {
    in_a_thread(|| {
        use std::io::Read;
        let mut open = std::fs::File::open("/proc/thread-self/status").expect("it exists");
        no_new_privileges().expect("every kernel has it");
        if forbid_files().is_err() {
            // A kernel without Landlock: `vtare serve` says so when it starts.
            return;
        }
        let error = std::fs::File::open("/proc/thread-self/status").expect_err("files are forbidden");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let mut text = String::new();
        open.read_to_string(&mut text).expect("it was open before");
        assert!(text.contains("NoNewPrivs:\t1"));
    });
}

#[test]
fn a_thread_that_only_serves_reads_and_allocates_and_starts_nothing() {
    in_a_thread(|| {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let address = receiver.local_addr().expect("it is bound");
        no_new_privileges().expect("every kernel has it");
        let Ok(allowed) = allow_only_serving() else { return };
        assert!(allowed > 30);
        assert_eq!(std::fs::File::open("/dev/null").expect_err("no call to open").kind(), ErrorKind::PermissionDenied);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect_err("no call to make sockets");
        assert_eq!(socket.kind(), ErrorKind::PermissionDenied);
        receiver.send_to(b"probe", address).expect("open sockets work");
        assert_eq!(receiver.recv(&mut [0; 8]).expect("and receive"), 5);
        let sum = std::thread::spawn(|| vec![1_u64; 1 << 20].iter().sum::<u64>()).join().expect("threads start");
        assert_eq!(sum, 1 << 20);
    });
}

#[test]
fn the_descriptor_limit_stays_within_the_systems() {
    let before = std::fs::read_to_string("/proc/self/limits").expect("it exists");
    assert!(before.contains("Max open files"));
    // In a process of its own this would bind; here it must only not exceed what there is.
    let bound = limit_descriptors(u64::MAX).expect("raising to the hard limit is always allowed");
    assert!(bound > 0);
}
