//! `vtare serve` as a person or the lab starts it: keys, the ready line, the end, what it gives up.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Place, VTARE, until, vtare};
use serde_json::Value;

/// Starts a responder and waits for its ready line.
fn ready(arguments: &[&str], key: Option<&str>) -> (Child, Value) {
    let mut command = Command::new(VTARE);
    command.args(["serve", "--json"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    match key {
        Some(key) => command.env("VTARE_KEY", key),
        None => command.env_remove("VTARE_KEY"),
    };
    let mut child = command.spawn().expect("the binary starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("it was asked for")).read_line(&mut line).expect("stdout is readable");
    let document = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"));
    (child, document)
}

/// Ends it as systemd does and gives the exit code and what it logged.
fn end(mut child: Child) -> (Option<i32>, String) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill is there").success());
    let mut log = String::new();
    child.stderr.take().expect("it was asked for").read_to_string(&mut log).expect("it logs text");
    (child.wait().expect("it ends").code(), log)
}

fn status_field(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("every kernel has it");
    line.trim_start_matches(':').trim().to_owned()
}

fn path(place: &Path) -> &str {
    place.to_str().expect("plain")
}

#[test]
fn a_new_key_is_for_its_owner_only_and_never_over_an_old_one() {
    let place = Place::new();
    let file = place.file("lab.key");
    let outcome = vtare(["serve", "--new-key", path(&file)]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(outcome.stdout.contains("--key-file"), "{}", outcome.stdout);
    let key = std::fs::read_to_string(&file).expect("it was written");
    assert!(key.trim().len() == 64 && !outcome.stdout.contains(key.trim()));
    assert_eq!(std::fs::metadata(&file).expect("it exists").permissions().mode() & 0o777, 0o600);
    vtare(["serve", "--new-key", path(&file)]).refused(2, &["exists", "choose another name"]);
    assert_eq!(std::fs::read_to_string(&file).expect("it is still there"), key);
}

#[test]
fn a_process_that_is_killed_while_it_writes_a_key_leaves_no_part_of_it() {
    let place = Place::new();
    let file = place.file("key");
    // At the limit on file sizes the kernel ends the process in the middle of its write (SIGXFSZ).
    let limited = "ulimit -c 0; ulimit -f 0; exec \"$0\" serve --new-key \"$1\"";
    let killed = Command::new("sh").args(["-c", limited, VTARE, path(&file)]).output().expect("sh is there");
    assert!(!killed.status.success(), "{killed:?}");
    assert!(!file.exists(), "part of a key stands under its name");
    assert_eq!(vtare(["serve", "--new-key", path(&file)]).code, 0);
}

#[test]
fn a_key_that_is_none_is_refused_and_not_shown() {
    let place = Place::new();
    let file = place.with("lab.key", "hunter2\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    vtare(["serve", "--key-file", path(&file)]).refused(2, &["lab.key", "7 characters", "64 hexadecimal digits"]);
    vtare(["serve", "--key-file", "/nonexistent"]).refused(2, &["cannot read the key file /nonexistent"]);
    let outcome = Command::new(VTARE).arg("serve").env("VTARE_KEY", "hunter2").output().expect("the binary starts");
    let error = String::from_utf8(outcome.stderr).expect("errors are UTF-8");
    assert!(outcome.status.code() == Some(2) && error.contains("VTARE_KEY") && !error.contains("hunter2"), "{error}");
}

#[test]
fn without_a_key_it_serves_this_host_only_and_states_so() {
    let outcome = Command::new(VTARE)
        .args(["serve", "--listen", "0.0.0.0:0"])
        .env_remove("VTARE_KEY")
        .output()
        .expect("the binary starts");
    let error = String::from_utf8(outcome.stderr).expect("errors are UTF-8");
    assert!(outcome.status.code() == Some(2) && error.contains("--new-key"), "{error}");

    let (child, document) = ready(&["--listen", "127.0.0.1:0"], None);
    assert_eq!(document["keyed"], false);
    let (code, log) = end(child);
    assert_eq!(code, Some(0));
    assert!(log.contains("this host only") && log.contains("no key"), "{log}");
}

#[test]
fn a_limit_that_would_serve_nobody_is_refused() {
    for limit in ["--max-rate", "--max-burst", "--max-packets"] {
        vtare(["serve", "--listen", "127.0.0.1:0", limit, "0"]).refused(2, &[limit, "0"]);
    }
}

/// Waits until the kernel holds no datagram for this address any more: the responder has taken them all.
fn until_read(address: &str) {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("an address has a port");
    let local = format!(":{port:04X}");
    until("the responder has read all datagrams", || {
        // The kernel shows its sockets in pieces, between which others come and go: ours may be missing once.
        let sockets = std::fs::read_to_string("/proc/net/udp").expect("Linux shows its sockets");
        let mut lines = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.get(1).is_some_and(|at| at.ends_with(&local)));
        line.is_some_and(|words| words.get(4).is_some_and(|queues| queues.ends_with(":00000000")))
    });
}

#[test]
fn the_ready_line_shows_address_limits_and_confinement_and_a_signal_is_the_ordinary_end() {
    let key = "0f".repeat(32);
    let (child, document) =
        ready(&["--listen", "127.0.0.1:0", "--max-rate", "5000", "--max-sessions", "3"], Some(&key));
    assert_eq!(document["schema"], "vtare.serve/1");
    assert_eq!((&document["keyed"], &document["limits"]["rate_packet_per_s"]), (&true.into(), &5000.into()));
    assert_eq!(document["limits"]["sessions"], 3);
    let address = document["listen"].as_str().expect("an address").to_owned();

    // What it reports to have given up is what the kernel reports.
    assert_eq!(status_field(child.id(), "NoNewPrivs"), "1");
    assert_eq!(status_field(child.id(), "CapEff"), "0000000000000000");
    let confinement = &document["confinement"];
    if confinement["became_nobody"] == true {
        assert!(status_field(child.id(), "Uid").split_whitespace().all(|uid| uid == "65534"));
    }
    if confinement["system_calls"].is_u64() {
        assert_eq!(status_field(child.id(), "Seccomp"), "2");
    }

    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let began = crate::common::now();
    for _ in 0..100 {
        socket.send_to(b"garbage", &address).expect("loopback takes it");
    }
    until_read(&address);
    let (code, log) = end(child);
    assert_eq!(code, Some(0));
    assert!(log.contains("100 datagrams received") && log.contains("100 malformed"), "{log}");
    // One a second and one at the end, however long this machine took.
    let most = crate::common::seconds_since(began) as usize + 2;
    assert!(log.lines().filter(|line| line.contains("kind=\"garbage\"")).count() <= most, "{log}");
    assert!(!log.contains(&key), "the key is in the log");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    vtare(["serve", "--listen", &address]).refused(3, &["cannot listen on", &address, "in use"]);
}
