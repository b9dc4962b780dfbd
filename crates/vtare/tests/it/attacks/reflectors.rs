//! Two STAMP reflectors and packets in the name of one of them to the other.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use super::daemon::{Daemon, survived};
use super::forge;
use crate::common::wire::Wire;
use crate::common::{VTARE, until};

const ONE: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 2);
const ONE_PORT: u16 = 8_620;
const OTHER_PORT: u16 = 8_621;
const SPOOFED: u16 = 40;

fn reflector(namespace: &str, stamp: &str) -> Daemon {
    let mut serve = Command::new("ip");
    serve.args(["netns", "exec", namespace, VTARE, "serve", "--json", "--listen", "127.0.0.1:0", "--stamp", stamp]);
    Daemon::of(serve.env_remove("VTARE_KEY").stderr(Stdio::null()))
}

/// UDP datagrams that came in there so far.
fn arrived(snmp: Option<String>) -> u64 {
    let snmp = snmp.expect("every namespace has it");
    let values = snmp.lines().filter(|line| line.starts_with("Udp:")).nth(1).expect("names, then values");
    values.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("InDatagrams comes first")
}

#[test]
fn attack_one_spoofed_packet_makes_two_reflectors_answer_each_other() {
    let Some(wire) = Wire::new() else { return };
    let (here, there) = wire.names();
    let one = reflector(here, &format!("{ONE}:{ONE_PORT}"));
    let other = reflector(there, &format!("{OTHER}:{OTHER_PORT}"));
    let packets: Vec<Vec<u8>> = (0..SPOOFED)
        .map(|number| {
            // RFC 8762, 4.2.1: number, NTP time, error estimate, zeros.
            let mut stamp = [0; 44];
            stamp[2..4].copy_from_slice(&number.to_be_bytes());
            stamp[4..8].copy_from_slice(&0xe000_0001_u32.to_be_bytes());
            stamp[12..14].copy_from_slice(&[0, 1]);
            forge::ipv4(17, OTHER, ONE, &forge::udp(OTHER_PORT, ONE_PORT, &stamp))
        })
        .collect();
    forge::send(there, ONE.into(), &packets);
    let came = |command: &str| (arrived(wire.here(command)), arrived(wire.there(command)));
    let snmp = "cat /proc/net/snmp";
    let sent = u64::from(SPOOFED);
    until("each spoofed packet has been answered once", || {
        let (here, there) = came(snmp);
        here >= sent && there >= sent
    });
    // A packet of this test comes behind all that still goes to and fro.
    let honest = wire.there(&format!("{VTARE} rtt {ONE}:{ONE_PORT} --stamp --count 20 --rate 100 --json"));
    assert!(honest.is_some(), "the reflector still answers");
    assert_eq!(
        came(snmp),
        (sent + 20, sent + 20),
        "nothing but the spoofed packets and 20 of a sender, and one answer to each"
    );
    drop((one, other));
    survived("two_reflectors", format!("packets that went on between them 0 of {SPOOFED}"));
}
