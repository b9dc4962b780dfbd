//! The figures of a cell, and its samples: one row a trial, one a search.

use std::collections::BTreeMap;

use serde::Serialize;
use vtare_methods::throughput::{
    Answer, Cap, CriticalLoad, Distribution, LongestBurst, Recovered, Repeated, Soaked, Stopped, corrected_buffer_ns,
    total_latency_ns,
};
use vtare_tester::FlowSeen;

use super::bench::TrialRun;
use super::parameters::PARTIAL_DROP;
use crate::samples::{Samples, SamplesError, count, nearest};
use vtare_units::figures::{Figures, LogHistogram};

/// Where rows of a cell go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) frame_byte: u32,
    pub(super) distribution: Distribution,
}

/// A trial, or the answer of a search.
pub(super) struct ThroughputRow<'a> {
    cell: Rows,
    kind: &'static str,
    search: Option<u64>,
    trial: Option<TrialColumns<'a>>,
    answer: Option<Found>,
}

/// What a row states of a trial.
#[derive(Clone, Copy)]
struct TrialColumns<'a> {
    run: &'a TrialRun,
    latency_ns: Figures,
}

impl TrialColumns<'_> {
    /// A count of the frames of all flows.
    fn sum(&self, of: fn(&FlowSeen) -> u64) -> i64 {
        count(self.run.result.flows.iter().map(of).sum())
    }
}

columns!(row: ThroughputRow<'_> {
    int64 "frame_byte" = row.cell.frame_byte.into(), "size of the frames, check sequence included";
    int64 "guests" = row.cell.distribution.guests().into(), "flows, a guest each";
    int64 "loaded" = row.cell.distribution.loaded().into(), "guests that are loaded strongly";
    string "kind" = row.kind, "trial: of a search; answer: of a search; latency: a trial for latency; \
        burst: of a search for the longest burst; soak: of the throughput for long, or of the search for a critical \
        load; recovery: an overload and the half of it";
    optional_int64 "search" = row.search.map(count),
        "number of the search, from 0; null for latency, soak and recovery";
    optional_int64 "began_ns" = row.trial.map(|it| count(it.run.began.as_nanos())),
        "when the trial began, CLOCK_MONOTONIC; null for an answer";
    optional_int64 "intended_packet_per_s" = row.trial.map(|it| count(it.run.trial.packet_per_s)),
        "frames a second that were to be sent (recovery: the overload); null for an answer";
    optional_int64 "duration_ns" = row.trial.map(|it| count(it.run.trial.duration_ns)), "for so long";
    optional_int64 "sent" = row.trial.map(|it| it.sum(|flow| flow.sent)), "frames that left";
    optional_int64 "received" = row.trial.map(|it| it.sum(|flow| flow.received)),
        "of those, frames that came, each counted once";
    optional_int64 "duplicate" = row.trial.map(|it| it.sum(|flow| flow.duplicates)), "frames that came again";
    optional_int64 "reordered" = row.trial.map(|it| it.sum(|flow| flow.reordered)),
        "frames that came after a later one of their flow";
    optional_string "void" = row.trial.and_then(|it| it.run.void).map(|void| void.name()),
        "why the trial shows nothing of the device; null where it counts";
    optional_int64 "jain_billionth" = row.trial.and_then(|it| it.run.jain).and_then(|index| nearest(index * 1e9)),
        "Jain's index of the frames sent to each guest, in 1e-9";
    optional_int64 "latency_ns" = row.trial.and_then(|it| it.latency_ns.median).and_then(nearest),
        "median of all frames; null where none came";
    optional_int64 "latency_p99_ns" = row.trial.and_then(|it| it.latency_ns.p99).and_then(nearest),
        "their 0.99 quantile; null below 299 frames";
    optional_int64 "latency_p999_ns" = row.trial.and_then(|it| it.latency_ns.p999).and_then(nearest),
        "their 0.999 quantile; null below 2995 frames";
    optional_int64 "latency_max_ns" = row.trial.and_then(|it| it.latency_ns.max).and_then(nearest), "the greatest";
    optional_int64 "tagged_ns" = row.trial.and_then(|it| it.run.result.tagged_ns).map(count),
        "latency of the frame in the middle of the trial (RFC 2544); null where it was lost";
    optional_int64 "last_lost_ns" = row.trial.and_then(|it| it.run.result.around?.last_ns).map(count),
        "recovery: when the last lost frame after the step was due, from the step on; null where none was";
    optional_int64 "throughput_packet_per_s" = row.answer.and_then(|found| found.throughput).and_then(nearest),
        "answer: what was forwarded, at the tolerated loss; null where no load reached the goal";
    optional_int64 "zero_loss_packet_per_s" = row.answer.and_then(|found| found.zero_loss).and_then(nearest),
        "answer: the same without any loss; null where it was not asked for, or not reached";
    optional_string "censored" = row.answer.and_then(|found| found.censored).map(Cap::name),
        "answer: what kept the search from going higher, generator, analyser, range or time_budget; null where \
         nothing did";
});

impl Rows {
    /// Writes a trial of a search down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn trial(&self, samples: &mut Samples, search: u64, run: &TrialRun) -> Result<(), SamplesError> {
        self.any_trial(samples, "trial", Some(search), run)
    }

    /// Writes a trial for latency down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn latency(&self, samples: &mut Samples, run: &TrialRun) -> Result<(), SamplesError> {
        self.any_trial(samples, "latency", None, run)
    }

    /// Writes a burst down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn burst(&self, samples: &mut Samples, search: u64, run: &TrialRun) -> Result<(), SamplesError> {
        self.any_trial(samples, "burst", Some(search), run)
    }

    /// Writes a trial of a soak down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn soak(&self, samples: &mut Samples, run: &TrialRun) -> Result<(), SamplesError> {
        self.any_trial(samples, "soak", None, run)
    }

    /// Writes an overload and what followed it down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn recovery(&self, samples: &mut Samples, run: &TrialRun) -> Result<(), SamplesError> {
        self.any_trial(samples, "recovery", None, run)
    }

    fn any_trial(
        &self,
        samples: &mut Samples,
        kind: &'static str,
        search: Option<u64>,
        run: &TrialRun,
    ) -> Result<(), SamplesError> {
        let trial = Some(TrialColumns { run, latency_ns: Latencies::of(&run.result.flows).summary() });
        samples.row(&ThroughputRow { cell: *self, kind, search, trial, answer: None })
    }

    /// Writes the answer of a search down.
    ///
    /// # Errors
    /// Where the samples cannot be written.
    pub(super) fn answer(&self, samples: &mut Samples, search: u64, answer: &Answer) -> Result<(), SamplesError> {
        let answer = Some(Found::of(answer));
        samples.row(&ThroughputRow { cell: *self, kind: "answer", search: Some(search), trial: None, answer })
    }
}

/// The two answers of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Found {
    throughput: Option<f64>,
    zero_loss: Option<f64>,
    censored: Option<Cap>,
    regular: bool,
}

impl Found {
    fn of(answer: &Answer) -> Self {
        let first = answer.goals.first();
        Self {
            throughput: first.and_then(|goal| goal.throughput_packet_per_s),
            zero_loss: answer
                .goals
                .iter()
                .find(|goal| goal.loss_ratio == 0.0)
                .and_then(|goal| goal.throughput_packet_per_s),
            censored: first.and_then(|goal| goal.censored),
            regular: first.is_some_and(|goal| goal.regular || goal.censored.is_some_and(|cap| cap != Cap::TimeBudget)),
        }
    }
}

/// Latencies of many frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    live: LogHistogram,
    least_ns: Option<u64>,
    most_ns: Option<u64>,
    /// Sum of the means, each with its number.
    sum_ns: f64,
}

impl Latencies {
    pub(super) fn of<'f>(flows: impl IntoIterator<Item = &'f FlowSeen>) -> Self {
        let mut all = Self::default();
        flows.into_iter().for_each(|flow| all.add(flow));
        all
    }

    pub(super) fn add(&mut self, flow: &FlowSeen) {
        let mut frames = 0;
        for &(ns, many) in &flow.latency {
            self.live.add_many(ns.min(i64::MAX as u64).cast_signed(), many);
            frames += many;
        }
        self.least_ns = self.least_ns.into_iter().chain(flow.least_ns).min();
        self.most_ns = self.most_ns.max(flow.most_ns);
        self.sum_ns += flow.mean_ns.unwrap_or(0.0) * frames as f64;
    }

    /// Mean, ns; `None` without frames.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.live.total() > 0).then(|| self.sum_ns / self.live.total() as f64)
    }

    /// Quantiles to 1/64, extremes and mean as they are.
    pub(super) fn summary(&self) -> Figures {
        let extremes = self.least_ns.zip(self.most_ns).map(|(least, most)| (least as f64, most as f64));
        self.live.figures_within(extremes, self.mean())
    }
}

/// A guest at one load, all trials together.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct FlowFigures {
    /// Frames that left.
    pub(crate) sent: u64,
    /// The same over the duration of the trials: the load that this guest really had, frames a second.
    pub(crate) sent_packet_per_s: f64,
    /// Frames that came, each counted once.
    pub(crate) received: u64,
    /// The difference.
    pub(crate) lost: u64,
    /// Frames that came again.
    pub(crate) duplicate: u64,
    /// Frames that came after a later one.
    pub(crate) reordered: u64,
    /// Latency.
    pub(crate) latency_ns: Figures,
}

/// Latency at one load.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct LatencyAt {
    /// The load, frames a second.
    pub(crate) load_packet_per_s: u64,
    /// As share of the throughput; null where it was given as frames a second.
    pub(crate) load_share: Option<f64>,
    /// Trials.
    pub(crate) trials: u64,
    /// Of those, trials that were void as often as they were repeated; they count here.
    pub(crate) void_trials: u64,
    /// Share of frames that did not come.
    pub(crate) loss_ratio: Option<f64>,
    /// Jain's index of the load that was sent.
    pub(crate) jain: Option<f64>,
    /// All frames.
    pub(crate) latency_ns: Figures,
    /// The tagged frame of each trial (RFC 2544).
    pub(crate) tagged_ns: Figures,
    /// The mean over the guests, each part with its load (L_tot of Batalla et al., corrected); null where a loaded
    /// guest got nothing through.
    pub(crate) latency_total_ns: Option<f64>,
    /// Each guest.
    pub(crate) flows: Vec<FlowFigures>,
}

impl LatencyAt {
    /// Of the trials at one load.
    pub(super) fn of(
        load_packet_per_s: u64,
        load_share: Option<f64>,
        run: &[TrialRun],
        distribution: &Distribution,
    ) -> Self {
        let guests = distribution.guests() as usize;
        let mut latencies = vec![Latencies::default(); guests];
        let mut flows = vec![FlowFigures::default(); guests];
        for flow_seen in run.iter().map(|run| &run.result.flows) {
            for ((seen, latency), flow) in flow_seen.iter().zip(&mut latencies).zip(&mut flows) {
                latency.add(seen);
                flow.sent += seen.sent;
                flow.received += seen.received;
                flow.lost += seen.lost();
                flow.duplicate += seen.duplicates;
                flow.reordered += seen.reordered;
            }
        }
        let lasted_s = run.iter().map(|run| run.trial.duration_ns as f64).sum::<f64>() / 1e9;
        for (flow, latency) in flows.iter_mut().zip(&latencies) {
            flow.latency_ns = latency.summary();
            flow.sent_packet_per_s = flow.sent as f64 / lasted_s.max(f64::MIN_POSITIVE);
        }
        let (sent, received) = flows.iter().fold((0, 0), |(sent, came), flow| (sent + flow.sent, came + flow.received));
        let means: Vec<Option<f64>> = latencies.iter().map(Latencies::mean).collect();
        let loads: Vec<f64> = flows.iter().map(|flow| flow.sent as f64).collect();
        let tagged = run.iter().filter_map(|run| run.result.tagged_ns).map(|ns| ns.min(i64::MAX as u64).cast_signed());
        Self {
            load_packet_per_s,
            load_share,
            trials: run.len() as u64,
            void_trials: run.iter().filter(|run| run.void.is_some()).count() as u64,
            loss_ratio: (sent > 0).then(|| sent.saturating_sub(received) as f64 / sent as f64),
            jain: vtare_methods::throughput::jain(&loads),
            latency_ns: Latencies::of(run.iter().flat_map(|run| &run.result.flows)).summary(),
            tagged_ns: tagged.collect(),
            latency_total_ns: total_latency_ns(&means, distribution).ok().flatten(),
            flows,
        }
    }
}

/// The longest bursts that passed whole, and the buffers that they show (RFC 9004).
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct BackToBackAt {
    /// Rate of the bursts, frames a second; of several, the least.
    pub(crate) packet_per_s: u64,
    /// Frames of the longest burst, all searches together.
    pub(crate) frames: Repeated,
    /// Searches whose shortest burst lost frames, or could not be sent as planned: they have no answer.
    pub(crate) unanswered: u64,
    /// What kept at least half of the searches from longer bursts: the buffers may be deeper.
    pub(crate) censored: Option<&'static str>,
    /// For how long the median burst lasts, less what is forwarded meanwhile at the throughput, ns; null where all
    /// of it is, or no throughput is known.
    pub(crate) buffer_ns: Option<f64>,
    /// Frames that are kept in that time at the throughput: how deep the buffers are.
    pub(crate) buffer_frames: Option<f64>,
    /// Bursts that counted.
    pub(crate) trials: u64,
    /// Bursts that were void, and repeated.
    pub(crate) void_trials: u64,
}

impl BackToBackAt {
    /// Of the searches of a cell; `None` without any.
    pub(super) fn of(found: &[LongestBurst], throughput_packet_per_s: Option<f64>) -> Option<Self> {
        let packet_per_s = found.iter().map(|burst| burst.packet_per_s).min()?;
        let frames: Vec<f64> = found.iter().filter_map(|burst| Some(burst.frames? as f64)).collect();
        let censored = found.iter().filter_map(|burst| burst.censored).collect::<Vec<_>>();
        let frames_of_all = Repeated::of(&frames);
        let of = frames_of_all.median.zip(throughput_packet_per_s);
        let buffer_ns = of.and_then(|(frames, rate)| corrected_buffer_ns(frames, packet_per_s as f64, rate));
        Some(Self {
            packet_per_s,
            frames: frames_of_all,
            unanswered: (found.len() - frames.len()) as u64,
            censored: censored.first().filter(|_| 2 * censored.len() >= frames.len()).map(|cap| cap.name()),
            buffer_ns,
            buffer_frames: buffer_ns.map(|ns| ns / 1e9 * packet_per_s as f64),
            trials: found.iter().map(|burst| burst.trials).sum(),
            void_trials: found.iter().map(|burst| burst.void_trials).sum(),
        })
    }
}

/// The result of a cell. Rates are frames a second, all flows together.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct ThroughputCell {
    /// Size of the frames, check sequence included.
    pub(crate) frame_byte: u32,
    /// Flows, a guest each.
    pub(crate) guests: u32,
    /// Guests that are loaded strongly.
    pub(crate) loaded: u32,
    /// Share of the load that the others have together.
    pub(crate) slight_share: f64,
    /// Jain's index of what was sent to each guest, all trials together; null where nothing was.
    pub(crate) jain: Option<f64>,
    /// The same in closed form.
    pub(crate) jain_planned: f64,
    /// How it was searched.
    pub(crate) method: String,
    /// The share of frames that may be lost.
    pub(crate) loss_ratio: f64,
    /// Median of the searches; null where none had an answer.
    pub(crate) throughput_packet_per_s: Option<f64>,
    /// The same as bits of frames, check sequence included, without preamble and gap.
    pub(crate) throughput_bit_per_s: Option<f64>,
    /// The answers together.
    pub(crate) throughput: Repeated,
    /// Median at which nothing is lost; null where that was not asked for, or not reached.
    pub(crate) zero_loss_packet_per_s: Option<f64>,
    /// These answers together.
    pub(crate) zero_loss: Repeated,
    /// Non-drop rate: the median without loss; null where that was not searched, or not reached.
    pub(crate) ndr_packet_per_s: Option<f64>,
    /// Partial drop rate: the median at which up to 0.5 % are lost, likewise.
    pub(crate) pdr_packet_per_s: Option<f64>,
    /// What kept at least half of the searches from going higher: the true throughput may be more.
    pub(crate) censored: Option<&'static str>,
    /// Why the searches ended: converged, or time_budget where at least one had no time left.
    pub(crate) stopped: Stopped,
    /// Searches.
    pub(crate) searches: u64,
    /// Of those, that had no time left.
    pub(crate) out_of_time: u64,
    /// Of those, without an answer.
    pub(crate) unanswered: u64,
    /// Of those, whose bounds are further apart than was asked for.
    pub(crate) irregular: u64,
    /// Trials that counted.
    pub(crate) trials: u64,
    /// Trials that were void, and repeated.
    pub(crate) void_trials: u64,
    /// What made the most of them void.
    pub(crate) void_because: Option<&'static str>,
    /// Trials that counted although others disturbed them, since they lost no more than they may, or were no better
    /// when repeated.
    pub(crate) disturbed_trials: u64,
    /// Time of all trials of the searches, s.
    pub(crate) trial_s: f64,
    /// Frames that left, all trials of the searches.
    pub(crate) sent: u64,
    /// Frames that came, each counted once.
    pub(crate) received: u64,
    /// The difference.
    pub(crate) lost: u64,
    /// Frames that came again.
    pub(crate) duplicate: u64,
    /// Frames that came after a later one of their flow.
    pub(crate) reordered: u64,
    /// Latency of all frames at the throughput.
    pub(crate) latency_ns: Figures,
    /// Latency at each load.
    pub(crate) latencies: Vec<LatencyAt>,
    /// The longest bursts that passed whole; null where none were asked for.
    pub(crate) back_to_back: Option<BackToBackAt>,
    /// What the throughput lost where it was offered for long; null where that was not asked for, or none was found.
    pub(crate) soak: Option<Soaked>,
    /// The load that loses a given share in the long run; null where that was not asked for, or no throughput found.
    pub(crate) critical_load: Option<CriticalLoad>,
    /// How long frames were lost after an overload; null where that was not asked for, or no throughput was found.
    pub(crate) recovery: Option<Recovered>,
    /// Who sent.
    pub(crate) engine: String,
    /// Frames a second of the sender's own test.
    pub(crate) engine_packet_per_s: Option<f64>,
    /// Who counted.
    pub(crate) analyser: String,
    /// Why this sender, and between which ports.
    pub(crate) engine_because: String,
}

/// The searches of a cell.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    answers: Vec<Answer>,
    sent: Vec<u64>,
    totals: [u64; 4],
    voids: BTreeMap<&'static str, u64>,
}

impl Gathered {
    /// A trial of a search.
    pub(super) fn trial(&mut self, run: &TrialRun) {
        if let Some(void) = run.void {
            *self.voids.entry(void.name()).or_default() += 1;
        }
        self.sent.resize(run.result.flows.len(), 0);
        for (sum, flow) in self.sent.iter_mut().zip(&run.result.flows) {
            *sum += flow.sent;
        }
        let of = |get: fn(&FlowSeen) -> u64| run.result.flows.iter().map(get).sum::<u64>();
        let more = [of(|it| it.sent), of(|it| it.received), of(|it| it.duplicates), of(|it| it.reordered)];
        self.totals.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }

    /// The end of a search.
    pub(super) fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Searches that have ended.
    pub(super) fn answered(&self) -> u64 {
        self.answers.len() as u64
    }

    /// Fills in the figures of all searches together.
    pub(super) fn sum_up(&self, cell: &mut ThroughputCell) {
        let found: Vec<Found> = self.answers.iter().map(Found::of).collect();
        let answers: Vec<f64> = found.iter().filter_map(|found| found.throughput).collect();
        let without_loss: Vec<f64> = found.iter().filter_map(|found| found.zero_loss).collect();
        cell.throughput = Repeated::of(&answers);
        cell.zero_loss = Repeated::of(&without_loss);
        cell.throughput_packet_per_s = cell.throughput.median;
        cell.throughput_bit_per_s = cell.throughput.median.map(|rate| rate * f64::from(cell.frame_byte) * 8.0);
        cell.zero_loss_packet_per_s = cell.zero_loss.median;
        cell.ndr_packet_per_s = cell.zero_loss.median;
        cell.pdr_packet_per_s = cell.throughput.median.filter(|_| cell.loss_ratio == PARTIAL_DROP);
        let capped: Vec<Cap> = found.iter().filter_map(|found| found.censored).collect();
        // What several ended by: the machine's limit is more informative than that of the plan, and this more than that
        // of the time.
        let order = [Cap::Generator, Cap::Analyser, Cap::Range, Cap::TimeBudget];
        let cap = order.into_iter().find(|cap| capped.contains(cap)).filter(|_| 2 * capped.len() >= answers.len());
        cell.censored = cap.map(Cap::name);
        cell.out_of_time = self.answers.iter().filter(|it| it.stopped == Stopped::TimeBudget).count() as u64;
        cell.stopped = match (self.answers.is_empty(), cell.out_of_time) {
            (true, _) => Stopped::Running,
            (false, 0) => Stopped::Converged,
            (false, _) => Stopped::TimeBudget,
        };
        cell.searches = self.answers.len() as u64;
        cell.unanswered = found.iter().filter(|found| found.throughput.is_none()).count() as u64;
        cell.irregular = found.iter().filter(|found| found.throughput.is_some() && !found.regular).count() as u64;
        let sum = |of: fn(&Answer) -> u64| self.answers.iter().map(of).sum::<u64>();
        (cell.trials, cell.void_trials) = (sum(|it| it.trials), sum(|it| it.void_trials));
        cell.void_because = self.voids.iter().max_by_key(|(_, trials)| **trials).map(|(name, _)| *name);
        cell.disturbed_trials = sum(|it| it.disturbed_trials);
        cell.trial_s = self.answers.iter().map(|it| it.trial_s).sum();
        [cell.sent, cell.received, cell.duplicate, cell.reordered] = self.totals;
        cell.lost = cell.sent.saturating_sub(cell.received);
        let loads: Vec<f64> = self.sent.iter().map(|sent| *sent as f64).collect();
        cell.jain = vtare_methods::throughput::jain(&loads);
    }
}

#[cfg(test)]
mod tests {
    use vtare_methods::throughput::Found as Goal;

    use super::*;

    fn answer(throughput: Option<f64>, censored: Option<Cap>) -> Answer {
        let goal =
            Goal { throughput_packet_per_s: throughput, censored, regular: true, loss_ratio: 0.005, ..Goal::default() };
        let none =
            Goal { throughput_packet_per_s: throughput.map(|rate| rate / 2.0), regular: true, ..Goal::default() };
        Answer { goals: vec![goal, none], trials: 10, trial_s: 1.5, ..Answer::default() }
    }

    #[test]
    fn several_searches_give_median_and_interval_and_those_without_answer_are_counted() {
        let mut gathered = Gathered::default();
        for rate in [Some(100.0), None, Some(300.0), Some(200.0)] {
            gathered.answer(answer(rate, None));
        }
        let mut cell = ThroughputCell { frame_byte: 64, loss_ratio: 0.005, ..ThroughputCell::default() };
        gathered.sum_up(&mut cell);
        assert_eq!((cell.ndr_packet_per_s, cell.pdr_packet_per_s), (Some(100.0), Some(200.0)));
        assert_eq!((cell.throughput_packet_per_s, cell.throughput_bit_per_s), (Some(200.0), Some(102_400.0)));
        assert_eq!((cell.zero_loss_packet_per_s, cell.throughput.interval), (Some(100.0), Some([100.0, 300.0])));
        assert_eq!((cell.searches, cell.unanswered, cell.trials, cell.censored), (4, 1, 40, None));
        assert!((cell.trial_s - 6.0).abs() < 1e-9);
    }

    #[test]
    fn half_of_the_searches_capped_is_censored_and_no_search_has_no_figures() {
        let mut gathered = Gathered::default();
        let mut cell = ThroughputCell::default();
        gathered.sum_up(&mut cell);
        assert_eq!((cell.throughput_packet_per_s, cell.jain, cell.censored), (None, None, None));
        gathered.answer(answer(Some(1.0), None));
        gathered.answer(answer(Some(1.0), Some(Cap::Generator)));
        gathered.sum_up(&mut cell);
        assert_eq!((cell.censored, cell.stopped, cell.out_of_time), (Some("generator"), Stopped::Converged, 0));
        for _ in 0..4 {
            gathered.answer(Answer { stopped: Stopped::TimeBudget, ..answer(Some(1.0), Some(Cap::TimeBudget)) });
        }
        gathered.sum_up(&mut cell);
        assert_eq!((cell.stopped, cell.out_of_time), (Stopped::TimeBudget, 4));
    }

    #[test]
    fn bursts_show_buffers_by_what_the_throughput_leaves_of_them() {
        let burst = |frames, censored| LongestBurst {
            frames,
            lossy_frames: None,
            packet_per_s: 1_000_000,
            censored,
            trials: 9,
            void_trials: 1,
        };
        assert_eq!(BackToBackAt::of(&[], Some(1.0)), None);
        let all = [burst(Some(1_000), None), burst(None, None), burst(Some(1_200), Some(Cap::Range))];
        let of = BackToBackAt::of(&all, Some(250_000.0)).expect("three searches");
        assert_eq!((of.frames.n, of.frames.median, of.unanswered, of.censored), (2, Some(1_100.0), 1, Some("range")));
        assert_eq!((of.buffer_ns, of.buffer_frames, of.trials, of.void_trials), (Some(825e3), Some(825.0), 27, 3));
        let unknown = BackToBackAt::of(&all, None).expect("three searches");
        assert_eq!((unknown.buffer_ns, unknown.buffer_frames), (None, None));
    }

    #[test]
    fn quantiles_never_lie_beyond_the_extremes_and_nothing_has_none() {
        let flow = FlowSeen {
            latency: vec![(10_240, 3)],
            least_ns: Some(10_250),
            most_ns: Some(10_260),
            mean_ns: Some(10_255.0),
            ..FlowSeen::default()
        };
        let of = Latencies::of([&flow]).summary();
        assert_eq!((of.n, of.min, of.max, of.mean), (3, Some(10_250.0), Some(10_260.0), Some(10_255.0)));
        assert!(of.median.is_some_and(|median| (10_250.0..=10_260.0).contains(&median)));
        let none = Latencies::of([&FlowSeen::default()]).summary();
        assert_eq!((none.n, none.median, none.mean), (0, None, None));
    }
}
