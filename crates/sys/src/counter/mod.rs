//! The CPU's own counter, one function for each way to read it.
//!
//! | function | x86-64 | aarch64 | ordering |
//! |---|---|---|---|
//! | [`read`] | `rdtsc` | `mrs cntvct_el0` | none: the read may move among the instructions around it |
//! | [`read_ordered`] | `lfence; rdtsc` | `isb; mrs cntvct_el0` | not before earlier instructions and loads have completed |
//! | [`read_rdtscp`] | `rdtscp` | - | not before earlier instructions and loads; later ones may start before it |
//! | [`read_start`] | `lfence; rdtsc; lfence` | `isb; mrs; isb` | earlier work is done, later work has not begun |
//! | [`read_stop`] | `rdtscp; lfence` | `isb; mrs; isb` | earlier work is done, later work has not begun |
//!
//! Stores are not waited for by any of them: a store may still sit in the store buffer.
//! On other architectures [`AVAILABLE`] is false and the functions return 0; the clock then uses the kernel.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "none.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86.rs"]
mod arch;

pub use arch::{AVAILABLE, HAS_RDTSCP, NAME, ORDERED_NAME, read, read_ordered, read_rdtscp, read_start, read_stop};

/// Asks the caches for the code that follows the place of this call, some hundred bytes of it. After a wait whose end
/// must be met, that code is then at hand; after milliseconds of sleep it would come from memory, a cache line at a
/// time, for half a microsecond.
#[inline(always)]
pub fn fetch_code_ahead() {
    arch::fetch_code_ahead();
}

/// Likewise for 256 bytes of code at an address, for instance that to which a function returns. Any address may be
/// named.
#[inline(always)]
pub fn fetch_code_at(address: *const u8) {
    arch::fetch_code_at(address);
}

/// The counter's frequency where the architecture states it exactly (aarch64 `cntfrq_el0`), else `None`.
#[must_use]
pub fn stated_frequency_hz() -> Option<u64> {
    arch::stated_frequency_hz()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_read_sees_one_counter_that_moves_on() {
        if !AVAILABLE {
            return;
        }
        let mut last = read_start().count();
        for _ in 0..1_000 {
            for count in [read_ordered(), read_start(), read_stop()] {
                assert!(count.count() >= last, "{} came after {last}", count.count());
                last = count.count();
            }
        }
    }
}
