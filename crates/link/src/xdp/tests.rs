//! The programs of the near end: one makes frames, the other takes the replies.

use std::net::SocketAddrV4;
use std::sync::atomic::Ordering;

use vtare_sys::clocks;
use vtare_units::{Monotonic, Pace, Timestamp};
use vtare_wire::{Form, full, short};

use super::XdpError;
use super::probe::{Event, Plan, Programs, Reader, Target};

#[allow(dead_code, reason = "each crate that includes the file uses a part of it")]
#[path = "../../../bpf/tests/frame/mod.rs"]
mod frame;

use frame::*;

fn near(form: Form, size_byte: u16) -> Option<Programs> {
    let target = Target {
        peer: SocketAddrV4::new(HOST, PORT),
        local: CLIENT,
        size_byte,
        form,
        session: SESSION,
        handle: 7,
        key: KEY.clone(),
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
fn slots_that_passed_too_long_ago_are_shown_as_unsent() {
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
        // Kind, size and session, and the handle, are looked at in the kernel; the tag by whoever reads the ring.
        let (mut passed, mut taken) = (0, 0);
        for byte in 42..42 + header {
            let mut bad = reply.clone();
            bad[byte] ^= 0x10;
            match take(&bad) {
                PASS => passed += 1,
                DROP => taken += 1,
                other => panic!("byte {byte}: {other}"),
            }
        }
        assert_eq!(
            (passed, passed + taken, foreign()),
            (if form == Form::Full { 11 } else { 3 }, header, passed as u64)
        );
        assert_eq!(take(&made), PASS, "a request is no reply");
        let mut reader = Reader::new(&programs, plan.pace, Timestamp::ZERO);
        assert!(reader.drain(&mut |event| {
            assert!(!matches!(event, Event::Reply(_)), "{event:?}");
            false
        }));
        assert_eq!(reader.forged, taken as u64, "every wrong bit is found");
        let before = clocks::now::<Monotonic>();
        assert_eq!([take(&reply), take(&reply)], [DROP, DROP], "taken, and again: it is the books' affair");
        let mut events = Vec::new();
        reader.drain(&mut |event| {
            events.push(event);
            false
        });
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
