// Runs a sequence of clock commands on the running kernel and prints the result
// of each, one line per command. Must be run as PID 1 of a throw-away machine
// (user-mode Linux, see record.sh): it sets the clock!
//
// A line: OP ARGUMENTS.. | RESULT ERRNO | the timex afterwards | RAW before and
// after the command (ns) | then RAW, REALTIME, MONOTONIC, TAI read together.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define ADJ_ADJTIME 0x8000

static long long ns(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

// Waits until REALTIME shows this part of a second, without sleeping: a tickless
// kernel applies a second's change late when it is idle.
static void until_part(long long part) {
    for (;;) {
        long long now = ns(CLOCK_REALTIME) % NS;
        if (now >= part && now < part + 60000000) return;
        usleep(2000);
    }
}

static void print_clocks(void) {
    long long best = 1LL << 62, raw = 0, real = 0, mono = 0, tai = 0;
    for (int i = 0; i < 20; i++) {
        long long a = ns(CLOCK_MONOTONIC_RAW), r = ns(CLOCK_REALTIME), m = ns(CLOCK_MONOTONIC), t = ns(CLOCK_TAI),
                  b = ns(CLOCK_MONOTONIC_RAW);
        // r lies 1/5, m 2/5, t 3/5 of the way; the difference is below the tolerance.
        if (b - a < best) best = b - a, raw = a + (b - a) / 2, real = r, mono = m, tai = t;
    }
    printf(" | %lld %lld %lld %lld %lld\n", raw, real, mono, tai, best);
}

static void finish(long ret, long long before, long long after, struct timex *t) {
    int e = ret < 0 ? errno : 0;
    printf(" | %ld %d", ret, e);
    printf(" | %ld %ld %ld %ld %d %ld %ld %ld %ld %ld %ld %d", t->offset, t->freq, t->maxerror, t->esterror, t->status,
           t->constant, t->precision, t->tolerance, t->time.tv_sec, t->time.tv_usec, t->tick, t->tai);
    printf(" | %lld %lld", before, after);
    print_clocks();
}

static void adjust(struct timex in) {
    until_part(480000000);
    printf("adjtimex %u %ld %ld %ld %ld %d %ld %ld %ld %ld", in.modes, in.offset, in.freq, in.maxerror, in.esterror,
           in.status, in.constant, in.time.tv_sec, in.time.tv_usec, in.tick);
    long long before = ns(CLOCK_MONOTONIC_RAW);
    long ret = syscall(SYS_adjtimex, &in);
    int e = errno;
    long long after = ns(CLOCK_MONOTONIC_RAW);
    errno = e;
    finish(ret, before, after, &in);
}

static void set(clockid_t clock, long s, long part) {
    until_part(480000000);
    struct timespec to = { s, part };
    struct timex none = { 0 };
    printf("settime %d %ld %ld", clock, s, part);
    long long before = ns(CLOCK_MONOTONIC_RAW);
    long ret = syscall(SYS_clock_settime, clock, &to);
    int e = errno;
    long long after = ns(CLOCK_MONOTONIC_RAW);
    errno = e;
    finish(ret, before, after, &none);
}

static void adjust_clock(clockid_t clock, struct timex in) {
    until_part(480000000);
    printf("clock_adjtime %d %u", clock, in.modes);
    long long before = ns(CLOCK_MONOTONIC_RAW);
    long ret = syscall(SYS_clock_adjtime, clock, &in);
    int e = errno;
    long long after = ns(CLOCK_MONOTONIC_RAW);
    errno = e;
    struct timex none = { 0 };
    finish(ret, before, after, &none);
}

// Reads once a quarter of a second.
static void watch(int quarters) {
    for (int i = 0; i < quarters; i++) {
        static const long long part[4] = { 130000000, 380000000, 630000000, 880000000 };
        long long now = ns(CLOCK_REALTIME) % NS;
        int next = 0;
        while (next < 4 && part[next] < now + 20000000) next++;
        until_part(part[next % 4]);
        struct timex in = { 0 };
        printf("adjtimex 0 0 0 0 0 0 0 0 0 0");
        long long before = ns(CLOCK_MONOTONIC_RAW);
        long ret = syscall(SYS_adjtimex, &in);
        long long after = ns(CLOCK_MONOTONIC_RAW);
        finish(ret, before, after, &in);
    }
}

#define A(...) adjust((struct timex){ __VA_ARGS__ })
#define READ() adjust((struct timex){ 0 })

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("hz %d\n", 100);
    set(CLOCK_REALTIME, 1700000000, 480000000);
    READ();
    A(.modes = ADJ_OFFSET_SS_READ);
    A(.modes = ADJ_MAXERROR | ADJ_ESTERROR | ADJ_STATUS, .maxerror = 1000, .esterror = 500, .status = STA_PLL);
    watch(6);

    // Frequency.
    A(.modes = ADJ_FREQUENCY, .freq = 100 << 16);
    watch(6);
    A(.modes = ADJ_FREQUENCY, .freq = 600 << 16);
    A(.modes = ADJ_FREQUENCY, .freq = -12345678);
    watch(4);
    A(.modes = ADJ_FREQUENCY, .freq = 0x7fffffffffffffff);
    A(.modes = ADJ_FREQUENCY, .freq = -0x7fffffffffffffff - 1);
    A(.modes = ADJ_FREQUENCY, .freq = 0x7fffffffffffffff / (1000 << 16));
    A(.modes = ADJ_FREQUENCY, .freq = 1);
    A(.modes = ADJ_FREQUENCY, .freq = 0);

    // Tick.
    A(.modes = ADJ_TICK, .tick = 10100);
    watch(5);
    A(.modes = ADJ_TICK, .tick = 8999);
    A(.modes = ADJ_TICK | ADJ_FREQUENCY, .tick = 9000, .freq = -500 << 16);
    watch(3);
    A(.modes = ADJ_TICK, .tick = 11001);
    A(.modes = ADJ_TICK, .tick = 11000);
    A(.modes = ADJ_TICK | ADJ_FREQUENCY, .tick = 10000, .freq = 0);

    // Time constant, resolution, status bits that only the kernel sets.
    A(.modes = ADJ_TIMECONST, .constant = 2);
    A(.modes = ADJ_TIMECONST, .constant = 12);
    A(.modes = ADJ_TIMECONST, .constant = -3);
    A(.modes = ADJ_NANO | ADJ_TIMECONST, .constant = 12);
    A(.modes = ADJ_NANO | ADJ_MICRO);
    A(.modes = ADJ_NANO);
    A(.modes = ADJ_STATUS, .status = 0xffff);
    A(.modes = ADJ_STATUS, .status = STA_PLL);
    A(.modes = ADJ_STATUS, .status = 0);
    A(.modes = ADJ_OFFSET, .offset = 5000000);
    A(.modes = ADJ_STATUS, .status = STA_PLL);
    A(.modes = ADJ_MAXERROR | ADJ_ESTERROR, .maxerror = 7, .esterror = 8);

    // The phase-locked loop.
    A(.modes = ADJ_NANO | ADJ_TIMECONST, .constant = 0);
    A(.modes = ADJ_OFFSET, .offset = 20000000);
    watch(12);
    A(.modes = ADJ_OFFSET, .offset = -3000001);
    watch(8);
    A(.modes = ADJ_OFFSET | ADJ_TIMECONST, .offset = 2000000000, .constant = 3);
    watch(8);
    A(.modes = ADJ_STATUS | ADJ_OFFSET, .offset = -2000000000, .status = STA_PLL | STA_FREQHOLD | STA_NANO);
    watch(8);
    A(.modes = ADJ_OFFSET | ADJ_MICRO, .offset = 1234);
    watch(4);
    A(.modes = ADJ_OFFSET | ADJ_MICRO, .offset = -3000000);
    A(.modes = ADJ_OFFSET | ADJ_NANO | ADJ_FREQUENCY, .offset = 0, .freq = 0);

    // The frequency-locked loop: only after 256 s, or 2048 s; a step of the
    // clock makes the kernel assume that this much time has passed.
    A(.modes = ADJ_STATUS | ADJ_NANO, .status = STA_PLL | STA_FLL | STA_NANO);
    A(.modes = ADJ_OFFSET, .offset = 1000000);
    A(.modes = ADJ_SETOFFSET, .time = { 300, 0 });
    READ();
    A(.modes = ADJ_STATUS, .status = STA_PLL | STA_FLL | STA_NANO);
    A(.modes = ADJ_OFFSET, .offset = 1000000);
    watch(4);
    A(.modes = ADJ_SETOFFSET | ADJ_STATUS | ADJ_NANO, .time = { 3000, 999999999 }, .status = STA_PLL | STA_NANO);
    A(.modes = ADJ_OFFSET, .offset = -7000000);
    watch(4);
    A(.modes = ADJ_SETOFFSET | ADJ_STATUS | ADJ_NANO, .time = { 300, 1 }, .status = STA_PLL | STA_NANO);
    A(.modes = ADJ_OFFSET, .offset = 7000000);
    A(.modes = ADJ_OFFSET | ADJ_FREQUENCY, .offset = 0, .freq = 0);

    // Steps.
    A(.modes = ADJ_SETOFFSET, .time = { -2, 300000 });
    A(.modes = ADJ_SETOFFSET, .time = { 1, 1000000 });
    A(.modes = ADJ_SETOFFSET, .time = { 1, -1 });
    A(.modes = ADJ_SETOFFSET | ADJ_NANO, .time = { 0, 1000000000 });
    A(.modes = ADJ_SETOFFSET | ADJ_NANO, .time = { -2000000000, 0 });
    A(.modes = ADJ_SETOFFSET | ADJ_TICK, .time = { 1, 0 }, .tick = 1);
    A(.modes = ADJ_SETOFFSET | ADJ_MAXERROR | ADJ_STATUS, .time = { -1, 700000 }, .maxerror = 3, .status = STA_PLL);

    // The slew of adjtime(3).
    A(.modes = ADJ_OFFSET_SINGLESHOT, .offset = 1200);
    A(.modes = ADJ_OFFSET_SS_READ);
    watch(16);
    A(.modes = ADJ_OFFSET_SINGLESHOT, .offset = -100000);
    watch(3);
    A(.modes = ADJ_OFFSET_SINGLESHOT, .offset = -777);
    watch(10);
    A(.modes = ADJ_OFFSET_SINGLESHOT | ADJ_MAXERROR, .offset = 0, .maxerror = 77);
    A(.modes = ADJ_ADJTIME, .offset = 100);
    A(.modes = ADJ_ADJTIME, .offset = 0);

    // TAI.
    A(.modes = ADJ_TAI, .constant = 37);
    A(.modes = ADJ_TAI, .constant = -1);
    A(.modes = ADJ_TAI, .constant = 100001);
    A(.modes = ADJ_TAI, .constant = 100000);
    A(.modes = ADJ_TAI | ADJ_TIMECONST, .constant = 37);

    // The bound on the error grows until the clock counts as unsynchronised.
    A(.modes = ADJ_MAXERROR | ADJ_STATUS, .maxerror = 15999300, .status = STA_PLL);
    watch(12);
    A(.modes = ADJ_MAXERROR, .maxerror = 16000000);
    A(.modes = ADJ_STATUS, .status = STA_PLL);

    // A leap second inserted, ...
    set(CLOCK_REALTIME, 20000L * 86400 - 5, 480000000);
    A(.modes = ADJ_STATUS, .status = STA_PLL | STA_INS);
    watch(18);
    A(.modes = ADJ_STATUS, .status = STA_PLL);
    watch(4);
    // ... one announced and withdrawn, ...
    set(CLOCK_REALTIME, 20000L * 86400 - 5, 480000000);
    A(.modes = ADJ_STATUS, .status = STA_PLL | STA_INS);
    READ();
    A(.modes = ADJ_STATUS, .status = STA_PLL);
    watch(10);
    // ... and one deleted.
    set(CLOCK_REALTIME, 20000L * 86400 - 5, 480000000);
    A(.modes = ADJ_STATUS, .status = STA_PLL | STA_DEL);
    watch(18);
    A(.modes = ADJ_STATUS, .status = STA_PLL | STA_INS);
    watch(4);
    A(.modes = ADJ_STATUS, .status = 0);
    watch(4);

    // Clocks that cannot be set, times that no clock can show.
    set(CLOCK_MONOTONIC, 5, 0);
    set(CLOCK_BOOTTIME, 5, 0);
    set(CLOCK_TAI, 1800000000, 0);
    set(CLOCK_REALTIME_COARSE, 1800000000, 0);
    set(CLOCK_REALTIME, 1800000000, 1000000000);
    set(CLOCK_REALTIME, 1800000000, -1);
    set(CLOCK_REALTIME, -1, 0);
    set(CLOCK_REALTIME, 3, 0);
    set(CLOCK_REALTIME, 9223372036 - 30L * 365 * 86400, 0);
    set(CLOCK_REALTIME, 9223372036 - 30L * 365 * 86400 - 1, 500000000);
    set(CLOCK_REALTIME, 1700000000, 480000000);
    set(12, 1, 0);
    set(-1, 1, 0);
    clockid_t ids[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
                        CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_TAI, 12, 15, 16, -1 };
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) adjust_clock(ids[i], (struct timex){ .modes = 0 });

    // Without the privilege.
    if (seteuid(65534) != 0) printf("seteuid failed\n");
    printf("unprivileged\n");
    READ();
    A(.modes = ADJ_OFFSET_SS_READ);
    A(.modes = ADJ_OFFSET_SINGLESHOT, .offset = 5);
    A(.modes = ADJ_ADJTIME, .offset = 5);
    A(.modes = ADJ_FREQUENCY, .freq = 5);
    A(.modes = ADJ_TICK, .tick = 1);
    A(.modes = ADJ_SETOFFSET, .time = { 0, -5 });
    A(.modes = ADJ_OFFSET_SS_READ | ADJ_SETOFFSET, .time = { 0, 5 });
    A(.modes = ADJ_TAI, .constant = 5);
    A(.modes = ADJ_FREQUENCY, .freq = 0x7fffffffffffffff);
    set(CLOCK_REALTIME, 1700000000, 0);
    set(CLOCK_REALTIME, 1700000000, -1);
    set(CLOCK_REALTIME, -5, 0);
    if (seteuid(0) != 0) printf("seteuid failed\n");
    printf("end\n");
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
}
