use super::*;

const MS: u64 = 1_000_000;

/// Three witnesses beside a machine, by true time in ms; each answer takes 1 ms and UTC is true time.
struct Machine {
    keeper: Keeper,
    /// What this machine's clock shows at a true time: it is ahead by some ms, and runs at some rate.
    ahead_ms: f64,
    rate: f64,
}

impl Machine {
    fn new() -> Self {
        Self { keeper: Keeper::new(99, HEARTBEAT, &UtcLine::default()), ahead_ms: 0.0, rate: 1.0 }
    }

    fn local(&self, true_ms: f64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(((true_ms * self.rate + self.ahead_ms) * 1e6) as u64)
    }

    /// A round at a true time, and how many witnesses answer it.
    fn round(&mut self, true_ms: u64, answering: usize) -> UtcStatus {
        let (begun, ended) = (self.local(true_ms as f64), self.local(true_ms as f64 + 1.0));
        let at_ns = true_ms * MS + MS / 2;
        let answer = |host| WitnessAnswer {
            sent: begun,
            received: ended,
            utc: Some((Timestamp::from_nanos(at_ns - MS), Timestamp::from_nanos(at_ns + MS))),
            sees_stops: true,
            generation: 1,
            stamp: Timestamp::from_nanos(at_ns),
            host,
        };
        let answers = (1..=3).map(|host| (host as usize <= answering).then(|| answer(host))).collect();
        self.keeper.next(Round { begun, ended: Checked { at: ended, generation: 1 }, answers }).0.status
    }

    fn reading(&self, true_ms: f64) -> UtcInterval {
        self.keeper.line().interval(Checked { at: self.local(true_ms), generation: 1 })
    }
}

#[test]
fn two_rounds_that_agree_are_vouched_for_and_hold_utc_until_two_heartbeats_later() {
    let mut machine = Machine::new();
    assert_eq!([machine.round(1_000, 3), machine.round(1_100, 3)], [UtcStatus::Unknown, UtcStatus::Synchronized]);
    for true_ms in [1_101.0, 1_150.0, 1_299.0] {
        let found = machine.reading(true_ms);
        let utc_ns = (true_ms * 1e6) as u64;
        assert!((found.earliest.as_nanos()..=found.latest.as_nanos()).contains(&utc_ns), "{found:?}");
        assert!(found.latest - found.earliest < Span::from_millis(9), "{found:?}");
    }
    assert_eq!(machine.reading(1_300.0).status, UtcStatus::Unknown);
    assert_eq!(machine.reading(1_099.0).status, UtcStatus::Disrupted, "set back to before the round");
}

#[test]
fn a_stop_and_a_step_are_flagged_by_the_next_round_and_the_one_after_it_holds_again() {
    // A stop has the clock fall behind true time; a step sets it forward, or back.
    for ahead_ms in [-5.0, 5.0, 2_000.0, -500.0] {
        let mut machine = Machine::new();
        let _ = (machine.round(1_000, 3), machine.round(1_100, 3));
        machine.ahead_ms = ahead_ms;
        assert_eq!(machine.round(1_200, 3), UtcStatus::Disrupted, "{ahead_ms}");
        assert_eq!(machine.keeper.line().generation, 1);
        assert_eq!(machine.round(1_300, 3), UtcStatus::Synchronized, "{ahead_ms}");
    }
}

#[test]
fn what_the_machine_tells_is_flagged_at_once_and_no_round_is_compared_across_it() {
    let mut machine = Machine::new();
    let _ = (machine.round(1_000, 3), machine.round(1_100, 3));
    let told = machine.keeper.disrupt();
    assert_eq!((told.status, told.generation, machine.reading(1_150.0).status), (UtcStatus::Disrupted, 1, told.status));
    // The clock moved with it: the first round has nothing to agree with.
    machine.ahead_ms = -5.0;
    assert_eq!([machine.round(1_160, 3), machine.round(1_260, 3)], [UtcStatus::Disrupted, UtcStatus::Synchronized]);
    assert_eq!(machine.keeper.line().generation, 1);
}

#[test]
fn a_wrong_rate_is_flagged_for_as_long_as_it_lasts() {
    let mut machine = Machine::new();
    let _ = (machine.round(1_000, 3), machine.round(1_100, 3));
    // 7 % faster from 1,101 ms on.
    (machine.rate, machine.ahead_ms) = (1.07, -0.07 * 1_101.0);
    for true_ms in [1_194, 1_287, 1_381] {
        assert_eq!(machine.round(true_ms, 3), UtcStatus::Disrupted);
    }
}

#[test]
fn a_round_without_a_quorum_changes_nothing_and_one_silent_witness_neither() {
    let mut machine = Machine::new();
    let _ = (machine.round(1_000, 3), machine.round(1_100, 3));
    let before = *machine.keeper.line();
    assert_eq!(machine.round(1_200, 1), UtcStatus::Synchronized);
    assert_eq!(*machine.keeper.line(), UtcLine { rounds: before.rounds + 1, ..before });
    assert_eq!([machine.round(1_300, 2), machine.round(1_400, 2)], [UtcStatus::Unknown, UtcStatus::Synchronized]);
    // Another keeper goes on with the counts, in another generation.
    let next = Keeper::new(99, HEARTBEAT, machine.keeper.line());
    assert_eq!((next.line().generation, next.line().rounds, next.line().status), (1, 5, UtcStatus::Unknown));
}
