// Invalid arguments: the same errno natively and under the clock. By system call, since the C
// library checks some arguments itself.
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>

#define BAD ((void *)1)              // not mapped
#define KERNEL ((void *)(-4096L))    // not a user's address
static struct timespec ok = { 0, MS }, negative_s = { -1, 0 }, negative_ns = { 0, -1 }, much_ns = { 0, S };
static struct timespec negative_both = { -1, S };
__attribute__((unused)) static struct timeval day_ok = { 0, 1000 }, day_negative = { -1, 0 }, day_negative_us = { 0, -1 }, day_much = { 0, 2000 };
static uint32_t word = 5;
static uint64_t mask = 0;
static struct { void *mask; size_t size; } pack_ok = { &mask, 8 }, pack_size = { &mask, 4 }, pack_bad = { BAD, 8 }, pack_none = { NULL, 3 };
static struct itimerspec setting_ok = { .it_value = { 1, 0 } }, setting_ns = { .it_value = { 0, S } }, setting_interval = { .it_value = { 1, 0 }, .it_interval = { -1, 0 } };
static struct itimerval itimer_much = { .it_value = { 0, 1000000 } }, itimer_negative = { .it_interval = { -1, 0 } };
static struct epoll_event event;
static struct pollfd closed = { .fd = 777, .events = POLLIN };
static unsigned long closed_set[16] = { [12] = 1ul << 9 };

static int epoll(void) { return epoll_create1(0); }
static int timer(int flags) { return timerfd_create(CLOCK_MONOTONIC, flags); }
static int null(void) { return open("/dev/null", O_RDWR); }
static timer_t posix_timer(clockid_t clock) {
    int id = 0x7fffffff;
    struct sigevent silent = { .sigev_notify = SIGEV_NONE };
    syscall(SYS_timer_create, clock, &silent, &id);
    return (timer_t)(long)id;
}
#define EVENT(how, number, thread) &(struct sigevent){ .sigev_notify = how, .sigev_signo = number, ._sigev_un._tid = thread }
static int made;
#define OWN (int)syscall(SYS_gettid)
static const struct itimerspec constant_setting = { .it_value = { 5, 0 } };

static char name_too_long[5000];

// Calls that newer architectures do not have.
#ifdef SYS_poll
#define OLD_CASES \
    X(time_bad, SYS_time, BAD) \
    X(poll_bad, SYS_poll, BAD, 1, 20) \
    X(poll_many, SYS_poll, &closed, 1 << 30, 20) \
    X(poll_closed, SYS_poll, &closed, 1, 20) \
    X(select_negative_count, SYS_select, -1, NULL, NULL, NULL, &day_ok) \
    X(select_bad_set, SYS_select, 10, BAD, NULL, NULL, &day_ok) \
    X(select_bad_second_set, SYS_select, 10, NULL, BAD, NULL, &day_ok) \
    X(select_closed, SYS_select, 1000, closed_set, NULL, NULL, &day_ok) \
    X(select_bad_time, SYS_select, 0, NULL, NULL, NULL, BAD) \
    X(select_negative, SYS_select, 0, NULL, NULL, NULL, &day_negative) \
    X(select_negative_us, SYS_select, 0, NULL, NULL, NULL, &day_negative_us) \
    X(select_much_us, SYS_select, 0, NULL, NULL, NULL, &day_much) \
    X(epoll_closed, SYS_epoll_wait, 777, &event, 1, 20) \
    X(epoll_other, SYS_epoll_wait, null(), &event, 1, 20) \
    X(epoll_none, SYS_epoll_wait, epoll(), &event, 0, 20) \
    X(epoll_negative, SYS_epoll_wait, epoll(), &event, -1, 20) \
    X(epoll_many, SYS_epoll_wait, epoll(), &event, 1 << 30, 20) \
    X(epoll_kernel, SYS_epoll_wait, epoll(), KERNEL, 1, 20) \
    X(epoll_endless_closed, SYS_epoll_wait, 777, &event, 1, -1) \
    X(epoll_endless_none, SYS_epoll_wait, epoll(), &event, 0, -1)
#else
#define OLD_CASES
#endif
#define CASES \
    OLD_CASES \
    X(nanosleep_null, SYS_nanosleep, NULL, NULL) \
    X(nanosleep_bad, SYS_nanosleep, BAD, NULL) \
    X(nanosleep_kernel, SYS_nanosleep, KERNEL, NULL) \
    X(nanosleep_negative_s, SYS_nanosleep, &negative_s, NULL) \
    X(nanosleep_negative_ns, SYS_nanosleep, &negative_ns, NULL) \
    X(nanosleep_much_ns, SYS_nanosleep, &much_ns, NULL) \
    X(nanosleep_bad_left, SYS_nanosleep, &ok, BAD) \
    X(clock_nanosleep_id, SYS_clock_nanosleep, 99, 0, &ok, NULL) \
    X(clock_nanosleep_10, SYS_clock_nanosleep, 10, 0, &ok, NULL) \
    X(clock_nanosleep_negative_id, SYS_clock_nanosleep, -1, 0, &ok, NULL) \
    X(clock_nanosleep_thread, SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &ok, NULL) \
    X(clock_nanosleep_raw, SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &ok, NULL) \
    X(clock_nanosleep_coarse, SYS_clock_nanosleep, CLOCK_MONOTONIC_COARSE, 0, &ok, NULL) \
    X(clock_nanosleep_real_coarse, SYS_clock_nanosleep, CLOCK_REALTIME_COARSE, 0, &ok, NULL) \
    X(clock_nanosleep_real_alarm, SYS_clock_nanosleep, CLOCK_REALTIME_ALARM, 0, &ok, NULL) \
    X(clock_nanosleep_boot_alarm, SYS_clock_nanosleep, CLOCK_BOOTTIME_ALARM, 0, &ok, NULL) \
    X(clock_nanosleep_null, SYS_clock_nanosleep, 1, 0, NULL, NULL) \
    X(clock_nanosleep_bad, SYS_clock_nanosleep, 1, TIMER_ABSTIME, BAD, NULL) \
    X(clock_nanosleep_abs_negative, SYS_clock_nanosleep, 0, TIMER_ABSTIME, &negative_s, NULL) \
    X(clock_nanosleep_abs_much, SYS_clock_nanosleep, 0, TIMER_ABSTIME, &much_ns, NULL) \
    X(clock_nanosleep_flags, SYS_clock_nanosleep, 1, 0x40, &ok, NULL) \
    X(clock_gettime_id, SYS_clock_gettime, 99, &ok) \
    X(clock_gettime_10, SYS_clock_gettime, 10, &ok) \
    X(clock_gettime_negative, SYS_clock_gettime, -1, &ok) \
    X(clock_gettime_bad, SYS_clock_gettime, 1, BAD) \
    X(clock_gettime_null, SYS_clock_gettime, 1, NULL) \
    X(clock_gettime_kernel, SYS_clock_gettime, 0, KERNEL) \
    X(clock_gettime_real_alarm, SYS_clock_gettime, CLOCK_REALTIME_ALARM, &ok) \
    X(clock_gettime_boot_alarm, SYS_clock_gettime, CLOCK_BOOTTIME_ALARM, &ok) \
    X(clock_getres_id, SYS_clock_getres, 99, &ok) \
    X(clock_getres_null, SYS_clock_getres, 1, NULL) \
    X(clock_getres_bad, SYS_clock_getres, 1, BAD) \
    X(gettimeofday_null, SYS_gettimeofday, NULL, NULL) \
    X(gettimeofday_bad, SYS_gettimeofday, BAD, NULL) \
    X(gettimeofday_bad_zone, SYS_gettimeofday, &day_ok, BAD) \
    X(ppoll_bad, SYS_ppoll, BAD, 1, &ok, NULL, 8) \
    X(ppoll_bad_time, SYS_ppoll, &closed, 0, BAD, NULL, 8) \
    X(ppoll_negative, SYS_ppoll, &closed, 0, &negative_s, NULL, 8) \
    X(ppoll_much, SYS_ppoll, &closed, 0, &much_ns, NULL, 8) \
    X(ppoll_mask_size, SYS_ppoll, &closed, 0, &ok, &mask, 4) \
    X(ppoll_mask_bad, SYS_ppoll, &closed, 0, &ok, BAD, 8) \
    X(ppoll_no_mask_size, SYS_ppoll, &closed, 0, &ok, NULL, 4) \
    X(pselect_bad_time, SYS_pselect6, 0, NULL, NULL, NULL, BAD, NULL) \
    X(pselect_negative, SYS_pselect6, 0, NULL, NULL, NULL, &negative_ns, NULL) \
    X(pselect_mask, SYS_pselect6, 0, NULL, NULL, NULL, &ok, &pack_ok) \
    X(pselect_mask_size, SYS_pselect6, 0, NULL, NULL, NULL, &ok, &pack_size) \
    X(pselect_mask_bad, SYS_pselect6, 0, NULL, NULL, NULL, &ok, &pack_bad) \
    X(pselect_mask_none, SYS_pselect6, 0, NULL, NULL, NULL, &ok, &pack_none) \
    X(pselect_pack_bad, SYS_pselect6, 0, NULL, NULL, NULL, &ok, BAD) \
    X(epoll_pwait_size, SYS_epoll_pwait, epoll(), &event, 1, 20, &mask, 4) \
    X(epoll_pwait_bad, SYS_epoll_pwait, epoll(), &event, 1, 20, BAD, 8) \
    X(epoll_pwait2_negative, SYS_epoll_pwait2, epoll(), &event, 1, &negative_s, NULL, 8) \
    X(epoll_pwait2_bad, SYS_epoll_pwait2, epoll(), &event, 1, BAD, NULL, 8) \
    X(epoll_pwait2_closed, SYS_epoll_pwait2, 777, &event, 1, &ok, NULL, 8) \
    X(futex_bad_word, SYS_futex, BAD, FUTEX_WAIT, 5, &ok, NULL, 0) \
    X(futex_null_word, SYS_futex, NULL, FUTEX_WAIT, 5, &ok, NULL, 0) \
    X(futex_bad_time, SYS_futex, &word, FUTEX_WAIT, 5, BAD, NULL, 0) \
    X(futex_negative, SYS_futex, &word, FUTEX_WAIT, 5, &negative_s, NULL, 0) \
    X(futex_negative_both, SYS_futex, &word, FUTEX_WAIT, 5, &negative_both, NULL, 0) \
    X(futex_much_ns, SYS_futex, &word, FUTEX_WAIT, 5, &much_ns, NULL, 0) \
    X(futex_other_value, SYS_futex, &word, FUTEX_WAIT, 6, &ok, NULL, 0) \
    X(futex_no_bits, SYS_futex, &word, FUTEX_WAIT_BITSET, 5, &ok, NULL, 0) \
    X(futex_past, SYS_futex, &word, FUTEX_WAIT_BITSET, 5, &ok, NULL, 1) \
    X(futex_past_real, SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 5, &ok, NULL, 1) \
    X(futex_wait_real, SYS_futex, &word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 5, &ok, NULL, 0) \
    X(futex_lock_pi_real, SYS_futex, &word, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 0, &ok, NULL, 0) \
    X(futex_unknown, SYS_futex, &word, 55, 5, &ok, NULL, 0) \
    X(timerfd_create_clock, SYS_timerfd_create, 99, 0) \
    X(timerfd_create_cpu, SYS_timerfd_create, CLOCK_PROCESS_CPUTIME_ID, 0) \
    X(timerfd_create_flags, SYS_timerfd_create, CLOCK_MONOTONIC, 5) \
    X(timerfd_settime_closed, SYS_timerfd_settime, 777, 0, &setting_ok, NULL) \
    X(timerfd_settime_other, SYS_timerfd_settime, null(), 0, &setting_ok, NULL) \
    X(timerfd_settime_bad, SYS_timerfd_settime, timer(0), 0, BAD, NULL) \
    X(timerfd_settime_null, SYS_timerfd_settime, timer(0), 0, NULL, NULL) \
    X(timerfd_settime_bad_old, SYS_timerfd_settime, timer(0), 0, &setting_ok, BAD) \
    X(timerfd_settime_flags, SYS_timerfd_settime, timer(0), 8, &setting_ok, NULL) \
    X(timerfd_settime_ns, SYS_timerfd_settime, timer(0), 0, &setting_ns, NULL) \
    X(timerfd_settime_interval, SYS_timerfd_settime, timer(0), 0, &setting_interval, NULL) \
    X(timerfd_gettime_closed, SYS_timerfd_gettime, 777, &setting_ok) \
    X(timerfd_gettime_other, SYS_timerfd_gettime, null(), &setting_ok) \
    X(timerfd_gettime_bad, SYS_timerfd_gettime, timer(0), BAD) \
    X(timerfd_read_short, SYS_read, timer(TFD_NONBLOCK), &mask, 4) \
    X(timerfd_read_unarmed, SYS_read, timer(TFD_NONBLOCK), &mask, 8) \
    X(timerfd_create_real_alarm, SYS_timerfd_create, CLOCK_REALTIME_ALARM, 0) \
    X(timerfd_create_boot_alarm, SYS_timerfd_create, CLOCK_BOOTTIME_ALARM, 0) \
    X(timerfd_create_alarm_flags, SYS_timerfd_create, CLOCK_BOOTTIME_ALARM, 5) \
    X(timerfd_settime_flags_bad, SYS_timerfd_settime, timer(0), 8, BAD, NULL) \
    X(timerfd_settime_constant_old, SYS_timerfd_settime, timer(0), 0, &setting_ok, &constant_setting) \
    X(timerfd_gettime_constant, SYS_timerfd_gettime, timer(0), &constant_setting) \
    X(timer_create_signal, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, SIGUSR1, 0), &made) \
    X(timer_create_default, SYS_timer_create, CLOCK_REALTIME, NULL, &made) \
    X(timer_create_tai, SYS_timer_create, CLOCK_TAI, NULL, &made) \
    X(timer_create_none, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_NONE, 0, 0), &made) \
    X(timer_create_none_odd, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_NONE, -7, 12345), &made) \
    X(timer_create_thread, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD, SIGUSR1, 0), &made) \
    X(timer_create_thread_odd, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD, 65, 0), &made) \
    X(timer_create_thread_id, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD_ID, SIGUSR1, OWN), &made) \
    X(timer_create_thread_id_odd, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD_ID, 0, OWN), &made) \
    X(timer_create_thread_id_other, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD_ID, SIGUSR1, 1), &made) \
    X(timer_create_thread_id_zero, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD_ID, SIGUSR1, 0), &made) \
    X(timer_create_thread_id_negative, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_THREAD_ID, SIGUSR1, -1), &made) \
    X(timer_create_how_3, SYS_timer_create, CLOCK_MONOTONIC, EVENT(3, SIGUSR1, 0), &made) \
    X(timer_create_how_5, SYS_timer_create, CLOCK_MONOTONIC, EVENT(5, SIGUSR1, OWN), &made) \
    X(timer_create_how_6, SYS_timer_create, CLOCK_MONOTONIC, EVENT(6, SIGUSR1, OWN), &made) \
    X(timer_create_how_negative, SYS_timer_create, CLOCK_MONOTONIC, EVENT(-1, SIGUSR1, 0), &made) \
    X(timer_create_signal_0, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, 0, 0), &made) \
    X(timer_create_signal_64, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, 64, 0), &made) \
    X(timer_create_signal_65, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, 65, 0), &made) \
    X(timer_create_signal_negative, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, -1, 0), &made) \
    X(timer_create_event_bad, SYS_timer_create, CLOCK_MONOTONIC, BAD, &made) \
    X(timer_create_event_bad_clock, SYS_timer_create, 99, BAD, &made) \
    X(timer_create_bad, SYS_timer_create, CLOCK_MONOTONIC, NULL, BAD) \
    X(timer_create_null, SYS_timer_create, CLOCK_MONOTONIC, NULL, NULL) \
    X(timer_create_bad_odd, SYS_timer_create, CLOCK_MONOTONIC, EVENT(SIGEV_SIGNAL, 0, 0), BAD) \
    X(timer_create_clock_99, SYS_timer_create, 99, NULL, &made) \
    X(timer_create_clock_10, SYS_timer_create, 10, NULL, &made) \
    X(timer_create_raw, SYS_timer_create, CLOCK_MONOTONIC_RAW, NULL, &made) \
    X(timer_create_coarse, SYS_timer_create, CLOCK_MONOTONIC_COARSE, NULL, &made) \
    X(timer_create_real_coarse, SYS_timer_create, CLOCK_REALTIME_COARSE, NULL, &made) \
    X(timer_create_boot, SYS_timer_create, CLOCK_BOOTTIME, NULL, &made) \
    X(timer_create_real_alarm, SYS_timer_create, CLOCK_REALTIME_ALARM, NULL, &made) \
    X(timer_create_boot_alarm, SYS_timer_create, CLOCK_BOOTTIME_ALARM, NULL, &made) \
    X(timer_create_alarm_odd, SYS_timer_create, CLOCK_BOOTTIME_ALARM, EVENT(SIGEV_SIGNAL, 0, 0), &made) \
    X(timer_create_cpu, SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, EVENT(SIGEV_NONE, 0, 0), &made) \
    X(timer_create_cpu_of_parent, SYS_timer_create, ~getppid() * 8 | 2, EVENT(SIGEV_NONE, 0, 0), &made) \
    X(timer_create_cpu_of_nobody, SYS_timer_create, ~0x3ffff0 * 8 | 2, EVENT(SIGEV_NONE, 0, 0), &made) \
    X(timer_settime, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, &setting_ok, NULL) \
    X(timer_settime_flags, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0xfe, &setting_ok, NULL) \
    X(timer_settime_null, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, NULL, NULL) \
    X(timer_settime_null_bad_old, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, NULL, BAD) \
    X(timer_settime_bad, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, BAD, NULL) \
    X(timer_settime_bad_flags, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 8, BAD, NULL) \
    X(timer_settime_bad_old, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, &setting_ok, BAD) \
    X(timer_settime_constant_old, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, &setting_ok, &constant_setting) \
    X(timer_settime_ns, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, &setting_ns, NULL) \
    X(timer_settime_interval, SYS_timer_settime, posix_timer(CLOCK_MONOTONIC), 0, &setting_interval, NULL) \
    X(timer_settime_nobody, SYS_timer_settime, 0x40001234, 0, &setting_ok, NULL) \
    X(timer_settime_nobody_bad, SYS_timer_settime, 0x40001234, 0, BAD, NULL) \
    X(timer_settime_nobody_null, SYS_timer_settime, 0x40001234, 0, NULL, NULL) \
    X(timer_settime_777, SYS_timer_settime, 777, 0, &setting_ok, NULL) \
    X(timer_settime_777_bad, SYS_timer_settime, 777, 0, BAD, NULL) \
    X(timer_settime_777_null, SYS_timer_settime, 777, 0, NULL, NULL) \
    X(timer_settime_negative, SYS_timer_settime, -1, 0, &setting_ok, NULL) \
    X(timer_settime_cpu_null, SYS_timer_settime, posix_timer(CLOCK_PROCESS_CPUTIME_ID), 0, NULL, NULL) \
    X(timer_settime_cpu_bad, SYS_timer_settime, posix_timer(CLOCK_PROCESS_CPUTIME_ID), 0, BAD, NULL) \
    X(timer_settime_cpu_flags, SYS_timer_settime, posix_timer(CLOCK_PROCESS_CPUTIME_ID), 0xfe, &setting_ok, NULL) \
    X(timer_settime_cpu_ns, SYS_timer_settime, posix_timer(CLOCK_PROCESS_CPUTIME_ID), 0, &setting_ns, NULL) \
    X(timer_gettime_bad, SYS_timer_gettime, posix_timer(CLOCK_MONOTONIC), BAD) \
    X(timer_gettime_null, SYS_timer_gettime, posix_timer(CLOCK_MONOTONIC), NULL) \
    X(timer_gettime_constant, SYS_timer_gettime, posix_timer(CLOCK_MONOTONIC), &constant_setting) \
    X(timer_gettime_nobody, SYS_timer_gettime, 0x40001234, BAD) \
    X(timer_gettime_777, SYS_timer_gettime, 777, BAD) \
    X(timer_getoverrun_unset, SYS_timer_getoverrun, posix_timer(CLOCK_MONOTONIC)) \
    X(timer_getoverrun_nobody, SYS_timer_getoverrun, 0x40001234) \
    X(timer_delete, SYS_timer_delete, posix_timer(CLOCK_MONOTONIC)) \
    X(timer_delete_nobody, SYS_timer_delete, 0x40001234) \
    X(setitimer_bad, SYS_setitimer, ITIMER_REAL, BAD, NULL) \
    X(setitimer_bad_old, SYS_setitimer, ITIMER_REAL, NULL, BAD) \
    X(setitimer_much, SYS_setitimer, ITIMER_REAL, &itimer_much, NULL) \
    X(setitimer_negative, SYS_setitimer, ITIMER_REAL, &itimer_negative, NULL) \
    X(setitimer_which, SYS_setitimer, 3, NULL, NULL) \
    X(getitimer_null, SYS_getitimer, ITIMER_REAL, NULL) \
    X(getitimer_which, SYS_getitimer, -1, &itimer_much) \
    X(sigprocmask_how, SYS_rt_sigprocmask, 9, &mask, NULL, 8) \
    X(sigprocmask_bad, SYS_rt_sigprocmask, SIG_BLOCK, BAD, NULL, 8) \
    X(sigprocmask_bad_old, SYS_rt_sigprocmask, SIG_BLOCK, &mask, BAD, 8) \
    X(sigprocmask_size, SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, 4) \
    X(sigaction_0, SYS_rt_sigaction, 0, closed_set, NULL, 8) \
    X(sigaction_65, SYS_rt_sigaction, 65, closed_set, NULL, 8) \
    X(sigaction_kill, SYS_rt_sigaction, SIGKILL, closed_set, NULL, 8) \
    X(sigaction_bad, SYS_rt_sigaction, SIGUSR1, BAD, NULL, 8) \
    X(sigaction_bad_old, SYS_rt_sigaction, SIGUSR1, NULL, BAD, 8) \
    X(sigaction_sys_bad, SYS_rt_sigaction, SIGSYS, BAD, NULL, 8) \
    X(sigaction_sys_bad_old, SYS_rt_sigaction, SIGSYS, closed_set, BAD, 8) \
    X(sigaction_size, SYS_rt_sigaction, SIGUSR1, closed_set, NULL, 4) \
    X(sigsuspend_size, SYS_rt_sigsuspend, &mask, 4) \
    X(sigsuspend_bad, SYS_rt_sigsuspend, BAD, 8) \
    X(execve_bad, SYS_execve, BAD, NULL, NULL) \
    X(execve_null, SYS_execve, NULL, NULL, NULL) \
    X(execve_bad_arguments, SYS_execve, "/bin/true", BAD, NULL) \
    X(execve_long, SYS_execve, name_too_long, NULL, NULL) \
    X(execveat_closed, SYS_execveat, 777, "true", NULL, NULL, 0) \
    X(execveat_flags, SYS_execveat, 0, "/bin/true", NULL, NULL, 1) \
    X(clock_adjtime_id, SYS_clock_adjtime, 99, closed_set) \
    X(clock_adjtime_mono, SYS_clock_adjtime, CLOCK_MONOTONIC, closed_set) \
    X(adjtimex_bad, SYS_adjtimex, BAD)

#define X(name, ...) \
    static long run_##name(struct outcome *out) { \
        out->want_ns = 0; \
        long ret = syscall(__VA_ARGS__); \
        out->err = ret < 0 ? errno : 0; \
        return ret > 1000 ? 1000 : ret; \
    }
CASES
#undef X
// Fields that the kernel does not set keep their contents, without foreign bytes.
static long run_adjtimex_gaps(struct outcome *out) {
    unsigned char given[sizeof(struct timex)];
    memset(given, 0xa5, sizeof given);
    memset(given, 0, sizeof(int)); // no modes
    out->want_ns = 0;
    long ret = syscall(SYS_adjtimex, given);
    static const struct { size_t from, to; } gaps[] = { { 4, 8 }, { 44, 48 }, { 116, 120 }, { 164, 208 } };
    int kept = 1;
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++)
        for (size_t at = gaps[i].from; at < gaps[i].to; at++) kept &= given[at] == 0xa5;
    note(out, "kept=%d", kept);
    return ret < 0;
}

#define X(name, ...) { #name, run_##name },
static const struct test_case cases[] = { CASES { "adjtimex_gaps", run_adjtimex_gaps } };

int main(int argc, char **argv) {
    memset(name_too_long, 'n', sizeof name_too_long - 1);
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
