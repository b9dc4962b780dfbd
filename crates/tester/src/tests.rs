//! Both analysers, called on single frames, beside what a sender writes. That of the kernel is skipped, which is
//! printed, where this process may not load programs.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use vtare_sys::bpf::{BpfError, Program};
use vtare_units::Pace;

use super::shared::{ReceivedFrame, Shared, bucket_of, least_of};
use super::*;
use crate::port::Port;
use vtare_bpf::layout::throughput::setup as word;

const DROP: u32 = 1;
const PASS: u32 = 2;

fn options() -> TesterOptions {
    let flow = |number: u8| Flow { to: [2, 0, 0, 0, 0, number], address: Ipv4Addr::new(198, 19, 0, number) };
    TesterOptions {
        tx: "none".to_owned(),
        rx: "none".to_owned(),
        source: Ipv4Addr::new(198, 18, 0, 1),
        flows: vec![flow(1), flow(2), flow(3)],
        slots: vec![0, 1, 0, 2],
        frame_byte: 64,
        most_frames: 1_000,
        engine: Engine::Packet,
        analyser: None,
    }
}

const OFFER: Offer = Offer {
    pace: Pace { packets: 1_000, span_ns: 1_000_000_000 },
    step: None,
    frames: 500,
    catch_up_ns: 1_000,
    linger_ns: 0,
    gap_ns: u64::MAX,
    batch: 1,
    tagged: Some(7),
    most_ns: None,
};

struct Counter {
    shared: Shared,
    /// `None`: this process counts.
    program: Option<Program>,
    options: TesterOptions,
}

impl Counter {
    /// Those that are available here.
    fn all() -> Vec<Self> {
        let options = options();
        let port = Port { index: 1, address: [2, 0, 0, 0, 0, 99], kind: None };
        let own = Shared::own(&options, &port).expect("plain memory");
        let mut all = vec![Self { shared: own, program: None, options: options.clone() }];
        match Shared::maps(&options, &port).and_then(|shared| Ok((shared.load("count")?, shared))) {
            Ok((count, shared)) => all.push(Self { shared, program: Some(count), options }),
            Err(TesterError::Program(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. }))) => {
                eprintln!("skipped for the program: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        all.iter().for_each(|it| it.shared.begin(&OFFER, 77, Engine::Packet));
        all
    }

    fn frame(&self, run: u32, flow: u16, sequence: u32, sent_ns: u64) -> Vec<u8> {
        let mut bytes = vec![0; frame::bytes(self.options.frame_byte)];
        let headers = self.shared.headers[usize::from(flow)];
        frame::write(&mut bytes, &headers, (run, flow, sequence), sent_ns);
        bytes
    }

    /// Whether the analyser took it for one of the test's.
    fn come(&self, bytes: &[u8]) -> bool {
        if let Some(program) = &self.program {
            let verdict = program.run_once(bytes).expect("it runs").0;
            assert!([DROP, PASS].contains(&verdict), "{verdict}");
            return verdict == DROP;
        }
        let taken = filtered(bytes) == frame::IP_TAGGED_BYTE as u32;
        let (tag, ends) = frame::read(&bytes[14..]).expect("long enough");
        let ours = taken && usize::from(tag.flow) < self.options.flows.len();
        if taken {
            self.shared.count(&ReceivedFrame { tag, ends, at_ns: now_ns() });
        }
        ours
    }

    fn result(&self) -> TrialResult {
        self.shared.result(&OFFER, 0, 0, false)
    }
}

/// What the ring's filter copies of a frame that arrives, as the kernel runs it.
fn filtered(bytes: &[u8]) -> u32 {
    let (ip, half) = (&bytes[14..], |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    let (mut a, mut at) = (0, 0);
    loop {
        let (code, yes, no, k) = ring::FILTER[at];
        at += 1;
        match code {
            // The type of the packet: to this host.
            0x30 if k == 0xffff_f004 => a = 0,
            0x28 if k == 0xffff_f000 => a = half(&bytes[12..]),
            0x30 => a = ip[k as usize].into(),
            0x28 => a = half(&ip[k as usize..]),
            0x15 => at += usize::from(if a == k { yes } else { no }),
            0x06 => return k,
            other => panic!("unknown code {other:#x}"),
        }
    }
}

fn now_ns() -> u64 {
    vtare_sys::clocks::now::<vtare_units::Monotonic>().as_nanos()
}

#[test]
fn frames_are_counted_by_flow_once_each_and_in_their_order() {
    for it in Counter::all() {
        for (flow, sequence) in [(0, 0), (1, 1), (0, 4), (0, 2), (0, 4), (2, 3), (0, 499)] {
            assert!(it.come(&it.frame(77, flow, sequence, now_ns())));
        }
        let result = it.result();
        let of =
            |flow: usize| (result.flows[flow].received, result.flows[flow].duplicates, result.flows[flow].reordered);
        assert_eq!([of(0), of(1), of(2)], [(4, 1, 1), (1, 0, 0), (1, 0, 0)]);
        assert_eq!((result.received(), result.stale, result.wrong, result.early), (6, 0, 0, 0));
        assert_eq!(it.shared.get(word::RECEIVED), 6);
    }
}

#[test]
fn frames_of_an_earlier_trial_and_changed_ones_are_distinguished_and_others_pass() {
    for it in Counter::all() {
        assert!(it.come(&it.frame(75, 0, 0, now_ns())));
        // Beyond the last frame, to another address, cut short by a router that should not.
        assert!(it.come(&it.frame(77, 0, 500, now_ns())));
        for at in [17, 33] {
            let mut changed = it.frame(77, 0, 1, now_ns());
            changed[at] ^= 1;
            assert!(it.come(&changed), "{at}");
        }
        for (at, what) in [(12, "no IPv4"), (23, "no UDP"), (37, "another port"), (46, "another flow")] {
            let mut foreign = it.frame(77, 0, 1, now_ns());
            foreign[at] ^= 0x40;
            assert!(!it.come(&foreign), "{what}");
        }
        let result = it.result();
        assert_eq!((result.received(), result.stale, result.wrong), (0, 1, 3));
    }
}

#[test]
fn what_leaves_the_host_is_not_copied_and_a_cut_frame_is_no_frame() {
    assert_eq!(ring::FILTER[1], (0x15, 11, 0, 4), "to the last step, which copies nothing");
    assert_eq!(ring::FILTER[13], (0x06, 0, 0, 0));
    let it = &Counter::all()[0];
    let bytes = it.frame(77, 2, 5, 9);
    let (tag, ends) = frame::read(&bytes[14..]).expect("whole");
    assert_eq!(tag, frame::Tag { run: 77, flow: 2, sequence: 5, sent_ns: 9 });
    assert_eq!(ends, frame::ends(&it.shared.headers[2]));
    assert!((0..bytes.len()).all(|length| frame::read(bytes.get(14..length).unwrap_or_default()).is_none()));
}

#[test]
fn a_trial_begins_with_nothing_of_the_one_before() {
    for it in Counter::all() {
        it.come(&it.frame(77, 0, 7, now_ns()));
        it.shared.count_sent(0);
        let result = it.result();
        assert!(
            result.tagged_ns.is_some() && result.flows[0].least_ns == result.flows[0].most_ns && result.sent() == 1
        );
        it.shared.begin(&OFFER, 79, Engine::Packet);
        assert_eq!(it.result().flows, vec![FlowSeen::default(); 3]);
        it.come(&it.frame(79, 0, 7, now_ns()));
        assert_eq!((it.result().received(), it.result().flows[0].duplicates), (1, 0));
    }
}

#[test]
fn frames_lost_around_a_step_are_those_that_left_and_did_not_come_and_the_last_one_has_its_time() {
    let offer = Offer { step: Some(RateStep { after_frames: 100, packets: 500 }), frames: 200, ..OFFER };
    assert_eq!([0, 99, 100, 101, 200].map(|number| offer.due_ns(number) / 1_000_000), [0, 99, 100, 102, 300]);
    for it in Counter::all() {
        it.shared.begin(&offer, 79, Engine::Packet);
        it.shared.never_left(199);
        // Lost: 50, 110 and 130.
        for number in (0..199).filter(|number| ![50, 110, 130].contains(number)) {
            it.come(&it.frame(79, 0, number, now_ns()));
        }
        let around = it.shared.result(&offer, 0, 0, false).around;
        assert_eq!(around, Some(LostAround { before: 1, after: 2, last_ns: Some(60_000_000) }));
        assert_eq!(it.result().around, None);
    }
}

#[test]
fn a_frame_that_came_before_it_left_has_no_latency() {
    for it in Counter::all() {
        it.come(&it.frame(77, 0, 0, now_ns() + 3_600_000_000_000));
        let result = it.result();
        assert_eq!(
            (result.received(), result.early, result.flows[0].least_ns, result.flows[0].latency.len()),
            (1, 1, None, 0)
        );
    }
}

#[test]
fn the_smallest_frame_holds_headers_and_tag_and_its_checksum_is_right() {
    let headers = frame::headers([2; 6], Ipv4Addr::new(198, 18, 0, 1), &options().flows[0], SMALLEST_BYTE);
    assert_eq!(frame::bytes(SMALLEST_BYTE), frame::TAGGED_BYTE);
    assert_eq!(checksum_of(&headers[14..34]), 0);
    assert_eq!((&headers[16..18], &headers[38..40]), (&[0, 46][..], &[0, 26][..]));
}

fn checksum_of(header: &[u8]) -> u16 {
    vtare_wire::internet_checksum(header)
}

#[test]
fn ports_and_sizes_that_cannot_be_are_refused_in_words() {
    let error = Tester::open(TesterOptions { frame_byte: 60, ..options() }).expect_err("too small").to_string();
    assert!(error.contains("is 60 B") && error.contains("use 64 B"), "{error}");
    let error = Tester::open(TesterOptions { frame_byte: 9_000, engine: Engine::Xdp, ..options() });
    let error = error.expect_err("too large for it").to_string();
    assert!(error.contains("use engine packet"), "{error}");
    let error = Tester::open(TesterOptions { tx: "nowhere0".to_owned(), ..options() }).expect_err("none").to_string();
    assert!(error.contains("nowhere0") && error.contains("here are"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_latency_is_counted_in_a_bucket_that_begins_at_most_a_64th_below_it(
        ns in (0_u32..40).prop_map(|bits| (1_u64 << bits) + (1 << bits) / 3),
    ) {
        for it in Counter::all() {
        let before = now_ns();
        prop_assume!(before > ns);
        it.come(&it.frame(77, 0, 0, before - ns));
        let after = now_ns();
        let flow = it.result().flows[0].clone();
        let (least, count) = flow.latency[0];
        let latency = flow.most_ns.expect("one came");
        prop_assert_eq!((flow.latency.len(), count), (1, 1));
        prop_assert!((ns..=ns + (after - before)).contains(&latency));
        prop_assert!(least <= latency && latency - least <= latency / 64);
        }
    }
}

#[test]
fn buckets_begin_where_those_of_the_histogram_do() {
    assert_eq!([0, 63, 127, 128, 129].map(least_of), [0, 63, 127, 128, 130]);
    for ns in (0..64).map(|bits| 1_u64 << bits).flat_map(|ns| [ns - 1, ns, ns + ns / 3]) {
        let least = least_of(bucket_of(ns));
        assert!(least <= ns && ns - least <= ns / 64, "{ns}");
    }
    assert!(bucket_of(u64::MAX) < 59 << 6);
}
