//! The client of ClockBound beside vtare: its shared memory as the daemon would write it, since the daemon itself needs
//! a network or chrony.

use std::fs;

use clock_bound::Client;
use vtare_sys::{clocks, counter};
use vtare_units::Wall;

/// A client whose segment states UTC now, within 1 ms, for a day.
pub fn client(ns_per_tick: f64) -> Result<Client, String> {
    let path = std::env::temp_dir().join(format!("vtare-{}-clockbound", std::process::id()));
    fs::write(&path, segment(ns_per_tick)).map_err(|error| format!("{}: {error}", path.display()))?;
    let made = Client::new_with_path(&path.to_string_lossy()).map_err(|error| format!("{error:?}"));
    // It stays mapped.
    let _ = fs::remove_file(&path);
    made
}

//= clock-bound 3.0.0-rc.0, src/shm.rs: ShmHeader, ClockErrorBoundV3
fn segment(ns_per_tick: f64) -> Vec<u8> {
    let (tick, wall_ns) = (counter::read().count(), clocks::now::<Wall>().as_nanos());
    let time = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000].map(u64::to_le_bytes).concat();
    // A tick in 2^-94 s.
    let shift: u8 = 30;
    let period = (ns_per_tick * 1e-9 * 2_f64.powi(64 + i32::from(shift))) as u64;
    let mut body = Vec::new();
    body.extend(tick.to_le_bytes());
    body.extend(time(wall_ns));
    body.extend(time(wall_ns + 86_400 * 1_000_000_000));
    body.extend(period.to_le_bytes());
    // The period's error; the bound, in ns; the disruption marker.
    body.extend([0, 1_000_000, 1].map(u64::to_le_bytes).concat());
    // The drift, in 1e-9; synchronized; no VMClock; the period's shift, its error's, padding.
    body.extend(50_000_u32.to_le_bytes());
    body.extend(1_u32.to_le_bytes());
    body.extend([0, shift, 0, 0, 0, 0, 0, 0]);
    let mut all = [0x414D_5A4E_u32, 0x4342_0200, 16 + body.len() as u32].map(u32::to_le_bytes).concat();
    // The layout's version, twice; the generation, even: nobody writes.
    all.extend([3, 3, 2, 0]);
    all.extend(body);
    all
}
