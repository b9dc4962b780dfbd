//! What changes with the rate of probes, in one place; docs/methods/rtt.md has it as a table.

/// What carries the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Sockets.
    Socket,
    /// Frames of this program's own: AF_XDP.
    Frames,
    /// Programs in the kernel: XDP.
    Programs,
}

/// What suits a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatePolicy {
    /// Every how many departures one is stamped: reading each stamp costs a system call.
    pub tx_stamp_every: u32,
    /// Whether records are read after the run, which would take the responder's CPU meanwhile, and whether the default
    /// timeout is short: each packet that may still be answered takes 200 B of memory.
    pub dense: bool,
    /// Whether packets that are due together leave in one large send, and arrive so. To queues and filters on its way
    /// it is one packet, which they then drop as a whole: only where single ones could not keep up.
    pub bunched: bool,
    /// What `--engine auto` takes. AF_XDP costs less than sockets, so gaps hold and replies are seen sooner; beyond it
    /// the far end's sockets cannot keep up with single packets. Sockets of any kind end not far above the rate of
    /// programs.
    pub carrier: Carrier,
    /// Frames that programs send together, which share the price of a departure.
    pub together: u32,
}

/// From this rate on, in packets a second, packets leave and arrive in bunches.
pub const BUNCHED_FROM: u64 = 100_000;

const SINGLE: RatePolicy =
    RatePolicy { tx_stamp_every: 1, dense: false, bunched: false, carrier: Carrier::Socket, together: 1 };
const SAMPLED: RatePolicy = RatePolicy { tx_stamp_every: 64, ..SINGLE };
const DENSE: RatePolicy = RatePolicy { dense: true, ..SAMPLED };
const FRAMES: RatePolicy = RatePolicy { bunched: true, carrier: Carrier::Frames, ..DENSE };
const KERNEL: RatePolicy = RatePolicy { carrier: Carrier::Programs, ..FRAMES };

/// Above which rate, in packets a second, each policy begins.
const STEPS: [(u64, RatePolicy); 6] = [
    (0, SINGLE),
    (20_000, SAMPLED),
    (50_000, DENSE),
    (BUNCHED_FROM, FRAMES),
    (200_000, KERNEL),
    (600_000, RatePolicy { together: 2, ..KERNEL }),
];

impl RatePolicy {
    /// What suits this rate, in packets a second.
    #[must_use]
    pub fn of(packet_per_s: f64) -> Self {
        let step = STEPS.iter().rev().find(|(above, _)| packet_per_s > *above as f64);
        let policy = step.map_or(SINGLE, |(_, policy)| *policy);
        // By the far end's rule, which counts what comes in a time.
        Self { bunched: packet_per_s >= BUNCHED_FROM as f64, ..policy }
    }

    /// What suits a flood: its rate is not known before, and it has one packet on its way at a time.
    #[must_use]
    pub const fn of_flood() -> Self {
        Self { dense: true, ..SAMPLED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_begins_above_its_rate() {
        assert_eq!((RatePolicy::of(0.0), RatePolicy::of(20_000.0)), (SINGLE, SINGLE));
        assert_eq!((RatePolicy::of(20_001.0), RatePolicy::of(f64::INFINITY)), (SAMPLED, STEPS[5].1));
        assert_eq!(RatePolicy::of(100_000.0), RatePolicy { bunched: true, ..DENSE });
        assert_eq!(RatePolicy::of(99_999.0), DENSE);
        assert!(STEPS.is_sorted_by_key(|(above, _)| *above));
    }

    #[test]
    fn the_table_of_the_documentation_has_every_step() {
        let page = include_str!("../../../docs/methods/rtt.md");
        for (below, (above, policy)) in STEPS.iter().map(|(_, policy)| *policy).zip(STEPS.into_iter().skip(1)) {
            let row = page.lines().find(|line| line.starts_with(&format!("| {},000 |", above / 1_000)));
            let row = row.unwrap_or_else(|| panic!("docs/methods/rtt.md has no row of {above}"));
            let changed = [
                (below.tx_stamp_every != policy.tx_stamp_every, format!("1 departure in {} is", policy.tx_stamp_every)),
                (below.dense != policy.dense, "records are read after the run".to_owned()),
                (below.bunched != policy.bunched, "one large send".to_owned()),
                (below.carrier != policy.carrier, format!("{:?}", policy.carrier)),
                (below.together != policy.together, format!("{} packets together", policy.together)),
            ];
            for (_, words) in changed.into_iter().filter(|(changed, _)| *changed) {
                let words = words.replace("Frames", "AF_XDP").replace("Programs", "programs in the kernel");
                assert!(row.contains(&words), "docs/methods/rtt.md says of {above}: {row}, not: {words}");
            }
        }
    }
}
