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
            // A kernel without Landlock: `vtare serve` reports that when it starts.
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

/// The answer of a call that shall fail.
fn refusal(answer: i64) -> Option<i32> {
    (answer == -1).then(std::io::Error::last_os_error)?.raw_os_error()
}

#[test]
fn attack_code_in_the_responder_makes_no_memory_executable_and_no_namespace() {
    in_a_thread(|| {
        let page = 4_096_usize;
        let (write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let map = |protection: i32| {
            // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
            unsafe { libc::mmap(std::ptr::null_mut(), page, protection, private, -1, 0) }
        };
        no_new_privileges().expect("every kernel has it");
        if allow_only_serving().is_err() {
            eprintln!("skipped: no seccomp filters here");
            return;
        }
        let mut refused = 0;
        for protection in [libc::PROT_EXEC, write | libc::PROT_EXEC] {
            assert_eq!(refusal(map(protection) as i64), Some(libc::EPERM), "mmap");
            refused += 1;
        }
        let memory = map(write);
        assert_ne!(memory, libc::MAP_FAILED, "memory for data can be mapped");
        // SAFETY: the mapping was made above.
        let answer = unsafe { libc::mprotect(memory, page, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(refusal(answer.into()), Some(libc::EPERM), "mprotect");
        for flags in [libc::CLONE_NEWUSER | libc::SIGCHLD, libc::CLONE_THREAD | libc::CLONE_NEWUSER, libc::SIGCHLD] {
            // SAFETY: refused by the filter before anything is made; without a stack of its own the call is that of
            // fork otherwise.
            let answer = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
            assert_eq!(refusal(answer), Some(libc::EPERM), "clone with {flags:#x}");
            refused += 1;
        }
        // SAFETY: takes no structure, and is refused by the filter.
        let answer = unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
        assert_eq!(refusal(answer), Some(libc::ENOSYS), "clone3");
        // SAFETY: takes numbers only.
        let answer = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
        assert_eq!(refusal(answer.into()), Some(libc::EPERM), "prctl");
        // SAFETY: types a byte into the terminal, and is refused by the filter.
        let answer = unsafe { libc::ioctl(2, libc::TIOCSTI, c"x".as_ptr()) };
        assert_eq!(refusal(answer.into()), Some(libc::EPERM), "ioctl");
        let named = std::thread::Builder::new().name("named".to_owned()).spawn(|| 7);
        assert_eq!(named.expect("threads start").join().expect("and run"), 7);
        println!("ATTACK confined_system_calls: survived, {} of {} refused", refused + 4, refused + 4);
    });
}

#[test]
fn attack_code_in_the_responder_signals_nobody_and_reaches_no_abstract_socket() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let address = SocketAddr::from_abstract_name(format!("vtare-{}", std::process::id())).expect("it is short");
    let _bound = UnixDatagram::bind_addr(&address).expect("the name is free");
    let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
    let process = other.id() as libc::pid_t;
    in_a_thread(move || {
        let socket = UnixDatagram::unbound().expect("a socket can be made");
        no_new_privileges().expect("every kernel has it");
        match forbid_files() {
            Ok(SCOPES_ABI..) => {}
            found => {
                eprintln!("skipped: Landlock has no scopes here: {found:?}");
                return;
            }
        }
        let error = socket.connect_addr(&address).expect_err("it is of others");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        // SAFETY: signal 0 is none; the kernel only answers whether one may be sent.
        let answer = unsafe { libc::kill(process, 0) };
        assert_eq!(refusal(answer.into()), Some(libc::EPERM));
        println!("ATTACK confined_scopes: survived, 2 of 2 refused");
    });
    other.kill().expect("it runs");
    other.wait().expect("it ends");
}

#[test]
fn the_descriptor_limit_stays_within_the_systems() {
    let before = std::fs::read_to_string("/proc/self/limits").expect("it exists");
    assert!(before.contains("Max open files"));
    // In a process of its own this would bind; here it must only not exceed what there is.
    let bound = limit_descriptors(u64::MAX).expect("raising to the hard limit is always allowed");
    assert!(bound > 0);
}
