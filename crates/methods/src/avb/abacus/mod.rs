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
//! not matter, and the interval is narrow.
//!
//! **One train** (`plan.rs`): its *head*, back to back, fills the queue; its *stream* holds it filled, 2 % above the
//! value expected. The head lasts for what the cross traffic may drain in the train's time, `PRIME` standard deviations
//! of it. The account begins when links before the tight one have sent on what they held of the head.
//!
//! **The measurement**
//!
//! ```text
//! Burst:    24 packets back to back; four times as many as long as no queue builds up          -> C, first guess of A
//! Police:   only where packets are dropped and none is delayed                                  -> policed
//! Primed:   short trains, until one does not empty the queue; then long ones
//!   after each train:  evidence = history of all trains                                         (evidence.rs)
//!     next rate:   the value of the last train; higher where the queue ran empty
//!     next length: as long as bursts ask for, and as would make the interval 5 % wide
//!     end:         interval 5 % wide, or bytes or time spent                                     -> narrowest account
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
mod capacity;
mod cases;
mod evidence;
mod plan;
mod points;
mod settings;
mod tight;
mod tuning;

use vtare_units::{Monotonic, Span, Timestamp};

use super::classic::sound;
use super::{Estimate, Method, Observation, Packet, Setup, Spacing, Spent, Step, Stopped, Train};
use account::Bounds;
use evidence::{Evidence, History, Record};
use plan::Left;
use points::{Epoch, Point, points};
use tuning as t;

pub use cases::Case;
pub use settings::AbacusSettings;

/// What the train under way is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Back to back, to find the capacity; four times as many as before where there was no queue.
    Burst { packets: u32, sent_before_bit: f64, came: f64 },
    /// Evenly at a rate that a policer seems to cut, bit/s, to find what it lets through.
    Police { rate: f64 },
    /// Primed: short until one does not empty the queue, then long.
    Primed { measures: bool },
}

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
    /// All was begun anew, since the trains before had been delayed.
    restarts: u32,
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
    /// Queue that the last train left: when, ns since the epoch, and how much, ns.
    left: (f64, f64),
    /// The tight link may be another than the narrow one.
    may_be_another: bool,
    queued_ns: f64,
    policed: Option<f64>,
    faults: Faults,
    round: Round,
    notes: Vec<String>,
    answer: Option<Estimate>,
    /// The last value of a run that follows, bit/s.
    settled: Option<f64>,
    done: Option<Box<Estimate>>,
}

fn span(ns: u64) -> Span {
    Span::from_nanos(ns.min(i64::MAX as u64).cast_signed())
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
            stage: Stage::Burst { packets: settings.first_packets, sent_before_bit: 0.0, came: 0.0 },
            history: fresh(settings.without),
            epoch: None,
            packet_byte: setup.ability.most_packet_byte,
            head: 0,
            left: (0.0, 0.0),
            may_be_another: false,
            queued_ns: 0.0,
            policed: None,
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

    fn evidence(&self) -> Option<Evidence> {
        self.history.evidence(&self.setup.ability, self.packet_byte, self.settings.follow_ns.is_some())
    }

    /// All that was learnt is forgotten: the path is another one, or what showed it was delayed.
    fn begin_anew(&mut self) {
        let (line, base_ns) = (self.history.line, self.history.base_ns);
        self.history = History { line, base_ns, ..fresh(self.settings.without) };
        self.stage = Stage::Burst { packets: self.settings.first_packets, sent_before_bit: 0.0, came: 0.0 };
        self.settled = None;
    }

    fn begin_round(&mut self) {
        self.round.spent = (self.spent.probe_byte, self.spent.elapsed_s());
    }

    // ---- what may be spent

    fn bytes_left(&self) -> u64 {
        let decent = self.decent_byte();
        let of_round = decent.saturating_sub(self.spent.probe_byte - self.round.spent.0);
        let budget = self.setup.budget.most_byte.map(|most| most.saturating_sub(self.spent.probe_byte));
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    /// Bytes that are decent on such a link.
    fn decent_byte(&self) -> u64 {
        let settings = &self.settings;
        // Before the link is known, the sender's own card is.
        let rate = self.history.narrow().map_or(self.history.line.min(t::UNKNOWN), |(capacity, _)| capacity);
        let carried = |ns: u64| (rate * ns as f64 / 8e9) as u64;
        let several = if self.may_be_another { settings.several_byte } else { 0 };
        let least = settings.most_byte.max(several);
        // On a link twice as fast a train of as many bytes is half as long, and hosts stall for as long as before.
        let share = carried(settings.most_byte_ns) as f64 / settings.most_byte as f64;
        ((settings.most_byte as f64 * share.powi(2)) as u64)
            .clamp(least, least.max(t::MORE * settings.most_byte))
            .max(carried(settings.fast_byte_ns))
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
        let ability = self.setup.ability;
        let size_byte = self.packet_byte;
        match self.stage {
            Stage::Burst { packets, .. } => {
                // More, if the ones before came too close together for their stamps.
                self.head = (packets << self.faults.spoiled.min(10)).min(ability.most_packets);
                if self.faults.spoiled > 0 && ability.most_group > 1 {
                    // Packets of one call have one stamp: more calls with less in each.
                    let packets = (t::FIRST_CALL_BYTE / size_byte).clamp(1, ability.most_group);
                    self.head = self.head.max(t::FIRST_CALLS * packets).min(ability.most_packets);
                    // A gap that no sender keeps: as close together as calls can be.
                    let spacing = Spacing::Groups { packets, gap_ns: 1.0 };
                    return Train { packets: self.head, size_byte, spacing, idle_before_ns: 0 };
                }
                Train::back_to_back(self.head, size_byte)
            }
            Stage::Police { rate } => {
                let packets = (rate * t::POLICE_S / self.packet_bit()) as u32;
                self.head = packets.clamp(t::POLICE_LEAST, t::POLICE_MOST).min(ability.most_packets);
                Train::constant(self.head, size_byte, rate)
            }
            Stage::Primed { measures } => {
                let Some(evidence) = self.evidence() else { return Train::back_to_back(self.head.max(1), size_byte) };
                let since_s = self.epoch.map_or(0.0, |(epoch, _)| (epoch.since_ns(now) - self.left.0) / 1e9);
                let queued = evidence.path.capacity * self.left.1 / 1e9 - evidence.near * since_s.max(0.0);
                let left = Left { bytes: self.bytes_left(), seconds: self.seconds_left(), queued_bit: queued.max(0.0) };
                let seconds = plan::seconds(&evidence, &self.history, &self.settings, &ability, measures, &left);
                let (train, head) = plan::primed(&evidence, &self.history, &ability, seconds, measures, &left);
                self.head = head;
                train
            }
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
        let little = self.answer.is_some() && last_s.is_some_and(|last_s| seconds < 0.2 * last_s);
        if seconds > self.seconds_left() || (little && self.seconds_left() < 2.0 * last_s.unwrap_or(0.0)) {
            return Some(Stopped::TimeBudget);
        }
        (train.bytes() > self.bytes_left() || little).then_some(Stopped::ByteBudget)
    }

    // ---- what a train showed

    fn record(&mut self, observation: &Observation) {
        // Arrivals of what was never sent are no answer.
        if !observation.packets.iter().any(|packet| packet.left().is_some() && packet.received.is_some()) {
            self.faults.silent += 1;
            self.round.rest = observation.finished.checked_add(span(self.settings.retry_ns));
            return;
        }
        self.faults.silent = 0;
        let Some((epoch, _)) = self.epoch.or_else(|| {
            let epoch = Epoch::of(observation)?;
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            Some((epoch, -began / 1e9))
        }) else {
            // What arrived was never sent.
            self.faults.spoiled += 1;
            return;
        };
        if self.epoch.is_none() {
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            self.epoch = Some((epoch, -began / 1e9));
        }
        if observation.reordered() * 4 > observation.received() {
            self.faults.reordered += 1;
        }
        let service_ns_per_bit = self.history.narrow().map_or(0.0, |(capacity, _)| 1e9 / capacity);
        let service_ns_per_bit = if matches!(self.stage, Stage::Burst { .. }) { 0.0 } else { service_ns_per_bit };
        let (points, held_ns) = points(observation, epoch, service_ns_per_bit);
        if matches!(self.stage, Stage::Primed { .. }) && self.was_held(observation, &points) {
            return;
        }
        self.faults.held_ns = self.faults.held_ns.max(held_ns);
        self.history.base_ns = points.iter().map(|point| point.delay_ns).fold(self.history.base_ns, f64::min);
        let base_ns = self.history.base_ns;
        let policed = anomalies::policed(observation, &points, base_ns, self.packet_bit());
        match (self.stage, policed) {
            (Stage::Police { rate }, Some(found)) if found.rate > 0.27 * rate => self.conclude_policed(found),
            (_, Some(found)) => self.stage = Stage::Police { rate: 1.5 * found.rate },
            (Stage::Police { rate }, None) => {
                self.stage = Stage::Police { rate: 2.0 * rate };
                self.faults.spoiled += 1;
            }
            (Stage::Burst { .. }, None) => self.observe_burst(observation, &points),
            (Stage::Primed { measures }, None) => self.observe_primed(observation, &points, epoch, held_ns, measures),
        }
        if let Some(last) = points.last() {
            self.left = (last.at_ns, (last.delay_ns - self.history.base_ns).max(0.0));
        }
    }

    fn conclude_policed(&mut self, found: anomalies::Policed) {
        self.history.bucket_byte = Some(found.bucket_byte);
        self.policed = Some(found.rate);
        let rate = found.rate / 1e9;
        self.notes.push(format!("packets above {rate:.4} Gbit/s are dropped and not delayed: a policer"));
    }

    /// Whether something that stalled delayed this train, or those before.
    fn was_held(&mut self, observation: &Observation, points: &[Point]) -> bool {
        let Some((capacity, _)) = self.history.narrow() else { return false };
        let base_ns = self.history.base_ns;
        let stream = &points[points.partition_point(|point| point.index < self.head)..];
        let near = self.history.first_guess;
        let drained_ns =
            stream.first().map_or(0.0, |first| self.left.1 - (first.at_ns - self.left.0) * near / capacity);
        if self.history.has(Case::DelayedWhole) && anomalies::held_whole(stream, base_ns, capacity, drained_ns) {
            self.faults.held_whole += 1;
            self.faults.spoiled += 1;
            self.round.rest = observation.finished.checked_add(span(self.settings.rest_ns));
            return true;
        }
        // The least delay fell: the trains before were delayed as a whole, and what they showed is what let them go.
        let least = points.iter().map(|point| point.delay_ns).fold(f64::INFINITY, f64::min);
        let fell_ns = t::FELL_NS.max(t::FELL_SERVICES * self.packet_bit() * 1e9 / capacity);
        if self.history.has(Case::LeastDelayFell)
            && self.faults.restarts < t::MOST_RESTARTS
            && least < base_ns - fell_ns
        {
            self.faults.restarts += 1;
            self.history.base_ns = least;
            self.begin_anew();
            return true;
        }
        false
    }

    /// What a back-to-back train shows.
    fn observe_burst(&mut self, observation: &Observation, points: &[Point]) {
        let Stage::Burst { sent_before_bit, .. } = self.stage else { return };
        self.history.capacity.add(observation, self.head as usize);
        let Some(received) = capacity::arrival_rate(observation, self.head as usize, t::BURST_STAMPS) else {
            self.faults.spoiled += 1;
            return;
        };
        let tail = capacity::tail(observation, self.head as usize).filter(|tail| tail.credit > 0);
        let received = tail.map_or(received, |tail| tail.rate());
        let sent = observation.sent_bit_per_s().unwrap_or(f64::INFINITY);
        self.history.line = if sent.is_finite() { sent } else { self.history.line };
        if received > 0.9 * sent {
            if anomalies::stalled(observation) {
                // It was not the sender's rate that the path took.
                self.faults.spoiled += 1;
                return;
            }
            let packet_bit = self.packet_bit();
            let long = f64::from(self.head) * packet_bit / sent >= self.settings.least_train_ns as f64 / 1e9;
            if long || self.head >= self.setup.ability.most_packets {
                let best = capacity::fastest(observation, self.settings.least_train_ns).unwrap_or(0.0);
                self.stop_sender_limited(best.max(received.min(sent)));
            }
            // Four times as many: what passes at once may be a token bucket, and behind it a slow link.
            let most = self.setup.ability.most_packets.min((self.bytes_left() / u64::from(self.packet_byte)) as u32);
            let sent_before_bit = sent_before_bit + observation.sent() as f64 * packet_bit;
            self.stage =
                Stage::Burst { packets: (4 * self.head).min(most.max(self.head)), sent_before_bit, came: received };
            return;
        }
        // What came before it came out of the same bucket.
        let credit_byte = |tail: capacity::Tail| (sent_before_bit + tail.credit as f64 * self.packet_bit()) / 8.0;
        let credit_byte = tail.filter(|tail| tail.credit >= 6).map(credit_byte);
        let short = |tail: capacity::Tail| tail.bits < t::TAIL_PACKETS * self.packet_bit();
        let packets = (4 * self.head).min(self.setup.ability.most_packets);
        if tail.is_some_and(short) && u64::from(packets * self.packet_byte) < self.bytes_left() / 4 {
            // What a token bucket let through at once is most of it: more, while the bucket is empty.
            self.history.bucket_byte = self.history.bucket_byte.or(credit_byte);
            let sent_before_bit = sent_before_bit + observation.sent() as f64 * self.packet_bit();
            self.stage = Stage::Burst { packets, sent_before_bit, came: received };
            return;
        }
        let (capacity, error) = self.history.capacity.estimate().unwrap_or((received, 0.3));
        let base_ns = self.history.base_ns;
        let seen = anomalies::bucket_byte(points, base_ns, capacity.max(received), self.packet_bit(), sent_before_bit);
        self.history.bucket_byte = self.history.bucket_byte.or(seen).or(credit_byte);
        let bucket = self.history.bucket_byte.is_some();
        // What a bucket passed at once came faster than the link is.
        self.history.at_least = if bucket { 0.0 } else { received };
        let capacity = if bucket { capacity } else { capacity.max(received) };
        // Cross traffic that came between the packets: this share, if a link as fast as the tight one had stretched
        // them before. If not, less could come between them and there is more of it.
        let crossing = if bucket { 0.0 } else { capacity * (capacity / received - 1.0) };
        let single = plan::group(received, self.packet_byte, &self.setup.ability) == 1;
        self.history.calm = self.history.has(Case::Calm)
            && !bucket
            && single
            && !self.history.capacity.clumps()
            && received > t::CALM_SHARE * capacity
            && error < 1.0 - t::CALM_SHARE;
        let guess = 0.9 * if bucket { capacity } else { (capacity - crossing).clamp(0.5 * received, received) };
        self.history.first_guess = if self.history.calm { received } else { guess };
        if capacity < t::SMALL_BELOW && self.packet_byte > t::SMALL {
            // Large packets are few at low rates. The least delay of small ones is another.
            self.packet_byte = t::SMALL;
            self.history.base_ns = f64::INFINITY;
        }
        self.see_head(points);
        self.stage = Stage::Primed { measures: false };
        // What delayed the first train does not delay the next one. But a token bucket would fill again.
        self.round.rest = observation.finished.checked_add(span(self.settings.rest_ns)).filter(|_| !bucket);
    }

    /// Notes at which rate packets that were sent back to back arrived.
    fn see_head(&mut self, points: &[Point]) {
        let head = &points[..points.partition_point(|point| point.index < self.head)];
        let (Some(first), Some(last)) = (head.first(), head.last()) else { return };
        let seconds = (last.at_ns + last.delay_ns - first.at_ns - first.delay_ns) / 1e9;
        if head.len() >= 12 && seconds > 0.0 {
            self.history.heads.0 += last.arrived_bit - first.arrived_bit;
            self.history.heads.1 += seconds;
        }
    }

    /// How far apart in time arrivals are stamped.
    fn see_grain(&mut self, observation: &Observation, seen: &[Point]) {
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return };
        let packets = &observation.packets[first.index as usize..=last.index as usize];
        let calls = packets.chunk_by(|a, b| a.call == b.call).count();
        if seen.len() > 1 && calls > 2 * seen.len() {
            let grain_s = (last.at_ns - first.at_ns) / 1e9 / (seen.len() - 1) as f64;
            self.history.grain_s = self.history.grain_s.max(grain_s);
        }
    }

    /// What a primed train shows.
    fn observe_primed(
        &mut self,
        observation: &Observation,
        points: &[Point],
        epoch: Epoch,
        held_ns: f64,
        measures: bool,
    ) {
        let Some(before) = self.evidence() else { return };
        let packet_bit = self.packet_bit();
        self.history.capacity.add(observation, self.head as usize);
        // The account begins when links before the tight one have sent on what they held of the head.
        let begin_ns = observation.packets.iter().find_map(Packet::left).map_or(0.0, |left| epoch.since_ns(left));
        let head_bit = f64::from(self.head) * packet_bit;
        let settled_ns =
            begin_ns + (1.0 / before.inflow(&self.history) + t::SETTLE / before.path.capacity) * head_bit * 1e9;
        let stream = points.partition_point(|point| point.index < self.head);
        let settles = self.history.has(Case::Settled);
        let from = points.partition_point(|point| point.index < self.head || (settles && point.at_ns < settled_ns));
        let from = from.min(stream + (points.len() - stream) / 2);
        self.see_head(points);
        self.see_grain(observation, &points[from..]);
        let queued = points.iter().map(|point| point.delay_ns - self.history.base_ns).fold(0.0, f64::max);
        self.queued_ns = self.queued_ns.max(queued);
        let full = observation.loss().is_some_and(|loss| loss > 0.08) || anomalies::overflows(observation);
        self.history.trains.push(Record {
            points: points[from..].to_vec(),
            overflowed_ns: full.then_some(queued),
            measured: measures,
            held_ns,
        });
        let Some(evidence) = self.evidence() else { return };
        let Some(last) = evidence.readings.last().filter(|_| evidence.readings.len() > before.readings.len()) else {
            self.history.trains.pop();
            self.faults.spoiled += 1;
            return;
        };
        self.may_be_another = self.history.has(Case::Several)
            && !evidence.calm
            && evidence.path.ratio.other > t::NOT_EXCLUDED
            && evidence.readings.iter().filter(|it| it.measured).count() > 1
            && evidence.answer().is_none_or(|(bounds, _)| {
                let [low, high] = bounds.interval(&evidence.path);
                high - low > t::SEVERAL_WIDE * bounds.value()
            });
        if full {
            if self.settled.is_some() {
                self.begin_anew();
                self.begin_round();
                return;
            }
            self.faults.spoiled += 1;
            self.stage = Stage::Primed { measures: false };
            return;
        }
        // Probes left the link at this rate, so it is no slower, whatever single gaps show.
        let out = last.whole.rate / (1.0 + last.whole.slope);
        if out > t::OUTGROWN * evidence.path.capacity {
            self.history.at_least = self.history.at_least.max(out);
        }
        if self.has_changed(&last.whole, &evidence) {
            self.begin_anew();
            self.begin_round();
            return;
        }
        self.faults.spoiled = 0;
        let drained = last.whole.drained();
        self.stage = Stage::Primed { measures: measures || !drained };
        self.judge();
    }

    /// Whether a run that follows has met a change; all before it is forgotten then.
    fn has_changed(&self, bounds: &Bounds, evidence: &Evidence) -> bool {
        let Some(before) = self.settled else { return false };
        let sure = 4.0 * ((bounds.burst / bounds.seconds()).sqrt() + bounds.error);
        let (low, high) = (bounds.least - sure, bounds.least + bounds.idle + sure);
        let slack = 0.1 * before;
        // What is available may have outgrown the capacity that was.
        let outgrown = bounds.value() > 0.9 * evidence.path.capacity.max(0.9 * before) && bounds.drained();
        outgrown || before < low - slack || before > high + slack
    }

    // ---- the answer

    /// Judges the trains so far; ends or goes on.
    fn judge(&mut self) {
        let Some(evidence) = self.evidence() else { return };
        let Some((bounds, true)) = evidence.answer() else { return };
        let estimate = self.estimate(&bounds, &evidence, Stopped::Running);
        if self.settings.follow_ns.is_none() || self.answer.is_none() {
            self.answer = Some(estimate.clone());
        }
        let [low, high] = bounds.interval(&evidence.path);
        let narrow = high - low <= self.settings.interval_share * bounds.value().max(0.0);
        // A queue that ran empty leaves the value open to one side; a fuller one is soon had.
        let closed = evidence.readings.last().is_none_or(|last| !last.best.drained());
        let left = Left { bytes: self.bytes_left(), seconds: self.seconds_left(), queued_bit: 0.0 };
        let wanted = plan::seconds(&evidence, &self.history, &self.settings, &self.setup.ability, true, &left);
        if narrow && closed && bounds.seconds() >= t::LONG * wanted {
            self.conclude(Stopped::Converged, Some(estimate));
        }
    }

    fn estimate(&self, bounds: &Bounds, evidence: &Evidence, stopped: Stopped) -> Estimate {
        let value = bounds.value();
        let [low, high] = bounds.interval(&evidence.path);
        // Less than nothing: more came than the link carries, or the account is wrong by as much.
        let high = high.max(-value);
        // No more is available than the link carries.
        let most = evidence.path.capacity * (1.0 + t::SIDES * evidence.path.capacity_error);
        let high = high.min(most.max(value));
        let bursts = t::SIDES * (bounds.burst / bounds.seconds()).sqrt();
        let interval = |more: f64| Some([(low - more).max(0.0), (high + more).max(0.0)]);
        let at = |ns: f64| self.epoch.map_or(0.0, |(_, began_s)| began_s) + ns / 1e9;
        Estimate {
            interval_bit_per_s: interval(0.0),
            long_run_bit_per_s: interval(bursts),
            capacity_bit_per_s: Some(evidence.path.capacity),
            token_bucket_byte: self.history.bucket_byte,
            queued_ns: Some(self.queued_ns),
            window_s: Some([at(bounds.from_ns), at(bounds.to_ns)]),
            notes: self.notes.clone(),
            ..Estimate::of(&self.spent, stopped, value.min(high).max(low).max(0.0))
        }
    }

    /// One value is there: the end, or, for runs that follow, a pause.
    fn conclude(&mut self, stopped: Stopped, value: Option<Estimate>) {
        let (Some(follow_ns), Some(now)) = (self.settings.follow_ns, self.spent.now) else {
            if let Some(answer) = value {
                self.done = Some(Box::new(Estimate { stopped, ..answer }));
            }
            return;
        };
        // One value each so often, counted from start to start; where a round gave none the next begins sooner.
        let pause_ns = if value.is_some() { follow_ns } else { (follow_ns / 4).max(self.settings.retry_ns) };
        let since = if value.is_some() { self.round.due.unwrap_or(now) } else { now };
        self.round.next = since.checked_add(span(pause_ns)).map(|next| next.max(now));
        self.settled = None;
        if value.is_some() {
            self.round.due = None;
            self.answer = value;
            self.settled = self.answer.as_ref().filter(|it| !it.at_least).and_then(|answer| answer.avb_bit_per_s);
        }
        if let Some(settled) = self.settled {
            self.history.first_guess = settled;
        }
        self.history.trains.clear();
        self.faults.spoiled = 0;
        self.begin_round();
    }

    /// Why it may not go on, where it may not. A run that follows goes on after a pause, with what it has, unless it is
    /// the user's budget that is used up.
    fn stops(&mut self, stopped: Stopped) -> Option<Stopped> {
        let spent = self.spent.probe_byte;
        let used = self.setup.budget.most_byte.is_some_and(|most| spent + spent / 20 >= most)
            || self.setup.budget.most_ns.is_some_and(|most| self.spent.elapsed_s() * 1.05e9 >= most as f64);
        if self.settings.follow_ns.is_none() || used || self.done.is_some() {
            return Some(stopped);
        }
        let best = self.best(stopped);
        let value = best.avb_bit_per_s.is_some().then_some(Estimate { stopped: Stopped::Running, ..best });
        if self.history.trains.is_empty() || matches!(stopped, Stopped::Disturbed | Stopped::Reordered) {
            self.begin_anew();
        }
        self.conclude(stopped, value);
        None
    }

    fn finish(&mut self, stopped: Stopped) -> Step {
        let estimate = self.done.take().map(|it| *it).unwrap_or_else(|| self.best(stopped));
        let done = Box::new(sound(estimate));
        self.done = Some(done.clone());
        Step::Done(done)
    }

    /// The best there is.
    fn best(&self, stopped: Stopped) -> Estimate {
        if let Some(rate) = self.policed {
            let mut estimate = Estimate::of(&self.spent, Stopped::Policed, rate);
            estimate.interval_bit_per_s = Some([0.93 * rate, 1.07 * rate]);
            estimate.token_bucket_byte = self.history.bucket_byte;
            estimate.notes.clone_from(&self.notes);
            return estimate;
        }
        let evidence = self.evidence();
        let answer = evidence.as_ref().and_then(|evidence| Some((evidence, evidence.answer()?)));
        if let Some((evidence, (bounds, true))) = answer {
            return self.estimate(&bounds, evidence, stopped);
        }
        let spent_up = matches!(stopped, Stopped::ByteBudget | Stopped::TimeBudget);
        if let (Stage::Burst { came, .. }, true) = (self.stage, spent_up)
            && came > 0.0
        {
            let mut estimate = Estimate::of(&self.spent, stopped, came);
            estimate.at_least = true;
            estimate.notes.clone_from(&self.notes);
            estimate.notes.push(format!(
                "at least {:.4} Gbit/s: all that was sent came as it was sent, and no more may be spent on finding \
                 where it queues",
                came / 1e9
            ));
            return estimate;
        }
        let mut estimate = Estimate::none(&self.spent, stopped);
        estimate.notes.clone_from(&self.notes);
        if self.faults.held_ns > t::MOST_HELD_NS || self.faults.held_whole + self.faults.restarts > 0 {
            estimate.stopped = Stopped::Disturbed;
            // Where trains were delayed as a whole no wait was seen that is worth its figure.
            let seen = self.faults.held_ns > t::MOST_HELD_NS;
            let held = if seen { format!(" for up to {:.1} ms", self.faults.held_ns / 1e6) } else { String::new() };
            estimate.notes.push(format!(
                "packets waited behind the tight link{held}, since a machine or a program on the way stalled: no \
                 train could measure"
            ));
        } else if let (Some((evidence, (bounds, false))), true) = (answer, spent_up) {
            // Trains that approach are short and their rates far from the value.
            let [low, high] = bounds.interval(&evidence.path);
            let more = (t::SEARCH_WIDER - 1.0) / 2.0 * (high - low);
            estimate.avb_bit_per_s = Some(bounds.value().clamp(0.0, evidence.path.capacity));
            estimate.interval_bit_per_s = Some([(low - more).max(0.0), (high + more).max(0.0)]);
            estimate.capacity_bit_per_s = Some(evidence.path.capacity);
            estimate.notes.push("ended before a train could measure: from the search alone".to_owned());
        }
        estimate
    }

    /// Why it cannot go on, where it cannot.
    fn gives_up(&self) -> Option<Stopped> {
        if self.faults.silent >= 6 {
            return Some(Stopped::NoAnswer);
        }
        if self.policed.is_some() {
            return Some(Stopped::Policed);
        }
        // Trains that take no time and no bytes use up no budget.
        let endless = self.settings.follow_ns.is_none() && self.spent.trains >= t::MOST_TRAINS;
        if self.faults.spoiled >= self.settings.most_spoiled || endless {
            let reordered = self.faults.reordered * 2 > self.spent.trains;
            return Some(if reordered { Stopped::Reordered } else { Stopped::Disturbed });
        }
        None
    }

    /// There was no queue however fast it sent: the value is what was sent.
    fn stop_sender_limited(&mut self, rate: f64) {
        let mut estimate = Estimate::of(&self.spent, Stopped::SenderLimited, rate);
        estimate.at_least = true;
        estimate.notes.clone_from(&self.notes);
        let note = format!("at least {:.4} Gbit/s: the sender cannot pace faster on this machine", rate / 1e9);
        estimate.notes.push(note);
        self.done = Some(Box::new(estimate));
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
        self.record(observation);
    }

    fn interim(&self) -> Option<Estimate> {
        self.done.as_deref().or(self.answer.as_ref()).cloned().map(sound)
    }
}
