use serde::{Deserialize, Serialize};

/// What a load must fulfil to be a lower bound of the throughput.
//= RFC 9971, MLRsearch: search goal
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Goal {
    /// The share of frames that a good trial may lose.
    pub loss_ratio: f64,
    /// The share of the time that may be bad all the same.
    pub exceed_ratio: f64,
    /// A trial counts in full from this duration on, ns.
    pub final_ns: u64,
    /// Trials at one load come to this duration together, ns.
    pub sum_ns: u64,
    /// How far apart the bounds may be, as share of the upper one.
    pub width: f64,
}

impl Default for Goal {
    /// 0.5 % of the frames in half of 9 trials of 0.3 s, to 3 %: a machine whose CPUs stall now and then gives the
    /// same answer each time.
    fn default() -> Self {
        Self { loss_ratio: 0.005, exceed_ratio: 0.5, final_ns: 300_000_000, sum_ns: 2_700_000_000, width: 0.03 }
    }
}

impl Goal {
    /// No frame lost, in a single trial of `duration_ns`.
    #[must_use]
    pub const fn zero_loss(duration_ns: u64, width: f64) -> Self {
        Self { loss_ratio: 0.0, exceed_ratio: 0.0, final_ns: duration_ns, sum_ns: duration_ns, width }
    }
}

/// What a counted trial at some load came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its duration, ns.
    pub duration_ns: u64,
    /// The share of frames that did not come.
    pub loss_ratio: f64,
}

/// What is known of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It fulfils the goal.
    Lower,
    /// It does not.
    Upper,
    /// Further trials could make it either.
    Undecided,
}

/// The class of one load: what its trials show of a goal.
///
/// ```
/// use vtare_methods::throughput::{Class, Goal, Measured, classify};
/// let goal = Goal { final_ns: 1, sum_ns: 3, ..Goal::default() };
/// let trial = |loss_ratio| Measured { duration_ns: 1, loss_ratio };
/// assert_eq!(classify(&[trial(0.1)], &goal), Class::Undecided);
/// // One bad trial of three is within an exceed ratio of a half.
/// assert_eq!(classify(&[trial(0.1), trial(0.0), trial(0.0)], &goal), Class::Lower);
/// assert_eq!(classify(&[trial(0.1), trial(0.1)], &goal), Class::Upper);
/// ```
//= RFC 9971, appendix: load classification
#[must_use]
pub fn classify(trials: &[Measured], goal: &Goal) -> Class {
    let sum = |wanted: &dyn Fn(&Measured) -> bool| {
        trials.iter().filter(|trial| wanted(trial)).map(|trial| trial.duration_ns as f64).sum::<f64>()
    };
    let full = |trial: &Measured| trial.duration_ns >= goal.final_ns;
    let low = |trial: &Measured| trial.loss_ratio <= goal.loss_ratio;
    let full_low = sum(&|trial| full(trial) && low(trial));
    let full_high = sum(&|trial| full(trial) && !low(trial));
    let short_low = sum(&|trial| !full(trial) && low(trial));
    let short_high = sum(&|trial| !full(trial) && !low(trial));
    // Short bad trials count as far as short good ones do not make up for them; short good ones never count by
    // themselves.
    let balancing =
        if goal.exceed_ratio < 1.0 { short_low * goal.exceed_ratio / (1.0 - goal.exceed_ratio) } else { f64::MAX };
    let high = full_high + (short_high - balancing).max(0.0);
    let whole = (full_low + high).max(goal.sum_ns as f64);
    let allowed = whole * goal.exceed_ratio;
    let optimistic = high <= allowed;
    let pessimistic = whole - full_low <= allowed;
    match (optimistic, pessimistic) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// What the device forwards at `packet_per_s` in the part of the trials that must be good: the load less the loss of
/// the worst trial among them.
//= RFC 9971, appendix: conditional throughput
#[must_use]
pub fn conditional_throughput(packet_per_s: u64, trials: &[Measured], goal: &Goal) -> f64 {
    let mut full: Vec<&Measured> = trials.iter().filter(|trial| trial.duration_ns >= goal.final_ns).collect();
    full.sort_by(|one, other| one.loss_ratio.total_cmp(&other.loss_ratio));
    let measured: u64 = full.iter().map(|trial| trial.duration_ns).sum();
    let mut remaining = measured.max(goal.sum_ns) as f64 * (1.0 - goal.exceed_ratio);
    let mut loss = None;
    for trial in full {
        if loss.is_some() && remaining <= 0.0 {
            break;
        }
        loss = Some(trial.loss_ratio);
        remaining -= trial.duration_ns as f64;
    }
    // Time that was not measured counts as if all were lost.
    let loss = loss.filter(|_| remaining <= 0.0).unwrap_or(1.0);
    packet_per_s as f64 * (1.0 - loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trials(of: &[(u64, f64)]) -> Vec<Measured> {
        of.iter().map(|&(duration_ns, loss_ratio)| Measured { duration_ns, loss_ratio }).collect()
    }

    const GOAL: Goal = Goal { loss_ratio: 0.01, exceed_ratio: 0.5, final_ns: 10, sum_ns: 40, width: 0.1 };

    #[test]
    fn four_of_eight_trials_may_be_bad_and_five_may_not() {
        let of = |bad: usize, good: usize| {
            let mut list = vec![(10, 0.5); bad];
            list.extend(vec![(10, 0.0); good]);
            classify(&trials(&list), &GOAL)
        };
        assert_eq!([of(2, 2), of(3, 1), of(4, 4), of(5, 4)], [Class::Lower, Class::Upper, Class::Lower, Class::Upper]);
        // Two good ones are enough: the rest of the time may be bad. One of each leaves it open.
        assert_eq!([of(0, 2), of(1, 1), of(0, 0)], [Class::Lower, Class::Undecided, Class::Undecided]);
    }

    #[test]
    fn short_good_trials_make_up_for_short_bad_ones_but_make_no_lower_bound() {
        assert_eq!(classify(&trials(&[(5, 0.0); 30]), &GOAL), Class::Undecided);
        // 21 of 40 are bad, with nothing to make up for them.
        assert_eq!(classify(&trials(&[(7, 0.9); 3]), &GOAL), Class::Upper);
        assert_eq!(classify(&trials(&[(7, 0.9), (7, 0.9), (7, 0.9), (7, 0.0)]), &GOAL), Class::Undecided);
    }

    #[test]
    fn without_an_exceed_ratio_one_lost_frame_is_enough() {
        let goal = Goal::zero_loss(10, 0.01);
        assert_eq!(classify(&trials(&[(10, 0.0)]), &goal), Class::Lower);
        assert_eq!(classify(&trials(&[(10, 0.0), (10, 1e-9)]), &goal), Class::Upper);
        // A short trial that loses is as bad as a long one.
        assert_eq!(classify(&trials(&[(1, 1e-9)]), &goal), Class::Upper);
    }

    #[test]
    fn conditional_throughput_is_that_of_the_worst_trial_of_the_better_part() {
        let list = trials(&[(10, 0.3), (10, 0.0), (10, 0.005), (10, 0.4)]);
        assert_eq!(conditional_throughput(1_000, &list, &GOAL), 995.0);
        // Of 40 only 10 were measured, where 20 must be good.
        assert_eq!(conditional_throughput(1_000, &trials(&[(10, 0.0)]), &GOAL), 0.0);
        assert_eq!(conditional_throughput(1_000, &trials(&[(5, 0.0); 100]), &GOAL), 0.0);
    }

    proptest! {
        #[test]
        fn a_lower_bound_forwards_at_least_what_its_goal_allows_to_lose(
            list in proptest::collection::vec((1_u64..20, 0.0..0.05_f64), 0..30), exceed in 0.0..0.9_f64,
        ) {
            let goal = Goal { exceed_ratio: exceed, ..GOAL };
            let list = trials(&list);
            if classify(&list, &goal) == Class::Lower {
                let least = 1_000_000.0 * (1.0 - goal.loss_ratio) - 1e-6;
                prop_assert!(conditional_throughput(1_000_000, &list, &goal) >= least);
            }
        }

        #[test]
        fn a_further_good_trial_never_makes_an_upper_bound_of_what_was_none(
            list in proptest::collection::vec((1_u64..20, 0.0..0.05_f64), 0..30),
        ) {
            let before = classify(&trials(&list), &GOAL);
            let mut more = list;
            more.push((10, 0.0));
            let after = classify(&trials(&more), &GOAL);
            prop_assert!(before == Class::Upper || after != Class::Upper);
        }
    }
}
