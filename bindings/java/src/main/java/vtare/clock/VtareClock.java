package vtare.clock;

import com.sun.jna.ptr.LongByReference;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * vtare's clock and sleeps: whole nanoseconds on CLOCK_MONOTONIC, the clock that {@link System#nanoTime} reads on
 * Linux.
 *
 * <p>A reading costs a call through JNA, some hundred nanoseconds: more than {@code System.nanoTime}, which the virtual
 * machine compiles to a few instructions. Use this class for its sleeps and for what it reports of the clock; to make
 * {@code System.nanoTime} itself cheaper, start the virtual machine under {@code vtare exec}.
 */
public final class VtareClock {
    private VtareClock() {}

    /** CLOCK_MONOTONIC in ns. The CPU may move the reading among the instructions around it. */
    public static long nowNs() {
        return Library.vtare_now_ns();
    }

    /** CLOCK_MONOTONIC in ns; a reading that happened later, in whichever thread, is never the smaller. */
    public static long nowOrderedNs() {
        return Library.vtare_now_ordered_ns();
    }

    /** The bare counter, in its own ticks, before timed work. */
    public static long tickStart() {
        return Library.vtare_tick_start();
    }

    /** The bare counter after timed work. */
    public static long tickStop() {
        return Library.vtare_tick_stop();
    }

    /**
     * A difference of ticks in ns, rounded down.
     *
     * @throws ClockException where the counter could not be calibrated
     */
    public static long ticksToNs(long ticks) {
        long nanoseconds = Library.vtare_ticks_to_ns(ticks);
        if (nanoseconds == Long.MIN_VALUE) {
            throw Library.failure();
        }
        return nanoseconds;
    }

    /**
     * Sleeps for {@code spanNs} from now, never less. Does not react to {@link Thread#interrupt}.
     *
     * @throws IllegalArgumentException where the span is negative
     * @throws ClockException where the kernel or the heap refuses
     */
    public static void sleepNs(long spanNs) {
        if (spanNs < 0) {
            throw new IllegalArgumentException("the span is " + spanNs + " ns: use 0 or more");
        }
        long now = nowNs();
        sleepUntilNs(spanNs > Long.MAX_VALUE - now ? Long.MAX_VALUE : now + spanNs);
    }

    /**
     * Sleeps until {@link #nowNs} shows {@code deadlineNs}; returns at once where that has passed.
     *
     * @throws IllegalArgumentException where the deadline is negative
     * @throws ClockException where the kernel or the heap refuses
     */
    public static void sleepUntilNs(long deadlineNs) {
        if (deadlineNs < 0) {
            throw new IllegalArgumentException("the deadline is " + deadlineNs + " ns: use 0 or more");
        }
        // The virtual machine uses signals of its own; they do not end a sleep.
        while (Library.vtare_sleep_until_ns(deadlineNs) != 0) {
            ClockException failure = Library.failure();
            if (failure.errno() != Library.EINTR) {
                throw failure;
            }
        }
    }

    /**
     * How this thread sleeps from now on: adaptive, clock_nanosleep (or os), two_phase, two_phase_capped, spin, usleep,
     * cheap, never_early.
     *
     * @throws ClockException where there is no such policy, with the choices
     */
    public static void setSleepPolicy(String name) {
        if (Library.vtare_set_sleep_policy_name(name) != 0) {
            throw Library.failure();
        }
    }

    /** How this thread sleeps. */
    public static String sleepPolicy() {
        return Library.vtare_sleep_policy_name(Library.vtare_get_sleep_policy());
    }

    /**
     * A reading and its generation.
     *
     * @param atNs as {@link #nowNs}
     * @param generation grows before the first reading after a disruption of 1 ms and more returns; 0 while another
     *     thread starts the clock
     */
    public record Checked(long atNs, long generation) {}

    /** The clock now, and the generation of the reading: between two of one generation no disruption was seen. */
    public static Checked nowChecked() {
        LongByReference generation = new LongByReference();
        long at = Library.vtare_now_checked(generation);
        return new Checked(at, generation.getValue());
    }

    /** What an interval of UTC is worth: see vtare_clock.h. */
    public enum UtcStatus {
        /** As a VMClock or a PTP clock states it, or as the kernel is given it by its NTP daemon. */
        SYNCHRONIZED,
        /** The daemon is gone or the clock was stepped by hand: the interval grows with the drift. */
        FREE_RUNNING,
        /** Disrupted, and not bounded again: no interval. */
        DISRUPTED,
        /** Nothing bounds UTC, or this guest can be stopped without seeing it: not vouched for. */
        UNKNOWN
    }

    /**
     * UTC as an interval.
     *
     * @param earliestNs UTC is no earlier, in ns since 1970
     * @param latestNs and no later; unsigned: -1 where there is no interval
     * @param status what that is worth
     * @param generation as of {@link Checked}
     */
    public record UtcInterval(long earliestNs, long latestNs, UtcStatus status, long generation) {}

    /** UTC now. */
    public static UtcInterval nowUtcInterval() {
        Library.Utc found = new Library.Utc();
        found.size = found.size();
        if (Library.vtare_now_utc_interval(found) != 0) {
            throw Library.failure();
        }
        return new UtcInterval(
                found.earliest_ns, found.latest_ns, UtcStatus.values()[found.status], found.generation);
    }

    /**
     * UTC as witnesses confirm it: it was in the interval at an instant between the call and the return.
     *
     * @param earliestNs UTC at the return is no earlier, in ns since 1970
     * @param latestNs UTC at the call is no later
     * @param roundTripNs how long the call took
     * @param generation as {@link Checked#generation}, at the return
     * @param hosts witnesses that count
     * @param liars how many of them may be wrong
     * @param sameHost witnesses that do not count, since another on their host does, or they are on this machine
     * @param stoppable hosts that can be stopped without seeing it
     */
    public record UtcConfirmed(
            long earliestNs,
            long latestNs,
            long roundTripNs,
            long generation,
            int hosts,
            int liars,
            int sameHost,
            int stoppable) {}

    /**
     * Names the witnesses of this process; without it they are those of {@code VTARE_WITNESSES}.
     *
     * @param witnesses hosts that run {@code vtare serve}, as {@code HOST:PORT,...}; null: the variable
     * @param keyFile the file of their key; null: the variable {@code VTARE_KEY}
     * @throws ClockException where they cannot be asked
     */
    public static void witness(String witnesses, String keyFile) {
        if (Library.vtare_clock_witness(witnesses, keyFile) != 0) {
            throw Library.failure();
        }
    }

    /**
     * UTC as the witnesses confirm it, in one round trip: right at once, whatever happened to this machine before.
     *
     * @throws ClockException where they do not confirm it
     */
    public static UtcConfirmed nowUtcConfirmed() {
        Library.Confirmed found = new Library.Confirmed();
        found.size = found.size();
        if (Library.vtare_now_utc_confirmed(found) != 0) {
            throw Library.failure();
        }
        return new UtcConfirmed(
                found.earliest_ns,
                found.latest_ns,
                found.round_trip_ns,
                found.generation,
                found.hosts,
                found.liars,
                found.same_host,
                found.stoppable);
    }

    /**
     * How a thread sleeps in detail; 0 for slack, slice or priority leaves the thread's own. See vtare_clock.h.
     *
     * @param cpuPriceNs adaptive: spins 1 us more where that raises the share of sleeps on time by 1 us / price
     * @param toleranceNs adaptive: a miss up to this is as good as none
     * @param slackNs adaptive: timer slack in the kernel
     * @param sliceNs adaptive: time slice asked of the scheduler
     * @param fifoPriority any policy: SCHED_FIFO, 1 to 99
     * @param cpuSharePpm cheap: the share of a CPU that sleeping may take, in millionths
     */
    public record SleepOptions(
            long cpuPriceNs, long toleranceNs, long slackNs, long sliceNs, int fifoPriority, int cpuSharePpm) {
        /** With the usual share of a CPU for the cheap policy, 1 %. */
        public SleepOptions(long cpuPriceNs, long toleranceNs, long slackNs, long sliceNs, int fifoPriority) {
            this(cpuPriceNs, toleranceNs, slackNs, sliceNs, fifoPriority, 10_000);
        }
    }

    /** This thread's options for its sleeps. */
    public static SleepOptions sleepOptions() {
        Library.Options found = options();
        return new SleepOptions(
                found.cpu_price_ns,
                found.tolerance_ns,
                found.slack_ns,
                found.slice_ns,
                found.fifo_priority,
                found.cpu_share_ppm);
    }

    /**
     * Sets them; what the thread's sleeper has learned is dropped.
     *
     * @throws ClockException where a value is out of range; nothing is changed
     */
    public static void setSleepOptions(SleepOptions wanted) {
        Library.Options options = options();
        options.cpu_price_ns = wanted.cpuPriceNs();
        options.tolerance_ns = wanted.toleranceNs();
        options.slack_ns = wanted.slackNs();
        options.slice_ns = wanted.sliceNs();
        options.fifo_priority = wanted.fifoPriority();
        options.cpu_share_ppm = wanted.cpuSharePpm();
        if (Library.vtare_set_sleep_options(options) != 0) {
            throw Library.failure();
        }
    }

    private static Library.Options options() {
        Library.Options options = new Library.Options();
        options.size = options.size();
        if (Library.vtare_get_sleep_options(options) != 0) {
            throw Library.failure();
        }
        return options;
    }

    /**
     * How a sleep ended.
     *
     * @param deadlineNs the time at which it was to end
     * @param missNs actual minus planned end; negative where a signal ended it early
     * @param spinNs time spent spinning
     * @param disturbed the CPU was taken away while spinning, or the guard held spinning back
     * @param interrupted a signal handler ended it
     * @param policy how it slept
     */
    public record SleepResult(
            long deadlineNs, long missNs, long spinNs, boolean disturbed, boolean interrupted, String policy) {}

    /**
     * How this thread's last sleep ended.
     *
     * @throws ClockException where it has not slept through vtare yet
     */
    public static SleepResult lastSleep() {
        Library.Result result = new Library.Result();
        result.size = result.size();
        if (Library.vtare_last_sleep(result) != 0) {
            throw Library.failure();
        }
        return new SleepResult(
                result.deadline_ns,
                result.miss_ns,
                result.spin_ns,
                result.disturbed != 0,
                result.interrupted != 0,
                Library.vtare_sleep_policy_name(result.policy));
    }

    /** How readings are made: see vtare_clock.h. */
    public enum Path {
        /** Counter and the kernel's own time page: identical to the kernel's clock. */
        KERNEL_PAGE,
        /** Counter and a calibrated line that follows the kernel's clock. */
        LINE,
        /** The kernel's clock itself. */
        VDSO
    }

    /**
     * Where the clock's time comes from and how far it can be off. A figure that is not known is NaN.
     *
     * @param source {@code tsc}, {@code cntvct} or {@code os}
     * @param path how readings are made
     * @param trusted whether readings come from the counter
     * @param reason the decisive reason for that
     * @param errorBoundNs the greatest difference of an ordered reading from CLOCK_MONOTONIC at this moment
     * @param readCostNs the cost of one reading inside the library, without the call from Java
     * @param quantumNs the smallest step of the counter
     * @param frequencyHz the counter's frequency
     * @param rateErrorPpm the bound on its error against CLOCK_MONOTONIC_RAW
     * @param events how often each thing happened since the start, such as {@code rate_contradicted}; only those that
     *     did
     * @param libraryVersion the version of vtare that the library is from
     */
    public record Info(
            String source,
            Path path,
            boolean trusted,
            String reason,
            double errorBoundNs,
            double readCostNs,
            double quantumNs,
            double frequencyHz,
            double rateErrorPpm,
            Map<String, Long> events,
            String libraryVersion) {}

    /** Where the clock's time comes from, how far it can be off, and why. */
    public static Info info() {
        Library.Info info = new Library.Info();
        info.size = info.size();
        if (Library.vtare_clock_info(info) != 0) {
            throw Library.failure();
        }
        return new Info(
                Library.text(info.source),
                Path.values()[info.path],
                info.trusted != 0,
                Library.text(info.reason),
                info.error_bound_ns,
                info.read_cost_ns,
                info.quantum_ns,
                info.frequency_hz,
                info.rate_error_ppm,
                events(info),
                Library.vtare_clock_version());
    }

    private static Map<String, Long> events(Library.Info info) {
        Map<String, Long> events = new LinkedHashMap<>();
        events.put("suspended", info.events_suspended);
        events.put("migrated", info.events_migrated);
        events.put("clock_source_changed", info.events_clock_source_changed);
        events.put("seated", info.events_seated);
        events.put("rate_broken", info.events_rate_broken);
        events.put("given_up", info.events_given_up);
        events.put("rate_contradicted", info.events_rate_contradicted);
        events.values().removeIf(count -> count == 0);
        return Collections.unmodifiableMap(events);
    }

    /** Deadlines at a fixed distance, without drift; for one thread at a time. */
    public static final class Ticker {
        private final Library.Beat beat = new Library.Beat();

        /**
         * Begins; the first deadline lies one period ahead.
         *
         * @throws ClockException where the period is 0
         */
        public Ticker(long periodNs) {
            if (Library.vtare_ticker_init(beat, periodNs) != 0) {
                throw Library.failure();
            }
        }

        /** Sleeps until the next deadline; answers how many passed unseen since the last wait. */
        public long await() {
            long before = beat.missed;
            while (Library.vtare_ticker_wait(beat) != 0) {
                ClockException failure = Library.failure();
                if (failure.errno() != Library.EINTR) {
                    throw failure;
                }
            }
            return beat.missed - before;
        }

        /** The next deadline. */
        public long nextNs() {
            return beat.next_ns;
        }

        /** Deadlines passed so far, waited for or missed. */
        public long ticks() {
            return beat.ticks;
        }

        /** How many of these passed before anybody waited for them. */
        public long missed() {
            return beat.missed;
        }
    }
}
