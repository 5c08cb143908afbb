// Calls that carry time and are not virtualised yet: each is made as often as
// its place in the list says, and must be reported so. It still works.
#include "common.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>

static void expired(int signal) { (void)signal; }

int main(void) {
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_NONE };
    struct itimerspec setting = { .it_value = { 100, 0 } };
    struct itimerval interval = { .it_value = { 100, 0 } };
    struct rusage usage;
    struct tms times_used;
    struct sysinfo machine;
    struct timeval timeout = { 0, 20000 };
    struct timespec wait = { 0, MS };
    char byte;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    int ends[2], bad = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);

    signal(SIGALRM, expired);
    bad |= timer_create(CLOCK_MONOTONIC, &event, &timer);
    for (int i = 0; i < 2; i++) bad |= timer_settime(timer, 0, &setting, NULL);
    for (int i = 0; i < 3; i++) bad |= setitimer(ITIMER_REAL, &interval, NULL);
    for (int i = 0; i < 4; i++) bad |= getitimer(ITIMER_REAL, &interval);
    for (int i = 0; i < 5; i++) alarm(100);
    for (int i = 0; i < 6; i++) bad |= getrusage(RUSAGE_SELF, &usage);
    for (int i = 0; i < 7; i++) bad |= times(&times_used) == -1;
    for (int i = 0; i < 8; i++) bad |= sysinfo(&machine);
    for (int i = 0; i < 9; i++) bad |= sigtimedwait(&usr1, NULL, &wait) != -1 || errno != EAGAIN;
    for (int i = 0; i < 10; i++) bad |= setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    for (int i = 0; i < 11; i++) bad |= utimensat(AT_FDCWD, "/proc/self/fd/1", NULL, 0) != 0 && errno == ENOSYS;
    // These carry no time and must not be reported.
    int size = 4096;
    bad |= setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    bad |= recv(ends[0], &byte, 1, 0) != -1 || errno != EAGAIN; // the timeout works
    say("bad=%d\n", bad);
    return bad;
}
