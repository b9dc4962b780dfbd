//! `libvtare_preload.so`: vtare's clock and sleeps under programs that cannot be recompiled. May touch: units, sys,
//! clock.
//!
//! `vtare exec` starts a program with this library in `LD_PRELOAD`; the dynamic linker then takes the functions of
//! `hooks` in the place of the C library's. docs/guide/exec.md describes each of them and what is left alone.
//!
//! # Rules of the hooks
//!
//! A hook may run in a signal handler, between `fork` and `exec`, on a thread with a tiny stack, or before this library
//! has started. So it takes no lock, allocates nothing, keeps `errno`, uses no thread-local storage of the compiler's
//! (whose first use may allocate) and hands the call to the C library on any doubt. What a thread keeps stands in a
//! static pool (`slots`); its place there is a POSIX thread-specific value, which glibc holds in the thread's own
//! descriptor. Cancellation unwinds through the hooks: they are `extern "C-unwind"` and hold nothing that would have to
//! be dropped.
//!
//! `time` is left alone: it shows the second of the last timer tick (as a file's times do), and the vDSO reads that in
//! 2 ns whatever the clock source, so that a hook could only cost.
//!
//! Decisions are pure and stand in `policy`, `settings` and `record`.
#![allow(unsafe_code, reason = "the room for it: each block holds one operation and its proof")]
#![cfg_attr(
    test,
    allow(dead_code, reason = "tests export no hooks: they would replace the functions of the tests themselves")
)]

#[cfg(panic = "abort")]
compile_error!("a cancelled thread is unwound through this library: build it with `panic = \"unwind\"`");

mod clocks;
mod count;
mod current;
mod early;
mod errno;
mod hooks;
mod policy;
mod real;
mod record;
mod settings;
mod sleeps;
mod slots;
mod start;
mod threads;
