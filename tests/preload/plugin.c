/* A library that is loaded at run time, with thread-local storage, whose code sleeps and reads clocks. */
#define _GNU_SOURCE
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char storage[8192];

int plugin_work(void);

__attribute__((constructor)) static void at_load(void) { usleep(100); }

int plugin_work(void) {
    struct timespec at;
    struct timeval wall;
    storage[17] = 1;
    return usleep(200) + clock_gettime(CLOCK_MONOTONIC, &at) + gettimeofday(&wall, NULL) + (time(NULL) <= 0);
}
