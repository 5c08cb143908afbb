// An event ends the wait before its time: data, a wake-up, a post. The wait must end at once (the
// helper acts a tenth of WAIT later than a pause can begin) with its native result. The limits are
// far beyond.
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static struct timespec limit(void) { return spec(FAR_NS); }
static struct timespec limit_at(clockid_t clock) { return spec(clock_ns(clock) + FAR_NS); }

// Shared with the helper.
static struct shared {
    uint32_t word;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
} *shared;

static void share(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&shared->semaphore, 1, 0);
    pthread_mutexattr_t mutex_attributes;
    pthread_mutexattr_init(&mutex_attributes);
    pthread_mutexattr_setpshared(&mutex_attributes, 1);
    pthread_mutex_init(&shared->mutex, &mutex_attributes);
    pthread_condattr_t condition_attributes;
    pthread_condattr_init(&condition_attributes);
    pthread_condattr_setpshared(&condition_attributes, 1);
    pthread_cond_init(&shared->condition, &condition_attributes);
}

static int pipe_with_data(struct outcome *out) {
    int fds[2];
    if (pipe(fds) != 0) _exit(98);
    AFTER(out, if (write(fds[1], "abc", 3) != 3) _exit(97));
    return fds[0];
}

static long run_poll(struct outcome *out) {
    struct pollfd fd = { .fd = pipe_with_data(out), .events = POLLIN };
    long ret = FAILS(poll(&fd, 1, FAR_MS));
    note(out, "revents=%d", fd.revents);
    return ret;
}
static long run_poll_hangup(struct outcome *out) {
    int fds[2];
    if (pipe(fds) != 0) _exit(98);
    AFTER(out, (void)0); // the helper's end is the last writer's
    close(fds[1]);
    struct pollfd fd = { .fd = fds[0], .events = POLLIN };
    long ret = FAILS(poll(&fd, 1, FAR_MS));
    note(out, "revents=%d", fd.revents);
    return ret;
}
static long run_ppoll_left(struct outcome *out) {
    struct pollfd fd = { .fd = pipe_with_data(out), .events = POLLIN };
    struct timespec left = limit();
    long ret = FAILS(syscall(SYS_ppoll, &fd, 1, &left, NULL, 8));
    // The remaining time and the passed time must add up to at least the whole wait.
    int64_t left_ns = left.tv_sec * S + left.tv_nsec, lasted = mono_ns() - out->begun_ns;
    note(out, "left_ok=%d", left_ns < FAR_NS - out->want_ns / 2 && left_ns + lasted >= FAR_NS);
    return ret;
}
static long run_select(struct outcome *out) {
    int fd = pipe_with_data(out);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    struct timeval left = { FAR_NS / S, 0 };
    long ret = FAILS(raw_select(fd + 1, &readable, NULL, NULL, &left));
    int64_t left_ns = left.tv_sec * S + left.tv_usec * 1000;
    note(out, "isset=%d,left_ok=%d", FD_ISSET(fd, &readable) != 0, left_ns > 0 && left_ns < FAR_NS - out->want_ns / 2);
    return ret;
}
// Two sets, only one of which becomes ready, and a descriptor above 64.
static long run_pselect_sets(struct outcome *out) {
    int low = pipe_with_data(out), high = dup2(low, 900), idle[2];
    if (pipe(idle) != 0) _exit(98);
    fd_set readable, failing;
    FD_ZERO(&readable);
    FD_ZERO(&failing);
    FD_SET(high, &readable);
    FD_SET(idle[0], &readable);
    FD_SET(low, &failing);
    struct timespec wait = limit();
    long ret = FAILS(pselect(high + 1, &readable, NULL, &failing, &wait, NULL));
    note(out, "high=%d,idle=%d,failing=%d", FD_ISSET(high, &readable) != 0, FD_ISSET(idle[0], &readable) != 0,
        FD_ISSET(low, &failing) != 0);
    return ret;
}
static long run_epoll(struct outcome *out) {
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = 0x1234567890 };
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_with_data(out), &event);
    struct epoll_event got[4] = { 0 };
    long ret = FAILS(epoll_wait(epoll, got, 4, FAR_MS));
    note(out, "events=%u,data=%lx", got[0].events, (long)got[0].data.u64);
    return ret;
}
static long run_epoll_ready(struct outcome *out) {
    int epoll = epoll_create1(0), event_fd = eventfd(1, 0);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(epoll, EPOLL_CTL_ADD, event_fd, &event);
    struct epoll_event got[4] = { 0 };
    long ret = FAILS(epoll_wait(epoll, got, 4, FAR_MS));
    out->want_ns = 0; // at once
    return ret;
}
static long run_epoll_timer(struct outcome *out) {
    int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec setting = { .it_value = spec(out->want_ns) };
    struct epoll_event event = { .events = EPOLLIN, .data.fd = timer };
    timerfd_settime(timer, 0, &setting, NULL);
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
    struct epoll_event got[4] = { 0 };
    long ret = FAILS(epoll_wait(epoll, got, 4, FAR_MS));
    note(out, "mine=%d", got[0].data.fd == timer);
    return ret;
}
static long run_futex_woken(struct outcome *out) {
    share();
    AFTER(out, while (syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0) != 1) rest_ns(MS));
    struct timespec wait = limit();
    return FAILS(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &wait, NULL, 0));
}
static long run_futex_bitset_woken(struct outcome *out) {
    share();
    AFTER(out, while (syscall(SYS_futex, &shared->word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 4) != 1) rest_ns(MS));
    struct timespec until = limit_at(CLOCK_REALTIME);
    return FAILS(syscall(SYS_futex, &shared->word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &until, NULL, 12));
}
static long run_futex_other_value(struct outcome *out) {
    share();
    struct timespec wait = limit();
    out->want_ns = 0;
    return FAILS(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 1, &wait, NULL, 0));
}
static long run_sem_posted(struct outcome *out) {
    share();
    AFTER(out, sem_post(&shared->semaphore));
    struct timespec until = limit_at(CLOCK_REALTIME);
    return FAILS(sem_timedwait(&shared->semaphore, &until));
}
static long run_cond_signalled(struct outcome *out) {
    share();
    AFTER(out, pthread_mutex_lock(&shared->mutex); shared->word = 1; pthread_cond_signal(&shared->condition);
        pthread_mutex_unlock(&shared->mutex));
    struct timespec until = limit_at(CLOCK_REALTIME);
    long ret = 0;
    pthread_mutex_lock(&shared->mutex);
    while (shared->word == 0 && ret == 0) ret = pthread_cond_timedwait(&shared->condition, &shared->mutex, &until);
    note(out, "word=%u", shared->word);
    return ret;
}
static long run_socket_data(struct outcome *out) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) _exit(98);
    AFTER(out, if (send(ends[1], "abcd", 4, 0) != 4) _exit(97));
    struct pollfd fd = { .fd = ends[0], .events = POLLIN };
    struct timespec wait = limit();
    long ret = FAILS(ppoll(&fd, 1, &wait, NULL));
    char text[16];
    note(out, "received=%zd", recv(ends[0], text, sizeof text, MSG_DONTWAIT));
    return ret;
}
static long run_timer_disarmed(struct outcome *out) {
    struct pollfd fd = { .fd = timerfd_create(CLOCK_MONOTONIC, 0), .events = POLLIN };
    struct itimerspec setting = { .it_value = spec(out->want_ns / 2) }, none = { 0 }, old = { 0 };
    long disarmed;
    // Reads the timer before it expires, on any busy machine.
    do {
        timerfd_settime(fd.fd, 0, &setting, NULL);
        disarmed = timerfd_settime(fd.fd, 0, &none, &old);
    } while (old.it_value.tv_nsec == 0);
    long ret = FAILS(poll(&fd, 1, (int)(out->want_ns / MS)));
    note(out, "disarmed=%ld", disarmed);
    return ret;
}
static long run_timer_in_the_past(struct outcome *out) {
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec setting = { .it_value = spec(clock_ns(CLOCK_REALTIME) - S) };
    uint64_t expirations = 0;
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL);
    out->want_ns = 0;
    long ret = FAILS(read(fd, &expirations, 8));
    note(out, "expirations=%lu", (unsigned long)expirations);
    return ret;
}
static long run_sleep_until_the_past(struct outcome *out) {
    struct timespec past = spec(clock_ns(CLOCK_REALTIME) - S);
    out->want_ns = 0;
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, NULL);
}
static long run_sleep_zero(struct outcome *out) {
    struct timespec zero = { 0, 0 };
    out->want_ns = 0;
    return FAILS(nanosleep(&zero, NULL));
}

static const struct test_case cases[] = {
    CASE(poll), CASE(poll_hangup), CASE(ppoll_left), CASE(select), CASE(pselect_sets), CASE(epoll),
    CASE(epoll_ready), CASE(epoll_timer), CASE(futex_woken), CASE(futex_bitset_woken),
    CASE(futex_other_value), CASE(sem_posted), CASE(cond_signalled), CASE(socket_data),
    CASE(timer_disarmed), CASE(timer_in_the_past), CASE(sleep_until_the_past), CASE(sleep_zero),
};
MAIN(cases)
