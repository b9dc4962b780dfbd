//! The first process of a micro guest: everything an operating system would have set up, and no more.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::event::{Timespec, poll};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use vtare_sys::net::queue::{self, EtfOptions};
use vtare_sys::net::{LaunchClock, configure, interface};

use super::command_line::{Interface, Queue, Settings, hardware_address};
use super::files::Reach;
use super::messages::Hello;
use super::port::Port;
use super::session;
use crate::failure::{Exit, Failure};

/// The modules to load: one path a line, each after those it needs, with the module's parameters behind it.
const MODULES: &str = "/modules/order";
/// The files that make the kernel forward packets.
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// How often to look whether a device has come: every 10 ms, 20 s long.
const LOOKS: u32 = 2_000;
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// An `etf` that drops packets without a launch time. It lets one go in the 20 ms before its time: an emulated guest is
/// late by several.
const ETF: EtfOptions = EtfOptions { delta_ns: 20_000_000, clock_id: LaunchClock::Tai.id(), flags: 0 };

/// Sets the guest up, serves the channel, and switches the guest off. An error is reported over the channel where
/// there is one, and on the console else.
///
/// # Errors
/// Where this is not the first process of its machine. As the first it does not return.
pub(crate) fn first_process() -> Result<Exit, Failure> {
    if std::process::id() != 1 {
        let found = std::process::id();
        return Err(Failure::Input(format!(
            "--init belongs to process 1, and this is process {found}: boot a kernel with \
             'rdinit=/vtare -- agent --init' (docs/internals/guests.md)"
        )));
    }
    let (settings, mut problems) = set_up();
    let served = wait_for(|| Port::open(&settings.port)).and_then(|port| {
        // After the channel: the host then knows at once that the guest runs.
        bring_network_up(&settings, &mut problems);
        session::serve(port, Reach::everywhere(), &Hello::of(true, problems.clone()))
    });
    for problem in problems {
        message!("vtare: {problem}");
    }
    if let Err(failure) = served {
        message!("vtare: {failure}");
    }
    let off = reboot(RebootCommand::PowerOff);
    // A machine without a switch: the kernel panics when this process ends, and restarts it (panic=-1), which ends the
    // emulator.
    Err(Failure::Machine(format!("cannot switch the guest off: {off:?}")))
}

/// Mounts, modules and the names of things; what goes wrong in words.
fn set_up() -> (Settings, Vec<String>) {
    let mut problems = Vec::new();
    let mut lay = |kind: &'static str, place: &'static str| {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(place);
        let mounted = made.and_then(|()| mount(kind, place, kind, MountFlags::NOSUID, None).map_err(io::Error::from));
        // EBUSY: the kernel has done it.
        if let Err(error) = mounted.or_else(|error| if is_busy(&error) { Ok(()) } else { Err(error) }) {
            problems.push(format!("cannot mount {kind} on {place}: {error}"));
        }
    };
    lay("proc", "/proc");
    lay("sysfs", "/sys");
    lay("devtmpfs", "/dev");
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let (settings, wrong) = Settings::parse(&line);
    if !settings.root_tmp {
        lay("tmpfs", "/tmp");
    }
    problems.extend(wrong);
    let order = fs::read_to_string(MODULES).unwrap_or_default();
    for (path, parameters) in order.lines().filter_map(module) {
        if let Err(error) = load(path, parameters) {
            problems.push(format!("cannot load {path}: {error}"));
        }
    }
    if let Some(disk) = &settings.disk
        && let Err(problem) = mount_disk(disk)
    {
        problems.push(problem);
    }
    (settings, problems)
}

/// Lays the disk's file system over `/tmp`, where loads have their files. Its tables of inodes stay as they are: a
/// thread of the kernel that empties them later would run beside the measurement.
fn mount_disk(disk: &str) -> Result<(), String> {
    let device = format!("/dev/{disk}");
    wait_for(|| fs::metadata(&device)).map_err(|error| format!("{device}: {error}"))?;
    mount(device.as_str(), "/tmp", "ext4", MountFlags::NOATIME, c"noinit_itable")
        .map_err(|error| format!("cannot mount {device} on /tmp: {error}"))
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// A line of the list: the path, and the module's parameters.
fn module(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (path, parameters) = line.split_once(' ').unwrap_or((line, ""));
    (!path.is_empty()).then_some((path, parameters.trim()))
}

fn load(path: &str, parameters: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let parameters = CString::new(parameters)?;
    match finit_module(&file, &parameters, 0) {
        // A driver that the kernel has built in, or that came with another.
        Err(rustix::io::Errno::EXIST) => Ok(()),
        result => Ok(result?),
    }
}

/// The interfaces with their addresses, once the drivers have found them and they carry; and whether packets pass
/// between them.
fn bring_network_up(settings: &Settings, problems: &mut Vec<String>) {
    if let Err(error) = number_of("lo").and_then(|lo| configure::bring_up(lo, None).map_err(|error| error.to_string()))
    {
        problems.push(error);
    }
    for interface in &settings.interfaces {
        if let Err(problem) = bring_up(interface) {
            problems.push(problem);
        }
    }
    if settings.forward
        && let Err(error) = fs::write(FORWARD, "1")
    {
        problems.push(format!("cannot forward: {FORWARD}: {error}"));
    }
}

fn bring_up(interface: &Interface) -> Result<(), String> {
    let Some((address, prefix_length)) = interface.address else { return Ok(()) };
    let (number, name) = wait_for(|| find(&interface.device))?;
    let words = |error: vtare_sys::SysError| error.to_string();
    match interface.queue {
        None => {}
        Some(Queue::Fq) => queue::give(number, "fq", None).map_err(words)?,
        Some(Queue::Etf) => queue::give(number, "etf", Some(ETF)).map_err(words)?,
    }
    configure::bring_up(number, interface.mtu_byte).map_err(words)?;
    configure::give_address(number, address, prefix_length).map_err(words)?;
    for (neighbour, hardware) in &interface.neighbours {
        configure::give_neighbour(number, *neighbour, *hardware).map_err(words)?;
    }
    wait_for(|| carrier(&name))
}

/// An interface's number and name, by its name or its hardware address.
fn find(device: &str) -> Result<(u32, String), String> {
    let Some(hardware) = hardware_address(device) else { return Ok((number_of(device)?, device.to_owned())) };
    let all = interface::all().map_err(|error| error.to_string())?;
    let found = all
        .iter()
        .find(|one| attribute(&one.name, "address").and_then(|text| hardware_address(&text)) == Some(hardware));
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let absent = || format!("no interface has the address {device}; there are {}", names.join(", "));
    found.map(|one| (one.index, one.name.clone())).ok_or_else(absent)
}

fn number_of(device: &str) -> Result<u32, String> {
    let all = interface::all().map_err(|error| error.to_string())?;
    let found = all.iter().find(|one| one.name == device).map(|one| one.index);
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    found.ok_or_else(|| format!("there is no interface {device}, only {}", names.join(", ")))
}

fn carrier(device: &str) -> Result<(), String> {
    if attribute(device, "carrier").as_deref() == Some("1") { Ok(()) } else { Err(format!("{device} has no carrier")) }
}

/// What the kernel reports of an interface.
fn attribute(device: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/sys/class/net").join(device).join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// Looks again and again until there is what is wanted, or for [`LOOKS`] times; then gives the last failure.
fn wait_for<T, E>(mut look: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..LOOKS {
        if let Ok(found) = look() {
            return Ok(found);
        }
        let _ = poll(&mut [], Some(&LOOK));
    }
    look()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_module_list_is_a_path_and_parameters() {
        assert_eq!(module("/modules/a.ko"), Some(("/modules/a.ko", "")));
        assert_eq!(module(" /modules/a.ko  x=1 y=2 "), Some(("/modules/a.ko", "x=1 y=2")));
        assert_eq!(module("  "), None);
    }

    #[test]
    fn only_the_first_process_sets_a_machine_up() {
        let failure = first_process().expect_err("a test is not the first process");
        assert!(failure.code() == 2 && failure.to_string().contains("rdinit=/vtare"), "{failure}");
    }
}
