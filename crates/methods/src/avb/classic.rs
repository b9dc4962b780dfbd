use vtare_units::{Monotonic, Timestamp};

use super::{Ability, Estimate, Method, Observation, SettingsError, Setup, Spent, Step, Stopped, Train};

/// Trains in a row of which nothing arrived, after which a measurement is over.
const MOST_SILENT: u32 = 10;
/// Trains after which a measurement is over whatever its rules decide.
const MOST_TRAINS: u32 = 5_000;

/// The decisions of a published method. What all of them share (budgets, silence, an end that stays) is in [`Classic`].
pub(super) trait Rules {
    /// As listed.
    fn name(&self) -> &'static str;

    /// Size of packets that the settings ask for, bytes (IP), where they do.
    fn wanted_byte(&self) -> Option<u32> {
        None
    }

    /// The next train, or why there is none.
    fn next(&mut self) -> Result<Train, Stopped>;

    /// What became of it. At least one packet arrived.
    fn observe(&mut self, observation: &Observation);

    /// Nothing of the train arrived.
    fn silent(&mut self) {}

    /// The answer, as far as it is known.
    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate;
}

/// A published method as a [`Method`].
#[derive(Clone, Debug)]
pub(super) struct Classic<R> {
    rules: R,
    setup: Setup,
    spent: Spent,
    under_way: Option<Train>,
    silent: u32,
    /// Packets of the longest train that was asked for, where that was more than a train may have.
    cut: Option<u32>,
    end: Option<Box<Estimate>>,
}

impl<R: Rules> Classic<R> {
    pub(super) fn new(rules: R, setup: Setup) -> Self {
        Self { rules, setup, spent: Spent::default(), under_way: None, silent: 0, cut: None, end: None }
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if self.silent >= MOST_SILENT {
            return Err(if self.spent.trains > self.silent { Stopped::Lossy } else { Stopped::NoAnswer });
        }
        if self.spent.trains >= MOST_TRAINS {
            return Err(Stopped::GaveUp);
        }
        let train = self.rules.next()?;
        if train.packets > self.setup.ability.most_packets {
            self.cut = self.cut.max(Some(train.packets));
        }
        let train = fit(train, &self.setup.ability);
        self.spent.forbids(&self.setup.budget, &train).map_or(Ok(train), Err)
    }
}

impl<R: Rules> Classic<R> {
    /// What was not as asked for.
    fn changes(&self) -> Vec<String> {
        let ability = &self.setup.ability;
        let within = ability.least_packet_byte..=ability.most_packet_byte;
        let size = self.rules.wanted_byte().filter(|wanted| !within.contains(wanted)).map(|wanted| {
            let given = size_within(wanted, ability);
            format!(
                "packets had {given} B instead of {wanted}: the path takes {} to {} B",
                within.start(),
                within.end()
            )
        });
        let most = ability.most_packets;
        let cut = self.cut.map(|wanted| format!("trains were cut from {wanted} packets to {most}"));
        size.into_iter().chain(cut).collect()
    }
}

impl<R: Rules> Method for Classic<R> {
    fn name(&self) -> &'static str {
        self.rules.name()
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.spent.at(now);
        if let Some(end) = &self.end {
            return Step::Done(end.clone());
        }
        if let Some(train) = &self.under_way {
            return Step::Send(train.clone());
        }
        match self.next() {
            Ok(train) => {
                self.under_way = Some(train.clone());
                Step::Send(train)
            }
            Err(stopped) => {
                let mut estimate = match stopped {
                    Stopped::NoAnswer | Stopped::Lossy if self.silent >= MOST_SILENT => {
                        Estimate::none(&self.spent, stopped)
                    }
                    _ => sound(self.rules.estimate(&self.spent, stopped)),
                };
                estimate.notes.extend(self.changes());
                Step::Done(self.end.insert(Box::new(estimate)).clone())
            }
        }
    }

    fn observe(&mut self, observation: &Observation) {
        if self.under_way.take().is_none() {
            return;
        }
        self.spent.sent(observation);
        if observation.received() == 0 {
            self.silent += 1;
            self.rules.silent();
        } else {
            self.silent = 0;
            self.rules.observe(observation);
        }
    }

    fn interim(&self) -> Option<Estimate> {
        let estimate = sound(self.rules.estimate(&self.spent, Stopped::Running));
        (estimate.avb_bit_per_s.is_some() || estimate.capacity_bit_per_s.is_some()).then_some(estimate)
    }
}

/// The estimate without figures that are no rates: stamps that make no sense must not become an answer.
pub(super) fn sound(mut estimate: Estimate) -> Estimate {
    let good = |rate: &f64| rate.is_finite() && *rate >= 0.0;
    let had = estimate.avb_bit_per_s.is_some() || estimate.capacity_bit_per_s.is_some();
    estimate.avb_bit_per_s = estimate.avb_bit_per_s.filter(good);
    estimate.capacity_bit_per_s = estimate.capacity_bit_per_s.filter(good);
    for figure in [&mut estimate.occupied_bit_per_s, &mut estimate.token_bucket_byte, &mut estimate.queued_ns] {
        *figure = figure.filter(good);
    }
    estimate.long_run_bit_per_s = estimate.long_run_bit_per_s.filter(|ends| ends.iter().all(good));
    let ends = estimate.interval_bit_per_s.filter(|ends| ends.iter().all(good));
    estimate.interval_bit_per_s = ends.filter(|_| estimate.avb_bit_per_s.is_some());
    let has = estimate.avb_bit_per_s.is_some() || estimate.capacity_bit_per_s.is_some();
    if had && !has {
        estimate.at_least = false;
        estimate.stopped = if estimate.stopped == Stopped::Running { Stopped::Running } else { Stopped::GaveUp };
        estimate.notes.push("the stamps give no rate: send or receive times make no sense".to_owned());
    }
    estimate
}

/// The train that sender and path can carry: sizes and number of packets within their limits.
fn fit(mut train: Train, ability: &Ability) -> Train {
    train.size_byte = size_within(train.size_byte, ability);
    train.packets = train.packets.min(ability.most_packets).max(1);
    train
}

/// The size nearest to the one wanted that the path takes, bytes.
pub(super) fn size_within(wanted_byte: u32, ability: &Ability) -> u32 {
    wanted_byte.min(ability.most_packet_byte).max(ability.least_packet_byte)
}

/// The rate of packets of `size_byte` every `gap_ns`, bit/s.
pub(super) fn rate_bit_per_s(size_byte: u32, gap_ns: f64) -> f64 {
    f64::from(size_byte) * 8e9 / gap_ns
}

/// The gap at which packets of `size_byte` make `rate_bit_per_s`, ns.
pub(super) fn gap_ns(size_byte: u32, rate_bit_per_s: f64) -> f64 {
    f64::from(size_byte) * 8e9 / rate_bit_per_s
}

/// Mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Quantile of type 7; `None` of nothing.
pub(crate) fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    vtare_units::figures::quantile(&sorted, q)
}

/// Median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Nanoseconds as whole ones, whatever the number was.
pub(super) fn whole_ns(ns: f64) -> u64 {
    // `as` saturates, and makes 0 of what is no number.
    ns.round() as u64
}

/// A setting below its least value.
pub(super) fn least<T: PartialOrd + std::fmt::Display>(
    what: &'static str,
    found: T,
    least: T,
) -> Result<(), SettingsError> {
    if found >= least {
        return Ok(());
    }
    Err(SettingsError { what, found: found.to_string(), want: format!("{least} or more") })
}

/// A setting that must be a number above `low` and at most `high`.
pub(super) fn between(what: &'static str, found: f64, low: f64, high: f64) -> Result<(), SettingsError> {
    if found > low && found <= high {
        return Ok(());
    }
    let want =
        if high.is_finite() { format!("more than {low} and at most {high}") } else { format!("a number above {low}") };
    Err(SettingsError { what, found: found.to_string(), want })
}

/// A setting that must be a number from 0 to `high`.
pub(super) fn from_0(what: &'static str, found: f64, high: f64) -> Result<(), SettingsError> {
    if (0.0..=high).contains(&found) {
        return Ok(());
    }
    Err(SettingsError { what, found: found.to_string(), want: format!("0 to {high}") })
}

/// A rate that a user gave: a number above 0.
pub(super) fn rate(what: &'static str, found_bit_per_s: f64) -> Result<(), SettingsError> {
    between(what, found_bit_per_s, 0.0, 1e15)
}

#[cfg(test)]
mod tests {
    use super::super::igi::{Formula, Igi, IgiSettings};
    use super::hand::{even, seen};
    use super::*;

    fn ptr() -> Classic<Igi> {
        Classic::new(Igi::new(IgiSettings::default(), Formula::Ptr, &Setup::default()), Setup::default())
    }

    fn turn(method: &mut Classic<Igi>, observation: &Observation) {
        assert!(matches!(method.step(Timestamp::ZERO), Step::Send(_)));
        method.observe(observation);
    }

    fn stopped(method: &mut Classic<Igi>) -> Option<Stopped> {
        match method.step(Timestamp::ZERO) {
            Step::Done(estimate) => Some(estimate.stopped),
            _ => None,
        }
    }

    #[test]
    fn ten_silent_trains_in_a_row_end_it_and_one_that_arrives_starts_the_count_again() {
        let (silence, arrived) = (seen(500, &[(0.0, None); 60]), even(60, 500, 1e3, 40e3));
        let mut method = ptr();
        (0..9).for_each(|_| turn(&mut method, &silence));
        turn(&mut method, &arrived);
        (0..9).for_each(|_| turn(&mut method, &silence));
        assert_eq!(stopped(&mut method), None);
        turn(&mut method, &silence);
        assert_eq!(stopped(&mut method), Some(Stopped::Lossy));
        let mut method = ptr();
        (0..10).for_each(|_| turn(&mut method, &silence));
        assert_eq!(stopped(&mut method), Some(Stopped::NoAnswer));
    }

    #[test]
    fn sizes_and_trains_that_could_not_be_as_asked_for_are_in_the_notes() {
        let ability = Ability { most_packet_byte: 400, most_packets: 50, ..Ability::default() };
        let setup = Setup { ability, ..Setup::default() };
        let mut method = Classic::new(Igi::new(IgiSettings::default(), Formula::Ptr, &setup), setup);
        (0..10).for_each(|_| turn(&mut method, &seen(400, &[(0.0, None); 50])));
        let Step::Done(estimate) = method.step(Timestamp::ZERO) else { panic!("silent") };
        let size = "packets had 400 B instead of 500: the path takes 64 to 400 B";
        assert_eq!(estimate.notes, [size, "trains were cut from 60 packets to 50"]);
    }

    #[test]
    fn an_observation_that_nobody_asked_for_is_not_counted() {
        let mut method = ptr();
        method.observe(&even(60, 500, 1e3, 40e3));
        assert_eq!((method.spent.trains, method.interim()), (0, None));
    }

    #[test]
    fn a_figure_that_is_no_rate_is_no_answer() {
        let bad = sound(Estimate::of(&Spent::default(), Stopped::Converged, f64::INFINITY));
        assert_eq!((bad.avb_bit_per_s, bad.stopped), (None, Stopped::GaveUp));
        let good = sound(Estimate::of(&Spent::default(), Stopped::Converged, 1e6));
        assert_eq!((good.avb_bit_per_s, good.stopped), (Some(1e6), Stopped::Converged));
    }
}

#[cfg(test)]
pub(super) mod hand {
    //! Observations made by hand.
    use vtare_units::Timestamp;

    use super::super::{Observation, Packet, Train};

    /// A train whose packets leave and arrive at these times, ns; `None`: lost.
    pub(crate) fn seen(size_byte: u32, times: &[(f64, Option<f64>)]) -> Observation {
        let mut order: Vec<u64> = times.iter().filter_map(|&(_, received)| Some(received?.round() as u64)).collect();
        order.sort_unstable();
        let packet = |&(sent, received): &(f64, Option<f64>)| {
            let received = received.map(|ns| ns.round() as u64);
            Packet {
                scheduled: Timestamp::from_nanos(sent.round() as u64),
                sent: Some(Timestamp::from_nanos(sent.round() as u64)),
                kernel_sent: None,
                received: received.map(Timestamp::from_nanos),
                place: received.map(|at| order.partition_point(|&it| it < at) as u32),
                size_byte,
                call: 0,
                group: None,
                descheduled: false,
                ecn: None,
            }
        };
        Observation {
            train: Train::back_to_back(times.len() as u32, size_byte),
            packets: times.iter().map(packet).collect(),
            finished: Timestamp::ZERO,
            receiver_drops: Some(0),
        }
    }

    /// A train with these gaps, sent and received.
    pub(crate) fn even(packets: u32, size_byte: u32, sent_gap_ns: f64, received_gap_ns: f64) -> Observation {
        let at = |i: u32| (f64::from(i) * sent_gap_ns, Some(1e6 + f64::from(i) * received_gap_ns));
        seen(size_byte, &(0..packets).map(at).collect::<Vec<_>>())
    }

    /// A train sent every `gap_ns` with these queueing delays.
    pub(crate) fn delayed(size_byte: u32, gap_ns: f64, delays_ns: &[f64]) -> Observation {
        let at = |(i, delay): (u32, &f64)| (f64::from(i) * gap_ns, Some(1e6 + f64::from(i) * gap_ns + delay));
        seen(size_byte, &(0..).zip(delays_ns).map(at).collect::<Vec<_>>())
    }
}
