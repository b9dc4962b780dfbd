//! A path that drops large packets without a word: a router whose way on has a smaller MTU and whose ICMP messages are
//! dropped.

use std::process::{Command, Output, Stdio};

use crate::attacks::daemon::Daemon;
use crate::common::wire::new_key;
use crate::common::{Outcome, Place, VTARE};

/// The near end, the router, the far end.
struct Path([String; 3]);

const FAR: &str = "10.117.2.2";
const MTU: u32 = 1_000;
/// IPv4 and UDP, or IPv4 and ICMP.
const HEADERS_BYTE: u32 = 28;

impl Path {
    /// Makes it; `None`, with the reason on stderr, where this user or machine cannot.
    fn new() -> Option<Self> {
        let path = Self(["a", "m", "b"].map(|end| format!("vtare-hole-{}-{end}", std::process::id())));
        let [a, m, b] = &path.0;
        let mut script: Vec<String> = path.0.iter().map(|name| format!("ip netns add {name}")).collect();
        script.extend([
            format!("ip link add name va netns {a} type veth peer name ma netns {m}"),
            format!("ip link add name vb netns {b} type veth peer name mb netns {m}"),
            format!("ip -n {a} addr add 10.117.1.1/24 dev va"),
            format!("ip -n {m} addr add 10.117.1.254/24 dev ma"),
            format!("ip -n {m} addr add 10.117.2.254/24 dev mb"),
            format!("ip -n {b} addr add {FAR}/24 dev vb"),
            format!("ip -n {m} link set dev mb mtu {MTU}"),
        ]);
        for (name, device) in [(a, "va"), (b, "vb"), (m, "ma"), (m, "mb")] {
            script.push(format!("ip -n {name} link set dev lo up"));
            script.push(format!("ip -n {name} link set dev {device} up"));
        }
        script.extend([
            format!("ip -n {a} route add default via 10.117.1.254"),
            format!("ip -n {b} route add default via 10.117.2.254"),
            format!("ip netns exec {m} sysctl -qw net.ipv4.ip_forward=1"),
            format!(
                "ip netns exec {m} nft 'add table ip hole; add chain ip hole out {{ type filter hook output priority \
                 0; }}; add rule ip hole out icmp type destination-unreachable drop'"
            ),
        ]);
        let made = Command::new("sh").args(["-ec", &script.join("\n")]).output().expect("there is a shell");
        if !made.status.success() {
            eprintln!("skipped: no network namespaces or no nft here: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        Some(path)
    }

    fn vtare(&self, end: usize, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end], VTARE]).args(line.split_whitespace()).env_remove("VTARE_KEY");
        command
    }

    /// A run of the near end.
    fn run(&self, line: &str) -> Outcome {
        let output: Output = self.vtare(0, line).env("COLUMNS", "200").output().expect("ip is installed");
        Outcome::of(output)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for name in &self.0 {
            let _gone = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

/// The size that the hint names.
fn hinted(outcome: &Outcome, parts: [&str; 2]) -> u32 {
    for part in parts {
        assert!(outcome.stderr.contains(part), "'{part}' is missing in {}{}", outcome.stdout, outcome.stderr);
    }
    let size = outcome.stderr.split("Use --size ").nth(1).expect("the hint ends with a size");
    size.split(|end: char| !end.is_ascii_digit()).next().and_then(|size| size.parse().ok()).expect("a number")
}

#[test]
#[ignore = "nine runs of seconds: make test-all"]
fn where_large_packets_vanish_the_size_that_arrives_is_named_and_works() {
    let Some(path) = Path::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let key = key.display();
    let serve = format!("serve --json --listen {FAR}:8462 --stamp {FAR}:862 --key-file {key}");
    let _daemon = Daemon::of(path.vtare(2, &serve).stderr(Stdio::null()));
    let vanish = ["packets of 1400 B vanish on the way", "B arrive: the path's MTU is smaller"];
    for mode in [format!("--key-file {key}"), "--icmp".to_owned(), "--stamp".to_owned()] {
        let line = |size: u32| format!("rtt {FAR} {mode} --count 20 --rate 100 --size {size} --json");
        let silent = path.run(&line(1_400));
        assert_eq!(silent.code, 4, "{}", silent.stderr);
        let size = hinted(&silent, vanish);
        assert!((MTU - HEADERS_BYTE - 8..=MTU - HEADERS_BYTE).contains(&size), "{mode}: {size}");
        let notes = silent.json()["notes"].to_string();
        assert!(notes.contains("path_mtu") && notes.contains(vanish[0]), "{notes}");
        if !mode.contains("--icmp") && !mode.contains("--stamp") {
            let cell = &silent.json()["cells"][0];
            assert_eq!(cell["lost_by"]["forward"], 20, "packets of other sizes count for nothing: {cell}");
        }
        let answered = path.run(&line(size));
        assert_eq!(answered.code, 0, "{mode}: {}", answered.stderr);
    }
    let silent = path.run(&format!("avb {FAR} --key-file {key} --size 1400 --json"));
    assert_eq!(silent.code, 2, "{}", silent.stderr);
    let size = hinted(&silent, vanish);
    for line in [format!("avb {FAR} --size {size}"), format!("avb {FAR}"), format!("path {FAR}")] {
        let found = path.run(&format!("{line} --max-time 3s --key-file {key} --json"));
        assert!([0, 4].contains(&found.code), "{line}: {}", found.stderr);
        // The control connection's own packets arrive, whatever the far end has to send.
        assert!(!found.stderr.contains("no answer from"), "{line}: {}", found.stderr);
        let is_named = found.stdout.contains("path_mtu");
        assert_eq!(is_named, !line.contains("--size"), "{line}: {}", found.stdout);
    }
}
