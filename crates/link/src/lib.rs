//! What carries probes on real networks. May touch: units, sys, clock, bpf, wire, probe.
//!
//! - [`socket`]: UDP and ICMP echo.
//! - [`af_xdp`]: frames past the kernel's network stack. [`xdp`]: probes that the kernel sends and takes itself.
//! - [`launch`]: packets that are handed to the kernel early, each with the time at which it leaves.
//!
//! **One clock.** Every local stamp a link gives is on CLOCK_MONOTONIC. Kernels stamp sockets with CLOCK_REALTIME: the
//! engine converts by a bracketed pair of readings, renewed at least once a second, and states the width in
//! [`Facts::stamp_error_ns`](vtare_probe::link::Facts::stamp_error_ns). Then stamps of sockets, of BPF programs and of
//! the program itself subtract.
#![forbid(unsafe_code)]

pub mod af_xdp;
pub mod launch;
pub mod rate;
pub mod socket;
mod stall_detector;
mod wait;
pub mod xdp;

pub use stall_detector::StallDetector;
pub use wait::Wait;
