//! Two STAMP reflectors and packets in the name of one of them to the other.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use vtare_control::PresharedKey;
use vtare_wire::stamp::tlv::Request;
use vtare_wire::stamp::{ErrorEstimate, SenderPacket, Time, TimeFormat, packet_byte};

use super::daemon::{Daemon, survived};
use super::forge;
use crate::common::wire::{Wire, new_key};
use crate::common::{Place, VTARE, until, vtare_line};

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

/// Extensions that somebody on the path adds to a packet of a client with the key.
fn added() -> Vec<Vec<u8>> {
    let extension = |kind: u8, length: u16, value: &[u8]| [&[0x80, kind][..], &length.to_be_bytes(), value].concat();
    vec![
        extension(3, 4, &[0; 4]),
        [extension(0, 0, &[]), extension(3, 4, &[0; 4])].concat(),
        extension(2, u16::MAX, &[0; 40]),
        extension(3, 0, &[]).repeat(1_000),
        extension(2, 4, &[0; 4]).repeat(1_000),
        vec![0x80, 4, 0],
        vec![0xff; 8_000],
    ]
}

#[test]
fn attack_extensions_added_to_packets_of_the_authenticated_mode() {
    let place = Place::new();
    let path = place.file("key");
    new_key(&path);
    let text = path.display().to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--stamp",
        "127.0.0.1:0",
        "--stamp-key-file",
        &text,
        "--limit",
        "stamp-rate=1000000",
    ];
    let mut daemon = Daemon::start(&arguments, Stdio::null());
    let stamp = daemon.ready["stamp"].as_str().expect("it reflects").to_owned();
    let key = PresharedKey::read(&path).expect("it was just written").for_stamp();
    let before = daemon.memory_kb();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(&stamp).expect("loopback takes it");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("it is no zero");
    let error = ErrorEstimate::of_ns(1_000, false);
    let (base, requests) = (packet_byte(Some(&key)), [Request::Timestamps]);
    let mut answered = 0;
    for (sequence, extensions) in (0..).zip(added().into_iter().cycle().take(700)) {
        let genuine = base + Request::bytes(&requests, Some(&key));
        let mut packet = vec![0; genuine];
        let sent = Time::from_unix_ns(1_700_000_000_000_000_000, TimeFormat::Ntp);
        let sender = SenderPacket { sequence, sent, error, session: 1 };
        sender.encode(Some(&key), &mut packet).expect("it has room");
        Request::write(&requests, Some(&key), &mut packet[base..], sequence, 1);
        packet.extend_from_slice(&extensions);
        socket.send(&packet).expect("loopback takes it");
        let mut reply = [0; 10_000];
        let byte = socket.recv(&mut reply).expect("the packet itself is genuine");
        assert_eq!(byte, packet.len(), "as long as what came");
        // Flags beside, nothing that was added is filled in.
        let behind = reply[genuine..byte].iter().zip(&extensions);
        answered +=
            usize::from(behind.filter(|(found, sent)| found != sent && ![0x80, 0xff].contains(*sent)).count() > 0);
    }
    assert_eq!(answered, 0);
    let memory = daemon.memory_kb();
    let grown = memory.saturating_sub(before);
    let honest = vtare_line(&format!("rtt {stamp} --stamp --key-file {text} --count 20 --rate 200 --json"));
    assert_eq!(honest.code, 0, "{}", honest.stderr);
    let lost = honest.json()["cells"][0]["lost"].as_u64().expect("losses are counted");
    assert!(daemon.is_alive() && lost == 0 && memory < 24_000 && grown < 2_000, "{lost} {memory} +{grown} kB");
    survived("added_extensions", format!("probes lost {lost} of 20, memory +{grown} kB"));
}
