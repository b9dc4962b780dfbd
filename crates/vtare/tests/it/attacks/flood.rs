//! Many silent connections from many addresses, while clients that are 250 ms away want in. On real paths: three
//! namespaces around the responder's, and `vtare link` for the distance.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use vtare_sys::net::namespace;

use super::daemon::{Daemon, survived};
use crate::common::skips::{Disturbance, Judged, first_good};
use crate::common::wire::new_key;
use crate::common::{Place, VTARE, now};

/// Silent connections a second, and the addresses they come from.
const PER_S: u64 = 1_900;
const ADDRESSES: u64 = 1_000;

/// Clients that want in meanwhile, by the network that the attack comes from, and the time between two of them.
const CLIENTS_OF_IPV6: usize = 94;
const CLIENTS_OF_IPV4: usize = 34;
const EVERY: Duration = Duration::from_millis(150);

/// The responder's namespace, that of the attackers next to it, that of the clients, and the distance between.
struct Field {
    names: [String; 4],
}

const R: usize = 0;
const A: usize = 1;
const C: usize = 2;
const M: usize = 3;

impl Field {
    /// Makes them; `None`, with the reason on stderr, where this user or machine cannot.
    fn new(label: &str) -> Option<Self> {
        let names = ["r", "a", "c", "m"].map(|end| format!("vtare-flood-{label}-{}-{end}", std::process::id()));
        let field = Self { names };
        let [r, a, c, m] = &field.names;
        let mut script: Vec<String> = field.names.iter().map(|name| format!("ip netns add {name}")).collect();
        script.extend([
            format!("ip link add va netns {a} type veth peer name ra netns {r}"),
            format!("ip link add vc netns {c} type veth peer name mc netns {m}"),
            format!("ip link add mr netns {m} type veth peer name rc netns {r}"),
            format!("ip -n {a} addr add 10.114.0.1/24 dev va"),
            format!("ip -n {r} addr add 10.114.0.2/24 dev ra"),
            format!("ip -n {a} addr add fd14::1/64 dev va nodad"),
            format!("ip -n {r} addr add fd14::2/64 dev ra nodad"),
            format!("ip -n {c} addr add 10.113.0.1/24 dev vc"),
            format!("ip -n {r} addr add 10.113.0.2/24 dev rc"),
        ]);
        for (name, device) in [(a, "va"), (c, "vc"), (m, "mc"), (m, "mr"), (r, "ra"), (r, "rc")] {
            script.push(format!("ip -n {name} link set dev lo up"));
            script.push(format!("ip -n {name} link set dev {device} up"));
        }
        script.extend([
            format!("ip -n {a} route add local 172.16.0.0/12 dev lo"),
            format!("ip -n {a} -6 route add local fd66::/48 dev lo"),
            format!("ip netns exec {a} sysctl -qw net.ipv6.ip_nonlocal_bind=1"),
            format!("ip -n {r} route add 172.16.0.0/12 via 10.114.0.1"),
            format!("ip -n {r} -6 route add fd66::/48 via fd14::1"),
        ]);
        let output = Command::new("sh").args(["-ec", &script.join("\n")]).output().expect("there is a shell");
        if !output.status.success() {
            eprintln!("skipped: no network namespaces here: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(field)
    }

    fn command(&self, end: usize, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end], VTARE]).args(line.split_whitespace());
        command
    }

    fn path(&self, end: usize) -> String {
        format!("/run/netns/{}", self.names[end])
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        for name in &self.names {
            let _gone = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// An address of each of the thousand networks: IPv6 /64s of one /48, or IPv4 addresses of as many /24s.
fn ipv6_source(number: u64) -> IpAddr {
    let network = (number % ADDRESSES) as u16;
    Ipv6Addr::new(0xfd66, 0, 0, network, 0, 0, 0, 1).into()
}

fn ipv4_source(number: u64) -> IpAddr {
    let network = (number % ADDRESSES) as u32;
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 7)) + (network << 8)).into()
}

fn silent_connection(from: IpAddr, to: SocketAddr) -> Option<OwnedFd> {
    let family = if from.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None).ok()?;
    bind(&socket, &SocketAddr::new(from, 0)).ok()?;
    // The answer to a connection that does not wait is "in progress".
    let _ = connect(&socket, &to);
    Some(socket)
}

/// Opens silent connections at [`PER_S`] until `stop`; counts them.
fn flood(namespace_path: &str, source: fn(u64) -> IpAddr, to: SocketAddr, stop: &AtomicBool, made: &AtomicU64) {
    namespace::enter(Path::new(namespace_path)).expect("it was made");
    let (began, mut held, mut number) = (now(), VecDeque::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (now() - began).as_nanos_unsigned() * PER_S / 1_000_000_000;
        while number < due {
            held.extend(silent_connection(source(number), to));
            number += 1;
            made.store(number, Ordering::Relaxed);
            // As long as the responder's patience.
            if held.len() as u64 > 5 * PER_S {
                held.pop_front();
            }
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// What came of one flood.
struct Flooded {
    refused: Vec<String>,
    figures: String,
}

fn flooded(field: &Field, source: fn(u64) -> IpAddr, target: &str, count: usize) -> Flooded {
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let key = key.display();
    let serve = format!("serve --json --listen [::]:8462 --limit sessions-per-peer=64 --key-file {key}");
    let log = std::fs::File::create(place.file("log")).expect("the place is writable");
    let mut daemon = Daemon::of(field.command(R, &serve).stderr(log));
    let distance =
        field.command(M, "link mc mr --delay 125ms --json").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _distance = Running(distance.expect("ip was there before"));

    let (stop, made, to) = (AtomicBool::new(false), AtomicU64::new(0), target.parse().expect("it is an address"));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| flood(&field.path(A), source, to, &stop, &made));
        while made.load(Ordering::Relaxed) < PER_S {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let line = format!("rtt 10.113.0.2 --key-file {key} --count 5 --rate 100 --json");
        let client = |number| {
            if number > 0 {
                std::thread::park_timeout(EVERY);
            }
            field.command(C, &line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip is there")
        };
        let clients: Vec<_> = (0..count).map(client).collect();
        let outcomes = clients.into_iter().map(|client| client.wait_with_output().expect("it ends")).collect();
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    assert!(daemon.is_alive());
    let refused: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.status.success())
        .map(|outcome| String::from_utf8_lossy(&outcome.stderr).into_owned())
        .collect();
    let memory_kb = daemon.memory_kb();
    let (_, lines) = daemon.end();
    let turned_away = lines.last().and_then(|line| line["turned_away"].as_u64());
    let made = made.load(Ordering::Relaxed);
    let turned_away = turned_away.map_or_else(|| "an unknown number".to_owned(), |count| count.to_string());
    let figures = format!(
        "clients refused {} of {count}, silent connections {made} ({turned_away} closed), memory {memory_kb} kB",
        refused.len()
    );
    Flooded { refused, figures }
}

fn clients_get_in(label: &str, source: fn(u64) -> IpAddr, target: &str, count: usize) {
    let Some(field) = Field::new(label) else { return };
    let judge = |flooded: &Flooded, disturbance: &Disturbance| {
        let why = || format!("{}: {:?}", flooded.figures, flooded.refused.iter().take(3).collect::<Vec<_>>());
        // A client has 5 s for each step.
        match (flooded.refused.is_empty(), disturbance.explains(2_000_000_000)) {
            (true, _) => Judged::Good,
            (false, true) => Judged::Explained(why()),
            (false, false) => Judged::Unexplained(why()),
        }
    };
    if let Some(flooded) = first_good(3, || flooded(&field, source, target, count), judge) {
        let served = count - flooded.refused.len();
        let name =
            format!("silent connections to serve from 1,000 {label} networks, served {served} of {count} others");
        survived(&name, flooded.figures);
    }
}

#[test]
#[ignore = "a thousand connections: make test-all"]
fn attack_silent_connections_from_a_thousand_networks_of_one_ipv6_prefix() {
    clients_get_in("ipv6", ipv6_source, "[fd14::2]:8462", CLIENTS_OF_IPV6);
}

#[test]
#[ignore = "a thousand connections: make test-all"]
fn attack_silent_connections_from_a_thousand_ipv4_networks() {
    clients_get_in("ipv4", ipv4_source, "10.114.0.2:8462", CLIENTS_OF_IPV4);
}

#[test]
fn attack_silent_connections_up_to_a_low_limit_of_descriptors() {
    // Far fewer descriptors than the places that are allowed.
    let script = "ulimit -n 100; exec \"$0\" serve --json --listen 127.0.0.1:0 2>/dev/null";
    let mut daemon = Daemon::of(Command::new("sh").args(["-c", script, VTARE]).env_remove("VTARE_KEY"));
    let to: SocketAddr = daemon.address().parse().expect("it is an address");
    let held: Vec<_> =
        (0..400).map(|number| silent_connection(Ipv4Addr::from(0x7f01_0001 + number).into(), to)).collect();
    assert!(held.iter().all(Option::is_some));
    let lost = daemon.probes_lost();
    assert!(daemon.is_alive());
    survived("few_descriptors", format!("probes lost {lost} of 20"));
}
