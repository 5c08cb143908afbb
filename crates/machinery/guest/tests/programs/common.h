// Common part of all test programs: a table of cases, each run in a child of its own, all begun at
// the same moment, each printing one line:
//
//   NAME ret=.. errno=.. want_ns=.. virtual_ns=.. note=..
//
// `want_ns` is the minimum duration of the case, by CLOCK_MONOTONIC; `virtual_ns` its actual
// duration. The harness compares ret, errno and note with those of a native run and virtual_ns with
// want_ns.
#ifndef TIMELOOM_TEST_COMMON_H
#define TIMELOOM_TEST_COMMON_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// If the kernel has no such call, the C library's function makes the newer call instead.
#ifdef SYS_select
#define raw_select(...) syscall(SYS_select, __VA_ARGS__)
#define raw_time(...) syscall(SYS_time, __VA_ARGS__)
#else
#define raw_select select
#define raw_time time
#endif

#define MS 1000000LL
#define S 1000000000LL

static inline int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * S + now.tv_nsec;
}

static inline int64_t mono_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static inline struct timespec spec(int64_t ns) {
    return (struct timespec){ .tv_sec = ns / S, .tv_nsec = ns % S };
}

// Results of a case. `ret` is returned by the case itself.
struct outcome {
    int err;          // errno, or an error number that the call returned
    int64_t want_ns;  // minimum duration
    int64_t begun_ns; // set before the case begins; a case may set it again
    char note[200];   // must be the same natively; no spaces
};

struct test_case {
    const char *name;
    long (*run)(struct outcome *);
};
#define CASE(name) { #name, run_##name }

// Returns the result of a call, and stores its errno in the outcome.
#define FAILS(call) ({ long result_ = (call); out->err = result_ < 0 ? errno : 0; result_; })

static inline void note(struct outcome *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(out->note, sizeof out->note, format, args);
    va_end(args);
}

static inline void say(const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    // The line is written by one call, so that lines of many children do not mix in a pipe.
    if (write(1, line, (size_t)length) != length) _exit(99);
}

// Sleeps for the whole time, even if signal handlers run. For helpers that act in the middle of a
// case.
static inline void rest_ns(int64_t ns) {
    struct timespec until = spec(mono_ns() + ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

// Limit of waits that are ended by another event: late enough that the event comes first on any
// busy machine.
enum { FAR_MS = 100 * 1000 };
#define FAR_NS (FAR_MS * MS)

// Forks a helper that acts at an instant of CLOCK_MONOTONIC, or as soon after it as a busy machine
// permits; mostly when the case has lasted for WAIT.
#define AT(instant_ns, ...) \
    do { \
        int64_t then_ = (instant_ns); \
        if (fork() == 0) { \
            rest_ns(then_ - mono_ns()); \
            __VA_ARGS__; \
            _exit(0); \
        } \
    } while (0)
#define AFTER(out, ...) AT((out)->begun_ns + (out)->want_ns, __VA_ARGS__)

// Sends this process a signal at an instant, and every 20 seconds from then on while it lives: a
// signal before its wait had begun would end none. Returns the address of the helper's count of
// sent signals.
static inline const volatile int *signal_at(int64_t instant_ns, int signal) {
    volatile int *sent = mmap(NULL, sizeof *sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t me = getpid();
    AT(instant_ns, prctl(PR_SET_PDEATHSIG, SIGKILL); while (getppid() == me) {
        ++*sent;
        kill(me, signal);
        rest_ns(20 * S);
    });
    return sent;
}

static inline void run_case(const struct test_case *one, int64_t wait_ns) {
    struct outcome out = { .want_ns = wait_ns, .note = "-" };
    out.begun_ns = mono_ns();
    errno = 0;
    long ret = one->run(&out);
    int64_t lasted = mono_ns() - out.begun_ns;
    say("%s ret=%ld errno=%d want_ns=%lld virtual_ns=%lld note=%s\n", one->name, ret, out.err,
        (long long)out.want_ns, (long long)lasted, out.note);
}

// PROGRAM GATE WAIT_MS [CASE..]: says "ready", waits until the gate (a FIFO) is
// closed by its writer, then runs the cases all at once.
static inline int run_cases(int argc, char **argv, const struct test_case *cases, size_t count) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s GATE WAIT_MS [CASE..]\n", argv[0]);
        return 64;
    }
    int64_t wait_ns = atoll(argv[2]) * MS;
    int gate = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (gate < 0) { perror(argv[1]); return 65; }
    say("ready\n");
    char byte;
    while (read(gate, &byte, 1) > 0) {}
    close(gate);
    struct { pid_t pid; const char *name; } children[512];
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        int chosen = argc == 3;
        for (int a = 3; a < argc; a++) chosen |= strcmp(argv[a], cases[i].name) == 0;
        if (!chosen) continue;
        pid_t pid = fork();
        if (pid < 0) { perror("fork"); return 66; }
        if (pid == 0) {
            run_case(&cases[i], wait_ns);
            _exit(0);
        }
        children[running].pid = pid;
        children[running++].name = cases[i].name;
    }
    for (size_t i = 0; i < running; i++) {
        int status;
        while (waitpid(children[i].pid, &status, 0) < 0 && errno == EINTR) {}
        if (status != 0) say("%s died=%d\n", children[i].name, status);
    }
    return 0;
}

#define MAIN(cases) \
    int main(int argc, char **argv) { \
        return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]); \
    }

#endif
