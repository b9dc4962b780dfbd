use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, from_0, gap_ns, least, median, rate, rate_bit_per_s, size_within, whole_ns};
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of Pathload: fleets of streams at one rate, and the trend of the one-way delay in each.
//= Jain, Dovrolis 2002, Pathload: a measurement tool for end-to-end available bandwidth
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathloadSettings {
    /// Streams a fleet.
    pub streams: u32,
    /// Packets a stream.
    pub packets: u32,
    /// Packets of the back-to-back train that gives the first rate.
    pub first_packets: u32,
    /// Spacing at rates where the size can still grow, ns.
    pub spacing_ns: f64,
    /// Least spacing, ns: with the largest packet the highest rate that is tried.
    pub least_spacing_ns: f64,
    /// Least size of a packet, bytes (IP).
    pub least_size_byte: u32,
    /// Silence between streams in durations of a stream.
    pub idle_streams: f64,
    /// Share of increases between the medians of groups above which delay rises (PCT).
    pub pct_threshold: f64,
    /// Net change over the sum of changes above which delay rises (PDT).
    pub pdt_threshold: f64,
    /// Around both thresholds: nothing follows within this share of them.
    pub unclear_share: f64,
    /// Share of the streams of a fleet that must agree.
    pub agree_share: f64,
    /// Loss of one stream that ends a fleet.
    pub most_loss: f64,
    /// Loss above which a stream counts as lossy; half of a fleet lossy is congestion.
    pub lossy_share: f64,
    /// Width of the answer that is narrow enough, share of the first rate.
    pub width_share: f64,
    /// The same where the receiver gets packets in bursts (interrupt moderation).
    pub width_coalesced_share: f64,
    /// Width of what is left beside the grey region that is narrow enough, share of the first rate...
    pub grey_share: f64,
    /// ...and at most this, bit/s.
    pub most_grey_bit_per_s: f64,
    /// Fleets after which it ends with what it has.
    pub most_fleets: u32,
}

impl Default for PathloadSettings {
    fn default() -> Self {
        Self {
            streams: 12,
            packets: 100,
            first_packets: 50,
            spacing_ns: 80_000.0,
            least_spacing_ns: 7_000.0,
            least_size_byte: 200,
            idle_streams: 9.0,
            pct_threshold: 0.55,
            pdt_threshold: 0.4,
            unclear_share: 0.1,
            agree_share: 0.6,
            most_loss: 0.15,
            lossy_share: 0.03,
            width_share: 0.02,
            width_coalesced_share: 0.05,
            grey_share: 0.05,
            most_grey_bit_per_s: 12e6,
            most_fleets: 60,
        }
    }
}

impl PathloadSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("streams", self.streams, 1)?;
        least("packets", self.packets, 9)?;
        least("first_packets", self.first_packets, 2)?;
        least("least_size_byte", self.least_size_byte, 1)?;
        least("most_fleets", self.most_fleets, 1)?;
        between("spacing_ns", self.spacing_ns, 0.0, 1e9)?;
        between("least_spacing_ns", self.least_spacing_ns, 0.0, 1e9)?;
        from_0("idle_streams", self.idle_streams, 1e6)?;
        for (what, share) in [
            ("pct_threshold", self.pct_threshold),
            ("pdt_threshold", self.pdt_threshold),
            ("agree_share", self.agree_share),
            ("most_loss", self.most_loss),
            ("lossy_share", self.lossy_share),
            ("width_share", self.width_share),
            ("width_coalesced_share", self.width_coalesced_share),
            ("grey_share", self.grey_share),
        ] {
            between(what, share, 0.0, 1.0)?;
        }
        from_0("unclear_share", self.unclear_share, 1.0)?;
        rate("most_grey_bit_per_s", self.most_grey_bit_per_s)
    }

    /// The stream of a rate: size and spacing.
    fn stream(&self, rate_bit_per_s: f64, ability: &Ability) -> (u32, f64) {
        let size = (rate_bit_per_s * self.spacing_ns / 8e9).round().clamp(1.0, 65_535.0) as u32;
        let size_byte = size_within(size.max(self.least_size_byte), ability);
        (size_byte, gap_ns(size_byte, rate_bit_per_s).max(self.least_spacing_ns))
    }
}

/// The verdict of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    Rises,
    Flat,
    Unclear,
}

/// One threshold with its unclear band.
fn against(value: f64, threshold: f64, unclear_share: f64) -> Trend {
    if value > threshold * (1.0 + unclear_share) {
        Trend::Rises
    } else if value < threshold * (1.0 - unclear_share) {
        Trend::Flat
    } else {
        Trend::Unclear
    }
}

/// Share of increases (PCT), and net change over the sum of all changes (PDT), from one value to the next. A change
/// within `least_ns` is none; without any change both are 0.
//= Jain, Dovrolis 2002, pairwise comparison test and pairwise difference test
fn pct_pdt(values: &[f64], least_ns: f64) -> Option<(f64, f64)> {
    let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| step.is_finite()).collect();
    if steps.is_empty() {
        return None;
    }
    let rises = steps.iter().filter(|&&step| step > least_ns).count() as f64 / steps.len() as f64;
    let sum: f64 = steps.iter().map(|step| step.abs()).sum();
    let net: f64 = steps.iter().sum();
    Some((rises, if sum > least_ns { net / sum } else { 0.0 }))
}

/// The verdict of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Above,
    Below,
    Grey,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fleet {
    sent: u32,
    rises: u32,
    flat: u32,
    lossy: u32,
    aborted: bool,
    slow: u32,
}

/// Pathload under way.
#[derive(Clone, Debug)]
pub(super) struct Pathload {
    settings: PathloadSettings,
    ability: Ability,
    /// Rate at which the first train arrived.
    first_bit_per_s: Option<f64>,
    coalesced: bool,
    rate_bit_per_s: f64,
    fleet: Fleet,
    fleets: u32,
    /// Highest rate known to be below, least known to be above, and the grey region.
    below: f64,
    above: Option<f64>,
    grey: Option<(f64, f64)>,
    end: Option<Stopped>,
}

impl Pathload {
    pub(super) fn new(settings: PathloadSettings, setup: &Setup) -> Self {
        Self {
            settings,
            ability: setup.ability,
            first_bit_per_s: None,
            coalesced: false,
            rate_bit_per_s: 0.0,
            fleet: Fleet::default(),
            fleets: 0,
            below: 0.0,
            above: None,
            grey: None,
            end: None,
        }
    }

    /// The highest rate there is: the largest packet at the least spacing, or what the sender can.
    fn most_bit_per_s(&self) -> f64 {
        let size = self.ability.most_packet_byte;
        rate_bit_per_s(size, self.settings.least_spacing_ns.max(self.ability.least_gap_ns))
    }

    fn first(&mut self, observation: &Observation) {
        let stamps = observation.packets.iter().filter_map(|packet| packet.received);
        let mut stamps: Vec<u64> = stamps.map(|at| at.as_nanos()).collect();
        stamps.sort_unstable();
        let together = stamps.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // Most packets share their stamp with the one before: the receiver gets bursts.
        self.coalesced = together * 2 > stamps.len();
        let most = self.most_bit_per_s();
        let first = observation.received_bit_per_s().filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(most);
        self.first_bit_per_s = Some(first);
        self.rate_bit_per_s = first.min(most);
    }

    fn trend(&self, observation: &Observation) -> Trend {
        let mut arrivals = observation.arrivals();
        if self.coalesced {
            // Of packets with one stamp only the last has waited for nothing but the path.
            arrivals.reverse();
            arrivals.dedup_by_key(|arrival| arrival.received_ns.to_bits());
            arrivals.reverse();
        }
        let delays: Vec<f64> = arrivals.iter().map(super::SortedArrival::delay_ns).collect();
        let group = (delays.len() as f64).sqrt().floor().max(1.0) as usize;
        let medians: Vec<f64> = delays.chunks_exact(group).filter_map(median).collect();
        let Some((pct, pdt)) = pct_pdt(&medians, self.ability.stamp_error_ns / 2.0) else { return Trend::Unclear };
        let unclear = self.settings.unclear_share;
        let by_pct = against(pct, self.settings.pct_threshold, unclear);
        let by_pdt = against(pdt, self.settings.pdt_threshold, unclear);
        // One may be unclear, but they must not contradict each other.
        match (by_pct, by_pdt) {
            (Trend::Unclear, only) | (only, Trend::Unclear) => only,
            (pct, pdt) if pct == pdt => pct,
            _ => Trend::Unclear,
        }
    }

    fn stream_over(&mut self, trend: Trend, loss: f64, slow: bool) {
        let fleet = &mut self.fleet;
        fleet.sent += 1;
        fleet.slow += u32::from(slow);
        fleet.lossy += u32::from(loss > self.settings.lossy_share);
        fleet.aborted |= loss > self.settings.most_loss;
        match trend {
            Trend::Rises => fleet.rises += 1,
            Trend::Flat => fleet.flat += 1,
            Trend::Unclear => {}
        }
        if fleet.aborted || fleet.sent >= self.settings.streams {
            let fleet = std::mem::take(fleet);
            self.fleet_over(fleet);
        }
    }

    fn verdict(&self, fleet: &Fleet) -> Verdict {
        let share = |n: u32| f64::from(n) / f64::from(fleet.sent.max(1));
        if fleet.aborted || fleet.lossy * 2 > fleet.sent || share(fleet.rises) >= self.settings.agree_share {
            Verdict::Above
        } else if share(fleet.flat) >= self.settings.agree_share {
            Verdict::Below
        } else {
            Verdict::Grey
        }
    }

    fn fleet_over(&mut self, fleet: Fleet) {
        self.fleets += 1;
        let (verdict, rate) = (self.verdict(&fleet), self.rate_bit_per_s);
        match verdict {
            Verdict::Above => self.above = Some(self.above.map_or(rate, |above| above.min(rate))),
            Verdict::Below => self.below = self.below.max(rate),
            Verdict::Grey => {
                self.grey = Some(self.grey.map_or((rate, rate), |(low, high)| (low.min(rate), high.max(rate))));
            }
        }
        // A rate that has since been found above or below is grey no more.
        let (below, above) = (self.below, self.above.unwrap_or(f64::INFINITY));
        self.grey = self.grey.map(|(low, high)| (low.max(below), high.min(above))).filter(|(low, high)| low <= high);
        let slow = fleet.slow * 2 > fleet.sent;
        if verdict != Verdict::Above && (slow || rate >= self.most_bit_per_s()) {
            // Without a rate that was surely below there is nothing to be at least.
            self.end = Some(if self.below > 0.0 { Stopped::SenderLimited } else { Stopped::GaveUp });
        } else if self.narrow() {
            self.end = Some(Stopped::Converged);
        } else if self.fleets >= self.settings.most_fleets || self.above.is_some_and(|above| above <= self.below) {
            self.end = Some(Stopped::GaveUp);
        } else {
            self.rate_bit_per_s = self.next_rate();
        }
    }

    fn grey_width(&self) -> f64 {
        let first = self.first_bit_per_s.unwrap_or(0.0);
        (self.settings.grey_share * first).min(self.settings.most_grey_bit_per_s)
    }

    fn narrow(&self) -> bool {
        let Some(above) = self.above else { return false };
        let share = if self.coalesced { self.settings.width_coalesced_share } else { self.settings.width_share };
        let width = share * self.first_bit_per_s.unwrap_or(0.0);
        let beside = self.grey_width();
        let grey = self.grey.is_some_and(|(low, high)| above - high <= beside && low - self.below <= beside);
        above - self.below <= width || grey
    }

    fn next_rate(&self) -> f64 {
        let next = match (self.above, self.grey) {
            (None, None) => 2.0 * self.rate_bit_per_s,
            (None, Some((_, high))) => 2.0 * high,
            (Some(above), None) => f64::midpoint(self.below, above),
            (Some(above), Some((_, high))) if above - high > self.grey_width() => f64::midpoint(high, above),
            (Some(_), Some((low, _))) => f64::midpoint(self.below, low),
        };
        next.min(self.most_bit_per_s())
    }
}

impl Rules for Pathload {
    fn name(&self) -> &'static str {
        "pathload"
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if let Some(end) = self.end {
            return Err(end);
        }
        if self.first_bit_per_s.is_none() {
            return Ok(Train::back_to_back(self.settings.first_packets, self.ability.most_packet_byte));
        }
        let (size_byte, gap_ns) = self.settings.stream(self.rate_bit_per_s, &self.ability);
        let idle_ns = self.settings.idle_streams * f64::from(self.settings.packets) * gap_ns;
        Ok(Train {
            packets: self.settings.packets,
            size_byte,
            spacing: Spacing::Constant { gap_ns },
            idle_before_ns: whole_ns(idle_ns),
        })
    }

    fn observe(&mut self, observation: &Observation) {
        if self.first_bit_per_s.is_none() {
            return self.first(observation);
        }
        let sent = observation.sent_bit_per_s();
        let slow = sent.is_some_and(|sent| sent < 0.95 * self.rate_bit_per_s);
        self.stream_over(self.trend(observation), observation.loss().unwrap_or(0.0), slow);
    }

    fn silent(&mut self) {
        if self.first_bit_per_s.is_some() {
            self.stream_over(Trend::Unclear, 1.0, false);
        }
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        match (self.above, self.below > 0.0 || self.above.is_some()) {
            (Some(above), _) if above >= self.below => {
                let mut estimate = Estimate::of(spent, stopped, f64::midpoint(self.below, above));
                estimate.interval_bit_per_s = Some([self.below, above]);
                estimate.notes.push("the interval is the range of rates that were neither above nor below".to_owned());
                estimate
            }
            (None, true) => {
                let mut estimate = Estimate::of(spent, stopped, self.below);
                estimate.at_least = true;
                estimate.notes.push("no rate that could be sent made the delay rise".to_owned());
                estimate
            }
            _ => Estimate::none(spent, stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::delayed;
    use super::*;

    fn pathload(first_bit_per_s: f64) -> Pathload {
        let mut it = Pathload::new(PathloadSettings::default(), &Setup::default());
        (it.first_bit_per_s, it.rate_bit_per_s) = (Some(first_bit_per_s), first_bit_per_s);
        it
    }

    fn fleet(it: &mut Pathload, rises: u32, flat: u32) {
        for i in 0..12 {
            let trend = if i < rises {
                Trend::Rises
            } else if i < rises + flat {
                Trend::Flat
            } else {
                Trend::Unclear
            };
            it.stream_over(trend, 0.0, false);
        }
    }

    #[test]
    fn pct_counts_increases_and_pdt_weighs_them() {
        let (pct, pdt) = pct_pdt(&[0.0, 10.0, 20.0, 15.0, 30.0], 0.0).expect("four steps");
        // Steps 10, 10, -5, 15: three of four rise; net 30 of 40.
        assert_eq!((pct, pdt), (0.75, 0.75));
        assert_eq!(pct_pdt(&[5.0; 10], 0.0), Some((0.0, 0.0)));
        assert_eq!(pct_pdt(&[5.0], 0.0), None);
    }

    #[test]
    fn ten_percent_around_each_threshold_is_unclear() {
        let pct = |value| against(value, 0.55, 0.1);
        assert_eq!(
            [pct(0.606), pct(0.604), pct(0.496), pct(0.494)],
            [Trend::Rises, Trend::Unclear, Trend::Unclear, Trend::Flat]
        );
        let pdt = |value| against(value, 0.4, 0.1);
        assert_eq!(
            [pdt(0.441), pdt(0.439), pdt(0.361), pdt(0.359)],
            [Trend::Rises, Trend::Unclear, Trend::Unclear, Trend::Flat]
        );
    }

    #[test]
    fn tests_that_contradict_each_other_state_nothing() {
        let it = pathload(1e8);
        // Nine of ten groups rise a little, then all is undone: PCT finds a rise, PDT none.
        let delays: Vec<f64> = (0..100).map(|i| if i < 90 { f64::from(i / 10) * 1_000.0 } else { 0.0 }).collect();
        assert_eq!(it.trend(&delayed(1000, 80_000.0, &delays)), Trend::Unclear);
        let rising: Vec<f64> = (0..100).map(|i| f64::from(i) * 300.0).collect();
        assert_eq!(it.trend(&delayed(1000, 80_000.0, &rising)), Trend::Rises);
        assert_eq!(it.trend(&delayed(1000, 80_000.0, &[700.0; 100])), Trend::Flat);
    }

    #[test]
    fn of_packets_with_one_stamp_only_the_last_has_a_delay() {
        // Handed over in bursts of 25, each 50 us later than its last packet would have been without a queue.
        let delay = |i: u32| f64::from(24 - i % 25) * 80_000.0 + f64::from(i / 25) * 50_000.0;
        let bursts = delayed(1000, 80_000.0, &(0..100).map(delay).collect::<Vec<_>>());
        let mut it = pathload(1e8);
        it.first(&bursts);
        assert!(it.coalesced);
        assert_eq!(it.trend(&bursts), Trend::Rises);
        it.first(&delayed(1000, 80_000.0, &[0.0; 100]));
        assert!(!it.coalesced);
    }

    #[test]
    fn sixty_percent_of_the_streams_decide_and_else_it_is_grey() {
        // 8 of 12 are two thirds, 7 of 12 are 58 %.
        for (rises, flat, want) in [(8, 0, Verdict::Above), (7, 5, Verdict::Grey), (4, 8, Verdict::Below)] {
            let fleet = Fleet { sent: 12, rises, flat, ..Fleet::default() };
            assert_eq!(pathload(1e8).verdict(&fleet), want, "{rises} {flat}");
        }
    }

    #[test]
    fn the_rate_doubles_until_congestion_and_is_halved_outside_the_grey_region() {
        let mut it = pathload(100e6);
        fleet(&mut it, 0, 12);
        assert_eq!(it.rate_bit_per_s, 200e6);
        fleet(&mut it, 12, 0);
        assert_eq!((it.below, it.above, it.rate_bit_per_s), (100e6, Some(200e6), 150e6));
        fleet(&mut it, 6, 6);
        // 150 is grey: next between it and what is above.
        assert_eq!((it.grey, it.rate_bit_per_s), (Some((150e6, 150e6)), 175e6));
        (0..4).for_each(|_| fleet(&mut it, 12, 0));
        // 153.125 is within 5 Mbit/s of the grey region, so now the lower side.
        assert_eq!((it.above, it.rate_bit_per_s), (Some(153.125e6), 125e6));
        (0..4).for_each(|_| fleet(&mut it, 0, 12));
        assert_eq!(it.end, Some(Stopped::Converged));
        let answer = it.estimate(&Spent::default(), Stopped::Converged);
        assert_eq!(answer.interval_bit_per_s, Some([146.875e6, 153.125e6]));
    }

    #[test]
    fn a_sender_too_slow_for_the_rate_states_at_least_only_where_a_rate_was_below() {
        let slow = |it: &mut Pathload, trend| (0..12).for_each(|_| it.stream_over(trend, 0.0, true));
        let mut it = pathload(1e9);
        slow(&mut it, Trend::Flat);
        assert_eq!((it.end, it.below), (Some(Stopped::SenderLimited), 1e9));
        let mut it = pathload(1e9);
        slow(&mut it, Trend::Unclear);
        assert_eq!(it.end, Some(Stopped::GaveUp));
        assert_eq!(it.estimate(&Spent::default(), Stopped::GaveUp).avb_bit_per_s, None);
    }

    #[test]
    fn loss_of_15_percent_of_one_stream_or_3_of_most_is_congestion() {
        let mut it = pathload(100e6);
        it.stream_over(Trend::Flat, 0.16, false);
        assert_eq!((it.fleets, it.above), (1, Some(100e6)));
        let mut it = pathload(100e6);
        (0..12).for_each(|i| it.stream_over(Trend::Flat, if i < 7 { 0.04 } else { 0.0 }, false));
        assert_eq!(it.above, Some(100e6));
        let mut it = pathload(100e6);
        (0..12).for_each(|i| it.stream_over(Trend::Flat, if i < 6 { 0.04 } else { 0.0 }, false));
        assert_eq!((it.above, it.below), (None, 100e6));
    }

    #[test]
    fn below_150_mbit_per_s_the_size_varies_and_above_the_spacing() {
        let (settings, ability) = (PathloadSettings::default(), Ability::default());
        assert_eq!(settings.stream(100e6, &ability), (1000, 80_000.0));
        assert_eq!(settings.stream(10e6, &ability), (200, 160_000.0));
        assert_eq!(settings.stream(300e6, &ability), (1500, 40_000.0));
        assert_eq!(settings.stream(5e9, &ability), (1500, 7_000.0));
    }
}
