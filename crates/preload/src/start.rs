//! Start of the library, before the program's own start.

use core::ffi::c_void;
use std::sync::OnceLock;

use vtare_clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_clock::{Clock, ClockOptions, ReadPath, SourceChoice};
use vtare_sys::sched;
use vtare_units::Span;

use crate::policy::{ClockMode, clock_mode, worth_a_look};
use crate::real::{ClockGettime, Gettimeofday, TimespecGet};
use crate::settings::{ClockChoice, Settings, SleepChoice, VARIABLE};
use crate::sleeps::{Prototype, Sleeping};
use crate::{clocks, count, current, real, sleeps};

/// The linker calls this once the library and the C library are ready.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

static SLEEP_CLOCK: OnceLock<Clock> = OnceLock::new();

extern "C" fn at_load() {
    // A program may rely on errno being 0 when it starts (C11 7.5).
    let kept = real::errno();
    start();
    real::set_errno(kept);
}

fn start() {
    real::find();
    answer_by(ClockMode::Kernel);
    let settings = match std::env::var(VARIABLE) {
        Ok(text) => text.parse::<Settings>(),
        Err(std::env::VarError::NotPresent) => {
            // Preloaded by hand: `vtare exec` would have set the slack. Refused nowhere since Linux 2.6.28.
            let _ = sched::set_timer_slack(Span::from_nanos(1));
            Ok(Settings::default())
        }
        Err(error) => Err(error.to_string()),
    };
    match settings {
        Ok(settings) => take_over(&settings),
        Err(error) => eprintln!("vtare: {VARIABLE}: {error}; the program runs on the system's clock and sleeps"),
    }
}

fn take_over(settings: &Settings) {
    let mode = choose_clock(settings.clock);
    let method = match settings.sleep {
        SleepChoice::Adaptive => Some(Method::Adaptive),
        SleepChoice::TwoPhase => Some(Method::TwoPhase),
        SleepChoice::Spin => Some(Method::Spin),
        SleepChoice::Os => None,
    };
    if method.is_some() || settings.report.is_some() {
        let clock = SLEEP_CLOCK.get_or_init(sleep_clock);
        if let Some(path) = &settings.report {
            count::start(path, clock, mode);
        }
        let prototype = method.map(|method| Prototype::new(Sleeper::new(clock, method, sleep_options())));
        let ready = sleeps::start(Sleeping { clock, prototype, spin_only: method == Some(Method::Spin) });
        if !ready {
            eprintln!("vtare: no thread-specific key below 32 is left: the program's sleeps stay the system's");
        }
    }
    answer_by(mode);
}

/// Timer slack is inherited from `vtare exec`, so that no hook has to set it. A short slice is each thread's own, asked
/// for at its first sleep, for threads that only compute are better off without. It is tried here first: a refusal
/// allocates, which a hook must not.
fn sleep_options() -> SleepOptions {
    let usual = SleepOptions::default();
    // A slice of 0 is the system's own.
    let taken = |slice| sched::set_slice(slice).is_ok();
    let slice = usual.slice.filter(|slice| taken(*slice) && taken(Span::ZERO));
    SleepOptions { slack: None, slice, ..usual }
}

/// A clock for sleeping. One that has to be renewed reads a file now and then, which a hook must not (see `clocks`):
/// the kernel's is read then.
fn sleep_clock() -> Clock {
    let clock = Clock::start(&ClockOptions::fast());
    if clock.path() != ReadPath::Line {
        return clock;
    }
    Clock::start(&ClockOptions { source: SourceChoice::Os, ..ClockOptions::fast() })
}

fn choose_clock(choice: ClockChoice) -> ClockMode {
    if choice == ClockChoice::Os {
        return ClockMode::Kernel;
    }
    let kernel_ns = clocks::kernel_cost_ns();
    if choice == ClockChoice::Auto && !worth_a_look(kernel_ns) {
        return ClockMode::Kernel;
    }
    let counter_ns = clocks::start().then(clocks::counter_cost_ns);
    clock_mode(choice, kernel_ns, counter_ns)
}

/// Points the clock hooks to what answers them.
fn answer_by(mode: ClockMode) {
    let (clock_gettime, gettimeofday, timespec_get): (ClockGettime, Gettimeofday, TimespecGet) = match mode {
        ClockMode::Kernel => (real::CLOCK_GETTIME.get(), real::GETTIMEOFDAY.get(), real::TIMESPEC_GET.get()),
        ClockMode::Ordered => {
            (clocks::clock_gettime::<true>, clocks::gettimeofday::<true>, clocks::timespec_get::<true>)
        }
        ClockMode::Unordered => {
            (clocks::clock_gettime::<false>, clocks::gettimeofday::<false>, clocks::timespec_get::<false>)
        }
    };
    macro_rules! point {
        ($($target:expr => $function:expr;)*) => {$(
            // SAFETY: the function has the target's shape: both types are stated above.
            unsafe { $target.set($function as *mut c_void) };
        )*};
    }
    if count::report().is_some() {
        point! {
            count::CLOCK_GETTIME => clock_gettime;
            count::GETTIMEOFDAY => gettimeofday;
            count::TIMESPEC_GET => timespec_get;
            current::NOW_CLOCK_GETTIME => count::clock_gettime as ClockGettime;
            current::NOW_GETTIMEOFDAY => count::gettimeofday as Gettimeofday;
            current::NOW_TIMESPEC_GET => count::timespec_get as TimespecGet;
        }
    } else {
        point! {
            current::NOW_CLOCK_GETTIME => clock_gettime;
            current::NOW_GETTIMEOFDAY => gettimeofday;
            current::NOW_TIMESPEC_GET => timespec_get;
        }
    }
}
