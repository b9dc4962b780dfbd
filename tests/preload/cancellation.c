/* Every sleep function is a cancellation point (POSIX; thrd_sleep in glibc), and cleanup handlers run. */
#include "conformance.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int ready, cleaned, late_ran;

struct job {
    enum sleeper which;
    int64_t span;
    enum { IN_THE_MIDST, PENDING, DISABLED } when;
};

static void clean(void *at) { (*(atomic_int *)at)++; }

static void *sleeper(void *argument) {
    const struct job *job = argument;
    int old;
    pthread_cleanup_push(clean, &cleaned);
    if (job->when != IN_THE_MIDST)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    ready = 1;
    if (job->when != IN_THE_MIDST)
        while (ready != 2)
            ;
    if (job->when == PENDING)
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    int rounds = job->when == DISABLED ? 20 : 1000000;
    for (int i = 0; i < rounds; i++)
        sleep_by(job->which, job->span, NULL);
    late_ran++;
    if (job->when == DISABLED) {
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void one(struct job job) {
    pthread_t thread;
    void *result;
    ready = cleaned = late_ran = 0;
    pthread_create(&thread, NULL, sleeper, &job);
    while (ready != 1)
        ;
    if (job.when == IN_THE_MIDST) {
        struct timespec moment = {0, 5000000};
        nanosleep(&moment, NULL);
    }
    pthread_cancel(thread);
    ready = 2;
    pthread_join(thread, &result);
    printf("%s: cancelled %d, cleaned %d, ran on %d\n", sleeper_name[job.which], result == PTHREAD_CANCELED, cleaned,
           late_ran);
}

void cancellation(void) {
    static const int64_t spans[] = {5000, 300000, 3 * SECOND};
    for (int which = 0; which < SLEEPERS; which++) {
        for (size_t s = 0; s < sizeof spans / sizeof *spans; s++) {
            if (which == SLEEP && spans[s] < SECOND)
                continue;
            one((struct job){which, spans[s], IN_THE_MIDST});
            one((struct job){which, spans[s], PENDING});
        }
        if (which != SLEEP)
            one((struct job){which, 100000, DISABLED});
    }
    /* Places that cancelled threads held are free again. */
    int cancelled = 0;
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        void *result;
        struct job job = {USLEEP, 100000 + i * 100, IN_THE_MIDST};
        ready = 0;
        pthread_create(&thread, NULL, sleeper, &job);
        while (ready != 1)
            ;
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("600 threads, one after another: cancelled %d\n", cancelled);
}
