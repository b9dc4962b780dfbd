/* Acts under a lease and writes in the order of UTC, by confirmed readings: right where this machine was stopped, moved
 * or restored at any moment.
 *
 *     cc -std=c11 lease.c $(pkg-config --cflags --libs vtare_clock) -o lease
 *     VTARE_WITNESSES=h1,h2,h3 VTARE_KEY=... ./lease
 *
 * Ends with 1 where the lease had ended before the act was confirmed, with 2 where UTC is not confirmed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <vtare_clock.h>

static struct vtare_utc_confirmed confirmed(void) {
    struct vtare_utc_confirmed now = {.size = sizeof now};
    if (vtare_now_utc_confirmed(&now) != 0) {
        fprintf(stderr, "%s\n", vtare_error_message());
        exit(2);
    }
    return now;
}

/* Commit-wait: a time that has not come when this is called and has passed when it returns, so that whoever commits
 * after this has a greater one. */
static uint64_t commit(void) {
    const uint64_t at = confirmed().latest_ns;
    for (uint64_t passed; (passed = confirmed().earliest_ns) <= at;) {
        vtare_sleep_ns(at - passed + 1);
    }
    return at;
}

/* A lease: the act counts if it was done before the lease ended. A look before the act proves nothing, since the
 * machine may be stopped between the two. */
static int acted_within(uint64_t lease_ends_ns) {
    /* ... the act, which can be taken back or is not told to anybody yet ... */
    return confirmed().latest_ns < lease_ends_ns;
}

int main(void) {
    const struct vtare_utc_confirmed now = confirmed();
    printf("%" PRIu32 " hosts, of which %" PRIu32 " may be wrong: UTC to %.3f ms\n", now.hosts, now.liars,
           (double)(now.latest_ns - now.earliest_ns) * 1e-6);
    printf("committed at %" PRIu64 "\n", commit());
    const int held = acted_within(now.latest_ns + 2000000000u);
    printf("the lease %s\n", held ? "held" : "had ended: take the act back");
    return !held;
}
