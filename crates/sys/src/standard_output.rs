//! Whether this process was started with a standard output.
//!
//! Rust opens `/dev/null` in the place of a closed one before `main`, so that what is printed would be lost in silence.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: the call takes numbers only.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once; this is one.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = look;

/// Whether standard output was closed when the process was started.
#[must_use]
pub fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
