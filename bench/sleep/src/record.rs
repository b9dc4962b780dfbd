//! Records how late this machine wakes sleepers and how it interrupts spinners: the traces that the policy's tests
//! replay.

use std::fmt::Write as _;
use std::path::Path;

use vtare_clock::Clock;
use vtare_clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_sys::counter;
use vtare_units::Span;

use crate::condition::Condition;

const SLEEPS: usize = 1_500;
const RUNS: usize = 400;
/// The longest a recording may take.
const LIMIT: Span = Span::from_secs(40);
/// A gap in a spin from which on it is recorded: below it is the cost of the loop and of single interrupts.
const GAP: Span = Span::from_micros(20);

/// Writes `DIR/CONDITION.trace` for each condition.
pub fn record(clock: &Clock, conditions: &[Condition], threads: u32, directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    for condition in conditions {
        let load = match condition.start(threads) {
            Ok(load) => load,
            Err(reason) => {
                println!("{condition:?}: skipped, {reason}");
                continue;
            }
        };
        let text = trace(clock, *condition, threads)?;
        drop(load);
        let path = directory.join(format!("{condition:?}.trace").to_lowercase());
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn trace(clock: &Clock, condition: Condition, threads: u32) -> Result<String, String> {
    let mut text = format!(
        "# {}; sleeps of 1 ms to an absolute deadline, slack 1 ns, slice 100 us; then one thread spinning.\n# Made by \
         bench/sleep --record.\n",
        condition.describe(threads)
    );
    // The adaptive method with the least price never spins: the kernel's own lateness with the thread set up as it sets
    // it up.
    let options = SleepOptions { lambda: Span::from_nanos(1), ..SleepOptions::default() };
    let mut sleeper = Sleeper::new(clock, Method::Adaptive, options);
    let begun = clock.now();
    for _ in 0..SLEEPS {
        let from = clock.now();
        if from - begun > LIMIT {
            break;
        }
        let phase = sleeper.begin(from, from + Span::from_millis(1));
        let Some(until) = phase.kernel_until else { continue };
        vtare_sys::clocks::sleep_until(until).map_err(|error| error.to_string())?;
        let overshoot = clock.now() - until;
        sleeper.finish(&phase);
        let _ = writeln!(text, "overshoot {}", overshoot.as_nanos_unsigned());
    }
    let begun = clock.now();
    let (mut last, mut run_from) = (counter::read(), counter::read());
    let gap = GAP.as_nanos();
    let mut runs = 0;
    while runs < RUNS {
        let now = counter::read();
        let lost = clock.span_of(now.since(last)).as_nanos();
        if lost > gap {
            let ran = clock.span_of(last.since(run_from)).as_nanos();
            let fits = |nanos: i64| u32::try_from(nanos).unwrap_or(u32::MAX);
            let _ = writeln!(text, "run {} {}", fits(ran), fits(lost));
            runs += 1;
            run_from = counter::read();
            last = run_from;
            if clock.now() - begun > LIMIT {
                break;
            }
            continue;
        }
        last = now;
    }
    Ok(text)
}
