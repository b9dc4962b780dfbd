import vtare.clock.ClockException;
import vtare.clock.VtareClock;

/**
 * A lease and commit-wait by confirmed readings, as examples/c/lease.c has them: VTARE_WITNESSES=h1,h2,h3
 * VTARE_KEY=... java Lease.
 *
 * <p>Ends with 1 where the lease had ended before the act was confirmed, with 2 where UTC is not confirmed.
 */
public final class Lease {
    private Lease() {}

    /** A time that has passed when this returns, and had not come when it was called. */
    private static long commit() {
        long at = VtareClock.nowUtcConfirmed().latestNs();
        for (long passed; (passed = VtareClock.nowUtcConfirmed().earliestNs()) <= at; ) {
            VtareClock.sleepNs(at - passed + 1);
        }
        return at;
    }

    /** Whether an act that is done by now was done within the lease: looking before it proves nothing. */
    private static boolean actedWithin(long leaseEndsNs) {
        return VtareClock.nowUtcConfirmed().latestNs() < leaseEndsNs;
    }

    public static void main(String[] arguments) {
        try {
            VtareClock.UtcConfirmed now = VtareClock.nowUtcConfirmed();
            System.out.printf("%d hosts, of which %d may be wrong%n", now.hosts(), now.liars());
            System.out.printf("committed at %d%n", commit());
            boolean held = actedWithin(now.latestNs() + 2_000_000_000L);
            System.out.println("the lease " + (held ? "held" : "had ended: take the act back"));
            System.exit(held ? 0 : 1);
        } catch (ClockException error) {
            System.err.println(error.getMessage());
            System.exit(2);
        }
    }
}
