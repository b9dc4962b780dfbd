//! The verdict and the findings: sentences made of figures. A part without figures gets no sentence.

use serde::Serialize;

use vtare_clock::sleep::Method;

use crate::answer::VerdictLevel;
use crate::sentences::{check, finding as words};
use crate::sleep::SleepCell;
use crate::table::{percent, plain_time, rough_percent, time};
use crate::timer::Source;

use super::causes;
use super::figures::Measured;
use super::resolution::{Resolution, Status};
use super::trust::{Trust, TrustPoint};

/// A sentence and the figure it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Finding {
    /// Short and stable, for programs.
    pub(crate) id: &'static str,
    /// The sentence, for people.
    pub(crate) text: String,
    /// The figure.
    pub(crate) figure: f64,
    /// Its unit: `ns`, or `1` for shares and coefficients.
    pub(crate) unit: &'static str,
}

/// Sleep target of the verdict's sentence.
pub(super) const VERDICT_TARGET_NS: u64 = 50_000;
/// Other sleep targets of the findings.
pub(super) const OTHER_TARGETS_NS: [u64; 2] = [1_000_000, 10_000_000];

/// The verdict in words: the first line of the page, and the sentence on sleeps.
pub(super) fn verdict(first_line: &str, findings: &[Finding]) -> String {
    let sleep = findings.iter().find(|finding| finding.id == "sleep_50us").map(|finding| finding.text.as_str());
    [Some(first_line), sleep].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The first line of the page.
pub(super) fn first_line(resolution: Option<&Resolution>) -> String {
    resolution.map_or_else(check::not_known, Resolution::sentence)
}

/// Its colour.
pub(super) fn level(resolution: Option<&Resolution>) -> VerdictLevel {
    resolution.map_or(VerdictLevel::Undecided, |found| match found.status {
        Status::Good => VerdictLevel::Good,
        Status::Usable | Status::NotNow => VerdictLevel::Poor,
    })
}

/// All findings that the figures carry.
pub(super) fn findings(figures: &Measured, resolution: Option<&Resolution>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(resolution.map(durations));
    found.extend(figures.trust.as_ref().and_then(|trust| error_of(trust, 1_000_000)));
    found.extend(sleep(figures, "sleep_50us", VERDICT_TARGET_NS));
    found.extend(sleep(figures, "sleep_1ms", OTHER_TARGETS_NS[0]));
    found.extend(sleep(figures, "sleep_10ms", OTHER_TARGETS_NS[1]));
    found.extend(clock(figures));
    found.extend(kernel_clock(figures));
    found.extend(noise(figures));
    found.extend(steal(figures));
    found.extend(work(figures));
    found.extend(figures.busy().map(busy));
    found
}

fn busy(share: f64) -> Finding {
    Finding { id: "busy", text: words::not_idle(), figure: share, unit: "1" }
}

fn durations(resolution: &Resolution) -> Finding {
    let (figure, unit) =
        resolution.visible.map_or((resolution.rests_on.error, "1"), |(_, from_ns)| (from_ns as f64, "ns"));
    Finding { id: "durations", text: resolution.sentence(), figure, unit }
}

fn error_of(trust: &Trust, duration_ns: i64) -> Option<Finding> {
    let point: &TrustPoint = trust.points.iter().find(|point| point.duration_ns == duration_ns)?;
    let error = point.error_p95.median?;
    let text = words::error(
        plain_time(duration_ns),
        middle_half(percent(Some(error)), point.error_p95.half_iqr, &words::parts(point.error_p95.n), percent),
    );
    Some(Finding { id: "error_1ms", text, figure: error, unit: "1" })
}

fn sleep(figures: &Measured, id: &'static str, target_ns: u64) -> Option<Finding> {
    let target = plain_time(i64::try_from(target_ns).ok()?);
    let [usual, own] =
        wakes(figures, target_ns, |cell, late| middle_half(late, cell.miss_ns.half_iqr, &words::sleeps(), time));
    let figure = usual.as_ref().or(own.as_ref())?.1;
    let cpu = figures.sleep(Method::Adaptive, target_ns).filter(|_| own.is_some()).and_then(|cell| cell.cpu_fraction);
    let text = match (usual, own, cpu.map(|share| percent(Some(share)))) {
        (Some((usual, _)), Some((own, _)), Some(cpu)) => words::wake_both_of_cpu(target, usual, own, cpu),
        (Some((usual, _)), Some((own, _)), None) => words::wake_both(target, usual, own),
        (None, Some((own, _)), Some(cpu)) => words::wake_of_cpu(target, own, cpu),
        (one, other, _) => words::wake(target, one.or(other)?.0),
    };
    Some(Finding { id, text, figure, unit: "ns" })
}

/// The sentence on short sleeps in one line.
pub(super) fn short_sleeps(figures: &Measured) -> Option<String> {
    let target = plain_time(i64::try_from(VERDICT_TARGET_NS).ok()?);
    Some(match wakes(figures, VERDICT_TARGET_NS, |_, late| late) {
        [Some((usual, _)), Some((own, _))] => words::wake_in_short(target, usual, own),
        [one, other] => words::wake(target, one.or(other)?.0),
    })
}

/// How late sleeps of `target_ns` wake with usleep and with vtare's own way to sleep, and the figures.
fn wakes(
    figures: &Measured,
    target_ns: u64,
    with_spread: impl Fn(&SleepCell, String) -> String,
) -> [Option<(String, f64)>; 2] {
    [(Method::Usleep, "usleep".to_owned()), (Method::Adaptive, words::own_sleep())].map(|(method, name)| {
        let cell = figures.sleep(method, target_ns)?;
        let median = cell.miss_ns.median?;
        let off = time(Some(median.abs()));
        let late = if median < 0.0 { words::early(off, name) } else { words::late(off, name) };
        Some((with_spread(cell, late), median))
    })
}

/// A figure with the width of the middle half of the readings behind it.
fn middle_half(figure: String, half_iqr: Option<f64>, readings: &str, write: fn(Option<f64>) -> String) -> String {
    match half_iqr {
        None => figure,
        Some(0.0) => words::spread_within_step(figure, readings),
        Some(half) => words::spread(figure, readings, write(Some(2.0 * half))),
    }
}

fn clock(figures: &Measured) -> Option<Finding> {
    let (clock, cost) =
        (&figures.clock, figures.read_cost_ns().or_else(|| figures.timer(Source::ClockMonotonic)?.median)?);
    let trust = match (clock.trusted, clock.residual_ppm, clock.reasons.first()) {
        (true, Some(0.0), _) => words::trusted_at_kernels_rate(clock.source),
        (true, Some(ppm), _) => words::trusted_within(clock.source, format_args!("{ppm:.2e}")),
        (true, None, _) => words::trusted(clock.source),
        (false, _, Some(reason)) => words::not_trusted_since(reason.trim_end_matches('.')),
        (false, _, None) => words::not_trusted(),
    };
    let text = format!("{trust} {}", words::reading_costs(time(Some(cost))));
    Some(Finding { id: "clock", text, figure: cost, unit: "ns" })
}

fn kernel_clock(figures: &Measured) -> Option<Finding> {
    let cost = figures.timer(Source::ClockMonotonic)?;
    let median = cost.median?;
    let costs = middle_half(time(Some(median)), cost.half_iqr, &words::its_readings(), time);
    let text = match figures.timer(Source::ClockMonotonicSyscall).and_then(|cost| cost.median) {
        // A vDSO that falls back to the system call costs as much as one.
        Some(call) if median > call * 0.8 => {
            format!("{} {}", words::clock_gettime_and_call(costs, time(Some(call))), words::always_a_call())
        }
        Some(call) => words::clock_gettime_and_call(costs, time(Some(call))),
        None => words::clock_gettime(costs),
    };
    Some(Finding { id: "kernel_clock", text, figure: median, unit: "ns" })
}

fn noise(figures: &Measured) -> Option<Finding> {
    let lost = figures.lost_fraction()?;
    let longest = figures.noise.iter().filter_map(|cell| cell.gap_ns.max).max_by(f64::total_cmp);
    let who = |id: &str| if id == "other_threads" { check::other_programs_here() } else { causes::who(id) };
    let longest = longest.map(|longest| words::longest_gap(time(Some(longest))));
    let text = taken(figures, who).into_iter().chain(longest).collect::<Vec<_>>().join(" ");
    Some(Finding { id: "noise", text, figure: lost, unit: "1" })
}

/// What a busy loop lost and to whom, in one line.
pub(super) fn short_noise(figures: &Measured) -> Option<String> {
    taken(figures, causes::who)
}

fn taken(figures: &Measured, who: impl Fn(&str) -> String) -> Option<String> {
    let lost = figures.lost_fraction()?;
    let share = rough_percent(lost);
    Some(match causes::accounts(figures).first().map(|(id, share)| (who(id), share / lost)) {
        _ if lost == 0.0 => words::lost_nothing(),
        None => words::lost(share),
        Some((who, part)) if part >= 0.9 => words::lost_nearly_all_to(share, who),
        Some((who, part)) if part >= 0.5 => words::lost_mostly_to(share, who),
        Some((who, part)) => words::lost_partly_to(share, rough_percent(part), who),
    })
}

fn steal(figures: &Measured) -> Option<Finding> {
    let share = figures.cause_share(|causes| causes.steal_ns)?;
    let first = match share {
        0.0 => words::no_steal(),
        share if share < 0.05 => words::little_steal(rough_percent(share)),
        share => words::steal(rough_percent(share)),
    };
    let outside = figures.noise.iter().map(|cell| cell.causes.gaps_from_outside_min).sum::<Option<u64>>();
    let text = match outside {
        Some(gaps @ 1..) if share == 0.0 => format!("{first} {}", words::from_outside_unseen(gaps)),
        Some(gaps @ 1..) => format!("{first} {}", words::from_outside(gaps)),
        _ => first,
    };
    Some(Finding { id: "steal", text, figure: share, unit: "1" })
}

fn work(figures: &Measured) -> Option<Finding> {
    let cell = figures.counter.iter().filter(|cell| cell.cv.is_some()).min_by_key(|cell| cell.argument)?;
    let cv = cell.cv?;
    let (length, varies) = (time(cell.runtime_ns.median), percent(Some(cv)));
    let parts = cell.cv_within.zip(cell.cv_between).map(|(within, between)| [within, between].map(Some).map(percent));
    let text = match (parts, cell.dominant_cause.map(|cause| cause.words().to_owned())) {
        (Some([within, between]), Some(cause)) => words::work_parts_from(length, varies, within, between, cause),
        (Some([within, between]), None) => words::work_parts(length, varies, within, between),
        (None, Some(cause)) => words::work_from(length, varies, cause),
        (None, None) => words::work(length, varies),
    };
    Some(Finding { id: "work", text, figure: cv, unit: "1" })
}

#[cfg(test)]
mod tests;
