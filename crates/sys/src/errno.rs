//! The kernel's error numbers by name, for crates without `libc`: `errno(3)` says what each means, the manual page of a
//! system call when it gives it.

pub use libc::{
    EAGAIN, EBUSY, ECONNREFUSED, EINTR, EINVAL, EIO, EMFILE, EMSGSIZE, ENETDOWN, ENFILE, ENOBUFS, ENOMEM, EPERM,
};
