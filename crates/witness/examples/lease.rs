//! A lease and commit-wait by confirmed readings, as `examples/c/lease.c` has them:
//!
//! ```sh
//! VTARE_WITNESSES=h1,h2,h3 VTARE_KEY=... cargo run -p vtare-witness --example lease
//! ```
//!
//! Ends with 1 where the lease had ended before the act was confirmed, with 2 where UTC is not confirmed.
use std::error::Error;
use std::process::ExitCode;

use vtare_clock::{Clock, ClockOptions};
use vtare_control::PresharedKey;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp, Wall};
use vtare_witness::{WITNESSES_VARIABLE, WitnessError, Witnesses};

/// A time that has passed when this returns, and had not come when it was called.
fn commit(witnesses: &Witnesses, clock: &Clock) -> Result<Timestamp<Wall>, WitnessError> {
    let at = witnesses.confirm(clock)?.confirmed.latest;
    loop {
        let passed = witnesses.confirm(clock)?.confirmed.earliest;
        if passed > at {
            return Ok(at);
        }
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + (at - passed) + Span::from_nanos(1));
    }
}

/// Whether an act that is done by now was done within the lease: looking before it proves nothing.
fn acted_within(lease_ends: Timestamp<Wall>, witnesses: &Witnesses, clock: &Clock) -> Result<bool, WitnessError> {
    Ok(witnesses.confirm(clock)?.confirmed.latest < lease_ends)
}

fn run() -> Result<bool, Box<dyn Error>> {
    let key = PresharedKey::of_file_or_variable(None)?;
    let witnesses = Witnesses::new(&std::env::var(WITNESSES_VARIABLE).unwrap_or_default(), key.as_ref())?;
    let clock = Clock::start(&ClockOptions::fast());
    let now = witnesses.confirm(&clock)?.confirmed;
    println!("{} hosts, of which {} may be wrong", now.hosts, now.liars);
    println!("committed at {}", commit(&witnesses, &clock)?.as_nanos());
    let held = acted_within(now.latest + Span::from_secs(2), &witnesses, &clock)?;
    println!("the lease {}", if held { "held" } else { "had ended: take the act back" });
    Ok(held)
}

fn main() -> ExitCode {
    ExitCode::from(match run() {
        Ok(held) => u8::from(!held),
        Err(error) => {
            eprintln!("{error}");
            2
        }
    })
}
