//! Trains as sent and received, on one pair of clocks, and the delay of the idle path under them.

use vtare_units::{Monotonic, Peer, Timestamp};

use crate::avb::{Ecn, Observation, Spacing};

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Probe {
    /// When, ns since the epoch.
    pub(super) sent_ns: f64,
    /// When it arrived, ns since the epoch of the other clock; `None`: it did not.
    pub(super) received_ns: Option<f64>,
    /// The sender stalled while it sent this packet: its delay is not known.
    pub(super) stalled: bool,
    /// What its ECN field was when it arrived.
    pub(super) ecn: Option<Ecn>,
}

impl Probe {
    /// One-way delay up to a constant, ns.
    fn delay_ns(&self) -> Option<f64> {
        self.received_ns.filter(|_| !self.stalled).map(|received| received - self.sent_ns)
    }
}

/// A train.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trace {
    pub(super) probes: Vec<Probe>,
    /// Size of each packet, bit.
    pub(super) packet_bit: f64,
    /// Packets at the head, which fill the queue that those behind hold.
    pub(super) head: usize,
    /// Packets were lost at the receiver's socket: which of those lost were the path's is not known.
    pub(super) overrun: bool,
    /// Least delay, and when that was.
    pub(super) least_ns: Option<(f64, f64)>,
}

impl Trace {
    /// The first packet whose queue is the stream's doing: a head fills the queue and is no load that goes on, and the
    /// first half behind it may still show the head.
    pub(super) fn settled(&self) -> usize {
        if self.head > 0 { self.head.midpoint(self.probes.len()) } else { 0 }
    }
}

/// The zeros of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Epoch {
    pub(super) sent: Timestamp<Monotonic>,
    pub(super) received: Timestamp<Peer>,
}

impl Epoch {
    pub(super) fn of(observation: &Observation) -> Option<Self> {
        let first = |packet: &crate::avb::Packet| Some(Self { sent: packet.left()?, received: packet.received? });
        observation.packets.iter().find_map(first)
    }

    /// The least delay of all trains as the difference of the two clocks, ns.
    pub(super) fn least_delay_ns<'t>(&self, traces: impl IntoIterator<Item = &'t Trace>) -> Option<i64> {
        let least = traces.into_iter().filter_map(|trace| Some(trace.least_ns?.0)).min_by(f64::total_cmp)?;
        let apart = self.received.as_nanos().cast_signed().wrapping_sub(self.sent.as_nanos().cast_signed());
        Some(apart.wrapping_add(least.round() as i64))
    }
}

/// The train of an observation.
pub(super) fn trace(observation: &Observation, epoch: &Epoch) -> Trace {
    let probe = |packet: &crate::avb::Packet| {
        Some(Probe {
            sent_ns: (packet.left()? - epoch.sent).as_nanos() as f64,
            received_ns: packet.received.map(|received| (received - epoch.received).as_nanos() as f64),
            stalled: packet.descheduled,
            ecn: packet.ecn,
        })
    };
    let probes: Vec<Probe> = observation.packets.iter().filter_map(probe).collect();
    let delays = probes.iter().filter_map(|probe| Some((probe.delay_ns()?, probe.sent_ns)));
    Trace {
        least_ns: delays.min_by(|one, other| one.0.total_cmp(&other.0)),
        probes,
        packet_bit: f64::from(observation.train.size_byte) * 8.0,
        head: match observation.train.spacing {
            Spacing::Primed { head, .. } | Spacing::Scattered { head, .. } => head as usize,
            _ => 0,
        },
        overrun: observation.receiver_drops.is_some_and(|drops| drops > 0),
    }
}

/// The delay of the idle path at a time: the least of all trains, each with what the clocks may have drifted since, as
/// a share: beyond it the delay of an earlier train is no measure for a later one.
pub(super) fn idle_ns<'t>(traces: impl IntoIterator<Item = &'t Trace>, at_ns: f64, drift: f64) -> Option<f64> {
    let least = traces.into_iter().filter_map(|trace| trace.least_ns);
    least.map(|(delay, when)| delay + drift * (at_ns - when).abs()).min_by(f64::total_cmp)
}

/// How long each packet waited: its delay above that of the idle path, ns, not below 0.
pub(super) fn waits_ns(trace: &Trace, idle_ns: f64) -> Vec<Option<f64>> {
    trace.probes.iter().map(|probe| probe.delay_ns().map(|delay| (delay - idle_ns).max(0.0))).collect()
}

#[cfg(test)]
pub(super) mod hand {
    use super::{Probe, Trace};

    /// Packets of 1500 B: when each was sent, and how long it waited, ns; `None`: it was lost. The idle path has no
    /// delay, as a packet before all shows.
    pub(in super::super) fn trace(packets: &[(f64, Option<f64>)]) -> Trace {
        let first = [(-1e6, Some(0.0))];
        let all = first.iter().chain(packets);
        let probe = |&(sent_ns, wait): &(f64, Option<f64>)| Probe {
            sent_ns,
            received_ns: wait.map(|wait| sent_ns + wait),
            stalled: false,
            ecn: None,
        };
        Trace {
            probes: all.map(probe).collect(),
            packet_bit: 12_000.0,
            head: 0,
            overrun: false,
            least_ns: Some((0.0, -1e6)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Packet, Train};

    fn seen(packets: &[(u64, Option<u64>)]) -> Observation {
        let packet = |&(sent, received): &(u64, Option<u64>)| Packet {
            scheduled: Timestamp::from_nanos(sent),
            sent: Some(Timestamp::from_nanos(sent)),
            kernel_sent: None,
            received: received.map(Timestamp::from_nanos),
            place: None,
            size_byte: 1_500,
            call: 0,
            group: None,
            descheduled: false,
            ecn: None,
        };
        Observation {
            train: Train::back_to_back(packets.len() as u32, 1_500),
            packets: packets.iter().map(packet).collect(),
            finished: Timestamp::ZERO,
            receiver_drops: Some(0),
        }
    }

    #[test]
    fn waits_are_above_the_least_delay_of_all_trains() {
        let light = seen(&[(1_000, Some(900_000)), (2_000, Some(901_500))]);
        let burst = seen(&[(10_000, Some(909_500)), (10_000, None), (10_000, Some(929_000))]);
        let epoch = Epoch::of(&light).expect("a packet arrived");
        let traces = [trace(&light, &epoch), trace(&burst, &epoch)];
        assert_eq!(epoch.least_delay_ns(&traces), Some(899_000), "900000 - 1000");
        let idle = idle_ns(&traces, 9_000.0, 5e-5).expect("packets arrived");
        // 8 us after the least delay (0): half a nanosecond of drift is allowed for.
        assert!((idle - 0.45).abs() < 1e-9, "{idle}");
        let waits = waits_ns(&traces[1], 0.0);
        assert_eq!(waits, [Some(500.0), None, Some(20_000.0)]);
    }

    #[test]
    fn a_clock_that_runs_away_makes_old_delays_worthless() {
        let early = seen(&[(0, Some(0))]);
        let epoch = Epoch::of(&early).expect("it arrived");
        // 10 s later the other clock is 1 ms ahead: 100 ppm.
        let late = seen(&[(10_000_000_000, Some(10_001_000_000))]);
        let traces = [trace(&early, &epoch), trace(&late, &epoch)];
        let idle = idle_ns(&traces, 10_000_000_000.0, 5e-5).expect("packets arrived");
        assert!((idle - 500_000.0).abs() < 1.0, "{idle}");
        assert_eq!(idle_ns(&[], 0.0, 5e-5), None);
    }
}
