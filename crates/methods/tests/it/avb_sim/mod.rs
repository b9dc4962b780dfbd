//! Drives a method over the simulated path, and knows the truth. Shared by the tests and by `bench/avb`.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod cells;
pub(crate) mod random;

use vtare_methods::avb::{Ability, Estimate, Method, Observation, Step, Train, takes_any_stamps};
use vtare_pathsim::{Cross, HopSpec, Traffic};
use vtare_probe::link::ProbeLink as _;
use vtare_probe::sim::{TrainFar, TrainLink, TrainSpec};
use vtare_probe::train::{AvbSession, Grouped, most_group};
use vtare_units::{Monotonic, Span, Timestamp};

/// Steps after which a method is held to have lost its way.
const MOST_STEPS: usize = 100_000;

/// A method's answer and what it should have been.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) estimate: Estimate,
    /// Mean available bandwidth of the window that the estimate states (else of the whole measurement), bit/s:
    /// capacity less cross traffic that came, at the hop where it is least.
    pub(crate) truth: f64,
    /// From the mean rates that the cross traffic was made with, bit/s.
    pub(crate) nominal: f64,
}

/// A simulated path under way, behind the product's own sessions.
pub(crate) struct SimRunner {
    spec: TrainSpec,
    session: AvbSession<TrainLink, TrainFar>,
    grouped: Grouped,
    began_ns: u64,
    /// Send time of each packet.
    sent_ns: Vec<u64>,
}

impl SimRunner {
    /// The path has run for `warm_ns` when the measurement begins, so that its queues are as they are in the long run.
    pub(crate) fn new(spec: &TrainSpec, warm_ns: u64) -> Self {
        let session = TrainLink::session(spec, warm_ns).expect("a good path");
        let grouped = Grouped::BackToBack;
        Self { spec: spec.clone(), session, grouped, began_ns: warm_ns, sent_ns: Vec::new() }
    }

    pub(crate) fn now(&self) -> Timestamp<Monotonic> {
        self.session.link().now()
    }

    /// Runs a method to its end.
    pub(crate) fn run(&mut self, method: &mut dyn Method) -> Outcome {
        self.began_ns = self.now().as_nanos();
        for _ in 0..MOST_STEPS {
            if let Some(estimate) = self.turn(method) {
                return self.outcome(estimate);
            }
        }
        panic!("{} did not end after {MOST_STEPS} steps", method.name());
    }

    /// One step; the estimate, where that was the last.
    pub(crate) fn turn(&mut self, method: &mut dyn Method) -> Option<Estimate> {
        self.grouped = if takes_any_stamps(method.name()) { Grouped::BackToBack } else { Grouped::Groups };
        match method.step(self.now()) {
            Step::Send(train) => {
                let observation = self.send(&train);
                method.observe(&observation);
                None
            }
            Step::Wait(ns) => {
                self.wait(ns);
                None
            }
            Step::Done(estimate) => Some(*estimate),
        }
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        let until = self.now() + Span::from_unsigned_nanos(ns);
        self.session.pause(until).expect("a simulated link does not fail");
    }

    pub(crate) fn send(&mut self, train: &Train) -> Observation {
        let seen = self.session.send(train, self.grouped).unwrap_or_else(|error| panic!("{error}: {train:?}"));
        self.sent_ns.extend(seen.packets.iter().filter_map(|packet| Some(packet.left()?.as_nanos())));
        seen
    }

    fn outcome(&self, estimate: Estimate) -> Outcome {
        let (first, last) = match estimate.window_s {
            Some([from, to]) => {
                let at = |s: f64| self.began_ns as f64 + s * 1e9;
                let first = self.sent_ns.partition_point(|&sent| (sent as f64) < at(from) - 0.5);
                let end = self.sent_ns.partition_point(|&sent| (sent as f64) <= at(to) + 0.5);
                (first, end.saturating_sub(1))
            }
            None => (0, self.sent_ns.len().saturating_sub(1)),
        };
        let truth = self.truth(first, last);
        Outcome { estimate, truth, nominal: self.nominal() }
    }

    /// Mean available bandwidth between two packets, counted over all trains, bit/s.
    pub(crate) fn truth(&self, first: usize, last: usize) -> f64 {
        let hops = self.spec.path.hops.iter().zip(self.session.link().cross());
        let of = hops.map(|(hop, cross)| {
            let (Some(from), Some(to)) = (cross.get(first), cross.get(last)) else { return f64::NAN };
            let middle = from.at_ns.midpoint(to.at_ns);
            let offered = (to.offered_byte - from.offered_byte) as f64 * 8e9 / (to.at_ns - from.at_ns).max(1) as f64;
            available(hop, middle, offered)
        });
        // More came than the link carries: nothing is available.
        of.fold(f64::INFINITY, f64::min).max(0.0)
    }

    pub(crate) fn nominal(&self) -> f64 {
        self.spec.path.available_at(self.now()).expect("a hop") as f64
    }
}

/// What a hop has left at a time, bit/s, where packets of cross traffic come at this rate: the mean of those is not
/// what came.
pub(crate) fn available(hop: &HopSpec, at_ns: u64, offered_bit_per_s: f64) -> f64 {
    let packets = hop.cross.iter().filter(|it| it.is_on(at_ns) && !matches!(it.traffic, Traffic::Fluid { .. }));
    let mean: u64 = packets.map(Cross::mean_bit_per_s).sum();
    hop.available_at(at_ns) as f64 + mean as f64 - offered_bit_per_s
}

/// What the sender of the spec can do.
pub(crate) fn ability(spec: &TrainSpec, most_packet_byte: u32) -> Ability {
    let session = TrainLink::session(spec, 0).expect("a good path");
    let ability = session.ability(most_packet_byte);
    Ability {
        least_gap_ns: spec.sender.call_ns.max(1.0),
        most_group: if spec.sender.large_sends { most_group(most_packet_byte - ability.ip_header_byte) } else { 1 },
        stamp_error_ns: 1.0,
        ..ability
    }
}
