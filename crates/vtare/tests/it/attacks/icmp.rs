//! Forged ICMP messages: they must not change the replies of a session.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use super::daemon::{Daemon, survived};
use super::forge::{self, fragmentation_needed, packet_too_big};
use crate::common::wire::{Wire, new_key};
use crate::common::{Place, VTARE, until};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 1);
const RESPONDER: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 2);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 1);
const RESPONDER_V6: Ipv6Addr = Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 2);

/// Fragments that came to the client's side, of both families.
fn fragments(wire: &Wire) -> u64 {
    let snmp = wire.here("cat /proc/net/snmp /proc/net/snmp6").expect("every namespace has it");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let ip: Vec<_> = snmp.lines().filter(|line| line.starts_with("Ip:")).map(words).collect();
    let at = ip[0].iter().position(|name| name == "ReasmReqds").expect("the kernel counts them");
    let ipv6 = snmp.lines().find_map(|line| line.strip_prefix("Ip6ReasmReqds")).map_or("0", str::trim);
    ip[1][at].parse::<u64>().expect("a number") + ipv6.parse::<u64>().expect("a number")
}

#[test]
fn attack_forged_icmp_messages_do_not_fragment_replies() {
    let Some(wire) = Wire::new() else { return };
    let (here, there) = wire.names();
    let made = wire.here("ip addr add fd71::1/64 dev va nodad").and(wire.there("ip addr add fd71::2/64 dev vb nodad"));
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let mut serve = Command::new("ip");
    serve.args(["netns", "exec", there, VTARE, "serve", "--json", "--listen", "[::]:8462", "--key-file"]).arg(&key);
    let daemon = Daemon::of(serve.stderr(Stdio::null()));
    // Anybody can send them: here a neighbour that does not exist.
    let mut families = vec![("10.111.0.2", "10.111.0.1", "mtu 552")];
    forge::send(here, RESPONDER.into(), &fragmentation_needed(Ipv4Addr::new(10, 111, 0, 9), RESPONDER, CLIENT, 552));
    if made.is_some() {
        families.push(("fd71::2", "fd71::1", "mtu 1280"));
        forge::send(here, RESPONDER_V6.into(), &packet_too_big(RESPONDER_V6, CLIENT_V6, 1_280));
    }
    let mut lost = 0;
    for (responder, client, believed) in families.iter().copied() {
        until("the responder's kernel believes the forged message", || {
            let route = wire.there(&format!("ip route get {client}")).expect("there is a route");
            route.contains(believed)
        });
        let line = format!("rtt {responder} --key-file {} --size 1400 --count 20 --rate 200 --json", key.display());
        let outcome = wire.vtare(&line);
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        lost += outcome.json()["cells"][0]["lost"].as_u64().expect("losses are counted");
        assert_eq!(fragments(&wire), 0, "{responder}: replies came in fragments");
    }
    drop(daemon);
    survived("forged_icmp", format!("probes lost {lost} of {}, fragments 0", 20 * families.len()));
}
