use std::io;
use std::sync::Once;

/// Ends a call of [`Program::run_live`](super::Program::run_live) that another thread is in.
///
/// It sends SIGURG to that thread, for which a handler that does nothing is installed once in a process.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    thread: libc::pid_t,
}

impl Interrupt {
    /// For the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        // SAFETY: takes nothing, and cannot fail.
        Self { thread: unsafe { libc::gettid() } }
    }

    /// Interrupts it; nothing happens where it has ended.
    pub fn send(self) {
        // SAFETY: takes nothing, and cannot fail.
        let process = unsafe { libc::getpid() };
        // SAFETY: takes numbers only; the kernel finds the thread within this process or answers an error.
        unsafe { libc::syscall(libc::SYS_tgkill, process, self.thread, libc::SIGURG) };
    }
}

extern "C" fn nothing(_: libc::c_int) {}

fn install() {
    // SAFETY: all zero is a valid value: no flags (so that calls are not restarted), an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the structure is live, and the handler does nothing.
    let set = unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
    debug_assert_eq!(set, 0, "{}", io::Error::last_os_error());
}
