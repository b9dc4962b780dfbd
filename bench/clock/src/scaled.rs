//! This machine's counter as a hypervisor shows it that scales it: a lattice that is not a whole number of ticks, on
//! any CPU with a lattice.

use vtare_clock::kernel_rate::KernelRate;
use vtare_clock::source::{System, TimeSource};
use vtare_sys::counter;
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp};

/// Binary places of the scale.
const PLACES: u32 = 48;

/// A counter at 24.45 / 26 of the real one's rate (24.45 ticks a step where the real one makes 26), and a kernel clock
/// that runs by it at a whole number of kHz.
pub struct Scaled {
    scale: u64,
    rate: KernelRate,
}

impl Scaled {
    /// `None` where no whole number of kHz describes the scaled counter.
    pub fn new(ns_per_tick: f64) -> Option<Self> {
        let scale = 24.45 / 26.0;
        let rate = KernelRate::of_khz((1e6 / ns_per_tick * scale).round() as u32)?;
        Some(Self { scale: (scale * 2_f64.powi(PLACES.cast_signed())) as u64, rate })
    }

    pub fn rate(&self) -> KernelRate {
        self.rate
    }

    #[inline(always)]
    fn shown(&self, tick: CounterTick) -> u64 {
        ((u128::from(tick.count()) * u128::from(self.scale)) >> PLACES) as u64
    }

    #[inline(always)]
    fn clock_ns(&self) -> u64 {
        let tick = self.shown(counter::read_ordered());
        ((u128::from(tick) * u128::from(self.rate.mult)) >> self.rate.shift) as u64
    }
}

impl TimeSource for Scaled {
    #[inline(always)]
    fn tick(&self) -> CounterTick {
        CounterTick::new(self.shown(counter::read()))
    }
    #[inline(always)]
    fn tick_ordered(&self) -> CounterTick {
        CounterTick::new(self.shown(counter::read_ordered()))
    }
    #[inline(always)]
    fn raw(&self) -> Timestamp<MonotonicRaw> {
        Timestamp::from_nanos(self.clock_ns())
    }
    #[inline(always)]
    fn monotonic(&self) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(self.clock_ns())
    }
    #[inline(always)]
    fn cpu(&self) -> Option<usize> {
        System.cpu()
    }
    fn suspended(&self) -> Span {
        System.suspended()
    }
    fn clock_source(&self) -> Option<String> {
        System.clock_source()
    }
    fn clock_source_is(&self, name: &str) -> Option<bool> {
        System.clock_source_is(name)
    }
}
