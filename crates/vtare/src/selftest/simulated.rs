//! Faults of a simulated machine and a simulated path: they need no privilege, and repeat with the seed.

use std::ops::ControlFlow;

use vtare_clock::sim::SimClock;
use vtare_clock::sleep::sim::{SimKernel, Trace};
use vtare_clock::sleep::{Method as SleepMethod, SleepOptions};
use vtare_clock::trust::Evidence;
use vtare_clock::{Clock, ClockOptions};
use vtare_methods::avb::{Ability, Settings, Setup, Step};
use vtare_methods::rtt::{Answer, FarEnd, LocalDrops, Options, Run, Sent, Unsent};
use vtare_pathsim::{HopSpec, LossModel, PathSpec, Traffic};
use vtare_probe::link::ProbeLink as _;
use vtare_probe::open_loop::{self, Event, Observer};
use vtare_probe::schedule::{Pattern, Schedule, Slot};
use vtare_probe::sim::{Echo, SenderSpec, SimLink, SimSpec, TrainLink, TrainSpec};
use vtare_probe::train::Grouped;
use vtare_units::{Monotonic, Pace, PacketRate, Random, Span, Timestamp};

use super::bench::Bench;
use super::finding::{Range, Trial};
use crate::failure::Failure;

/// The CPU's name states 2.6 GHz.
const STATED_KHZ: u32 = 2_600_000;
const TRUE_KHZ: u32 = 2_596_132;
const LATE_NS: u32 = 73_000;
const STEPS: usize = 100_000;

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::Machine(format!("the simulation refused its settings: {error}"))
}

/// The clock: the counter does not run at the rate that the CPU's name states.
pub(super) fn counter_rate(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let khz = if bench.broken { STATED_KHZ } else { TRUE_KHZ };
    let machine = SimClock::new(khz).with_seed(bench.seed);
    let evidence = Evidence {
        available: true,
        permitted: true,
        invariant: Some(true),
        clock_source: Some("tsc".to_owned()),
        ..Evidence::default()
    };
    let clock = Clock::with_source(machine, evidence, &ClockOptions::fast(), |_| None);
    Ok(clock.calibration().map(|found| {
        let hz = found.frequency_hz();
        // The kernel's multiplier has 1e-8 of rounding.
        let half = hz * (found.residual_ppm() * 1e-6 + 1e-8);
        let injected = f64::from(TRUE_KHZ) * 1e3;
        Trial {
            injected: Range(injected, injected),
            without: f64::from(STATED_KHZ) * 1e3,
            found: hz,
            interval: Range(hz - half, hz + half),
            not_injected: None,
        }
    }))
}

/// Sleeps: the kernel wakes late by a drawn time around a known one.
pub(super) fn lateness(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let mut random = Random::new(bench.seed);
    let late = if bench.broken { 0 } else { LATE_NS };
    let mut one = || {
        // Uniform, +-2 us.
        let overshoot_ns = (0..500).map(|_| (late + (random.unit() * 4_000.0) as u32).saturating_sub(2_000)).collect();
        let trace = Trace { overshoot_ns, runs_ns: Vec::new() };
        let (options, span) = (SleepOptions::default(), Span::from_millis(1));
        let outcome =
            SimKernel::new(&trace).sleep(SleepMethod::ClockNanosleep, &options, span, Span::from_millis(4), 500);
        outcome.median_miss_ns().map_or(f64::NAN, |miss| miss as f64)
    };
    let found: Vec<f64> = (0..bench.repeats).map(|_| one()).collect();
    let injected = f64::from(LATE_NS);
    // The median of 500 draws lies within 10 % of their half range, 99 times in 100.
    Ok(Trial::repeated(Range(injected - 200.0, injected + 200.0), 0.0, &found))
}

/// Fills datagrams with their numbers, and reports to the run what came back.
struct Prober(Run);

impl Observer for Prober {
    fn fill(&mut self, slot: &Slot, _: Timestamp<Monotonic>, datagram: &mut [u8]) {
        datagram[..8].copy_from_slice(&slot.sequence.to_be_bytes());
    }

    fn observe(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let run = &mut self.0;
        let told = match event {
            Event::Sent { slot, scheduled, burst, launch } => {
                run.sent(Sent { sequence: slot.sequence, scheduled, sent: launch.unwrap_or(burst.before) })
            }
            Event::TooLate { slot, scheduled } => run.unsent(slot.sequence, scheduled, Unsent::TooLate),
            Event::NoRoom { slot, scheduled } => run.unsent(slot.sequence, scheduled, Unsent::NoRoom),
            Event::Departed(departure) => {
                run.departed(departure.sequence, departure.stamp.at);
                Ok(())
            }
            Event::Arrived(incoming) => {
                if let Some(number) = incoming.payload.first_chunk::<8>() {
                    let (sequence, kernel_rx) = (u64::from_be_bytes(*number), incoming.stamp.map(|stamp| stamp.at));
                    let far_end = FarEnd::default();
                    run.answered(&Answer { sequence, arrived: incoming.arrived, kernel_rx, far_end });
                }
                Ok(())
            }
            Event::Turn(now) => {
                run.settle(now, &mut |_| {});
                Ok(())
            }
        };
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Round trips over a simulated path with this loss each way.
fn round_trips(seed: u64, delay_ns: u64, probability: f64) -> Result<vtare_methods::rtt::Report, Failure> {
    // 64 B and their 28 B of headers take 736 ns at 1 Gbit/s.
    let mut hop = HopSpec::new(1_000_000_000, 1_000_000, delay_ns);
    hop.loss = LossModel::Random { probability };
    let mut link = SimLink::new(&SimSpec::symmetric(vec![hop], seed), Echo).map_err(|error| refused(&error))?;
    let pattern = Pattern::Constant { pace: Pace::of_rate(PacketRate::from_packet_per_s(1_000)) };
    let schedule = Schedule { pattern, size_byte: 64, packets: Some(4_000), duration_ns: None, seed };
    let slots = schedule.slots().map_err(|error| refused(&error))?;
    let mut prober = Prober(Run::new(Options { timeout_ns: 100_000_000, ..Options::default() }));
    let options = open_loop::Options { linger_ns: 300_000_000, ..open_loop::Options::default() };
    open_loop::run(&mut link, slots, &options, &mut prober).map_err(|error| refused(&error))?;
    Ok(prober.0.finish(None, &LocalDrops::default(), &mut |_| {}))
}

/// Round trips: a simulated path delays.
pub(super) fn delay(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let usual_ns = 10_000;
    let without = round_trips(bench.seed, usual_ns, 0.0)?.rtt_ns.median.unwrap_or(f64::NAN);
    let delay_ns = if bench.broken { usual_ns } else { 5_000_000 };
    let mut found = Vec::new();
    for repeat in 0..bench.repeats {
        let report = round_trips(bench.seed.wrapping_add(repeat as u64), delay_ns, 0.0)?;
        found.push(report.rtt_ns.median.unwrap_or(f64::NAN));
    }
    Ok(Trial::repeated(Range(10e6, 10e6 + without), without, &found))
}

/// Losses: a simulated path loses both ways, each by itself.
pub(super) fn loss(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let each = 0.02;
    let report = round_trips(bench.seed, 10_000, if bench.broken { 0.0 } else { each })?;
    let injected = 1.0 - (1.0 - each) * (1.0 - each);
    Ok(Some(Trial::share(Range(injected, injected), 0.0, report.lost as f64, report.sent as f64)))
}

/// Available bandwidth of a simulated path.
pub(super) fn bandwidth(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let (capacity, cross) = (100_000_000, if bench.broken { 1_000_000 } else { 40_000_000 });
    let hop = HopSpec::new(capacity, 2_000_000, 100_000).with_cross(Traffic::Fluid { rate_bit_per_s: cross });
    let spec = TrainSpec {
        path: PathSpec { hops: vec![hop], ..PathSpec::default() },
        sender: SenderSpec { call_ns: 1_000.0, line_bit_per_s: Some(1e10), ..SenderSpec::default() },
        answer_ns: 100_000,
        ..TrainSpec::default()
    };
    let mut session = TrainLink::session(&spec, 10_000_000).map_err(|error| refused(&error))?;
    let ability = Ability { stamp_error_ns: 1.0, ..session.ability(1_500) };
    let named = Settings::named("abacus").and_then(|settings| settings.method(Setup { ability, ..Setup::default() }));
    let mut method = named.map_err(|error| refused(&error))?;
    for _ in 0..STEPS {
        let now = session.link().now();
        match method.step(now) {
            Step::Wait(ns) => session.pause(now + Span::from_unsigned_nanos(ns)).map_err(|error| refused(&error))?,
            Step::Send(train) => {
                let seen = session.send(&train, Grouped::BackToBack).map_err(|error| refused(&error))?;
                method.observe(&seen);
            }
            Step::Done(estimate) => {
                let (Some(found), Some([low, high])) = (estimate.avb_bit_per_s, estimate.interval_bit_per_s) else {
                    return Ok(None);
                };
                let (without, interval) = (capacity as f64, Range(low, high));
                return Ok(Some(Trial { injected: Range(60e6, 60e6), without, found, interval, not_injected: None }));
            }
        }
    }
    Ok(None)
}
