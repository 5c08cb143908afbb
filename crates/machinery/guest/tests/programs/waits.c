// Every kind of timed wait in the kernel's own calls, with nothing to end it early. Each must last
// its time, through pauses, and return its native result.
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static int quiet_pipe(void) {
    int fds[2];
    if (pipe(fds) != 0) _exit(98);
    return fds[0];
}

static struct timespec at(clockid_t clock, struct outcome *out) { return spec(clock_ns(clock) + out->want_ns); }

static long run_nanosleep(struct outcome *out) {
    struct timespec wait = spec(out->want_ns), left = { 7, 7 };
    long ret = FAILS(nanosleep(&wait, &left));
    note(out, "left=%ld,%ld", (long)left.tv_sec, left.tv_nsec); // untouched
    return ret;
}
static long run_usleep(struct outcome *out) { return FAILS(usleep((useconds_t)(out->want_ns / 1000))); }

static long relative(struct outcome *out, clockid_t clock) {
    struct timespec wait = spec(out->want_ns);
    return clock_nanosleep(clock, 0, &wait, NULL);
}
static long absolute(struct outcome *out, clockid_t clock) {
    struct timespec until = at(clock, out);
    return clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL);
}
static long run_relative_mono(struct outcome *out) { return relative(out, CLOCK_MONOTONIC); }
static long run_relative_real(struct outcome *out) { return relative(out, CLOCK_REALTIME); }
static long run_relative_boot(struct outcome *out) { return relative(out, CLOCK_BOOTTIME); }
static long run_absolute_mono(struct outcome *out) { return absolute(out, CLOCK_MONOTONIC); }
static long run_absolute_real(struct outcome *out) { return absolute(out, CLOCK_REALTIME); }
static long run_absolute_boot(struct outcome *out) { return absolute(out, CLOCK_BOOTTIME); }
static long run_absolute_tai(struct outcome *out) { return absolute(out, CLOCK_TAI); }

static long run_poll_nothing(struct outcome *out) { return FAILS(poll(NULL, 0, (int)(out->want_ns / MS))); }
static long run_poll_pipe(struct outcome *out) {
    struct pollfd fd = { .fd = quiet_pipe(), .events = POLLIN, .revents = 5 };
    long ret = FAILS(poll(&fd, 1, (int)(out->want_ns / MS)));
    note(out, "revents=%d", fd.revents);
    return ret;
}
static long run_ppoll(struct outcome *out) {
    struct pollfd fd = { .fd = quiet_pipe(), .events = POLLIN };
    struct timespec wait = spec(out->want_ns);
    return FAILS(ppoll(&fd, 1, &wait, NULL));
}
static long run_ppoll_mask(struct outcome *out) {
    struct pollfd fd = { .fd = quiet_pipe(), .events = POLLIN };
    struct timespec wait = spec(out->want_ns);
    sigset_t all;
    sigfillset(&all);
    return FAILS(ppoll(&fd, 1, &wait, &all));
}
static long run_ppoll_raw(struct outcome *out) {
    struct pollfd fd = { .fd = quiet_pipe(), .events = POLLIN };
    struct timespec wait = spec(out->want_ns);
    long ret = FAILS(syscall(SYS_ppoll, &fd, 1, &wait, NULL, 8));
    note(out, "left=%ld,%ld", (long)wait.tv_sec, wait.tv_nsec); // the kernel writes it
    return ret;
}
static long run_select_nothing(struct outcome *out) {
    struct timeval wait = { out->want_ns / S, out->want_ns % S / 1000 };
    long ret = FAILS(raw_select(0, NULL, NULL, NULL, &wait));
    note(out, "left=%ld,%ld", (long)wait.tv_sec, (long)wait.tv_usec);
    return ret;
}
static long run_select_pipe(struct outcome *out) {
    struct timeval wait = { out->want_ns / S, out->want_ns % S / 1000 };
    int fd = quiet_pipe();
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    long ret = FAILS(select(fd + 1, &readable, NULL, NULL, &wait));
    note(out, "isset=%d", FD_ISSET(fd, &readable) != 0);
    return ret;
}
static long run_pselect(struct outcome *out) {
    struct timespec wait = spec(out->want_ns);
    int fd = quiet_pipe();
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    long ret = FAILS(pselect(fd + 1, &readable, NULL, NULL, &wait, NULL));
    note(out, "isset=%d", FD_ISSET(fd, &readable) != 0);
    return ret;
}
static long run_pselect_mask(struct outcome *out) {
    struct timespec wait = spec(out->want_ns);
    sigset_t all;
    sigfillset(&all);
    return FAILS(pselect(0, NULL, NULL, NULL, &wait, &all));
}
// 4,000 descriptors do not fit into the small copy of the sets.
static long run_select_large(struct outcome *out) {
    struct timespec wait = spec(out->want_ns);
    unsigned long sets[64] = { 0 };
    int fd = quiet_pipe();
    sets[fd / 64] |= 1ul << (fd % 64);
    long ret = FAILS(syscall(SYS_pselect6, 4000, sets, NULL, NULL, &wait, NULL));
    note(out, "set=%lu", sets[fd / 64]);
    return ret;
}

static int quiet_epoll(void) {
    int epoll = epoll_create1(0);
    struct epoll_event wanted = { .events = EPOLLIN };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, quiet_pipe(), &wanted) != 0) _exit(98);
    return epoll;
}
static long run_epoll_wait(struct outcome *out) {
    struct epoll_event got;
    return FAILS(epoll_wait(quiet_epoll(), &got, 1, (int)(out->want_ns / MS)));
}
static long run_epoll_pwait(struct outcome *out) {
    struct epoll_event got;
    sigset_t all;
    sigfillset(&all);
    return FAILS(epoll_pwait(quiet_epoll(), &got, 1, (int)(out->want_ns / MS), &all));
}
static long run_epoll_pwait2(struct outcome *out) {
    struct epoll_event got;
    struct timespec wait = spec(out->want_ns);
    return FAILS(syscall(SYS_epoll_pwait2, quiet_epoll(), &got, 1, &wait, NULL, 8));
}

static uint32_t word = 5;
static long futex_wait(struct outcome *out, int operation, struct timespec limit) {
    return FAILS(syscall(SYS_futex, &word, operation, 5, &limit, NULL, FUTEX_BITSET_MATCH_ANY));
}
static long run_futex_wait(struct outcome *out) { return futex_wait(out, FUTEX_WAIT, spec(out->want_ns)); }
static long run_futex_wait_private(struct outcome *out) {
    return futex_wait(out, FUTEX_WAIT_PRIVATE, spec(out->want_ns));
}
static long run_futex_bitset_mono(struct outcome *out) {
    return futex_wait(out, FUTEX_WAIT_BITSET, at(CLOCK_MONOTONIC, out));
}
static long run_futex_bitset_real(struct outcome *out) {
    return futex_wait(out, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, at(CLOCK_REALTIME, out));
}

static long timer_expirations(struct outcome *out, clockid_t clock, int flags, struct itimerspec setting) {
    int fd = timerfd_create(clock, TFD_CLOEXEC);
    uint64_t expirations = 0;
    if (fd < 0 || timerfd_settime(fd, flags, &setting, NULL) != 0) return FAILS(-1);
    long ret = FAILS(read(fd, &expirations, 8));
    note(out, "expirations=%lu", (unsigned long)expirations);
    return ret;
}
static long run_timerfd_read(struct outcome *out) {
    return timer_expirations(out, CLOCK_MONOTONIC, 0, (struct itimerspec){ .it_value = spec(out->want_ns) });
}
static long run_timerfd_abs_mono(struct outcome *out) {
    return timer_expirations(out, CLOCK_MONOTONIC, TFD_TIMER_ABSTIME,
        (struct itimerspec){ .it_value = at(CLOCK_MONOTONIC, out) });
}
static long run_timerfd_abs_real(struct outcome *out) {
    return timer_expirations(out, CLOCK_REALTIME, TFD_TIMER_ABSTIME,
        (struct itimerspec){ .it_value = at(CLOCK_REALTIME, out) });
}
static long run_timerfd_poll(struct outcome *out) {
    struct pollfd fd = { .fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK), .events = POLLIN };
    struct itimerspec setting = { .it_value = spec(FAR_NS) }, before = { 0 }, left = { 0 };
    uint64_t expirations = 0;
    if (timerfd_settime(fd.fd, 0, &setting, &before) != 0) return FAILS(-1);
    if (timerfd_gettime(fd.fd, &left) != 0) return FAILS(-1);
    int64_t left_ns = left.it_value.tv_sec * S + left.it_value.tv_nsec;
    long empty = read(fd.fd, &expirations, 8);
    int again = errno;
    setting.it_value = spec(out->want_ns);
    if (timerfd_settime(fd.fd, 0, &setting, NULL) != 0) return FAILS(-1);
    long ret = FAILS(poll(&fd, 1, -1));
    long got = read(fd.fd, &expirations, 8);
    note(out, "before=%ld,left_ok=%d,empty=%ld,%d,got=%ld,%lu", (long)before.it_value.tv_sec,
        left_ns > 0 && left_ns <= FAR_NS, empty, again, got, (unsigned long)expirations);
    return ret;
}
// Five periods, read one by one: none is early and none is lost.
static long run_timerfd_periodic(struct outcome *out) {
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct timespec period = spec(out->want_ns / 5);
    struct itimerspec setting = { .it_value = period, .it_interval = period };
    if (timerfd_settime(fd, 0, &setting, NULL) != 0) return FAILS(-1);
    uint64_t sum = 0, one = 0;
    int early = 0;
    while (sum < 5) {
        if (read(fd, &one, 8) != 8) return FAILS(-1);
        sum += one;
        early |= mono_ns() - out->begun_ns < (int64_t)sum * (out->want_ns / 5);
    }
    note(out, "enough=%d,early=%d", sum >= 5, early);
    return 0;
}

// Waits without limit: a pause must not end them either (the kernel's own epoll_wait and others
// return EINTR when their process is frozen). The data comes after `want_ns`.
static int late_pipe(struct outcome *out) {
    int fds[2];
    if (pipe(fds) != 0) _exit(98);
    AFTER(out, if (write(fds[1], "x", 1) != 1) _exit(97));
    return fds[0];
}
static int late_epoll(struct outcome *out) {
    int epoll = epoll_create1(0);
    struct epoll_event wanted = { .events = EPOLLIN, .data.u32 = 9 };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, late_pipe(out), &wanted) != 0) _exit(98);
    return epoll;
}
static long run_endless_poll(struct outcome *out) {
    struct pollfd fd = { .fd = late_pipe(out), .events = POLLIN };
    return FAILS(poll(&fd, 1, -1));
}
static long run_endless_select(struct outcome *out) {
    int fd = late_pipe(out);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    return FAILS(select(fd + 1, &readable, NULL, NULL, NULL));
}
static long run_endless_epoll_wait(struct outcome *out) {
    struct epoll_event got;
    return FAILS(epoll_wait(late_epoll(out), &got, 1, -1));
}
static long run_endless_epoll_pwait(struct outcome *out) {
    struct epoll_event got;
    sigset_t none;
    sigemptyset(&none);
    return FAILS(epoll_pwait(late_epoll(out), &got, 1, -1, &none));
}
static long run_endless_epoll_pwait2(struct outcome *out) {
    struct epoll_event got;
    return FAILS(syscall(SYS_epoll_pwait2, late_epoll(out), &got, 1, NULL, NULL, 8));
}
static long run_endless_read(struct outcome *out) {
    char byte;
    return FAILS(read(late_pipe(out), &byte, 1));
}

static const struct test_case cases[] = {
    CASE(nanosleep), CASE(usleep), CASE(relative_mono), CASE(relative_real), CASE(relative_boot),
    CASE(absolute_mono), CASE(absolute_real), CASE(absolute_boot), CASE(absolute_tai),
    CASE(poll_nothing), CASE(poll_pipe), CASE(ppoll), CASE(ppoll_mask), CASE(ppoll_raw),
    CASE(select_nothing), CASE(select_pipe), CASE(pselect), CASE(pselect_mask), CASE(select_large),
    CASE(epoll_wait), CASE(epoll_pwait), CASE(epoll_pwait2),
    CASE(futex_wait), CASE(futex_wait_private), CASE(futex_bitset_mono), CASE(futex_bitset_real),
    CASE(timerfd_read), CASE(timerfd_abs_mono), CASE(timerfd_abs_real), CASE(timerfd_poll), CASE(timerfd_periodic),
    CASE(endless_poll), CASE(endless_select), CASE(endless_epoll_wait), CASE(endless_epoll_pwait),
    CASE(endless_epoll_pwait2), CASE(endless_read),
};
MAIN(cases)
