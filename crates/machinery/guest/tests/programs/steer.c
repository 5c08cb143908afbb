// Sets and steers the clock of its host. Never to be run outside a session, where it would set the
// machine's clock: it looks for the session's clock page before it does anything. (`steer natively
// WHAT` is for a disposable machine: scripts/test-phc.)
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/uio.h>

static int failed;

#define EXPECT(condition, ...) do { \
        if (!(condition)) { \
            failed++; \
            say("line %d: %s; ", __LINE__, #condition); \
            say(__VA_ARGS__); \
            say("\n"); \
        } \
    } while (0)

// Reads both clocks at one moment. Of many attempts, the shortest counts.
static int64_t beside(clockid_t one, clockid_t other, int64_t *other_ns) {
    int64_t least = INT64_MAX, best = 0;
    for (int i = 0; i < 100; i++) {
        int64_t before = clock_ns(one), read = clock_ns(other), width = clock_ns(one) - before;
        if (width >= least) continue;
        least = width;
        *other_ns = read;
        best = before + width / 2;
    }
    return best;
}
static int64_t apart_ns(clockid_t one, clockid_t other) {
    int64_t other_ns, one_ns = beside(one, other, &other_ns);
    return one_ns - other_ns;
}
static int64_t ahead_ns(void) { return apart_ns(CLOCK_REALTIME, CLOCK_MONOTONIC); }

static int near(int64_t value, int64_t wanted, int64_t tolerance) {
    return value >= wanted - tolerance && value <= wanted + tolerance;
}

static void step_ns(int64_t by) {
    struct timex step = { .modes = ADJ_SETOFFSET | ADJ_NANO };
    step.time.tv_sec = (by - (by % S + S) % S) / S;
    step.time.tv_usec = (by % S + S) % S;
    EXPECT(clock_adjtime(CLOCK_REALTIME, &step) == TIME_ERROR, "errno %d", errno);
}

// --- set: every way to set the clock changes REALTIME and nothing else.
static void set(void) {
    int64_t before = ahead_ns(), tai = apart_ns(CLOCK_TAI, CLOCK_REALTIME);
    int64_t raw = apart_ns(CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC), begun = mono_ns();
    struct timespec later = spec(clock_ns(CLOCK_REALTIME) + 1000 * S);
    EXPECT(clock_settime(CLOCK_REALTIME, &later) == 0, "errno %d", errno);
    // The lower limit subtracts the time between reading and setting.
    int64_t most = 1000 * S + 2 * MS, least = 1000 * S - (mono_ns() - begun) - 2 * MS, by = ahead_ns() - before;
    EXPECT(by >= least && by <= most, "%lld", (long long)by);
    int64_t exact = ahead_ns();
    step_ns(-2500 * MS);
    EXPECT(near(ahead_ns() - exact, -2500 * MS, 2 * MS), "%lld", (long long)(ahead_ns() - exact));
    struct timeval day = { .tv_sec = 1600000000, .tv_usec = 999999 };
    begun = mono_ns();
    EXPECT(settimeofday(&day, NULL) == 0, "errno %d", errno);
    int64_t since = clock_ns(CLOCK_REALTIME) - (1600000000 * S + 999999000);
    EXPECT(since >= 0 && since <= mono_ns() - begun, "%lld", (long long)since);
    EXPECT(near(apart_ns(CLOCK_TAI, CLOCK_REALTIME), tai, 2 * MS), "TAI");
    EXPECT(near(apart_ns(CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC), raw, 2 * MS), "RAW");
    struct timex tai37 = { .modes = ADJ_TAI, .constant = 37 };
    EXPECT(adjtimex(&tai37) == TIME_ERROR && tai37.tai == 37, "%d", tai37.tai);
    EXPECT(near(apart_ns(CLOCK_TAI, CLOCK_REALTIME), 37 * S, 2 * MS), "TAI");
    // The answer contains a reading, in nanoseconds since the step above.
    struct timex read = { 0 };
    int64_t from = clock_ns(CLOCK_REALTIME);
    EXPECT(adjtimex(&read) == TIME_ERROR, "unsynchronised");
    int64_t answered = read.time.tv_sec * S + read.time.tv_usec;
    EXPECT(answered >= from && answered <= clock_ns(CLOCK_REALTIME), "%lld", (long long)(answered - from));
}

// --- errors, in the kernel's order of checks.
static void errors(void) {
    struct timespec time = spec(1700000000 * S), bad = { 1700000000, S };
    struct timex timex = { .modes = ADJ_TICK, .tick = 1 };
#define REFUSED(number, call) do { \
        errno = 0; \
        long ret_ = (call); \
        EXPECT(ret_ == -1 && errno == (number), "%ld, errno %d", ret_, errno); \
    } while (0)
    REFUSED(EINVAL, clock_settime(CLOCK_MONOTONIC, &time));
    REFUSED(EINVAL, clock_settime(CLOCK_REALTIME_COARSE, &time));
    REFUSED(EINVAL, clock_settime(99, &time));
    REFUSED(EINVAL, clock_settime(CLOCK_REALTIME, &bad));
    REFUSED(EFAULT, syscall(SYS_clock_settime, CLOCK_REALTIME, 8));
    REFUSED(EFAULT, syscall(SYS_settimeofday, 8, NULL));
    REFUSED(EFAULT, syscall(SYS_adjtimex, 8));
    REFUSED(EFAULT, syscall(SYS_clock_adjtime, CLOCK_MONOTONIC, 8));
    REFUSED(EINVAL, adjtimex(&timex));
    REFUSED(EOPNOTSUPP, clock_adjtime(CLOCK_MONOTONIC, &timex));
    REFUSED(EOPNOTSUPP, clock_adjtime(CLOCK_TAI, &timex));
    REFUSED(EINVAL, clock_adjtime(99, &timex));
    // Without the privilege, the program may only read.
    EXPECT(setresuid(65534, 65534, 65534) == 0, "errno %d", errno);
    struct timex none = { 0 }, frequency = { .modes = ADJ_FREQUENCY };
    EXPECT(adjtimex(&none) == TIME_ERROR, "errno %d", errno);
    REFUSED(EPERM, adjtimex(&frequency));
    REFUSED(EPERM, adjtimex(&timex));
    REFUSED(EPERM, clock_settime(CLOCK_REALTIME, &time));
    REFUSED(EINVAL, clock_settime(CLOCK_REALTIME, &bad));
    struct timeval day = { 1700000000, 0 };
    REFUSED(EPERM, settimeofday(&day, NULL));
    struct timeval slew = { 0, 5 };
    REFUSED(EPERM, adjtime(&slew, NULL));
}

// --- rate: MONOTONIC follows, RAW does not.
static double ratio(int64_t length) {
    int64_t raw, raw_then, mono = beside(CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, &raw);
    rest_ns(length);
    int64_t mono_then = beside(CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, &raw_then);
    return (double)(mono_then - mono) / (double)(raw_then - raw);
}

static void rate(void) {
    struct timex fast = { .modes = ADJ_TICK | ADJ_FREQUENCY, .tick = 11000, .freq = 500 << 16 };
    EXPECT(adjtimex(&fast) == TIME_ERROR, "errno %d", errno);
    double faster = ratio(300 * MS);
    EXPECT(faster > 1.1004 && faster < 1.1006, "%.6f", faster);
    struct timex slow = { .modes = ADJ_TICK | ADJ_FREQUENCY, .tick = 9000, .freq = 0 };
    EXPECT(adjtimex(&slow) == TIME_ERROR, "errno %d", errno);
    double slower = ratio(300 * MS);
    EXPECT(slower > 0.8999 && slower < 0.9001, "%.6f", slower);
    struct timex usual = { .modes = ADJ_TICK, .tick = 10000 };
    adjtimex(&usual);
    double even = ratio(100 * MS);
    EXPECT(even > 0.9999 && even < 1.0001, "%.6f", even);
    // adjtime(3): 500 µs in the second that begins next.
    int64_t before = apart_ns(CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW);
    struct timeval slew = { 0, 400 }, left;
    EXPECT(adjtime(&slew, NULL) == 0, "errno %d", errno);
    EXPECT(adjtime(NULL, &left) == 0 && left.tv_usec == 400, "%ld", (long)left.tv_usec);
    rest_ns(2100 * MS);
    // On a busy machine the end of the slew is seen late: it is read until it is right.
    int64_t slewed = 0;
    for (int i = 0; i < 300 && !near(slewed, 400000, 60000); i++) {
        if (i) rest_ns(100 * MS);
        slewed = apart_ns(CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW) - before;
    }
    EXPECT(near(slewed, 400000, 60000), "%lld", (long long)slewed);
    EXPECT(adjtime(NULL, &left) == 0 && left.tv_usec == 0, "%ld", (long)left.tv_usec);
}

// --- waits: those for an instant of REALTIME follow a step, others do not.
struct waiter {
    const char *name;
    void (*wait)(struct timespec realtime, struct timespec monotonic);
    int64_t ended_ns; // by MONOTONIC
    pthread_t thread;
    struct timespec realtime, monotonic;
};

static void nanosleep_realtime(struct timespec at, struct timespec unused) {
    (void)unused;
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL);
}
static void nanosleep_monotonic(struct timespec unused, struct timespec at) {
    (void)unused;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}
static void semaphore_realtime(struct timespec at, struct timespec unused) {
    (void)unused;
    sem_t never;
    sem_init(&never, 0, 0);
    while (sem_timedwait(&never, &at) != 0 && errno == EINTR) {}
}
static void timerfd_realtime(struct timespec at, struct timespec unused) {
    (void)unused;
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec setting = { .it_value = at };
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL);
    uint64_t count;
    if (read(fd, &count, 8) != 8) say("timerfd: errno %d\n", errno);
}
static void timerfd_cancel(struct timespec unused, struct timespec unused2) {
    (void)unused, (void)unused2;
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec setting = { .it_value = spec(clock_ns(CLOCK_REALTIME) + 1000 * S) };
    timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &setting, NULL);
    struct pollfd ready = { fd, POLLIN, 0 };
    poll(&ready, 1, FAR_MS);
}
static void timer_monotonic(struct timespec unused, struct timespec at) {
    (void)unused;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec setting = { .it_value = at };
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL);
    uint64_t count;
    if (read(fd, &count, 8) != 8) say("timerfd: errno %d\n", errno);
}
static void *run_waiter(void *argument) {
    struct waiter *waiter = argument;
    waiter->wait(waiter->realtime, waiter->monotonic);
    waiter->ended_ns = mono_ns();
    return NULL;
}

// Some wait for two seconds of MONOTONIC, some for an instant of REALTIME; after 300 ms the clock
// is set `by`. A step ahead is so large that a wait which does not follow it is half a minute late:
// more than the delay by a busy machine.
static void waits(int64_t by, int64_t realtime_ns) {
    struct waiter all[] = {
        { .name = "nanosleep_realtime", .wait = nanosleep_realtime },
        { .name = "semaphore_realtime", .wait = semaphore_realtime },
        { .name = "timerfd_realtime", .wait = timerfd_realtime },
        { .name = "nanosleep_monotonic", .wait = nanosleep_monotonic },
        { .name = "timer_monotonic", .wait = timer_monotonic },
        { .name = "timerfd_cancel", .wait = timerfd_cancel },
    };
    int64_t ahead = ahead_ns(), begun = mono_ns(), whole = 2 * S, until_step = 300 * MS;
    for (unsigned i = 0; i < 6; i++) {
        all[i].realtime = spec(ahead + begun + realtime_ns);
        all[i].monotonic = spec(begun + whole);
        pthread_create(&all[i].thread, NULL, run_waiter, &all[i]);
    }
    rest_ns(until_step);
    step_ns(by);
    for (unsigned i = 0; i < 6; i++) {
        pthread_join(all[i].thread, NULL);
        int64_t lasted = all[i].ended_ns - begun;
        int64_t wanted = i < 3 ? realtime_ns - by : i < 5 ? whole : until_step;
        if (wanted < until_step) wanted = until_step;
        // Never early (within the precision at which the step is known), and late only by the delay
        // of a busy machine.
        EXPECT(lasted >= wanted - 20 * MS && lasted < wanted + 30 * S, "%s lasted %lld ms of %lld", all[i].name,
               (long long)(lasted / MS), (long long)(wanted / MS));
    }
}

// --- storm: no reader sees MONOTONIC or RAW go back while another thread steers wildly.
static _Atomic int64_t last_mono, last_raw;
static atomic_int over;

static void look(clockid_t clock, _Atomic int64_t *last) {
    int64_t floor = atomic_load(last), now = clock_ns(clock);
    EXPECT(now >= floor, "clock %d went back by %lld ns", clock, (long long)(floor - now));
    while (floor < now && !atomic_compare_exchange_weak(last, &floor, now)) {}
}
static void *reader(void *unused) {
    while (!atomic_load(&over) && failed < 5) {
        for (int i = 0; i < 100; i++) look(CLOCK_MONOTONIC, &last_mono), look(CLOCK_MONOTONIC_RAW, &last_raw);
    }
    return unused;
}
static void storm(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, reader, NULL);
    int64_t end = mono_ns() + 1500 * MS;
    for (unsigned turn = 0; mono_ns() < end; turn++) {
        struct timex wild = { .modes = ADJ_TICK | ADJ_OFFSET | ADJ_STATUS | ADJ_NANO, .status = STA_PLL | STA_NANO };
        wild.tick = turn % 2 ? 9000 : 11000;
        wild.offset = turn % 3 ? 400000000 : -400000000;
        EXPECT(adjtimex(&wild) >= 0, "errno %d", errno);
        if (turn % 8 == 7) step_ns(turn % 16 == 7 ? -S : S);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

// --- cancel: TFD_TIMER_CANCEL_ON_SET, each line a rule of fs/timerfd.c.
enum { CANCEL = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET };

static int timer_fd(int64_t ahead, int64_t interval, int flags) {
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    struct itimerspec setting = { .it_value = spec(clock_ns(CLOCK_REALTIME) + ahead), .it_interval = spec(interval) };
    EXPECT(timerfd_settime(fd, flags, &setting, NULL) == 0, "errno %d", errno);
    return fd;
}
static int set_again(int fd, int flags, int64_t ahead, struct itimerspec *old) {
    struct itimerspec setting = { .it_value = spec(clock_ns(CLOCK_REALTIME) + ahead) };
    return timerfd_settime(fd, flags, &setting, old) == 0 ? 0 : errno;
}
// Returns the number read, or the negative errno.
static int64_t taken(int fd) {
    uint64_t count = 0;
    return read(fd, &count, sizeof count) == sizeof count ? (int64_t)count : -errno;
}
static int is_ready(int fd, int wait_ms) {
    struct pollfd ready = { fd, POLLIN, 0 };
    return poll(&ready, 1, wait_ms);
}
static int64_t left_ns(int fd) {
    struct itimerspec left;
    timerfd_gettime(fd, &left);
    return left.it_value.tv_sec * S + left.it_value.tv_nsec;
}
static void *blocked_reader(void *fd) {
    return (void *)(intptr_t)taken((int)(intptr_t)fd);
}

#define IS(expected, value) do { \
        int64_t value_ = (value); \
        EXPECT(value_ == (expected), "%lld", (long long)value_); \
    } while (0)

static void cancel(void) {
    // A reader is notified once for all steps since, and the timer stays armed.
    int fd = timer_fd(1000 * S, 0, CANCEL);
    IS(-EAGAIN, taken(fd));
    step_ns(S), step_ns(S);
    IS(1, is_ready(fd, 20000));
    IS(-ECANCELED, taken(fd));
    IS(-EAGAIN, taken(fd));
    IS(0, is_ready(fd, 0));
    EXPECT(near(left_ns(fd), 998 * S, 20 * S), "%lld", (long long)left_ns(fd));
    // The step is also reported by `readv`, through a duplicate, and in a child.
    step_ns(S);
    uint64_t count;
    struct iovec part = { &count, sizeof count };
    EXPECT(readv(fd, &part, 1) == -1 && errno == ECANCELED, "errno %d", errno);
    step_ns(S);
    IS(-ECANCELED, taken(dup(fd)));
    step_ns(S);
    pid_t child = fork();
    if (child == 0) _exit(taken(fd) == -ECANCELED ? 7 : 8);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "%x", status);
    IS(-EAGAIN, taken(fd));
    EXPECT(read(fd, &count, 4) == -1 && errno == EINVAL, "errno %d", errno);
    // This reader waits.
    fcntl(fd, F_SETFL, 0);
    pthread_t reader;
    void *result;
    pthread_create(&reader, NULL, blocked_reader, (void *)(intptr_t)fd);
    rest_ns(200 * MS);
    step_ns(-3 * S);
    pthread_join(reader, &result);
    IS(-ECANCELED, (intptr_t)result);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    // The next setting fails too, returns no previous setting, and takes effect.
    step_ns(S);
    struct itimerspec old = { .it_value = { 77, 77 } };
    IS(ECANCELED, set_again(fd, CANCEL, 500 * S, &old));
    EXPECT(old.it_value.tv_sec == 77, "%ld", (long)old.it_value.tv_sec);
    EXPECT(near(left_ns(fd), 500 * S, 20 * S), "%lld", (long long)left_ns(fd));
    IS(-EAGAIN, taken(fd));
    IS(0, set_again(fd, CANCEL, 400 * S, &old));
    EXPECT(near(old.it_value.tv_sec, 500, 20), "%ld", (long)old.it_value.tv_sec);
    // The step is remembered while the timer lacks the flag, until it has it again.
    step_ns(S);
    IS(0, set_again(fd, TFD_TIMER_ABSTIME, 400 * S, NULL));
    IS(-EAGAIN, taken(fd));
    IS(ECANCELED, set_again(fd, CANCEL, 400 * S, NULL));
    // Set forward and back: counts as set. Set back to the value at the timer's last check: does
    // not.
    step_ns(5 * S), step_ns(-5 * S);
    IS(-ECANCELED, taken(fd));
    int late = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    step_ns(5 * S);
    IS(0, set_again(late, CANCEL, 400 * S, NULL));
    step_ns(-5 * S);
    IS(-EAGAIN, taken(late));
    // Disarmed timers report it as well.
    struct itimerspec none = { 0 };
    IS(0, timerfd_settime(late, CANCEL, &none, NULL));
    step_ns(S);
    IS(-ECANCELED, taken(late));
    // A timer without the flag, with a relative setting, or on another clock does not report a
    // step.
    int mono = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec far = { .it_value = spec(clock_ns(CLOCK_MONOTONIC) + 1000 * S) };
    IS(0, timerfd_settime(mono, CANCEL, &far, NULL));
    int plain = timer_fd(1000 * S, 0, TFD_TIMER_ABSTIME), relative = timer_fd(1000 * S, 0, TFD_TIMER_CANCEL_ON_SET);
    step_ns(S);
    IS(-EAGAIN, taken(mono));
    IS(-EAGAIN, taken(plain));
    IS(-EAGAIN, taken(relative));
    // A steered clock is not set.
    IS(-ECANCELED, taken(fd));
    IS(-ECANCELED, taken(late));
    struct timex steered = { .modes = ADJ_FREQUENCY | ADJ_TAI, .freq = 100 << 16, .constant = 35 };
    EXPECT(adjtimex(&steered) >= 0, "errno %d", errno);
    struct timeval slew = { 0, 1000 };
    IS(0, adjtime(&slew, NULL));
    rest_ns(50 * MS);
    IS(-EAGAIN, taken(fd));
    // Earlier expirations are lost; a timer with a single expiration gets it later all the same, a
    // periodic one that had expired never again. One that had not expired continues.
    int once, next, period;
    int64_t span = 3 * S;
    for (;; span *= 2) {
        int64_t begun = mono_ns();
        once = timer_fd(span, 0, CANCEL), next = timer_fd(span, 100 * MS, CANCEL);
        period = timer_fd(1 * MS, 100 * MS, CANCEL);
        IS(1, is_ready(period, 20000));
        step_ns(-1 * MS);
        int in_time = mono_ns() - begun < span;
        IS(-ECANCELED, taken(once));
        IS(-ECANCELED, taken(next));
        IS(-ECANCELED, taken(period));
        if (in_time) break;
        // The machine is so busy that they had expired.
        close(once), close(next), close(period);
    }
    IS(1, is_ready(once, (int)(span / MS) + 20000));
    IS(1, taken(once));
    IS(1, is_ready(next, (int)(span / MS) + 20000));
    EXPECT(taken(next) >= 1, "errno %d", errno);
    IS(0, left_ns(period));
    IS(-EAGAIN, taken(period));
    // The thread that has set the clock finds it reported, even if another thread notices it at the
    // same time.
    for (int turn = 0; turn < 1000; turn++) {
        step_ns(turn % 2 == 0 ? -1 * MS : 1 * MS);
        IS(-ECANCELED, taken(fd));
    }
    // An ordinary file may contain the number that marks a set clock.
    uint64_t number = 0x0ca9ce11;
    int pipe_fds[2];
    EXPECT(pipe(pipe_fds) == 0 && write(pipe_fds[1], &number, 8) == 8, "errno %d", errno);
    IS(0x0ca9ce11, taken(pipe_fds[0]));
}

static int in_session(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "timeloom-abi")) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int natively = argc > 2 && !strcmp(argv[1], "natively");
    if (natively) argv++, argc--;
    else if (!in_session()) {
        say("this would set the machine's clock\n");
        return 77;
    }
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "set")) set();
    else if (!strcmp(what, "errors")) errors();
    else if (!strcmp(what, "rate")) rate();
    else if (!strcmp(what, "forward")) waits(60 * S, 60 * S + 800 * MS);
    else if (!strcmp(what, "far")) waits(120 * S, 60 * S);
    else if (!strcmp(what, "back")) waits(-700 * MS, 2 * S);
    else if (!strcmp(what, "storm")) storm();
    else if (!strcmp(what, "cancel")) cancel();
    else if (!strcmp(what, "show")) say("%lld %lld\n", (long long)ahead_ns(), (long long)mono_ns());
    else return 64;
    say("failed=%d\n", failed);
    return failed != 0;
}
