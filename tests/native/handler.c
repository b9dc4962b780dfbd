/* Readings in a signal handler, from before the clock is started: neither stuck nor stepping back. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/time.h>

#include "check.h"

static volatile sig_atomic_t handled;
static uint64_t last;
static volatile int backwards;

static void on_alarm(int number) {
    (void)number;
    const int saved = errno;
    const uint64_t now = vtare_now_ordered_ns();
    backwards += now < last || vtare_tick() == 0;
    last = now;
    handled++;
    errno = saved;
}

int main(void) {
    struct sigaction action = {0};
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    const struct itimerval timer = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    errno = 0;
    while (handled < 500) {
        const uint64_t seen = last;
        CHECK(vtare_now_ordered_ns() >= seen);
    }
    const struct itimerval none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    CHECK(errno == 0 && backwards == 0);
    check_agreement();
    return 0;
}
