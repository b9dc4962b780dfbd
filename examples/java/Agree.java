import vtare.clock.ClockException;
import vtare.clock.VtareClock;

/**
 * Reads vtare's clock between two readings of the virtual machine's, paces a loop, and prints the results of both.
 *
 * <p>Ends with 1 where a reading lies further from CLOCK_MONOTONIC than the library states, or a wait ended early. Run
 * it as docs/guide/clock-library.md shows.
 */
public final class Agree {
    private static final int READINGS = 1000;

    private Agree() {}

    public static void main(String[] arguments) {
        int outside = 0;
        for (int i = 0; i < READINGS; i++) {
            // On Linux nanoTime is CLOCK_MONOTONIC.
            long before = System.nanoTime();
            long ours = VtareClock.nowOrderedNs();
            long after = System.nanoTime();
            long bound = (long) Math.ceil(VtareClock.info().errorBoundNs());
            if (ours + bound < before || ours > after + bound) {
                outside++;
            }
        }
        VtareClock.Info info = VtareClock.info();
        System.out.printf(
                "source %s, stated error %.0f ns: %d of %d readings outside%n",
                info.source(), info.errorBoundNs(), outside, READINGS);

        VtareClock.Checked reading = VtareClock.nowChecked();
        VtareClock.UtcInterval utc = VtareClock.nowUtcInterval();
        System.out.printf("generation %d; UTC is %s%n", reading.generation(), utc.status());

        VtareClock.setSleepPolicy("adaptive");
        boolean early = false;
        VtareClock.Ticker ticker = new VtareClock.Ticker(200_000);
        for (int i = 0; i < 10; i++) {
            long deadline = ticker.nextNs();
            ticker.await();
            early |= VtareClock.nowOrderedNs() < deadline;
        }
        System.out.printf("10 periods of 200 us, %d missed; %s%n", ticker.missed(), VtareClock.lastSleep());

        try {
            VtareClock.setSleepPolicy("nap");
            early = true;
        } catch (ClockException error) {
            System.out.println("as it should be: " + error.getMessage());
        }
        System.exit(outside != 0 || early ? 1 : 0);
    }
}
