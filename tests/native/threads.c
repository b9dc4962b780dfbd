/* Readings handed from thread to thread never step back; policy, last sleep and message belong to each thread; stacks
 * may be small; the memory of a thread's sleeper is freed with it. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 16, TURNS = 20000 };

static pthread_mutex_t hand = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last;

static void *worker(void *number) {
    const int policy = *(int *)number % 6;
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&hand);
        const uint64_t now = vtare_now_ordered_ns();
        CHECK(now >= last);
        last = now;
        pthread_mutex_unlock(&hand);
    }
    CHECK(strcmp(vtare_error_message(), "") == 0);
    CHECK(vtare_get_sleep_policy() == VTARE_SLEEP_ADAPTIVE);
    CHECK(vtare_set_sleep_policy(policy) == 0);
    const uint64_t deadline = vtare_now_ns() + 200000;
    CHECK(vtare_sleep_until_ns(deadline) == 0 && vtare_now_ordered_ns() >= deadline);
    CHECK(vtare_get_sleep_policy() == policy);
    struct vtare_sleep_result slept;
    slept.size = sizeof slept;
    CHECK(vtare_last_sleep(&slept) == 0);
    CHECK(slept.deadline_ns == deadline && slept.policy == (uint32_t)policy && slept.miss_ns >= 0);
    return NULL;
}

static void *one_sleep(void *unused) {
    (void)unused;
    CHECK(vtare_sleep_ns(1) == 0);
    return NULL;
}

int main(void) {
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 * 1024) == 0);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    /* No thread has read the clock yet: they race for its start. */
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], &small, worker, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    size_t after_some = 0;
    for (int i = 0; i < 300; i++) {
        CHECK(pthread_create(&threads[0], &small, one_sleep, NULL) == 0);
        CHECK(pthread_join(threads[0], NULL) == 0);
        if (i == 99) {
            after_some = mallinfo2().uordblks;
        }
    }
    /* 200 threads more: a sleeper kept from each would be 3 MB. */
    CHECK(mallinfo2().uordblks < after_some + 500000);
    return 0;
}
