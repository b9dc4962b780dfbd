/* Checked readings and intervals of UTC: one generation while nothing happens, and ends in order. */
#define _GNU_SOURCE
#include "check.h"

int main(void) {
    uint64_t first = 0, generation = 0, last = vtare_now_checked(&first);
    CHECK(first >= 1);
    for (int i = 0; i < 100000; i++) {
        const uint64_t before = kernel_ns();
        const uint64_t now = vtare_now_checked(&generation);
        /* A machine that is suspended or moved in the middle of the test has another generation. */
        CHECK(generation > first || now >= last);
        CHECK(generation > first || now + 2000000 >= before);
        first = generation;
        last = now;
    }
    CHECK(vtare_now_checked(NULL) > 0);

    struct vtare_utc_interval utc = {0};
    utc.size = sizeof utc - 1;
    CHECK(vtare_now_utc_interval(&utc) == -1 && errno == EINVAL);
    CHECK(vtare_now_utc_interval(NULL) == -1 && errno == EINVAL);
    CHECK(strstr(vtare_error_message(), "NULL") != NULL);
    utc.size = sizeof utc;
    CHECK(vtare_now_utc_interval(&utc) == 0);
    CHECK(utc.earliest_ns <= utc.latest_ns && utc.status <= VTARE_UTC_UNKNOWN && utc.generation >= first);
    if (utc.latest_ns != UINT64_MAX) {
        struct timespec wall;
        clock_gettime(CLOCK_REALTIME, &wall);
        const uint64_t now = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
        CHECK(utc.earliest_ns <= now);
    }
    return 0;
}
