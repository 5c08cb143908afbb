// Hardware clocks. `phc`: other files are refused as natively. `phc DEVICE OFFSET_NS TOLERANCE_NS`:
// all ways of reading the device agree with each other, and with CLOCK_REALTIME except for about
// that offset; none sets it.
#include "common.h"
#include <linux/ptp_clock.h>
#include <sys/ioctl.h>
#include <sys/timex.h>

static int failed;

#define EXPECT(condition, ...) do { \
        if (!(condition)) { \
            failed++; \
            say("line %d: %s; ", __LINE__, #condition); \
            say(__VA_ARGS__); \
            say("\n"); \
        } \
    } while (0)

static clockid_t clock_of(int fd) { return (clockid_t)((~(unsigned)fd << 3) | 3); }
static int64_t stamp_ns(struct ptp_clock_time at) { return at.sec * S + at.nsec; }

static union {
    struct ptp_sys_offset offset;
    struct ptp_sys_offset_extended extended;
    struct ptp_sys_offset_precise precise;
    unsigned samples;
} answer;

static long ask(int fd, unsigned long command, unsigned samples) {
    memset(&answer, 0, sizeof answer);
    answer.samples = samples;
    return ioctl(fd, command, &answer) < 0 ? -errno : 0;
}

static void none(void) {
    unsigned long commands[] = {
        PTP_SYS_OFFSET, PTP_SYS_OFFSET2, PTP_SYS_OFFSET_EXTENDED, PTP_SYS_OFFSET_EXTENDED2,
        PTP_SYS_OFFSET_PRECISE, PTP_SYS_OFFSET_PRECISE2, PTP_CLOCK_GETCAPS,
    };
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0) _exit(99);
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        long result = ask(pipe_fds[0], commands[i], 5);
        EXPECT(result == -ENOTTY, "%u: %ld", i, result);
        result = ask(4711, commands[i], 5);
        EXPECT(result == -EBADF, "%u: %ld", i, result);
    }
    struct timespec now = { 7, 7 };
    EXPECT(clock_gettime(clock_of(pipe_fds[0]), &now) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(syscall(SYS_clock_gettime, clock_of(pipe_fds[0]), &now) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(now.tv_sec == 7 && now.tv_nsec == 7, "written");
    // Natively and under the clock: nothing can be set.
    struct timex look = { 0 };
    EXPECT(clock_adjtime(clock_of(pipe_fds[0]), &look) == -1 && errno == EINVAL, "errno %d", errno);
    EXPECT(clock_settime(clock_of(pipe_fds[0]), &now) == -1 && errno == EINVAL, "errno %d", errno);
    int bytes = -1;
    EXPECT(ioctl(pipe_fds[0], FIONREAD, &bytes) == 0 && bytes == 0, "%d", bytes);
}

// Compares a stamp of the device with those of the system around it.
static void compare(const char *how, int64_t before, int64_t device, int64_t after, int64_t offset, int64_t tolerance) {
    EXPECT(before <= after, "%s: %lld", how, (long long)(before - after));
    int64_t shown = device - offset;
    EXPECT(shown >= before - tolerance && shown <= after + tolerance, "%s: %lld of %lld", how, (long long)(shown - before),
           (long long)(after - before));
}

static void one(const char *device, int64_t offset, int64_t tolerance) {
    int fd = open(device, O_RDWR);
    EXPECT(fd >= 0, "%s: errno %d", device, errno);
    int64_t last_system = clock_ns(CLOCK_REALTIME), last_device = INT64_MIN;
#define IN_ORDER(system_, device_) do { \
        int64_t s_ = (system_), d_ = (device_); \
        EXPECT(s_ >= last_system, "the system's went back by %lld", (long long)(last_system - s_)); \
        EXPECT(d_ >= last_device, "the device's went back by %lld", (long long)(last_device - d_)); \
        last_system = s_, last_device = d_; \
    } while (0)
    for (int turn = 0; turn < 5; turn++) {
        EXPECT(ask(fd, PTP_SYS_OFFSET, 5) == 0, "errno %d", errno);
        for (int i = 0; i < 5; i++) {
            int64_t before = stamp_ns(answer.offset.ts[2 * i]), after = stamp_ns(answer.offset.ts[2 * i + 2]);
            int64_t shown = stamp_ns(answer.offset.ts[2 * i + 1]);
            compare("offset", before, shown, after, offset, tolerance);
            IN_ORDER(after, shown);
        }
        EXPECT(ask(fd, PTP_SYS_OFFSET_EXTENDED, 5) == 0, "errno %d", errno);
        for (int i = 0; i < 5; i++) {
            int64_t before = stamp_ns(answer.extended.ts[i][0]), after = stamp_ns(answer.extended.ts[i][2]);
            int64_t shown = stamp_ns(answer.extended.ts[i][1]);
            compare("extended", before, shown, after, offset, tolerance);
            IN_ORDER(after, shown);
        }
        for (int i = 0; i < 5; i++) {
            int64_t before = clock_ns(CLOCK_REALTIME), shown = clock_ns(clock_of(fd)), after = clock_ns(CLOCK_REALTIME);
            compare("clock_gettime", before, shown, after, offset, tolerance);
            IN_ORDER(after, shown);
        }
        rest_ns(100 * MS);
    }
    struct ptp_clock_caps caps;
    EXPECT(ioctl(fd, PTP_CLOCK_GETCAPS, &caps) == 0 && caps.max_adj > 0, "%d", caps.max_adj);
    // The machine's hardware cannot be set.
    struct timespec later = spec(last_device + 1000 * S);
    struct timex fast = { .modes = ADJ_FREQUENCY, .freq = 100 << 16 }, look = { 0 };
    EXPECT(clock_settime(clock_of(fd), &later) == -1 && errno == EOPNOTSUPP, "errno %d", errno);
    EXPECT(clock_adjtime(clock_of(fd), &fast) == -1 && errno == EOPNOTSUPP, "errno %d", errno);
    EXPECT(clock_adjtime(clock_of(fd), &look) == 0 && look.freq == 0, "errno %d, %ld", errno, look.freq);
    say("the device is ahead by %lld ns\n", (long long)(clock_ns(clock_of(fd)) - clock_ns(CLOCK_REALTIME)));
}

int main(int argc, char **argv) {
    if (argc == 1) none();
    else if (argc == 4) one(argv[1], atoll(argv[2]), atoll(argv[3]));
    else return 64;
    say("failed=%d\n", failed);
    return failed != 0;
}
