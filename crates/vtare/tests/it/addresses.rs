//! Far ends by every kind of address: link-local ones with their interface, names with several addresses.

use std::path::Path;
use std::process::Command;

use crate::common::wire::{Responder, Wire, new_key};
use crate::common::{Outcome, Place, VTARE, until};

/// The link-local address of the far side, once both sides may use theirs; `None` without IPv6.
fn link_local(wire: &Wire) -> Option<String> {
    if !Path::new("/proc/net/if_inet6").exists() {
        eprintln!("skipped: no IPv6 here");
        return None;
    }
    let shown = |device: &str| format!("ip -6 -o addr show dev {device} scope link -tentative");
    let there = || wire.there(&shown("vb")).unwrap_or_default();
    until("link-local addresses", || {
        there().contains("fe80::") && wire.here(&shown("va")).is_some_and(|text| text.contains("fe80::"))
    });
    let text = there();
    let address = text.split_whitespace().find(|word| word.starts_with("fe80::"))?;
    address.split('/').next().map(str::to_owned)
}

#[test]
fn every_instrument_reaches_a_link_local_far_end_by_its_interface() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let Some(address) = link_local(&wire) else { return };
    // The far end listens at its own link-local address: the interface is in what it is asked for, too.
    let responder = wire.responder(&key, &format!("[{address}%vb]:8462"));
    assert!(responder.address.starts_with(&format!("[{address}%")), "{}", responder.address);
    let key = key.display();
    for line in [
        format!("rtt {address}%va --key-file {key} --count 5 --rate 100 --blocking -q"),
        format!("rtt [{address}%va]:8462 --key-file {key} --count 5 --rate 100 --blocking -q"),
        format!("rtt {address}%va --icmp --count 5 --rate 100 --blocking -q"),
        format!("avb {address}%va --key-file {key} --count 1 -q"),
        format!("avb {address}%va --key-file {key} --method tcp --count 1 --max-time 3s -q"),
        format!("path {address}%va --key-file {key} --max-time 2s -q"),
    ] {
        let outcome = wire.vtare(&line);
        assert_eq!(outcome.code, 0, "{line}: {}{}", outcome.stdout, outcome.stderr);
    }
    wire.vtare(&format!("rtt {address} --key-file {key} --count 5 -q")).refused(2, &["needs its interface", "%eth0"]);
}

#[test]
fn each_address_of_a_name_is_tried() {
    let responder = Responder::start(Command::new(VTARE).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--stamp",
        "127.0.0.1:0",
        "--json",
    ]));
    let place = Place::new();
    let hosts = place.file("hosts");
    std::fs::write(&hosts, "::1 localhost\n127.0.0.1 localhost\n").expect("it can be written");
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned()).expect("it has a port");
    let stamp = port(responder.stamp.as_deref().expect("it was asked for"));
    let port = port(&responder.address);
    for line in [
        format!("rtt localhost:{port} --count 5 --rate 100 --blocking -q"),
        format!("rtt localhost:{stamp} --stamp --count 5 --rate 100 --blocking -q"),
        format!("avb localhost:{port} --count 1 -q"),
    ] {
        let script = format!("mount --bind {} /etc/hosts && exec {VTARE} {line}", hosts.display());
        let outcome = Outcome::of(Command::new("unshare").args(["-m", "sh", "-c", &script]).output().expect("unshare"));
        if outcome.stderr.contains("unshare:") || outcome.stderr.contains("mount:") {
            eprintln!("skipped: no mount namespace here: {}", outcome.stderr);
            return;
        }
        assert_eq!(outcome.code, 0, "{line}: {}{}", outcome.stdout, outcome.stderr);
        assert!(!outcome.stdout.is_empty(), "{line}");
    }
}
