//! Loads: they end on every kind of end, report what they did, and leave nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::common::{Outcome, Place, VTARE, vtare, vtare_line};

/// Starts a load and waits until it prints `ready`.
fn ready(arguments: &[&str]) -> Child {
    let mut child = Command::new(VTARE)
        .arg("load")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let stderr = child.stderr.as_mut().expect("it was asked for");
    BufReader::new(stderr).read_line(&mut line).expect("stderr is readable");
    assert_eq!(line, "ready\n");
    child
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(status.expect("kill is there").success());
}

/// Whether a process runs: a zombie has ended.
fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).is_some_and(|state| !"ZX".contains(state))
}

#[test]
fn a_signal_is_the_ordinary_end_and_the_report_shows_the_load() {
    for (kind, name, threads) in [("cpu", "TERM", 100), ("io", "INT", 4), ("idle", "TERM", 0)] {
        let child = ready(&[kind, "--json"]);
        signal(child.id(), name);
        let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
        assert_eq!(outcome.code, 0, "{kind}: {}", outcome.stderr);
        let report = outcome.json();
        assert_eq!((&report["schema"], &report["kind"]), (&"vtare.load/1".into(), &kind.into()));
        assert_eq!(report["threads"], threads);
        assert_eq!(report["io"].is_object(), kind == "io");
    }
}

#[test]
fn a_load_with_a_limit_ends_by_itself_and_has_worked() {
    let outcome = vtare_line("load cpu --threads 2 --seconds 0.05 --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, "ready\n"));
    let report = outcome.json();
    assert!(report["operations"].as_u64().is_some_and(|operations| operations > 0), "{report}");
    assert!(report["elapsed_s"].as_f64().is_some_and(|elapsed| elapsed >= 0.05), "{report}");
}

#[test]
fn the_io_load_leaves_no_file_even_when_killed() {
    let place = Place::new();
    let directory = place.path().to_str().expect("the temporary directory has a plain name");
    let mut child = ready(&["io", "--dir", directory]);
    assert_eq!(place.files(), [] as [&str; 0], "its files have no name while it runs");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(place.files(), [] as [&str; 0]);
}

#[test]
fn a_killed_parent_takes_its_load_along() {
    // The shell starts the load, prints its process number, and waits for a line that never comes.
    let script = format!("{VTARE} load cpu --threads 2 2>&1 >/dev/null & echo $!; read line");
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let mut lines = BufReader::new(parent.stdout.take().expect("it was asked for")).lines();
    let mut next = || lines.next().expect("the shell and the load each write a line").expect("stdout is readable");
    let (first, second) = (next(), next());
    let process: u32 = if first == "ready" { second } else { first }.parse().expect("a process number");
    assert!(runs(process));
    parent.kill().expect("it runs");
    parent.wait().expect("it ends");
    // The signal comes when the parent is gone; a load that stays makes this test hang, and that is its failure.
    while runs(process) {
        std::thread::yield_now();
    }
}

#[test]
fn what_makes_no_load_is_refused_with_the_way_out() {
    vtare_line("load io --threads 3").refused(2, &["--threads 3 makes no io load", "even number"]);
    vtare_line("load idle --threads 1").refused(2, &["--threads 1", "use none"]);
    vtare_line("load disk").refused(2, &["disk", "idle, cpu, counter, io, nbd, net"]);
    vtare_line("load cpu --seconds 0").refused(2, &["'0' is not", "above 0"]);
    vtare_line("load io --dir /nonexistent").refused(2, &["/nonexistent", "--dir"]);
    let document = vtare(["load", "io", "--threads", "3", "--json"]).json();
    assert_eq!(document["exit_code"], 2);
}

#[test]
fn a_full_disk_ends_the_load_with_the_space_it_needs() {
    // Writes to a file of this size limit fail as on a full disk, without one.
    let script = format!("trap '' XFSZ; ulimit -f 8; exec {VTARE} load io --seconds 5");
    let outcome = Outcome::of(Command::new("sh").args(["-c", &script]).output().expect("there is a shell"));
    outcome.refused(3, &["cannot write", "File too large", "32 MiB"]);
}

#[test]
fn the_net_load_and_its_sink_agree_to_the_byte() {
    let free =
        std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("there are ports");
    let place = Place::new();
    let (out, counted) = (place.file("sent.parquet"), place.file("counted.parquet"));
    let at = free.to_string();
    let sink = ready(&["net", "--sink", &at, "--json", "--out", counted.to_str().expect("a plain name")]);
    let line = format!(
        "load net --to {at} --rate 20M --arrivals poisson --seconds 0.3 --seed 5 --json --out {}",
        out.display()
    );
    let sender = vtare_line(&line);
    assert_eq!((sender.code, sender.stderr.as_str()), (0, "ready\n"));
    signal(sink.id(), "TERM");
    let sink = Outcome::of(sink.wait_with_output().expect("it ends"));
    assert_eq!(sink.code, 0, "{}", sink.stderr);
    let (sender, sink) = (sender.json(), sink.json());
    assert_eq!(
        (&sender["kind"], &sender["net"]["role"], &sink["net"]["role"]),
        (&"net".into(), &"sender".into(), &"sink".into())
    );
    assert_eq!(sender["net"]["sender"]["seed"], 5);
    assert!(sender["net"]["packets"].as_u64().is_some_and(|packets| packets > 0), "{sender:#}");
    assert_eq!(place.files(), ["counted.parquet", "sent.parquet"]);
    for path in [&out, &counted] {
        let (found, stated) = crate::common::found_and_stated_columns(path, "logs", "load net");
        assert_eq!(found, stated, "{}", path.display());
    }
    if sink["net"]["sink"]["socket_drops"] != 0 {
        return crate::common::skips::spoiled(&format!(
            "the sink's buffer was full: {} drops",
            sink["net"]["sink"]["socket_drops"]
        ));
    }
    for key in ["packets", "ip_byte"] {
        assert_eq!(sender["net"][key], sink["net"][key], "{sender:#}{sink:#}");
    }
}

#[test]
fn a_net_load_that_cannot_be_is_refused_with_the_way_out() {
    vtare_line("load net").refused(2, &["--to ADDR:PORT", "--sink ADDR:PORT"]);
    vtare_line("load net --to 127.0.0.1:9").refused(2, &["--rate 150M"]);
    vtare_line("load net --to 127.0.0.1:9 --sink 127.0.0.1:9").refused(2, &["cannot be used with"]);
    vtare_line("load net --to localhost --rate 1M").refused(2, &["localhost"]);
    vtare_line("load net --to 127.0.0.1:9 --rate 1M --arrivals onoff --shape 1").refused(2, &["more than 1"]);
    vtare_line("load net --to 127.0.0.1:9 --rate 1M --arrivals onoff --peak 1M").refused(2, &["below the peak"]);
    vtare_line("load net --to 127.0.0.1:9 --rate 1M --bin 1ns").refused(2, &["--bin", "10000"]);
    vtare_line("load net --to 127.0.0.1:9 --rate 1M --threads 2").refused(2, &["--threads"]);
    vtare_line("load net --sink 192.0.2.1:9").refused(3, &["192.0.2.1:9"]);
    vtare_line("load cpu --rate 1M").refused(2, &["load cpu", "--rate"]);
    vtare_line("load net --sink 127.0.0.1:9 --out /nonexistent/x.parquet").refused(2, &["/nonexistent"]);
}
