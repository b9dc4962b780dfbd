//! vtare's own method: a queue that is kept busy, and its account.
//!
//! See `docs/avb.md`. In short: a back-to-back train finds the link's capacity and what a train may be at most; then
//! trains that first fill the queue and then hold it filled give the mean available bandwidth of exactly their own
//! time.

mod account;
mod anomalies;
mod belief;
mod bound;
mod capacity;
mod cases;
mod continuous;
mod idle;
mod links;
mod observe;
mod path_state;
mod plan;
mod plan_train;
mod points;
mod settings;
mod shared_cpu;
mod stopping_rule;
mod tight;
mod train_estimate;

use vtare_units::{Monotonic, Span, Timestamp};

use super::classic::sound;
use super::{Estimate, Method, Observation, Setup, Spent, Step, Stopped};
use belief::Belief;
use bound::Bounds;
use capacity::Capacity;
use points::{Epoch, Point};
use shared_cpu::Overload;
use tight::Response;
use train_estimate::Score;

pub use cases::Case;
pub use settings::VtareSettings;

/// The links before the tight one carry cross traffic of their own, which piles up while the head of a train passes.
/// They have settled so many times what the tight link takes to send the head after it has passed (at half load).
const SETTLE: f64 = 1.2;

/// What the train under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Back to back, to find the capacity.
    First,
    /// As fast as the sender can, for longer: the first one met no queue.
    Flood,
    /// Evenly at a rate that a policer seems to cut, to find what it lets through.
    Police,
    /// Short, to find roughly where the value is.
    Search,
    /// Small packets far apart, and large ones, to find whether there are several links.
    Links,
    /// Counts for the result.
    Measure,
}

/// The method.
#[derive(Clone, Debug)]
pub struct Vtare {
    settings: VtareSettings,
    setup: Setup,
    spent: Spent,
    stage: Stage,
    /// Length of train that would make the interval narrow enough, s; 0: not known yet.
    wanted_seconds: f64,
    /// Packets at the head of the train under way.
    head: u32,
    /// Size of all packets: one size, since the least delay of a path depends on it.
    packet_byte: u32,
    /// Nothing crosses the path, as far as was seen: a stream just above the capacity makes a queue by itself, and
    /// bursts ask for no length.
    calm: bool,
    /// Time that the train under way shall take behind its head, s.
    seconds: f64,
    epoch: Option<Epoch>,
    /// From the first step to the epoch, s.
    epoch_s: f64,
    capacity: Capacity,
    /// What overloads say of it.
    bounds: Bounds,
    /// The highest rate at which a train's probes left the link, where that was more than the link was held to carry,
    /// bit/s.
    outgrown: f64,
    /// The longest time, ns, for which packets were seen to wait behind the tight link, for a program or a machine
    /// that stalled.
    held_ns: f64,
    /// The same in the last train.
    held_now_ns: f64,
    /// Rate at which the sender's card lets packets go, bit/s.
    line: f64,
    /// Capacity that all is reckoned with, bit/s, and its relative error.
    link: Option<(f64, f64)>,
    /// What trains report of the tight link.
    responses: Vec<Response>,
    base_ns: f64,
    belief: Option<Belief>,
    /// The last estimate of the value, bit/s.
    near: f64,
    /// Variance of the cross traffic per time, bit^2/s.
    burst: f64,
    /// Bits of packets that were sent back to back, and the time in which they arrived, s.
    heads: (f64, f64),
    /// Rate at which the head of the last train left whose packets left many in a call, bit/s; 0: none did.
    departs: f64,
    /// For how long the sender stalled at most in a train's stream, s; older trains count for less.
    still_s: f64,
    /// What heads that overloaded the link say of its capacity.
    overloads: Vec<Overload>,
    /// Points of a flood that overloaded the link, as long as it is not known whether there are several links.
    flood: Vec<Point>,
    /// Small packets told several links, and the traffic was even.
    many_links: bool,
    /// Small packets told one link, and most of them met no queue.
    one_link: bool,
    /// The stage that small packets were sent in.
    asked_in: Stage,
    /// What other queues may add to a delay, ns.
    jitter_ns: f64,
    /// Time between points where arrivals are stamped in groups, s; 0 where each has a stamp of its own.
    grain_s: f64,
    /// Standard deviations of the cross traffic for which the queue is filled.
    prime: f64,
    /// Queue that the last train left: when, ns since the epoch, and how much, ns.
    left: (f64, f64),
    /// Most that a queue may be made to hold, bits: less once it overflowed.
    room_bit: f64,
    /// Points of the trains between which the queue never ran empty: one account.
    account: Vec<Point>,
    /// Where the trains of the account begin in it.
    begins: Vec<usize>,
    /// Time from the arrival of a train's last packet, were there no queue, to the begin of the next train, s.
    turn_s: f64,
    /// The last train went on where the one before ended.
    goes_on: bool,
    /// Each train shall: `continuous.rs`.
    steers: bool,
    /// The time is enough for so few packets only that this has been so from the first train on.
    slow: bool,
    /// How far the value may be from where the last train says, as a share (one standard deviation).
    near_error: f64,
    /// The last train of an account was sent, and why it is the last.
    closed: Option<Stopped>,
    /// Silence since the last train, s.
    rested_s: f64,
    /// What the value was assumed to be before this account, bit/s, and its standard error.
    prior: (f64, f64),
    /// Links as slow as the tight one that store and forward, as far as was seen.
    links: Option<f64>,
    /// The least delay of small packets, on the scale of the points, ns.
    small_ns: Option<f64>,
    /// Trains of small packets so far.
    tries: u32,
    /// Variance of the cross traffic against that of Poisson's, the most that a train told.
    dispersion: f64,
    scores: Vec<Score>,
    /// Value, variance and length of the train before.
    told: Option<(f64, f64, f64)>,
    /// Bits of trains that met no queue, before there was one.
    sent_before_bit: f64,
    /// Trains in a row that emptied the queue.
    drained: u32,
    /// The last train's rate was far from the value.
    astray: bool,
    /// Trains of which nothing could be told, one after another.
    spoiled: u32,
    reordered: u32,
    silent: u32,
    /// Trains that were delayed as a whole.
    held_whole: u32,
    /// How often all was begun anew since the trains before had been held up.
    restarts: u32,
    queued_ns: f64,
    bucket_byte: Option<f64>,
    policed: Option<f64>,
    notes: Vec<String>,
    answer: Option<Estimate>,
    /// The value of the round under way.
    fresh: Option<Estimate>,
    /// The last value of a run that follows, bit/s; `None` after a change.
    settled: Option<f64>,
    done: Option<Box<Estimate>>,
    /// When the next look is due, for runs that follow.
    next: Option<Timestamp<Monotonic>>,
    /// When the round under way was due, for runs that follow: the next is due so much later, however long this one
    /// takes.
    due: Option<Timestamp<Monotonic>>,
    /// Nothing is sent before this.
    rest: Option<Timestamp<Monotonic>>,
    /// Bytes and time, s, that had been spent when the last value was concluded.
    round: (u64, f64),
}

impl Vtare {
    /// A measurement that has not begun.
    #[must_use]
    pub fn new(settings: VtareSettings, setup: Setup) -> Self {
        Self {
            settings,
            setup,
            spent: Spent::default(),
            stage: Stage::First,
            wanted_seconds: 0.0,
            head: 0,
            packet_byte: setup.ability.most_packet_byte,
            calm: false,
            seconds: 0.0,
            epoch: None,
            epoch_s: 0.0,
            capacity: Capacity::default(),
            bounds: Bounds::default(),
            outgrown: 0.0,
            held_ns: 0.0,
            held_now_ns: 0.0,
            line: f64::INFINITY,
            link: None,
            responses: Vec::new(),
            base_ns: f64::INFINITY,
            belief: None,
            near: 0.0,
            burst: 0.0,
            heads: (0.0, 0.0),
            departs: 0.0,
            still_s: 0.0,
            overloads: Vec::new(),
            flood: Vec::new(),
            many_links: false,
            one_link: false,
            asked_in: Stage::Measure,
            jitter_ns: 0.0,
            grain_s: 0.0,
            prime: settings.prime_deviations,
            left: (0.0, 0.0),
            room_bit: f64::INFINITY,
            account: Vec::new(),
            begins: Vec::new(),
            turn_s: f64::INFINITY,
            goes_on: false,
            steers: false,
            slow: false,
            near_error: 0.0,
            closed: None,
            rested_s: 0.0,
            prior: (0.0, 0.0),
            links: None,
            small_ns: None,
            tries: 0,
            dispersion: 0.0,
            scores: Vec::new(),
            told: None,
            sent_before_bit: 0.0,
            drained: 0,
            astray: false,
            spoiled: 0,
            reordered: 0,
            silent: 0,
            held_whole: 0,
            restarts: 0,
            queued_ns: 0.0,
            bucket_byte: None,
            policed: None,
            notes: Vec::new(),
            answer: None,
            fresh: None,
            settled: None,
            done: None,
            next: None,
            due: None,
            rest: None,
            round: (0, 0.0),
        }
    }
}

impl Vtare {
    /// From now on bytes and time are those of another value.
    fn begin_round(&mut self) {
        self.round = (self.spent.probe_byte, self.spent.elapsed_s());
    }
}

fn span(ns: u64) -> Span {
    Span::from_nanos(ns.min(i64::MAX as u64).cast_signed())
}

impl Method for Vtare {
    fn name(&self) -> &'static str {
        "vtare"
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.spent.at(now);
        if let Some(done) = &self.done {
            return Step::Done(done.clone());
        }
        if let Some(stopped) = self.gives_up().and_then(|stopped| self.stops(stopped)) {
            return self.finish(stopped);
        }
        if let Some(next) = self.next.filter(|&next| next > now) {
            return Step::Wait((next - now).as_nanos_unsigned());
        }
        if let Some(rest) = self.rest.filter(|&rest| rest > now) {
            return Step::Wait((rest - now).as_nanos_unsigned());
        }
        if self.next.take().is_some() {
            self.begin_round();
        }
        if let Some(closed) = self.closed.take() {
            return match self.stops(closed) {
                Some(stopped) => self.finish(stopped),
                None => Step::Wait(self.settings.retry_ns),
            };
        }
        self.due = self.due.or(Some(now));
        let train = self.plan(now);
        match self.over(&train) {
            None => Step::Send(train),
            Some(stopped) => match self.stops(stopped) {
                Some(stopped) => self.finish(stopped),
                None => Step::Wait(self.settings.retry_ns),
            },
        }
    }

    fn observe(&mut self, observation: &Observation) {
        self.spent.sent(observation);
        self.hear(observation);
    }

    fn interim(&self) -> Option<Estimate> {
        self.done.as_deref().or(self.answer.as_ref()).cloned().map(sound)
    }
}
