//! The first and only program of a guest whose time is disrupted: reads its clock without a pause and, when it is asked
//! on the serial line, answers with a reading. Every answer is the first reading after what happened since the last.
//!
//! Lines in: `read`; `utc NS MAX_ERROR_US`: an NTP daemon has measured UTC; `step NS`: somebody sets the clock. Out:
//! `path PATH`, and for each line `GENERATION AT_NS STATUS EARLIEST_NS LATEST_NS READINGS CAUSE`.

#[path = "../../clock/src/clock_bound.rs"]
mod clock_bound;
mod guest;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use ::clock_bound::Client;
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::{clocks, counter, vmclock};
use vtare_units::{Monotonic, Span, Wall};

use crate::clock_bound::Stated;

/// Where the client of ClockBound reads what its daemon would state.
const SEGMENT: &str = "/clockbound";

/// ClockBound in this guest, where it can run: its client cannot read the memory that stands for a VMClock.
struct Peer {
    ns_per_tick: f64,
    statements: u16,
    client: Option<Client>,
}

impl Peer {
    fn start() -> Self {
        let read = || (counter::read(), clocks::now::<Monotonic>());
        let begun = read();
        let _ = clocks::sleep_until(begun.1 + Span::from_millis(200));
        let ended = read();
        let ns_per_tick = (ended.1 - begun.1).as_nanos() as f64 / ended.0.since(begun.0) as f64;
        Self { ns_per_tick, statements: 0, client: None }
    }

    /// What its daemon does when it has measured UTC: CLOCK_REALTIME is right now, within `bound_ns`.
    fn state(&mut self, bound_ns: u64) {
        if vmclock::disruption_marker().is_some() {
            return;
        }
        let stated = Stated {
            tick: counter::read().count(),
            utc_ns: clocks::now::<Wall>().as_nanos(),
            bound_ns,
            ns_per_tick: self.ns_per_tick,
            before: self.statements,
        };
        self.statements = self.statements.wrapping_add(1);
        if self.client.is_none() {
            self.client = clock_bound::client(Path::new(SEGMENT), &stated).map_err(|error| println!("{error}")).ok();
        } else if let Err(error) = clock_bound::write(Path::new(SEGMENT), &stated) {
            println!("{SEGMENT}: {error}");
        }
    }

    /// Its status and interval now, as words.
    fn now(&mut self) -> String {
        let ns = |at: ::clock_bound::nix::sys::time::TimeSpec| at.tv_sec() * 1_000_000_000 + at.tv_nsec();
        match self.client.as_mut().map(Client::now) {
            Some(Ok(found)) => format!("{:?} {} {}", found.clock_status, ns(found.earliest), ns(found.latest)),
            Some(Err(_)) => "Refused 0 0".to_owned(),
            None => "None 0 0".to_owned(),
        }
    }
}

/// The memory that the host shares stands for a VMClock, where it is there.
fn show_vmclock() -> io::Result<()> {
    for device in fs::read_dir("/sys/bus/pci/devices")? {
        let device = device?.path();
        if fs::read_to_string(device.join("vendor"))?.trim() == "0x1af4"
            && fs::read_to_string(device.join("device"))?.trim() == "0x1110"
        {
            fs::write(device.join("enable"), "1")?;
            return std::os::unix::fs::symlink(device.join("resource2"), "/dev/vmclock0");
        }
    }
    Ok(())
}

/// CLOCK_REALTIME is set, and stated to be right within `max_error_us`, as a daemon does.
fn state_utc(ns: i64, max_error_us: i64) -> io::Result<()> {
    let at = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: a live timespec.
    if unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const at) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = libc::ADJ_STATUS | libc::ADJ_MAXERROR;
    timex.maxerror = max_error_us;
    // SAFETY: a live timex.
    if unsafe { libc::adjtimex(&raw mut timex) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// CLOCK_REALTIME is set by somebody who states nothing of its error.
fn serve(serial: &mut File) -> io::Result<()> {
    show_vmclock()?;
    let clock = Clock::start(&ClockOptions::fast());
    writeln!(serial, "path {:?}", clock.path())?;
    let mut peer = Peer::start();
    let mut line = Vec::new();
    let mut readings: u64 = 0;
    let mut poll = libc::pollfd { fd: serial.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        for _ in 0..50 {
            std::hint::black_box(clock.now_checked());
        }
        readings += 50;
        // SAFETY: one live pollfd.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } <= 0 {
            continue;
        }
        let mut byte = [0];
        if serial.read(&mut byte)? == 0 {
            continue;
        }
        if byte[0] != b'\n' {
            line.push(byte[0]);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        let mut words = text.split_whitespace();
        match words.next() {
            Some("utc") => {
                let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                let (ns, max_error_us) = (number(), number());
                state_utc(ns, max_error_us)?;
                peer.state(max_error_us.unsigned_abs() * 1_000);
            }
            Some("step") => guest::step_wall(words.next().and_then(|word| word.parse().ok()).unwrap_or(0))?,
            Some("read") => {}
            _ => continue,
        }
        let (now, utc) = (clock.now_checked(), clock.now_utc_interval());
        writeln!(
            serial,
            "{} {} {:?} {} {} {readings} {:?} {}",
            now.generation,
            now.at.as_nanos(),
            utc.status,
            utc.earliest.as_nanos(),
            utc.latest.as_nanos(),
            clock.disruptions().1,
            peer.now()
        )?;
    }
}

fn main() {
    guest::run("disruption", serve);
}
