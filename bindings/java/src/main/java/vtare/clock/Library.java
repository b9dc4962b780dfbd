package vtare.clock;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.Structure.FieldOrder;
import com.sun.jna.ptr.LongByReference;
import java.nio.charset.StandardCharsets;

/** The functions of vtare_clock.h, mapped directly: JNA's cheapest way, some hundred nanoseconds a call. */
final class Library {
    /** {@code VTARE_CLOCK_ABI_VERSION} of the header that this was written from. */
    static final int ABI_VERSION = 1;

    static final int EINTR = 4;

    private Library() {}

    static {
        // A path set on the command line, or in the environment, else what the dynamic linker and jna.library.path
        // know.
        String path = System.getProperty("vtare.clock.library", System.getenv("VTARE_CLOCK_LIBRARY"));
        String name = path == null || path.isEmpty() ? "vtare_clock" : path;
        try {
            Native.register(Library.class, NativeLibrary.getInstance(name));
        } catch (UnsatisfiedLinkError error) {
            throw new UnsatisfiedLinkError(
                    "cannot load libvtare_clock (" + name + "): " + error.getMessage()
                            + ". Run `make install` and name its directory to the dynamic linker, or set"
                            + " -Dvtare.clock.library=FILE or VTARE_CLOCK_LIBRARY to libvtare_clock.so");
        }
        int found = vtare_clock_abi_version();
        if (found != ABI_VERSION) {
            throw new UnsatisfiedLinkError(
                    name + " has binary interface " + found + ", not " + ABI_VERSION
                            + ": use library and binding of one version of vtare");
        }
    }

    static native int vtare_clock_abi_version();

    static native String vtare_clock_version();

    static native long vtare_now_ns();

    static native long vtare_now_ordered_ns();

    static native long vtare_now_checked(LongByReference generation);

    static native int vtare_now_utc_interval(Utc utc);

    static native int vtare_clock_witness(String witnesses, String keyFile);

    static native int vtare_now_utc_confirmed(Confirmed confirmed);

    static native long vtare_tick();

    static native long vtare_tick_start();

    static native long vtare_tick_stop();

    static native long vtare_ticks_to_ns(long ticks);

    static native int vtare_sleep_until_ns(long deadlineNs);

    static native int vtare_set_sleep_policy_name(String name);

    static native int vtare_get_sleep_policy();

    static native String vtare_sleep_policy_name(int policy);

    static native int vtare_get_sleep_options(Options options);

    static native int vtare_set_sleep_options(Options options);

    static native int vtare_clock_info(Info info);

    static native int vtare_last_sleep(Result result);

    static native int vtare_ticker_init(Beat beat, long periodNs);

    static native int vtare_ticker_wait(Beat beat);

    static native Pointer vtare_error_message();

    /** The failure of the call just made on this thread. */
    static ClockException failure() {
        int errno = Native.getLastError();
        return new ClockException(errno, vtare_error_message().getString(0, "UTF-8"));
    }

    static String text(byte[] field) {
        int end = 0;
        while (end < field.length && field[end] != 0) {
            end++;
        }
        return new String(field, 0, end, StandardCharsets.UTF_8);
    }

    /** {@code struct vtare_clock_info}. */
    @FieldOrder({"size",
                 "abi_version",
                 "path",
                 "trusted",
                 "error_bound_ns",
                 "read_cost_ns",
                 "quantum_ns",
                 "frequency_hz",
                 "rate_error_ppm",
                 "calibration_ns",
                 "anchor_age_ns",
                 "anchor_error_ns",
                 "anchor_half_width_ns",
                 "cross_core_low_ns",
                 "cross_core_high_ns",
                 "kernel_mult",
                 "kernel_shift",
                 "events_suspended",
                 "events_migrated",
                 "events_clock_source_changed",
                 "events_seated",
                 "events_rate_broken",
                 "events_given_up",
                 "source",
                 "reason",
                 "events_rate_contradicted"})
    public static final class Info extends Structure {
        public int size;
        public int abi_version;
        public int path;
        public int trusted;
        public double error_bound_ns;
        public double read_cost_ns;
        public double quantum_ns;
        public double frequency_hz;
        public double rate_error_ppm;
        public double calibration_ns;
        public double anchor_age_ns;
        public double anchor_error_ns;
        public double anchor_half_width_ns;
        public double cross_core_low_ns;
        public double cross_core_high_ns;
        public int kernel_mult;
        public int kernel_shift;
        public long events_suspended;
        public long events_migrated;
        public long events_clock_source_changed;
        public long events_seated;
        public long events_rate_broken;
        public long events_given_up;
        public byte[] source = new byte[16];
        public byte[] reason = new byte[240];
        public long events_rate_contradicted;
    }

    /** {@code struct vtare_utc_interval}. */
    @FieldOrder({"size", "status", "earliest_ns", "latest_ns", "generation"})
    public static final class Utc extends Structure {
        public int size;
        public int status;
        public long earliest_ns;
        public long latest_ns;
        public long generation;
    }

    /** {@code struct vtare_utc_confirmed}. */
    @FieldOrder({
        "size", "hosts", "earliest_ns", "latest_ns", "generation", "round_trip_ns", "liars", "same_host", "stoppable",
        "reserved"
    })
    public static final class Confirmed extends Structure {
        public int size;
        public int hosts;
        public long earliest_ns;
        public long latest_ns;
        public long generation;
        public long round_trip_ns;
        public int liars;
        public int same_host;
        public int stoppable;
        public int reserved;
    }

    /** {@code struct vtare_sleep_options}. */
    @FieldOrder({
        "size", "fifo_priority", "cpu_price_ns", "tolerance_ns", "slack_ns", "slice_ns", "slice_refused",
        "fifo_refused", "cpu_share_ppm", "reserved"
    })
    public static final class Options extends Structure {
        public int size;
        public int fifo_priority;
        public long cpu_price_ns;
        public long tolerance_ns;
        public long slack_ns;
        public long slice_ns;
        public int slice_refused;
        public int fifo_refused;
        public int cpu_share_ppm;
        public int reserved;
    }

    /** {@code struct vtare_sleep_result}. */
    @FieldOrder({"size", "disturbed", "interrupted", "policy", "deadline_ns", "miss_ns", "spin_ns"})
    public static final class Result extends Structure {
        public int size;
        public int disturbed;
        public int interrupted;
        public int policy;
        public long deadline_ns;
        public long miss_ns;
        public long spin_ns;
    }

    /** {@code struct vtare_ticker}. */
    @FieldOrder({"size", "reserved", "period_ns", "next_ns", "ticks", "missed"})
    public static final class Beat extends Structure {
        public int size;
        public int reserved;
        public long period_ns;
        public long next_ns;
        public long ticks;
        public long missed;
    }
}
