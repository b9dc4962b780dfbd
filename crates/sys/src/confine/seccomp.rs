use std::collections::BTreeMap;
use std::io;

use libc::{
    SYS_accept4, SYS_adjtimex, SYS_brk, SYS_clock_adjtime, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone,
    SYS_clone3, SYS_close, SYS_epoll_ctl, SYS_epoll_pwait, SYS_exit, SYS_exit_group, SYS_fcntl, SYS_fstat, SYS_futex,
    SYS_getpeername, SYS_getpid, SYS_getrandom, SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_ioctl, SYS_madvise,
    SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_ppoll, SYS_prctl, SYS_read, SYS_recvfrom, SYS_recvmmsg,
    SYS_recvmsg, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_yield, SYS_sendmmsg, SYS_sendmsg, SYS_sendto,
    SYS_set_robust_list, SYS_setsockopt, SYS_shutdown, SYS_sigaltstack, SYS_tgkill, SYS_write, SYS_writev,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::SysError;

/// What a responder with open sockets needs: to read, write, wait, start its threads, get memory and random bytes, and
/// end. Not among them: opening files or sockets, starting programs, looking at other processes, and everything of an
/// administrator.
const ALLOWED: &[libc::c_long] = &[
    SYS_recvmmsg,
    SYS_sendmmsg,
    SYS_ppoll,
    SYS_clock_gettime,
    SYS_futex,
    SYS_epoll_pwait,
    SYS_epoll_ctl,
    SYS_accept4,
    SYS_read,
    SYS_write,
    SYS_writev,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_shutdown,
    SYS_close,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_fcntl,
    SYS_fstat,
    SYS_getrandom,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_clock_nanosleep,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_sigaltstack,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_restart_syscall,
    // With CAP_SYS_TIME, which a server gives up, these could set the clock; without it they only read its state.
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_exit,
    SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// The bits of `clone` that make a namespace: a new user namespace gives its maker all rights within it, and opens much
/// of the kernel to it.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// An argument by its number, and what it must be.
type Condition = (u8, SeccompCmpOp, libc::c_int);

/// Calls of which only some uses are allowed, by the lower half of an argument: no memory that can be executed, threads
/// but no processes and no namespaces, names of threads, and whether a descriptor waits (nothing of a terminal, into
/// which `TIOCSTI` would type).
fn allowed_with() -> [(libc::c_long, Vec<Condition>); 5] {
    use SeccompCmpOp::{Eq, MaskedEq};
    let bits = |bits: libc::c_int| MaskedEq(u64::from(bits.cast_unsigned()));
    [
        (SYS_mmap, vec![(2, bits(libc::PROT_EXEC), 0)]),
        (SYS_mprotect, vec![(2, bits(libc::PROT_EXEC), 0)]),
        (SYS_clone, vec![(0, bits(libc::CLONE_THREAD | NAMESPACES), libc::CLONE_THREAD)]),
        (SYS_prctl, vec![(0, Eq, libc::PR_SET_NAME), (0, Eq, libc::PR_GET_NAME)]),
        (SYS_ioctl, vec![(1, Eq, libc::FIONBIO as libc::c_int)]),
    ]
}

/// Two filters, of which the kernel takes the stricter answer to each call. The arguments of `clone3` are in memory,
/// where a filter does not see them: the first answers that this kernel does not have it, and the C library takes
/// `clone` then.
fn filters(machine: TargetArch) -> Result<[BpfProgram; 2], BackendError> {
    let refusal = |errno: libc::c_int| SeccompAction::Errno(errno.cast_unsigned());
    let mut rules: BTreeMap<_, _> = ALLOWED.iter().chain(&[SYS_clone3]).map(|&number| (number, Vec::new())).collect();
    for (number, uses) in allowed_with() {
        let rule = |(index, operator, value): Condition| {
            SeccompRule::new(vec![SeccompCondition::new(index, Dword, operator, u64::from(value.cast_unsigned()))?])
        };
        rules.insert(number, uses.into_iter().map(rule).collect::<Result<_, _>>()?);
    }
    let no_clone3 = BTreeMap::from([(SYS_clone3, Vec::new())]);
    Ok([
        SeccompFilter::new(no_clone3, SeccompAction::Allow, refusal(libc::ENOSYS), machine)?.try_into()?,
        SeccompFilter::new(rules, refusal(libc::EPERM), SeccompAction::Allow, machine)?.try_into()?,
    ])
}

/// From here on only the system calls of a responder with open sockets are carried out, some with certain arguments
/// only: no memory can be made executable, no process or namespace made. All others fail with EPERM. Gives how many are
/// allowed.
///
/// # Errors
/// On kernels without seccomp filters, and on machines whose call numbers are not known.
pub fn allow_only_serving() -> Result<usize, SysError> {
    let failed = |source, remedy| SysError::Call { call: "seccomp filter".to_owned(), source, remedy };
    let machine = TargetArch::try_from(std::env::consts::ARCH);
    let made = machine.and_then(filters).map_err(|error| failed(io::Error::other(error), ": not for this machine"))?;
    for filter in made {
        apply_filter(&filter)
            .map_err(|error| failed(io::Error::other(error), ": needs a kernel with CONFIG_SECCOMP_FILTER"))?;
    }
    Ok(ALLOWED.len() + allowed_with().len())
}
