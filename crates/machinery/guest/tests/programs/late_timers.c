// A timer has expired by the clock: the native effects of an expiration must be visible, however
// late the sender of its signal is.
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>

// Time after the expiration at which a case checks: natively the signal comes at once.
#define LATER_NS (50 * MS)

static volatile sig_atomic_t handled;
static void count(int signal) {
    (void)signal;
    handled++;
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
static void handle(int signal) {
    // (Waits with a timeout are not restarted in any case.)
    struct sigaction action = { .sa_handler = count, .sa_flags = SA_RESTART };
    sigaction(signal, &action, NULL);
}
static int is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

// A timer that sends SIGUSR1 at `expiry`.
static timer_t armed(int64_t expiry, int64_t interval_ns) {
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4711 };
    struct itimerspec setting = { .it_value = spec(expiry), .it_interval = spec(interval_ns) };
    timer_t id;
    if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0) _exit(70);
    if (timer_settime(id, TIMER_ABSTIME, &setting, NULL) != 0) _exit(71);
    return id;
}
static int64_t expiry(struct outcome *out) { return out->begun_ns + out->want_ns; }
static timer_t armed_and_blocked(struct outcome *out, int64_t interval_ns) {
    sigset_t set = only(SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return armed(expiry(out), interval_ns);
}
// Returns the time left until a while after the expiration; never zero, which would not be a wait.
static int64_t left_ns(struct outcome *out) {
    int64_t left = expiry(out) + LATER_NS - mono_ns();
    return left > MS ? left : MS;
}
static void spin_until_later(struct outcome *out) {
    while (mono_ns() < expiry(out) + LATER_NS) {}
}

// Waits that last until after the expiration.

static long run_sleep(struct outcome *out) {
    armed_and_blocked(out, 0);
    struct timespec end = spec(expiry(out) + LATER_NS);
    long ret = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_sleep_interrupted(struct outcome *out) {
    handle(SIGUSR1);
    long ret;
    do { // again if it came before the wait had begun
        handled = 0;
        int64_t at = mono_ns() + out->want_ns;
        struct timespec end = spec(at + LATER_NS);
        armed(at, 0);
        ret = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    } while (ret == 0 && handled);
    note(out, "handled=%d", handled);
    return ret;
}
static long run_poll(struct outcome *out) {
    armed_and_blocked(out, 0);
    long ret = FAILS(poll(NULL, 0, (int)(left_ns(out) / MS)));
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_ppoll_interrupted(struct outcome *out) {
    handle(SIGUSR1);
    armed_and_blocked(out, 0);
    struct timespec left = spec(left_ns(out));
    sigset_t none;
    sigemptyset(&none);
    long ret = FAILS(ppoll(NULL, 0, &left, &none));
    note(out, "handled=%d", handled);
    return ret;
}
static long run_pselect(struct outcome *out) {
    armed_and_blocked(out, 0);
    struct timespec left = spec(left_ns(out));
    long ret = FAILS(pselect(0, NULL, NULL, NULL, &left, NULL));
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_epoll(struct outcome *out) {
    armed_and_blocked(out, 0);
    struct epoll_event event;
    long ret = FAILS(epoll_wait(epoll_create1(0), &event, 1, (int)(left_ns(out) / MS)));
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_condition(struct outcome *out) {
    armed_and_blocked(out, 0);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end = spec(mono_ns() + left_ns(out));
    pthread_mutex_lock(&mutex);
    long ret;
    do ret = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end); while (ret == 0);
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_sigtimedwait(struct outcome *out) {
    armed_and_blocked(out, 0);
    sigset_t set = only(SIGUSR1);
    struct timespec left = spec(left_ns(out));
    siginfo_t information = { 0 };
    long ret = FAILS(sigtimedwait(&set, &information, &left));
    note(out, "value=%d", information.si_value.sival_int);
    return ret;
}
static long run_timerfd(struct outcome *out) { // which expires after it
    armed_and_blocked(out, 0);
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec setting = { .it_value = spec(expiry(out) + LATER_NS) };
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL);
    uint64_t expirations;
    long ret = FAILS(read(fd, &expirations, sizeof expirations));
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}

// Cases that read the clock, and check.

static long run_pending(struct outcome *out) {
    armed_and_blocked(out, 0);
    spin_until_later(out);
    return is_pending(SIGUSR1);
}
static long run_sigtimedwait_at_once(struct outcome *out) {
    armed_and_blocked(out, 0);
    spin_until_later(out);
    sigset_t set = only(SIGUSR1);
    struct timespec none = { 0 };
    return FAILS(sigtimedwait(&set, NULL, &none));
}
static long run_gettime(struct outcome *out) {
    timer_t id = armed_and_blocked(out, 0);
    spin_until_later(out);
    struct itimerspec left;
    long ret = FAILS(timer_gettime(id, &left));
    note(out, "left=%lld,pending=%d", (long long)(left.it_value.tv_sec * S + left.it_value.tv_nsec),
        is_pending(SIGUSR1));
    return ret;
}
// The signal is sent at the first expiration; all others are overruns of it.
static long run_getoverrun(struct outcome *out) {
    int64_t interval_ns = MS;
    timer_t id = armed_and_blocked(out, interval_ns);
    spin_until_later(out);
    int none = timer_getoverrun(id);
    sigset_t set = only(SIGUSR1);
    struct timespec at_once = { 0 };
    long ret = FAILS(sigtimedwait(&set, NULL, &at_once));
    int overruns = timer_getoverrun(id);
    note(out, "none=%d,enough=%d,not_too_many=%d", none, overruns >= LATER_NS / interval_ns - 1,
        overruns <= (mono_ns() - expiry(out)) / interval_ns);
    return ret;
}
static long run_deleted(struct outcome *out) { // after it: the signal stays
    timer_t id = armed_and_blocked(out, 0);
    spin_until_later(out);
    long ret = FAILS(timer_delete(id));
    note(out, "pending=%d", is_pending(SIGUSR1));
    return ret;
}
static long run_alarm_replaced(struct outcome *out) { // after it
    handle(SIGALRM);
    struct itimerval setting = { .it_value = { out->want_ns / S, out->want_ns % S / 1000 } }, none = { 0 }, old;
    setitimer(ITIMER_REAL, &setting, NULL);
    out->begun_ns = mono_ns();
    spin_until_later(out);
    long ret = FAILS(setitimer(ITIMER_REAL, &none, &old));
    note(out, "handled=%d,left=%ld", handled, (long)(old.it_value.tv_sec * 1000000 + old.it_value.tv_usec));
    return ret;
}

static const struct test_case cases[] = {
    CASE(sleep), CASE(sleep_interrupted), CASE(poll), CASE(ppoll_interrupted), CASE(pselect), CASE(epoll),
    CASE(condition), CASE(sigtimedwait), CASE(timerfd), CASE(pending), CASE(sigtimedwait_at_once),
    CASE(gettime), CASE(getoverrun), CASE(deleted), CASE(alarm_replaced),
};
MAIN(cases)
