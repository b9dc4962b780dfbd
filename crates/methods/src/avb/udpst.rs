use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, gap_ns, least, mean, size_within};
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of the capacity search of RFC 9097 as OB-UDPST does it: a table of rates, and after each interval a move
/// in it.
//= RFC 9097, section 8.1 and appendix A; ITU-T Y.1540, annex B
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UdpstSettings {
    /// How it moves.
    pub algorithm: UdpstAlgorithm,
    /// Row to begin with.
    pub first_row: u32,
    /// Time from feedback to feedback, ns: one train.
    pub interval_ns: f64,
    /// Time sent in all, ns.
    pub test_ns: f64,
    /// Time of a part whose mean rate counts: the answer is the highest of all parts, ns.
    pub part_ns: f64,
    /// Packets lost, reordered or doubled in an interval that are no congestion.
    pub most_errors: u32,
    /// Delay above the least seen, mean of an interval, below which the rate goes up, ns.
    pub low_delay_ns: f64,
    /// Above which it goes down, ns.
    pub high_delay_ns: f64,
    /// Rows of a fast step.
    pub fast_rows: u32,
    /// The congested interval that makes a large step down; none of the fast steps up come after it.
    pub slow_intervals: u32,
    /// Fast steps of the large step down.
    pub backup_steps: u32,
    /// Size of packets up to 1 Gbit/s, bytes (IP). Above it, the largest that the path takes.
    pub size_byte: u32,
}

/// How the row moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UdpstAlgorithm {
    /// By rows.
    #[default]
    B,
    /// Upwards by doubling the row in every second interval; tries again after a while.
    C,
}

impl Default for UdpstSettings {
    fn default() -> Self {
        Self {
            algorithm: UdpstAlgorithm::B,
            first_row: 0,
            interval_ns: 50e6,
            test_ns: 10e9,
            part_ns: 1e9,
            most_errors: 10,
            low_delay_ns: 30e6,
            high_delay_ns: 90e6,
            fast_rows: 10,
            slow_intervals: 3,
            backup_steps: 3,
            size_byte: 1250,
        }
    }
}

impl UdpstSettings {
    /// Algorithm C.
    #[must_use]
    pub fn type_c() -> Self {
        Self { algorithm: UdpstAlgorithm::C, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        between("interval_ns", self.interval_ns, 0.0, 1e10)?;
        between("test_ns", self.test_ns, 0.0, 1e13)?;
        between("part_ns", self.part_ns, 0.0, 1e13)?;
        between("low_delay_ns", self.low_delay_ns, 0.0, 1e12)?;
        between("high_delay_ns", self.high_delay_ns, 0.0, 1e12)?;
        least("fast_rows", self.fast_rows, 1)?;
        least("size_byte", self.size_byte, 1)?;
        if self.first_row >= ROWS {
            let want = format!("0 to {}", ROWS - 1);
            return Err(SettingsError { what: "first_row", found: self.first_row.to_string(), want });
        }
        Ok(())
    }
}

/// Rows of the table.
const ROWS: u32 = 1153;
/// The row of 1 Gbit/s: fast steps end there.
const FAST_UP_TO: u32 = 1000;
/// An interval whose last packet was delayed by less than this share of the low threshold left no queue behind.
const LEFT_SHARE: f64 = 1.0 / 30.0;
/// Waiting of algorithm C before it tries fast steps again, intervals.
const RETRY: u32 = 5;

/// The rate of a row, bit/s: half a Mbit/s, then Mbit/s by Mbit/s to 1 Gbit/s, by 100 Mbit/s to 10 Gbit/s, by 1 Gbit/s.
fn rate_of(row: u32) -> f64 {
    match row {
        0 => 0.504e6,
        1..=1000 => f64::from(row) * 1e6,
        1001..=1090 => 1e9 + f64::from(row - 1000) * 1e8,
        _ => 10e9 + f64::from(row - 1090) * 1e9,
    }
}

/// Where in the table, and what brought it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Search {
    row: u32,
    congested: u32,
    /// Algorithm C: skip every second doubling, wait before doubling again.
    doubles: bool,
    waited: u32,
    wait: u32,
}

impl Search {
    fn step(&mut self, settings: &UdpstSettings, errors: u32, delay_ns: f64) {
        if errors <= settings.most_errors && delay_ns < settings.low_delay_ns {
            self.up(settings);
        } else if errors > settings.most_errors || delay_ns > settings.high_delay_ns {
            self.down(settings);
        }
    }

    fn up(&mut self, settings: &UdpstSettings) {
        let fast = self.row < FAST_UP_TO && self.congested < settings.slow_intervals;
        match (fast, settings.algorithm) {
            (true, UdpstAlgorithm::B) => {
                self.row = self.row.saturating_add(settings.fast_rows).min(FAST_UP_TO);
                self.congested = 0;
            }
            (true, UdpstAlgorithm::C) => {
                if self.row * 2 > FAST_UP_TO {
                    self.row = FAST_UP_TO;
                } else {
                    self.row = self.row.max(1);
                    if self.doubles {
                        self.row *= 2;
                    }
                    self.doubles = !self.doubles;
                }
                self.congested = 0;
            }
            (false, algorithm) => {
                self.row = (self.row + 1).min(ROWS - 1);
                if algorithm == UdpstAlgorithm::C {
                    self.retry(RETRY);
                }
            }
        }
    }

    fn down(&mut self, settings: &UdpstSettings) {
        self.congested = self.congested.saturating_add(1);
        if self.row < FAST_UP_TO && self.congested == settings.slow_intervals {
            let back = settings.fast_rows.saturating_mul(settings.backup_steps);
            self.row = self.row.saturating_sub(back);
        } else {
            self.row = self.row.saturating_sub(1);
            if settings.algorithm == UdpstAlgorithm::C {
                self.retry(0);
            }
        }
    }

    /// Algorithm C: after a while of single rows fast steps are tried again; each time on the way up the while is
    /// `longer`.
    fn retry(&mut self, longer: u32) {
        self.wait = self.wait.max(RETRY);
        self.waited += 1;
        if self.waited >= self.wait {
            (self.congested, self.waited) = (0, 0);
            self.wait += longer;
        }
    }
}

/// The search under way.
#[derive(Clone, Debug)]
pub(super) struct Udpst {
    settings: UdpstSettings,
    ability: Ability,
    search: Search,
    sent_ns: f64,
    /// Bits and time of the part under way.
    part: (f64, f64),
    rates: Vec<f64>,
    /// Least receive time less send time of all packets, ns: the two clocks have run together since the first train.
    least_delay_ns: Option<f64>,
    most_queue_ns: f64,
    /// The queue that would be left of the intervals before if the sender did not pause for their reports, ns.
    carried_ns: f64,
    /// The highest rate was not reached by the sender.
    slow: bool,
}

impl Udpst {
    pub(super) fn new(settings: UdpstSettings, setup: &Setup) -> Self {
        let search = Search { row: settings.first_row, ..Search::default() };
        Self {
            settings,
            ability: setup.ability,
            search,
            sent_ns: 0.0,
            part: (0.0, 0.0),
            rates: Vec::new(),
            least_delay_ns: None,
            most_queue_ns: 0.0,
            carried_ns: 0.0,
            slow: false,
        }
    }

    fn size_byte(&self) -> u32 {
        let most = if self.search.row > FAST_UP_TO { self.ability.most_packet_byte } else { self.settings.size_byte };
        size_within(most, &self.ability)
    }

    fn train(&self) -> Train {
        let size_byte = self.size_byte();
        let gap = gap_ns(size_byte, rate_of(self.search.row));
        let most = self.ability.most_packets.max(2);
        let packets = ((self.settings.interval_ns / gap).round() as u32).clamp(2, most);
        let group = (self.ability.least_gap_ns / gap).ceil().clamp(1.0, f64::from(self.ability.most_group.max(1)));
        let spacing =
            if group > 1.0 { Spacing::groups(group as u32, gap * group) } else { Spacing::Constant { gap_ns: gap } };
        Train { packets, size_byte, spacing, idle_before_ns: 0 }
    }

    /// Mean delay of an interval above the least of the whole test, ns, as it would be if the intervals followed each
    /// other without a pause.
    fn queue_ns(&mut self, observation: &Observation) -> f64 {
        let delays: Vec<f64> = observation
            .packets
            .iter()
            .filter_map(|packet| {
                let (left, received) = (packet.left()?.as_nanos(), packet.received?.as_nanos());
                // Two clocks: only changes of this difference mean anything.
                Some((i128::from(received) - i128::from(left)) as f64)
            })
            .collect();
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        let least = self.least_delay_ns.map_or(least, |before| before.min(least));
        self.least_delay_ns = Some(least);
        let most = delays.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
        self.most_queue_ns = self.most_queue_ns.max(most);
        let (before, last) = (self.carried_ns, delays.last().map_or(0.0, |last| last - least));
        self.carried_ns = if last > self.settings.low_delay_ns * LEFT_SHARE { before + last } else { 0.0 };
        mean(&delays).map_or(0.0, |mean| mean - least + before)
    }

    fn interval_over(&mut self, observation: &Observation) {
        let (gap, train) = (gap_ns(self.size_byte(), rate_of(self.search.row)), &observation.train);
        let scheduled_ns = f64::from(train.packets) * gap;
        let arrived: f64 =
            observation.packets.iter().filter(|it| it.received.is_some()).map(|it| f64::from(it.size_byte) * 8.0).sum();
        let by_rate = observation.received_bit_per_s().filter(|rate| *rate > 0.0);
        // As long as it took to send or to arrive, whichever was longer: a queue that is left over counts for nobody.
        let span_ns = by_rate.map_or(scheduled_ns, |rate| (arrived * 1e9 / rate).max(scheduled_ns));
        self.slow = observation.sent_bit_per_s().is_some_and(|sent| sent < 0.95 * rate_of(self.search.row));
        self.sent_ns += scheduled_ns;
        self.part.0 += arrived;
        self.part.1 += span_ns;
        if self.part.1 >= self.settings.part_ns {
            let (bits, ns) = std::mem::take(&mut self.part);
            self.rates.push(bits * 1e9 / ns);
        }
    }

    fn best(&self) -> Option<f64> {
        let whole =
            self.rates.iter().copied().fold(None, |best: Option<f64>, rate| Some(best.map_or(rate, |it| it.max(rate))));
        whole.or_else(|| (self.part.1 > 0.0).then(|| self.part.0 * 1e9 / self.part.1))
    }
}

impl Rules for Udpst {
    fn name(&self) -> &'static str {
        "udpst"
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if self.sent_ns >= self.settings.test_ns {
            let limited = self.slow || self.search.row + 1 >= ROWS;
            return Err(if limited { Stopped::SenderLimited } else { Stopped::Converged });
        }
        Ok(self.train())
    }

    fn observe(&mut self, observation: &Observation) {
        self.interval_over(observation);
        let missing = observation.sent().saturating_sub(observation.received());
        // Nobody reports copies, so they are no errors, as docs/methods/avb-published.md states.
        let errors = missing + observation.reordered();
        let delay_ns = self.queue_ns(observation);
        self.search.step(&self.settings, u32::try_from(errors).unwrap_or(u32::MAX), delay_ns);
    }

    fn silent(&mut self) {
        let train = self.train();
        let span_ns = f64::from(train.packets) * gap_ns(train.size_byte, rate_of(self.search.row));
        self.sent_ns += span_ns;
        self.part.1 += span_ns;
        self.carried_ns = 0.0;
        self.search.step(&self.settings, u32::MAX, f64::INFINITY);
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some(best) = self.best() else { return Estimate::none(spent, stopped) };
        let mut estimate = Estimate::of(spent, stopped, best);
        estimate.at_least = stopped == Stopped::SenderLimited;
        estimate.queued_ns = Some(self.most_queue_ns);
        let note = "the IP-layer capacity of RFC 9097: what came through while the link was kept full, so other \
            traffic had to give way";
        estimate.notes.push(note.to_owned());
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(settings: UdpstSettings, row: u32, intervals: &[(u32, f64)]) -> Vec<u32> {
        let mut search = Search { row, ..Search::default() };
        let step = |&(errors, delay_ms): &(u32, f64)| {
            search.step(&settings, errors, delay_ms * 1e6);
            search.row
        };
        intervals.iter().map(step).collect()
    }

    #[test]
    fn rows_are_mbit_per_s_up_to_one_gbit_per_s() {
        let rates: Vec<f64> = [0, 1, 1000, 1001, 1090, 1091, 1152].map(rate_of).to_vec();
        assert_eq!(rates, [0.504e6, 1e6, 1e9, 1.1e9, 10e9, 11e9, 72e9]);
    }

    #[test]
    fn type_b_goes_up_by_ten_and_after_the_third_congestion_down_by_thirty_and_up_by_one() {
        let b = UdpstSettings::default();
        let (good, bad) = ((0, 0.0), (11, 0.0));
        assert_eq!(moves(b, 0, &[good, good, (10, 29.9)]), [10, 20, 30]);
        // Between 30 and 90 ms nothing moves.
        assert_eq!(moves(b, 100, &[(0, 30.0), (10, 90.0), (0, 90.1)]), [100, 100, 99]);
        assert_eq!(moves(b, 100, &[bad, bad, bad, bad, good, good]), [99, 98, 68, 67, 68, 69]);
        // One or two congestions are forgotten by the next good interval.
        assert_eq!(moves(b, 100, &[bad, good, bad, bad, good]), [99, 109, 108, 107, 117]);
    }

    #[test]
    fn above_one_gbit_per_s_steps_are_single_rows_within_the_table() {
        let b = UdpstSettings::default();
        let good = (0, 0.0);
        assert_eq!(moves(b, 995, &[good, good]), [1000, 1001]);
        assert_eq!(moves(b, 1152, &[good]), [1152]);
        assert_eq!(moves(b, 0, &[(11, 0.0)]), [0]);
        assert_eq!(moves(b, 20, &[(11, 0.0); 3]), [19, 18, 0]);
    }

    #[test]
    fn type_c_doubles_every_second_time_and_tries_again() {
        let c = UdpstSettings::type_c();
        let (good, bad) = ((0, 0.0), (11, 0.0));
        assert_eq!(moves(c, 0, &[good; 6]), [1, 2, 2, 4, 4, 8]);
        assert_eq!(moves(c, 600, &[good]), [1000]);
        // Three congestions, single rows for four more intervals (two were waited on the way down), then doubling
        // again.
        assert_eq!(moves(c, 100, &[bad, bad, bad, good, good, good, good, good]), [99, 98, 68, 69, 70, 71, 71, 142]);
    }
}
