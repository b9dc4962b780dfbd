package vtare.clock;

/** A call that libvtare_clock refused. The message is the library's sentence. */
public final class ClockException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final int errno;

    ClockException(int errno, String message) {
        super(message);
        this.errno = errno;
    }

    /** The operating system's code, such as 22 (EINVAL). */
    public int errno() {
        return errno;
    }
}
