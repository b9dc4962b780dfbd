/* A thousand threads with the smallest stacks, twice; destructors that sleep; C11 threads. */
#include "conformance.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

enum { THREADS = 1000 };

static pthread_barrier_t together;
static atomic_int failed, early, destroyed;
static pthread_key_t key;

static void sleeps_at_the_end(void *value) {
    (void)value;
    failed += usleep(100) != 0;
    destroyed++;
}

static void *small(void *argument) {
    int number = (int)(intptr_t)argument;
    pthread_setspecific(key, &failed);
    pthread_barrier_wait(&together);
    for (int i = 0; i < 3; i++) {
        enum sleeper which = (enum sleeper)((number + i) % SLEEPERS);
        int64_t begun = now_ns();
        if (which == SLEEP)
            which = USLEEP;
        failed += sleep_by(which, 2000000, NULL) != 0;
        early += now_ns() - begun < 2000000;
    }
    return NULL;
}

static void generation(void) {
    pthread_t *threads = calloc(THREADS, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    pthread_barrier_init(&together, NULL, THREADS);
    failed = early = destroyed = 0;
    int made = 0;
    for (; made < THREADS; made++)
        if (pthread_create(&threads[made], &attributes, small, (void *)(intptr_t)made) != 0)
            break;
    if (made < THREADS) {
        printf("only %d threads could be made\n", made);
        exit(1);
    }
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    printf("%d threads: failed %d, early %d, slept in destructors %d\n", made, failed, early, destroyed);
    free(threads);
}

static int c11(void *argument) {
    (void)argument;
    struct timespec brief = {0, 500000};
    return thrd_sleep(&brief, NULL);
}

void many_threads(void) {
    pthread_key_create(&key, sleeps_at_the_end);
    generation();
    generation();
    thrd_t thread;
    int result = -5;
    thrd_create(&thread, c11, NULL);
    thrd_join(thread, &result);
    printf("a C11 thread: %d\n", result);
}
