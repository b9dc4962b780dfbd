//! abacus: available bandwidth by the account of a queue that is kept busy.
//!
//! **Idea.** As long as the queue of the tight link does not run empty, what it holds is known: the queueing delay `D`
//! of a packet, times the link's capacity `C`. So between two probes `T` apart, whatever the cross traffic does,
//!
//! ```text
//! cross bits = C T + C (D2 - D1) - probe bits
//! A = C - cross bits/T = R - C s        R = probe bits/T, s = (D2 - D1)/T                        (1)  account.rs
//! ```
//!
//! is the mean available bandwidth of exactly that time. Where the queue may have been empty for a time `E`, `A` lies
//! between (1) and (1) + `C E/T`.
//!
//! **Which C.** Gaps between packets sent back to back show the capacity of the *narrow* link (`capacity.rs`). The
//! tight link, the one with the least `A`, may be another. All trains `i` of a measurement, at different rates, show
//! it:
//!
//! ```text
//! s_i = R_i/C - A/C + noise_i,   0 <= A <= C                                                     (2)  tight.rs
//! ```
//!
//! is a straight line of the slopes over the rates, of slope `1/C`. It gives each ratio of `C` to the narrow link's
//! capacity a probability. The interval of (1) is the mixture over all those ratios: where `s` is next to 0, `C` does
//! not matter, and the interval is narrow. The same where `A` is just the narrow link's capacity: that link is idle,
//! and another one's `A` would lie there by chance alone.
//!
//! **One train** (`plan.rs`): its *head*, back to back, fills the queue; its *stream* holds it filled, 2 % above the
//! value expected. The head lasts for what the cross traffic may drain in the train's time, `PRIME` standard deviations
//! of it. The account begins when links before the tight one have sent on what they held of the head.
//!
//! **The measurement**
//!
//! ```text
//! Burst:    24 packets back to back; four times as many as long as no queue builds up          -> C, first guess of A
//! Police:   only where packets are dropped and none is delayed: trains at three rates         -> policed (policer.rs)
//! Primed:   short trains, until one does not empty the queue; then long ones
//!   after each train:  evidence = history of all trains                                         (evidence.rs)
//!     next rate:   the value of the last train; higher where the queue ran empty
//!     next length: as long as bursts ask for, and as would make the interval 5 % wide
//!     end:         interval 5 % wide and a train of 30 ms or 1 MB; or bytes or time spent        -> narrowest account
//! ```
//!
//! **State.** A [`History`](evidence::History) of what was observed. [`account`](account::account), the
//! [`capacity`](capacity::Capacity), the [ratio](tight::ratio), [anomalies] and the [evidence](evidence::Evidence) are
//! pure functions of it, the next train is a pure function of the evidence and of what may be spent (`plan.rs`). Every
//! number that was tuned stands in `tuning.rs`, and what a user may set in `settings.rs`.
//!
//! **Sources.** Melander, Bjorkman, Gunningberg 2000 (TOPP: rates and slopes); Jain, Dovrolis 2002 (SLoPS: trends of
//! delay); Ekelin et al. 2006 (BART: a filter over the same line); Dovrolis, Ramanathan, Moore 2004 (capacity from
//! dispersion). That the account is exact between any two probes, and the mixture over the tight link's capacity, are
//! this method's own.

mod account;
mod anomalies;
mod answer;
mod burst;
mod capacity;
mod cases;
mod evidence;
mod observe;
mod plan;
mod points;
mod police;
mod policer;
mod primed;
mod settings;
mod stage;
mod tight;
mod tuning;

use vtare_units::{Monotonic, Timestamp};

use super::classic::sound;
use super::{Budget, Estimate, Method, Observation, Setup, Spent, Step, Stopped, Train};
use evidence::{Evidence, History};
use points::Epoch;
use policer::Policed;
use stage::{Burst, Stage};
use tuning as t;

pub use cases::Case;
pub(crate) use plan::group;
pub use settings::AbacusSettings;

/// Trains that showed nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// One after another, for any reason.
    spoiled: u32,
    /// One after another, of which nothing arrived.
    silent: u32,
    reordered: u32,
    /// Delayed as a whole.
    held_whole: u32,
    /// The longest wait behind the tight link, ns.
    held_ns: f64,
}

/// One value of a run that follows.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Bytes and time, s, that had been spent when it began.
    spent: (u64, f64),
    /// When it was due.
    due: Option<Timestamp<Monotonic>>,
    /// Nothing is sent before this.
    rest: Option<Timestamp<Monotonic>>,
    /// The next value is due.
    next: Option<Timestamp<Monotonic>>,
}

/// The method.
#[derive(Clone, Debug)]
pub struct Abacus {
    settings: AbacusSettings,
    setup: Setup,
    spent: Spent,
    stage: Stage,
    history: History,
    /// The zero of both clocks, and when it was, s since the first step.
    epoch: Option<(Epoch, f64)>,
    /// Size of all packets: one size, since the least delay of a path depends on it.
    packet_byte: u32,
    /// Packets at the head of the train under way.
    head: u32,
    /// Queue that the last train left: when, ns since the epoch, and how much, ns; below 0: what a token bucket may
    /// have got meanwhile.
    left: (f64, f64),
    /// The tight link may be another than the narrow one.
    may_be_another: bool,
    queued_ns: f64,
    /// Trains that a policer cut.
    policed: Vec<Policed>,
    faults: Faults,
    round: Round,
    notes: Vec<String>,
    answer: Option<Estimate>,
    /// The last value of a run that follows, bit/s.
    settled: Option<f64>,
    done: Option<Box<Estimate>>,
}

fn fresh(without: Option<Case>) -> History {
    History { line: f64::INFINITY, base_ns: f64::INFINITY, without, ..History::default() }
}

impl Abacus {
    /// A measurement that has not begun.
    #[must_use]
    pub fn new(settings: AbacusSettings, setup: Setup) -> Self {
        Self {
            settings,
            setup,
            spent: Spent::default(),
            stage: Burst::first(settings.first_packets),
            history: fresh(settings.without),
            epoch: None,
            packet_byte: setup.ability.most_packet_byte,
            head: 0,
            left: (0.0, 0.0),
            may_be_another: false,
            queued_ns: 0.0,
            policed: Vec::new(),
            faults: Faults::default(),
            round: Round::default(),
            notes: Vec::new(),
            answer: None,
            settled: None,
            done: None,
        }
    }

    fn packet_bit(&self) -> f64 {
        f64::from(self.packet_byte) * 8.0
    }

    fn bucket_packets(&self) -> f64 {
        self.history.bucket_byte.unwrap_or(0.0) / f64::from(self.packet_byte)
    }

    fn evidence(&self) -> Option<Evidence> {
        self.history.evidence(&self.setup.ability, self.packet_byte, self.settings.follow_ns.is_some())
    }

    /// All that was learnt is forgotten: the path is another one, or what showed it was delayed.
    fn begin_anew(&mut self) {
        let (line, base_ns) = (self.history.line, self.history.base_ns);
        self.history = History { line, base_ns, ..fresh(self.settings.without) };
        self.stage = Burst::first(self.settings.first_packets);
        self.settled = None;
        self.policed.clear();
    }

    fn begin_round(&mut self) {
        self.round.spent = (self.spent.probe_byte, self.spent.elapsed_s());
    }

    // ---- what may be spent

    fn bytes_left(&self) -> u64 {
        let decent = self.decent_byte();
        let of_round = decent.saturating_sub(self.spent.probe_byte - self.round.spent.0);
        let sure_byte = if matches!(self.stage, Stage::Burst(_)) { self.sure_byte() } else { 0 };
        let of_round = of_round.max(sure_byte.saturating_sub(self.spent.probe_byte - self.round.spent.0));
        let Budget { most_byte, carried_ns, carried_byte, .. } = self.setup.budget;
        let budget = most_byte.map(|most| {
            let carried = self.carried_byte(carried_ns as f64).min(carried_byte.unwrap_or(u64::MAX)).max(sure_byte);
            // What empties a bucket counts only where the limit is a strict one.
            let again = (t::MORE as f64 * self.history.bucket_byte.unwrap_or(0.0)) as u64;
            let uncounted = if carried_ns > 0 { self.round.spent.0 + again } else { 0 };
            (most.max(carried) + uncounted).saturating_sub(self.spent.probe_byte)
        });
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    /// Bytes of bursts that never queue until they are sure: what fewer show may be what a token bucket passes. 0 where
    /// the bytes have a strict limit.
    fn sure_byte(&self) -> u64 {
        let Budget { most_byte, carried_ns, carried_byte, .. } = self.setup.budget;
        let strict = most_byte.is_some() && carried_ns == 0;
        // All bursts up to the one that is sure: those before are each at most `1 / MORE` of the next.
        let bursts = 1.0 + t::MORE as f64 / (t::MORE - 1) as f64;
        let sure = self.carried_byte(bursts * self.settings.sure_burst_ns as f64);
        if strict { 0 } else { sure.min(carried_byte.unwrap_or(u64::MAX)) }
    }

    /// Bytes that are decent on such a link.
    fn decent_byte(&self) -> u64 {
        let settings = &self.settings;
        let carried = |ns: u64| self.carried_byte(ns as f64);
        let several = if self.may_be_another { settings.several_byte } else { 0 };
        let least = settings.most_byte.max(several);
        // On a link twice as fast a train of as many bytes is half as long, and hosts stall for as long as before.
        let share = carried(settings.most_byte_ns) as f64 / settings.most_byte as f64;
        ((settings.most_byte as f64 * share.powi(2)) as u64)
            .clamp(least, least.max(t::MORE * settings.most_byte))
            .max(carried(settings.fast_byte_ns))
    }

    /// Bytes that the path carries in this time, ns: before the link is known, the sender or its card.
    fn carried_byte(&self, ns: f64) -> u64 {
        let unknown = self.setup.ability.most_bit_per_s(self.packet_byte);
        let rate = self.history.narrow().map_or(self.history.line.min(unknown), |(capacity, _)| capacity);
        (rate * ns / 8e9) as u64
    }

    fn seconds_left(&self) -> f64 {
        let elapsed_s = self.spent.elapsed_s();
        let of_round = self.settings.most_ns as f64 / 1e9 - (elapsed_s - self.round.spent.1);
        let budget = self.setup.budget.most_ns.map(|most| most as f64 / 1e9 - elapsed_s);
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    // ---- the next train

    fn plan(&mut self, now: Timestamp<Monotonic>) -> Train {
        match self.stage {
            Stage::Burst(stage) => self.plan_burst(stage),
            Stage::Police(stage) => self.plan_police(stage, now),
            Stage::Primed(stage) => self.plan_primed(stage, now),
        }
    }

    /// Why `train` may not be sent, where it may not.
    fn over(&self, train: &Train) -> Option<Stopped> {
        let seconds = (train.idle_before_ns as f64 + train.duration_ns()) / 1e9;
        let last_s = self.history.trains.last().and_then(|last| {
            let (first, last) = (last.points.first()?, last.points.last()?);
            Some((last.at_ns - first.at_ns) / 1e9)
        });
        // It was planned within what is left, which may be too little to be of use.
        let little = self.answer.is_some() && last_s.is_some_and(|last_s| seconds < (1.0 - t::LAST_SHARE) * last_s);
        if seconds > self.seconds_left() || (little && self.seconds_left() < 2.0 * last_s.unwrap_or(0.0)) {
            return Some(Stopped::TimeBudget);
        }
        (train.bytes() > self.bytes_left() || little).then_some(Stopped::ByteBudget)
    }
}

impl Method for Abacus {
    fn name(&self) -> &'static str {
        "abacus"
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.spent.at(now);
        if let Some(done) = &self.done {
            return Step::Done(done.clone());
        }
        if let Some(stopped) = self.gives_up().and_then(|stopped| self.stops(stopped)) {
            return self.finish(stopped);
        }
        if let Some(until) = [self.round.next, self.round.rest].into_iter().flatten().find(|&until| until > now) {
            return Step::Wait((until - now).as_nanos_unsigned());
        }
        if self.round.next.take().is_some() {
            self.begin_round();
        }
        self.round.due = self.round.due.or(Some(now));
        let train = self.plan(now);
        // Silence may take more time than there is.
        let silent = self.faults.silent > 0 && self.epoch.is_none();
        match self.over(&train).map(|over| if silent { Stopped::NoAnswer } else { over }) {
            None => Step::Send(train),
            Some(stopped) => match self.stops(stopped) {
                Some(stopped) => self.finish(stopped),
                None => Step::Wait(self.settings.retry_ns),
            },
        }
    }

    fn observe(&mut self, observation: &Observation) {
        self.spent.sent(observation);
        self.record(observation);
    }

    fn interim(&self) -> Option<Estimate> {
        self.done.as_deref().or(self.answer.as_ref()).cloned().map(sound)
    }
}
