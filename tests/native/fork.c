/* A child reads and sleeps on the parent's clock: forked before the clock runs, after, and while threads use it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static atomic_int done;

static void in_child(uint64_t not_before) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(vtare_now_ordered_ns() >= not_before);
        check_agreement();
        check_sleeps();
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *busy(void *unused) {
    (void)unused;
    while (!done) {
        CHECK(vtare_now_ns() > 0);
        CHECK(vtare_sleep_ns(1000) == 0);
    }
    return NULL;
}

int main(void) {
    in_child(0);
    in_child(vtare_now_ordered_ns());
    check_sleeps();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, busy, NULL) == 0);
    }
    for (int i = 0; i < 20; i++) {
        in_child(vtare_now_ordered_ns());
    }
    done = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
