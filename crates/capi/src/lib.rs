//! The clock and its sleeps for C and all that can call C: `libvtare_clock`. May touch: units, sys, clock,
//! control, witness.
//!
//! `include/vtare_clock.h` is the interface's text; what stands there is not repeated here. Every exported function is
//! thin: the clock ([`process`]) and the sleeper of a thread ([`thread`]) come from `vtare-clock`, and no decision
//! about time is made here.
//!
//! Rules of this room: no panic crosses the boundary (the release profile aborts; nothing here can panic on a caller's
//! input); a reading takes no lock and no memory once the clock runs; no destructor waits in a frame in which a thread
//! can be cancelled.
#![allow(unsafe_code, reason = "the room for it: each block holds one operation and its proof")]

mod cancellable;
mod confirmed;
mod errno;
mod info;
mod pending;
mod process;
mod read;
mod sleep;
mod sleep_result;
mod start;
mod thread;
mod ticker;
mod utc;

pub use confirmed::{VtareUtcConfirmed, vtare_clock_witness, vtare_now_utc_confirmed};
pub use info::{VtareClockInfo, vtare_clock_info, vtare_clock_info_json};
pub use read::{
    vtare_now_checked, vtare_now_ns, vtare_now_ordered_ns, vtare_tick, vtare_tick_start, vtare_tick_stop,
    vtare_ticks_to_ns,
};
pub use sleep::{vtare_last_sleep, vtare_sleep_ns, vtare_sleep_until_ns, vtare_ticker_wait};
pub use sleep_result::VtareSleepResult;
pub use start::{VtareClockOptions, vtare_clock_abi_version, vtare_clock_start, vtare_clock_version};
pub use thread::{
    VtareSleepOptions, vtare_error_message, vtare_get_sleep_options, vtare_get_sleep_policy, vtare_set_sleep_options,
    vtare_set_sleep_policy, vtare_set_sleep_policy_name, vtare_sleep_policy_name,
};
pub use ticker::{VtareTicker, vtare_ticker_init};
pub use utc::{VtareUtcInterval, vtare_now_utc_interval};
