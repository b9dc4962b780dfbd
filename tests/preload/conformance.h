/* What the parts of the conformance program share. Each part prints results: answers, error numbers, counts; never
 * durations. */
#ifndef VTARE_CONFORMANCE_H
#define VTARE_CONFORMANCE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define SECOND 1000000000LL

enum sleeper { NANOSLEEP, CLOCK_RELATIVE, CLOCK_ABSOLUTE, USLEEP, SLEEP, THRD_SLEEP, SLEEPERS };

extern const char *const sleeper_name[SLEEPERS];

/* Sleeps `nanos` by one of the functions. `left` is where it may leave a remainder. Answers what the function answers.
 */
long sleep_by(enum sleeper which, int64_t nanos, struct timespec *left);

/* CLOCK_MONOTONIC through the function that is replaced, ns. */
int64_t now_ns(void);

void arguments(void);
void signals(void);
void cancellation(void);
void many_threads(void);
void processes(const char *self, const char *plugin);
void clocks(void);

#endif
