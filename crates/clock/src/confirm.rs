//! UTC as witnesses on other hosts state it: what their answers confirm, whatever happened to this machine. Pure: time
//! and answers are arguments.
//!
//! A witness reads its clock at some instant between the call and the return. So its `latest` bounds UTC at the call
//! and its `earliest` bounds UTC at the return, even where this machine was stopped, restored or moved in between:
//! neither needs this machine's clock. The ends are combined apart, as Marzullo's rule does for each of them: of
//! `liars + 1` ends at least one is right, so the weakest of the strongest `liars + 1` holds.

use vtare_units::{Monotonic, Peer, Span, Timestamp, Wall};

/// Steering and drift of a clock at most, as a fraction: the kernel's limit of 500 ppm.
pub(crate) const DRIFT: f64 = 500e-6;
/// The step of the coarsest counter that a clock is read from.
pub(crate) const STEP_NS: u64 = 1_000;

/// The least time that is given to the others after a quorum has answered.
const LEAST_PATIENCE: Span = Span::from_millis(1);

/// What one witness answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// When the request was about to leave, on this machine's clock.
    pub sent: Timestamp<Monotonic>,
    /// When the reply had come, likewise.
    pub received: Timestamp<Monotonic>,
    /// The earliest and the latest that UTC was at the witness; `None` where it knows nothing of it.
    pub utc: Option<(Timestamp<Wall>, Timestamp<Wall>)>,
    /// Whether the witness would see that it was itself stopped.
    pub sees_stops: bool,
    /// The generation of its clock.
    pub generation: u64,
    /// Its monotonic clock.
    pub stamp: Timestamp<Peer>,
    /// Its host; 0 where that is not known.
    pub host: u64,
}

/// UTC as witnesses confirm it: it was in the interval at an instant between the call and the return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// No later than UTC at the return, whatever happened during the call.
    pub earliest: Timestamp<Wall>,
    /// No earlier than UTC at the call, whatever happened; nor than UTC at the return, unless this machine was stopped
    /// during the call.
    pub latest: Timestamp<Wall>,
    /// Hosts whose statements count.
    pub hosts: usize,
    /// How many of them may state anything. With two hosts one of them can widen the interval without limit; with one
    /// host none may be wrong.
    pub liars: usize,
    /// Witnesses that do not count, since another one on their host does or since they are on this machine.
    pub same_host: usize,
    /// Hosts among `hosts` that can be stopped without seeing it.
    pub stoppable: usize,
}

/// Why nothing is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconfirmed {
    /// Too few hosts stated UTC.
    #[error(
        "too few hosts stated UTC: {hosts}, needed {needed} ({same_host} witnesses share a host); check that they \
        run, have the key and are synchronized"
    )]
    Silent {
        /// Hosts that stated UTC.
        hosts: usize,
        /// Hosts that are needed.
        needed: usize,
        /// Witnesses that do not count, as in [`Confirmed`].
        same_host: usize,
    },
    /// The statements cannot all hold: time passed between them, or more witnesses are wrong than are tolerated.
    #[error("the witnesses contradict each other: this machine was stopped during the call, or {} or more of them are \
        wrong", .liars + 1)]
    Contradiction {
        /// How many may be wrong.
        liars: usize,
    },
}

/// How many of `hosts` may be wrong.
#[must_use]
pub fn liars_of(hosts: usize) -> usize {
    if hosts < 2 { 0 } else { ((hosts - 1) / 2).max(1) }
}

/// The answers that count, by host: those of one host are one vote.
pub(crate) struct Votes<'a> {
    hosts: Vec<Vec<&'a WitnessAnswer>>,
    pub(crate) same_host: usize,
    pub(crate) liars: usize,
}

impl<'a> Votes<'a> {
    /// Of `answers` by some of `witnesses`, seen from the machine `own_host`.
    pub(crate) fn of(answers: impl IntoIterator<Item = &'a WitnessAnswer>, witnesses: usize, own_host: u64) -> Self {
        let mut hosts: Vec<Vec<&WitnessAnswer>> = Vec::new();
        let mut same_host = 0;
        for answer in answers {
            if answer.host == 0 {
                hosts.push(vec![answer]);
            } else if answer.host == own_host {
                same_host += 1;
            } else if let Some(host) = hosts.iter_mut().find(|host| host[0].host == answer.host) {
                same_host += 1;
                host.push(answer);
            } else {
                hosts.push(vec![answer]);
            }
        }
        Self { hosts, same_host, liars: liars_of(witnesses.saturating_sub(same_host)) }
    }

    /// One interval for each host that has one: whatever any of its witnesses allows.
    pub(crate) fn intervals<T: PartialOrd + Copy>(
        &self,
        interval: impl Fn(&WitnessAnswer) -> Option<(T, T)>,
    ) -> Vec<(T, T)> {
        let least = |one: T, other: T| if other < one { other } else { one };
        let most = |one: T, other: T| if other > one { other } else { one };
        let hull = |one: (T, T), other: (T, T)| (least(one.0, other.0), most(one.1, other.1));
        self.hosts.iter().filter_map(|host| host.iter().filter_map(|answer| interval(answer)).reduce(hull)).collect()
    }

    /// Hosts that stated UTC.
    fn stated(&self) -> usize {
        self.hosts.iter().filter(|host| host.iter().any(|answer| answer.utc.is_some())).count()
    }
}

/// The ends that hold where at most `liars` of the intervals are wrong; `None` for too few of them.
pub(crate) fn tolerant<T: PartialOrd + Copy>(intervals: &[(T, T)], liars: usize) -> Option<(T, T)> {
    let order = |one: &T, other: &T| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal);
    let mut lower: Vec<T> = intervals.iter().map(|interval| interval.0).collect();
    let mut upper: Vec<T> = intervals.iter().map(|interval| interval.1).collect();
    lower.sort_by(|one, other| order(other, one));
    upper.sort_by(order);
    Some((*lower.get(liars)?, *upper.get(liars)?))
}

/// When to stop waiting for answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    quorum_after: Option<Span>,
}

impl Patience {
    /// Whether to wait no longer than `passed`: there are as many hosts as liars cannot outvote; or a quorum, where the
    /// others have been given as long again.
    pub fn is_over(&mut self, answers: &[WitnessAnswer], witnesses: usize, own_host: u64, passed: Span) -> bool {
        let votes = Votes::of(answers, witnesses, own_host);
        let (hosts, liars) = (votes.stated(), votes.liars);
        if hosts > liars && self.quorum_after.is_none() {
            self.quorum_after = Some(passed);
        }
        let others = self.quorum_after.is_some_and(|after| passed >= after * 2 + LEAST_PATIENCE);
        hosts > 2 * liars && liars > 0 || answers.len() >= witnesses || others
    }
}

/// What answers of some of `witnesses` confirm to the machine `own_host`, at the return of the call, `ended`.
///
/// ```
/// use vtare_clock::{WitnessAnswer, confirm};
/// use vtare_units::Timestamp;
/// let answer = |host, ns: u64| WitnessAnswer {
///     sent: Timestamp::from_nanos(1_000),
///     received: Timestamp::from_nanos(90_000),
///     utc: Some((Timestamp::from_nanos(ns - 500), Timestamp::from_nanos(ns + 500))),
///     sees_stops: true,
///     generation: 1,
///     stamp: Timestamp::from_nanos(77),
///     host,
/// };
/// let answers = [answer(1, 1_000_000), answer(2, 1_000_100), answer(3, 600)];
/// let found = confirm(&answers, 3, 9, Timestamp::from_nanos(100_000)).expect("one of three may lie");
/// assert!(found.earliest.as_nanos() == 999_500 && found.latest.as_nanos() > 1_000_100 && found.liars == 1);
/// ```
///
/// # Errors
/// [`Unconfirmed`].
pub fn confirm(
    answers: &[WitnessAnswer],
    witnesses: usize,
    own_host: u64,
    ended: Timestamp<Monotonic>,
) -> Result<Confirmed, Unconfirmed> {
    let votes = Votes::of(answers, witnesses, own_host);
    confirm_votes(&votes, ended, 1.0 + DRIFT)
}

/// Likewise, where true time passes at most `rate` times as fast as this machine's clock.
pub(crate) fn confirm_votes(
    votes: &Votes<'_>,
    ended: Timestamp<Monotonic>,
    rate: f64,
) -> Result<Confirmed, Unconfirmed> {
    let Votes { liars, same_host, .. } = *votes;
    let intervals = votes.intervals(|answer| {
        let (earliest, latest) = answer.utc?;
        // A clock that was set back during the call shows less than nothing: the witness's own ends still hold.
        let passed_ns = (ended - answer.sent).as_nanos().max(0) as f64 * rate;
        Some((earliest, latest + Span::from_nanos(passed_ns.ceil() as i64 + STEP_NS as i64)))
    });
    let hosts = intervals.len();
    let silent = Unconfirmed::Silent { hosts, needed: liars + 1, same_host };
    let (earliest, latest) = tolerant(&intervals, liars).ok_or(silent)?;
    if earliest > latest {
        return Err(Unconfirmed::Contradiction { liars });
    }
    let blind = |host: &&Vec<&WitnessAnswer>| host.iter().any(|answer| answer.utc.is_some() && !answer.sees_stops);
    let stoppable = votes.hosts.iter().filter(blind).count();
    Ok(Confirmed { earliest, latest, hosts, liars, same_host, stoppable })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that takes 1 ms, of a witness that knows UTC to 1 ms.
    fn answer(host: u64, utc_ms: u64) -> WitnessAnswer {
        WitnessAnswer {
            sent: Timestamp::from_nanos(0),
            received: Timestamp::from_nanos(1_000_000),
            utc: Some((
                Timestamp::from_nanos((utc_ms - 1) * 1_000_000),
                Timestamp::from_nanos((utc_ms + 1) * 1_000_000),
            )),
            sees_stops: true,
            generation: 1,
            stamp: Timestamp::from_nanos(0),
            host,
        }
    }

    fn found(answers: &[WitnessAnswer], witnesses: usize) -> Result<(u64, u64, usize), Unconfirmed> {
        let found = confirm(answers, witnesses, 99, Timestamp::from_nanos(1_000_000))?;
        Ok((found.earliest.as_nanos() / 1_000_000, found.latest.as_nanos() / 1_000_000, found.liars))
    }

    #[test]
    fn one_of_three_may_lie_in_either_direction_and_one_may_be_silent() {
        for lie in [10, 1_000, 1_900, 100_000] {
            let found = found(&[answer(1, 1_000), answer(2, 1_001), answer(3, lie)], 3);
            assert!(found.is_ok_and(|(earliest, latest, liars)| earliest <= 1_000 && latest >= 1_001 && liars == 1));
        }
        assert_eq!(found(&[answer(1, 1_000), answer(2, 1_001), answer(3, 5)], 3), Ok((999, 1_002, 1)));
        assert_eq!(found(&[answer(1, 1_000), answer(2, 5)], 3), Ok((4, 1_002, 1)), "wide, and right");
        let silent = Unconfirmed::Silent { hosts: 1, needed: 2, same_host: 0 };
        assert_eq!(found(&[answer(1, 1_000)], 3), Err(silent));
    }

    #[test]
    fn two_hosts_and_one_promise_less_and_name_it() {
        assert_eq!(found(&[answer(1, 1_000), answer(2, 2_000)], 2), Ok((999, 2_002, 1)));
        assert_eq!(found(&[answer(1, 1_000)], 1), Ok((999, 1_002, 0)));
        assert_eq!([0, 1, 2, 3, 4, 5, 7].map(liars_of), [0, 0, 1, 1, 1, 2, 3]);
    }

    #[test]
    fn witnesses_of_one_host_are_one_vote_and_those_of_this_machine_none() {
        // Two on a host that stood still, against one: nobody can tell who is right, so both are in the interval.
        let stopped = [answer(1, 1_000), answer(1, 1_000), answer(2, 9_000)];
        assert_eq!(found(&stopped, 3), Ok((999, 9_002, 1)));
        let here = confirm(&[answer(7, 1_000)], 1, 7, Timestamp::from_nanos(1_000_000));
        assert_eq!(here, Err(Unconfirmed::Silent { hosts: 0, needed: 1, same_host: 1 }));
        let unknown = [answer(0, 1_000), answer(0, 1_000), answer(0, 1_000)];
        assert_eq!(confirm(&unknown, 3, 0, Timestamp::from_nanos(1_000_000)).map(|found| found.hosts), Ok(3));
    }

    #[test]
    fn time_that_passed_between_the_answers_is_a_contradiction() {
        // Stopped for 8 s between the first answers and the others.
        let apart = [1, 2, 3, 4].map(|host| answer(host, if host < 3 { 1_000 } else { 9_000 }));
        assert_eq!(found(&apart[..3], 3), Ok((999, 1_002, 1)));
        assert_eq!(found(&apart, 4), Err(Unconfirmed::Contradiction { liars: 1 }));
    }

    #[test]
    fn an_answer_that_waited_widens_the_interval_and_does_not_move_its_lower_end() {
        let answers = [answer(1, 1_000), answer(2, 1_000), answer(3, 1_000)];
        let late = confirm(&answers, 3, 99, Timestamp::from_nanos(5_000_000_000)).expect("all agree");
        assert_eq!(late.earliest.as_nanos(), 999_000_000);
        assert!((6_001_000_000..6_005_000_000).contains(&late.latest.as_nanos()), "{late:?}");
    }
}
