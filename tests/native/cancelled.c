/* A thread in the kernel's part of a sleep can be cancelled; its clean-up handlers run, and others sleep on
 * undisturbed. */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static int cleaned;

static void clean_up(void *unused) {
    (void)unused;
    cleaned++;
}

static void *sleeper(void *policy) {
    pthread_cleanup_push(clean_up, NULL);
    CHECK(vtare_set_sleep_policy(*(int *)policy) == 0);
    vtare_sleep_ns(3600 * UINT64_C(1000000000));
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    int policies[] = {VTARE_SLEEP_ADAPTIVE, VTARE_SLEEP_CLOCK_NANOSLEEP, VTARE_SLEEP_TWO_PHASE, VTARE_SLEEP_USLEEP};
    const int count = (int)(sizeof policies / sizeof policies[0]);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        void *answer = NULL;
        CHECK(pthread_create(&thread, NULL, sleeper, &policies[i]) == 0);
        CHECK(vtare_sleep_ns(2000000) == 0);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &answer) == 0);
        CHECK(answer == PTHREAD_CANCELED);
        CHECK(cleaned == i + 1);
        check_sleeps();
    }
    return 0;
}
