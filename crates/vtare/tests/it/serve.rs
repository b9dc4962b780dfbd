//! `vtare serve` as a person or the lab starts it: keys, the ready line, the end, what it gives up.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Outcome, Place, VTARE, until, vtare};
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

/// Starts a responder as a person does and gives what it prints until its line to paste, or until it listens.
fn started(arguments: &[&str], key: Option<&str>) -> (Child, String) {
    let mut command = Command::new(VTARE);
    command.arg("serve").args(arguments).env_remove("VTARE_KEY").stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(key) = key {
        command.env("VTARE_KEY", key);
    }
    let mut child = command.spawn().expect("the binary starts");
    let mut log = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("it was asked for"));
    while !log.contains("listening on ") {
        assert!(lines.read_line(&mut log).expect("it logs text") > 0, "it ended: {log}");
    }
    child.stderr = Some(lines.into_inner());
    (child, log)
}

/// Two lines that it prints where it made a key.
fn shown(child: &mut Child) -> [String; 2] {
    let mut lines = BufReader::new(child.stdout.as_mut().expect("it was asked for"));
    [0, 1].map(|_| {
        let mut line = String::new();
        lines.read_line(&mut line).expect("stdout is readable");
        line
    })
}

/// The key in a line to paste.
fn pasted_key(line: &str) -> &str {
    let key = line.strip_prefix("VTARE_KEY=").and_then(|rest| rest.split(' ').next()).expect("it begins with the key");
    assert!(key.len() == 64 && key.chars().all(|digit| digit.is_ascii_hexdigit()), "{line}");
    key
}

#[test]
fn without_a_key_it_makes_one_and_the_line_it_shows_works_as_pasted() {
    let (mut child, log) = started(&["--listen", "0.0.0.0:0"], None);
    let [head, line] = shown(&mut child);
    assert_eq!(head, "A new key, valid until this program ends. On the other machine:\n");
    assert!(log.contains("for clients with the key") && !log.contains(pasted_key(&line)), "{log}");
    let ps = std::fs::read(format!("/proc/{}/cmdline", child.id())).expect("it runs");
    assert!(!String::from_utf8_lossy(&ps).contains(pasted_key(&line)));
    // A machine without a network has no address to show.
    let line = line.replace("path HOST:", "path 127.0.0.1:");
    let directory = Path::new(VTARE).parent().and_then(Path::to_str).expect("plain");
    let path_variable = format!("{directory}:{}", std::env::var("PATH").expect("there is one"));
    let pasted = |line: &str| {
        let mut shell = Command::new("sh");
        Outcome::of(shell.args(["-c", line]).env("PATH", &path_variable).output().expect("sh is there"))
    };
    let outcome = pasted(&line);
    assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
    let wrong = pasted(&line.replace(pasted_key(&line), &"0".repeat(64)));
    assert!(wrong.code != 0 && wrong.stderr.contains("key"), "{}", wrong.stderr);
    let (mut second, _) = started(&["--listen", "0.0.0.0:0"], None);
    assert_ne!(pasted_key(&shown(&mut second)[1]), pasted_key(&line), "each start has a key of its own");
    for child in [child, second] {
        let (code, log) = end(child);
        assert!(code == Some(0) && !log.contains(pasted_key(&line)), "{log}");
    }
}

#[test]
fn a_key_that_existed_is_never_printed() {
    let place = Place::new();
    let file = place.file("key");
    assert_eq!(vtare(["serve", "--new-key", path(&file)]).code, 0);
    let key = std::fs::read_to_string(&file).expect("it was written").trim().to_owned();
    for (arguments, variable) in [
        (["--listen", "0.0.0.0:0", "--key-file", path(&file)].as_slice(), None),
        (&["--listen", "0.0.0.0:0"], Some(&*key)),
    ] {
        let (mut child, log) = started(arguments, variable);
        let mut out = child.stdout.take().expect("it was asked for");
        let (code, rest) = end(child);
        let mut shown = String::new();
        out.read_to_string(&mut shown).expect("stdout is readable");
        assert_eq!((code, shown.as_str()), (Some(0), ""));
        assert!(!(log + &rest).contains(&key));
    }
}

#[test]
fn without_a_key_a_program_is_served_on_this_host_only_and_told_so() {
    let outcome = Command::new(VTARE)
        .args(["serve", "--json", "--listen", "0.0.0.0:0"])
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
    for limit in ["rate=0", "burst=0", "packets=0", "rat=5", "rate"] {
        vtare(["serve", "--listen", "127.0.0.1:0", "--limit", limit]).refused(2, &["--limit", &limit[..3]]);
    }
    for (limit, option) in [("stamp-rate=5", "--stamp"), ("rpm-rate=1M", "--rpm")] {
        vtare(["serve", "--listen", "127.0.0.1:0", "--limit", limit]).refused(2, &["is not served", option]);
    }
    let shown = vtare(["serve", "--limit", "rate=5", "--limit", "help"]).stdout;
    assert!(shown.contains("rate=5 ") && shown.contains("\nburst=10000 "), "{shown}");
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
        ready(&["--listen", "127.0.0.1:0", "--limit", "rate=5000", "--max-sessions", "3"], Some(&key));
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

/// A heartbeat as a client sends it, and the whole way back.
#[test]
fn it_answers_heartbeats_of_holders_of_the_key_and_of_nobody_else() {
    use vtare_wire::heartbeat;
    let text = "0f".repeat(32);
    let key = vtare_control::PresharedKey::parse("test", &text).expect("64 digits");
    let (child, document) = ready(&["--listen", "127.0.0.1:0"], Some(&text));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.connect(document["listen"].as_str().expect("an address")).expect("loopback");
    socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).expect("a timeout");
    let mut reply = [0; 200];
    let heartbeats = vtare_control::PresharedKey::for_heartbeats(Some(&key));
    let mut ask = |request: &[u8]| {
        socket.send(request).expect("loopback");
        socket.recv(&mut reply).ok().map(|length| heartbeat::read_reply(&heartbeats, &reply[..length]))
    };
    let asked = heartbeat::request(&heartbeats, &[5; 16]);
    let (nonce, first) = ask(&asked).expect("an answer").expect("of this key");
    let (_, second) = ask(&asked).expect("an answer").expect("of this key");
    assert!(nonce == [5; 16] && first.stamp_ns > 0 && first.stamp_ns < second.stamp_ns && first.host == second.host);
    let strangers = heartbeat::request(&vtare_control::PresharedKey::for_heartbeats(None), &[5; 16]);
    assert!(ask(&strangers).is_none() && ask(&asked[1..]).is_none());
    let (code, log) = end(child);
    assert!(code == Some(0) && log.contains("wrong_tag"), "{log}");
}

#[test]
fn a_clock_without_witnesses_without_a_key_or_with_somebody_elses_file_is_refused() {
    let place = Place::new();
    let file = place.with("letter", "a letter");
    vtare(["clock"]).refused(2, &["--witness", "0 witnesses"]);
    vtare(["clock", "--witness", "192.0.2.1"]).refused(2, &["192.0.2.1", "VTARE_KEY"]);
    let arguments = ["clock", "--witness", "127.0.0.1:9", "--page", path(&file)];
    vtare(arguments).refused(2, &["letter", "no page", "--page"]);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "a letter");
}
