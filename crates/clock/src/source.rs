//! Where counter and clock readings come from: the machine, or a simulation of one.

use std::sync::OnceLock;

use vtare_sys::{OutsideUtc, clocks, counter, cpu, phc, sched, vmclock};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp, Wall};

use crate::utc::{HOST_WIDTH, UtcStatement};
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
    /// What a clock outside of this machine, or else the kernel, states of UTC; `None` where neither answers.
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
        let stops_are_seen = bare_metal || self.disruption_marker().is_some();
        stated_utc(outside_now(), kernel_utc(), stops_are_seen)
    }
    fn kernel_records(&self) -> Option<KernelRecords> {
        vvar::kernel_records()
    }
}

/// What is stated of UTC by a clock `outside`, read at most a span after a time, and by the `kernel`.
pub(crate) fn stated_utc(
    outside: Option<(Timestamp<Monotonic>, OutsideUtc, Span)>,
    kernel: Option<UtcStatement>,
    stops_are_seen: bool,
) -> Option<UtcStatement> {
    let Some((at, shown, width)) = outside else {
        return kernel.map(|statement| UtcStatement { stops_are_seen, ..statement });
    };
    let Some(max_error) = shown.max_error else {
        let ahead_ns = shown.utc.as_nanos().wrapping_sub(at.as_nanos()).cast_signed();
        let host_ahead_ns = (width <= HOST_WIDTH).then_some(ahead_ns);
        return kernel.map(|statement| UtcStatement { stops_are_seen, host_ahead_ns, ..statement });
    };
    Some(UtcStatement {
        at,
        wall: shown.utc,
        width,
        synchronized: true,
        max_error,
        drift_ppm: kernel.map_or(500.0, |statement| statement.drift_ppm),
        leap: shown.leap,
        stops_are_seen,
        outside: true,
        host_ahead_ns: None,
    })
}

/// The VMClock's UTC, or a PTP clock's: the closest reading of some, and how much later than the time it may be.
fn outside_now() -> Option<(Timestamp<Monotonic>, OutsideUtc, Span)> {
    let read = || {
        let at = clocks::now::<Monotonic>();
        let shown = vmclock::utc(counter::read_ordered()).or_else(phc::utc)?;
        Some((at, shown, clocks::now::<Monotonic>() - at))
    };
    let mut best = read()?;
    for _ in 0..3 {
        if best.2 <= Span::from_micros(5) {
            break;
        }
        let next = read()?;
        if next.2 < best.2 {
            best = next;
        }
    }
    Some(best)
}

/// What the kernel is given by its NTP daemon.
fn kernel_utc() -> Option<UtcStatement> {
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
                stops_are_seen: false,
                outside: false,
                host_ahead_ns: None,
            });
        }
    }
    None
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
