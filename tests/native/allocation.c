/* Once the clock runs, a reading takes no memory: every call of the heap is counted. */
#define _GNU_SOURCE
#include "check.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static int counting;
static long calls;

void *malloc(size_t size) {
    calls += counting;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    calls += counting;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    calls += counting;
    return __libc_realloc(old, size);
}

int main(void) {
    CHECK(vtare_clock_start(NULL) == 0);
    counting = 1;
    uint64_t last = 0;
    for (int i = 0; i < 200000; i++) {
        const uint64_t now = vtare_now_ordered_ns();
        CHECK(now >= last && vtare_now_ns() > 0);
        CHECK(vtare_ticks_to_ns((int64_t)(vtare_tick_stop() - vtare_tick_start())) <= 0 || vtare_tick() > 0);
        last = now;
    }
    CHECK(calls == 0);
    /* The counting itself works: the first sleep takes memory, the second none. */
    CHECK(vtare_sleep_ns(1) == 0 && calls > 0);
    const long first = calls;
    CHECK(vtare_sleep_ns(1000) == 0 && calls == first);
    return 0;
}
