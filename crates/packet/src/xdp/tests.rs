//! The programs, called on single frames, beside the same logic in Rust. Skipped, and said, where this process may not load programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use vtare_sys::bpf::{BpfError, Program};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Peer, Timestamp};

use super::XdpError;
use super::probe::{Event, Plan, Programs, Reader, Target};
use super::reflect::XdpReflector;
use crate::random::Random;
use crate::schedule::Pace;
use crate::session::{Arrival, Counters, Grant, Limits, Open, Purpose, Secrets, Table, Verdict, WireForm};
use crate::wire::{Form, SessionId, SessionKey, full, short};

const CARD: [u8; 6] = [2, 0, 0, 0, 0, 2];
const CLIENT_CARD: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 8_462;
const CLIENT_PORT: u16 = 40_000;
const KEY: SessionKey = SessionKey::new(*b"sixteen bytes ok");
const SESSION: SessionId = SessionId(0x0123_4567_89ab_cdef);
const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;

/// `None`, said, where programs cannot be loaded.
fn allowed<T>(result: Result<T, XdpError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(XdpError::Program(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. }))) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn ip_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

/// A frame from the client's port to the responder.
fn frame(from: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&CARD);
    bytes.extend_from_slice(&CLIENT_CARD);
    bytes.extend_from_slice(&[8, 0, 0x45, 0]);
    bytes.extend_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 57, 17, 0, 0]);
    bytes.extend_from_slice(&from.ip().octets());
    bytes.extend_from_slice(&HOST.octets());
    let sum = !ip_checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&from.port().to_be_bytes());
    bytes.extend_from_slice(&PORT.to_be_bytes());
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0x12, 0x34]);
    bytes.extend_from_slice(payload);
    bytes
}

fn client() -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, CLIENT_PORT)
}

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
    }
}

/// A responder with one session, of which the program has heard.
struct Far {
    table: Table,
    grant: Grant,
    program: Program,
}

impl Far {
    fn new(open: &Open) -> Option<Self> {
        let (offload, program) = allowed(XdpReflector::load(CARD, PORT, &[HOST], 4))?;
        let mut table = Table::new(Limits::default()).with_offload(Box::new(offload));
        let secrets = Secrets { session: SESSION, key: KEY };
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
        assert_eq!(ip_checksum(&reply[14..34]), 0xffff, "the sum over a whole header");
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
            // Not looked at: the sender's card, type of service, identity, may-not-fragment and the flag beside it, TTL, the IP header's and UDP's checksum, the client's port.
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
        let arrival = Arrival { now: clocks::now(), received: Timestamp::ZERO, flags: full::ReplyFlags::default() };
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
    // Opened so long ago that it is about to expire, and heard of by the program now.
    let opened = clocks::now::<Monotonic>() - vtare_units::Span::from_millis(900);
    let secrets = Secrets { session: SESSION, key: KEY };
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
        let secrets = Secrets { session: SESSION, key: KEY };
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
            let arrival = Arrival { now: clocks::now(), received: Timestamp::ZERO, flags: full::ReplyFlags::default() };
            let verdict = twin.judge(SocketAddr::V4(client()), &mut payload, &arrival, || Timestamp::<Peer>::ZERO);
            let expected = if matches!(verdict, Verdict::Reply(_)) { TX } else { DROP };
            prop_assert_eq!(answer, expected, "number {} after {}", sequence, newest);
        }
        prop_assert_eq!(far.counters(), twin.count(now, SESSION).expect("it is open"));
    }
}

fn near(form: Form, size_byte: u16) -> Option<Programs> {
    let target = Target {
        peer: SocketAddrV4::new(HOST, PORT),
        local: CLIENT,
        size_byte,
        form,
        session: SESSION,
        handle: 7,
        key: KEY,
        rate_packet_per_s: 1_000,
    };
    let mut headers = [0; 42];
    headers.copy_from_slice(&frame(client(), &vec![0; size_byte.into()])[..42]);
    allowed(Programs::load(&target, 1, &headers))
}

fn every(gap_ns: u64, packets: u64) -> Plan {
    let pace = Pace { packets: 1, span_ns: gap_ns };
    Plan { pace, packets, lead_in_ns: 0, catch_up_ns: u64::MAX >> 2, linger_ns: 0, batch: 1 }
}

fn drain(programs: &Programs, plan: &Plan, started: Timestamp<Monotonic>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut reader = Reader::new(programs, plan.pace, started);
    assert!(reader.drain(&mut |event| {
        events.push(event);
        false
    }));
    events
}

#[test]
fn frames_that_the_program_makes_are_read_by_rust() {
    for (form, size) in [(Form::Full, 60_u16), (Form::Full, 200), (Form::Short, 18), (Form::Short, 90)] {
        let Some(programs) = near(form, size) else { return };
        let plan = every(1, 3);
        let started = clocks::now::<Monotonic>();
        programs.plan(&plan, started);
        for sequence in 0..3 {
            // Whatever the frame holds from its last journey, headers and probe are written anew.
            let (answer, made) = programs.generate.run_once(&vec![0xee; 42 + usize::from(size)]).expect("it runs");
            assert_eq!((answer, made.len()), (REDIRECT, 42 + usize::from(size)));
            assert_eq!(made[..42], frame(client(), &vec![0; size.into()])[..42]);
            let payload = &made[42..];
            match form {
                Form::Full => {
                    let probe =
                        full::Unverified::parse(payload).and_then(|datagram| datagram.probe(&KEY)).expect("a probe");
                    assert_eq!((probe.session, probe.sequence, probe.wants_reply), (SESSION, sequence, true));
                    assert!(probe.sent >= started);
                }
                Form::Short => {
                    let context = short::Context { session: SESSION, handle: 7, key: &KEY };
                    let probe = short::Unverified::parse(payload)
                        .and_then(|datagram| datagram.probe(&context, 0))
                        .expect("a probe");
                    assert_eq!((probe.sequence, probe.wants_reply), (sequence, true));
                    assert!(probe.sent_near(clocks::now()) >= started);
                }
            }
        }
        assert_eq!(programs.generate.run_once(&[0; 260]).expect("it runs").0, DROP, "all slots have passed");
        let events = drain(&programs, &plan, started);
        assert_eq!(events.len(), 3);
        for (number, event) in (0_u64..).zip(events) {
            let Event::Slot { sequence, scheduled, sent: Some(sent) } = event else { panic!("{event:?}") };
            assert_eq!((sequence, (scheduled - started).as_nanos()), (number, number.cast_signed()));
            assert!(sent >= scheduled);
        }
    }
}

#[test]
fn slots_that_passed_too_long_ago_are_told_as_unsent() {
    let Some(programs) = near(Form::Full, 64) else { return };
    // Begun a second ago, one slot a millisecond, those within 100 ms are still sent.
    let plan = Plan { catch_up_ns: 100_000_000, ..every(1_000_000, 1_000) };
    let started = clocks::now::<Monotonic>() - vtare_units::Span::from_secs(1);
    programs.plan(&plan, started);
    let mut sent = 0;
    for _ in 0..100_000 {
        match programs.generate.run_once(&[0; 106]).expect("it runs").0 {
            REDIRECT => sent += 1,
            // A call is a slice long; it may end between two slots.
            _ if drain(&programs, &plan, started).len() < 1_000 => {}
            _ => break,
        }
    }
    let events = drain(&programs, &plan, started);
    let told = events.iter().filter(|event| matches!(event, Event::Slot { sent: Some(_), .. })).count();
    let late = events.iter().filter(|event| matches!(event, Event::Slot { sent: None, .. })).count();
    assert_eq!((told, told + late), (sent, 1_000), "every slot is accounted for");
    assert!(late >= 899, "those of the first 0.9 s");
}

#[test]
fn replies_that_rust_makes_are_taken_and_everything_else_goes_on() {
    for (form, size) in [(Form::Full, 64_u16), (Form::Short, 64)] {
        let Some(programs) = near(form, size) else { return };
        let plan = every(1, 1);
        programs.plan(&plan, clocks::now());
        let (_, made) = programs.generate.run_once(&vec![0; 42 + usize::from(size)]).expect("it runs");
        let mut payload = made[42..].to_vec();
        match form {
            Form::Full => {
                let request =
                    full::Unverified::parse(&mut payload[..]).and_then(|datagram| datagram.request(&KEY)).expect("one");
                let at = Timestamp::from_nanos;
                let flags = full::ReplyFlags { wall_clock: true, ..full::ReplyFlags::default() };
                let _ = request
                    .into_reply(&KEY, &full::Turnaround { received: at(500), replied: at(700), accepted: 9, flags });
            }
            Form::Short => {
                let context = short::Context { session: SESSION, handle: 7, key: &KEY };
                let request = short::Unverified::parse(&mut payload[..])
                    .and_then(|datagram| datagram.request(&context, 0))
                    .expect("one");
                let _ = request.into_reply(&context, vtare_units::Span::from_nanos(200));
            }
        }
        let mut reply = made[..42].to_vec();
        reply[26..30].copy_from_slice(&HOST.octets());
        reply[30..34].copy_from_slice(&CLIENT.octets());
        reply[34..36].copy_from_slice(&PORT.to_be_bytes());
        reply[36..38].copy_from_slice(&CLIENT_PORT.to_be_bytes());
        reply.extend_from_slice(&payload);
        let take = |bytes: &[u8]| programs.take.run_once(bytes).expect("it runs").0;
        let foreign = || programs.foreign();
        for end in 14..reply.len() {
            assert_eq!(take(&reply[..end]), PASS, "cut at {end}");
        }
        assert_eq!(foreign(), 0, "what is cut is no datagram");
        let header = if form == Form::Full { 60 } else { 18 };
        for byte in 42..42 + header {
            let mut bad = reply.clone();
            bad[byte] ^= 0x10;
            assert_eq!(take(&bad), PASS, "byte {byte}");
        }
        assert_eq!(foreign(), header as u64);
        assert_eq!(take(&made), PASS, "a request is no reply");
        let before = clocks::now::<Monotonic>();
        assert_eq!([take(&reply), take(&reply)], [DROP, DROP], "taken, and again: it is the books' affair");
        let events = drain(&programs, &plan, Timestamp::ZERO);
        let replies: Vec<_> = events
            .iter()
            .filter_map(|event| if let Event::Reply(reply) = event { Some(reply) } else { None })
            .collect();
        assert_eq!(replies.len(), 2);
        assert!(replies[0].sequence == 0 && replies[0].arrived >= before && replies[1].arrived >= replies[0].arrived);
        assert_eq!(replies[0].turnaround.map(|span| span.as_nanos()), Some(200));
        assert_eq!(replies[0].far_end, (form == Form::Full).then_some((500, 700, 9)));
    }
}

#[test]
fn replies_beyond_the_ring_are_counted_and_the_rest_is_read_in_order() {
    let Some(programs) = near(Form::Short, 18) else { return };
    let plan = every(1, 10_000);
    programs.plan(&plan, clocks::now());
    let context = short::Context { session: SESSION, handle: 7, key: &KEY };
    let mut reply = frame(client(), &[0; 18]);
    reply[26..30].copy_from_slice(&HOST.octets());
    reply[30..34].copy_from_slice(&CLIENT.octets());
    reply[34..36].copy_from_slice(&PORT.to_be_bytes());
    reply[36..38].copy_from_slice(&CLIENT_PORT.to_be_bytes());
    let mut answer = |sequence: u64| {
        let mut payload = [0; 18];
        short::Probe::new(sequence, Timestamp::ZERO, true).encode(&context, &mut payload).expect("room");
        let request = short::Unverified::parse(&mut payload[..])
            .and_then(|datagram| datagram.request(&context, sequence))
            .expect("one");
        let _ = request.into_reply(&context, vtare_units::Span::ZERO);
        reply[42..].copy_from_slice(&payload);
        assert_eq!(programs.take.run_once(&reply).expect("it runs").0, DROP);
    };
    let mut reader = Reader::new(&programs, plan.pace, Timestamp::ZERO);
    let mut got = Vec::new();
    for round in 0..3 {
        // The ring holds 4,096; 100 more find no room.
        (0..4_196).for_each(|number| answer(round * 5_000 + number));
        let all = reader.drain(&mut |event| {
            if let Event::Reply(reply) = event {
                got.push(reply.sequence);
            }
            false
        });
        assert!(all);
        let expected: Vec<u64> = (0..4_096).map(|number| round * 5_000 + number).collect();
        assert_eq!(std::mem::take(&mut got), expected);
    }
    assert_eq!(programs.overrun(), 300);
    assert!(programs.setup.words()[0].load(Ordering::Relaxed) > 0);
}
