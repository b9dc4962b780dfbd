use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS, SYS_accept4, SYS_adjtimex, SYS_brk, SYS_clock_adjtime, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_clone, SYS_clone3, SYS_close, SYS_epoll_ctl, SYS_epoll_pwait, SYS_exit, SYS_exit_group,
    SYS_fcntl, SYS_fstat, SYS_futex, SYS_getpeername, SYS_getpid, SYS_getrandom, SYS_getsockname, SYS_getsockopt,
    SYS_gettid, SYS_ioctl, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_ppoll, SYS_prctl, SYS_read,
    SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_yield, SYS_sendmmsg, SYS_sendmsg,
    SYS_sendto, SYS_set_robust_list, SYS_setsockopt, SYS_shutdown, SYS_sigaltstack, SYS_tgkill, SYS_write, SYS_writev,
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

/// What an argument of a call must be.
enum Argument {
    /// None of these bits.
    Without { index: u32, bits: u32 },
    /// All of the bits, and none of the others.
    With { index: u32, all: u32, none: u32 },
    /// One of these values.
    OneOf { index: u32, values: &'static [u32] },
}

/// The bits of `clone` that make a namespace: a new user namespace gives its maker all rights within it, and opens much
/// of the kernel to it.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Calls of which only some uses are allowed: no memory that can be executed, threads but no processes and no
/// namespaces, names of threads, and whether a descriptor waits (nothing of a terminal, into which `TIOCSTI` would
/// type).
const ALLOWED_WITH: &[(libc::c_long, Argument)] = &[
    (SYS_mmap, Argument::Without { index: 2, bits: libc::PROT_EXEC.cast_unsigned() }),
    (SYS_mprotect, Argument::Without { index: 2, bits: libc::PROT_EXEC.cast_unsigned() }),
    (SYS_clone, Argument::With { index: 0, all: libc::CLONE_THREAD.cast_unsigned(), none: NAMESPACES.cast_unsigned() }),
    (
        SYS_prctl,
        Argument::OneOf { index: 0, values: &[libc::PR_SET_NAME.cast_unsigned(), libc::PR_GET_NAME.cast_unsigned()] },
    ),
    (SYS_ioctl, Argument::OneOf { index: 1, values: &[libc::FIONBIO as u32] }),
];

/// `linux/audit.h`: the machine that a system call was made for. Numbers of calls differ between machines.
const MACHINE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Calls of the x32 machine carry this bit and otherwise x86-64's numbers; no number in the list has it.
const OFFSET_NUMBER: u32 = 0;
const OFFSET_MACHINE: u32 = 4;

/// `struct seccomp_data`: six arguments of 64 bits. Their lower halves, on machines whose lowest byte comes first.
const fn offset_of_argument(index: u32) -> u32 {
    16 + 8 * index
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Goes on with the next instruction where the accumulator is `k`, else skips it.
const fn only_if(k: u32) -> libc::sock_filter {
    libc::sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: 1, k }
}

/// Goes on with the next instruction where the accumulator has any of these bits, else skips it.
const fn only_with(bits: u32) -> libc::sock_filter {
    libc::sock_filter { code: (BPF_JMP | BPF_JSET | BPF_K) as u16, jt: 0, jf: 1, k: bits }
}

const ALLOW: libc::sock_filter = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
const REFUSE: libc::sock_filter = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());

/// The instructions that decide on a call by its argument; the last one returns.
fn decide(argument: &Argument) -> Vec<libc::sock_filter> {
    let load = |index| statement(BPF_LD | BPF_W | BPF_ABS, offset_of_argument(index));
    match *argument {
        Argument::Without { index, bits } => vec![load(index), only_with(bits), REFUSE, ALLOW],
        Argument::With { index, all, none } => {
            vec![load(index), only_with(none), REFUSE, only_with(all), ALLOW, REFUSE]
        }
        Argument::OneOf { index, values } => {
            let allowed = values.iter().flat_map(|value| [only_if(*value), ALLOW]);
            std::iter::once(load(index)).chain(allowed).chain([REFUSE]).collect()
        }
    }
}

fn program(machine: u32) -> Vec<libc::sock_filter> {
    let answer = |action| statement(BPF_RET | BPF_K, action);
    let mut program = vec![
        statement(BPF_LD | BPF_W | BPF_ABS, OFFSET_MACHINE),
        libc::sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 1, jf: 0, k: machine },
        answer(SECCOMP_RET_KILL_PROCESS),
        statement(BPF_LD | BPF_W | BPF_ABS, OFFSET_NUMBER),
    ];
    for &number in ALLOWED {
        program.extend([only_if(number as u32), ALLOW]);
    }
    for (number, argument) in ALLOWED_WITH {
        let decision = decide(argument);
        // Skips the whole decision where it is another call.
        program.push(libc::sock_filter { jf: decision.len() as u8, ..only_if(*number as u32) });
        program.extend(decision);
    }
    // Its arguments are in memory, where a filter does not see them. The C library takes clone then.
    program.extend([only_if(SYS_clone3 as u32), answer(SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned())]);
    program.push(REFUSE);
    program
}

/// From here on only the system calls of a responder with open sockets are carried out, some with certain arguments
/// only: no memory can be made executable, no process or namespace made. All others fail with EPERM. Gives how many are
/// allowed. Needs [`super::no_new_privileges`] before it.
///
/// # Errors
/// On kernels without seccomp filters, and on machines whose call numbers are not known here.
pub fn allow_only_serving() -> Result<usize, SysError> {
    let Some(machine) = MACHINE else {
        return Err(SysError::Call {
            call: "seccomp filter".to_owned(),
            source: std::io::ErrorKind::Unsupported.into(),
            remedy: ": known on x86-64 and 64-bit ARM only",
        });
    };
    let mut program = program(machine);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is live, its length is right, and the kernel checks and copies it.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    if answer == 0 {
        Ok(ALLOWED.len() + ALLOWED_WITH.len())
    } else {
        Err(SysError::last("prctl(PR_SET_SECCOMP)", ": needs a kernel with CONFIG_SECCOMP_FILTER"))
    }
}
