/* What the native tests share. A failed check names itself and ends the program with 1. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vtare_clock.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #what, errno, vtare_error_message()); \
            _Exit(1); \
        } \
    } while (0)

static inline uint64_t kernel_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One ordered reading lies between two of the kernel's, within the stated error. */
static inline void check_agreement(void) {
    const uint64_t before = kernel_ns();
    const uint64_t ours = vtare_now_ordered_ns();
    const uint64_t after = kernel_ns();
    struct vtare_clock_info info;
    info.size = sizeof info;
    CHECK(vtare_clock_info(&info) == 0);
    const uint64_t bound = (uint64_t)info.error_bound_ns + 1;
    CHECK(ours + bound >= before && ours <= after + bound);
}

/* Every policy sleeps, and none wakes early. */
static inline void check_sleeps(void) {
    for (int policy = VTARE_SLEEP_ADAPTIVE; policy <= VTARE_SLEEP_USLEEP; policy++) {
        CHECK(vtare_set_sleep_policy(policy) == 0);
        const uint64_t deadline = vtare_now_ns() + 300000;
        CHECK(vtare_sleep_until_ns(deadline) == 0);
        CHECK(vtare_now_ordered_ns() >= deadline);
    }
}

#endif
