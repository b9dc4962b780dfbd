//! What both guests of this benchmark are as the first program of a machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use vtare_sys::clocks;
use vtare_units::Wall;

fn mount(kind: &str, at: &str) -> io::Result<()> {
    fs::create_dir_all(at)?;
    let (kind, at) = (format!("{kind}\0"), format!("{at}\0"));
    // SAFETY: both texts end in NUL; no data.
    let code =
        unsafe { libc::mount(kind.as_ptr().cast(), at.as_ptr().cast(), kind.as_ptr().cast(), 0, std::ptr::null()) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves this machine's wall time by `ns`.
pub fn step_wall(ns: i64) -> io::Result<()> {
    let wall_ns = clocks::now::<Wall>().as_nanos().cast_signed() + ns;
    let at = libc::timespec { tv_sec: wall_ns / 1_000_000_000, tv_nsec: wall_ns % 1_000_000_000 };
    // SAFETY: a live timespec.
    if unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const at) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has this program, the first of a guest, talk with the host on the serial line until it ends, and the guest with it.
pub fn run(name: &str, serve: fn(&mut File) -> io::Result<()>) {
    let begun =
        ["proc", "sysfs", "devtmpfs"].iter().zip(["/proc", "/sys", "/dev"]).try_for_each(|(k, at)| mount(k, at));
    let serial = begun.and_then(|()| OpenOptions::new().read(true).write(true).open("/dev/ttyS1"));
    let ended = serial.and_then(|mut serial| {
        // SAFETY: plain numbers, set by the call.
        let mut terminal: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: a live descriptor and structure.
        unsafe { libc::tcgetattr(serial.as_raw_fd(), &raw mut terminal) };
        // SAFETY: as above.
        unsafe { libc::cfmakeraw(&raw mut terminal) };
        // SAFETY: as above.
        unsafe { libc::tcsetattr(serial.as_raw_fd(), libc::TCSANOW, &raw const terminal) };
        serve(&mut serial)
    });
    println!("{name} guest: {ended:?}");
    // The kernel panics where its first program ends; this ends the machine.
    // SAFETY: no memory is passed.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
}
