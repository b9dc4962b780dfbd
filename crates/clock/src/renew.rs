//! When a clock line has grown old: how to go on, as a pure decision.

use vtare_units::CounterTick;

use crate::line::{FixedRate, SlewedLine};

/// A kernel clock's value at a tick, within hard bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// The tick.
    pub at: CounterTick,
    /// The clock at that tick, in ns: the least it can be.
    pub low_ns: u64,
    /// How much more it can be, in ns; below 0 where the readings contradict each other.
    pub width_ns: f64,
}

impl Anchor {
    fn middle_after(self, origin_ns: u64) -> f64 {
        self.low_ns.wrapping_sub(origin_ns).cast_signed() as f64 + self.width_ns / 2.0
    }
}

/// All that the decision needs.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// The line in use.
    pub line: SlewedLine,
    /// For how many ticks after its change of rate it was meant to serve.
    pub lifetime_ticks: u64,
    /// The anchor that the line was made from.
    pub last: Anchor,
    /// The anchor taken now.
    pub now: Anchor,
    /// The counter's own rate, ns per tick (CLOCK_MONOTONIC_RAW).
    pub raw_ns_per_tick: f64,
    /// The machine slept or the kernel's clock source changed since the last anchor.
    pub disrupted: bool,
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Renewal {
    /// Slew the line: from soon after the anchor, run at `rate`, which follows the kernel's rate and works off the
    /// error.
    Slew {
        /// The rate from the change on.
        rate: FixedRate,
        /// Kernel clock minus this clock at the anchor, in ns.
        error_ns: f64,
    },
    /// Start a new line at the anchor's upper bound: nobody has read the old one for so long that a step forward is
    /// unseen.
    Step {
        /// The rate from the anchor on.
        rate: FixedRate,
    },
    /// Give the counter up: it and the kernel's clock no longer show the same time.
    Distrust {
        /// Kernel clock minus this clock at the anchor, in ns.
        error_ns: f64,
    },
}

/// The kernel steers CLOCK_MONOTONIC by at most 500 ppm (NTP) and 500 ppm more (adjtime); beyond that, with some room,
/// something broke.
pub const STEER_LIMIT_PPM: f64 = 1_100.0;

/// Decides how to go on.
#[must_use]
pub fn renew(situation: &Situation) -> Renewal {
    let Situation { line, last, now, raw_ns_per_tick, .. } = *situation;
    let ticks = now.at.since(last.at) as f64;
    let origin = last.low_ns;
    let kernel = now.middle_after(origin);
    let ours = line.ns_at(now.at).wrapping_sub(origin).cast_signed() as f64;
    let error_ns = kernel - ours;
    let kernel_rate = (kernel - last.middle_after(origin)) / ticks;
    // What the width of the two anchors may add to the rate that is seen between them.
    let blur_ppm = (last.width_ns + now.width_ns + 2.0) / (ticks * raw_ns_per_tick) * 1e6;
    let off_ppm = (kernel_rate / raw_ns_per_tick - 1.0).abs() * 1e6;
    let broken = ticks <= 0.0 || off_ppm > STEER_LIMIT_PPM + blur_ppm;
    if now.width_ns < 0.0 {
        // Readings on one CPU within a microsecond: no suspend explains that.
        return Renewal::Distrust { error_ns };
    }
    if situation.disrupted {
        // After a suspend the old line shows nothing; the rate may have been steered anew as well.
        return step(raw_ns_per_tick, line);
    }
    if broken {
        return Renewal::Distrust { error_ns };
    }
    let kernel_rate = if blur_ppm < STEER_LIMIT_PPM { kernel_rate } else { line.after.ns_per_tick() };
    let age = now.at.since(line.at);
    if age < 0 || age as u64 > situation.lifetime_ticks.saturating_mul(2) {
        return step(kernel_rate, line);
    }
    // Half of the error at a time: the anchor's own noise is then not chased.
    let correction = 0.5 * error_ns / situation.lifetime_ticks as f64;
    let most = raw_ns_per_tick * STEER_LIMIT_PPM * 1e-6;
    match FixedRate::new(kernel_rate + correction.clamp(-most, most)) {
        Some(rate) => Renewal::Slew { rate, error_ns },
        None => Renewal::Distrust { error_ns },
    }
}

fn step(ns_per_tick: f64, line: SlewedLine) -> Renewal {
    Renewal::Step { rate: FixedRate::new(ns_per_tick).unwrap_or(line.after) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: f64 = 1.0 / 2.596_118;
    const SECOND: i64 = 2_596_118_000;

    fn situation(error_ns: f64, steer_ppm: f64, ticks: i64) -> Situation {
        let rate = FixedRate::new(RAW).expect("a sane rate");
        let start = CounterTick::new(1 << 50);
        let at = CounterTick::new(start.count().wrapping_add_signed(ticks));
        let kernel = 1e15 + ticks as f64 * RAW * (1.0 + steer_ppm * 1e-6) + error_ns;
        Situation {
            line: SlewedLine { at: start, ns: 1_000_000_000_000_000, fraction: 0, before: rate, after: rate },
            lifetime_ticks: SECOND as u64,
            last: Anchor { at: start, low_ns: 1_000_000_000_000_000 - 5, width_ns: 10.0 },
            now: Anchor { at, low_ns: (kernel - 5.0) as u64, width_ns: 10.0 },
            raw_ns_per_tick: RAW,
            disrupted: false,
        }
    }

    #[test]
    fn a_steered_kernel_clock_is_followed_and_the_error_worked_off() {
        let Renewal::Slew { rate, error_ns } = renew(&situation(0.0, 40.0, SECOND)) else { panic!("must slew") };
        assert!((error_ns - 40_000.0).abs() < 20.0, "{error_ns}");
        let ppm = (rate.ns_per_tick() / RAW - 1.0) * 1e6;
        assert!((ppm - 60.0).abs() < 0.1, "40 ppm of steering and half of the error over the next second: {ppm}");
    }

    #[test]
    fn a_clock_read_again_after_an_hour_starts_anew_at_the_kernels_time() {
        assert!(matches!(renew(&situation(0.0, 40.0, 3_600 * SECOND)), Renewal::Step { .. }));
    }

    #[test]
    fn a_rate_no_kernel_steers_to_ends_the_trust() {
        assert!(matches!(renew(&situation(0.0, 5_000.0, SECOND)), Renewal::Distrust { .. }));
        assert!(matches!(renew(&situation(0.0, -5_000.0, SECOND)), Renewal::Distrust { .. }));
        assert!(matches!(renew(&situation(0.0, 0.0, -SECOND)), Renewal::Distrust { .. }));
    }

    #[test]
    fn a_suspend_starts_a_new_line_whatever_the_counter_did() {
        let disrupted = Situation { disrupted: true, ..situation(0.0, 0.0, -SECOND) };
        assert!(matches!(renew(&disrupted), Renewal::Step { .. }));
    }

    #[test]
    fn an_anchor_that_contradicts_itself_ends_the_trust() {
        for disrupted in [false, true] {
            let mut torn = Situation { disrupted, ..situation(0.0, 0.0, SECOND) };
            torn.now.width_ns = -40.0;
            assert!(matches!(renew(&torn), Renewal::Distrust { .. }));
        }
    }

    #[test]
    fn two_anchors_too_close_to_show_the_rate_keep_the_old_one() {
        let Renewal::Slew { rate, .. } = renew(&situation(3.0, 0.0, 20_000)) else { panic!("must slew") };
        assert!(((rate.ns_per_tick() / RAW - 1.0) * 1e6).abs() < 1.0);
    }
}
