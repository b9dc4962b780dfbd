//! What a clock reports of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use vtare_sys::counter;
use vtare_units::Span;

use crate::calibrate::Calibration;
use crate::trust::{CrossCore, Evidence, Reason, Trust};

/// How a clock makes its readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReadPath {
    /// Counter and the kernel's own time page: identical to the kernel's clock.
    KernelPage,
    /// Counter and a calibrated line that follows the kernel's clock.
    Line,
    /// The kernel's clock itself.
    Vdso,
}

/// Something that happened to a clock while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The machine was suspended; the line was started anew.
    Suspended,
    /// The hypervisor moved or restored the guest; the line was started anew.
    Migrated,
    /// The kernel changed its clock source.
    ClockSourceChanged,
    /// Nobody had read the clock for long; the line was started anew.
    Seated,
    /// The counter and the kernel's clock went apart faster than any steering.
    RateBroken,
    /// The counter was given up; readings come from the kernel since.
    GivenUp,
    /// The kernel's unsteered clock contradicts the calibrated rate: its bound was widened, and it is not called exact
    /// any more.
    RateContradicted,
}

impl Event {
    /// All kinds, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::Suspended,
        Self::Migrated,
        Self::ClockSourceChanged,
        Self::Seated,
        Self::RateBroken,
        Self::GivenUp,
        Self::RateContradicted,
    ];
}

/// How often each event happened. Counting takes no lock and no memory.
#[derive(Debug)]
pub(crate) struct Events([AtomicU64; Event::ALL.len()]);

impl Events {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Event::ALL.len()])
    }

    pub(crate) fn record(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> Vec<EventCount> {
        Event::ALL
            .iter()
            .zip(&self.0)
            .map(|(event, count)| EventCount { event: *event, count: count.load(Ordering::Relaxed) })
            .filter(|counted| counted.count > 0)
            .collect()
    }
}

/// An event and how often it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// What happened.
    pub event: Event,
    /// How often.
    pub count: u64,
}

/// The kernel's own conversion, where it was found: ns = (ticks x mult) >> shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExactMultiplier {
    /// The multiplier.
    pub mult: u32,
    /// The shift.
    pub shift: u32,
    /// The frequency behind it, in kHz.
    pub khz: u32,
}

/// Where a clock's time comes from, how far it can be off, and why: the `clock` object of every JSON document and
/// footer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockInfo {
    /// `tsc`, `cntvct`, or `os` (the kernel's vDSO).
    pub source: &'static str,
    /// How readings are made.
    pub path: ReadPath,
    /// Whether the counter is trusted.
    pub trusted: bool,
    /// Why, in words, the decisive first: of a counter that is not trusted only what rules it out.
    pub reasons: Vec<String>,
    /// All that was found, with stable names, for programs.
    pub findings: Vec<Reason>,
    /// The counter's frequency in Hz; `None` where it could not be calibrated.
    pub frequency_hz: Option<f64>,
    /// The greatest error of the rate against CLOCK_MONOTONIC_RAW, in ppm; 0 where the kernel's own multiplier was
    /// found.
    pub residual_ppm: Option<f64>,
    /// The greatest error of the time at the calibration, in ns, against the kernel's clock read on the same CPU.
    pub residual_ns: Option<f64>,
    /// The kernel's own multiplier, where the bounds left just one and no later comparison contradicts it.
    pub exact_multiplier: Option<ExactMultiplier>,
    /// What one reading costs, in ns.
    pub read_cost_ns: f64,
    /// The spacing of the values that the counter shows, in ns; need not be a whole number of ticks.
    pub quantum_ns: Option<f64>,
    /// How long calibration took, in ns.
    pub calibration_ns: Option<i64>,
    /// Certified offsets between the CPUs' counters, where they were tested.
    pub cross_core: Option<CrossCore>,
    /// Time since the last comparison with the kernel's clock took effect, in ns; negative for the few us before it
    /// does.
    pub anchor_age_ns: Option<i64>,
    /// Kernel's clock minus this clock at the last comparison, in ns; `None` before the first.
    pub anchor_error_ns: Option<i64>,
    /// Half of the range that the comparison leaves, in ns.
    pub anchor_half_width_ns: Option<f64>,
    /// What happened since the start.
    pub events: Vec<EventCount>,
}

/// The last comparison with the kernel's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    pub(crate) age: Option<Span>,
    pub(crate) half_width_ns: f64,
    /// The error of the calibrated rate that comparisons have shown to be possible; `None` while they agree with it.
    pub(crate) contradicted_ppm: Option<f64>,
    pub(crate) error_ns: i64,
    pub(crate) count: u64,
}

impl ClockInfo {
    pub(crate) fn new(
        path: ReadPath,
        begun: Option<(&Trust, &Evidence, f64)>,
        calibration: Option<&Calibration>,
        comparison: Comparison,
        events: &Events,
    ) -> Self {
        let running = path != ReadPath::Vdso;
        let on_line = path == ReadPath::Line;
        let counter_name = if cfg!(target_arch = "x86_64") { "tsc" } else { counter::NAME };
        let mut findings = begun.map_or_else(Vec::new, |(trust, ..)| trust.reasons.clone());
        let events = events.counted();
        if events.iter().any(|counted| counted.event == Event::GivenUp) {
            let text = "the counter was given up while running: see events".to_owned();
            findings.insert(0, Reason { id: "given_up", text, against: true });
        }
        if let (Some(ppm), Some(found)) = (comparison.contradicted_ppm, calibration) {
            let text = format!(
                "CLOCK_MONOTONIC_RAW contradicts the calibrated rate, known to {:.4} ppm at the start: it may be off \
                 by {ppm:.4} ppm. The clock follows the kernel; spans by the counter alone do not: start anew",
                found.residual_ppm()
            );
            findings.push(Reason { id: "rate_contradicted", text, against: false });
        }
        let decisive = |reason: &&Reason| running || reason.against;
        Self {
            path,
            source: if running { counter_name } else { "os" },
            trusted: running,
            reasons: findings.iter().filter(decisive).map(|reason| reason.text.clone()).collect(),
            findings,
            frequency_hz: calibration.map(Calibration::frequency_hz),
            residual_ppm: calibration.map(|found| found.residual_ppm().max(comparison.contradicted_ppm.unwrap_or(0.0))),
            residual_ns: calibration.map(|found| found.bound_ns(Span::ZERO)),
            exact_multiplier: calibration
                .and_then(|found| found.exact)
                .filter(|_| comparison.contradicted_ppm.is_none())
                .map(|rate| ExactMultiplier { mult: rate.mult, shift: rate.shift, khz: rate.khz }),
            read_cost_ns: begun.map_or(f64::NAN, |(.., cost)| cost),
            quantum_ns: calibration.map(Calibration::quantum_ns),
            calibration_ns: calibration.map(|found| found.elapsed.as_nanos()),
            cross_core: begun.and_then(|(_, evidence, _)| evidence.cross_core),
            anchor_age_ns: comparison.age.filter(|_| on_line).map(Span::as_nanos),
            anchor_error_ns: (comparison.count > 0).then_some(comparison.error_ns),
            anchor_half_width_ns: on_line.then_some(comparison.half_width_ns),
            events,
        }
    }
}
