//! The verdict and the findings: sentences made of figures. A part without figures gets no sentence.

use serde::Serialize;

use crate::answer::VerdictLevel;
use crate::table::{middle_half, percent, time};

use super::figures::{Busy, Measured, SleepFigures};
use super::trust::{Trust, TrustPoint};

/// A sentence and the figure it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// Short and stable, for programs.
    pub(crate) id: &'static str,
    /// The sentence, for people.
    pub(crate) text: String,
    /// The figure.
    pub(crate) figure: f64,
    /// Its unit: `ns`, `threads`, or `1` for shares and coefficients.
    pub(crate) unit: &'static str,
}

/// Sleep target of the verdict's sentence.
pub(super) const VERDICT_TARGET_NS: u64 = 50_000;
/// Other sleep targets of the findings.
pub(super) const OTHER_TARGETS_NS: [u64; 2] = [1_000_000, 10_000_000];

/// The plain verdict, from the findings that carry it.
pub(super) fn verdict(figures: &Measured, findings: &[Finding]) -> (String, VerdictLevel) {
    let text = |id: &str| findings.iter().find(|finding| finding.id == id).map(|finding| finding.text.as_str());
    let durations = text("durations");
    let untrusted = text("clock").filter(|_| !figures.clock.trusted);
    let measured: Vec<&str> = [durations, text("sleep_50us"), untrusted].into_iter().flatten().collect();
    if measured.is_empty() {
        let parts =
            [figures.timer.is_empty(), figures.sleep.is_empty(), figures.counter.is_empty(), figures.noise.is_empty()];
        let measured = parts.iter().filter(|missing| !**missing).count();
        return (
            format!("{measured} of {} parts were measured, too few for a verdict.", parts.len()),
            VerdictLevel::Undecided,
        );
    }
    let sentences: Vec<&str> = measured.into_iter().chain(text("busy")).collect();
    let trusted = figures.trust.as_ref().is_some_and(|trust| trust.least_ns.is_some());
    (sentences.join(" "), if trusted && untrusted.is_none() { VerdictLevel::Good } else { VerdictLevel::Poor })
}

/// All findings that the figures carry.
pub(super) fn findings(figures: &Measured) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(figures.trust.as_ref().and_then(durations));
    found.extend(figures.trust.as_ref().and_then(|trust| error_of(trust, 1_000_000)));
    found.extend(sleep(figures, "sleep_50us", VERDICT_TARGET_NS));
    found.extend(sleep(figures, "sleep_1ms", OTHER_TARGETS_NS[0]));
    found.extend(sleep(figures, "sleep_10ms", OTHER_TARGETS_NS[1]));
    found.extend(clock(figures));
    found.extend(kernel_clock(figures));
    found.extend(noise(figures));
    found.extend(steal(figures));
    found.extend(work(figures));
    found.extend(figures.busy.map(busy));
    found
}

fn busy(Busy { load_average, cpus }: Busy) -> Finding {
    let text = format!("The machine was not idle (load average {load_average:.1} on {cpus} CPUs).");
    Finding { id: "busy", text, figure: load_average, unit: "threads" }
}

fn durations(trust: &Trust) -> Option<Finding> {
    let level = whole_percent(trust.level);
    let longest = trust.points.last()?;
    let parts = trust.least_by_part_ns.len();
    let reached: Vec<i64> = trust.least_by_part_ns.iter().copied().flatten().collect();
    let Some(least) = trust.least_ns else {
        let error = longest.error_p95.median?;
        let text = format!(
            "No duration up to {} can be trusted to {level} on this machine: of {}, 5 in 100 are off by {} or more{}.",
            plain_time(longest.duration_ns),
            plain_time(longest.duration_ns),
            percent(Some(error)),
            middle_half(longest.error_p95.half_iqr, &format!("{parts} parts"), percent),
        );
        return Some(Finding { id: "durations", text, figure: error, unit: "1" });
    };
    let reach = if trust.holds_beyond {
        format!("of {} and more", plain_time(least))
    } else {
        format!("of {} to {}", plain_time(least), plain_time(longest.duration_ns))
    };
    let mut text = format!("Durations {reach} can be trusted to {level} on this machine");
    if let (Some(low), Some(high)) = (reached.iter().min(), reached.iter().max()) {
        let spread =
            if low == high { plain_time(*low) } else { format!("{} to {}", plain_time(*low), plain_time(*high)) };
        text.push_str(&format!(" (from {spread} on in {} of {parts} parts", reached.len()));
        text.push_str(if reached.len() < parts { "; in the others from none)" } else { ")" });
    }
    text.push('.');
    Some(Finding { id: "durations", text, figure: least as f64, unit: "ns" })
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
    let late = |method: &str| {
        let cell: &SleepFigures = figures.sleep(method, target_ns)?;
        Some((cell.miss_ns.median?, cell))
    };
    let clause = |name: &str, (median, cell): (f64, &SleepFigures)| {
        let direction = if median < 0.0 { "early" } else { "late" };
        let spread = middle_half(cell.miss_ns.half_iqr, "them", time);
        format!("{} {direction} with {name}{spread}", time(Some(median.abs())))
    };
    let (usleep, own) = (late("usleep"), late("adaptive"));
    let figure = usleep.or(own)?.0;
    let mut text = format!("Sleeps of {} wake ", plain_time(i64::try_from(target_ns).ok()?));
    let clauses = [usleep.map(|miss| clause("usleep", miss)), own.map(|miss| clause("vtare's sleep", miss))];
    text.push_str(&clauses.into_iter().flatten().collect::<Vec<_>>().join(" and "));
    if let Some(share) = own.and_then(|(_, cell)| cell.cpu_fraction) {
        text.push_str(&format!(", which uses {} of a CPU", percent(Some(share))));
    }
    text.push('.');
    Some(Finding { id, text, figure, unit: "ns" })
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
    let shares: Vec<f64> = figures.noise.iter().filter_map(|cell| cell.lost_fraction).collect();
    let (low, high) =
        (shares.iter().copied().fold(f64::INFINITY, f64::min), shares.iter().copied().fold(0.0, f64::max));
    let mut text = format!(
        "{} of the time is taken from a thread that never lets go, in gaps of 10 us and more",
        percent(Some(lost))
    );
    if shares.len() > 1 {
        text.push_str(&format!(" ({} to {} by CPU)", percent(Some(low)), percent(Some(high))));
    }
    if let Some(longest) = figures.noise.iter().filter_map(|cell| cell.gap_ns.max).max_by(f64::total_cmp) {
        text.push_str(&format!("; the longest took {}", time(Some(longest))));
    }
    if let Some(others) = figures.cause_share(|causes| causes.other_threads_ns) {
        text.push_str(&format!("; {} of it went to other threads", percent(Some(others))));
    }
    text.push('.');
    Some(Finding { id: "noise", text, figure: lost, unit: "1" })
}

fn steal(figures: &Measured) -> Option<Finding> {
    let share = figures.cause_share(|causes| causes.steal_ns)?;
    let unsaid = figures.cause_share(|causes| causes.unattributed_ns);
    let mut text = format!("The hypervisor's steal account explains {} of the time lost", percent(Some(share)));
    if let Some(unsaid) = unsaid.filter(|unsaid| *unsaid > 0.0) {
        text.push_str(&format!(", {} is in no account", percent(Some(unsaid))));
    }
    let outside = figures.noise.iter().map(|cell| cell.causes.gaps_from_outside_min).sum::<Option<u64>>();
    if let Some(outside @ 1..) = outside {
        text.push_str(&format!(
            "; at least {outside} gaps had neither interrupt nor switch and came from outside this system"
        ));
        if share == 0.0 {
            text.push_str(": steal is blind here");
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

/// A time that is a round number, without needless digits: `50 us`, `1 ms`.
pub(super) fn plain_time(nanos: i64) -> String {
    let (value, unit) = match nanos {
        n if n < 1_000 => (n as f64, "ns"),
        n if n < 1_000_000 => (n as f64 / 1e3, "us"),
        n if n < 1_000_000_000 => (n as f64 / 1e6, "ms"),
        n => (n as f64 / 1e9, "s"),
    };
    format!("{value} {unit}")
}

fn whole_percent(share: f64) -> String {
    format!("{} %", share * 100.0)
}

#[cfg(test)]
mod tests;
