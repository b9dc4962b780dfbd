use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use vtare_traffic::Spacing;
use vtare_units::{Monotonic, Span, Timestamp};

use super::{
    Arrival, Bucket, Cause, Client, ClientError, Control, Counters, Fresh, Grant, Hello, Limits, LogGate, Open,
    Purpose, Reason, ReversePlan, Secrets, Step, Table, ToClient, ToResponder, Verdict, VersionRange, Window, WireForm,
};
use crate::full::ReplyFlags;
use crate::{SessionId, SessionKey, WireError, full, short};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const FROM: SocketAddr = SocketAddr::new(PEER, 4_000);

fn at(ms: u64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn secrets(number: u64) -> Secrets {
    Secrets { session: SessionId(0xfeed_0000 + number), key: SessionKey::new([number as u8; 16]) }
}

fn open() -> Open {
    Open {
        purpose: Purpose::Rtt,
        form: WireForm::Full,
        rate_packet_per_s: 1_000,
        burst_packet: 1,
        duration_ns: 10_000_000_000,
        packets: 5_000,
        size_byte: 200,
        flows: None,
        ecn: false,
    }
}

fn table() -> Table {
    Table::new(Limits::default())
}

fn opened(table: &mut Table, open: &Open) -> Grant {
    table.open(at(0), PEER, open, secrets(1)).expect("within the limits")
}

fn request(grant: &Grant, sequence: u64, size: usize) -> Vec<u8> {
    let mut datagram = vec![0; size];
    let probe = full::Probe { session: grant.session, sequence, sent: Timestamp::ZERO, wants_reply: true };
    probe.encode(&grant.key, &mut datagram).expect("a good size");
    datagram
}

fn judge(table: &mut Table, now: Timestamp<Monotonic>, from: SocketAddr, datagram: &mut [u8]) -> Result<usize, Cause> {
    let arrival =
        Arrival { now, received: Timestamp::from_nanos(now.as_nanos()), flags: ReplyFlags::default(), class: None };
    match table.judge(from, datagram, &arrival, || Timestamp::from_nanos(now.as_nanos() + 500)) {
        Verdict::Reply(reply) => Ok(reply.len()),
        Verdict::Record { .. } => Ok(0),
        Verdict::Drop(cause) => Err(cause),
    }
}

#[test]
fn a_request_is_answered_with_as_many_bytes_and_the_count_so_far() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    for sequence in 0..3 {
        let mut datagram = request(&grant, sequence, 100);
        assert_eq!(judge(&mut table, at(sequence), FROM, &mut datagram), Ok(100));
        let reply = full::Unverified::parse(&datagram[..]).and_then(|it| it.reply(&grant.key)).expect("a reply");
        assert_eq!(reply.turnaround.accepted, sequence + 1);
        assert_eq!(reply.turnaround.replied - reply.turnaround.received, Span::from_nanos(500));
    }
    let counters = table.close(grant.session).expect("was open");
    let want = Counters { accepted: 3, replied: 3, accepted_byte: 300, replied_byte: 300, ..Counters::default() };
    assert_eq!(counters, want);
}

#[test]
fn each_forgery_is_dropped_for_its_own_reason_and_counted() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    assert_eq!(judge(&mut table, at(0), FROM, &mut request(&grant, 0, 100)), Ok(100));
    let other_key = Grant { key: SessionKey::new([9; 16]), ..grant.clone() };
    assert_eq!(judge(&mut table, at(1), FROM, &mut request(&other_key, 1, 100)), Err(Cause::WrongTag));
    let unknown = Grant { session: SessionId(5), ..grant.clone() };
    assert_eq!(judge(&mut table, at(1), FROM, &mut request(&unknown, 1, 100)), Err(Cause::UnknownSession));
    let other_port = SocketAddr::new(PEER, 4_001);
    assert_eq!(judge(&mut table, at(1), other_port, &mut request(&grant, 1, 100)), Err(Cause::WrongAddress));
    let other_host = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8)), 4_000);
    assert_eq!(judge(&mut table, at(1), other_host, &mut request(&grant, 1, 100)), Err(Cause::WrongAddress));
    assert_eq!(judge(&mut table, at(1), FROM, &mut request(&grant, 0, 100)), Err(Cause::Duplicate));
    assert_eq!(judge(&mut table, at(1), FROM, &mut request(&grant, 1, 201)), Err(Cause::Oversized));
    let garbage = judge(&mut table, at(1), FROM, &mut [0xff; 40]);
    assert_eq!(garbage, Err(Cause::Garbage(WireError::Version { found: 15 })));
    let mut reply = request(&grant, 1, 100);
    assert_eq!(judge(&mut table, at(1), FROM, &mut reply), Ok(100));
    assert_eq!(
        judge(&mut table, at(2), FROM, &mut reply),
        Err(Cause::Reply),
        "a reply sent back is not answered again"
    );
    let counters = table.close(grant.session).expect("was open");
    assert_eq!((counters.forged, counters.duplicate, counters.oversized, counters.accepted), (3, 1, 1, 2));
    assert_eq!((table.discards().garbage, table.discards().unknown_session), (2, 1));
}

#[test]
fn replays_do_not_use_up_the_rate_of_the_session_they_were_taken_from() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    let replayed = request(&grant, 0, 100);
    for sequence in 0..2_000 {
        assert_eq!(judge(&mut table, at(sequence), FROM, &mut request(&grant, sequence, 100)), Ok(100));
        for _ in 0..5 {
            assert_eq!(judge(&mut table, at(sequence), FROM, &mut replayed.clone()), Err(Cause::Duplicate));
        }
    }
    assert_eq!(table.close(grant.session).expect("was open").duplicate, 10_000);
}

#[test]
fn a_session_is_held_to_its_rate_its_number_and_its_time() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    // 1000 packet/s, a burst of 1 and 10 ms of grace: 12 at once.
    let answered = (0..50).filter(|&n| judge(&mut table, at(0), FROM, &mut request(&grant, n, 100)).is_ok()).count();
    assert_eq!(answered, 12);
    assert_eq!(judge(&mut table, at(0), FROM, &mut request(&grant, 60, 100)), Err(Cause::OverRate));
    assert_eq!(judge(&mut table, at(12_001), FROM, &mut request(&grant, 61, 100)), Err(Cause::OverLimit));

    let few = Open { packets: 2, ..open() };
    let grant = table.open(at(0), PEER, &few, secrets(2)).expect("within the limits");
    let answers: Vec<_> = (0..3).map(|n| judge(&mut table, at(n), FROM, &mut request(&grant, n, 100))).collect();
    assert_eq!(answers, [Ok(100), Ok(100), Err(Cause::OverLimit)]);
}

#[test]
fn a_silent_session_expires_and_its_packets_are_then_unknown() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    assert!(table.expire(at(29_999)).is_empty());
    assert_eq!(judge(&mut table, at(29_999), FROM, &mut request(&grant, 0, 100)), Ok(100));
    // From now on its granted time counts: 10 s and 2 s of grace.
    assert!(table.expire(at(41_998)).is_empty());
    let expired = table.expire(at(41_999));
    assert_eq!((expired.len(), expired[0].1.accepted, table.is_empty()), (1, 1, true));
    assert_eq!(judge(&mut table, at(42_000), FROM, &mut request(&grant, 1, 100)), Err(Cause::UnknownSession));
}

#[test]
fn a_session_that_was_not_expired_in_time_is_judged_as_expired() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    assert_eq!(judge(&mut table, at(30_000), FROM, &mut request(&grant, 0, 100)), Err(Cause::OverLimit));
}

#[test]
fn short_probes_find_their_session_by_handle_and_stay_apart_from_full_ones() {
    let mut table = table();
    opened(&mut table, &open());
    let wanted = Open { form: WireForm::Short, size_byte: 18, ..open() };
    let grant = table.open(at(0), PEER, &wanted, secrets(2)).expect("within the limits");
    let context = short::Context { session: grant.session, handle: grant.handle, key: &grant.key };
    let mut datagram = [0; 18];
    short::Probe::new(0, Timestamp::ZERO, true).encode(&context, &mut datagram).expect("fits");
    assert_eq!(judge(&mut table, at(0), FROM, &mut datagram), Ok(18));
    let reply = short::Unverified::parse(&datagram[..]).and_then(|it| it.reply(&context, 0)).expect("a reply");
    assert_eq!((reply.sequence, reply.turnaround), (0, Some(Span::from_nanos(500))));
    let full = judge(&mut table, at(1), FROM, &mut request(&grant, 1, 60));
    assert_eq!(full, Err(Cause::WrongAddress), "a session has one form");
    let probe = short::Probe::new(1, Timestamp::ZERO, false);
    probe.encode(&context, &mut datagram).expect("fits");
    assert_eq!(judge(&mut table, at(1), FROM, &mut datagram), Ok(0), "a one-way probe is recorded, not answered");
    let stray = short::Context { handle: 77, ..context };
    probe.encode(&stray, &mut datagram).expect("fits");
    assert_eq!(judge(&mut table, at(1), FROM, &mut datagram), Err(Cause::UnknownSession));
}

#[test]
fn a_reply_that_did_not_leave_is_counted_in_its_session_in_either_form() {
    let mut table = table();
    let full = opened(&mut table, &open());
    let wanted = Open { form: WireForm::Short, size_byte: 18, ..open() };
    let short = table.open(at(0), PEER, &wanted, secrets(2)).expect("within the limits");
    let context = short::Context { session: short.session, handle: short.handle, key: &short.key };
    let mut reply = request(&full, 0, 100);
    assert_eq!(judge(&mut table, at(0), FROM, &mut reply), Ok(100));
    table.unsent(&reply);
    for sequence in 0..2 {
        let mut reply = [0; 18];
        short::Probe::new(sequence, Timestamp::ZERO, true).encode(&context, &mut reply).expect("fits");
        assert_eq!(judge(&mut table, at(sequence), FROM, &mut reply), Ok(18));
        table.unsent(&reply);
    }
    table.unsent(&request(&full, 1, 100));
    table.unsent(b"no reply of ours");
    let unsent = |table: &mut Table, grant: &Grant| table.close(grant.session).expect("was open").unsent;
    assert_eq!((unsent(&mut table, &full), unsent(&mut table, &short)), (1, 2));
    table.unsent(&reply);
}

#[test]
fn what_the_socket_dropped_is_counted_from_the_opening_on_and_across_two_to_the_32() {
    let mut table = table();
    table.note_socket_drops(Some(u32::MAX - 1));
    let grant = opened(&mut table, &open());
    table.note_socket_drops(Some(3));
    assert_eq!(table.count(at(0), grant.session).expect("is open").socket_drops, Some(5));
    table.note_socket_drops(None);
    assert_eq!(table.close(grant.session).expect("was open").socket_drops, None, "unknown is not 0");
}

#[test]
fn every_limit_is_named_in_its_refusal() {
    let limits = Limits { sessions_per_peer: 1, sessions: 2, ..Limits::default() };
    let refused = |open: Open| limits.check(&open).expect_err("beyond a limit").to_string();
    assert_eq!(
        refused(Open { rate_packet_per_s: 2_000_000, ..open() }),
        "2000000 packet/s asked, the responder allows 1000000: lower the rate, or raise its limit"
    );
    assert_eq!(
        refused(Open { duration_ns: 7_200_000_000_000, ..open() }),
        "7200 s asked, the responder allows 3600 s: measure for a shorter time, or raise its limit"
    );
    assert_eq!(
        refused(Open { size_byte: 59, ..open() }),
        "datagrams of 59 B asked, the responder allows 60 to 9000 B in this form"
    );
    assert!(refused(Open { packets: u64::MAX, ..open() }).contains("the responder allows 3600000000"));
    assert!(refused(Open { burst_packet: 0, ..open() }).contains("allows 1 to 10000"));

    let mut table = Table::new(limits);
    let open_from = |table: &mut Table, last, number| {
        table
            .open(at(0), IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), &open(), secrets(number))
            .map(|grant| grant.handle)
    };
    assert_eq!(open_from(&mut table, 1, 1), Ok(0));
    assert_eq!(open_from(&mut table, 1, 2).expect_err("one each").reason, Reason::PeerSessions);
    assert_eq!(open_from(&mut table, 2, 2), Ok(1));
    assert_eq!(open_from(&mut table, 3, 3).expect_err("two in all").reason, Reason::Sessions);
    table.close(secrets(1).session);
    assert_eq!(open_from(&mut table, 3, 3), Ok(0), "a handle is used again, with another key");
}

#[test]
fn a_talk_from_hello_to_close() {
    let (mut table, mut control) = (table(), Control::new(PEER, "vtare 9"));
    let mut client = Client::new(open(), "vtare 9", Span::from_secs(5));
    let mut say = |client: &mut Client, message: ToResponder| {
        // What crosses the wire.
        let message = serde_json::from_str(&serde_json::to_string(&message).expect("serializes")).expect("parses");
        let answer = control.answer(&mut table, at(1), &message, || secrets(1));
        let answer = serde_json::from_str(&serde_json::to_string(&answer).expect("serializes")).expect("parses");
        client.receive(at(1), answer)
    };
    let hello = client.start(at(0));
    let Ok(Step::Say(ask)) = say(&mut client, hello) else { panic!("a welcome is followed by an open") };
    let Ok(Step::Probe(grant)) = say(&mut client, ask) else { panic!("the session is granted") };
    assert_eq!((grant.session, client.responder()), (secrets(1).session, Some("vtare 9")));
    let count = client.count(at(1)).expect("the session is open");
    assert_eq!(client.close(at(1)), None, "one question at a time");
    assert_eq!(say(&mut client, count), Ok(Step::Counted(Counters::default())));
    let close = client.close(at(1)).expect("the session is open");
    assert_eq!(say(&mut client, close), Ok(Step::Done(Counters::default())));
    assert!(table.is_empty());
}

#[test]
fn another_release_is_shown_who_must_be_renewed() {
    let (mut table, mut control) = (table(), Control::new(PEER, "vtare 9"));
    let hello = Hello { versions: VersionRange { least: 5, most: 6 }, program: "vtare 12".to_owned() };
    let answer = control.answer(&mut table, at(0), &ToResponder::Hello(hello), || secrets(1));
    let ToClient::Refused(refusal) = answer else { panic!("no version in common") };
    assert_eq!(
        refusal.to_string(),
        "the responder speaks control version 2 to 4, this program 5 to 6: install the newer vtare at the responder"
    );
    assert!(control.is_over());
}

/// What a client of control version 2 would be asked to read: it knows no streams of TCP and refuses fields that it
/// does not know.
#[test]
fn a_client_of_the_older_version_gets_nothing_that_it_does_not_know() {
    let mut table = table();
    let mut control = Control::new(PEER, "vtare 9");
    let hello = Hello { versions: VersionRange { least: 2, most: 2 }, program: String::new() };
    let welcome = control.answer(&mut table, at(0), &ToResponder::Hello(hello), || secrets(1));
    assert!(matches!(welcome, ToClient::Welcome { version: 2, .. }));
    let greedy = Open { packets: u64::MAX, ..open() };
    for message in [ToResponder::Open(open()), ToResponder::Open(greedy)] {
        let answer = control.answer(&mut table, at(0), &message, || secrets(1));
        let text = serde_json::to_string(&answer).expect("serializes");
        assert!(!text.contains("tcp") && !text.contains("flows") && !text.contains("ecn"), "{text}");
    }
    assert!(!control.is_over() && table.len() == 1);
    let flows = ToResponder::Flows { session: secrets(1).session, from: 0 };
    let answer = control.answer(&mut table, at(0), &flows, || secrets(2));
    assert!(matches!(answer, ToClient::Refused(refusal) if refusal.reason == Reason::OutOfTurn));
    assert!(control.is_over());
}

#[test]
fn an_older_responder_is_distinguished_before_it_is_asked_for_streams() {
    let flows = Some(super::FlowPlan { streams: 1, byte: 1, bin_ns: 1_000_000_000 });
    let wanted = Open { purpose: super::Purpose::Tcp, flows, ..open() };
    let mut client = Client::new(wanted, "vtare 9", Span::from_secs(1));
    client.start(at(0));
    let welcome = ToClient::Welcome { version: 2, program: "vtare 8".to_owned() };
    let error = client.receive(at(1), welcome).expect_err("it is too old");
    assert!(error.to_string().contains("install the newer vtare at the responder"), "{error}");
}

#[test]
fn ecn_is_left_out_with_an_older_responder_and_refused_to_an_older_client() {
    let wanted = Open { ecn: true, ..open() };
    for (version, ecn) in [(2, false), (3, false), (4, true)] {
        let mut client = Client::new(wanted, "vtare 9", Span::from_secs(1));
        client.start(at(0));
        let welcome = ToClient::Welcome { version, program: "vtare 8".to_owned() };
        let step = client.receive(at(1), welcome).expect("both speak it");
        assert_eq!(step, Step::Say(ToResponder::Open(Open { ecn, ..wanted })), "{version}");
    }
    let (mut table, mut control) = (table(), Control::new(PEER, "vtare 9"));
    let hello = Hello { versions: VersionRange { least: 2, most: 3 }, program: String::new() };
    control.answer(&mut table, at(0), &ToResponder::Hello(hello), || secrets(1));
    let answer = control.answer(&mut table, at(0), &ToResponder::Open(wanted), || secrets(1));
    assert!(matches!(answer, ToClient::Refused(refusal) if refusal.reason == Reason::OutOfTurn));
}

#[test]
fn a_session_for_tcp_lives_as_long_as_its_streams_bring_bytes() {
    let flows = Some(super::FlowPlan { streams: 1, byte: 1_000, bin_ns: 1_000_000_000 });
    let wanted = Open { purpose: super::Purpose::Tcp, flows, ..open() };
    let mut table = table();
    let grant = opened(&mut table, &wanted);
    let hello = crate::hello::Hello { session: grant.session, number: 0 }.encode(&grant.key);
    let hello = crate::hello::Unverified::parse(&hello).expect("it is one");
    let elsewhere = "192.0.2.77".parse().expect("an address");
    assert_eq!(table.join(at(0), elsewhere, &hello).err(), Some(super::FlowCause::WrongAddress));
    let stream = table.join(at(0), PEER, &hello).expect("granted");
    let idle = Span::from_unsigned_nanos(grant.idle_ns);
    let just_before = at(0) + idle - Span::from_millis(1);
    stream.count(just_before, 10).expect("within all");
    assert!(table.expire(at(0) + idle).is_empty(), "bytes came");
    assert!(!stream.is_over());
    let over = just_before + Span::from_unsigned_nanos(wanted.duration_ns) + idle;
    assert_eq!(table.expire(over).len(), 1);
    assert!(stream.is_over());
    assert_eq!(opened_without_streams(&mut table), Err(super::FlowCause::Purpose));
}

fn opened_without_streams(table: &mut Table) -> Result<(), super::FlowCause> {
    let grant = opened(table, &open());
    let hello = crate::hello::Hello { session: grant.session, number: 0 }.encode(&grant.key);
    let hello = crate::hello::Unverified::parse(&hello).expect("it is one");
    table.join(at(0), PEER, &hello).map(drop)
}

#[test]
fn nothing_is_opened_before_a_hello_and_only_ones_own_sessions_can_be_closed() {
    let mut table = table();
    let grant = opened(&mut table, &open());
    let mut rude = Control::new(PEER, "vtare 9");
    let answer = rude.answer(&mut table, at(0), &ToResponder::Open(open()), || secrets(2));
    assert!(matches!(answer, ToClient::Refused(refusal) if refusal.reason == Reason::OutOfTurn));
    assert!(rude.is_over() && table.len() == 1);
    let mut thief = Control::new(PEER, "vtare 9");
    let hello = Hello { versions: super::CONTROL_VERSION, program: String::new() };
    thief.answer(&mut table, at(0), &ToResponder::Hello(hello), || secrets(2));
    for message in [ToResponder::Close { session: grant.session }, ToResponder::Count { session: grant.session }] {
        let answer = thief.answer(&mut table, at(0), &message, || secrets(2));
        assert!(matches!(answer, ToClient::Refused(refusal) if refusal.reason == Reason::UnknownSession));
    }
    assert_eq!(table.len(), 1);
    let answer = thief.answer(&mut table, at(0), &ToResponder::Open(open()), || secrets(3));
    assert!(matches!(answer, ToClient::Granted(_)));
    thief.hang_up(&mut table);
    assert_eq!(table.len(), 1, "what a connection opened ends with it");
}

#[test]
fn a_client_does_not_wait_for_ever_and_does_not_take_less_than_it_asked_for() {
    let mut client = Client::new(open(), "vtare 9", Span::from_secs(5));
    client.start(at(0));
    assert_eq!(client.check(at(4_999)), Ok(()));
    let error = client.check(at(5_000)).expect_err("five seconds have passed");
    assert_eq!(error, ClientError::Silent { asked: "hello", waited: Span::from_secs(5) });

    let mut client = Client::new(open(), "vtare 9", Span::from_secs(5));
    client.start(at(0));
    client.receive(at(1), ToClient::Welcome { version: 2, program: String::new() }).expect("a good welcome");
    let grant = opened(&mut table(), &Open { packets: 1, ..open() });
    let error = client.receive(at(2), ToClient::Granted(grant)).expect_err("not what was asked for");
    assert_eq!(error, ClientError::Unexpected { asked: "open", found: "granted" });
}

#[test]
fn a_flood_makes_one_line_a_second() {
    let mut gate = LogGate::new(Span::from_secs(1));
    let said: Vec<u64> = (0..2_500).filter_map(|ms| gate.admit(at(ms))).collect();
    assert_eq!(said, [0, 999, 999]);
}

#[test]
fn the_last_number_of_all_is_never_new() {
    let mut window = Window::default();
    window.mark(u64::MAX - 1);
    assert_eq!((window.look(u64::MAX), window.look(u64::MAX - 1)), (Fresh::TooOld, Fresh::Duplicate));
}

proptest! {
    #[test]
    fn a_window_takes_each_number_once_and_states_so_as_far_as_it_reaches(
        jumps in proptest::collection::vec((0_u64..200_000, 0_u64..70_000), 1..200),
    ) {
        let (mut window, mut seen, mut newest) = (Window::default(), HashSet::new(), 0_u64);
        for (ahead, behind) in jumps {
            newest += ahead;
            for sequence in [newest, newest.saturating_sub(behind)] {
                let known_end = seen.iter().max().map_or(0, |max: &u64| max + 1);
                let want = if sequence < known_end && known_end - sequence > Window::REACH {
                    Fresh::TooOld
                } else if seen.contains(&sequence) {
                    Fresh::Duplicate
                } else {
                    Fresh::New
                };
                prop_assert_eq!(window.look(sequence), want, "{} of {}", sequence, known_end);
                window.mark(sequence);
                if want == Fresh::New {
                    seen.insert(sequence);
                }
            }
        }
    }

    #[test]
    fn no_more_than_rate_and_burst_pass_in_any_time(
        rate in 1_u64..2_000_000, burst in 1_u64..100, gaps in proptest::collection::vec(0_u64..3_000_000, 1..400),
    ) {
        let mut bucket = Bucket::new(rate, burst);
        let mut now = 5_000_000_000_u64;
        let mut passed = Vec::new();
        for gap in gaps {
            now += gap;
            if bucket.admit(Timestamp::from_nanos(now)) {
                passed.push(now);
            }
        }
        for (i, &from) in passed.iter().enumerate().step_by(7) {
            for (j, &to) in passed.iter().enumerate().skip(i) {
                let allowed = u128::from(burst) + u128::from(to - from) * u128::from(rate) / 1_000_000_000;
                prop_assert!((j - i) as u128 <= allowed, "{} packets in {} ns", j - i + 1, to - from);
            }
        }
    }

    #[test]
    fn garbage_never_makes_a_reply(
        mut datagram in proptest::collection::vec(any::<u8>(), 0..120),
        first in 0x10_u8..0x20,
    ) {
        let mut table = table();
        opened(&mut table, &open());
        if let Some(byte) = datagram.first_mut() {
            *byte = first;
        }
        let size = datagram.len();
        if size > 12 {
            datagram[2..4].copy_from_slice(&(size as u16).to_be_bytes());
            datagram[4..12].copy_from_slice(&secrets(1).session.0.to_be_bytes());
        }
        prop_assert!(judge(&mut table, at(0), FROM, &mut datagram).is_err());
    }
}

#[test]
fn a_train_back_is_asked_for_in_these_words() {
    let primed = Spacing::Primed { head: 3, after_ns: 40_000.4, packets: 2, gap_ns: 1e4 };
    let scattered = Spacing::Scattered { head: 1, after_ns: 50.0, packets: 4, gap_ns: 9.6, seed: u64::MAX };
    for (spacing, shape) in [
        (Spacing::BACK_TO_BACK, r#"{"kind":"even","gap_ns":0}"#),
        (Spacing::Constant { gap_ns: 12e3 }, r#"{"kind":"even","gap_ns":12000}"#),
        (
            Spacing::Pairs { inside_ns: 5.0, between_ns: 1e11 },
            r#"{"kind":"pairs","gap_ns":5,"period_ns":100000000000}"#,
        ),
        (
            Spacing::Chirp { first_gap_ns: 1_200.0, spread_per_mille: 1_200 },
            r#"{"kind":"chirp","first_gap_ns":1200,"spread_per_mille":1200}"#,
        ),
        (Spacing::groups(8, 96e3), r#"{"kind":"primed","head":0,"after_ns":0,"group":8,"gap_ns":96000}"#),
        (primed, r#"{"kind":"primed","head":3,"after_ns":40000,"group":2,"gap_ns":10000}"#),
        (scattered, r#"{"kind":"scattered","head":1,"after_ns":50,"group":4,"gap_ns":10,"seed":18446744073709551615}"#),
    ] {
        let plan = ReversePlan { packets: 100, size_byte: 1_472, spacing: spacing.clone(), burst_packet: 1 };
        let text = format!(r#"{{"packets":100,"size_byte":1472,"shape":{shape},"burst_packet":1}}"#);
        assert_eq!(serde_json::to_string(&plan).expect("it has a shape"), text);
        let back: ReversePlan = serde_json::from_str(&text).expect("it is this form");
        assert!(back.spacing.due(100).eq(spacing.due(100)) || matches!(spacing, Spacing::Scattered { .. }), "{shape}");
        assert_eq!(serde_json::to_string(&back).expect("it has a shape"), text);
    }
    for shape in [
        r#"{"kind":"gaps","gaps_ns":[1,2]}"#,
        r#"{"kind":"even","gap_ns":-1}"#,
        r#"{"kind":"even","gap_ns":1,"head":2}"#,
        r#"{"kind":"pairs","gap_ns":1}"#,
    ] {
        let text = format!(r#"{{"packets":2,"size_byte":60,"shape":{shape},"burst_packet":1}}"#);
        assert!(serde_json::from_str::<ReversePlan>(&text).is_err(), "{shape}");
    }
    let gaps =
        ReversePlan { packets: 2, size_byte: 60, spacing: Spacing::Gaps { gaps_ns: vec![1.0] }, burst_packet: 1 };
    assert!(serde_json::to_string(&gaps).is_err());
}
