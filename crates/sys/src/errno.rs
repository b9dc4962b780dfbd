//! The kernel's error numbers by name, for crates without `libc`: `errno(3)` defines each, the manual page of a system
//! call states when the call returns it.

pub use libc::{
    EAGAIN, EBUSY, ECONNREFUSED, EINTR, EINVAL, EIO, EMFILE, EMSGSIZE, ENETDOWN, ENFILE, ENOBUFS, ENOMEM, EPERM,
};
