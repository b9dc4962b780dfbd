/* The counter function in C: a program that `vtare counter --language c` builds, starts and speaks with.
 *
 * It counts: steps of Marsaglia's xorshift64 (13, 7, 17) from state 1, the same as crates/vtare/src/counter/function.rs
 * and the programs in the other languages. It reads CLOCK_MONOTONIC after each chunk of steps and prints what each
 * chunk took; everything else (order, figures, files) is vtare's business. README.md has the words that the two
 * exchange.
 *
 *     cc -O2 -static -o counter counter.c && printf '1000 3\n3 1\n' | ./counter
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_UP_NS 50000000u /* of CPU time: its clock rises */
#define ROUND_NS 200000u     /* least length of one timing while the speed is sought */
#define ROUNDS 600           /* timings; the fastest tenth counts as undisturbed */

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A store that the compiler must make before the clock is read next: the work cannot be put off until after it. */
static volatile uint64_t sink;

static uint64_t count(uint64_t state, uint64_t steps)
{
    for (; steps > 0; steps--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    sink = state;
    return state;
}

static uint64_t time_of(uint64_t steps)
{
    uint64_t from = now_ns(CLOCK_MONOTONIC);
    count(1, steps);
    return now_ns(CLOCK_MONOTONIC) - from;
}

static int ascending(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* The machine speed index: steps in a millisecond of the undisturbed machine. */
static double steps_per_ms(void)
{
    static uint64_t spans[ROUNDS];
    uint64_t steps = 1000, from = now_ns(CLOCK_THREAD_CPUTIME_ID);
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) - from < WARM_UP_NS)
        count(1, steps);
    while (time_of(steps) < ROUND_NS)
        steps *= 2;
    for (int round = 0; round < ROUNDS; round++)
        spans[round] = time_of(steps);
    qsort(spans, ROUNDS, sizeof *spans, ascending);
    return (double)steps * 1e6 / (double)spans[ROUNDS / 10];
}

static long involuntary_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* One call: `chunks` chunks of `chunk_steps` steps each, and a line with the time that it took. */
static void call(uint64_t chunk_steps, uint64_t chunks, uint64_t *marks)
{
    uint64_t state = 1;
    long switches = involuntary_switches();
    uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    marks[0] = now_ns(CLOCK_MONOTONIC);
    for (uint64_t chunk = 1; chunk <= chunks; chunk++) {
        state = count(state, chunk_steps);
        marks[chunk] = now_ns(CLOCK_MONOTONIC);
    }
    cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    switches = involuntary_switches() - switches;
    printf("%" PRIu64 " %" PRIu64 " %ld", state, cpu, switches);
    for (uint64_t chunk = 1; chunk <= chunks; chunk++)
        printf(" %" PRIu64, marks[chunk] - marks[chunk - 1]);
    putchar('\n');
}

int main(void)
{
    printf("{\"schema\": \"vtare.counter-program/1\", \"language\": \"c\", "
           "\"runtime\": \"C compiled by %s\", \"steps_per_ms\": %.3f}\n",
#ifdef __clang__
           "" __VERSION__,
#else
           "GCC " __VERSION__,
#endif
           steps_per_ms());
    fflush(stdout);

    char *line = NULL;
    size_t room = 0;
    uint64_t chunk_steps, most_chunks;
    if (getline(&line, &room, stdin) < 0)
        return 0;
    if (sscanf(line, "%" SCNu64 " %" SCNu64, &chunk_steps, &most_chunks) != 2) {
        fprintf(stderr, "counter: '%s' is not CHUNK_STEPS MOST_CHUNKS\n", line);
        return 2;
    }
    uint64_t *marks = malloc((most_chunks + 1) * sizeof *marks);
    if (marks == NULL) {
        fprintf(stderr, "counter: no memory for %" PRIu64 " readings\n", most_chunks);
        return 3;
    }
    /* Touched now, so that no page fault falls into a call. */
    for (uint64_t mark = 0; mark <= most_chunks; mark++)
        marks[mark] = mark;
    while (getline(&line, &room, stdin) >= 0) {
        char *at = line, *end;
        for (uint64_t chunks; chunks = strtoull(at, &end, 10), end != at; at = end) {
            if (chunks > most_chunks) {
                fprintf(stderr, "counter: %" PRIu64 " chunks are too many: use %" PRIu64 " or less\n",
                        chunks, most_chunks);
                return 2;
            }
            call(chunk_steps, chunks, marks);
        }
        fflush(stdout);
    }
    return 0;
}
