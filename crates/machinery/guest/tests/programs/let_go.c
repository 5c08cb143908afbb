// Waits and timers of a program that is attached to a session and released again. Each of 1 s
// begins when the program sees the session's year, and reports its end; then one line for each line
// of input: the readings of its clocks, and checks that usual operations still work. With an
// argument it makes no POSIX timers, which kernels before Linux 6.15 do not let a program keep.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define S 1000000000ll
static void say(const char *what) {
    char line[600];
    int length = snprintf(line, sizeof line, "%s\n", what);
    if (write(1, line, length) != length) _exit(1);
}
static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * S + time.tv_nsec;
}
static int year(void) {
    time_t now = time(NULL);
    return gmtime(&now)->tm_year + 1900;
}
static const struct timespec second = { 1, 0 };

static void *by_nanosleep(void *unused) { nanosleep(&second, NULL); say("nanosleep over"); return unused; }
static void *by_absolute(void *unused) {
    int64_t end = now(CLOCK_MONOTONIC) + S;
    struct timespec until = { end / S, end % S };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR);
    say("absolute over");
    return unused;
}
static void *by_poll(void *unused) { if (poll(NULL, 0, 1000) == 0) say("poll over"); return unused; }
static void *by_ppoll(void *unused) {
    sigset_t all;
    sigfillset(&all);
    if (ppoll(NULL, 0, &second, &all) == 0) say("ppoll over");
    return unused;
}
static void *by_select(void *unused) {
    struct timeval second = { 1, 0 };
    if (select(0, NULL, NULL, NULL, &second) == 0) say("select over");
    return unused;
}
static void *by_condition(void *unused) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    int64_t end = now(CLOCK_MONOTONIC) + S;
    struct timespec until = { end / S, end % S };
    pthread_mutex_lock(&mutex);
    while (pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT);
    say("condition over");
    return unused;
}
static void *by_socket(void *unused) {
    int pair[2];
    char byte;
    struct timeval second = { 1, 0 };
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (recv(pair[0], &byte, 1, 0) < 0 && errno == EAGAIN) say("socket over");
    // The socket keeps its timeout, in real time.
    if (recv(pair[0], &byte, 1, 0) < 0 && errno == EAGAIN) say("socket again");
    return unused;
}
// By the civil clock, which is set by the release: its instant is long past.
static void *by_civil_clock(void *unused) {
    sem_t none;
    int64_t end = now(CLOCK_REALTIME) + 1000 * S;
    struct timespec until = { end / S, end % S };
    sem_init(&none, 0, 0);
    while (sem_timedwait(&none, &until) < 0 && errno == EINTR);
    say("civil over");
    return unused;
}
static int one_second_timer(int flags) {
    int timer = timerfd_create(CLOCK_MONOTONIC, flags);
    timerfd_settime(timer, 0, &(struct itimerspec){ .it_value = second }, NULL);
    return timer;
}
static void *by_timerfd(void *unused) {
    uint64_t count;
    if (read(one_second_timer(0), &count, 8) == 8 && count == 1) say("timerfd over");
    return unused;
}
// Waits through a duplicate of the descriptor, in an epoll set that knows the timer by another
// number.
static void *by_epoll(void *unused) {
    int timer = one_second_timer(TFD_NONBLOCK | TFD_CLOEXEC), copy = dup(timer), set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 0x123456789abcull };
    epoll_ctl(set, EPOLL_CTL_ADD, timer, &event);
    int ready = epoll_wait(set, &event, 1, -1);
    uint64_t count = 0;
    if (ready == 1 && event.data.u64 == 0x123456789abcull && read(copy, &count, 8) == 8 && count == 1
        && read(timer, &count, 8) < 0 && errno == EAGAIN) say("epoll over");
    return unused;
}
// Unread expirations are not lost, and further ones come at their pace.
static int ticker;
static int64_t expirations(void) { uint64_t count = 0; return read(ticker, &count, 8) == 8 ? (int64_t)count : -1; }

static volatile sig_atomic_t posix, alarms, ticks;
static void on_posix(int signal, siginfo_t *info, void *context) { (void)signal; (void)context; posix = info->si_value.sival_int; }
static void on_alarm(int signal) { (void)signal; alarms++; }
static void on_tick(int signal) { (void)signal; ticks++; }
static timer_t once, often;
static bool with_posix_timers;

static void begin(void) {
    void *(*waits[])(void *) = { by_nanosleep, by_absolute, by_poll, by_ppoll, by_select, by_condition,
        by_socket, by_civil_clock, by_timerfd, by_epoll };
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, waits[i], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ticker = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec each = { { 0, S / 10 }, { 0, S / 10 } };
    timerfd_settime(ticker, 0, &each, NULL);
    sigaction(SIGUSR1, &(struct sigaction){ .sa_sigaction = on_posix, .sa_flags = SA_SIGINFO | SA_RESTART }, NULL);
    sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm, .sa_flags = SA_RESTART }, NULL);
    sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = on_tick, .sa_flags = SA_RESTART }, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { 1, 0 } }, NULL);
    if (!with_posix_timers) return;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42 };
    timer_create(CLOCK_MONOTONIC, &event, &once);
    timer_settime(once, 0, &(struct itimerspec){ .it_value = second }, NULL);
    event.sigev_signo = SIGUSR2;
    timer_create(CLOCK_REALTIME, &event, &often);
    timer_settime(often, 0, &each, NULL);
}

// The program's child waits too, and has its own timers.
static int64_t beside(int (*child)(void)) {
    int64_t begun = now(CLOCK_MONOTONIC);
    pid_t pid = fork();
    if (pid == 0) _exit(child());
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0 ? now(CLOCK_MONOTONIC) - begun : -1;
}
static int sleeps(void) { usleep(50000); return year() == 2019; }
static int executes(void) { execlp("sh", "sh", "-c", "sleep 0.05; test $(date +%Y) != 2019", NULL); return 1; }

static void report(void) {
    char line[500];
    int64_t vdso[] = { now(CLOCK_REALTIME), now(CLOCK_MONOTONIC), now(CLOCK_BOOTTIME) };
    struct timespec called;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &called);
    struct itimerspec left;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL); // including SIGSYS: calls that trap still work
    int64_t begun = now(CLOCK_MONOTONIC);
    usleep(20000);
    int64_t slept = now(CLOCK_MONOTONIC) - begun;
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    int known = !with_posix_timers
        || (timer_gettime(often, &left) == 0 && left.it_value.tv_nsec > 0 && timer_gettime(once, &left) == 0);
    // New timers, made by now.
    timer_t fresh;
    struct sigevent silent = { .sigev_notify = SIGEV_NONE };
    int made = timer_create(CLOCK_MONOTONIC, &silent, &fresh) == 0 && timer_delete(fresh) == 0;
    int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(descriptor, 0, &(struct itimerspec){ .it_value = { 0, 20000000 } }, NULL);
    uint64_t count = 0;
    made = made && read(descriptor, &count, 8) == 8 && count == 1 && close(descriptor) == 0;
    int64_t unread = expirations();
    begun = now(CLOCK_MONOTONIC);
    expirations();
    int64_t tick = now(CLOCK_MONOTONIC) - begun;
    snprintf(line, sizeof line,
        "report year=%d realtime=%lld monotonic=%lld boottime=%lld called=%lld slept=%lld known=%d made=%d unread=%lld"
        " tick=%lld posix=%d alarms=%d ticks=%d forked=%lld executed=%lld",
        year(), (long long)vdso[0], (long long)vdso[1], (long long)vdso[2],
        (long long)(called.tv_sec * S + called.tv_nsec), (long long)slept, known, made, (long long)unread,
        (long long)tick, posix, alarms, ticks, (long long)beside(sleeps), (long long)beside(executes));
    say(line);
}

int main(int argc, char **argv) {
    char byte;
    (void)argv;
    with_posix_timers = argc == 1;
    say("ready");
    while (year() != 2019) usleep(10000);
    begin();
    say("in");
    while (read(0, &byte, 1) == 1) if (byte == '\n') report();
    return 0;
}
