/* Signals in the midst of sleeps: EINTR, remainders, handlers that sleep, handlers that jump away. */
#include "conformance.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static sigjmp_buf away;

static void count(int signal) { (void)signal; handled++; }

static void sleeps_itself(int signal) {
    (void)signal;
    struct timespec brief = {0, 200000};
    int kept = errno;
    nanosleep(&brief, NULL);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &brief, NULL);
    errno = kept;
    handled++;
}

static void jumps(int signal) { (void)signal; siglongjmp(away, 1); }

static void reads_clocks(int signal) {
    (void)signal;
    struct timespec at;
    int kept = errno;
    clock_gettime(CLOCK_MONOTONIC, &at);
    clock_gettime(CLOCK_REALTIME, &at);
    time(NULL);
    errno = kept;
    handled++;
}

static void on_alarm(void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGALRM, &action, NULL);
}

static void alarm_after(int64_t first_ns, int64_t every_ns) {
    struct itimerval timer = {{every_ns / SECOND, every_ns % SECOND / 1000},
                              {first_ns / SECOND, first_ns % SECOND / 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void interrupted(int flags) {
    for (int which = 0; which < SLEEPERS; which++) {
        struct timespec left = {-7, -7};
        handled = 0;
        errno = 1234;
        on_alarm(count, flags);
        alarm_after(30000000, 0);
        long answer = sleep_by(which, which == USLEEP ? 4000 * SECOND : 10 * SECOND, &left);
        int code = errno;
        const char *rest = "wrong";
        if (left.tv_sec == -7)
            rest = "untouched";
        else if (left.tv_sec == 9 && left.tv_nsec > 0 && left.tv_nsec < SECOND)
            rest = "nine seconds and some";
        printf("%s by a handler (flags %x): %ld, errno %d, handled %d, left %s\n", sleeper_name[which], flags, answer,
               code, handled, rest);
    }
    struct timespec span = {10, 0};
    on_alarm(count, flags);
    alarm_after(30000000, 0);
    printf("nanosleep that leaves nothing: %d\n", nanosleep(&span, NULL));
    on_alarm(count, flags);
    alarm_after(30000000, 0);
    printf("nanosleep that leaves it in place: %d", nanosleep(&span, &span));
    printf(", %ld s\n", (long)span.tv_sec);
}

static void huge(void) {
    static const struct timespec spans[] = {
        {INT64_MAX, SECOND - 1}, {INT64_MAX / SECOND, 0}, {40000000, 0}, {3000000000LL, 5}};
    on_alarm(count, 0);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        struct timespec left = {0, 0};
        alarm_after(20000000, 0);
        int answer = nanosleep(&spans[i], &left);
        printf("a huge nanosleep: %d, errno %d, left more than a year %d\n", answer, errno, left.tv_sec > 31000000);
        alarm_after(20000000, 0);
        printf("a huge clock_nanosleep: %d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &spans[i], NULL));
        alarm_after(20000000, 0);
        printf("a huge deadline: %d\n", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &spans[i], NULL));
    }
    alarm_after(20000000, 0);
    unsigned left = sleep(UINT32_MAX);
    printf("sleep(UINT_MAX): left nearly all %d, errno %d\n", left >= UINT32_MAX - 2, errno);
    alarm_after(20000000, 0);
    printf("usleep(UINT_MAX): %d, errno %d\n", usleep(UINT32_MAX), errno);
}

static void not_interrupting(void) {
    struct timespec span = {0, 60000000}, left = {-7, -7};
    on_alarm(SIG_IGN, 0);
    alarm_after(20000000, 0);
    printf("an ignored signal: %d, left %ld\n", nanosleep(&span, &left), (long)left.tv_sec);
    sigset_t mask, old;
    sigemptyset(&mask);
    sigaddset(&mask, SIGALRM);
    sigprocmask(SIG_BLOCK, &mask, &old);
    on_alarm(count, 0);
    handled = 0;
    alarm_after(20000000, 0);
    printf("a blocked signal: %d, left %ld, handled %d\n", nanosleep(&span, &left), (long)left.tv_sec, handled);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("handled when unblocked: %d\n", handled);
}

static void nested(void) {
    int failed = 0;
    handled = 0;
    on_alarm(sleeps_itself, SA_NODEFER);
    alarm_after(3000000, 3000000);
    for (int i = 0; i < 60; i++) {
        struct timespec span = {0, 7000000}, left;
        int64_t begun = now_ns();
        while (nanosleep(&span, &left) != 0) {
            failed += errno != EINTR;
            span = left;
        }
        failed += now_ns() - begun < 7000000;
    }
    alarm_after(0, 0);
    printf("sleeps in handlers of sleeps: failed %d, handlers ran %d\n", failed, handled > 0);
}

static void jumping(void) {
    volatile int jumped = 0, failed = 0;
    on_alarm(jumps, 0);
    for (volatile int i = 0; i < 300; i++) {
        if (sigsetjmp(away, 1) == 0) {
            /* Some of these meet the sleep in the kernel, some in a spin, some before it. */
            alarm_after(1000 * (1 + i), 0);
            for (;;)
                usleep(250);
        }
        jumped++;
    }
    alarm_after(0, 0);
    for (int i = 0; i < 50; i++) {
        int64_t begun = now_ns();
        failed += usleep(300) != 0;
        failed += now_ns() - begun < 300000;
    }
    printf("jumped out of sleeps: %d; sleeps afterwards failed: %d\n", jumped, failed);
}

/* Handlers meet malloc, sleeps and clock readings of the thread they interrupt. */
static void flood(void) {
    int failed = 0;
    handled = 0;
    on_alarm(reads_clocks, SA_RESTART);
    alarm_after(200000, 200000);
    int64_t end = now_ns() + SECOND / 4;
    while (now_ns() < end) {
        void *volatile memory = malloc(1 + (size_t)(now_ns() & 4095));
        free(memory);
        struct timespec brief = {0, 20000};
        int answer = nanosleep(&brief, NULL);
        failed += answer != 0 && errno != EINTR;
    }
    alarm_after(0, 0);
    printf("clock readings in handlers: failed %d, handlers ran %d\n", failed, handled > 0);
}

void signals(void) {
    interrupted(0);
    interrupted(SA_RESTART);
    huge();
    not_interrupting();
    nested();
    jumping();
    flood();
    on_alarm(SIG_DFL, 0);
}
