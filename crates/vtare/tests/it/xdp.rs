//! Probes that the kernel sends, answers and takes, and those in frames of this program's own (AF_XDP), over a veth
//! pair between two namespaces. Skipped, with a message, where this user may not.

use crate::common::skips::spoiled;
use crate::common::wire::{Wire, new_key};
use crate::common::{Outcome, Place, accepted, until};
use serde_json::Value;

fn count(cell: &Value, path: &str) -> u64 {
    cell.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} is no number in {cell:#}"))
}

/// Some were answered, where the machine let any be sent.
#[track_caller]
fn some_came(cell: &Value) {
    assert!(count(cell, "/received") > 0 || count(cell, "/sent") == 0, "{cell:#}");
}

/// The cell of a run in which every slot and every packet is accounted for.
#[track_caller]
fn adds_up(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let cell = outcome.json()["cells"][0].clone();
    let unsent = count(&cell, "/unsent/too_late") + count(&cell, "/unsent/no_room");
    assert_eq!(count(&cell, "/scheduled"), count(&cell, "/sent") + unsent, "{cell:#}");
    assert_eq!(count(&cell, "/sent"), count(&cell, "/received") + count(&cell, "/lost"), "{cell:#}");
    assert_eq!(count(&cell, "/rtt_ns/n"), count(&cell, "/received"));
    cell
}

#[test]
#[ignore = "every form in turn: make test-all"]
fn programs_at_both_ends_account_for_every_packet_in_both_forms() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let Some(_responder) = wire.responder_in_kernel(&key) else { return };
    for (size, rate) in [(64, 20_000), (18, 50_000)] {
        let out = place.file(&format!("{size}.parquet"));
        let line = format!(
            "rtt 10.111.0.2 --key-file {} --engine xdp --size {size} --rate {rate} --seconds 0.4 --json --out {}",
            key.display(),
            out.display()
        );
        let cell = adds_up(&accepted(|| wire.vtare(&line)));
        assert_eq!(cell["link"]["engine"], "xdp");
        assert_eq!(count(&cell, "/scheduled"), rate * 2 / 5);
        // Whatever this machine reaches; what was sent was answered by the program or is accounted for by its counters.
        some_came(&cell);
        assert_eq!(cell["lost_by"]["attribution"], "counters");
        assert_eq!((count(&cell, "/foreign"), count(&cell, "/duplicate")), (0, 0));
        let turnaround = count(&cell, "/turnaround_ns/n");
        assert_eq!(turnaround, count(&cell, "/received"), "each reply carries it");
        assert!(std::fs::metadata(&out).expect("it was written").len() > 10_000);
    }
    // A socket here leaves this end of the veth without GRO or a program: what the far program sends vanishes, and that
    // is shown.
    let line =
        format!("rtt 10.111.0.2 --key-file {} --engine socket --rate 100 --count 50 --timeout 100ms", key.display());
    let unanswered = accepted(|| wire.vtare(&line));
    unanswered.refused(4, &["no reply to"]);
    let text = unanswered.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("answered every packet") && text.contains("gro on"), "{text}");
    if wire.here("ethtool -K va gro on").is_some() {
        let cell = adds_up(&accepted(|| wire.vtare(&format!("{line} --json"))));
        assert_eq!((cell["link"]["engine"].as_str(), count(&cell, "/scheduled")), (Some("udp"), 50));
        some_came(&cell);
    }
}

#[test]
fn a_far_end_that_takes_no_frames_of_programs_is_named_and_auto_takes_sockets() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    // A fresh veth takes no redirected frames: neither GRO nor a program is there.
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    let line = format!("rtt 10.111.0.2 --key-file {} --engine xdp --count 10 --json", key.display());
    let outcome = accepted(|| wire.vtare(&line));
    if outcome.stderr.contains("not permitted") || outcome.stderr.contains("not supported") {
        return eprintln!("skipped: {}", outcome.stderr);
    }
    outcome.refused(3, &["va", "10.111.0.2", "gro on", "--xdp"]);
    let line = format!("rtt 10.111.0.2 --key-file {} --rate 300000 --seconds 0.05 --json", key.display());
    let cell = adds_up_or_no_room(&accepted(|| wire.vtare(&line)));
    assert_eq!(cell["link"]["engine"], "udp");
    let refusals = cell["link"]["refusals"].as_array().expect("a list").clone();
    assert!(refusals.iter().any(|refusal| refusal["wanted"] == "xdp"), "{refusals:?}");
}

#[track_caller]
fn adds_up_or_no_room(outcome: &Outcome) -> Value {
    let cell = outcome.json()["cells"][0].clone();
    let unsent = count(&cell, "/unsent/too_late") + count(&cell, "/unsent/no_room");
    assert_eq!(count(&cell, "/scheduled"), count(&cell, "/sent") + unsent, "{cell:#}");
    cell
}

#[test]
fn an_interrupted_run_ends_at_once_and_keeps_what_it_has() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let Some(_responder) = wire.responder_in_kernel(&key) else { return };
    let out = place.file("rtt.parquet");
    let line = "rtt 10.111.0.2 --engine xdp --rate 2000 --seconds 60 --json --key-file";
    // Where it had not sent yet when it was interrupted it is given more time.
    for seconds in [1, 4, 16] {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", wire.names().0, crate::common::VTARE]).args(line.split(' ')).arg(&key);
        command.arg("--out").arg(&out).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("ip was there before");
        until("it takes signals", || crate::common::takes_interrupts(child.id()));
        std::thread::park_timeout(std::time::Duration::from_secs(seconds));
        let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
        let document = outcome.json();
        let cell = &document["cells"][0];
        if cell["sent"].as_u64().is_none_or(|sent| sent == 0) {
            continue;
        }
        assert_eq!((outcome.code, &document["interrupted"]), (130, &Value::from(true)), "{}", outcome.stderr);
        assert_eq!(count(cell, "/sent"), count(cell, "/received") + count(cell, "/lost"), "{cell:#}");
        return assert!(out.exists());
    }
    spoiled("this machine stalled for 16 s");
}

/// Whether this user may not have AF_XDP sockets, with a message.
fn skipped(outcome: &Outcome) -> bool {
    let skipped =
        outcome.code == 3 && ["not permitted", "not supported"].iter().any(|why| outcome.stderr.contains(why));
    if skipped {
        eprintln!("skipped: {}", outcome.stderr);
    }
    skipped
}

#[test]
#[ignore = "every form in turn: make test-all"]
fn frames_of_its_own_account_for_every_packet_in_both_forms_and_ways_of_waiting() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    for (size, rate, more) in
        [(64, 20_000, ""), (18, 50_000, ""), (1_472, 5_000, ""), (64, 1_000, "--blocking"), (64, 1_000, "--poisson")]
    {
        let out = place.file(&format!("{size}{more}.parquet"));
        let line = format!(
            "rtt 10.111.0.2 --key-file {} --engine af_xdp --size {size} --rate {rate} --seconds 0.4 --json --out {} \
             {more}",
            key.display(),
            out.display()
        );
        let outcome = accepted(|| wire.vtare(line.trim()));
        if skipped(&outcome) {
            return;
        }
        let cell = adds_up(&outcome);
        assert_eq!(cell["link"]["engine"], "af_xdp");
        assert!(cell["link"]["chosen_because"].as_str().expect("a reason").contains("on va (veth)"), "{cell:#}");
        let capabilities = &cell["link"]["capabilities"];
        assert_eq!((&capabilities["rx_stamp"], &capabilities["tx_stamp"]), (&"software".into(), &Value::Null));
        some_came(&cell);
        assert_eq!(cell["lost_by"]["attribution"], "counters");
        assert_eq!((count(&cell, "/foreign"), count(&cell, "/duplicate"), count(&cell, "/unknown")), (0, 0, 0));
        // Arrivals are stamped and departures are not: no figure from kernel to kernel.
        assert_eq!(count(&cell, "/rtt_kernel_ns/n"), 0);
        assert!(std::fs::metadata(&out).expect("it was written").len() > 1_000);
    }
    // The interface is free again, and the engine runs in a closed loop, too.
    let line = format!("rtt 10.111.0.2 --key-file {} --engine af_xdp --flood --count 200 --json", key.display());
    let cell = accepted(|| wire.vtare(&line)).json()["cells"][0].clone();
    assert_eq!((count(&cell, "/sent"), &cell["link"]["engine"]), (200, &"af_xdp".into()));
    // Programs at the far end answer it, too: this end's program takes their frames.
    drop(_responder);
    let Some(_responder) = wire.responder_in_kernel(&key) else { return };
    let line = format!("rtt 10.111.0.2 --key-file {} --engine af_xdp --count 100 --json", key.display());
    let cell = adds_up(&accepted(|| wire.vtare(&line)));
    some_came(&cell);
}

#[test]
fn by_rate_frames_of_its_own_are_chosen_and_the_reason_is_shown() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    let probe = |more: &str| {
        let line = format!("rtt 10.111.0.2 --key-file {} --seconds 0.05 --json {more}", key.display());
        accepted(|| wire.vtare(&line))
    };
    if skipped(&probe("--engine af_xdp")) {
        return;
    }
    for (rate, engine) in [(100_000, "udp"), (150_000, "af_xdp"), (200_000, "af_xdp")] {
        let cell = adds_up_or_no_room(&probe(&format!("--rate {rate}")));
        assert_eq!(cell["link"]["engine"], engine, "{cell:#}");
        let refused = cell["link"]["refusals"].as_array().expect("a list");
        let copied = refused.iter().any(|refusal| refusal["wanted"] == "zero_copy");
        assert_eq!(copied, engine == "af_xdp", "a veth knows no zero copy: {refused:?}");
    }
    // Where another program has the interface it falls back to sockets, or gives the reason why not.
    let _other = Other::at_the_interface(&wire, &key);
    let cell = adds_up_or_no_room(&probe("--rate 150000"));
    assert_eq!(cell["link"]["engine"], "udp", "{cell:#}");
    let refusals = cell["link"]["refusals"].as_array().expect("a list").clone();
    assert!(refusals.iter().any(|refusal| refusal["wanted"] == "af_xdp"), "{refusals:?}");
    probe("--engine af_xdp").refused(3, &["engine af_xdp", "another program is attached"]);
}

/// A run whose program is at this end's interface, ended when dropped.
struct Other(std::process::Child);

impl Other {
    fn at_the_interface(wire: &Wire, key: &std::path::Path) -> Self {
        let line = "rtt 10.111.0.2 --engine af_xdp --rate 10 --seconds 300 --blocking --key-file";
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", wire.names().0, crate::common::VTARE]).args(line.split(' ')).arg(key);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let other = Self(command.spawn().expect("ip was there before"));
        until("its program is attached", || wire.here("ip link show va").is_some_and(|text| text.contains("xdp")));
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn replies_that_may_come_to_any_of_several_queues_are_refused() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    let Some(_) = wire.here("ethtool -L va rx 2") else { return eprintln!("skipped: this veth takes one queue only") };
    let line = format!("rtt 10.111.0.2 --key-file {} --engine af_xdp --count 10", key.display());
    let outcome = accepted(|| wire.vtare(&line));
    if skipped(&outcome) {
        return;
    }
    outcome.refused(3, &["va", "2 receive queues", "ethtool -L va"]);
}

#[test]
fn what_programs_do_not_do_is_refused_with_the_way_out() {
    for more in ["--flood", "--poisson", "--blocking", "--icmp"] {
        let outcome = crate::common::vtare_line(&format!("rtt 127.0.0.1 --engine xdp {more}"));
        outcome.refused(2, &["engine xdp cannot send with", "--engine socket"]);
    }
    for more in ["--icmp", "--stamp", "--hardware-stamps", "--busy-poll 50us"] {
        let outcome = crate::common::vtare_line(&format!("rtt 127.0.0.1 --engine af_xdp {more}"));
        outcome.refused(2, &["engine af_xdp cannot send with", "--engine socket"]);
    }
    let outcome = crate::common::vtare_line("serve --listen 127.0.0.1:0 --xdp no-such-interface");
    outcome.refused(2, &["no interface 'no-such-interface'", "lo"]);
}
