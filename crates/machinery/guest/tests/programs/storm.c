// A storm of signals, which only the masks of waits unblock, while the harness changes the clock.
// If a handler ran during a wait, the wait must have ended with EINTR, natively and in a session.
// Otherwise a program that waits for a signal in this way would wait for ever.
#include "common.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>

static volatile sig_atomic_t handled;
static void count(int signal) { (void)signal; handled++; }

enum kind { PPOLL, PSELECT, EPOLL_PWAIT, EPOLL_PWAIT_ENDLESS };

static long storm(struct outcome *out, enum kind kind) {
    struct sigaction action = { .sa_handler = count };
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    pid_t me = getpid();
    pid_t sender = fork();
    if (sender == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            kill(me, SIGUSR1);
            rest_ns(MS / 3);
        }
    }
    int epoll = epoll_create1(0);
    long lost = 0, ended = 0;
    while (mono_ns() < out->begun_ns + out->want_ns) {
        struct timespec wait = { 0, 40 * MS };
        struct epoll_event event;
        int before = handled;
        errno = 0;
        int ret = kind == PPOLL ? ppoll(NULL, 0, &wait, &none)
            : kind == PSELECT ? pselect(0, NULL, NULL, NULL, &wait, &none)
            : epoll_pwait(epoll, &event, 1, kind == EPOLL_PWAIT ? 40 : -1, &none);
        int during = handled - before, interrupted = ret == -1 && errno == EINTR;
        lost += during != interrupted;
        ended += interrupted;
    }
    kill(sender, SIGKILL);
    note(out, "some=%d", ended > 10);
    return lost;
}
static long run_ppoll(struct outcome *out) { return storm(out, PPOLL); }
static long run_pselect(struct outcome *out) { return storm(out, PSELECT); }
static long run_epoll_pwait(struct outcome *out) { return storm(out, EPOLL_PWAIT); }
static long run_epoll_pwait_endless(struct outcome *out) { return storm(out, EPOLL_PWAIT_ENDLESS); }

static const struct test_case cases[] = { CASE(ppoll), CASE(pselect), CASE(epoll_pwait), CASE(epoll_pwait_endless) };
MAIN(cases)
