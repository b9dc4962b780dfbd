//! The client of ClockBound, a peer for UTC as an interval: its shared memory as the daemon would write it, since the
//! daemon itself needs a network or chrony. `bench/disruptions` has this file in its guest, too.

use std::fs;
use std::io;
use std::path::Path;

use clock_bound::Client;

/// What a daemon states of UTC.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// The counter then.
    pub tick: u64,
    /// UTC then, in ns.
    pub utc_ns: u64,
    /// The greatest error of that.
    pub bound_ns: u64,
    /// The counter's rate.
    pub ns_per_tick: f64,
    /// How many statements there were before.
    pub before: u16,
}

/// A client of a segment at `path` that states this.
pub fn client(path: &Path, stated: &Stated) -> Result<Client, String> {
    write(path, stated).map_err(|error| format!("{}: {error}", path.display()))?;
    Client::new_with_path(&path.to_string_lossy()).map_err(|error| format!("{error:?}"))
}

/// States this from now on, for a day, to the clients of the segment at `path`.
//= clock-bound 3.0.0-rc.0, src/shm.rs: ShmHeader, ClockErrorBoundV3
pub fn write(path: &Path, stated: &Stated) -> io::Result<()> {
    let time = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000].map(u64::to_le_bytes).concat();
    // A tick in 2^-94 s.
    let shift: u8 = 30;
    let period = (stated.ns_per_tick * 1e-9 * 2_f64.powi(64 + i32::from(shift))) as u64;
    let mut body = Vec::new();
    body.extend(stated.tick.to_le_bytes());
    body.extend(time(stated.utc_ns));
    body.extend(time(stated.utc_ns + 86_400 * 1_000_000_000));
    body.extend(period.to_le_bytes());
    // The period's error; the bound; the disruption marker.
    body.extend([0, stated.bound_ns, 1].map(u64::to_le_bytes).concat());
    // The drift, in 1e-9; synchronized; no VMClock; the period's shift, its error's, padding.
    body.extend(50_000_u32.to_le_bytes());
    body.extend(1_u32.to_le_bytes());
    body.extend([0, shift, 0, 0, 0, 0, 0, 0]);
    let mut all = [0x414D_5A4E_u32, 0x4342_0200, 16 + body.len() as u32].map(u32::to_le_bytes).concat();
    // The layout's version, twice; the generation, even: nobody writes.
    all.extend([3, 3]);
    all.extend((stated.before % 30_000 * 2 + 2).to_le_bytes());
    all.extend(body);
    fs::write(path, all)
}
