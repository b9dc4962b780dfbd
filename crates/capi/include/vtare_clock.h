/* vtare_clock: time from the CPU's own counter where that can be trusted, and sleeps that end when they should.
 *
 * One clock serves the whole process, in the domain of CLOCK_MONOTONIC: its readings and the kernel's can be compared
 * and subtracted. It starts at first use, in well under a millisecond where the kernel's own time page can be read and
 * in 5 to 30 ms else; vtare_clock_start, or VTARE_CLOCK_START=load in the environment, starts it earlier. Where the
 * counter cannot be trusted, readings come from the kernel's vDSO and vtare_clock_info has the reason.
 *
 * Errors. Functions that return int answer 0, or -1 with errno set and a sentence in vtare_error_message(). Readings
 * cannot fail. errno is left alone by what succeeds.
 * Threads. Every function may be called by any number of threads at once. Policy, options, last sleep and error message
 * belong to the calling thread; a thread's first sleep takes about 18 KB of heap, freed when it ends.
 * Fork. A child goes on with the parent's clock and its own copy of the calling thread's state. Nothing needs to be
 * done.
 * Signals. Once the clock runs, vtare_now_ns, vtare_now_ordered_ns, vtare_now_checked and the vtare_tick functions may
 * be called in signal handlers; nothing else may, except vtare_clock_abi_version, vtare_clock_version and
 * vtare_sleep_policy_name.
 * Growth. Structures begin with `size`: set it to sizeof the structure before the call. Later releases add fields at
 * the end, never elsewhere, and fill in no more than the caller has; afterwards `size` is the number of bytes filled
 * in. A program built with a newer header than the library finds fields behind `size` unchanged: they are unknown, not
 * 0. Sizes below the first release's are EINVAL. VTARE_CLOCK_ABI_VERSION does not change with added fields.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef VTARE_CLOCK_H
#define VTARE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* The binary interface that this header describes. Raised when a program linked with an older library could not run
 * with a newer. */
#define VTARE_CLOCK_ABI_VERSION 1

#if defined(__cplusplus) && __cplusplus >= 201103L
#define VTARE_NOEXCEPT noexcept
#else
#define VTARE_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#ifdef __GNUC__
/* vtare_clock_info is a structure and a function, as stat is in POSIX. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#endif

/* ---- the clock ---- */

/* CLOCK_MONOTONIC in nanoseconds, at the price of a bare counter reading.
 * Unordered: the CPU may move the reading among the instructions around it, by some ten nanoseconds either way. For
 * timestamps. */
uint64_t vtare_now_ns(void) VTARE_NOEXCEPT;

/* CLOCK_MONOTONIC in nanoseconds, read after all earlier instructions and loads have completed. Of two such readings
 * the one that happened later is never the smaller, whichever threads took them. */
uint64_t vtare_now_ordered_ns(void) VTARE_NOEXCEPT;

/* vtare_now_ns, and in *generation (may be NULL) what the reading belongs to: it grows before the first reading after a
 * disruption of 1 ms and more returns: a suspend, a step or change of rate of the counter, a stop, move or restore of
 * the guest that a VMClock shows. Two readings of one generation are as far apart as they show. 0: another thread is
 * starting the clock. What cannot be seen from inside a machine is in vtare's docs/methods/clock-contract.md. */
uint64_t vtare_now_checked(uint64_t *generation) VTARE_NOEXCEPT;

/* What an interval of UTC is worth. */
enum vtare_utc_status {
    VTARE_UTC_SYNCHRONIZED = 0, /* as a VMClock or a PTP clock states it, or the NTP daemon */
    VTARE_UTC_FREE_RUNNING = 1, /* the daemon is gone or the clock was stepped by hand: it grows with the drift */
    VTARE_UTC_DISRUPTED = 2,    /* disrupted, not bounded again: no interval, 0 to UINT64_MAX */
    VTARE_UTC_UNKNOWN = 3       /* nothing bounds UTC; or a guest whose stops stay unseen (no VMClock) */
};

struct vtare_utc_interval {
    uint32_t size;        /* in: sizeof(struct vtare_utc_interval); out: bytes filled in */
    uint32_t status;      /* enum vtare_utc_status */
    uint64_t earliest_ns; /* UTC, ns since 1970: no earlier, */
    uint64_t latest_ns;   /* and no later */
    uint64_t generation;  /* as of vtare_now_checked */
};

/* UTC now, as an interval. Where `vtare clock` keeps a page (/run/vtare/utc, or VTARE_UTC_PAGE; looked for at the first
 * call), it comes from there without a system call, and turns VTARE_UTC_DISRUPTED within a heartbeat (100 ms) and a
 * round trip of any stop, step, restore or move, and within two heartbeats of a change of rate, where that is longer
 * than the round trips; a shorter one stays within the interval. Otherwise it asks the kernel (adjtimex) at most ten
 * times a second. EINVAL: NULL, or size too small. */
int vtare_now_utc_interval(struct vtare_utc_interval *interval);

/* UTC as witnesses confirm it: it was in the interval at an instant between the call and the return. */
struct vtare_utc_confirmed {
    uint32_t size;          /* in: sizeof(struct vtare_utc_confirmed); out: bytes filled in */
    uint32_t hosts;         /* hosts whose statements count */
    uint64_t earliest_ns;   /* ns since 1970: no later than UTC at the return, whatever happened */
    uint64_t latest_ns;     /* no earlier than UTC at the call, whatever happened; nor than UTC at the return, unless
                               this machine was stopped during the call */
    uint64_t generation;    /* as of vtare_now_checked, at the return */
    uint64_t round_trip_ns; /* how long the call took */
    uint32_t liars;         /* hosts that may be wrong: 1 of 3; with 2 hosts one can widen the interval without limit,
                               with 1 host none may be wrong */
    uint32_t same_host;     /* witnesses that do not count: on a host with another one, or on this machine */
    uint32_t stoppable;     /* hosts that can be stopped without seeing it (guests without a VMClock) */
    uint32_t reserved;      /* 0 */
};

/* Names the witnesses, hosts that run `vtare serve`: "HOST:PORT,HOST:PORT,HOST:PORT"; NULL: VTARE_WITNESSES. Their key
 * is in key_file; NULL: VTARE_KEY. Without this call both come from the environment. Takes memory and looks names up.
 * EINVAL: no witness, no address, no key. */
int vtare_clock_witness(const char *witnesses, const char *key_file);

/* Asks the witnesses: one round trip to enough of them, for a second at most, and right whatever happened to this
 * machine before. Takes memory and a socket. EINVAL: NULL, size too small, or no witnesses; ETIMEDOUT: too few hosts
 * stated UTC; EAGAIN: their statements contradict each other. */
int vtare_now_utc_confirmed(struct vtare_utc_confirmed *confirmed);

/* Which clock to read. */
enum vtare_source {
    VTARE_SOURCE_AUTO = 0, /* the counter where it can be trusted, else the kernel's clock */
    VTARE_SOURCE_OS = 1    /* the kernel's clock */
};

struct vtare_clock_options {
    uint32_t size;     /* in: sizeof(struct vtare_clock_options) */
    uint32_t source;   /* enum vtare_source */
    uint32_t
        thorough; /* not 0: calibrate against the kernel and test the CPUs' counters against each other; tens of ms */
    uint32_t reserved; /* 0 */
};

/* Starts the clock now. NULL: with the usual options, and no error where it runs already.
 * EALREADY: the clock runs already, so the options cannot be met; EINVAL: unknown source, or size too small. */
int vtare_clock_start(const struct vtare_clock_options *options);

/* How readings are made. */
enum vtare_path {
    VTARE_PATH_KERNEL_PAGE = 0, /* counter and the kernel's own time page: identical to the kernel's clock */
    VTARE_PATH_LINE = 1,        /* counter and a calibrated line that follows the kernel's clock */
    VTARE_PATH_VDSO = 2         /* the kernel's clock itself */
};

/* What the clock reports of itself. A figure that is not known or has no meaning on this path is NaN, never 0. */
struct vtare_clock_info {
    uint32_t size;                        /* in: sizeof(struct vtare_clock_info); out: bytes filled in */
    uint32_t abi_version;                 /* as vtare_clock_abi_version() */
    uint32_t path;                        /* enum vtare_path */
    uint32_t trusted;                     /* 1: readings come from the counter; 0: from the kernel, see `reason` */
    double error_bound_ns;                /* greatest difference of an ordered reading from CLOCK_MONOTONIC, now */
    double read_cost_ns;                  /* of one vtare_now_ns inside the library, measured at start */
    double quantum_ns;                    /* spacing of the values that the counter shows */
    double frequency_hz;                  /* of the counter */
    double rate_error_ppm; /* bound on that, against CLOCK_MONOTONIC_RAW; 0: the kernel's own multiplier */
    double calibration_ns;                /* how long calibration took */
    double anchor_age_ns;                 /* time since the last comparison with the kernel's clock (path LINE) */
    double anchor_error_ns;               /* what that found: kernel's clock minus this clock (path LINE) */
    double anchor_half_width_ns;          /* half of the range that it leaves (path LINE) */
    double cross_core_low_ns;             /* least offset between the counters of two CPUs (thorough start) */
    double cross_core_high_ns;            /* greatest */
    uint32_t kernel_mult;                 /* the kernel's own conversion, ns = (ticks * mult) >> shift; 0: not found */
    uint32_t kernel_shift;
    uint64_t events_suspended;            /* the machine was suspended */
    uint64_t events_migrated;             /* the hypervisor moved or restored the guest (VMClock) */
    uint64_t events_clock_source_changed; /* the kernel turned to another clock source */
    uint64_t events_seated;               /* nobody read for long; the line was begun anew at the kernel's time */
    uint64_t events_rate_broken;          /* counter and kernel went apart faster than any steering */
    uint64_t events_given_up;             /* the counter was given up; readings come from the kernel since */
    char source[16];                      /* "tsc", "cntvct" or "os" */
    char reason[240]; /* the decisive reason for that, cut to fit; all of them: vtare_clock_info_json */
    /* Here the structure of the first release ends. */
    uint64_t
        events_rate_contradicted; /* CLOCK_MONOTONIC_RAW contradicted the calibrated rate: rate_error_ppm has grown */
};

/* Fills in `info`; may take memory. EINVAL: NULL, or size too small. */
int vtare_clock_info(struct vtare_clock_info *info);

/* The same in full, with all reasons, as one JSON object: writes at most size bytes with the closing NUL and answers
 * the length of the whole without it, as snprintf does; -1 on error. */
int64_t vtare_clock_info_json(char *buffer, size_t size);

/* The library's binary interface: compare with VTARE_CLOCK_ABI_VERSION where the library is loaded by hand. */
uint32_t vtare_clock_abi_version(void) VTARE_NOEXCEPT;

/* The version of vtare, such as "0.1.0". */
const char *vtare_clock_version(void) VTARE_NOEXCEPT;

/* ---- the bare counter: for timing short pieces of code ----
 * Ticks of the CPU's counter; of the kernel's clock (1 ns) where user code may not read the counter. Only differences
 * mean something: vtare_ticks_to_ns(stop - start). */

uint64_t vtare_tick(void) VTARE_NOEXCEPT;       /* unordered */
uint64_t vtare_tick_start(void) VTARE_NOEXCEPT; /* earlier work is done, the timed work has not begun */
uint64_t vtare_tick_stop(void) VTARE_NOEXCEPT;  /* the timed work is done, later work has not begun */

/* A difference of ticks in ns, rounded down; INT64_MIN with errno ENOTSUP where the counter could not be calibrated. */
int64_t vtare_ticks_to_ns(int64_t ticks) VTARE_NOEXCEPT;

/* ---- sleeps ----
 * A sleep never ends before its deadline, except through a signal: where a handler runs during the kernel's part of a
 * sleep, the call answers -1 with EINTR whether or not the handler was installed with SA_RESTART, as nanosleep does.
 * What was left is -miss_ns of vtare_last_sleep; to sleep on without drift, call vtare_sleep_until_ns with its
 * deadline_ns. A handler that runs during the spin does not end the sleep. Sleeps are cancellation points
 * (pthread_cancel) in the kernel's part. */

/* Sleeps for span_ns from now. 0 returns at once. Spans that end beyond the clock's range (584 years) end there. EINTR,
 * ENOMEM. */
int vtare_sleep_ns(uint64_t span_ns);

/* Sleeps until the clock shows deadline_ns. A deadline that has passed returns 0 at once. EINTR, ENOMEM. */
int vtare_sleep_until_ns(uint64_t deadline_ns);

/* How to sleep. */
enum vtare_sleep_policy {
    VTARE_SLEEP_ADAPTIVE = 0, /* the kernel until a margin learned from its lateness, then spinning; the default */
    VTARE_SLEEP_CLOCK_NANOSLEEP = 1,  /* the kernel to the end ("os") */
    VTARE_SLEEP_TWO_PHASE = 2,        /* spins the last timer tick, 1/HZ (HPTSleep) */
    VTARE_SLEEP_TWO_PHASE_CAPPED = 3, /* the same, 1 ms at most */
    VTARE_SLEEP_SPIN = 4,             /* spins all the way */
    VTARE_SLEEP_USLEEP = 5,           /* the C library's usleep, whole microseconds */
    VTARE_SLEEP_CHEAP = 6,            /* as adaptive, for at most cpu_share_ppm of a CPU; the deadline may be missed */
    VTARE_SLEEP_NEVER_EARLY = 7       /* as adaptive, until the kernel's own CLOCK_MONOTONIC shows the deadline, too */
};

/* Sets how this thread sleeps from now on; what its sleeper has learned is dropped. EINVAL: no such policy. */
int vtare_set_sleep_policy(int policy);

/* The same by name: adaptive, clock_nanosleep (or os), two_phase, two_phase_capped, spin, usleep, cheap, never_early.
 * EINVAL: no such name. */
int vtare_set_sleep_policy_name(const char *name);

/* How this thread sleeps. */
int vtare_get_sleep_policy(void);

/* The name of a policy; NULL where there is no such policy. */
const char *vtare_sleep_policy_name(int policy) VTARE_NOEXCEPT;

/* How this thread sleeps in detail. Get, change what is to be changed, set. */
struct vtare_sleep_options {
    uint32_t size;          /* in: sizeof(struct vtare_sleep_options); out: bytes filled in */
    uint32_t fifo_priority; /* any policy: SCHED_FIFO, 1 to 99, from the next sleep on and for the thread's work too; 0
                               (default): as is */
    uint64_t cpu_price_ns;  /* adaptive: spins 1 us more where that raises the share of sleeps on time by 1 us / price;
                               2000000 */
    uint64_t tolerance_ns;  /* adaptive: a miss up to this is as good as none; 0 */
    uint64_t slack_ns; /* adaptive: timer slack in the kernel, put back at wake-up; 1, the least; 0: the thread's own */
    uint64_t
        slice_ns; /* adaptive: time slice asked of the scheduler, 100000 to 100000000; 100000; 0: the thread's own */
    uint32_t
        slice_refused; /* out: 1 where the system refused the slice; known after the first sleep with these options */
    uint32_t fifo_refused;  /* out: 1 where it refused the priority: RLIMIT_RTPRIO or CAP_SYS_NICE is missing */
    uint32_t cpu_share_ppm; /* cheap: the share of a CPU that sleeping may take, in millionths, 1 to 1000000; 10000 */
    uint32_t reserved;      /* 0 */
};

/* This thread's options. EINVAL: NULL, or size too small. */
int vtare_get_sleep_options(struct vtare_sleep_options *options);

/* Sets them; what the sleeper has learned is dropped. EINVAL: NULL, size too small, or a value out of range, and
 * nothing is changed. */
int vtare_set_sleep_options(const struct vtare_sleep_options *options);

/* How a sleep ended. */
struct vtare_sleep_result {
    uint32_t size;        /* in: sizeof(struct vtare_sleep_result); out: bytes filled in */
    uint32_t disturbed;   /* 1: the CPU was taken away while spinning, or the guard against a crowded machine held
                             spinning back */
    uint32_t interrupted; /* 1: a signal handler ended it */
    uint32_t policy;      /* enum vtare_sleep_policy */
    uint64_t deadline_ns; /* the time at which it was to end */
    int64_t miss_ns;      /* actual minus planned end; negative where it was interrupted */
    int64_t spin_ns;      /* time spent spinning */
};

/* How this thread's last sleep ended. ENODATA: it has not slept yet; EINVAL: NULL, or size too small. */
int vtare_last_sleep(struct vtare_sleep_result *result);

/* ---- deadlines at a fixed distance, without drift ----
 * One thread uses a ticker at a time. The fields are to be read, not written. */
struct vtare_ticker {
    uint32_t size;
    uint32_t reserved;
    uint64_t period_ns; /* between two deadlines */
    uint64_t next_ns;   /* the next deadline */
    uint64_t ticks;     /* deadlines passed so far, waited for or missed */
    uint64_t missed;    /* of these, how many passed before anybody waited for them */
};

/* Begins a ticker; its first deadline lies one period ahead. EINVAL: NULL, or a period of 0. */
int vtare_ticker_init(struct vtare_ticker *ticker, uint64_t period_ns);

/* Sleeps until the next deadline. Where the caller comes late, it returns at once, counts what was missed, and keeps to
 * the grid. EINTR: call it again, nothing is lost. EINVAL: NULL, or never begun. */
int vtare_ticker_wait(struct vtare_ticker *ticker);

/* ---- errors ---- */

/* What went wrong in this thread's last call that failed, as a sentence; "" where none has. Valid until this thread's
 * next call that fails, and until it ends. */
const char *vtare_error_message(void);

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
}
#endif

#endif
