// Processor time, while the harness pauses and changes the rate. Each case uses processor time, by
// the clock it sees, for WAIT; natively and under the clock that cannot take less time than it
// uses, and no reading may be less than one before.
#include "common.h"
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

static int64_t of_usage(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * S + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}
static int64_t process(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static int64_t thread(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
static int64_t raw_process(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * S + now.tv_nsec;
}
static int64_t by_number(void) {
    clockid_t id;
    clock_getcpuclockid(getpid(), &id);
    return clock_ns(id);
}
static int64_t by_thread_number(void) {
    clockid_t id;
    pthread_getcpuclockid(pthread_self(), &id);
    return clock_ns(id);
}
static int64_t c_clock(void) { return (int64_t)clock() * (S / CLOCKS_PER_SEC); }
static int64_t usage_self(void) { return of_usage(RUSAGE_SELF); }
static int64_t usage_thread(void) { return of_usage(RUSAGE_THREAD); }
static int64_t by_times(void) {
    struct tms tms;
    times(&tms);
    return (tms.tms_utime + tms.tms_stime) * (S / 100);
}

// The duration of a case that needs the processor depends on the load of the machine.
static void judged(struct outcome *out) {
    out->begun_ns = mono_ns();
    out->want_ns = 0;
}
// Uses processor time for an eighth of the wait, so that many concurrent cases get their share.
static long burn(struct outcome *out, int64_t (*used)(void)) {
    int64_t begun = used(), last = begun, steps_back = 0, wall = mono_ns();
    while (last - begun < out->want_ns / 8) {
        for (volatile int i = 0; i < 20000; i++) {}
        int64_t now = used();
        steps_back += now < last;
        last = now;
    }
    // No computation uses more time than it lasts, except for the resolution of `times`.
    int64_t lasted = mono_ns() - wall;
    note(out, "steps_back=%lld,too_much=%d", (long long)steps_back, last - begun > lasted + 25 * MS);
    judged(out);
    return 0;
}
#define BURN(name) static long run_##name(struct outcome *out) { return burn(out, name); }
BURN(process) BURN(thread) BURN(raw_process) BURN(by_number) BURN(by_thread_number) BURN(c_clock)
BURN(usage_self) BURN(usage_thread) BURN(by_times)

// All clocks of one process agree, to the resolution of the coarser ones.
static long run_agree(struct outcome *out) {
    long bad = 0;
    for (int i = 0; i < 200; i++) {
        for (volatile int j = 0; j < 5000; j++) {}
        int64_t first = process();
        int64_t others[] = { raw_process(), by_number(), c_clock() + 999, usage_self() + 999 };
        int64_t last = process();
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) bad += others[k] < first - 5000 || others[k] > last + 5000;
    }
    judged(out);
    return bad;
}
// Processor time of an ended child.
static long run_of_child(struct outcome *out) {
    int64_t wall = mono_ns();
    pid_t pid = fork();
    if (pid == 0) {
        while (process() < out->want_ns / 8) {}
        _exit(0);
    }
    struct rusage usage;
    int status;
    long ret = wait4(pid, &status, 0, &usage) == pid;
    int64_t lasted = mono_ns() - wall;
    int64_t used = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * S + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
    int64_t children = of_usage(RUSAGE_CHILDREN);
    note(out, "some=%d,too_much=%d,same=%d", used > 0, used > lasted + 25 * MS, children >= used - MS && children <= used + MS);
    judged(out);
    return ret;
}
static long run_of_child_by_waitid(struct outcome *out) {
    int64_t wall = mono_ns();
    pid_t pid = fork();
    if (pid == 0) {
        while (process() < out->want_ns / 8) {}
        _exit(3);
    }
    struct rusage usage;
    siginfo_t information;
    long ret = syscall(SYS_waitid, P_PID, pid, &information, WEXITED, &usage);
    int64_t lasted = mono_ns() - wall;
    int64_t used = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * S + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
    note(out, "status=%d,some=%d,too_much=%d", information.si_status, used > 0, used > lasted + 25 * MS);
    judged(out);
    return ret;
}
// Timers of processor time: the signal must come when the process has used that much.
static volatile sig_atomic_t fired;
static void fire(int signal) { (void)signal; fired++; }
static long timer(struct outcome *out, int which, int signal_number) {
    signal(signal_number, fire);
    struct itimerval wanted = { { 0, 0 }, { out->want_ns / 8 / S, out->want_ns / 8 % S / 1000 } }, old, left;
    int64_t begun = process();
    long ret = setitimer(which, &wanted, NULL);
    getitimer(which, &left);
    while (!fired) {}
    int64_t used = process() - begun;
    ret += setitimer(which, &wanted, &old);
    ret += setitimer(which, NULL, &left);
    // The kernel counts the time of these timers by its ticks, and so misjudges a program that is
    // often interrupted: by half on a busy machine, natively as well. A timer that did not follow a
    // dilation of 4 would come after a quarter.
    note(out, "early=%d,late=%d,old=%ld.%ld,disarmed=%d", used < out->want_ns / 20, used > out->want_ns / 8 + S,
         old.it_value.tv_sec, old.it_value.tv_usec, left.it_value.tv_sec == 0 && left.it_value.tv_usec > 0);
    judged(out);
    return ret;
}
static long run_timer_prof(struct outcome *out) { return timer(out, ITIMER_PROF, SIGPROF); }
static long run_timer_virtual(struct outcome *out) { return timer(out, ITIMER_VIRTUAL, SIGVTALRM); }
static long run_timer_errors(struct outcome *out) {
    struct itimerval wrong = { { 0, 0 }, { 0, 1000000 } }, negative = { { -1, 0 }, { 1, 0 } }, value = { { 0, 0 }, { 0, 0 } };
    char text[200] = "";
#define TRY(call) { errno = 0; long got = call; snprintf(text + strlen(text), 16, "%ld/%d,", got, errno); }
    TRY(setitimer(ITIMER_PROF, &wrong, NULL))
    TRY(setitimer(ITIMER_PROF, &negative, NULL))
    TRY(setitimer(77, &value, NULL))
    TRY(syscall(SYS_setitimer, ITIMER_PROF, 8, NULL))
    TRY(syscall(SYS_getitimer, ITIMER_PROF, 8))
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}
static long run_errors(struct outcome *out) {
    struct rusage usage;
    long one = getrusage(77, &usage);
    int first = errno;
    long other = syscall(SYS_getrusage, RUSAGE_SELF, 8);
    int second = errno;
    long third = syscall(SYS_wait4, -1, NULL, WNOHANG, &usage);
    note(out, "%ld/%d,%ld/%d,%ld/%d", one, first, other, second, third, errno);
    out->want_ns = 0;
    return 0;
}

static const struct test_case cases[] = {
    CASE(process), CASE(thread), CASE(raw_process), CASE(by_number), CASE(by_thread_number), CASE(c_clock),
    CASE(usage_self), CASE(usage_thread), CASE(by_times), CASE(agree), CASE(of_child), CASE(of_child_by_waitid), CASE(timer_prof),
    CASE(timer_virtual), CASE(timer_errors), CASE(errors),
};
MAIN(cases)
