// Arms a timer of the given kind that is due in WAIT_MS, prints "armed", and ends without waiting
// for it: `orphan_timer KIND WAIT_MS`. With the kind "witness" it waits.
#include "common.h"
#include <sys/time.h>

int main(int argc, char **argv) {
    if (argc != 3) return 64;
    const char *kind = argv[1];
    struct timespec after = spec(atoll(argv[2]) * MS);
    int is_witness = strcmp(kind, "witness") == 0;
    if (strcmp(kind, "interval") == 0) {
        struct itimerval setting = { .it_value = { after.tv_sec, after.tv_nsec / 1000 } };
        if (setitimer(ITIMER_REAL, &setting, NULL) != 0) return 65;
    } else {
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = is_witness ? SIGUSR1 : SIGKILL };
        if (strcmp(kind, "thread") == 0) {
            event.sigev_notify = SIGEV_THREAD_ID;
            event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        }
        sigset_t wanted;
        sigemptyset(&wanted);
        sigaddset(&wanted, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wanted, NULL);
        timer_t id;
        struct itimerspec setting = { .it_value = after };
        if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0) return 66;
        if (timer_settime(id, 0, &setting, NULL) != 0) return 67;
        say("armed\n");
        int signal;
        if (is_witness) sigwait(&wanted, &signal);
        return 0;
    }
    say("armed\n");
    return 0;
}
