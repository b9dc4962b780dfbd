//! Where and how this thread runs: affinity, priority, timer slack, and what it used.

use std::mem::MaybeUninit;

use vtare_units::Span;

use crate::SysError;

/// The CPUs this thread may run on, in rising order.
///
/// # Errors
/// Where the kernel has more CPUs than the 1024 of `cpu_set_t`.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the set is live, zeroed and of the size given.
    let answer = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    if answer != 0 {
        return Err(SysError::last("sched_getaffinity", ""));
    }
    // SAFETY: an all-zero cpu_set_t is a valid, empty one, and the kernel filled in the rest.
    let set = unsafe { set.assume_init() };
    // SAFETY: the index stays below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Lets this thread run on `cpus` only.
///
/// # Errors
/// Where a CPU does not exist, or the cgroup's cpuset does not hold it.
pub fn pin_to(cpus: &[usize]) -> Result<(), SysError> {
    let call = || format!("sched_setaffinity to CPU {cpus:?}");
    if let Some(beyond) = cpus.iter().find(|cpu| **cpu >= libc::CPU_SETSIZE as usize) {
        return Err(SysError::Call {
            call: format!("sched_setaffinity to CPU {beyond}"),
            source: std::io::Error::from_raw_os_error(libc::EINVAL),
            remedy: ": choose a CPU from cpus_allowed (vtare check shows them)",
        });
    }
    let set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: an all-zero cpu_set_t is a valid, empty one.
    let mut set = unsafe { set.assume_init() };
    for cpu in cpus {
        // SAFETY: the index was checked to be below CPU_SETSIZE.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: the set is live and of the size given.
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } == 0 {
        Ok(())
    } else {
        Err(SysError::last(call(), ": choose a CPU from cpus_allowed (vtare check shows them)"))
    }
}

/// The CPU that runs this thread at the moment of the call.
#[must_use]
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes nothing, returns a number or -1.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Lets this thread go before equals; -20 is the most urgent, 19 the least.
///
/// # Errors
/// Below 0 without CAP_SYS_NICE or RLIMIT_NICE.
pub fn set_nice(level: i32) -> Result<(), SysError> {
    // SAFETY: takes numbers only; who 0 is the calling thread on Linux.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, level) } == 0 {
        Ok(())
    } else {
        Err(SysError::last(format!("setpriority to nice {level}"), ": run as root or raise RLIMIT_NICE"))
    }
}

/// A scheduling class for this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The ordinary class.
    Other,
    /// SCHED_FIFO at this priority, 1 to 99: runs until it blocks, before all ordinary threads.
    Fifo(i32),
}

/// Moves this thread to `class`.
///
/// # Errors
/// For [`Class::Fifo`] without CAP_SYS_NICE or RLIMIT_RTPRIO.
pub fn set_class(class: Class) -> Result<(), SysError> {
    let (policy, priority) = match class {
        Class::Other => (libc::SCHED_OTHER, 0),
        Class::Fifo(priority) => (libc::SCHED_FIFO, priority),
    };
    // SAFETY: all-zero is a valid parameter. musl's has fields beside the priority.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: `parameter` is live; thread 0 is the calling one.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } == 0 {
        Ok(())
    } else {
        Err(SysError::last(
            format!("sched_setscheduler to {class:?}"),
            ": run as root, or raise RLIMIT_RTPRIO (ulimit -r), in a control group with real-time CPU time",
        ))
    }
}

/// The timer slack of this thread: how much later than asked the kernel may wake it, to save wake-ups. `None` where the
/// kernel has none (gVisor).
#[must_use]
pub fn timer_slack() -> Option<Span> {
    // SAFETY: PR_GET_TIMERSLACK takes nothing and returns the slack in ns.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    (slack >= 0).then(|| Span::from_nanos(i64::from(slack)))
}

/// Sets the timer slack of this thread. 1 ns is the least; 0 means the default of the process.
///
/// # Errors
/// Never on Linux since 2.6.28; gVisor, which has no slack, refuses.
pub fn set_timer_slack(slack: Span) -> Result<(), SysError> {
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.as_nanos_unsigned() as libc::c_ulong) } == 0 {
        Ok(())
    } else {
        let call = format!("prctl(PR_SET_TIMERSLACK, {})", slack.as_nanos());
        Err(SysError::last(call, ": this kernel, such as that of a sandbox, lets no program choose its timer slack"))
    }
}

/// Asks the EEVDF scheduler for time slices of `slice` for this thread (Linux 6.12 and later; older kernels ignore it).
/// A short slice means an earlier virtual deadline, hence an earlier turn after a wake-up. Needs no privilege.
///
/// # Errors
/// Where the kernel refuses the slice (0.1 ms to 100 ms are accepted).
pub fn set_slice(slice: Span) -> Result<(), SysError> {
    /// `struct sched_attr`, first published version (48 bytes).
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: the structure is live and of the size given; thread 0 is the calling one.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if answer != 0 {
        return Err(SysError::last("sched_getattr", ""));
    }
    attributes.size = size;
    attributes.runtime = slice.as_nanos_unsigned();
    // SAFETY: as above.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if answer == 0 {
        Ok(())
    } else {
        Err(SysError::last(
            format!("sched_setattr to a slice of {slice}"),
            ": choose a slice between 100 us and 100 ms",
        ))
    }
}

/// What this thread has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadUsage {
    /// CPU time in user mode, to the kernel's own resolution.
    pub user: Span,
    /// CPU time in the kernel.
    pub system: Span,
    /// Switches away because the thread waited.
    pub voluntary_switches: u64,
    /// Switches away although it could have run on.
    pub involuntary_switches: u64,
}

/// Reads what this thread has used (`getrusage(RUSAGE_THREAD)`).
#[must_use]
pub fn thread_usage() -> ThreadUsage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is live; RUSAGE_THREAD exists since Linux 2.6.26, so the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all-zero is a valid rusage, and the kernel filled in the rest.
    let usage = unsafe { usage.assume_init() };
    let span = |time: libc::timeval| Span::from_secs(time.tv_sec) + Span::from_micros(time.tv_usec);
    ThreadUsage {
        user: span(usage.ru_utime),
        system: span(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
        involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
    }
}

/// Gives up the rest of this thread's turn.
pub fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_pins_to_each_cpu_it_may_use() {
        std::thread::spawn(|| {
            for cpu in allowed_cpus().expect("affinity is readable") {
                pin_to(&[cpu]).expect("an allowed CPU is accepted");
                assert_eq!(current_cpu(), Some(cpu));
            }
        })
        .join()
        .expect("the thread ran");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_the_way_out() {
        let error = pin_to(&[100_000]).expect_err("no machine has this CPU");
        assert!(error.to_string().contains("100000"), "{error}");
        assert!(error.to_string().contains("cpus_allowed"), "{error}");
    }

    #[test]
    fn slack_is_kept_as_set() {
        std::thread::spawn(|| {
            set_timer_slack(Span::from_nanos(1)).expect("slack is always accepted");
            assert_eq!(timer_slack(), Some(Span::from_nanos(1)));
        })
        .join()
        .expect("the thread ran");
    }
}
