//! The verdict and the findings: sentences made of figures. A part without figures gets no sentence.

use serde::Serialize;

use crate::answer::VerdictLevel;
use crate::table::{middle_half, percent, plain_time, rough_percent, time};

use super::causes;
use super::figures::{Measured, SleepFigures};
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
    let none = "NOT KNOWN: the time that a busy loop loses was not measured.";
    resolution.map_or_else(|| none.to_owned(), Resolution::sentence)
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
    Finding { id: "busy", text: "The machine was not idle.".to_owned(), figure: share, unit: "1" }
}

fn durations(resolution: &Resolution) -> Finding {
    let (figure, unit) =
        resolution.visible.map_or((resolution.rests_on.error, "1"), |(_, from_ns)| (from_ns as f64, "ns"));
    Finding { id: "durations", text: resolution.sentence(), figure, unit }
}

fn error_of(trust: &Trust, duration_ns: i64) -> Option<Finding> {
    let point: &TrustPoint = trust.points.iter().find(|point| point.duration_ns == duration_ns)?;
    let error = point.error_p95.median?;
    let text = format!(
        "Of durations of {}, 95 in 100 are off by at most {}{}.",
        plain_time(duration_ns),
        percent(Some(error)),
        middle_half(point.error_p95.half_iqr, &format!("{} parts", point.error_p95.n), percent),
    );
    Some(Finding { id: "error_1ms", text, figure: error, unit: "1" })
}

fn sleep(figures: &Measured, id: &'static str, target_ns: u64) -> Option<Finding> {
    let spread = |cell: &SleepFigures| middle_half(cell.miss_ns.half_iqr, "them", time);
    let (mut text, figure) = wakes(figures, target_ns, " and ", spread)?;
    let own = figures.sleep("adaptive", target_ns).filter(|cell| cell.miss_ns.median.is_some());
    if let Some(share) = own.and_then(|cell| cell.cpu_fraction) {
        text.push_str(&format!(", which uses {} of a CPU", percent(Some(share))));
    }
    text.push('.');
    Some(Finding { id, text, figure, unit: "ns" })
}

/// The sentence on short sleeps in one line.
pub(super) fn short_sleeps(figures: &Measured) -> Option<String> {
    wakes(figures, VERDICT_TARGET_NS, ", ", |_| String::new()).map(|(text, _)| text + ".")
}

/// How late sleeps of `target_ns` wake, and the figure of the first way to sleep.
fn wakes(
    figures: &Measured,
    target_ns: u64,
    between: &str,
    spread: impl Fn(&SleepFigures) -> String,
) -> Option<(String, f64)> {
    let ways = [("usleep", "usleep"), ("adaptive", "vtare's sleep")].into_iter().filter_map(|(method, name)| {
        let cell = figures.sleep(method, target_ns)?;
        let median = cell.miss_ns.median?;
        let direction = if median < 0.0 { "early" } else { "late" };
        let clause = format!("{} {direction} with {name}{}", time(Some(median.abs())), spread(cell));
        Some((clause, median))
    });
    let (clauses, medians): (Vec<_>, Vec<_>) = ways.unzip();
    let target = plain_time(i64::try_from(target_ns).ok()?);
    Some((format!("Sleeps of {target} wake {}", clauses.join(between)), *medians.first()?))
}

fn clock(figures: &Measured) -> Option<Finding> {
    let (clock, cost) = (&figures.clock, figures.read_cost_ns().or_else(|| figures.timer("clock_monotonic")?.median)?);
    let price = format!("one reading costs {}", time(Some(cost)));
    let text = if clock.trusted {
        let bound = clock.residual_ppm.map(|ppm| match ppm {
            0.0 => ", at the rate that the kernel itself uses".to_owned(),
            ppm => format!(", within {ppm:.2e} ppm of the kernel's clock"),
        });
        format!("The CPU's counter ({}) is trusted{}; {price}.", clock.source, bound.unwrap_or_default())
    } else {
        let reason = clock
            .reasons
            .first()
            .map_or_else(|| "it gave no reason".to_owned(), |reason| reason.trim_end_matches('.').to_owned());
        format!("The CPU's counter is not trusted ({reason}), so vtare reads the kernel's clock; {price}.")
    };
    Some(Finding { id: "clock", text, figure: cost, unit: "ns" })
}

fn kernel_clock(figures: &Measured) -> Option<Finding> {
    let cost = figures.timer("clock_monotonic")?;
    let median = cost.median?;
    let mut text =
        format!("clock_gettime costs {}{}", time(Some(median)), middle_half(cost.half_iqr, "its readings", time));
    if let Some(call) = figures.timer("clock_monotonic_syscall").and_then(|cost| cost.median) {
        text.push_str(&format!(", a real system call {}", time(Some(call))));
        // A vDSO that falls back to the system call costs as much as one.
        if median > call * 0.8 {
            text.push_str(": the kernel's clock source cannot be read without a system call");
        }
    }
    text.push('.');
    Some(Finding { id: "kernel_clock", text, figure: median, unit: "ns" })
}

fn noise(figures: &Measured) -> Option<Finding> {
    let lost = figures.lost_fraction()?;
    let longest = figures.noise.iter().filter_map(|cell| cell.gap_ns.max).max_by(f64::total_cmp);
    let mut text =
        short_noise(figures)?.trim_end_matches('.').replace("other programs", "other programs on this machine");
    text.extend(longest.map(|longest| format!("; the longest gap took {}", time(Some(longest)))));
    text.push('.');
    Some(Finding { id: "noise", text, figure: lost, unit: "1" })
}

/// What a busy loop lost and to whom, in one line.
pub(super) fn short_noise(figures: &Measured) -> Option<String> {
    let lost = figures.lost_fraction()?;
    if lost == 0.0 {
        return Some("A busy loop lost none of its time.".to_owned());
    }
    let most = causes::accounts(figures).first().map(|(_, who, share)| match share / lost {
        part if part >= 0.9 => format!(", nearly all of it to {who}"),
        part if part >= 0.5 => format!(", most of it to {who}"),
        part => format!(", {} of it to {who}", rough_percent(part)),
    });
    Some(format!("A busy loop lost {} of its time{}.", rough_percent(lost), most.unwrap_or_default()))
}

fn steal(figures: &Measured) -> Option<Finding> {
    let share = figures.cause_share(|causes| causes.steal_ns)?;
    let mut text = match share {
        0.0 => "The hypervisor reports that it took none of the time lost".to_owned(),
        share if share < 0.05 => format!("The hypervisor took almost none of the time lost ({})", rough_percent(share)),
        share => format!("The hypervisor took {} of the time lost", rough_percent(share)),
    };
    let outside = figures.noise.iter().map(|cell| cell.causes.gaps_from_outside_min).sum::<Option<u64>>();
    if let Some(outside @ 1..) = outside {
        text.push_str(&format!("; at least {outside} gaps came from outside this system"));
        if share == 0.0 {
            text.push_str(", so its account is blind here");
        }
    }
    text.push('.');
    Some(Finding { id: "steal", text, figure: share, unit: "1" })
}

fn work(figures: &Measured) -> Option<Finding> {
    let cell = figures.counter.iter().filter(|cell| cell.cv.is_some()).min_by_key(|cell| cell.argument)?;
    let cv = cell.cv?;
    let mut text = format!("Equal work of {} varies by {}", time(cell.runtime_ns.median), percent(Some(cv)));
    if let (Some(within), Some(between)) = (cell.cv_within, cell.cv_between) {
        text.push_str(&format!(" (CV; {} within batches, {} between)", percent(Some(within)), percent(Some(between))));
    }
    if let Some(cause) = &cell.dominant_cause {
        text.push_str(&format!(", mostly from {}", cause.replace('_', " ")));
    }
    text.push('.');
    Some(Finding { id: "work", text, figure: cv, unit: "1" })
}

#[cfg(test)]
mod tests;
