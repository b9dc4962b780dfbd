use vtare_sys::net::LaunchClock;

use super::*;
use crate::rtt::parameters::Pacing;

fn kept() -> Offer {
    let keeper = Keeper {
        interface: "eth0".to_owned(),
        queue: "fq".to_owned(),
        clock: LaunchClock::Monotonic,
        shift_ns: 0,
        early_ns: 0,
        room: Some(100),
        drops_late: false,
    };
    Ok((keeper, Check { judged: Judged::Kept, packets: 8, earliest_ns: Some(700), latest_ns: Some(9_000) }))
}

fn not_kept() -> Offer {
    Err("veth1 has the queue discipline noqueue: use fq or etf: tc qdisc replace dev veth1 root fq".to_owned())
}

fn chosen(parameters: &Parameters, carrier: Carrier, offer: fn() -> Offer) -> (&'static str, bool, String) {
    let (facts, keeper) = decide(parameters, carrier, offer).expect("nothing was forced that cannot be");
    assert_eq!(facts.lead().is_some(), keeper.is_some());
    (facts.holder.name(), keeper.is_some(), facts.because)
}

/// For choices that need not ask.
fn nobody_asks() -> Offer {
    panic!("the machine was asked for nothing")
}

#[test]
fn a_spinning_sender_paces_itself_and_asks_nobody() {
    let spinning = Parameters::default();
    assert_eq!(chosen(&spinning, Carrier::Socket, nobody_asks).0, "spin");
    assert_eq!(chosen(&spinning, Carrier::Frames, nobody_asks).0, "spin");
    assert_eq!(chosen(&spinning, Carrier::Programs, nobody_asks).0, "kernel_program");
    let flood = Parameters { flood: true, ..Parameters::default() };
    assert_eq!(chosen(&flood, Carrier::Socket, nobody_asks).0, "reply");
}

#[test]
fn a_sleeping_sender_leaves_the_times_to_a_queue_that_keeps_them() {
    let sleeping = Parameters { blocking: true, ..Parameters::default() };
    assert_eq!(chosen(&sleeping, Carrier::Socket, kept).0, "txtime");
    let (holder, launched, because) = chosen(&sleeping, Carrier::Socket, not_kept);
    assert_eq!((holder, launched), ("sleep", false));
    assert!(because.contains("noqueue: use fq or etf"), "{because}");
    let dense = Parameters { rate_packet_per_s: 50_000, ..sleeping.clone() };
    assert_eq!(chosen(&dense, Carrier::Socket, nobody_asks).0, "sleep");
    let own = Parameters { pacing: Pacing::Program, ..sleeping };
    assert_eq!(chosen(&own, Carrier::Socket, nobody_asks).0, "sleep");
}

#[test]
fn launch_times_that_are_asked_for_are_had_or_refused() {
    let asked = Parameters { pacing: Pacing::Txtime, ..Parameters::default() };
    let (facts, keeper) = decide(&asked, Carrier::Socket, kept).expect("it is there");
    assert_eq!(facts.queue.as_deref(), Some("fq on eth0"));
    assert_eq!(facts.lead(), keeper.map(|keeper| keeper.lead(1_000_000)));
    let refused = decide(&asked, Carrier::Socket, not_kept).expect_err("it is not there");
    assert_eq!(refused.code(), 2);
    let message = refused.to_string();
    assert!(
        message.contains("pacing is txtime") && message.contains("noqueue") && message.contains("--pacing program"),
        "{message}"
    );
}

#[test]
fn a_peer_whose_neighbour_has_no_launch_times_is_paced_by_the_program() {
    let asked = Parameters { pacing: Pacing::Txtime, ..Parameters::default() };
    let mut facts = decide(&asked, Carrier::Socket, kept).expect("it is there").0;
    facts.without_launch_times(false);
    assert_eq!(facts.lead(), None);
    let line = facts.line();
    assert!(line.contains("pacing spin: the queue on the way to another peer keeps no launch times"), "{line}");
    let mut own = decide(&Parameters::default(), Carrier::Socket, nobody_asks).expect("nothing is asked for").0;
    let before = own.line();
    own.without_launch_times(false);
    assert_eq!(own.line(), before);
}

#[test]
fn what_came_of_launch_times_is_noted() {
    let mut facts = decide(&Parameters { pacing: Pacing::Txtime, ..Parameters::default() }, Carrier::Socket, kept)
        .expect("it is there")
        .0;
    facts.take(Some(Launches { stamped: 90, asked_only: 10, earliest_ns: Some(1_500) }));
    let line = facts.line();
    assert!(line.contains("pacing txtime: asked for") && line.contains("90 departures stamped"), "{line}");
    assert!(line.contains("of 10 packets only the launch time asked for is known"), "{line}");
}
