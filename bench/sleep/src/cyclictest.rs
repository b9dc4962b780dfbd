//! The lateness that cyclictest states (Debian: rt-tests), beside ours.

use std::process::Command;

use vtare_units::Span;

/// Sleeps of cyclictest for each target.
const SLEEPS: i64 = 2_000;

/// Prints its figures for one target, or why there are none.
pub fn print(target: Span, seconds: Span) {
    let loops = (seconds.as_nanos() / target.as_nanos()).clamp(1, SLEEPS);
    match run(target, loops) {
        Ok([least, mean, most]) => {
            println!("  cyclictest             {target:>8} {loops:>11}  least {least}, mean {mean}, greatest {most}");
        }
        Err(reason) => println!("  cyclictest             {target:>8}  none: {reason}"),
    }
}

fn run(target: Span, loops: i64) -> Result<[Span; 3], String> {
    let micros = target.as_nanos() / 1_000;
    let words = [format!("--interval={micros}"), format!("--loops={loops}")];
    let usual = ["--quiet", "--threads=1", "--policy=other", "--nsecs"];
    let done = Command::new("cyclictest").args(usual).args(words).output();
    let done = done.map_err(|error| format!("cyclictest does not start ({error}); Debian has it in rt-tests"))?;
    let (out, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    figures(&out).ok_or_else(|| errors.lines().next().unwrap_or("it printed no figures").to_owned())
}

/// The least, the mean and the greatest lateness of `T: 0 ( 71) P: 0 I:1000 C: 300 Min: 5102 Act: 61021 Avg: 60333
/// Max: 90113`.
fn figures(out: &str) -> Option<[Span; 3]> {
    let line = out.lines().rev().find(|line| line.starts_with("T:"))?;
    let after = |name: &str| {
        let nanos = line.split_once(name)?.1.split_whitespace().next()?.parse().ok()?;
        Some(Span::from_nanos(nanos))
    };
    Some([after("Min:")?, after("Avg:")?, after("Max:")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_its_last_line_are_read() {
        let out = "# /dev/cpu_dma_latency set to 0us\nT: 0 (   71) P: 0 I:1000 C:    300 Min:   5102 Act: 61021 \
                   Avg: 60333 \
                   Max:   90113\n";
        let wanted = [5_102, 60_333, 90_113].map(Span::from_nanos);
        assert_eq!(figures(out), Some(wanted));
        assert_eq!(figures("Unable to change scheduling policy!\n"), None);
    }
}
