import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/** Cost of System.nanoTime and lateness of Java's sleeps, as JSON arrays of ns. Usage: java Probe SLEEPS */
public final class Probe {
    private static final int CALLS = 200_000;

    private static double nanoTime() {
        long begun = System.nanoTime();
        long sum = 0;
        for (int i = 0; i < CALLS; i++) {
            sum += System.nanoTime();
        }
        double each = (double) (System.nanoTime() - begun) / CALLS;
        return sum == 42 ? -1 : each;
    }

    private static String array(String name, double[] values) {
        return "\"" + name + "\": " +
            Arrays.stream(values).mapToObj(v -> String.format("%.1f", v)).collect(Collectors.joining(", ", "[", "]"));
    }

    public static void main(String[] arguments) throws InterruptedException {
        int sleeps = Integer.parseInt(arguments[0]);
        for (int i = 0; i < 20; i++) {
            nanoTime(); // until it is compiled
        }
        double[] cost = new double[30];
        for (int i = 0; i < cost.length; i++) {
            cost[i] = nanoTime();
        }
        double[] sleep = new double[sleeps];
        double[] park = new double[sleeps];
        for (int i = 0; i < sleeps; i++) {
            long begun = System.nanoTime();
            Thread.sleep(1);
            sleep[i] = System.nanoTime() - begun - 1_000_000;
            begun = System.nanoTime();
            LockSupport.parkNanos(100_000);
            park[i] = System.nanoTime() - begun - 100_000;
        }
        System.out.println("{" + array("nanoTime", cost) + ", " + array("Thread.sleep(1)", sleep) + ", " +
                           array("parkNanos(100 us)", park) + "}");
    }
}
