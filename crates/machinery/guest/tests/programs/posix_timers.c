// Timers that send signals or start threads when they expire.
#include "common.h"
#include <pthread.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static volatile int last_code, last_value;
static void count(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)context;
    handled++;
    last_code = information->si_code;
    last_value = information->si_value.sival_int;
}
static void install(int signal) {
    struct sigaction action = { .sa_sigaction = count, .sa_flags = SA_SIGINFO };
    sigaction(signal, &action, NULL);
}
// Waits repeatedly, so that the last expiry's handler has run.
static void until_handled(int times) {
    sigset_t none;
    sigemptyset(&none);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGALRM);
    sigaddset(&both, SIGUSR1);
    sigprocmask(SIG_BLOCK, &both, NULL);
    while (handled < times) sigsuspend(&none);
}
static struct timeval day(int64_t ns) { return (struct timeval){ ns / S, ns % S / 1000 }; }

static long run_itimer(struct outcome *out) {
    install(SIGALRM);
    struct itimerval far = { .it_value = day(FAR_NS) }, setting = { .it_value = day(out->want_ns) }, left;
    setitimer(ITIMER_REAL, &far, NULL);
    getitimer(ITIMER_REAL, &left);
    int64_t left_ns = left.it_value.tv_sec * S + left.it_value.tv_usec * 1000;
    setitimer(ITIMER_REAL, &setting, NULL);
    until_handled(1);
    note(out, "left_ok=%d", left_ns > 0 && left_ns <= FAR_NS + 1000);
    return handled;
}
static long run_itimer_interrupts(struct outcome *out) { // a wait ended by the timer's signal
    install(SIGALRM);
    // Again if it came before the wait had begun.
    struct itimerval setting = { .it_value = day(out->want_ns), .it_interval = day(20 * S) };
    setitimer(ITIMER_REAL, &setting, NULL);
    struct timespec wait = spec(FAR_NS);
    long ret = FAILS(nanosleep(&wait, NULL));
    note(out, "handled=%d", handled > 0);
    return ret;
}
static long run_itimer_periodic(struct outcome *out) {
    install(SIGALRM);
    struct itimerval setting = { .it_value = day(out->want_ns / 4), .it_interval = day(out->want_ns / 4) };
    setitimer(ITIMER_REAL, &setting, NULL);
    until_handled(4);
    return handled >= 4;
}
static long run_alarm(struct outcome *out) {
    install(SIGALRM);
    unsigned before = alarm(100), replaced = alarm(1);
    until_handled(1);
    note(out, "before=%u,replaced=%d", before, replaced > 1 && replaced <= 100);
    out->want_ns = S;
    return handled;
}
static long run_alarm_cancelled(struct outcome *out) {
    install(SIGALRM);
    struct itimerval setting = { .it_value = day(out->want_ns / 2) }, none = { 0 }, old;
    // Before it expires, on any busy machine.
    do {
        handled = 0;
        setitimer(ITIMER_REAL, &setting, NULL);
        setitimer(ITIMER_REAL, &none, &old);
    } while (old.it_value.tv_usec == 0);
    struct timespec wait = spec(out->want_ns);
    long ret = FAILS(nanosleep(&wait, NULL));
    note(out, "handled=%d", handled);
    return ret;
}
static long timer(struct outcome *out, clockid_t clock, int flags) {
    install(SIGUSR1);
    timer_t id;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4711 };
    if (timer_create(clock, &event, &id) != 0) return FAILS(-1);
    int64_t now_ns = flags & TIMER_ABSTIME ? clock_ns(clock) : 0;
    struct itimerspec far = { .it_value = spec(now_ns + FAR_NS) }, left;
    struct itimerspec setting = { .it_value = spec(now_ns + out->want_ns) };
    if (timer_settime(id, flags, &far, NULL) != 0) return FAILS(-1);
    timer_gettime(id, &left);
    int64_t left_ns = left.it_value.tv_sec * S + left.it_value.tv_nsec;
    if (timer_settime(id, flags, &setting, NULL) != 0) return FAILS(-1);
    until_handled(1);
    note(out, "left_ok=%d,code=%d,value=%d,overrun=%d", left_ns > 0 && left_ns <= FAR_NS, last_code, last_value,
        timer_getoverrun(id));
    return timer_delete(id);
}
static long run_timer_mono(struct outcome *out) { return timer(out, CLOCK_MONOTONIC, 0); }
static long run_timer_real_abs(struct outcome *out) { return timer(out, CLOCK_REALTIME, TIMER_ABSTIME); }
static long run_timer_mono_abs(struct outcome *out) { return timer(out, CLOCK_MONOTONIC, TIMER_ABSTIME); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int called;
static void in_thread(union sigval value) {
    pthread_mutex_lock(&mutex);
    called = value.sival_int;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}
static long run_timer_thread(struct outcome *out) {
    timer_t id;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 42 };
    if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0) return FAILS(-1);
    struct itimerspec setting = { .it_value = spec(out->want_ns) };
    if (timer_settime(id, 0, &setting, NULL) != 0) return FAILS(-1);
    pthread_mutex_lock(&mutex);
    while (!called) pthread_cond_wait(&condition, &mutex);
    note(out, "called=%d", called);
    return 0;
}

// The signal is ignored, and a thread waits for it: the kernel keeps it for that thread.
static long run_timer_ignored(struct outcome *out) {
    signal(SIGUSR2, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_t id;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value.sival_int = 43 };
    if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0) return FAILS(-1);
    struct itimerspec setting = { .it_value = spec(out->want_ns) };
    if (timer_settime(id, 0, &setting, NULL) != 0) return FAILS(-1);
    siginfo_t information = { 0 };
    long got = FAILS(sigwaitinfo(&set, &information));
    note(out, "value=%d", information.si_value.sival_int);
    return got;
}

// Expirations while the signal is blocked are overruns of the pending one. (SIGCONT: its default
// action has no effect, so that for a timer which expires all the time the next signal does not
// count.)
static long overruns_of(struct outcome *out, int64_t interval_ns) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCONT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_t id;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT };
    if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0) return FAILS(-1);
    struct itimerspec setting = { .it_value = spec(out->want_ns / 2), .it_interval = spec(interval_ns) };
    int64_t earliest = mono_ns() + out->want_ns / 2;
    if (timer_settime(id, 0, &setting, NULL) != 0) return FAILS(-1);
    int64_t latest = mono_ns() + out->want_ns / 2;
    rest_ns(out->want_ns);
    // Its first expiration, which a busy machine notices late.
    sigset_t pending;
    do { rest_ns(MS); sigpending(&pending); } while (!sigismember(&pending, SIGCONT));
    int none = timer_getoverrun(id);
    int64_t before = mono_ns();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    int64_t overruns = timer_getoverrun(id);
    int64_t after = mono_ns();
    note(out, "none=%d,enough=%d,not_too_many=%d", none, overruns >= (before - latest) / interval_ns - 1,
        overruns <= (after - earliest) / interval_ns);
    return timer_delete(id);
}
static long run_overruns(struct outcome *out) { return overruns_of(out, 3 * MS); }
static long run_overruns_of_2_ns(struct outcome *out) { return overruns_of(out, 2); }

// The count is limited to DELAYTIMER_MAX.
static long run_overruns_without_end(struct outcome *out) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_t id;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    if (timer_create(CLOCK_REALTIME, &event, &id) != 0) return FAILS(-1);
    struct itimerspec setting = { .it_value = spec(1), .it_interval = spec(1) };
    if (timer_settime(id, TIMER_ABSTIME, &setting, NULL) != 0) return FAILS(-1);
    siginfo_t information;
    sigwaitinfo(&set, &information);
    out->want_ns = 0;
    note(out, "told=%d,asked=%d", information.si_overrun, timer_getoverrun(id));
    return timer_delete(id);
}

// Two timers that expire at the same instant with the same signal: each sends its own, repeatedly.
static long run_two_of_one_signal(struct outcome *out) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3 };
    timer_t ids[2];
    int64_t at = mono_ns() + out->want_ns / 2;
    for (int i = 0; i < 2; i++) {
        event.sigev_value.sival_int = i;
        if (timer_create(CLOCK_MONOTONIC, &event, &ids[i]) != 0) return FAILS(-1);
        struct itimerspec setting = { .it_value = spec(at), .it_interval = spec(out->want_ns / 2) };
        if (timer_settime(ids[i], TIMER_ABSTIME, &setting, NULL) != 0) return FAILS(-1);
    }
    int came[2] = { 0, 0 };
    siginfo_t information;
    while (came[0] < 2 || came[1] < 2) {
        sigwaitinfo(&set, &information);
        came[information.si_value.sival_int]++;
    }
    return came[0] + came[1] == 4 ? 4 : came[0] + came[1] > 4;
}

static const struct test_case cases[] = {
    CASE(itimer), CASE(itimer_interrupts), CASE(itimer_periodic), CASE(alarm), CASE(alarm_cancelled),
    CASE(timer_mono), CASE(timer_real_abs), CASE(timer_mono_abs), CASE(timer_thread), CASE(timer_ignored),
    CASE(overruns), CASE(overruns_of_2_ns), CASE(overruns_without_end), CASE(two_of_one_signal),
};
MAIN(cases)
