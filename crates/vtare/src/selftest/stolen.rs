//! Faults of the CPU: a thread takes it for known times from what `noise`, `sleep` and `counter` measure.

use vtare_units::Span;

use super::bench::Bench;
use super::finding::{Range, Trial};
use super::program::{measured, number};
use super::thief::{Pattern, Taken, Thief, nice_of_the_victim};
use crate::failure::Failure;

const THEFT: Pattern = Pattern { busy: Span::from_millis(6), period: Span::from_millis(20) };
const LATENESS: Pattern = Pattern { busy: Span::from_millis(6), period: Span::from_millis(12) };
const VARIATION: Pattern = Pattern { busy: Span::from_millis(5), period: Span::from_millis(20) };
/// It ends while the thief runs, if it began when the thief's last burst ended.
const SLEEP_NS: f64 = 7.3e6;
const CALLS: f64 = 400.0;
/// Above this many interruptions of a burst, which lasts as long as the delay of one sleep, sleeps do not wait for it.
const MOST_INTERRUPTIONS: f64 = 0.2;

/// A measurement while the CPU is taken, and what was taken.
fn while_stolen(
    bench: &Bench<'_>,
    line: &str,
    pattern: Pattern,
) -> Result<(serde_json::Value, Option<Taken>), Failure> {
    let thief = (!bench.broken).then(|| Thief::start(bench.cpu, pattern));
    let document = measured(line, None, nice_of_the_victim())?;
    Ok((document, thief.map(Thief::end).transpose()?))
}

/// What the pattern takes, where nothing takes it: for the test that leaves the injection out.
fn as_planned(pattern: Pattern) -> Taken {
    let [busy, period] = [pattern.busy, pattern.period].map(|span| span.as_nanos() as f64);
    Taken { share: busy / period, burst_ns: busy, late_ns: 0.0, interruptions: 0.0 }
}

/// `vtare noise`: the share of the time that is taken, besides what is taken anyway.
pub(super) fn theft(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let seconds = if bench.quick { 0.4 } else { 1.0 };
    let line = format!("noise --cpu {} --seconds {seconds}", bench.cpu);
    let lost = |document| number(&document, "/cells/0/lost_fraction");
    let (mut found, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeats {
        let before = lost(measured(&line, None, nice_of_the_victim())?)?;
        let (document, stolen) = while_stolen(bench, &line, THEFT)?;
        found.push((lost(document)? - before) / (1.0 - before));
        taken.push(stolen.unwrap_or(as_planned(THEFT)).share);
    }
    let mean = taken.iter().sum::<f64>() / taken.len() as f64;
    // The time of a measurement holds one burst more or less.
    let burst = THEFT.busy.as_nanos() as f64 / (seconds * 1e9);
    Ok(Trial::repeated(Range(mean - burst, mean + burst), 0.0, &found))
}

/// `vtare sleep`: each sleep begins at the end of a burst and ends inside the next, whose end it waits for.
pub(super) fn lateness(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let samples = if bench.quick { 40 } else { 100 };
    let line = format!("sleep --cpu {} --method clock_nanosleep --target {SLEEP_NS}ns --samples {samples}", bench.cpu);
    let miss = |document| number(&document, "/cells/0/miss_ns/median");
    let (mut found, mut without, mut late, mut interrupted) = (Vec::new(), Vec::new(), 0.0_f64, 0.0_f64);
    for _ in 0..bench.repeats {
        without.push(miss(measured(&line, None, nice_of_the_victim())?)?);
        let (document, stolen) = while_stolen(bench, &line, LATENESS)?;
        found.push(miss(document)?);
        let taken = stolen.unwrap_or(as_planned(LATENESS));
        (late, interrupted) = (late.max(taken.late_ns), interrupted.max(taken.interruptions));
    }
    let usual = without.iter().copied().fold(0.0, f64::max);
    let injected = LATENESS.period.as_nanos() as f64 - SLEEP_NS;
    // A sleep begins a wake-up after the burst, and ends one after the next.
    let trial = Trial::repeated(Range(injected - usual, injected + usual + late), usual, &found);
    // The kernel may let a thread that wakes run before an ordinary one: then no sleep waits for the end of a burst.
    let not_injected = (interrupted > MOST_INTERRUPTIONS).then(|| crate::sentences::selftest::taken_back(interrupted));
    Ok(trial.map(|trial| Trial { not_injected, ..trial }))
}

/// `vtare counter`: every burst makes one call longer by its length, so the coefficient of variation follows.
pub(super) fn variation(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let line = format!("counter --cpu {} --max-exponent 0 --batches 4 --calls {} --unit-ms 1", bench.cpu, CALLS / 4.0);
    let cv = |document: &serde_json::Value| number(document, "/cells/0/cv");
    let (mut found, mut without, mut injected) = (Vec::new(), Vec::new(), None::<Range>);
    for _ in 0..bench.repeats {
        let usual = cv(&measured(&line, None, nice_of_the_victim())?)?;
        let (document, stolen) = while_stolen(bench, &line, VARIATION)?;
        found.push(cv(&document)?);
        let call_ns = number(&document, "/cells/0/runtime_ns/median")?;
        let own = expected_cv(call_ns, stolen.unwrap_or(as_planned(VARIATION)).burst_ns, usual);
        injected = Some(injected.map_or(own, |all| Range(all.0.min(own.0), all.1.max(own.1))));
        without.push(usual);
    }
    let usual = without.iter().copied().fold(0.0, f64::max);
    Ok(injected.and_then(|injected| Trial::repeated(injected, usual, &found)))
}

/// The coefficient of variation of calls of `call_ns`, some of which are hit by one burst, where it is `usual` without.
fn expected_cv(call_ns: f64, burst_ns: f64, usual: f64) -> Range {
    let free_ns = VARIATION.period.as_nanos() as f64 - burst_ns;
    let bursts = CALLS * call_ns / free_ns;
    let of = |bursts: f64| {
        let hit = (bursts / CALLS).clamp(0.0, 1.0);
        burst_ns * (hit * (1.0 - hit)).sqrt() / (call_ns + burst_ns * hit)
    };
    // One burst more or less may fall into the run; what varies anyway adds to the variance, or is in it.
    Range(of(bursts - 1.0), of(bursts + 1.0).hypot(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_fifteen_that_takes_six_times_as_long_varies_by_93_percent() {
        let Range(low, high) = expected_cv(1e6, 5e6, 0.0);
        assert!(low < 0.935 && 0.935 < high && high - low < 0.04, "{low} {high}");
        assert!(expected_cv(1e6, 5e6, 0.5).1 > 1.0, "what varies anyway is added");
    }
}
