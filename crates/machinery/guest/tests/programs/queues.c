// Timed waits for signals, semaphores, messages and several futexes at once, and the same without a
// limit, ended from outside after a pause.
#include "common.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/times.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif

static struct timespec at(clockid_t clock, struct outcome *out) { return spec(clock_ns(clock) + out->want_ns); }

static sigset_t usr1(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return set;
}
static void post(int semaphore) {
    struct sembuf up = { 0, 1, 0 };
    semop(semaphore, &up, 1);
}
static void send_message(int queue) {
    struct { long type; char text[4]; } message = { 1, "abc" };
    msgsnd(queue, &message, 4, 0);
}

static long run_sigtimedwait(struct outcome *out) {
    sigset_t set = usr1();
    struct timespec wait = spec(out->want_ns);
    return FAILS(sigtimedwait(&set, NULL, &wait));
}
static long run_sigtimedwait_early(struct outcome *out) {
    sigset_t set = usr1();
    struct timespec wait = spec(FAR_NS);
    siginfo_t information = { 0 };
    pid_t me = getpid();
    AFTER(out, kill(me, SIGUSR1));
    long ret = FAILS(sigtimedwait(&set, &information, &wait));
    note(out, "signal=%d,code=%d", information.si_signo, information.si_code);
    return ret;
}
static long run_sigwaitinfo(struct outcome *out) {
    sigset_t set = usr1();
    pid_t me = getpid();
    AFTER(out, kill(me, SIGUSR1));
    return FAILS(sigwaitinfo(&set, NULL));
}
static int semaphore(void) {
    int id = semget(IPC_PRIVATE, 1, 0600);
    if (id < 0) _exit(98);
    return id;
}
static long run_semtimedop(struct outcome *out) {
    int id = semaphore();
    struct sembuf down = { 0, -1, 0 };
    struct timespec wait = spec(out->want_ns);
    long ret = FAILS(semtimedop(id, &down, 1, &wait));
    semctl(id, 0, IPC_RMID);
    return ret;
}
static long run_semop_endless(struct outcome *out) {
    int id = semaphore();
    struct sembuf down = { 0, -1, 0 };
    AFTER(out, post(id));
    long ret = FAILS(semop(id, &down, 1));
    semctl(id, 0, IPC_RMID);
    return ret;
}
static long run_msgrcv_endless(struct outcome *out) {
    int id = msgget(IPC_PRIVATE, 0600);
    struct { long type; char text[4]; } message;
    AFTER(out, send_message(id));
    long ret = FAILS(msgrcv(id, &message, 4, 0, 0));
    msgctl(id, IPC_RMID, NULL);
    return ret;
}
static mqd_t queue(void) {
    char name[40];
    struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
    snprintf(name, sizeof name, "/timeloom-%d", getpid());
    mqd_t id = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    mq_unlink(name);
    return id;
}
static long run_mq_timedreceive(struct outcome *out) {
    char text[8];
    struct timespec until = at(CLOCK_REALTIME, out);
    return FAILS(mq_timedreceive(queue(), text, sizeof text, NULL, &until));
}
static long run_mq_timedsend(struct outcome *out) {
    mqd_t id = queue();
    mq_send(id, "a", 1, 0);
    struct timespec until = at(CLOCK_REALTIME, out);
    return FAILS(mq_timedsend(id, "b", 1, 0, &until));
}
static void send_queue(int id) { mq_send(id, "abcd", 4, 0); }
static long run_mq_receive_endless(struct outcome *out) {
    mqd_t id = queue();
    char text[8];
    AFTER(out, send_queue(id));
    return FAILS(mq_receive(id, text, sizeof text, NULL));
}
static long run_futex_waitv(struct outcome *out) {
    static uint32_t words[2] = { 1, 2 };
    struct { uint64_t value, address; uint32_t flags, reserved; } waits[2] = {
        { 1, (uintptr_t)&words[0], 2, 0 }, { 2, (uintptr_t)&words[1], 2, 0 },
    };
    struct timespec until = at(CLOCK_MONOTONIC, out);
    return FAILS(syscall(SYS_futex_waitv, waits, 2, 0, &until, CLOCK_MONOTONIC));
}
// Linux 6.7; by either clock.
static long futex_wait(struct outcome *out, clockid_t clock) {
    static uint32_t word = 1;
    struct timespec until = at(clock, out);
    long ret = FAILS(syscall(SYS_futex_wait, &word, 1L, 0xffffffffL, 2 | 128, &until, clock));
    if (out->err == ENOSYS) out->want_ns = 0;
    return ret;
}
static long run_futex_wait(struct outcome *out) { return futex_wait(out, CLOCK_MONOTONIC); }
static long run_futex_wait_realtime(struct outcome *out) { return futex_wait(out, CLOCK_REALTIME); }
static long run_futex_wait_errors(struct outcome *out) {
    static uint32_t word = 1;
    struct timespec wrong = { 0, -5 }, past = { 0, 0 };
    long answers[] = {
        FAILS(syscall(SYS_futex_wait, &word, 1L, 0xffffffffL, 2 | 128, &past, 77)) * 1000 - out->err,
        FAILS(syscall(SYS_futex_wait, &word, 1L, 0xffffffffL, 2 | 128, &wrong, CLOCK_MONOTONIC)) * 1000 - out->err,
        FAILS(syscall(SYS_futex_wait, &word, 1L, 0xffffffffL, 2 | 128, (void *)8, CLOCK_MONOTONIC)) * 1000 - out->err,
        FAILS(syscall(SYS_futex_wait, &word, 2L, 0xffffffffL, 2 | 128, &past, CLOCK_MONOTONIC)) * 1000 - out->err,
        FAILS(syscall(SYS_futex_wait, &word, 1L, 0xffffffffL, 2 | 128, &past, CLOCK_MONOTONIC)) * 1000 - out->err,
    };
    note(out, "%ld,%ld,%ld,%ld,%ld", answers[0], answers[1], answers[2], answers[3], answers[4]);
    out->want_ns = 0;
    return 0;
}
// Waits for a tick and returns it. A kernel may be late with its ticks, by any number of them, but
// at each it is up to date. The tick came after `before` and until `after`.
static clock_t tick(int64_t *before, int64_t *after) {
    struct tms used;
    int64_t next = mono_ns();
    clock_t last, now = times(&used);
    do {
        *before = next;
        last = now;
        next = mono_ns();
        now = times(&used);
    } while (now == last);
    *after = mono_ns();
    return now;
}
// Clock of `times`: ticks since boot, consistent with CLOCK_MONOTONIC readings around them. The
// value is rounded down from a tick of the kernel's, which may be as long: twice 10 ms.
static long run_times(struct outcome *out) {
    int64_t first, second, third, fourth;
    clock_t begun = tick(&first, &second);
    rest_ns(out->want_ns);
    clock_t ended = tick(&third, &fourth);
    double ns = (double)(ended - begun) * S / sysconf(_SC_CLK_TCK);
    note(out, "little=%d,much=%d", ns < third - second - 20 * MS, ns > fourth - first + 20 * MS);
    return 0;
}
static long run_uptime(struct outcome *out) {
    struct sysinfo machine;
    rest_ns(out->want_ns);
    int64_t before_s = clock_ns(CLOCK_BOOTTIME) / S;
    long ret = FAILS(sysinfo(&machine));
    note(out, "uptime=%d", machine.uptime >= before_s && machine.uptime <= clock_ns(CLOCK_BOOTTIME) / S + 1);
    return ret;
}

static const struct test_case cases[] = {
    CASE(sigtimedwait), CASE(sigtimedwait_early), CASE(sigwaitinfo), CASE(semtimedop), CASE(semop_endless),
    CASE(msgrcv_endless), CASE(mq_timedreceive), CASE(mq_timedsend), CASE(mq_receive_endless),
    CASE(futex_waitv), CASE(futex_wait), CASE(futex_wait_realtime), CASE(futex_wait_errors), CASE(times), CASE(uptime),
};
MAIN(cases)
