//! An attack from a whole IPv6 /48: silent connections from a thousand of its networks, while others ask. On real
//! addresses, in a namespace of the test's own; without root it skips.

mod common;

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::Far;
use tokio::net::TcpSocket;
use vtare_methods::rpm::RpmLimits;
use vtare_sys::net::namespace;

/// Networks that the attack comes from, connections that it holds, and those that it makes between two requests.
const NETWORKS: u64 = 1_000;
const HELD: usize = 2_000;
const BETWEEN: u64 = 100;
/// Others that ask meanwhile.
const OTHERS: u32 = 94;

/// A network namespace in which all addresses of fd66::/48 are local; removed at the end.
struct Namespace(String);

impl Namespace {
    /// Makes it; `None`, with the reason on stderr, where this user or machine cannot.
    fn new() -> Option<Self> {
        let made = Self(format!("vtare-rpm-{}", std::process::id()));
        let name = &made.0;
        let script = format!(
            "ip netns add {name}\nip -n {name} link set dev lo up\nip -n {name} -6 route add local fd66::/48 dev lo\n\
             ip netns exec {name} sysctl -qw net.ipv6.ip_nonlocal_bind=1"
        );
        let output = Command::new("sh").args(["-ec", &script]).output().expect("there is a shell");
        if output.status.success() {
            return Some(made);
        }
        eprintln!("skipped: no network namespaces here: {}", String::from_utf8_lossy(&output.stderr));
        None
    }

    fn enter(&self) {
        namespace::enter(&PathBuf::from(format!("/run/netns/{}", self.0))).expect("it was made");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = Command::new("ip").args(["netns", "del", &self.0]).stderr(Stdio::null()).status();
    }
}

/// Opens silent connections until `stop`, and counts them.
async fn flood(to: SocketAddr, stop: Arc<AtomicBool>, made: Arc<AtomicU64>) {
    let mut held = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let network = (made.load(Ordering::Relaxed) % NETWORKS) as u16;
        let from = SocketAddrV6::new(Ipv6Addr::new(0xfd66, 0, 0, network, 0, 0, 0, 1), 0, 0, 0);
        let socket = TcpSocket::new_v6().expect("a socket is free");
        socket.bind(from.into()).expect("all addresses of the prefix are local");
        if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(1), socket.connect(to)).await {
            held.push_back(stream);
        }
        made.fetch_add(1, Ordering::Relaxed);
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

async fn served_of_others() -> (u32, u64, u64) {
    let far = Far::at("[::1]:0".parse().expect("it is an address"), RpmLimits::default()).await;
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let attack = tokio::spawn(flood(far.address(), Arc::clone(&stop), Arc::clone(&made)));
    let mut served = 0;
    for number in 0..OTHERS {
        // All places were taken before the first of them asks.
        while made.load(Ordering::Relaxed) < HELD as u64 / 2 + u64::from(number) * BETWEEN {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        served += u32::from(far.serves().await);
    }
    stop.store(true, Ordering::Relaxed);
    attack.await.expect("it ends");
    (served, made.load(Ordering::Relaxed), far.server.summary().turned_away)
}

#[test]
#[ignore = "ten thousand connections: make test-all"]
fn attack_silent_connections_from_one_ipv6_prefix_turn_no_other_away() {
    let Some(place) = Namespace::new() else { return };
    // The threads of the runtime begin where the one is that makes them.
    let found = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            place.enter();
            tokio::runtime::Runtime::new().expect("threads can be made").block_on(served_of_others())
        });
        run.join()
    });
    let (served, made, turned_away) = found.expect("each request is answered in time");
    let what = format!("{made} silent connections to rpm-serve from one IPv6 /48, served {served} of {OTHERS} others");
    println!("ATTACK {what}: survived, closed {turned_away}");
    assert_eq!(served, OTHERS);
}
