/* A handler that runs in the kernel's part ends a sleep with EINTR, SA_RESTART or not; what was left is returned;
 * sleeping on works. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/time.h>

#include "check.h"

static void on_alarm(int number) { (void)number; }

static void alarms(suseconds_t period_us) {
    const struct itimerval timer = {{0, period_us}, {0, period_us}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

int main(void) {
    const int policies[] = {VTARE_SLEEP_ADAPTIVE, VTARE_SLEEP_CLOCK_NANOSLEEP, VTARE_SLEEP_TWO_PHASE,
                            VTARE_SLEEP_USLEEP};
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {0};
        action.sa_handler = on_alarm;
        action.sa_flags = restart ? SA_RESTART : 0;
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
        for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
            CHECK(vtare_set_sleep_policy(policies[i]) == 0);
            alarms(3000);
            const uint64_t deadline = vtare_now_ns() + 3600 * UINT64_C(1000000000);
            errno = 0;
            CHECK(vtare_sleep_until_ns(deadline) == -1 && errno == EINTR);
            alarms(0);
            struct vtare_sleep_result slept;
            slept.size = sizeof slept;
            CHECK(vtare_last_sleep(&slept) == 0);
            CHECK(slept.interrupted == 1 && slept.miss_ns < 0 && slept.deadline_ns == deadline);
            CHECK(strstr(vtare_error_message(), "signal") != NULL);
        }
        /* Alarms while spinning: the sleep goes on to its end. */
        CHECK(vtare_set_sleep_policy(VTARE_SLEEP_SPIN) == 0);
        alarms(1000);
        const uint64_t deadline = vtare_now_ns() + 10000000;
        CHECK(vtare_sleep_until_ns(deadline) == 0 && vtare_now_ordered_ns() >= deadline);
        /* With alarms all the way, the deadline is reached by asking again. */
        CHECK(vtare_set_sleep_policy(VTARE_SLEEP_ADAPTIVE) == 0);
        const uint64_t later = vtare_now_ns() + 20000000;
        while (vtare_sleep_until_ns(later) != 0) {
            CHECK(errno == EINTR);
        }
        CHECK(vtare_now_ordered_ns() >= later);
        alarms(0);
    }
    return 0;
}
