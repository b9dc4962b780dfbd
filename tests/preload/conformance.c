/* Runs the same with and without libvtare_preload.so: what it prints must not differ.
 * Usage: conformance PLUGIN.so [PART]; conformance --child (started by itself). */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

const char *const sleeper_name[SLEEPERS] = {
    "nanosleep", "clock_nanosleep", "clock_nanosleep absolute", "usleep", "sleep", "thrd_sleep",
};

int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

long sleep_by(enum sleeper which, int64_t nanos, struct timespec *left) {
    struct timespec span = {nanos / SECOND, nanos % SECOND};
    int64_t deadline = now_ns() + nanos;
    struct timespec until = {deadline / SECOND, deadline % SECOND};
    switch (which) {
    case NANOSLEEP: return nanosleep(&span, left);
    case CLOCK_RELATIVE: return clock_nanosleep(CLOCK_MONOTONIC, 0, &span, left);
    case CLOCK_ABSOLUTE: return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, left);
    case USLEEP: return usleep((useconds_t)(nanos / 1000));
    case SLEEP: return sleep((unsigned)(nanos / SECOND));
    default: return thrd_sleep(&span, left);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--child") == 0) {
        int64_t begun = now_ns();
        int answer = usleep(2000);
        printf("child: usleep %d, early %d\n", answer, now_ns() - begun < 2000000);
        return 3;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: conformance PLUGIN.so [PART]\n");
        return 2;
    }
    /* What a part has printed stands before what kills it. */
    setvbuf(stdout, NULL, _IONBF, 0);
    const char *part = argc > 2 ? argv[2] : "";
#define RUN(name, call) if (*part == 0 || strcmp(part, name) == 0) { printf("== %s\n", name); call; }
    RUN("arguments", arguments())
    RUN("signals", signals())
    RUN("cancellation", cancellation())
    RUN("threads", many_threads())
    RUN("processes", processes(argv[0], argv[1]))
    RUN("clocks", clocks())
    return 0;
}
