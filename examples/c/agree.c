/* Reads vtare's clock between two readings of the kernel's, sleeps, and prints the results of both.
 *
 *     cc -std=c11 agree.c $(pkg-config --cflags --libs vtare_clock) -o agree && ./agree
 *
 * Ends with 1 where a reading lies further from the kernel's clock than the library states, or a sleep ended early. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <vtare_clock.h>

enum { READINGS = 1000 };

static uint64_t kernel_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, vtare_error_message());
    return 2;
}

int main(void) {
    struct vtare_clock_info info;
    uint64_t outside = 0;
    for (int i = 0; i < READINGS; i++) {
        const uint64_t before = kernel_ns();
        const uint64_t ours = vtare_now_ordered_ns();
        const uint64_t after = kernel_ns();
        info.size = sizeof info;
        if (vtare_clock_info(&info) != 0) {
            return failed("vtare_clock_info");
        }
        const uint64_t bound = (uint64_t)info.error_bound_ns + 1;
        outside += ours + bound < before || ours > after + bound;
    }
    printf("source %s, stated error %.0f ns: %" PRIu64 " of %d readings outside\n", info.source, info.error_bound_ns,
           outside, READINGS);

    /* The counter between the two fences, around a piece of work. */
    const uint64_t start = vtare_tick_start();
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        sum += i;
    }
    const uint64_t stop = vtare_tick_stop();
    printf("the loop took %" PRId64 " ns\n", vtare_ticks_to_ns((int64_t)(stop - start)));

    if (vtare_set_sleep_policy_name("adaptive") != 0) {
        return failed("vtare_set_sleep_policy_name");
    }
    const uint64_t deadline = vtare_now_ns() + 500000;
    if (vtare_sleep_until_ns(deadline) != 0) {
        return failed("vtare_sleep_until_ns");
    }
    const int early = vtare_now_ordered_ns() < deadline;
    struct vtare_sleep_result slept;
    slept.size = sizeof slept;
    if (vtare_last_sleep(&slept) != 0) {
        return failed("vtare_last_sleep");
    }
    printf("slept 500000 ns, missed by %" PRId64 " ns, spun %" PRId64 " ns\n", slept.miss_ns, slept.spin_ns);
    return outside != 0 || early;
}
