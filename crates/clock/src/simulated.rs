//! A simulated guest among witnesses: stops, restored snapshots and changed rates of its clock, late and lost packets,
//! witnesses that lie or stand still. [`scenario`] runs one and counts what was wrong; the decisions are those that
//! ship ([`crate::confirm`], [`crate::Keeper`]).

use vtare_units::{Random, Timestamp};

use crate::confirm::{Patience, Unconfirmed, WitnessAnswer, confirm};
use crate::keeper::{HEARTBEAT, Keeper, Round, UtcLine};
use crate::utc::UtcStatus;
use crate::watch::Checked;

const MS: f64 = 1e6;
/// UTC at the start, and every clock beside it.
const START_NS: f64 = 1e15;
const OWN_HOST: u64 = 99;
/// How long a scenario lasts.
const LASTS_NS: f64 = 6_000.0 * MS;

/// A fault that the simulation must find: what is fed to the decisions is falsified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    None,
    /// Bounds without the round trip.
    NoRoundTrip,
    /// Witnesses of one host count as several.
    HostsApart,
    /// The first answer is believed.
    FirstAnswer,
    /// Rounds are not held against each other by the monotonic stamps.
    NoStamps,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Stops, restores, steps and changes of rate.
    pub disruptions: u64,
    /// Intervals that calls confirmed.
    pub confirmed: u64,
    /// Of those, intervals in which UTC was at no time between the call and the return, or an end that did not hold.
    pub wrong_confirmed: u64,
    /// Calls that confirmed nothing.
    pub unconfirmed: u64,
    /// Readings of the line.
    pub readings: u64,
    /// Of those, readings that were vouched for.
    pub vouched: u64,
    /// Vouched readings that were wrong before the first round after a disruption had ended; after a change of rate
    /// the second.
    pub wrong_early: u64,
    /// Later ones.
    pub wrong_late: u64,
    /// Disruptions that the line states where there was none since the round before the last.
    pub false_disruptions: u64,
    /// The widest interval that was confirmed, beyond round trip, drift and the widest statement, ns; beyond twice
    /// that where a witness lies.
    pub widest_beyond_ns: f64,
}

impl Counts {
    /// Adds those of another scenario.
    pub fn add(&mut self, other: &Self) {
        self.disruptions += other.disruptions;
        self.confirmed += other.confirmed;
        self.wrong_confirmed += other.wrong_confirmed;
        self.unconfirmed += other.unconfirmed;
        self.readings += other.readings;
        self.vouched += other.vouched;
        self.wrong_early += other.wrong_early;
        self.wrong_late += other.wrong_late;
        self.false_disruptions += other.false_disruptions;
        self.widest_beyond_ns = self.widest_beyond_ns.max(other.widest_beyond_ns);
    }
}

/// What happens to the guest, or to the network.
#[derive(Clone, Copy, Debug)]
enum Event {
    Stop,
    Go,
    Save,
    Restore,
    Rate(f64),
    Partition(bool),
}

/// One witness.
#[derive(Clone, Debug)]
struct Witness {
    host: u64,
    /// How far its UTC is off, and what it states as the most of that.
    error_ns: f64,
    bound_ns: f64,
    /// By how much its monotonic clock is off, as a fraction.
    drift: f64,
    lies: bool,
    /// From when on it stood still, and how long.
    stopped: (f64, f64),
}

/// Questions under way: a heartbeat's, or a call's.
#[derive(Clone, Debug)]
struct Asked {
    number: u64,
    /// True time of the first question.
    called_ns: f64,
    begun: Timestamp<vtare_units::Monotonic>,
    answers: Vec<Option<WitnessAnswer>>,
    patience: Patience,
}

/// The guest, all of which a snapshot restores.
#[derive(Clone, Debug)]
struct Guest {
    local_ns: f64,
    keeper: Keeper,
    heartbeat: Option<Asked>,
    call: Option<Asked>,
    next_heartbeat_ns: f64,
    next_call_ns: f64,
}

/// An answer on its way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    arrives_ns: f64,
    number: u64,
    witness: usize,
    answer: WitnessAnswer,
}

struct World {
    random: Random,
    planted: Planted,
    now_ns: f64,
    running: bool,
    rate: f64,
    partition: bool,
    worst_delay_ns: f64,
    witnesses: Vec<Witness>,
    guest: Guest,
    saved: Option<Guest>,
    flying: Vec<Flying>,
    numbers: u64,
    /// True time at which the last disruption ended.
    disrupted_ns: f64,
    /// Rounds that must yet begin and end after it until no reading may be wrong: one, and after a change of rate two.
    unsettled: u32,
    /// Disruptions stated since the last one are expected.
    expected: u32,
    counts: Counts,
}

/// Runs one scenario.
#[must_use]
pub fn scenario(seed: u64, planted: Planted) -> Counts {
    let mut random = Random::part(seed, 52);
    let mut events = Vec::new();
    let mut at_ns = 700.0 * MS + random.unit() * 300.0 * MS;
    while at_ns < LASTS_NS {
        let length_ns = MS * 10_f64.powf(random.unit() * 4.0 - 0.5);
        match random.bits() % 6 {
            0 | 1 => events.extend([(at_ns, Event::Stop), (at_ns + length_ns, Event::Go)]),
            2 => events.extend([
                (at_ns, Event::Save),
                (at_ns + length_ns, Event::Stop),
                (at_ns + length_ns, Event::Restore),
                (at_ns + length_ns + random.unit() * 50.0 * MS, Event::Go),
            ]),
            3 => events.push((at_ns, Event::Rate([1.0, 1.01, 1.07, 0.93][(random.bits() % 4) as usize]))),
            4 => events.extend([(at_ns, Event::Partition(true)), (at_ns + length_ns, Event::Partition(false))]),
            _ => {}
        }
        at_ns += length_ns + random.unit() * 1_500.0 * MS;
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut world = World::new(random, planted);
    for (at_ns, event) in events {
        world.run_until(at_ns);
        world.take(event);
    }
    world.run_until(LASTS_NS);
    world.counts
}

impl World {
    fn new(mut random: Random, planted: Planted) -> Self {
        let count = 1 + (random.bits() % 5) as usize;
        let kind = random.bits() % 3;
        let mut witnesses: Vec<_> = (0..count)
            .map(|place| {
                let bound_ns = 2e4 * 10_f64.powf(random.unit() * 3.0);
                // Often at its very bound.
                let error_ns = bound_ns * (random.unit() * 4.0 - 2.0).clamp(-0.999, 0.999);
                let drift = (random.unit() - 0.5) * 2e-4;
                let host = 1 + place as u64;
                Witness { host, error_ns, bound_ns, drift, lies: false, stopped: (f64::INFINITY, 0.0) }
            })
            .collect();
        let stopped = (LASTS_NS * random.unit(), MS * 10_f64.powf(random.unit() * 4.0));
        match kind {
            // With two hosts and more one may lie, or stand still.
            0 if count >= 2 => witnesses[(random.bits() % count as u64) as usize].lies = true,
            1 if count >= 3 => {
                let pair = (random.bits() % (count as u64 - 1)) as usize;
                for place in [pair, pair + 1] {
                    (witnesses[place].host, witnesses[place].stopped) = (50, stopped);
                }
            }
            2 if count >= 2 => witnesses[0].stopped = stopped,
            _ => {}
        }
        let worst_delay_ns = MS * 10_f64.powf(random.unit() * 2.5 - 1.0);
        let guest = Guest {
            local_ns: START_NS,
            keeper: Keeper::new(OWN_HOST, HEARTBEAT, &UtcLine::default()),
            heartbeat: None,
            call: None,
            next_heartbeat_ns: START_NS,
            next_call_ns: START_NS + random.unit() * 300.0 * MS,
        };
        Self {
            random,
            planted,
            now_ns: 0.0,
            running: true,
            rate: 1.0,
            partition: false,
            worst_delay_ns,
            witnesses,
            guest,
            saved: None,
            flying: Vec::new(),
            numbers: 0,
            disrupted_ns: f64::NEG_INFINITY,
            unsettled: 0,
            expected: 0,
            counts: Counts::default(),
        }
    }

    fn local(&self) -> Timestamp<vtare_units::Monotonic> {
        Timestamp::from_nanos(self.guest.local_ns as u64)
    }

    fn utc_ns(&self, true_ns: f64) -> f64 {
        START_NS + true_ns
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Partition(partition) => return self.partition = partition,
            Event::Save => return self.saved = Some(self.guest.clone()),
            Event::Stop => self.running = false,
            Event::Go => self.running = true,
            Event::Rate(rate) => self.rate = rate,
            Event::Restore => {
                if let Some(saved) = self.saved.take() {
                    self.guest = saved;
                }
            }
        }
        if !matches!(event, Event::Stop) {
            self.counts.disruptions += u64::from(!matches!(event, Event::Go));
        }
        // A stop can make up for a rate that is too high, and a restored guest knows nothing of a change before.
        let rated = matches!(event, Event::Rate(_)) || (self.rate - 1.0).abs() > 1e-9;
        let rounds = if rated { 2 } else { self.unsettled.max(1) };
        (self.disrupted_ns, self.unsettled, self.expected) = (self.now_ns, rounds, 3);
    }

    /// Goes on to a true time.
    fn run_until(&mut self, until_ns: f64) {
        while self.now_ns < until_ns {
            let mut next_ns = until_ns;
            if self.running {
                let due_ns = |local_ns: f64| self.now_ns + ((local_ns - self.guest.local_ns) / self.rate).max(0.0);
                next_ns = next_ns.min(due_ns(self.guest.next_heartbeat_ns)).min(due_ns(self.guest.next_call_ns));
                let arrival_ns = self.flying.iter().map(|one| one.arrives_ns).fold(f64::INFINITY, f64::min);
                // Readings come all the time.
                next_ns = next_ns.min(arrival_ns.max(self.now_ns)).min(self.now_ns + 7.3 * MS);
                self.guest.local_ns += (next_ns - self.now_ns) * self.rate;
            }
            self.now_ns = next_ns;
            if self.running {
                self.deliver();
                self.act();
                self.read();
            }
        }
    }

    /// Takes what has come.
    fn deliver(&mut self) {
        let now_ns = self.now_ns;
        let (come, flying) = std::mem::take(&mut self.flying).into_iter().partition(|one| one.arrives_ns <= now_ns);
        self.flying = flying;
        let received = self.local();
        let come: Vec<Flying> = come;
        for one in come {
            for asked in [&mut self.guest.heartbeat, &mut self.guest.call].into_iter().flatten() {
                if asked.number == one.number {
                    let sent = if self.planted == Planted::NoRoundTrip { received } else { one.answer.sent };
                    asked.answers[one.witness] = Some(WitnessAnswer { sent, received, ..one.answer });
                }
            }
        }
    }

    /// Begins and ends rounds and calls.
    fn act(&mut self) {
        let limit = HEARTBEAT.as_nanos() as f64;
        if let Some(mut asked) = self.guest.heartbeat.take() {
            if self.is_over(&mut asked, limit) {
                self.end_round(asked);
            } else {
                self.guest.heartbeat = Some(asked);
            }
        }
        if self.guest.heartbeat.is_none() && self.guest.local_ns >= self.guest.next_heartbeat_ns {
            self.guest.next_heartbeat_ns = self.guest.local_ns + limit;
            self.guest.heartbeat = Some(self.ask());
        }
        if let Some(mut asked) = self.guest.call.take() {
            if self.is_over(&mut asked, 3.0 * limit) {
                self.end_call(&asked);
                self.guest.next_call_ns = self.guest.local_ns + self.random.unit() * 300.0 * MS;
            } else {
                self.guest.call = Some(asked);
            }
        }
        if self.guest.call.is_none() && self.guest.local_ns >= self.guest.next_call_ns {
            self.guest.next_call_ns = f64::INFINITY;
            self.guest.call = Some(self.ask());
        }
        if self.guest.call.is_some() {
            self.guest.next_call_ns = f64::INFINITY;
        }
    }

    fn is_over(&self, asked: &mut Asked, limit_ns: f64) -> bool {
        let answers: Vec<_> = asked.answers.iter().flatten().copied().collect();
        let passed = self.local() - asked.begun;
        let enough = match self.planted {
            Planted::FirstAnswer => !answers.is_empty(),
            _ => asked.patience.is_over(&answers, asked.answers.len(), OWN_HOST, passed),
        };
        enough || passed.as_nanos() as f64 >= limit_ns
    }

    /// Sends a question to each witness, whose answer is known at once but for its arrival.
    fn ask(&mut self) -> Asked {
        self.numbers += 1;
        let number = self.numbers;
        let sent = self.local();
        for witness in 0..self.witnesses.len() {
            let mut delay_ns = || {
                let usual = 2e4 + self.random.unit() * self.worst_delay_ns;
                // Now and then far later, or in one direction alone.
                [0.0, usual, usual, usual, 20.0 * usual][(self.random.bits() % 5) as usize]
            };
            let (there_ns, back_ns) = (delay_ns(), delay_ns());
            if self.partition || self.random.unit() < 0.02 {
                continue;
            }
            let at_ns = self.now_ns + there_ns;
            let answer = self.state(witness, at_ns, sent);
            self.flying.push(Flying { arrives_ns: at_ns + back_ns, number, witness, answer });
        }
        let answers = vec![None; self.witnesses.len()];
        Asked { number, called_ns: self.now_ns, begun: sent, answers, patience: Patience::default() }
    }

    /// What a witness states at a true time.
    fn state(&mut self, place: usize, at_ns: f64, sent: Timestamp<vtare_units::Monotonic>) -> WitnessAnswer {
        let witness = &self.witnesses[place];
        let (from_ns, length_ns) = witness.stopped;
        // Its clocks stood still, and it does not know.
        let shown_ns = at_ns - (at_ns - from_ns).clamp(0.0, length_ns);
        let mut stamp_ns = START_NS + shown_ns * (1.0 + witness.drift);
        let middle_ns = START_NS + shown_ns + witness.error_ns;
        let mut ends = (middle_ns - witness.bound_ns, middle_ns + witness.bound_ns);
        if witness.lies {
            let off = |random: &mut Random| (random.unit() - 0.5) * 10_f64.powf(random.unit() * 10.0);
            stamp_ns += off(&mut self.random);
            ends = (ends.0 + off(&mut self.random), ends.1 + off(&mut self.random));
        }
        let host = if self.planted == Planted::HostsApart { 1 + place as u64 } else { self.witnesses[place].host };
        let stamp_ns = if self.planted == Planted::NoStamps { sent.as_nanos() as f64 + 1e5 } else { stamp_ns };
        WitnessAnswer {
            sent,
            received: sent,
            utc: Some((Timestamp::from_nanos(ends.0 as u64), Timestamp::from_nanos(ends.1 as u64))),
            sees_stops: true,
            generation: 1,
            stamp: Timestamp::from_nanos(stamp_ns as u64),
            host,
        }
    }

    fn end_round(&mut self, asked: Asked) {
        let before = self.guest.keeper.line().generation;
        let ended = Checked { at: self.local(), generation: 1 };
        let (line, found) = self.guest.keeper.next(Round { begun: asked.begun, ended, answers: asked.answers });
        if asked.called_ns >= self.disrupted_ns {
            self.unsettled = self.unsettled.saturating_sub(1);
        }
        // The rate may be wrong for long, and each round finds that; a witness that stood still is one disruption.
        let excused = self.expected > 0 || (self.rate - 1.0).abs() > 1e-9 || self.witnesses.len() < 3;
        self.counts.false_disruptions += u64::from(line.generation > before && !excused);
        // A round that nobody answers finds nothing; the next one may.
        if !matches!(found, Err(Unconfirmed::Silent { .. })) {
            self.expected = self.expected.saturating_sub(1);
        }
    }

    fn end_call(&mut self, asked: &Asked) {
        let answers: Vec<_> = match self.planted {
            Planted::FirstAnswer => asked.answers.iter().flatten().take(1).copied().collect(),
            _ => asked.answers.iter().flatten().copied().collect(),
        };
        let witnesses = if self.planted == Planted::FirstAnswer { 1 } else { asked.answers.len() };
        match confirm(&answers, witnesses, OWN_HOST, self.local()) {
            Ok(found) => {
                self.counts.confirmed += 1;
                let (called_ns, returned_ns) = (self.utc_ns(asked.called_ns), self.utc_ns(self.now_ns));
                let (earliest_ns, latest_ns) = (found.earliest.as_nanos() as f64, found.latest.as_nanos() as f64);
                // Nanoseconds are whole in the interval, not here.
                let holds = latest_ns + 1.0 >= called_ns && earliest_ns - 1.0 <= returned_ns;
                let undisturbed = asked.called_ns > self.disrupted_ns && (self.rate - 1.0).abs() < 1e-9;
                let now = !undisturbed || latest_ns + 1.0 >= returned_ns;
                self.counts.wrong_confirmed += u64::from(!holds || !now);
                let honest = found.liars == 0 || found.hosts > 2 * found.liars;
                if undisturbed && honest {
                    let widest_ns = self.witnesses.iter().map(|one| 2.0 * one.bound_ns).fold(0.0, f64::max);
                    // A liar can have the ends come from two witnesses, the first and the last moment of the call.
                    let trips =
                        if self.witnesses.iter().any(|one| one.lies || one.stopped.1 > 0.0) { 2.0 } else { 1.0 };
                    let allowed_ns = trips * (widest_ns + (returned_ns - called_ns) * (1.0 + 500e-6) + 2_000.0);
                    let beyond_ns = latest_ns - earliest_ns - allowed_ns;
                    self.counts.widest_beyond_ns = self.counts.widest_beyond_ns.max(beyond_ns);
                }
            }
            Err(_) => self.counts.unconfirmed += 1,
        }
    }

    /// A reading of the line.
    fn read(&mut self) {
        self.counts.readings += 1;
        let found = self.guest.keeper.line().interval(Checked { at: self.local(), generation: 1 });
        if found.status != UtcStatus::Synchronized {
            return;
        }
        self.counts.vouched += 1;
        let utc_ns = self.utc_ns(self.now_ns);
        if utc_ns + 1.0 < found.earliest.as_nanos() as f64 || utc_ns - 1.0 > found.latest.as_nanos() as f64 {
            if self.unsettled == 0 {
                self.counts.wrong_late += 1;
            } else {
                self.counts.wrong_early += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(seeds: u64, planted: Planted) -> Counts {
        let mut all = Counts::default();
        (0..seeds).for_each(|seed| all.add(&scenario(seed, planted)));
        all
    }

    #[test]
    fn of_1000_scenarios_none_confirms_a_wrong_interval_or_is_wrong_after_the_next_round() {
        let all = sum(1_000, Planted::None);
        assert_eq!((all.wrong_confirmed, all.wrong_late, all.false_disruptions), (0, 0, 0), "{all:?}");
        assert!(all.widest_beyond_ns <= 0.0, "{all:?}");
        assert!(all.confirmed > 10_000 && all.vouched > all.readings / 3, "{all:?}");
        assert!(all.wrong_early > 0 && all.disruptions > 1_000, "{all:?}");
    }

    #[test]
    fn each_planted_fault_is_found() {
        for planted in [Planted::NoRoundTrip, Planted::HostsApart, Planted::FirstAnswer, Planted::NoStamps] {
            let all = sum(200, planted);
            assert!(all.wrong_confirmed + all.wrong_late > 0, "{planted:?}: {all:?}");
        }
    }
}
