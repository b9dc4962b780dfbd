//! The program of the far end, which answers.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use vtare_sys::bpf::Program;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Peer, Timestamp};

use vtare_units::Random;
use vtare_wire::session::{Arrival, Counters, Grant, Limits, Open, Purpose, Secrets, Table, Verdict, WireForm};
use vtare_wire::{full, internet_checksum, short};
use super::{XdpError, XdpReflector};

#[allow(dead_code, reason = "each crate that includes the file uses a part of it")]
#[path = "../../../bpf/tests/frame/mod.rs"]
mod frame;

use frame::*;

fn open(form: WireForm) -> Open {
    Open {
        purpose: Purpose::Rtt,
        form,
        rate_packet_per_s: 1_000_000,
        burst_packet: 10_000,
        duration_ns: 60_000_000_000,
        packets: 1_000_000,
        size_byte: 200,
        flows: None,
        ecn: false,
    }
}

/// A responder with one session, that the program has received a datagram of.
struct Far {
    table: Table,
    grant: Grant,
    program: Program,
}

impl Far {
    fn new(open: &Open) -> Option<Self> {
        let (offload, program) = allowed(XdpReflector::load(CARD, PORT, &[HOST], 4))?;
        let mut table = Table::new(Limits::default()).with_offload(Box::new(offload));
        let secrets = Secrets { session: SESSION, key: KEY.clone() };
        let grant = table.open(clocks::now(), IpAddr::V4(CLIENT), open, secrets).expect("within the limits");
        Some(Self { table, grant, program })
    }

    fn context(&self) -> short::Context<'_> {
        short::Context { session: SESSION, handle: self.grant.handle, key: &KEY }
    }

    fn request(&self, sequence: u64, size: usize) -> Vec<u8> {
        let mut payload: Vec<u8> = (0..size).map(|at| at as u8 ^ 0x5a).collect();
        let sent = Timestamp::from_nanos(0x1122_3344_5566_7788);
        match self.grant.open.form {
            WireForm::Full => {
                full::Probe { session: SESSION, sequence, sent, wants_reply: true }.encode(&KEY, &mut payload)
            }
            WireForm::Short => short::Probe::new(sequence, sent, true).encode(&self.context(), &mut payload),
        }
        .expect("room");
        payload
    }

    fn call(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.program.run_once(frame).expect("it runs")
    }

    fn send(&self, sequence: u64) -> u32 {
        self.call(&frame(client(), &self.request(sequence, 64))).0
    }

    fn counters(&mut self) -> Counters {
        self.table.count(clocks::now(), SESSION).expect("it is open")
    }
}

#[test]
fn a_valid_request_goes_back_as_a_reply_that_rust_reads() {
    for (form, size) in [(WireForm::Full, 60), (WireForm::Full, 131), (WireForm::Short, 18), (WireForm::Short, 77)] {
        let Some(mut far) = Far::new(&open(form)) else { return };
        let request = far.request(5, size);
        let sent = frame(client(), &request);
        let before = clocks::now::<Monotonic>().as_nanos();
        let (answer, reply) = far.call(&sent);
        let after = clocks::now::<Monotonic>().as_nanos();
        assert_eq!((answer, reply.len()), (TX, sent.len()), "never longer than what came");
        assert_eq!((&reply[..6], &reply[6..12], &reply[12..14]), (&CLIENT_CARD[..], &CARD[..], &[8, 0][..]));
        assert_eq!((&reply[26..30], &reply[30..34]), (&HOST.octets()[..], &CLIENT.octets()[..]));
        assert_eq!(internet_checksum(&reply[14..34]), 0, "the sum over a whole header");
        assert_eq!((&reply[34..36], &reply[36..38]), (&sent[36..38], &sent[34..36]), "ports");
        assert_eq!((&reply[38..40], &reply[40..42]), (&sent[38..40], &[0, 0][..]), "length kept, no checksum");
        let payload = &reply[42..];
        match form {
            WireForm::Full => {
                let read = full::Unverified::parse(payload).and_then(|datagram| datagram.reply(&KEY)).expect("a reply");
                assert_eq!((read.probe.sequence, read.probe.sent.as_nanos()), (5, 0x1122_3344_5566_7788));
                let turn = read.turnaround;
                assert!(
                    before <= turn.received.as_nanos()
                        && turn.received <= turn.replied
                        && turn.replied.as_nanos() <= after
                );
                assert!(turn.accepted == 1 && turn.flags.rx_by_kernel && !turn.flags.wall_clock);
                assert_eq!(payload[60..], request[60..], "padding kept");
            }
            WireForm::Short => {
                let context = far.context();
                let read = short::Unverified::parse(payload)
                    .and_then(|datagram| datagram.reply(&context, 9))
                    .expect("a reply");
                assert_eq!(read.sequence, 5);
                assert!(read.turnaround.expect("short").as_nanos_unsigned() <= after - before);
                assert_eq!(payload[18..], request[18..], "padding kept");
            }
        }
        let counters = far.counters();
        let one = Counters {
            accepted: 1,
            replied: 1,
            accepted_byte: size as u64,
            replied_byte: size as u64,
            ..Counters::default()
        };
        assert_eq!(counters, one);
        assert_eq!(far.table.close(SESSION), Some(one));
        assert_eq!(far.call(&sent).0, PASS, "a closed session is the daemon's affair");
    }
}

#[test]
fn a_frame_cut_anywhere_is_never_answered() {
    for form in [WireForm::Full, WireForm::Short] {
        let Some(mut far) = Far::new(&open(form)) else { return };
        let whole = frame(client(), &far.request(1, 100));
        for end in 14..whole.len() {
            assert_eq!(far.call(&whole[..end]).0, PASS, "cut at {end}");
            // The same with lengths that fit what is left.
            if end >= 42 {
                let mut shorter = whole[..end].to_vec();
                shorter[16..18].copy_from_slice(&(end as u16 - 14).to_be_bytes());
                shorter[38..40].copy_from_slice(&(end as u16 - 34).to_be_bytes());
                let answer = far.call(&shorter).0;
                // The short form's tag does not cover its padding, nor the size.
                let valid = form == WireForm::Short && end == 42 + 18;
                assert_eq!(
                    answer,
                    if valid {
                        TX
                    } else if form == WireForm::Short && end > 60 {
                        DROP
                    } else {
                        PASS
                    },
                    "{end}"
                );
            }
        }
        assert_eq!(far.counters().forged, 0);
    }
}

#[test]
fn any_wrong_bit_of_headers_and_tag_goes_on_to_the_daemon_or_nowhere() {
    for form in [WireForm::Full, WireForm::Short] {
        let Some(far) = Far::new(&open(form)) else { return };
        let header = form.header_byte();
        let good = frame(client(), &far.request(1, 90));
        for bit in 0..(42 + header) * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (answer, _) = far.call(&bad);
            // Not checked: the sender's card, type of service, identity, may-not-fragment and the flag beside it,
            // TTL, the IP header's and UDP's checksum, the client's port.
            let free =
                matches!(bit / 8, 6..=11 | 15 | 18..=19 | 22 | 24..=25 | 34..=35 | 40..=41) || matches!(bit, 166 | 167);
            let other_address = matches!(bit / 8, 26..=29);
            let expected = if other_address {
                DROP
            } else if free {
                TX
            } else {
                PASS
            };
            if free {
                // Each is answered once: this one must be a new one.
                let sequence = 100 + bit as u64;
                let mut fresh = frame(client(), &far.request(sequence, 90));
                fresh[bit / 8] ^= 1 << (bit % 8);
                let answer = far.call(&fresh).0;
                let port_changed = matches!(bit / 8, 34..=35);
                assert!(answer == TX || port_changed && answer == DROP, "bit {bit}: {answer}");
                continue;
            }
            assert_eq!(answer, expected, "bit {bit}, byte {}", bit / 8);
        }
    }
}

#[test]
fn what_is_not_for_this_host_goes_on() {
    let Some(far) = Far::new(&open(WireForm::Full)) else { return };
    let good = frame(client(), &far.request(1, 90));
    let other = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        far.call(&frame).0
    };
    assert_eq!(other(30, &[10, 0, 0, 255]), PASS, "to all on the link");
    assert_eq!(other(0, &[0xff; 6]), PASS, "to all cards");
    assert_eq!(other(36, &1_u16.to_be_bytes()), PASS, "another port");
    assert_eq!(other(12, &[0x86, 0xdd]), PASS, "IPv6");
    assert_eq!(other(20, &[0x20, 0]), PASS, "first part of a datagram");
    assert_eq!(other(20, &[0, 9]), PASS, "last part of a datagram");
    assert_eq!(other(14, &[0x46]), PASS, "IP options");
    assert_eq!(other(0, &[]), TX, "and the good one is good");
}

#[test]
fn another_address_or_port_an_oversized_one_and_a_replay_are_refused_and_counted() {
    let Some(mut far) = Far::new(&open(WireForm::Full)) else { return };
    assert_eq!(far.send(0), TX);
    assert_eq!(far.send(0), DROP, "a replay");
    let request = far.request(1, 64);
    assert_eq!(far.call(&frame(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), CLIENT_PORT), &request)).0, DROP);
    assert_eq!(
        far.call(&frame(SocketAddrV4::new(CLIENT, CLIENT_PORT + 1), &request)).0,
        DROP,
        "another port than the first"
    );
    assert_eq!(far.call(&frame(client(), &far.request(2, 201))).0, DROP, "longer than granted");
    assert_eq!(far.send(200_000), TX);
    assert_eq!(far.send(200_000 - 65_472), DROP, "older than the window");
    assert_eq!(far.send(200_000 - 65_471), TX, "just within");
    assert_eq!(far.send(u64::MAX), DROP);
    let counters = far.counters();
    let found = (counters.accepted, counters.duplicate, counters.forged, counters.oversized, counters.too_old);
    assert_eq!(found, (3, 1, 2, 1, 2));
}

#[test]
fn number_and_rate_are_kept() {
    let Some(mut far) = Far::new(&Open { packets: 3, ..open(WireForm::Full) }) else { return };
    assert_eq!([0, 1, 2, 3].map(|sequence| far.send(sequence)), [TX, TX, TX, DROP]);
    assert_eq!(far.counters().over_limit, 1);
    // One packet in 1,000 s: the burst of one, and the slack of one, and nothing for a long time.
    let Some(mut far) = Far::new(&Open { rate_packet_per_s: 1, burst_packet: 1, ..open(WireForm::Short) }) else {
        return;
    };
    assert_eq!([0, 1, 2, 3].map(|sequence| far.send(sequence)), [TX, TX, DROP, DROP]);
    assert_eq!(far.counters().over_rate, 2);
    let Some(far) = Far::new(&Open { rate_packet_per_s: 0, ..open(WireForm::Short) }) else { return };
    assert_eq!(far.send(0), DROP, "at no rate nothing passes");
}

#[test]
fn a_one_way_probe_is_counted_and_not_answered() {
    let Some(mut far) = Far::new(&open(WireForm::Full)) else { return };
    let mut payload = vec![0; 64];
    let probe = full::Probe { session: SESSION, sequence: 0, sent: Timestamp::ZERO, wants_reply: false };
    probe.encode(&KEY, &mut payload).expect("room");
    assert_eq!(far.call(&frame(client(), &payload)).0, DROP);
    let counters = far.counters();
    assert_eq!((counters.accepted, counters.replied, counters.replied_byte), (1, 0, 0));
}

#[test]
fn a_session_has_one_judge_whoever_was_first() {
    let arrival = |far: &mut Far, sequence: u64| {
        let mut payload = far.request(sequence, 64);
        let flags = full::ReplyFlags::default();
        let arrival = Arrival { now: clocks::now(), received: Timestamp::ZERO, flags, class: None };
        let verdict = far.table.judge(SocketAddr::V4(client()), &mut payload, &arrival, || Timestamp::<Peer>::ZERO);
        matches!(verdict, Verdict::Reply(_))
    };
    let Some(mut far) = Far::new(&open(WireForm::Full)) else { return };
    assert!(arrival(&mut far, 0), "the daemon met the first");
    assert_eq!(far.send(0), PASS, "so the program leaves even a replay to it");
    assert_eq!(far.send(1), PASS);
    let Some(mut far) = Far::new(&open(WireForm::Full)) else { return };
    assert_eq!(far.send(0), TX, "the program met the first");
    assert!(!arrival(&mut far, 0), "so a replay past it gets no second answer");
    assert!(!arrival(&mut far, 1));
    assert_eq!(far.counters().forged, 2);
}

#[test]
fn a_session_that_the_program_hears_of_does_not_expire() {
    let limits = Limits { idle_ns: 1_000_000_000, ..Limits::default() };
    let Some((offload, program)) = allowed(XdpReflector::load(CARD, PORT, &[HOST], 4)) else { return };
    let mut table = Table::new(limits).with_offload(Box::new(offload));
    // Opened so long ago that it is about to expire; the program receives a datagram of it now.
    let opened = clocks::now::<Monotonic>() - vtare_units::Span::from_millis(900);
    let secrets = Secrets { session: SESSION, key: KEY.clone() };
    let grant = table.open(opened, IpAddr::V4(CLIENT), &open(WireForm::Full), secrets).expect("within the limits");
    let far = Far { table, grant, program };
    assert_eq!(far.send(0), TX);
    let mut table = far.table;
    assert!(table.expire(opened + vtare_units::Span::from_millis(1_050)).is_empty());
    let expired = table.expire(clocks::now::<Monotonic>() + vtare_units::Span::from_secs(2));
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].1.accepted, 1, "with what the program counted");
    assert_eq!(table.offloaded().replied, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn program_and_table_judge_a_series_alike(seed: u64, jump in 1_u64..3_000) {
        let Some(mut far) = Far::new(&open(WireForm::Short)) else { return Ok(()) };
        let mut twin = Table::new(Limits::default());
        let now = clocks::now();
        let secrets = Secrets { session: SESSION, key: KEY.clone() };
        twin.open(now, IpAddr::V4(CLIENT), &open(WireForm::Short), secrets).expect("within the limits");
        let mut random = Random::new(seed);
        let mut newest = 0;
        for _ in 0..400 {
            let step = random.bits();
            let sequence = match step % 5 {
                0 => newest + step % jump,
                1 => newest + step % 70_000,
                2 => newest.saturating_sub(step / 5 % 70_000),
                _ => newest + 1,
            };
            newest = newest.max(sequence);
            let mut payload = far.request(sequence, 18 + (step % 200) as usize);
            let answer = far.call(&frame(client(), &payload)).0;
            let flags = full::ReplyFlags::default();
            let arrival = Arrival { now: clocks::now(), received: Timestamp::ZERO, flags, class: None };
            let verdict = twin.judge(SocketAddr::V4(client()), &mut payload, &arrival, || Timestamp::<Peer>::ZERO);
            let expected = if matches!(verdict, Verdict::Reply(_)) { TX } else { DROP };
            prop_assert_eq!(answer, expected, "number {} after {}", sequence, newest);
        }
        prop_assert_eq!(far.counters(), twin.count(now, SESSION).expect("it is open"));
    }
}
