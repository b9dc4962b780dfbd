/* Measures the time functions of the process it runs in; prints one JSON object with an array of values in ns.
 * Usage: probe clock_gettime|gettimeofday|time BATCHES    ns a call, one value a batch
 *        probe usleep COUNT MICROS   miss of usleep, and of a two-phase sleep written by hand, in turns: one value each
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 20000 };

/* The C library's own function, past any that was put in its place: the same ruler with and without the library. */
static int (*ruler)(clockid_t, struct timespec *);

static int (*sleep_until)(clockid_t, int, const struct timespec *, struct timespec *);

static int64_t now_ns(void) {
    struct timespec at;
    ruler(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static double batch(const char *what) {
    struct timespec at;
    struct timeval wall;
    volatile time_t seconds;
    int64_t begun = now_ns();
    if (strcmp(what, "clock_gettime") == 0)
        for (int i = 0; i < CALLS; i++)
            clock_gettime(CLOCK_MONOTONIC, &at);
    else if (strcmp(what, "gettimeofday") == 0)
        for (int i = 0; i < CALLS; i++)
            gettimeofday(&wall, NULL);
    else
        for (int i = 0; i < CALLS; i++)
            seconds = time(NULL);
    (void)seconds;
    return (double)(now_ns() - begun) / CALLS;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What the ruler shows of nothing: part of every miss otherwise. */
static int64_t nothing_ns(void) {
    int64_t pairs[1001];
    for (int i = 0; i < 1001; i++) {
        int64_t begun = now_ns();
        pairs[i] = now_ns() - begun;
    }
    qsort(pairs, 1001, sizeof *pairs, by_size);
    return pairs[500];
}

/* The kernel until 80 us before the deadline, then spinning: what a careful program does itself. */
static void two_phase(int64_t sleep_ns) {
    int64_t deadline = now_ns() + sleep_ns, wake = deadline - 80000;
    struct timespec at = {wake / 1000000000, wake % 1000000000};
    sleep_until(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    while (now_ns() < deadline)
        ;
}

static void print_values(const char *name, const double *values, int count) {
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.3f", i ? ", " : "", values[i]);
    printf("]");
}

int main(int argc, char **argv) {
    int sleeps = argc > 1 && strcmp(argv[1], "usleep") == 0;
    if (argc != (sleeps ? 4 : 3) || atoi(argv[2]) < 1 || (sleeps && atoi(argv[3]) < 100)) {
        fprintf(stderr,
                "usage: probe clock_gettime|gettimeofday|time COUNT | probe usleep COUNT MICROS (100 or more)\n");
        return 2;
    }
    int count = atoi(argv[2]);
    int64_t sleep_ns = sleeps ? atoi(argv[3]) * 1000LL : 0;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    *(void **)&ruler = libc ? dlsym(libc, "clock_gettime") : NULL;
    *(void **)&sleep_until = libc ? dlsym(libc, "clock_nanosleep") : NULL;
    double *values = malloc((size_t)count * sizeof *values), *by_hand = malloc((size_t)count * sizeof *by_hand);
    if (!ruler || !sleep_until || !values || !by_hand)
        return 1;
    int64_t nothing = nothing_ns();
    for (int i = 0; i < count; i++) {
        if (!sleeps) {
            values[i] = batch(argv[1]);
            continue;
        }
        int64_t begun = now_ns();
        usleep((useconds_t)(sleep_ns / 1000));
        values[i] = (double)(now_ns() - begun - sleep_ns - nothing);
        begun = now_ns();
        two_phase(sleep_ns);
        by_hand[i] = (double)(now_ns() - begun - sleep_ns - nothing);
    }
    printf("{");
    print_values(argv[1], values, count);
    if (sleeps) {
        printf(", ");
        print_values("two-phase by hand", by_hand, count);
    }
    printf("}\n");
    return 0;
}
