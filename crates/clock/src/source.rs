//! Where counter and clock readings come from: the machine, or a simulation of one.

use std::sync::OnceLock;

use vtare_sys::{clocks, counter, cpu, sched, vmclock};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp, Wall};

use crate::utc::UtcStatement;
use crate::vvar::{self, KernelRecords};

/// A counter and the kernel clocks beside it.
pub trait TimeSource {
    /// The counter, unordered.
    fn tick(&self) -> CounterTick;
    /// The counter, after all earlier loads and instructions.
    fn tick_ordered(&self) -> CounterTick;
    /// Lets some time pass: about a nanosecond a turn.
    fn spin(&self, turns: u32) {
        let mut state = turns;
        for _ in 0..turns {
            state = std::hint::black_box(state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
        }
    }
    /// CLOCK_MONOTONIC_RAW.
    fn raw(&self) -> Timestamp<MonotonicRaw>;
    /// CLOCK_MONOTONIC.
    fn monotonic(&self) -> Timestamp<Monotonic>;
    /// CLOCK_MONOTONIC at the kernel's last timer tick, found without reading the counter; `None` where that takes a
    /// system call.
    fn coarse(&self) -> Option<Timestamp<Monotonic>> {
        None
    }
    /// The CPU that runs this thread, where it can be found without a system call: counters of two CPUs may differ.
    fn cpu(&self) -> Option<usize>;
    /// Time the machine has spent suspended since boot.
    fn suspended(&self) -> Span;
    /// The kernel's clock source, where it reports one.
    fn clock_source(&self) -> Option<String>;
    /// Whether that still is `name`. Asked while the clock runs, perhaps in a signal handler: takes no memory and no
    /// lock.
    fn clock_source_is(&self, name: &str) -> Option<bool>;
    /// The hypervisor's disruption marker, where it shows one: another value than before means that the guest was moved
    /// or restored.
    fn disruption_marker(&self) -> Option<u64> {
        None
    }
    /// What the kernel states of UTC; `None` where it does not answer.
    fn utc_statement(&self) -> Option<UtcStatement> {
        None
    }
    /// The kernel's own records of the counter, where it shows them and they proved right.
    fn kernel_records(&self) -> Option<KernelRecords> {
        None
    }
}

/// This machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl TimeSource for System {
    #[inline(always)]
    fn tick(&self) -> CounterTick {
        counter::read()
    }
    #[inline(always)]
    fn tick_ordered(&self) -> CounterTick {
        counter::read_ordered()
    }
    #[inline(always)]
    fn raw(&self) -> Timestamp<MonotonicRaw> {
        clocks::now()
    }
    #[inline(always)]
    fn monotonic(&self) -> Timestamp<Monotonic> {
        clocks::now()
    }
    #[inline(always)]
    fn coarse(&self) -> Option<Timestamp<Monotonic>> {
        Some(clocks::now_coarse())
    }
    #[inline(always)]
    fn cpu(&self) -> Option<usize> {
        sched::current_cpu()
    }
    fn suspended(&self) -> Span {
        clocks::suspended()
    }
    fn clock_source(&self) -> Option<String> {
        clocks::kernel_clock_source()
    }
    fn clock_source_is(&self, name: &str) -> Option<bool> {
        clocks::kernel_clock_source_is(name)
    }
    #[inline(always)]
    fn disruption_marker(&self) -> Option<u64> {
        vmclock::disruption_marker()
    }
    fn utc_statement(&self) -> Option<UtcStatement> {
        static BARE_METAL: OnceLock<bool> = OnceLock::new();
        // Other CPUs do not report whether a hypervisor is below.
        let bare_metal = *BARE_METAL
            .get_or_init(|| cfg!(target_arch = "x86_64") && cpu::Features::read().hypervisor_name().is_none());
        for _ in 0..8 {
            let (at, wall, width) = wall_now();
            let ntp = clocks::ntp_state()?;
            let (later, later_wall, later_width) = wall_now();
            // The daemon, or somebody else, may have stepped the clock meanwhile.
            let stepped = ((later - at) - (later_wall - wall)).abs();
            if stepped <= width + later_width {
                return Some(UtcStatement {
                    at,
                    wall,
                    width,
                    synchronized: ntp.synchronized,
                    max_error: ntp.max_error,
                    drift_ppm: ntp.tolerance_ppm,
                    leap: ntp.leap,
                    stops_are_seen: bare_metal || self.disruption_marker().is_some(),
                });
            }
        }
        None
    }
    fn kernel_records(&self) -> Option<KernelRecords> {
        vvar::kernel_records()
    }
}

/// CLOCK_MONOTONIC, CLOCK_REALTIME at most `width` later: the closest pair of some.
fn wall_now() -> (Timestamp<Monotonic>, Timestamp<Wall>, Span) {
    let pair = || {
        let at = clocks::now::<Monotonic>();
        let wall = clocks::now::<Wall>();
        (at, wall, clocks::now::<Monotonic>() - at)
    };
    let mut best = pair();
    for _ in 0..7 {
        if best.2 <= Span::from_micros(1) {
            break;
        }
        let next = pair();
        if next.2 < best.2 {
            best = next;
        }
    }
    best
}
