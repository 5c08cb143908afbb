// Signals of the program's own during a timed wait. A helper sends SIGUSR1 after WAIT, or as soon
// as a busy machine permits; the waits' limits are far beyond.
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/select.h>

static volatile sig_atomic_t handled;
static void count(int signal) { (void)signal; handled++; }

static void install(void (*handler)(int), int flags) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGUSR1, &action, NULL) != 0) _exit(96);
}

static const volatile int *sent;
static void signal_me_later(struct outcome *out) { sent = signal_at(out->begun_ns + out->want_ns, SIGUSR1); }

static struct timespec limit(void) { return spec(FAR_NS); }
static struct timespec limit_at(clockid_t clock) { return spec(clock_ns(clock) + FAR_NS); }

// The waits, each to be interrupted.
typedef long wait_call(struct outcome *);
static long wait_nanosleep(struct outcome *out) {
    struct timespec wait = limit(), left = { 0, 0 };
    long ret = FAILS(nanosleep(&wait, &left));
    int64_t left_ns = left.tv_sec * S + left.tv_nsec;
    int64_t sum = left_ns + (mono_ns() - out->begun_ns);
    // The remaining and the passed time sum up to the requested time.
    note(out, "handled=%d,left_ok=%d", handled == *sent, left_ns > 0 && sum >= FAR_NS);
    return ret;
}
static long wait_relative(struct outcome *out) {
    struct timespec wait = limit(), left = { 0, 0 };
    long ret = clock_nanosleep(CLOCK_REALTIME, 0, &wait, &left);
    note(out, "handled=%d,left_ok=%d", handled == *sent, left.tv_nsec > 0 || left.tv_sec > 0);
    return ret;
}
static long wait_absolute(struct outcome *out) {
    struct timespec until = limit_at(CLOCK_MONOTONIC), left = { 7, 7 };
    long ret = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, &left);
    note(out, "handled=%d,left=%ld,%ld", handled == *sent, (long)left.tv_sec, left.tv_nsec);
    return ret;
}
static long wait_poll(struct outcome *out) {
    long ret = FAILS(poll(NULL, 0, FAR_MS));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_ppoll(struct outcome *out) {
    struct timespec wait = limit();
    long ret = FAILS(ppoll(NULL, 0, &wait, NULL));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_select(struct outcome *out) {
    struct timespec wait = limit();
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(0, &readable);
    int fds[2];
    if (pipe(fds) != 0) _exit(98);
    dup2(fds[0], 0);
    long ret = FAILS(pselect(1, &readable, NULL, NULL, &wait, NULL));
    note(out, "handled=%d,isset=%d", handled == *sent, FD_ISSET(0, &readable) != 0); // untouched
    return ret;
}
static long wait_epoll(struct outcome *out) {
    struct epoll_event got;
    long ret = FAILS(epoll_wait(epoll_create1(0), &got, 1, FAR_MS));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_epoll_endless(struct outcome *out) {
    struct epoll_event got;
    long ret = FAILS(epoll_wait(epoll_create1(0), &got, 1, -1));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_futex(struct outcome *out) {
    uint32_t word = 0;
    struct timespec wait = limit();
    long ret = FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &wait, NULL, 0));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_futex_bitset(struct outcome *out) {
    uint32_t word = 0;
    struct timespec until = limit_at(CLOCK_REALTIME);
    long ret = FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &until, NULL, ~0));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
static long wait_semaphore(struct outcome *out) {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until = limit_at(CLOCK_REALTIME);
    long ret = FAILS(sem_timedwait(&semaphore, &until));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
// POSIX: never EINTR. Lasts to its end, with the handler in its middle; if the signal came too
// late, once more.
static long wait_condition(struct outcome *out) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    long ret = 0;
    do {
        struct timespec until = spec(clock_ns(CLOCK_REALTIME) + 4 * out->want_ns);
        do ret = pthread_cond_timedwait(&condition, &mutex, &until); while (ret == 0);
    } while (handled == 0 && ret == ETIMEDOUT);
    note(out, "handled=%d", handled == *sent);
    out->want_ns *= 4;
    return ret;
}

#define INTERRUPTED(name) \
    static long run_##name(struct outcome *out) { install(count, 0); signal_me_later(out); return wait_##name(out); } \
    static long run_##name##_restart(struct outcome *out) { \
        install(count, SA_RESTART); signal_me_later(out); return wait_##name(out); \
    } \
    static long run_##name##_jump(struct outcome *out) { \
        install(jump, 0); \
        int landed = sigsetjmp(landing, 1); \
        if (landed == 0) { signal_me_later(out); return wait_##name(out) * 1000; } \
        /* After the jump everything works as before: signals, waits, clocks. */ \
        struct timespec wait = spec(out->want_ns / 2); \
        long ret = FAILS(nanosleep(&wait, NULL)); \
        sigset_t mask; \
        sigprocmask(SIG_SETMASK, NULL, &mask); \
        note(out, "landed=%d,usr1=%d", landed, sigismember(&mask, SIGUSR1)); \
        out->want_ns += out->want_ns / 2; \
        return ret; \
    }
static sigjmp_buf landing;
static void jump(int signal) { siglongjmp(landing, signal); }

INTERRUPTED(nanosleep) INTERRUPTED(relative) INTERRUPTED(absolute) INTERRUPTED(poll) INTERRUPTED(ppoll)
INTERRUPTED(select) INTERRUPTED(epoll) INTERRUPTED(epoll_endless) INTERRUPTED(futex)
INTERRUPTED(futex_bitset) INTERRUPTED(semaphore) INTERRUPTED(condition)

#define CASES(name) CASE(name), CASE(name##_restart), CASE(name##_jump)
static const struct test_case cases[] = {
    CASES(nanosleep), CASES(relative), CASES(absolute), CASES(poll), CASES(ppoll), CASES(select),
    CASES(epoll), CASES(epoll_endless), CASES(futex), CASES(futex_bitset), CASES(semaphore), CASES(condition),
};
MAIN(cases)
