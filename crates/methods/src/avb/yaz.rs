use serde::{Deserialize, Serialize};

use super::classic::{
    Rules, between, from_0, gap_ns, least, mean, median, rate, rate_bit_per_s, size_within, whole_ns,
};
use super::{Estimate, Observation, Random, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of Yaz: one stream a step, the gap widened by half of what the path adds to it, until the path adds
/// nothing.
//= Sommers, Barford, Willinger 2006, A Proposed Framework for Calibration of Available Bandwidth Estimation Tools
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct YazSettings {
    /// Packets a stream.
    pub packets: u32,
    /// Streams at each spacing, judged together.
    pub streams: u32,
    /// Estimates; the answer is their median.
    pub samples: u32,
    /// Size that a sample starts with, bytes (IP), where the path takes it.
    pub size_byte: u32,
    /// Size below which packets are not halved, bytes (IP).
    pub least_size_byte: u32,
    /// Spacing that a sample starts with and never goes below, ns. Stock Yaz: 40 us, compiled in, so that it ends at
    /// 300 Mbit/s with 1500 B.
    pub least_spacing_ns: f64,
    /// Spacing above which the packets halve, ns.
    pub most_spacing_ns: f64,
    /// Change of rate to be resolved, bit/s: it sets how much the path may add to a gap.
    pub resolution_bit_per_s: f64,
    /// What the path may add to a gap in any case, ns.
    pub tolerance_ns: f64,
    /// Packets that may be lost of a stream.
    pub most_lost: u32,
    /// Send gaps above this many times the spacing are not counted.
    pub most_send_gap_factor: f64,
    /// Receive gaps from this on are not counted, ns.
    pub most_receive_gap_ns: f64,
    /// Added to the spacing where the rule leaves it as it was, ns.
    pub stall_step_ns: f64,
    /// How often in a row.
    pub most_stalls: u32,
    /// Mean of the exponential silence between streams, ns.
    pub idle_stream_ns: f64,
    /// Mean of the exponential silence between samples, ns.
    pub idle_sample_ns: f64,
    /// Spacings and the receiver's mean gap are cut to whole microseconds, as the original does.
    pub whole_us: bool,
    /// Streams after which a sample is given up.
    pub most_streams: u32,
}

impl Default for YazSettings {
    fn default() -> Self {
        Self {
            packets: 50,
            streams: 1,
            samples: 1,
            size_byte: 1500,
            least_size_byte: 200,
            least_spacing_ns: 40_000.0,
            most_spacing_ns: 1_000_000.0,
            resolution_bit_per_s: 500_000.0,
            tolerance_ns: 1_000.0,
            most_lost: 1,
            most_send_gap_factor: 2.0,
            most_receive_gap_ns: 10_000_000.0,
            stall_step_ns: 2_000.0,
            most_stalls: 5,
            idle_stream_ns: 50_000_000.0,
            idle_sample_ns: 500_000_000.0,
            whole_us: true,
            most_streams: 400,
        }
    }
}

impl YazSettings {
    /// For links of 1 Gbit/s, as patched for the paper: a smaller spacing to start with. How small is not printed; 10
    /// us are 1.2 Gbit/s.
    //= Kirova et al. 2019, Impact of Modern Virtualization Methods on Timing Precision, section 2.2.3
    #[must_use]
    pub fn kirova_1g() -> Self {
        Self { least_spacing_ns: 10_000.0, ..Self::default() }
    }

    /// The optimised column of Table 2. The spacing that 10 Gbit/s needs is not printed; 7 us of 9000 B are 10.3
    /// Gbit/s.
    //= Kachan, Kirova, Korniiichuk 2017, Table 2
    #[must_use]
    pub fn kachan_optimized() -> Self {
        Self { size_byte: 9000, least_size_byte: 1500, streams: 3, least_spacing_ns: 7_000.0, ..Self::default() }
    }

    /// Small spacings without the original's whole microseconds: 1 us, a resolution of 0.1 us.
    #[must_use]
    pub fn small_spacing() -> Self {
        Self { least_spacing_ns: 1_000.0, tolerance_ns: 100.0, whole_us: false, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("packets", self.packets, 2)?;
        least("streams", self.streams, 1)?;
        least("samples", self.samples, 1)?;
        least("least_size_byte", self.least_size_byte, 1)?;
        least("most_streams", self.most_streams, 1)?;
        between("least_spacing_ns", self.least_spacing_ns, 0.0, 1e9)?;
        between("most_spacing_ns", self.most_spacing_ns, 0.0, 1e9)?;
        rate("resolution_bit_per_s", self.resolution_bit_per_s)?;
        between("tolerance_ns", self.tolerance_ns, 0.0, 1e9)?;
        between("most_send_gap_factor", self.most_send_gap_factor, 1.0, 1e6)?;
        between("most_receive_gap_ns", self.most_receive_gap_ns, 0.0, 1e12)?;
        between("stall_step_ns", self.stall_step_ns, 0.0, 1e9)?;
        for (what, ns) in [("idle_stream_ns", self.idle_stream_ns), ("idle_sample_ns", self.idle_sample_ns)] {
            from_0(what, ns, 1e12)?;
        }
        Ok(())
    }

    fn cut(&self, ns: f64) -> f64 {
        if self.whole_us { (ns / 1e3).floor() * 1e3 } else { ns }
    }

    /// How much longer gaps may be at the receiver than they were at the sender, ns.
    fn allowed_ns(&self, size_byte: u32, sent_gap_ns: f64) -> f64 {
        let sent = rate_bit_per_s(size_byte, sent_gap_ns);
        let less = sent - self.resolution_bit_per_s;
        let change = if less > 0.0 { gap_ns(size_byte, less) - sent_gap_ns } else { sent_gap_ns };
        change.max(self.tolerance_ns)
    }
}

/// What the streams at one spacing showed.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent_gap_ns: Vec<f64>,
    received_gap_ns: Vec<f64>,
    lost: u32,
}

/// Yaz under way.
#[derive(Clone, Debug)]
pub(super) struct Yaz {
    settings: YazSettings,
    start_byte: u32,
    least_byte: u32,
    random: Random,
    size_byte: u32,
    spacing_ns: f64,
    seen: Seen,
    /// Streams at this spacing, and in this sample.
    streams: u32,
    sample_streams: u32,
    stalls: u32,
    samples: Vec<f64>,
    limited: u32,
    end: Option<Stopped>,
}

impl Yaz {
    pub(super) fn new(settings: YazSettings, setup: &Setup) -> Self {
        let start_byte = size_within(settings.size_byte, &setup.ability);
        Self {
            start_byte,
            least_byte: size_within(settings.least_size_byte, &setup.ability).min(start_byte),
            random: Random::new(setup.seed),
            size_byte: start_byte,
            spacing_ns: settings.cut(settings.least_spacing_ns).max(1.0),
            settings,
            seen: Seen::default(),
            streams: 0,
            sample_streams: 0,
            stalls: 0,
            samples: Vec::new(),
            limited: 0,
            end: None,
        }
    }

    fn first_spacing_ns(&self) -> f64 {
        self.settings.cut(self.settings.least_spacing_ns).max(1.0)
    }

    /// All streams of this spacing are in.
    fn judge(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let sent_ns = mean(&seen.sent_gap_ns).unwrap_or(self.spacing_ns);
        let received_ns = mean(&seen.received_gap_ns).map(|ns| self.settings.cut(ns));
        let added_ns = received_ns.map(|ns| (ns - sent_ns).abs());
        let lossy = seen.lost > self.settings.most_lost * self.settings.streams;
        let allowed_ns = self.settings.allowed_ns(self.size_byte, sent_ns);
        if let Some(added_ns) = added_ns
            && added_ns <= allowed_ns
            && !lossy
        {
            let floor = self.spacing_ns <= self.first_spacing_ns() && self.size_byte == self.start_byte;
            // Asked for less than the sender can: the gap is its own, not the path's.
            let slow = sent_ns > 1.05 * self.spacing_ns;
            self.limited += u32::from(floor || slow);
            self.sample(rate_bit_per_s(self.size_byte, sent_ns));
            return;
        }
        if self.sample_streams >= self.settings.most_streams {
            self.end = Some(Stopped::GaveUp);
            return;
        }
        let next_ns = self.settings.cut(sent_ns + added_ns.unwrap_or(0.0) / 2.0);
        if next_ns > self.spacing_ns {
            self.stalls = 0;
            self.spacing_ns = next_ns;
        } else {
            self.stalls += 1;
            self.spacing_ns += self.settings.stall_step_ns;
            if self.stalls > self.settings.most_stalls {
                self.end = Some(if lossy { Stopped::Lossy } else { Stopped::GaveUp });
            }
        }
        if self.spacing_ns > self.settings.most_spacing_ns && self.size_byte > self.least_byte {
            // Both halve, so that the rate stays.
            let halved = (self.size_byte / 2).max(self.least_byte);
            self.spacing_ns *= f64::from(halved) / f64::from(self.size_byte);
            self.size_byte = halved;
        }
    }

    fn sample(&mut self, rate_bit_per_s: f64) {
        self.samples.push(rate_bit_per_s);
        if self.samples.len() >= self.settings.samples as usize {
            self.end = Some(Stopped::Converged);
        }
        (self.size_byte, self.spacing_ns) = (self.start_byte, self.first_spacing_ns());
        (self.sample_streams, self.stalls) = (0, 0);
    }

    fn stream_over(&mut self) {
        self.streams += 1;
        self.sample_streams += 1;
        if self.streams >= self.settings.streams {
            self.streams = 0;
            self.judge();
        }
    }
}

impl Rules for Yaz {
    fn name(&self) -> &'static str {
        "yaz"
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if let Some(end) = self.end {
            return Err(end);
        }
        let idle_ns = match (self.sample_streams, self.samples.is_empty()) {
            (0, true) => 0.0,
            (0, false) => self.random.exponential(self.settings.idle_sample_ns),
            _ => self.random.exponential(self.settings.idle_stream_ns),
        };
        Ok(Train {
            packets: self.settings.packets,
            size_byte: self.size_byte,
            spacing: Spacing::Constant { gap_ns: self.spacing_ns },
            idle_before_ns: whole_ns(idle_ns),
        })
    }

    fn observe(&mut self, observation: &Observation) {
        let most_ns = self.settings.most_send_gap_factor * self.spacing_ns;
        let sent: Vec<u64> = observation.packets.iter().filter_map(|it| Some(it.left()?.as_nanos())).collect();
        let gaps = sent.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64);
        self.seen.sent_gap_ns.extend(gaps.filter(|&gap| gap <= most_ns));
        let received = observation.gaps_ns().into_iter().map(|(_, received)| received);
        self.seen.received_gap_ns.extend(received.filter(|&gap| gap < self.settings.most_receive_gap_ns));
        self.seen.lost += observation.sent().saturating_sub(observation.received()) as u32;
        self.stream_over();
    }

    fn silent(&mut self) {
        self.seen.lost += self.settings.packets;
        self.stream_over();
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some(avb) = median(&self.samples) else {
            let mut estimate = Estimate::none(spent, stopped);
            if stopped == Stopped::GaveUp {
                let at = self.spacing_ns / 1e3;
                estimate
                    .notes
                    .push(format!("gaps kept growing or shrinking on the way, down to one packet every {at} us"));
            }
            return estimate;
        };
        let mut estimate = Estimate::of(spent, stopped, avb);
        let gap = gap_ns(self.start_byte, avb);
        if self.settings.tolerance_ns > gap / 20.0 {
            let share = 100.0 * self.settings.tolerance_ns / gap;
            estimate.notes.push(format!("its resolution is {share:.0} % of a gap here: see tolerance_ns, whole_us"));
        }
        if self.limited * 2 > self.samples.len() as u32 {
            estimate.at_least = true;
            if stopped == Stopped::Converged {
                estimate.stopped = Stopped::SenderLimited;
            }
            let (floor_us, size) = (self.first_spacing_ns() / 1e3, self.start_byte);
            let note = format!(
                "no queue as fast as it went: the least spacing is {floor_us} us of {size} B, or the sender cannot \
                 pace that"
            );
            estimate.notes.push(note);
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::{even, seen};
    use super::*;

    fn yaz() -> Yaz {
        Yaz::new(YazSettings::default(), &Setup::default())
    }

    fn spacing_us(yaz: &mut Yaz) -> f64 {
        match yaz.next().expect("more").spacing {
            Spacing::Constant { gap_ns } => gap_ns / 1e3,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_next_spacing_is_the_last_and_half_of_what_the_path_added_in_whole_us() {
        let mut yaz = yaz();
        assert_eq!(spacing_us(&mut yaz), 40.0);
        // 1500 B every 40 us arrive every 140.9 us: the receiver reports 140, half of 100 is added.
        yaz.observe(&even(50, 1500, 40_000.0, 140_900.0));
        assert_eq!(spacing_us(&mut yaz), 90.0);
        yaz.observe(&even(50, 1500, 90_000.0, 165_000.0));
        // 90 + 37.5, cut.
        assert_eq!(spacing_us(&mut yaz), 127.0);
    }

    #[test]
    fn without_whole_us_nothing_is_cut() {
        let mut yaz = Yaz::new(YazSettings { whole_us: false, ..YazSettings::default() }, &Setup::default());
        yaz.observe(&even(50, 1500, 40_000.0, 140_900.0));
        assert_eq!(spacing_us(&mut yaz), 90.45);
    }

    #[test]
    fn it_stops_at_what_a_change_of_500_kbit_per_s_adds_to_the_gap() {
        // At 50 Mbit/s, 1500 B every 240 us, that is 240/99 = 2.42 us; at 300 Mbit/s 0.07 us, so 1 us counts.
        let settings = YazSettings::default();
        assert!((settings.allowed_ns(1500, 240_000.0) - 240_000.0 / 99.0).abs() < 1e-6);
        assert_eq!(settings.allowed_ns(1500, 40_000.0), 1_000.0);
        for (added_ns, ends) in [(2_000.0, true), (3_000.0, false)] {
            let mut yaz = yaz();
            yaz.spacing_ns = 240_000.0;
            yaz.observe(&even(50, 1500, 240_000.0, 240_000.0 + added_ns));
            assert_eq!(yaz.next().err(), ends.then_some(Stopped::Converged));
            assert_eq!(yaz.samples, if ends { vec![5e7] } else { vec![] });
        }
    }

    #[test]
    fn two_packets_lost_are_congestion_and_five_steps_of_2_us_are_tried() {
        let mut yaz = yaz();
        let at = |i: u32| (f64::from(i) * 40_000.0, (i != 20 && i != 30).then(|| f64::from(i) * 40_000.0));
        let lossy = seen(1500, &(0..50).map(at).collect::<Vec<_>>());
        for spacing in [40.0, 42.0, 44.0, 46.0, 48.0, 50.0] {
            assert_eq!(spacing_us(&mut yaz), spacing);
            yaz.observe(&lossy);
        }
        assert_eq!(yaz.next(), Err(Stopped::Lossy));
    }

    #[test]
    fn above_1000_us_packets_and_spacing_halve() {
        let mut yaz = yaz();
        yaz.spacing_ns = 900_000.0;
        yaz.observe(&even(50, 1500, 900_000.0, 1_200_000.0));
        let train = yaz.next().expect("more");
        assert_eq!((train.size_byte, train.spacing), (750, Spacing::Constant { gap_ns: 525_000.0 }));
    }

    #[test]
    fn gaps_of_a_late_sender_and_of_a_pause_are_not_counted() {
        let mut yaz = yaz();
        let late = |i: u32| f64::from(i) * 40_000.0 + if i >= 25 { 100_000.0 } else { 0.0 };
        let paused = |i: u32| f64::from(i) * 40_000.0 + if i >= 40 { 11_000_000.0 } else { 0.0 };
        yaz.observe(&seen(1500, &(0..50).map(|i| (late(i), Some(paused(i)))).collect::<Vec<_>>()));
        assert_eq!(yaz.samples, [3e8]);
    }
}
