//! Functions in which a thread can be cancelled.
//!
//! A cancelled thread unwinds from inside `clock_nanosleep` up through its callers. Rust built with `panic = "abort"`
//! ends the process when that reaches one of its frames. So the exported sleeps are written in assembly: they call the
//! first half of a sleep, the kernel by way of the C library, and the second half, one after the other, and hold
//! nothing that would have to be cleaned up. On other architectures cancellation waits until the sleep is over.

/// Defines exported functions of one 64-bit argument whose kernel part is a cancellation point. Each names its first
/// half, which fills in a [`crate::pending::Pending`] and returns how to go on.
#[cfg(target_arch = "x86_64")]
macro_rules! cancellable {
    ($($(#[$doc:meta])* pub fn $name:ident($argument:ident: $kind:ty) = $begin:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// What the header asks of the argument.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($argument: $kind) -> core::ffi::c_int {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, {frame}",
                ".cfi_adjust_cfa_offset {frame}",
                "mov rsi, rsp",
                "call {begin}",
                // REFUSED is the answer itself; GO_ON is the code for the second half.
                "test eax, eax",
                "js 3f",
                "je 2f",
                "mov edi, dword ptr [rsp + {clock}]",
                "mov esi, dword ptr [rsp + {flags}]",
                "mov rdx, rsp",
                "xor ecx, ecx",
                "call {nanosleep}@PLT",
                "2:",
                "mov rdi, rsp",
                "mov esi, eax",
                "call {finish}",
                "3:",
                "add rsp, {frame}",
                ".cfi_adjust_cfa_offset -{frame}",
                "ret",
                ".cfi_endproc",
                // With the return address the stack is a multiple of 16 again.
                frame = const size_of::<crate::pending::Pending>().next_multiple_of(16) + 8,
                clock = const core::mem::offset_of!(crate::pending::Pending, clock),
                flags = const core::mem::offset_of!(crate::pending::Pending, flags),
                begin = sym $begin,
                nanosleep = sym libc::clock_nanosleep,
                finish = sym crate::pending::finish,
            )
        }
    )*};
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
macro_rules! cancellable {
    ($($(#[$doc:meta])* pub fn $name:ident($argument:ident: $kind:ty) = $begin:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// What the header asks of the argument.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($argument: $kind) -> core::ffi::c_int {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, -16]!",
                ".cfi_adjust_cfa_offset 16",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "sub sp, sp, {frame}",
                ".cfi_adjust_cfa_offset {frame}",
                "mov x1, sp",
                "bl {begin}",
                // REFUSED is the answer itself; GO_ON is the code for the second half.
                "cmp w0, 0",
                "b.lt 3f",
                "b.eq 2f",
                "ldr w0, [sp, {clock}]",
                "ldr w1, [sp, {flags}]",
                "mov x2, sp",
                "mov x3, xzr",
                "bl {nanosleep}",
                "2:",
                "mov w1, w0",
                "mov x0, sp",
                "bl {finish}",
                "3:",
                "add sp, sp, {frame}",
                ".cfi_adjust_cfa_offset -{frame}",
                "ldp x29, x30, [sp], 16",
                ".cfi_adjust_cfa_offset -16",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                frame = const size_of::<crate::pending::Pending>().next_multiple_of(16),
                clock = const core::mem::offset_of!(crate::pending::Pending, clock),
                flags = const core::mem::offset_of!(crate::pending::Pending, flags),
                begin = sym $begin,
                nanosleep = sym libc::clock_nanosleep,
                finish = sym crate::pending::finish,
            )
        }
    )*};
}

/// Without a trampoline: a cancelled thread ends after its sleep.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! cancellable {
    ($($(#[$doc:meta])* pub fn $name:ident($argument:ident: $kind:ty) = $begin:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// What the header asks of the argument.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($argument: $kind) -> core::ffi::c_int {
            // SAFETY: the argument is what the first half asks for.
            unsafe { crate::cancellable::uncancelled(|pending| $begin($argument, pending)) }
        }
    )*};
}

pub(crate) use cancellable;

/// A whole sleep with cancellation put off.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn uncancelled(
    begin: impl FnOnce(*mut crate::pending::Pending) -> core::ffi::c_int,
) -> core::ffi::c_int {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: core::ffi::c_int, before: *mut core::ffi::c_int) -> core::ffi::c_int;
    }
    let mut pending = core::mem::MaybeUninit::uninit();
    let answer = begin(pending.as_mut_ptr());
    if answer < 0 {
        return answer;
    }
    let mut before = 0;
    let code = if answer == 0 {
        0
    } else {
        // SAFETY: 1 is PTHREAD_CANCEL_DISABLE on Linux; `before` is live.
        unsafe { pthread_setcancelstate(1, &raw mut before) };
        // SAFETY: the first half has filled it in, as it asked for the kernel.
        let code = crate::pending::ask_kernel(unsafe { pending.assume_init_ref() });
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
        code
    };
    // SAFETY: as above.
    unsafe { crate::pending::finish(pending.as_ptr(), code) }
}
