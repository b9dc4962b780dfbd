//! What alone makes an answer wrong: one disturbance at a time on an idle path of 10 Gbit/s with packets of 9000 B.
//!
//! These are the conditions of plans/kachan-avb, whose runs have all of them at once.

use bench_figures::figure;
use vtare_methods::avb::{Budget, Settings, Setup};
use vtare_pathsim::LossModel;
use vtare_probe::sim::TrainSpec;

use crate::avb_sim::cells::{Cell, Model, Trouble};
use crate::avb_sim::{Outcome, SimRunner, ability};
use crate::{Arguments, row};

const CAPACITY: u64 = 10_000_000_000;
const PACKET_BYTE: u32 = 9000;
const WARM_NS: u64 = 10_000_000;
/// Methods in place of the own one alone, where none is asked for.
const METHODS: [&str; 4] = ["abacus", "kite:kachan-optimized", "kite2:kachan-optimized", "yaz:kachan-optimized"];

/// What differs from a path of 0.5 ms each way without loss, between machines that are never late.
struct Disturbance {
    label: &'static str,
    delay_ns: u64,
    loss: f64,
    most_ns: Option<u64>,
    late: Option<Trouble>,
}

const fn with(label: &'static str, delay_ns: u64, loss: f64) -> Disturbance {
    Disturbance { label, delay_ns, loss, most_ns: None, late: None }
}

const fn late(label: &'static str, late: Trouble) -> Disturbance {
    Disturbance { label, delay_ns: NEAR_NS, loss: 0.0, most_ns: None, late: Some(late) }
}

const fn within_1_s(label: &'static str, delay_ns: u64) -> Disturbance {
    Disturbance { label, delay_ns, loss: 0.0, most_ns: Some(1_000_000_000), late: None }
}

const NEAR_NS: u64 = 500_000;
const FAR_NS: u64 = 100_000_000;
const DISTURBANCES: [Disturbance; 17] = [
    with("none", NEAR_NS, 0.0),
    with("delay 5 ms", 5_000_000, 0.0),
    with("delay 20 ms", 20_000_000, 0.0),
    with("delay 50 ms", 50_000_000, 0.0),
    with("delay 100 ms", FAR_NS, 0.0),
    with("loss 0.5 %", NEAR_NS, 0.005),
    with("loss 1 %", NEAR_NS, 0.01),
    with("loss 2 %", NEAR_NS, 0.02),
    with("loss 5 %", NEAR_NS, 0.05),
    with("delay 100 ms, loss 5 %", FAR_NS, 0.05),
    within_1_s("ended after 1 s", NEAR_NS),
    within_1_s("delay 100 ms, ended after 1 s", FAR_NS),
    late("sends late by 1.5 us", Trouble::LateSender),
    late("sender stalls", Trouble::SenderPauses),
    late("receiver stalls", Trouble::ReceiverStalls),
    late("emulator late", Trouble::LateRelay),
    late("emulator starved", Trouble::StarvedRelay),
];

impl Disturbance {
    fn spec(&self, seed: u64) -> TrainSpec {
        let idle = Cell { capacity: CAPACITY, load: 0, model: Model::Constant, hops: 1 };
        let mut spec = self.late.map_or_else(|| idle.spec(seed), |trouble| trouble.spec(CAPACITY, 0, seed));
        spec.path.hops[0].delay_ns = self.delay_ns;
        spec.answer_ns = self.delay_ns;
        if self.loss > 0.0 {
            spec.path.hops[0].loss = LossModel::Random { probability: self.loss };
        }
        spec
    }

    fn once(&self, method: &str, seed: u64) -> Outcome {
        let spec = self.spec(seed);
        let budget = Budget { most_ns: self.most_ns, ..Budget::default() };
        let setup = Setup { ability: ability(&spec, PACKET_BYTE), budget, seed };
        let mut method =
            Settings::named(method).and_then(|it| it.method(setup)).unwrap_or_else(|error| panic!("{error}"));
        SimRunner::new(&spec, WARM_NS).run(method.as_mut())
    }
}

/// Prints for each disturbance and method: median error and half of its interquartile range in % of the capacity, the
/// time of an answer, and how the estimates ended.
pub(crate) fn run(arguments: &Arguments) {
    let given: Vec<&str> = arguments.methods.iter().map(String::as_str).collect();
    let methods = if given == [crate::OWN] { METHODS.to_vec() } else { given };
    println!("{:<30} {:<24} {:>8} {:>8} {:>7} {:>4}  ended", "disturbance", "method", "error %", "hIQR %", "s", "none");
    for disturbance in &DISTURBANCES {
        for method in &methods {
            let seeds = arguments.first_seed..arguments.first_seed + arguments.seeds;
            let found = row(&seeds.map(|seed| disturbance.once(method, seed)).collect::<Vec<_>>());
            let of = |key: &str, value: f64, unit: &str| {
                figure(format_args!("{}/{method}/{key}", disturbance.label), value, unit)
            };
            println!(
                "{:<30} {:<24} {:>8.2} {:>8.2} {:>7.3} {:>4}  {}",
                disturbance.label,
                method,
                of("median error", found.bias, "%"),
                of("half IQR", found.half_iqr, "%"),
                of("time", found.seconds, "s"),
                of("without an answer", found.none as f64, ""),
                found.stopped
            );
        }
    }
}
