//! Counters of perf_event_open(2): events of the calling thread, and of all that it starts once they are open.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::SysError;

//= include/uapi/linux/perf_event.h
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const COUNT_SW_PAGE_FAULTS: u64 = 2;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;
const IOC_SET_FILTER: libc::Ioctl = 0x4008_2406;

/// Version 0 of `struct perf_event_attr`.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Page faults of any kind.
    PageFault,
    /// A tracepoint: its number in the kernel, and which of its events count (all where there is no filter).
    Tracepoint(u64, Option<&'a CStr>),
}

/// When it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// What the thread starts, from the moment when that becomes another program.
    FromExec,
    /// The thread as well, between [`Counter::enable`] and [`Counter::disable`].
    WhenEnabled,
}

/// A counter. Nothing is counted any more once it is dropped.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Opens a counter of the calling thread.
    ///
    /// # Errors
    /// Where the kernel does not let this process count, or does not know the event or a word of its filter.
    pub fn open(event: Event<'_>, counts: Counts) -> Result<Self, SysError> {
        let (kind, config, filter) = match event {
            Event::PageFault => (TYPE_SOFTWARE, COUNT_SW_PAGE_FAULTS, None),
            Event::Tracepoint(number, filter) => (TYPE_TRACEPOINT, number, filter),
        };
        let on_exec = if counts == Counts::FromExec { ENABLE_ON_EXEC } else { 0 };
        let size = size_of::<Attributes>() as u32;
        let attributes = Attributes { kind, size, config, flags: DISABLED | INHERIT | on_exec, ..Default::default() };
        let (this_thread, any_cpu, no_group) = (0, -1, -1);
        let call = libc::SYS_perf_event_open;
        // SAFETY: the attributes are live and of the size that they state; the call only reads them.
        let fd = unsafe { libc::syscall(call, &raw const attributes, this_thread, any_cpu, no_group, FLAG_FD_CLOEXEC) };
        if fd < 0 {
            return Err(SysError::last("perf_event_open", ": needs root, and CONFIG_PERF_EVENTS in the kernel"));
        }
        // SAFETY: the kernel has just opened it, and nobody else has it.
        let counter = Self(unsafe { File::from_raw_fd(fd as libc::c_int) });
        if let Some(filter) = filter {
            // SAFETY: the descriptor is open, and the text ends in NUL; the call only reads it.
            let answer = unsafe { libc::ioctl(counter.0.as_raw_fd(), IOC_SET_FILTER, filter.as_ptr()) };
            if answer != 0 {
                return Err(SysError::last(format!("the filter {filter:?} of an event"), ""));
            }
        }
        Ok(counter)
    }

    /// Begins to count, or goes on.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn enable(&self) -> Result<(), SysError> {
        self.ask(IOC_ENABLE, "PERF_EVENT_IOC_ENABLE")
    }

    /// Counts no more, and keeps what it has.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn disable(&self) -> Result<(), SysError> {
        self.ask(IOC_DISABLE, "PERF_EVENT_IOC_DISABLE")
    }

    /// What it has counted so far.
    ///
    /// # Errors
    /// Where the kernel does not give it.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn ask(&self, request: libc::Ioctl, name: &str) -> Result<(), SysError> {
        // SAFETY: the descriptor is open; the call takes a number only.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, 0) } {
            0 => Ok(()),
            _ => Err(SysError::last(name, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_version_0() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn page_faults_are_counted_between_enable_and_disable_where_the_kernel_lets_it() {
        let counter = match Counter::open(Event::PageFault, Counts::WhenEnabled) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let touch = || crate::process::touch_pages(None, 64, [], 0..64).expect("there is memory");
        touch();
        assert_eq!(counter.read().expect("it is open"), 0);
        counter.enable().expect("it is open");
        touch();
        counter.disable().expect("it is open");
        touch();
        let counted = counter.read().expect("it is open");
        assert!((64..128).contains(&counted), "{counted}");
    }
}
