/* Clock functions: every clock's answer, agreement with the kernel, and no step backwards beside the real calls. */
#include "conformance.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);

static int64_t nanos(struct timespec at) { return at.tv_sec * SECOND + at.tv_nsec; }

static void every_clock(void) {
    for (int id = -40; id < 40; id++) {
        struct timespec at = {-7, -7};
        errno = 1234;
        int answer = clock_gettime(id, &at);
        printf("clock %d: %d, errno %d, written %d, sound %d\n", id, answer, errno, at.tv_sec != -7,
               at.tv_nsec >= 0 && at.tv_nsec < SECOND);
    }
    for (int base = -1; base < 4; base++) {
        struct timespec at = {-7, -7};
        errno = 1234;
        int answer = timespec_get(&at, base);
        printf("timespec_get base %d: %d, errno %d, written %d\n", base, answer, errno, at.tv_sec != -7);
    }
    struct timeval wall = {-7, -7};
    struct timezone zone;
    memset(&zone, 0x55, sizeof zone);
    errno = 1234;
    printf("gettimeofday: %d, errno %d\n", gettimeofday(&wall, NULL), errno);
    printf("sound %d\n", wall.tv_sec > 0 && wall.tv_usec >= 0 && wall.tv_usec < 1000000);
    printf("with a zone: %d", gettimeofday(&wall, &zone));
    printf(", zone %d %d\n", zone.tz_minuteswest, zone.tz_dsttime);
    time_t at = -7, answer = time(&at);
    printf("time: written the same %d, as the coarse clock %d\n", at == answer, answer > 0);
    clockid_t own;
    struct timespec used;
    pthread_getcpuclockid(pthread_self(), &own);
    printf("a thread's CPU clock: %d\n", clock_gettime(own, &used));
}

/* Between two real readings lies one of the function's: never outside, whatever clock. */
static int outside(clockid_t id, int through_kernel, int rounds) {
    int bad = 0;
    for (int i = 0; i < rounds; i++) {
        struct timespec before, between, after;
        if (through_kernel) {
            syscall(SYS_clock_gettime, id, &before);
            clock_gettime(id, &between);
            syscall(SYS_clock_gettime, id, &after);
        } else {
            real_gettime(id, &before);
            clock_gettime(id, &between);
            real_gettime(id, &after);
        }
        bad += nanos(between) < nanos(before) || nanos(between) > nanos(after);
    }
    return bad;
}

static int backwards(clockid_t id, int rounds) {
    int64_t last = 0;
    int bad = 0;
    for (int i = 0; i < rounds; i++) {
        struct timespec at;
        clock_gettime(id, &at);
        bad += nanos(at) < last;
        last = nanos(at);
    }
    return bad;
}

static void *compare(void *unused) {
    (void)unused;
    static const clockid_t ids[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI};
    int64_t bad = 0;
    for (size_t c = 0; c < sizeof ids / sizeof *ids; c++)
        bad += outside(ids[c], 0, 100000) + outside(ids[c], 1, 20000) + backwards(ids[c], 200000);
    return (void *)(intptr_t)bad;
}

static int wall_functions(void) {
    int bad = 0;
    for (int i = 0; i < 50000; i++) {
        struct timespec before, get, after;
        struct timeval day;
        real_gettime(CLOCK_REALTIME, &before);
        gettimeofday(&day, NULL);
        timespec_get(&get, TIME_UTC);
        real_gettime(CLOCK_REALTIME, &after);
        int64_t micros = day.tv_sec * 1000000LL + day.tv_usec;
        bad += micros < nanos(before) / 1000 || micros > nanos(after) / 1000;
        bad += nanos(get) < nanos(before) || nanos(get) > nanos(after);
    }
    return bad;
}

void clocks(void) {
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(dlopen("libc.so.6", RTLD_NOW), "clock_gettime");
    every_clock();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, compare, NULL);
    for (int i = 0; i < 2; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        printf("readings outside or backwards: %ld\n", (long)(intptr_t)bad);
    }
    printf("wall clock functions outside: %d\n", wall_functions());
}
