/* fork with and without exec, vfork, from a busy process; libraries loaded at run time, with thread-local storage. */
#include "conformance.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop, failed;

static void *busy(void *argument) {
    (void)argument;
    while (!stop) {
        struct timespec at;
        failed += usleep(50) != 0;
        failed += clock_gettime(CLOCK_MONOTONIC, &at) != 0;
    }
    return NULL;
}

static void *in_thread(void *function) {
    ((void (*)(void))function)();
    return NULL;
}

/* The child of one thread of many: only it goes on. */
static void child_works(void) {
    int right = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            int bad = 0;
            for (int k = 0; k < 5; k++) {
                int64_t begun = now_ns();
                bad += usleep(150) != 0;
                bad += now_ns() - begun < 150000;
            }
            pthread_t more;
            void *answer;
            stop = 1;
            bad += pthread_create(&more, NULL, busy, NULL) != 0;
            bad += pthread_join(more, &answer) != 0;
            _exit(bad);
        }
        int status;
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    printf("forked children that slept and ended well: %d of 20\n", right);
}

static void started(const char *self) {
    int status;
    pid_t child = vfork();
    if (child == 0) {
        execl(self, self, "--child", (char *)NULL);
        _exit(99);
    }
    waitpid(child, &status, 0);
    printf("vfork and exec: exit %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) {
        usleep(100);
        execl(self, self, "--child", (char *)NULL);
        _exit(99);
    }
    waitpid(child, &status, 0);
    printf("fork, sleep and exec: exit %d\n", WEXITSTATUS(status));
    printf("system: exit %d\n", WEXITSTATUS(system("sleep 0.01; exit 5")));
}

static void *uses(void *plugin) {
    int (*work)(void) = (int (*)(void))dlsym(plugin, "plugin_work");
    failed += work == NULL || work() != 0;
    return NULL;
}

static void loaded(const char *path) {
    failed = 0;
    for (int i = 0; i < 5; i++) {
        void *plugin = dlopen(path, RTLD_NOW);
        if (plugin == NULL) {
            printf("dlopen: %s\n", dlerror());
            return;
        }
        uses(plugin);
        pthread_t thread;
        pthread_create(&thread, NULL, uses, plugin);
        pthread_join(thread, NULL);
        dlclose(plugin);
    }
    int (*next)(useconds_t) = (int (*)(useconds_t))dlsym(RTLD_DEFAULT, "usleep");
    failed += next == NULL || next(100) != 0;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    int (*own)(useconds_t) = (int (*)(useconds_t))dlsym(libc, "usleep");
    failed += own == NULL || own(100) != 0;
    printf("a library loaded at run time: failed %d\n", failed);
}

void processes(const char *self, const char *plugin) {
    pthread_t threads[4], forker;
    stop = failed = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    child_works();
    pthread_create(&forker, NULL, in_thread, (void *)child_works);
    pthread_join(forker, NULL);
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("threads of the parent: failed %d\n", failed);
    started(self);
    loaded(plugin);
}
