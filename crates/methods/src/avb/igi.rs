use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, from_0, gap_ns, least, mean, rate, rate_bit_per_s, size_within, whole_ns};
use super::pairs::CapacityProbe;
use super::{Estimate, Observation, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of IGI and PTR: trains with a growing gap until the path adds nothing to it, the turning point.
//= Hu, Steenkiste 2003, Evaluation and characterization of available bandwidth probing techniques
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IgiSettings {
    /// Packets a train.
    pub packets: u32,
    /// Size of a packet, bytes (IP).
    pub size_byte: u32,
    /// Trains at each gap, judged together.
    pub trains: u32,
    /// Step of the gap, share of the first gap at the receiver.
    pub step_share: f64,
    /// What the path may add to the gap at the turning point, ns.
    pub tolerance_ns: f64,
    /// Gaps in a row that must meet that.
    pub turns: u32,
    /// Capacity, bit/s, for IGI; null: measured first with back-to-back pairs.
    pub capacity_bit_per_s: Option<f64>,
    /// Pairs for that measurement.
    pub capacity_pairs: u32,
    /// Silence between trains, ns.
    pub idle_ns: f64,
    /// Gaps after which it ends without an answer.
    pub most_gaps: u32,
}

impl Default for IgiSettings {
    fn default() -> Self {
        Self {
            packets: 60,
            size_byte: 500,
            trains: 3,
            step_share: 0.25,
            tolerance_ns: 5_000.0,
            turns: 2,
            capacity_bit_per_s: None,
            capacity_pairs: 40,
            idle_ns: 20_000_000.0,
            most_gaps: 200,
        }
    }
}

impl IgiSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("packets", self.packets, 2)?;
        least("size_byte", self.size_byte, 1)?;
        least("trains", self.trains, 1)?;
        between("step_share", self.step_share, 0.0, 100.0)?;
        from_0("tolerance_ns", self.tolerance_ns, 1e9)?;
        least("turns", self.turns, 1)?;
        least("capacity_pairs", self.capacity_pairs, 1)?;
        from_0("idle_ns", self.idle_ns, 1e12)?;
        least("most_gaps", self.most_gaps, 1)?;
        self.capacity_bit_per_s.map_or(Ok(()), |capacity| rate("capacity_bit_per_s", capacity))
    }
}

/// Which answer is drawn from the trains at the turning point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// From the gaps that grew, and the capacity.
    Igi,
    /// The rate at which the trains arrive.
    Ptr,
}

/// IGI or PTR under way.
#[derive(Clone, Debug)]
pub(super) struct Igi {
    settings: IgiSettings,
    formula: Formula,
    capacity: CapacityProbe,
    size_byte: u32,
    gap_ns: f64,
    step_ns: Option<f64>,
    /// At this gap: trains, and their gaps sent and received.
    trains: u32,
    gaps_ns: Vec<(f64, f64)>,
    gaps_tried: u32,
    turns: u32,
    /// From the first gap of the present turns.
    answer: Option<f64>,
    end: Option<Stopped>,
}

impl Igi {
    pub(super) fn new(settings: IgiSettings, formula: Formula, setup: &Setup) -> Self {
        let size_byte = size_within(settings.size_byte, &setup.ability);
        Self {
            settings,
            formula,
            capacity: CapacityProbe::new(settings.capacity_bit_per_s, settings.capacity_pairs, size_byte),
            size_byte,
            gap_ns: 0.0,
            step_ns: None,
            trains: 0,
            gaps_ns: Vec::new(),
            gaps_tried: 0,
            turns: 0,
            answer: None,
            end: None,
        }
    }

    fn wants_capacity(&self) -> bool {
        self.formula == Formula::Igi
    }

    fn train_over(&mut self) {
        self.trains += 1;
        if self.trains >= self.settings.trains {
            self.trains = 0;
            let gaps = std::mem::take(&mut self.gaps_ns);
            self.judge(&gaps);
        }
    }

    /// All trains of this gap are in.
    fn judge(&mut self, gaps: &[(f64, f64)]) {
        self.gaps_tried += 1;
        let (sent, received): (Vec<f64>, Vec<f64>) = gaps.iter().copied().unzip();
        if let (Some(sent_ns), Some(received_ns)) = (mean(&sent), mean(&received)) {
            let step_ns = *self.step_ns.get_or_insert(received_ns * self.settings.step_share);
            let turned = received_ns <= sent_ns + self.settings.tolerance_ns;
            self.turns = if turned { self.turns + 1 } else { 0 };
            if self.turns <= 1 {
                self.answer = if turned { self.answer(gaps, received_ns) } else { None };
            }
            if self.turns >= self.settings.turns {
                self.end = Some(if self.answer.is_some() { Stopped::Converged } else { Stopped::GaveUp });
                return;
            }
            self.gap_ns += if step_ns > 0.0 { step_ns } else { self.settings.tolerance_ns.max(1e3) };
        }
        if self.gaps_tried >= self.settings.most_gaps {
            self.end = Some(Stopped::GaveUp);
        }
    }

    fn answer(&self, gaps: &[(f64, f64)], received_ns: f64) -> Option<f64> {
        match self.formula {
            Formula::Ptr => (received_ns > 0.0).then(|| rate_bit_per_s(self.size_byte, received_ns)),
            Formula::Igi => {
                let capacity = self.capacity.known()?;
                let narrow_ns = gap_ns(self.size_byte, capacity);
                let sum: f64 = gaps.iter().map(|(_, received)| received).sum();
                // Gaps that grew on the way, and are longer than the link alone makes them.
                let grew = gaps.iter().filter(|(sent, received)| received > sent && *received > narrow_ns);
                let crossed: f64 = grew.map(|(_, received)| received - narrow_ns).sum();
                (sum > 0.0).then(|| capacity * (1.0 - crossed / sum).max(0.0))
            }
        }
    }
}

impl Rules for Igi {
    fn name(&self) -> &'static str {
        match self.formula {
            Formula::Igi => "igi",
            Formula::Ptr => "ptr",
        }
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if let Some(end) = self.end {
            return Err(end);
        }
        if self.wants_capacity() {
            match self.capacity.next() {
                Ok(capacity) => drop(capacity?),
                Err(train) => return Ok(train),
            }
        }
        let first = self.gaps_tried == 0 && self.trains == 0;
        let idle_ns = if first { 0.0 } else { self.settings.idle_ns };
        let spacing = if self.gap_ns > 0.0 { Spacing::Constant { gap_ns: self.gap_ns } } else { Spacing::BACK_TO_BACK };
        let (packets, size_byte) = (self.settings.packets, self.size_byte);
        Ok(Train { packets, size_byte, spacing, idle_before_ns: whole_ns(idle_ns) })
    }

    fn observe(&mut self, observation: &Observation) {
        if self.wants_capacity() && self.capacity.observe(observation) {
            return;
        }
        self.gaps_ns.extend(observation.gaps_ns());
        self.train_over();
    }

    fn silent(&mut self) {
        if !(self.wants_capacity() && self.capacity.silent()) {
            self.train_over();
        }
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let mut estimate = Estimate::none(spent, stopped);
        estimate.avb_bit_per_s = self.answer.filter(|_| stopped == Stopped::Converged);
        if self.wants_capacity() {
            estimate.capacity_bit_per_s = self.capacity.known();
            self.capacity.note(&mut estimate);
        }
        if stopped == Stopped::GaveUp {
            estimate.notes.push("no turning point: the path kept adding to the gaps".to_owned());
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::{even, seen};
    use super::*;

    fn at_gap(it: &mut Igi, sent_ns: f64, received_ns: f64) {
        for _ in 0..3 {
            it.observe(&even(60, 500, sent_ns, received_ns));
        }
    }

    #[test]
    fn gaps_grow_by_a_quarter_of_the_first_received_gap_until_two_turn() {
        let mut it = Igi::new(IgiSettings::default(), Formula::Ptr, &Setup::default());
        assert_eq!(it.next().expect("first").spacing, Spacing::BACK_TO_BACK);
        at_gap(&mut it, 0.0, 40_000.0);
        assert_eq!(it.next().expect("second").spacing, Spacing::Constant { gap_ns: 10_000.0 });
        at_gap(&mut it, 10_000.0, 15_001.0);
        assert_eq!((it.turns, it.gap_ns), (0, 20_000.0));
        at_gap(&mut it, 20_000.0, 25_000.0);
        assert_eq!((it.turns, it.gap_ns), (1, 30_000.0));
        // A gap that does not meet it starts the count again.
        at_gap(&mut it, 30_000.0, 36_000.0);
        assert_eq!(it.turns, 0);
        at_gap(&mut it, 40_000.0, 44_000.0);
        at_gap(&mut it, 50_000.0, 50_000.0);
        // 500 B every 44 us: the first of the two gaps is the turning point, the second bears it out.
        assert_eq!(it.next(), Err(Stopped::Converged));
        assert!((it.answer.expect("turned") / (4e12 / 44e3) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn igi_takes_the_gaps_that_grew() {
        let settings = IgiSettings { capacity_bit_per_s: Some(100e6), ..IgiSettings::default() };
        let it = Igi::new(settings, Formula::Igi, &Setup::default());
        // 500 B at 100 Mbit/s are 40 us. One gap grew to 60, one shrank to 40, one grew but is shorter than the link
        // makes them.
        let found = it.answer(&[(50_000.0, 60_000.0), (50_000.0, 40_000.0), (20_000.0, 30_000.0)], 50_000.0);
        assert_eq!(found, Some(100e6 * (1.0 - 20.0 / 130.0)));
    }

    #[test]
    fn trains_without_neighbours_end_by_the_number_of_gaps() {
        let settings = IgiSettings { most_gaps: 4, ..IgiSettings::default() };
        let mut it = Igi::new(settings, Formula::Ptr, &Setup::default());
        let alone = seen(500, &[(0.0, Some(5.0)), (1.0, None)]);
        (0..12).for_each(|_| it.observe(&alone));
        assert_eq!(it.next(), Err(Stopped::GaveUp));
    }
}
