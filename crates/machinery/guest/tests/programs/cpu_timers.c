// POSIX timers and sleeps of processor time: they end when that much has been used, by the clock
// that the program sees. If the case itself sleeps, a helper uses it.
#include "common.h"
#include <pthread.h>

static int64_t process(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static int64_t thread(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
// The duration of a case that needs the processor depends on the load of the machine.
static void judged(struct outcome *out) {
    out->begun_ns = mono_ns();
    out->want_ns = 0;
}
static volatile sig_atomic_t fired;
#define TRY(call) { errno = 0; long got = call; snprintf(text + strlen(text), 16, "%ld/%d,", got, errno); }

static volatile int enough;
static void *burner(void *arg) {
    while (!enough) {}
    return arg;
}
static void *by_signal(void *arg) {
    // This thread is the only one that receives the signal.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    *(pid_t *)arg = (pid_t)syscall(SYS_gettid);
    while (!fired) {}
    return arg;
}
static volatile int fired_code, fired_value;
static volatile pid_t fired_in;
static void fire_info(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    fired_code = info->si_code;
    fired_value = info->si_value.sival_int;
    fired_in = (pid_t)syscall(SYS_gettid);
    fired++;
}
static timer_t posix_timer(clockid_t clock, int how, pid_t tid) {
    struct sigaction action = { .sa_sigaction = fire_info, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct sigevent event = { .sigev_notify = how, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42 };
    event._sigev_un._tid = tid;
    timer_t id;
    sigaction(SIGUSR1, &action, NULL);
    if (timer_create(clock, &event, &id) != 0) _exit(95);
    return id;
}
// Fires when an eighth of the wait has been used, not before and only once.
static long posix(struct outcome *out, clockid_t clock, int64_t (*used)(void), int absolute) {
    timer_t id = posix_timer(clock, SIGEV_SIGNAL, 0);
    int64_t span = out->want_ns / 16, begun = used();
    struct itimerspec wanted = { .it_value = spec(absolute ? begun + span : span) }, left, old;
    long ret = timer_settime(id, absolute ? TIMER_ABSTIME : 0, &wanted, NULL);
    timer_gettime(id, &left);
    int64_t left_ns = left.it_value.tv_sec * S + left.it_value.tv_nsec;
    while (!fired) {}
    int64_t lasted = used() - begun;
    timer_gettime(id, &old);
    // The kernel checks these timers at its ticks, which a busy machine delays.
    note(out, "early=%d,late=%d,left=%d,code=%d,value=%d,over=%d", lasted < span, lasted > span + 5 * S,
         left_ns > span / 2 && left_ns <= span + MS, fired_code, fired_value, old.it_value.tv_sec == 0 && old.it_value.tv_nsec == 0);
    judged(out);
    return ret + timer_delete(id);
}
static clockid_t own_number(void) {
    clockid_t id;
    clock_getcpuclockid(getpid(), &id);
    return id;
}
static long run_posix_process(struct outcome *out) { return posix(out, CLOCK_PROCESS_CPUTIME_ID, process, 0); }
static long run_posix_process_at(struct outcome *out) { return posix(out, CLOCK_PROCESS_CPUTIME_ID, process, 1); }
static long run_posix_thread(struct outcome *out) { return posix(out, CLOCK_THREAD_CPUTIME_ID, thread, 0); }
static long run_posix_thread_at(struct outcome *out) { return posix(out, CLOCK_THREAD_CPUTIME_ID, thread, 1); }
static long run_posix_by_number(struct outcome *out) { return posix(out, own_number(), process, 1); }

// A timer on another process's clock.
static long run_posix_of_child(struct outcome *out) {
    pid_t child = fork();
    if (child == 0) for (;;) {}
    clockid_t clock;
    struct timespec now;
    clock_getcpuclockid(child, &clock);
    timer_t id = posix_timer(clock, SIGEV_SIGNAL, 0);
    struct itimerspec wanted = { .it_value = spec(out->want_ns / 16) };
    long ret = timer_settime(id, 0, &wanted, NULL);
    while (!fired) rest_ns(MS);
    clock_gettime(clock, &now);
    kill(child, SIGKILL);
    // The additional use until this process gets the processor depends on the load of the machine.
    note(out, "early=%d", now.tv_sec * S + now.tv_nsec < out->want_ns / 16);
    judged(out);
    return ret;
}
// The signal goes to one thread, repeatedly, with overruns while it is blocked.
static long run_posix_periodic(struct outcome *out) {
    pthread_t thread_id;
    volatile pid_t tid = 0;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread_id, NULL, by_signal, (void *)&tid);
    while (!tid) {}
    timer_t id = posix_timer(CLOCK_PROCESS_CPUTIME_ID, SIGEV_THREAD_ID, tid);
    int64_t period = out->want_ns / 32, begun = process();
    struct itimerspec wanted = { .it_value = spec(period), .it_interval = spec(period) }, now;
    long ret = timer_settime(id, 0, &wanted, NULL);
    timer_gettime(id, &now);
    pthread_join(thread_id, NULL);
    int64_t first = process() - begun;
    timer_delete(id);
    int in_thread = fired_in == tid;
    // Then the signal goes to this thread, which blocks it for eight periods.
    id = posix_timer(CLOCK_PROCESS_CPUTIME_ID, SIGEV_THREAD_ID, (pid_t)syscall(SYS_gettid));
    begun = process();
    ret += timer_settime(id, 0, &wanted, NULL);
    while (process() - begun < 8 * period + 50 * MS) {}
    int64_t passed = (process() - begun) / period;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    int overrun = timer_getoverrun(id);
    timer_delete(id);
    note(out, "early=%d,in_thread=%d,interval=%d,overrun_ok=%d", first < period, in_thread,
         now.it_interval.tv_sec * S + now.it_interval.tv_nsec >= period - 1000 && now.it_interval.tv_sec * S + now.it_interval.tv_nsec <= period + 1000,
         overrun >= 1 && overrun <= passed + 4);
    judged(out);
    return ret;
}
static long slept(struct outcome *out, clockid_t clock, int64_t (*used)(void), int absolute) {
    pthread_t helper;
    pthread_create(&helper, NULL, burner, NULL);
    int64_t span = out->want_ns / 16, begun = used();
    struct timespec wait = spec(absolute ? begun + span : span), left = { 7, 7 };
    long ret = clock_nanosleep(clock, absolute ? TIMER_ABSTIME : 0, &wait, &left);
    int64_t lasted = used() - begun;
    enough = 1;
    pthread_join(helper, NULL);
    note(out, "early=%d,left=%ld", lasted < span, (long)left.tv_sec);
    judged(out);
    return ret;
}
static long run_slept(struct outcome *out) { return slept(out, CLOCK_PROCESS_CPUTIME_ID, process, 0); }
static long run_slept_until(struct outcome *out) { return slept(out, CLOCK_PROCESS_CPUTIME_ID, process, 1); }
static long run_slept_by_number(struct outcome *out) { return slept(out, own_number(), process, 0); }

static long run_slept_interrupted(struct outcome *out) {
    pthread_t helper;
    // The helper must not take the signal.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&helper, NULL, burner, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    timer_t id = posix_timer(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, 0);
    struct itimerspec soon = { .it_value = spec(out->want_ns / 32) };
    int64_t span = 100 * S, begun = process();
    struct timespec wait = spec(span), left = { 0, 0 };
    timer_settime(id, 0, &soon, NULL);
    long ret = clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &wait, &left);
    int64_t lasted = process() - begun, left_ns = left.tv_sec * S + left.tv_nsec;
    enough = 1;
    pthread_join(helper, NULL);
    note(out, "fired=%d,sum=%d", fired, lasted + left_ns > span - 100 * MS && lasted + left_ns < span + 30 * S);
    judged(out);
    return ret;
}
// Clock of a process that does not exist, by its number.
#define NOBODY (~99999999 * 8 + 2)
static long run_posix_errors(struct outcome *out) {
    struct itimerspec wrong = { .it_value = { 0, S } }, negative = { .it_interval = { -1, 0 } }, good = { .it_value = { 100, 0 } }, old;
    struct timespec bad = { 0, S }, nap = { 0, 1 };
    struct sigevent event = { .sigev_notify = 77 };
    char text[400] = "";
    int id = -1;
    out->want_ns = 0;
    TRY(syscall(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, &event, &id))
    TRY(syscall(SYS_timer_create, NOBODY, NULL, &id))
    TRY(syscall(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, NULL, &id))
    TRY(syscall(SYS_timer_settime, id, 0, &wrong, NULL))
    TRY(syscall(SYS_timer_settime, id, 0, &negative, NULL))
    TRY(syscall(SYS_timer_settime, id, 0, NULL, NULL))
    TRY(syscall(SYS_timer_settime, id, 0, 8, NULL))
    TRY(syscall(SYS_timer_settime, id, 0, &good, 8))
    TRY(syscall(SYS_timer_settime, id, 0, &good, &old))
    TRY(syscall(SYS_timer_gettime, id, 8))
    TRY(syscall(SYS_timer_gettime, 4711, &old))
    TRY(syscall(SYS_timer_settime, 4711, 0, &good, NULL))
    TRY(syscall(SYS_timer_getoverrun, 4711))
    TRY(syscall(SYS_timer_delete, 4711))
    TRY(syscall(SYS_timer_delete, id))
    TRY(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, &bad, NULL))
    TRY(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &nap, NULL))
    TRY(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, 8, NULL))
    TRY(syscall(SYS_clock_nanosleep, NOBODY, 0, &nap, NULL))
    note(out, "%s,%d", text, old.it_value.tv_sec >= 99);
    return 0;
}

static const struct test_case cases[] = {
    CASE(posix_process), CASE(posix_process_at), CASE(posix_thread), CASE(posix_thread_at), CASE(posix_by_number),
    CASE(posix_of_child), CASE(posix_periodic), CASE(slept), CASE(slept_until), CASE(slept_by_number), CASE(slept_interrupted),
    CASE(posix_errors),
};
MAIN(cases)
