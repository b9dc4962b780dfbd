/* Arguments good and bad: answers, errno, and that nothing wakes early. */
#include "conformance.h"

#include <sys/time.h>
#include <threads.h>
#include <unistd.h>

static const struct timespec odd[] = {
    {0, -1},        {0, SECOND},         {-1, 0},      {-1, 5}, {INT64_MIN, 0}, {0, INT64_MIN},
    {0, INT64_MAX}, {INT64_MAX, SECOND}, {-1, SECOND},
};

static void show(const char *what, long answer) {
    printf("%s: %ld, errno %d\n", what, answer, errno);
    errno = 1234;
}

static void refused(void) {
    static const clockid_t ids[] = {
        CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
        CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI, 77, -1, -1000,
    };
    struct timespec left = {11, 22};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        show("nanosleep", nanosleep(&odd[i], &left));
        show("thrd_sleep", thrd_sleep(&odd[i], &left));
        for (size_t c = 0; c < sizeof ids / sizeof *ids; c++) {
            show("clock_nanosleep", clock_nanosleep(ids[c], 0, &odd[i], &left));
            show("clock_nanosleep absolute", clock_nanosleep(ids[c], TIMER_ABSTIME, &odd[i], &left));
        }
    }
    struct timespec brief = {0, 1000};
    for (size_t c = 0; c < sizeof ids / sizeof *ids; c++)
        if (ids[c] != CLOCK_PROCESS_CPUTIME_ID) /* waits for CPU time that nobody uses */
            show("a brief sleep on each clock", clock_nanosleep(ids[c], 0, &brief, &left));
    for (int flags = -2; flags < 10; flags++)
        show("a brief sleep with each flag", clock_nanosleep(CLOCK_MONOTONIC, flags, &brief, &left));
    show("no request", nanosleep(NULL, &left));
    show("no request", clock_nanosleep(CLOCK_MONOTONIC, 0, NULL, &left));
    show("no request, absolute", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, NULL, NULL));
    show("a request in the first page", nanosleep((void *)16, NULL));
    printf("what was left stays: %ld %ld\n", (long)left.tv_sec, left.tv_nsec);
}

static void accepted(void) {
    struct timespec zero = {0, 0}, past = {1, 0}, left = {11, 22}, wall;
    show("nothing", nanosleep(&zero, &left));
    show("nothing", clock_nanosleep(CLOCK_MONOTONIC, 0, &zero, &left));
    show("a deadline long past", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, &left));
    show("a deadline at zero", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &zero, &left));
    show("usleep(0)", usleep(0));
    show("sleep(0)", sleep(0));
    show("thrd_sleep of nothing", thrd_sleep(&zero, &left));
    clock_gettime(CLOCK_REALTIME, &wall);
    wall.tv_nsec += 3000000;
    wall.tv_sec += wall.tv_nsec / SECOND;
    wall.tv_nsec %= SECOND;
    show("until a wall time", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &wall, NULL));
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    printf("before that wall time: %d\n",
           at.tv_sec < wall.tv_sec || (at.tv_sec == wall.tv_sec && at.tv_nsec < wall.tv_nsec));
    printf("what was left stays: %ld %ld\n", (long)left.tv_sec, left.tv_nsec);
}

/* Spans from wholly spun to many ticks; every function; early by the function's own clock is a failure. */
static void never_early(void) {
    static const int64_t spans[] = {1, 999, 1000, 20000, 60000, 150000, 1000000, 5000000};
    for (int which = 0; which < SLEEPERS; which++) {
        if (which == SLEEP)
            continue;
        int early = 0, failed = 0;
        for (size_t s = 0; s < sizeof spans / sizeof *spans; s++) {
            int64_t span = which == USLEEP ? spans[s] / 1000 * 1000 : spans[s];
            for (int i = 0; i < 20; i++) {
                errno = 1234;
                int64_t begun = now_ns();
                failed += sleep_by(which, span, NULL) != 0 || errno != 1234;
                early += now_ns() - begun < span;
            }
        }
        printf("%s: early %d, failed %d\n", sleeper_name[which], early, failed);
    }
    int64_t begun = now_ns();
    unsigned left = sleep(1);
    printf("sleep(1): left %u, early %d\n", left, now_ns() - begun < SECOND);
}

void arguments(void) {
    errno = 1234;
    refused();
    accepted();
    never_early();
}
