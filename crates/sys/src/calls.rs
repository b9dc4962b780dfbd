//! Numbers of system calls, by what programs use them for.

use std::ffi::c_long;

use libc::{
    SYS_brk, SYS_clock_nanosleep, SYS_faccessat, SYS_faccessat2, SYS_fdatasync, SYS_fsync, SYS_getdents64, SYS_linkat,
    SYS_mkdirat, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat,
    SYS_openat2, SYS_pread64, SYS_pwrite64, SYS_read, SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmmsg,
    SYS_recvmsg, SYS_renameat2, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_statx, SYS_symlinkat, SYS_unlinkat,
    SYS_write, SYS_writev,
};
// Later architectures do without.
#[cfg(target_arch = "x86_64")]
use libc::{
    SYS_access, SYS_link, SYS_lstat, SYS_mkdir, SYS_open, SYS_readlink, SYS_rename, SYS_renameat, SYS_rmdir, SYS_stat,
    SYS_symlink, SYS_unlink,
};

/// Change the address space.
pub const MAPPING: &[c_long] = &[SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_brk];

/// Open a file.
pub const OPEN: &[c_long] = &[
    SYS_openat,
    SYS_openat2,
    #[cfg(target_arch = "x86_64")]
    SYS_open,
];

/// Look a file up by its name.
pub const LOOKUP: &[c_long] = &[
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    SYS_stat,
    #[cfg(target_arch = "x86_64")]
    SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    SYS_access,
    #[cfg(target_arch = "x86_64")]
    SYS_readlink,
];

/// Make, change or remove a name.
pub const NAME: &[c_long] = &[
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    SYS_rename,
    #[cfg(target_arch = "x86_64")]
    SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    SYS_link,
    #[cfg(target_arch = "x86_64")]
    SYS_symlink,
];

/// Read names of a directory.
pub const LISTING: &[c_long] = &[SYS_getdents64];

/// Says of `openat` that it makes the file where there is none.
pub const CREATES: i32 = libc::O_CREAT;

/// Says of `newfstatat` that it is about an open file, and looks none up (`AT_EMPTY_PATH`).
pub const OF_OPEN_FILE: i32 = libc::AT_EMPTY_PATH;

/// Read or write by a descriptor.
pub const READ_OR_WRITE: &[c_long] = &[SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64];

/// Bring what was written to the device.
pub const FSYNC: &[c_long] = &[SYS_fsync, SYS_fdatasync];

/// Send or receive on a socket.
pub const PACKET: &[c_long] = &[SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg];

/// Wait for a time.
pub const SLEEP: &[c_long] = &[SYS_clock_nanosleep, SYS_nanosleep];
