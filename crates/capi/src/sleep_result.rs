//! How a sleep ended, for C.

use core::ffi::c_int;

use vtare_units::{Monotonic, Timestamp};

/// `struct vtare_sleep_result`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtareSleepResult {
    /// In: the caller's `sizeof`. Out: the bytes filled in.
    pub size: u32,
    /// Not 0: the CPU was taken away while spinning, or the guard held spinning back.
    pub disturbed: u32,
    /// Not 0: a signal handler ended the sleep.
    pub interrupted: u32,
    /// `enum vtare_sleep_policy`.
    pub policy: u32,
    /// The time for which the end was planned.
    pub deadline_ns: u64,
    /// Actual minus planned end.
    pub miss_ns: i64,
    /// Time spent spinning.
    pub spin_ns: i64,
}

impl VtareSleepResult {
    /// A sleep until `deadline` that ended on time.
    pub(crate) const fn on_time(policy: c_int, deadline: Timestamp<Monotonic>) -> Self {
        Self {
            size: size_of::<Self>() as u32,
            disturbed: 0,
            interrupted: 0,
            policy: policy.cast_unsigned(),
            deadline_ns: deadline.as_nanos(),
            miss_ns: 0,
            spin_ns: 0,
        }
    }
}
