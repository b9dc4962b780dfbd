//! The period of the kernel's timer tick.

use vtare_units::Span;

use crate::kernel_file;

/// The resolution of CLOCK_MONOTONIC_COARSE, as the kernel states it.
fn coarse_resolution() -> Option<Span> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a live timespec.
    let answer = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    (answer == 0).then(|| Span::from_secs(resolution.tv_sec) + Span::from_nanos(resolution.tv_nsec))
}

/// The tick period behind a coarse clock's resolution. Linux builds with HZ from 24 (some MIPS) to 1200; a resolution
/// outside that range is not a tick (user-space kernels state 1 ns).
fn plausible_tick(resolution: Span) -> Option<Span> {
    (Span::from_micros(800)..=Span::from_millis(42)).contains(&resolution).then_some(resolution)
}

/// HZ of a kernel's build configuration (`CONFIG_HZ=250`).
fn hz_in_config(config: &str) -> Option<i64> {
    let value = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    value.trim().parse().ok().filter(|hz| (24..=1_250).contains(hz))
}

/// The period of the running kernel's timer tick, 1/HZ: 4 ms at HZ = 250. `None` where the system does not report it.
///
/// Read from the resolution of CLOCK_MONOTONIC_COARSE, which is the tick to the nanosecond (`clock_getres(2)`; the
/// kernel answers its `TICK_NSEC`) and which a container cannot hide. `sysconf(_SC_CLK_TCK)` is no substitute: it is
/// USER_HZ, 100 on nearly every machine. Only where the resolution is no possible tick does `/boot/config-RELEASE`
/// answer; it comes last because a container shows its own `/boot`, not the kernel's.
///
/// ```
/// use vtare_sys::facts::tick_period;
/// use vtare_units::Span;
/// if let Some(tick) = tick_period() {
///     assert!(tick <= Span::from_millis(42));
/// }
/// ```
#[must_use]
pub fn tick_period() -> Option<Span> {
    coarse_resolution().and_then(plausible_tick).or_else(|| {
        let release = kernel_file::text("/proc/sys/kernel/osrelease")?;
        let config = kernel_file::text(format!("/boot/config-{}", release.trim()))?;
        hz_in_config(&config).map(|hz| Span::from_secs(1) / hz)
    })
}

/// HZ from the tick period, to the nearest whole number: 3,333,333 ns is 300 Hz.
pub(super) fn hz_of(tick: Span) -> Option<u32> {
    let nanos = u64::try_from(tick.as_nanos()).ok().filter(|nanos| *nanos > 0)?;
    u32::try_from((1_000_000_000 + nanos / 2) / nanos).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usual_hz_is_found_from_its_tick() {
        for (nanos, hz) in [(10_000_000, 100), (4_000_000, 250), (3_333_333, 300), (1_000_000, 1_000)] {
            let tick = plausible_tick(Span::from_nanos(nanos)).expect("a usual tick");
            assert_eq!(hz_of(tick), Some(hz));
        }
    }

    #[test]
    fn the_nanosecond_resolution_of_a_user_space_kernel_is_no_tick() {
        assert_eq!(plausible_tick(Span::from_nanos(1)), None);
        assert_eq!(plausible_tick(Span::ZERO), None);
        assert_eq!(hz_of(Span::ZERO), None);
    }

    #[test]
    fn hz_is_read_from_a_build_configuration() {
        let config = "# CONFIG_HZ_PERIODIC is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_SCHED_HRTICK=y\n";
        assert_eq!(hz_in_config(config), Some(250));
        assert_eq!(hz_in_config("CONFIG_HZ_250=y\n"), None);
        assert_eq!(hz_in_config("CONFIG_HZ=zero\n"), None);
    }
}
