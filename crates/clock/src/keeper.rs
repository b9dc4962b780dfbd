//! The line that heartbeats keep: UTC by this machine's clock, and for how long that is vouched for. Pure: time and
//! answers are arguments.
//!
//! Each round is held against the one before by the witnesses' monotonic stamps, which bound how fast this machine's
//! clock ran to within the round trips, far closer than UTC itself is known. A stop, step, restore or change of rate
//! that is longer than the round trips shows at the end of the next round. One that is shorter, and so cannot be seen,
//! is within the line's bounds: they grow by the greatest rate that the last two rounds allow.

use vtare_units::{Monotonic, Span, Timestamp, Wall};

use crate::confirm::{Confirmed, DRIFT, STEP_NS, Unconfirmed, Votes, WitnessAnswer, confirm_votes, tolerant};
use crate::utc::{UtcInterval, UtcStatus};
use crate::watch::Checked;

/// The usual time between two rounds.
pub const HEARTBEAT: Span = Span::from_millis(100);

/// Fractions are in units of this.
const FRACTION: f64 = (1_u64 << 32) as f64;
/// Heartbeats after the start of its round until which a line is vouched for.
const HOLDS_HEARTBEATS: i64 = 2;
/// The most heartbeats between two rounds that are compared.
const MOST_BASE: f64 = 4.0;
/// A change of rate during the earlier round moves its stamp by at most this share of its round trip.
const CHANGE_IN_ROUND: f64 = 0.125;

/// One round of questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Before the first question left.
    pub begun: Timestamp<Monotonic>,
    /// After the last answer.
    pub ended: Checked,
    /// What each witness answered, in a fixed order.
    pub answers: Vec<Option<WitnessAnswer>>,
}

/// UTC by this machine's clock, as the last round left it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtcLine {
    /// When the round began, and when it ended: the bounds are those of UTC then.
    pub begun: Timestamp<Monotonic>,
    /// When it ended.
    pub at: Timestamp<Monotonic>,
    /// No later than UTC at that time.
    pub earliest: Timestamp<Wall>,
    /// No earlier.
    pub latest: Timestamp<Wall>,
    /// By how much true time may pass slower than this machine's clock, as a fraction of 2^32.
    pub slower: u64,
    /// And by how much faster.
    pub faster: u64,
    /// Until when it is vouched for, on this machine's clock.
    pub until: Timestamp<Monotonic>,
    /// `Synchronized`: it is vouched for; `Disrupted`: time was disrupted and one more round has to agree; `Unknown`:
    /// too few witnesses answered, or the first round.
    pub status: UtcStatus,
    /// How often time was disrupted.
    pub generation: u64,
    /// Rounds that ended, so that a reader knows which came after a disruption of its own.
    pub rounds: u64,
    /// Hosts whose statements count in the last round that is vouched for.
    pub hosts: u32,
    /// How many of them may be wrong.
    pub liars: u32,
}

impl Default for UtcLine {
    fn default() -> Self {
        Self {
            begun: Timestamp::ZERO,
            at: Timestamp::ZERO,
            earliest: Timestamp::ZERO,
            latest: Timestamp::MAX,
            slower: 0,
            faster: 0,
            until: Timestamp::ZERO,
            status: UtcStatus::Unknown,
            generation: 0,
            rounds: 0,
            hosts: 0,
            liars: 0,
        }
    }
}

impl UtcLine {
    /// UTC at a reading of this machine's clock.
    #[inline]
    #[must_use]
    pub fn interval(&self, now: Checked) -> UtcInterval {
        let generation = self.generation + now.generation;
        let nothing = |status| UtcInterval { earliest: Timestamp::ZERO, latest: Timestamp::MAX, status, generation };
        if self.status != UtcStatus::Synchronized {
            return nothing(self.status);
        }
        // Before its round began: the clock was set back, which no round has seen yet.
        if now.at < self.begun {
            return nothing(UtcStatus::Disrupted);
        }
        if now.at >= self.until {
            return nothing(UtcStatus::Unknown);
        }
        let (earliest, latest) = self.bounds(now.at);
        UtcInterval { earliest, latest, status: UtcStatus::Synchronized, generation }
    }

    #[inline]
    fn bounds(&self, now: Timestamp<Monotonic>) -> (Timestamp<Wall>, Timestamp<Wall>) {
        let (now, at) = (now.as_nanos(), self.at.as_nanos());
        let age = now.abs_diff(at);
        let part = |fraction: u64| ((u128::from(age) * u128::from(fraction)) >> 32) as u64;
        let (earliest, latest) = (self.earliest.as_nanos(), self.latest.as_nanos());
        let ends = if now >= at {
            (
                earliest.saturating_add(age).saturating_sub(part(self.slower)),
                latest.saturating_add(age + part(self.faster)),
            )
        } else {
            // A reading from just before the round ended.
            (earliest.saturating_sub(age + part(self.faster)), latest)
        };
        (Timestamp::from_nanos(ends.0.saturating_sub(STEP_NS)), Timestamp::from_nanos(ends.1.saturating_add(STEP_NS)))
    }
}

/// How fast true time passed against this machine's clock between two rounds.
#[derive(Clone, Copy, Debug)]
struct Rate {
    slowest: f64,
    fastest: f64,
    /// Heartbeats between the two, 1 at least.
    base: f64,
}

impl Rate {
    fn is_wrong(&self) -> bool {
        self.slowest > 1.0 + DRIFT || self.fastest < 1.0 - DRIFT
    }

    /// By how much slower and faster it may pass from now on. A rate that changed between the two rounds shows in a
    /// part of the time between them only: in one heartbeat, where it is that long ago.
    fn bounds(&self) -> (f64, f64) {
        ((1.0 - self.slowest).max(0.0) * self.base, (self.fastest - 1.0).max(0.0) * self.base)
    }
}

/// Keeps the line.
#[derive(Clone, Debug)]
pub struct Keeper {
    own_host: u64,
    heartbeat: Span,
    line: UtcLine,
    last: Option<Round>,
}

impl Keeper {
    /// A keeper on the machine `own_host` (0: not known), for rounds at this distance. It goes on with the counts of
    /// the line that another one kept `before`.
    #[must_use]
    pub fn new(own_host: u64, heartbeat: Span, before: &UtcLine) -> Self {
        let generation = before.generation + u64::from(before.rounds > 0);
        let line = UtcLine { generation, rounds: before.rounds, ..UtcLine::default() };
        Self { own_host, heartbeat, line, last: None }
    }

    /// The line as it is.
    #[must_use]
    pub const fn line(&self) -> &UtcLine {
        &self.line
    }

    /// The line after the machine itself told of a disruption: no round is compared across it.
    pub fn disrupt(&mut self) -> UtcLine {
        self.last = None;
        self.line = UtcLine { status: UtcStatus::Disrupted, generation: self.line.generation + 1, ..self.line };
        self.line
    }

    /// The line after a round, and what the round confirmed.
    pub fn next(&mut self, round: Round) -> (UtcLine, Result<Confirmed, Unconfirmed>) {
        let votes = Votes::of(round.answers.iter().flatten(), round.answers.len(), self.own_host);
        let rate = self.last.as_ref().and_then(|last| self.rate(last, &round, &votes));
        let fastest = rate.map_or(1.0 + DRIFT, |rate| 1.0 + rate.bounds().1);
        let found = confirm_votes(&votes, round.ended.at, fastest);
        let disrupted = self.is_disrupted(&round, rate, &found);
        let rounds = self.line.rounds + 1;
        self.line = match (found, rate.map(|rate| rate.bounds())) {
            // Nothing new: the line goes on until it is no longer vouched for.
            (Err(Unconfirmed::Silent { .. }), _) if !disrupted => UtcLine { rounds, ..self.line },
            (Ok(confirmed), Some((slower, faster))) if !disrupted => UtcLine {
                begun: round.begun,
                at: round.ended.at,
                earliest: confirmed.earliest,
                latest: confirmed.latest,
                slower: (slower * FRACTION).ceil() as u64,
                faster: (faster * FRACTION).ceil() as u64,
                until: round.begun + self.heartbeat * HOLDS_HEARTBEATS,
                status: UtcStatus::Synchronized,
                rounds,
                hosts: u32::try_from(confirmed.hosts).unwrap_or(u32::MAX),
                liars: u32::try_from(confirmed.liars).unwrap_or(u32::MAX),
                ..self.line
            },
            _ => {
                let was = self.line.status;
                let status =
                    if disrupted || was == UtcStatus::Disrupted { UtcStatus::Disrupted } else { UtcStatus::Unknown };
                UtcLine { status, rounds, generation: self.line.generation + u64::from(disrupted), ..self.line }
            }
        };
        self.last = Some(round);
        (self.line, found)
    }

    /// Whether time was disrupted between the last round and this one, or in it.
    fn is_disrupted(&self, round: &Round, rate: Option<Rate>, found: &Result<Confirmed, Unconfirmed>) -> bool {
        let Some(last) = &self.last else { return false };
        let stepped = last.ended.generation != round.ended.generation
            || round.begun < last.ended.at
            || round.ended.at < round.begun;
        let wrong_rate = rate.is_some_and(|rate| rate.is_wrong());
        let contradicted = match found {
            Err(Unconfirmed::Contradiction { .. }) => true,
            Ok(confirmed) if self.line.status == UtcStatus::Synchronized => {
                let (earliest, latest) = self.line.bounds(round.ended.at);
                confirmed.earliest > latest || confirmed.latest < earliest
            }
            _ => false,
        };
        stepped || wrong_rate || contradicted
    }

    /// How fast true time passed against this machine's clock between two rounds, at least and at most, as the
    /// witnesses' monotonic clocks show it; `None` where too few answered both.
    fn rate(&self, last: &Round, round: &Round, votes: &Votes<'_>) -> Option<Rate> {
        let base = (round.begun - last.begun).as_nanos() as f64 / self.heartbeat.as_nanos() as f64;
        if !(0.0..=MOST_BASE).contains(&base) {
            return None;
        }
        let before = |answer: &WitnessAnswer| {
            let place =
                round.answers.iter().position(|one| one.as_ref().is_some_and(|one| std::ptr::eq(one, answer)))?;
            let before = last.answers.get(place)?.as_ref()?;
            (before.host == answer.host && before.generation == answer.generation).then_some(before)
        };
        let rates = votes.intervals(|answer| {
            let before = before(answer)?;
            let passed_ns = (answer.stamp - before.stamp).as_nanos() as f64;
            let (outer, inner) = (answer.received - before.sent, answer.sent - before.received);
            let change_ns = (before.received - before.sent).as_nanos() as f64 * CHANGE_IN_ROUND;
            let (outer_ns, inner_ns) = (outer.as_nanos() as f64, inner.as_nanos() as f64);
            let step_ns = STEP_NS as f64;
            let slowest = if outer_ns > 0.0 { (passed_ns - change_ns - step_ns) / (outer_ns + step_ns) } else { 0.0 };
            let fastest = if inner_ns > step_ns { (passed_ns + step_ns) / (inner_ns - step_ns) } else { f64::INFINITY };
            Some((slowest - DRIFT, fastest + DRIFT))
        });
        let (slowest, fastest) = tolerant(&rates, votes.liars)?;
        fastest.is_finite().then_some(Rate { slowest, fastest, base: base.max(1.0) })
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
