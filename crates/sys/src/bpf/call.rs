//! The system call itself.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

//= include/uapi/linux/bpf.h, enum bpf_cmd
pub(super) const MAP_CREATE: libc::c_int = 0;
pub(super) const MAP_LOOKUP_ELEM: libc::c_int = 1;
pub(super) const MAP_UPDATE_ELEM: libc::c_int = 2;
pub(super) const MAP_DELETE_ELEM: libc::c_int = 3;
pub(super) const PROG_LOAD: libc::c_int = 5;
pub(super) const PROG_TEST_RUN: libc::c_int = 10;
pub(super) const BTF_LOAD: libc::c_int = 18;
pub(super) const LINK_CREATE: libc::c_int = 28;

/// The arguments of one command: a part of `union bpf_attr`, from its start, without bytes that belong to no field.
///
/// # Safety
/// The layout must be the command's. Each pointer in it must be valid for what the command does with it while the call
/// lasts.
pub(super) unsafe trait Attributes {}

/// Calls bpf(2). The answer is a descriptor or 0.
pub(super) fn bpf<A: Attributes>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_int> {
    loop {
        // SAFETY: the arguments are live, of the size given and, by their trait's promise, those of the command.
        let answer = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<A>()) };
        if answer >= 0 {
            return Ok(answer as libc::c_int);
        }
        let error = io::Error::last_os_error();
        // The verifier gives way to signals.
        if error.raw_os_error() != Some(libc::EAGAIN) || command != PROG_LOAD {
            return Err(error);
        }
    }
}

/// Calls bpf(2) with a command that opens something.
pub(super) fn open<A: Attributes>(command: libc::c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // Kernels before 5.11 count the memory of maps and programs against the limit of locked memory.
    let fd = bpf(command, attributes).or_else(|error| {
        if error.raw_os_error() == Some(libc::EPERM) && lift_locked_memory() {
            bpf(command, attributes)
        } else {
            Err(error)
        }
    })?;
    // SAFETY: the kernel has just opened it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lifts the limit of locked memory; whether that changed anything.
fn lift_locked_memory() -> bool {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut now) } != 0 || now.rlim_cur == libc::RLIM_INFINITY {
        return false;
    }
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is live.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) == 0 }
}

/// A name as the kernel keeps it: at most 15 bytes of letters, digits, `_` and `.`.
pub(super) fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    for (to, from) in name[..15].iter_mut().zip(text.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'_' { from } else { b'_' };
    }
    name
}

/// An address as the attributes hold it.
pub(super) fn address<T>(from: *const T) -> u64 {
    from as u64
}
