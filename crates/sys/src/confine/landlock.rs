use crate::SysError;

/// `struct landlock_ruleset_attr` of `linux/landlock.h`, as of ABI 6; older kernels are given its beginning only.
#[repr(C)]
#[derive(Default)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

const CREATE_RULESET_VERSION: u32 = 1;

/// The first version whose rule sets also keep a process from what lies outside of them: abstract UNIX sockets and
/// signals.
pub const SCOPES_ABI: i64 = 6;

/// Which rights each version of the interface knows, as counts of bits from the lowest: rights over files, over the
/// network, scopes.
const fn rights_of(abi: i64) -> (u32, u32, u32) {
    match abi {
        1 => (13, 0, 0),            // execute to make_sym
        2 => (14, 0, 0),            // refer
        3 => (15, 0, 0),            // truncate
        4 => (15, 2, 0),            // bind and connect TCP
        5 => (16, 2, 0),            // ioctl on devices
        SCOPES_ABI.. => (16, 2, 2), // abstract UNIX sockets, signals
        _ => (0, 0, 0),
    }
}

/// From here on nothing can be opened, created or removed in any file system, and, where the kernel can, no TCP socket
/// can be bound or connected, no abstract UNIX socket of others connected to, and no other process signalled (Landlock
/// without a single rule). What is open stays usable. Gives the kernel's version of Landlock. Needs
/// [`super::no_new_privileges`] before it.
///
/// # Errors
/// Before Linux 5.13, and where Landlock is not among the security modules in use.
pub fn forbid_files() -> Result<i64, SysError> {
    let remedy = ": needs Linux 5.13 or later with landlock among its security modules (lsm=)";
    // SAFETY: a version query takes no structure.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, CREATE_RULESET_VERSION)
    };
    if abi < 1 {
        return Err(SysError::last("landlock_create_ruleset", remedy));
    }
    let (files, network, scopes) = rights_of(abi);
    let attributes = RulesetAttributes {
        handled_access_fs: (1 << files) - 1,
        handled_access_net: (1 << network) - 1,
        scoped: (1 << scopes) - 1,
    };
    let words = 1 + usize::from(network > 0) + usize::from(scopes > 0);
    let size = words * size_of::<u64>();
    // SAFETY: the structure is live and at least `size` bytes long.
    let ruleset = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0_u32) };
    if ruleset < 0 {
        return Err(SysError::last("landlock_create_ruleset", remedy));
    }
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) };
    let result = if answer == 0 { Ok(abi) } else { Err(SysError::last("landlock_restrict_self", remedy)) };
    // SAFETY: the descriptor was made above and nobody else has it.
    unsafe { libc::close(ruleset as libc::c_int) };
    result
}
