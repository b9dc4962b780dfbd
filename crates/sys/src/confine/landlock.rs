use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

use crate::SysError;

/// The first version whose rule sets also keep a process from what lies outside of them: abstract UNIX sockets and
/// signals.
pub const SCOPES_ABI: i64 = 6;

/// From here on nothing can be opened, created or removed in any file system, and, where the kernel can, no TCP socket
/// can be bound or connected, no abstract UNIX socket of others connected to, and no other process signalled (Landlock
/// without a single rule). What is open stays usable. Gives the kernel's version of Landlock.
///
/// # Errors
/// Before Linux 5.13, and where Landlock is not among the security modules in use.
pub fn forbid_files() -> Result<i64, SysError> {
    let refused = |source| SysError::Call {
        call: "landlock_restrict_self".to_owned(),
        source,
        remedy: ": needs Linux 5.13 or later with landlock among its security modules (lsm=)",
    };
    match restrict(ABI::V6).map_err(|error| refused(io::Error::other(error)))? {
        RestrictionStatus {
            ruleset: RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
            landlock: LandlockStatus::Available { effective_abi, kernel_abi },
            ..
        } => Ok(kernel_abi.map_or(effective_abi as i64, i64::from)),
        _ => Err(refused(io::ErrorKind::Unsupported.into())),
    }
}

/// Forbids all that this version knows and the kernel, too.
fn restrict(abi: ABI) -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()
}
