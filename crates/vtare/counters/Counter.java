import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.StringTokenizer;

/**
 * The counter function in Java: a program that {@code vtare counter --language java} builds, starts and speaks with.
 *
 * <p>It counts: steps of Marsaglia's xorshift64 (13, 7, 17) from state 1, the same as the programs in the other
 * languages. It reads the clock ({@link System#nanoTime}, which is CLOCK_MONOTONIC on Linux) after each chunk of
 * steps and prints what each chunk took; everything else (order, figures, files) is vtare's business. README.md has the
 * words that the two exchange.
 *
 * <p>vtare starts it with {@code -Xbatch}, so that what is compiled during the warm-up is compiled when the warm-up is
 * over, and with the serial collector, which runs only where memory is asked for: between calls, never in one.
 */
public final class Counter {
    /** Of CPU time: the function and the loop around it are compiled by the optimising compiler long before. */
    private static final long WARM_UP_NS = 500_000_000L;

    /** Least length of one timing while the speed is sought. */
    private static final long ROUND_NS = 200_000L;

    /** Timings; the fastest tenth counts as undisturbed. */
    private static final int ROUNDS = 600;

    /** Chunks of a call while the loop around the function warms up. */
    private static final int WARM_UP_CHUNKS = 100;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private static long sink;

    private final RandomAccessFile status = new RandomAccessFile("/proc/thread-self/status", "r");
    private final byte[] page = new byte[4096];
    private final PrintStream out = new PrintStream(System.out, false, "US-ASCII");

    private Counter() throws IOException {}

    static long count(long state, int steps) {
        for (int step = 0; step < steps; step++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        return state;
    }

    private static long timeOf(int steps) {
        long from = System.nanoTime();
        sink = count(sink | 1, steps);
        return System.nanoTime() - from;
    }

    /** The machine speed index: steps in a millisecond of the undisturbed machine. */
    private static double stepsPerMs() {
        int steps = 1000;
        long from = THREADS.getCurrentThreadCpuTime();
        while (THREADS.getCurrentThreadCpuTime() - from < WARM_UP_NS / 2) {
            timeOf(steps);
        }
        while (timeOf(steps) < ROUND_NS && steps < Integer.MAX_VALUE / 2) {
            steps *= 2;
        }
        long[] spans = new long[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            spans[round] = timeOf(steps);
        }
        Arrays.sort(spans);
        return steps * 1e6 / spans[ROUNDS / 10];
    }

    /** How often the kernel took the CPU from this thread, as it counts itself: Java has no call for it. */
    private long involuntarySwitches() throws IOException {
        status.seek(0);
        int length = status.read(page);
        String text = new String(page, 0, Math.max(0, length), StandardCharsets.ISO_8859_1);
        int at = text.indexOf("nonvoluntary_ctxt_switches:");
        if (at < 0) {
            throw new IOException("/proc/thread-self/status has no line nonvoluntary_ctxt_switches");
        }
        int end = text.indexOf('\n', at);
        return Long.parseLong(text.substring(text.indexOf(':', at) + 1, end < 0 ? text.length() : end).trim());
    }

    /** The timed part of a call: nothing is allocated in it. Returns the last state. */
    private static long run(int chunkSteps, int chunks, long[] marks) {
        long state = 1;
        marks[0] = System.nanoTime();
        for (int chunk = 1; chunk <= chunks; chunk++) {
            state = count(state, chunkSteps);
            marks[chunk] = System.nanoTime();
        }
        return state;
    }

    /** One call, and a line with the time that it took. */
    private void call(int chunkSteps, int chunks, long[] marks) throws IOException {
        long switches = involuntarySwitches();
        long cpu = THREADS.getCurrentThreadCpuTime();
        long state = run(chunkSteps, chunks, marks);
        cpu = THREADS.getCurrentThreadCpuTime() - cpu;
        switches = involuntarySwitches() - switches;
        StringBuilder line = new StringBuilder(64 + 8 * chunks);
        line.append(Long.toUnsignedString(state)).append(' ').append(cpu).append(' ').append(switches);
        for (int chunk = 1; chunk <= chunks; chunk++) {
            line.append(' ').append(marks[chunk] - marks[chunk - 1]);
        }
        out.append(line.append('\n'));
    }

    private void serve() throws IOException {
        String runtime = System.getProperty("java.vm.name") + " " + System.getProperty("java.runtime.version");
        out.append("{\"schema\": \"vtare.counter-program/1\", \"language\": \"java\", \"runtime\": \"")
            .append(runtime.replaceAll("[\"\\\\]", ""))
            .append("\", \"steps_per_ms\": " + stepsPerMs() + "}\n")
            .flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        String line = in.readLine();
        if (line == null) {
            return;
        }
        StringTokenizer words = new StringTokenizer(line);
        int chunkSteps = Integer.parseInt(words.nextToken());
        int mostChunks = Integer.parseInt(words.nextToken());
        long[] marks = new long[Math.max(mostChunks, WARM_UP_CHUNKS) + 1];
        Arrays.fill(marks, 1);
        long from = THREADS.getCurrentThreadCpuTime();
        // As many calls as it takes, and at least enough of them for the compiler: a chunk may be long.
        for (int calls = 0; calls < 3 || THREADS.getCurrentThreadCpuTime() - from < WARM_UP_NS / 2; calls++) {
            sink = run(chunkSteps, Math.min(mostChunks, WARM_UP_CHUNKS), marks);
        }
        while ((line = in.readLine()) != null) {
            words = new StringTokenizer(line);
            while (words.hasMoreTokens()) {
                call(chunkSteps, Integer.parseInt(words.nextToken()), marks);
            }
            out.flush();
        }
    }

    public static void main(String[] arguments) {
        try {
            new Counter().serve();
        } catch (IOException | RuntimeException error) {
            System.err.println("counter: " + error);
            System.exit(error instanceof IOException ? 3 : 2);
        }
    }
}
