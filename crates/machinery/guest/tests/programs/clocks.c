// Readers of clocks, for WAIT, while the harness pauses and dilates. Each case counts violations;
// natively the count is 0 as well.
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/time.h>

// Largest value of a clock that any of several threads has read: no thread may then read less.
struct seen {
    clockid_t clock;
    bool raw; // by `syscall` instruction
    int64_t until_ns;
    _Atomic int64_t latest;
    _Atomic long backwards, reads;
};
static int64_t raw_ns(clockid_t clock) {
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * S + now.tv_nsec;
}
static void *watch(void *argument) {
    struct seen *seen = argument;
    for (long reads = 1;; reads++) {
        int64_t before = atomic_load(&seen->latest);
        int64_t now = seen->raw ? raw_ns(seen->clock) : clock_ns(seen->clock);
        if (now < before) atomic_fetch_add(&seen->backwards, 1);
        while (before < now && !atomic_compare_exchange_weak(&seen->latest, &before, now)) {}
        if (reads % 64 == 0 && mono_ns() >= seen->until_ns) break;
        if (reads % 4096 == 0) rest_ns(MS / 5); // leave something to the others
    }
    atomic_fetch_add(&seen->reads, 1);
    return NULL;
}
static long backwards(struct outcome *out, clockid_t clock, bool raw) {
    struct seen seen = { .clock = clock, .raw = raw, .until_ns = out->begun_ns + out->want_ns };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, watch, &seen);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return seen.backwards;
}
static long run_monotonic(struct outcome *out) { return backwards(out, CLOCK_MONOTONIC, false); }
static long run_monotonic_raw(struct outcome *out) { return backwards(out, CLOCK_MONOTONIC_RAW, false); }
static long run_monotonic_coarse(struct outcome *out) { return backwards(out, CLOCK_MONOTONIC_COARSE, false); }
static long run_monotonic_trapped(struct outcome *out) { return backwards(out, CLOCK_MONOTONIC, true); }
static long run_realtime(struct outcome *out) { return backwards(out, CLOCK_REALTIME, false); }
static long run_realtime_coarse(struct outcome *out) { return backwards(out, CLOCK_REALTIME_COARSE, false); }
static long run_boottime(struct outcome *out) { return backwards(out, CLOCK_BOOTTIME, false); }
static long run_tai(struct outcome *out) { return backwards(out, CLOCK_TAI, false); }

// Reads each clock by the vDSO, by system call, and by the vDSO again: the values must be in order.
static long run_calls_agree(struct outcome *out) {
    static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_TAI };
    long disagreements = 0;
    while (mono_ns() < out->begun_ns + out->want_ns) {
        for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
            int64_t before = clock_ns(clocks[i]), between = raw_ns(clocks[i]), after = clock_ns(clocks[i]);
            disagreements += before > between || between > after;
        }
        struct timeval day;
        int64_t before = clock_ns(CLOCK_REALTIME) / 1000 * 1000;
        gettimeofday(&day, NULL);
        int64_t by_vdso = day.tv_sec * S + day.tv_usec * 1000;
        syscall(SYS_gettimeofday, &day, NULL);
        int64_t by_call = day.tv_sec * S + day.tv_usec * 1000;
        disagreements += before > by_vdso || by_vdso > by_call || by_call > clock_ns(CLOCK_REALTIME);
        // Natively too, `time` may lag by a tick.
        int64_t second = time(NULL), second_by_call = raw_time(NULL), now = clock_ns(CLOCK_REALTIME);
        disagreements += second > second_by_call || second_by_call * S > now || now - second * S > 2 * S;
        rest_ns(MS / 10);
    }
    return disagreements;
}

// The difference of any two clocks must be constant. Each read of one clock lies between two reads
// of the other, and must be consistent with a constant difference.
static long apart(struct outcome *out, clockid_t one, clockid_t other) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    while (mono_ns() < out->begun_ns + out->want_ns) {
        int64_t before = clock_ns(one), middle = clock_ns(other), after = clock_ns(one);
        if (middle - after > most) most = middle - after;
        if (middle - before < least) least = middle - before;
        rest_ns(MS / 10);
    }
    // Rounded to half seconds: TAI differs by whole seconds, so equal readings differ by exactly
    // that.
    note(out, "apart=%ld", (long)(other == CLOCK_TAI ? (least + S / 2) / S : labs(least) > S / 2));
    return most > least;
}
static long run_real_and_mono(struct outcome *out) { return apart(out, CLOCK_MONOTONIC, CLOCK_REALTIME); }
static long run_mono_and_boot(struct outcome *out) { return apart(out, CLOCK_MONOTONIC, CLOCK_BOOTTIME); }
static long run_real_and_tai(struct outcome *out) { return apart(out, CLOCK_REALTIME, CLOCK_TAI); }

static long run_resolutions(struct outcome *out) {
    char text[200] = "";
    for (clockid_t clock = 0; clock < 12; clock++) {
        struct timespec by_vdso = { 0, 0 }, by_call = { 0, 0 };
        int ret = clock_getres(clock, &by_vdso);
        long raw = syscall(SYS_clock_getres, clock, &by_call);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%d,%ld,%ld;", ret, by_vdso.tv_nsec, raw == 0 ? by_call.tv_nsec : -1);
    }
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}
// The vDSO must be able to read every clock that can be read at all.
static long run_readable(struct outcome *out) {
    char text[200] = "";
    for (clockid_t clock = -1; clock < 14; clock++) {
        struct timespec now = { 0, -1 };
        errno = 0;
        int ret = clock_gettime(clock, &now);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%d/%d/%d,", ret, errno, now.tv_nsec >= 0);
    }
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}
// The zone argument is obsolete, but some programs pass it.
static long run_zone(struct outcome *out) {
    struct timeval day = { 0, 0 };
    struct timezone zone = { 77, 77 }, by_call = { 77, 77 };
    int (*volatile call)(struct timeval *, void *) = (int (*)(struct timeval *, void *))gettimeofday;
    long ret = call(&day, &zone);
    syscall(SYS_gettimeofday, &day, &by_call);
    note(out, "set=%d,zone=%d,%d,by_call=%d", day.tv_sec > 1000, zone.tz_minuteswest, zone.tz_dsttime, by_call.tz_minuteswest);
    out->want_ns = 0;
    return ret;
}
// Processor time is not virtual: it passes as natively.
static long run_processor_time(struct outcome *out) {
    int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (volatile int i = 0; i < 1000000; i++) {}
    int64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    note(out, "used=%d", used > 0 && used < S);
    out->want_ns = 0;
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) <= 0;
}

static const struct test_case cases[] = {
    CASE(monotonic), CASE(monotonic_raw), CASE(monotonic_coarse), CASE(monotonic_trapped), CASE(realtime),
    CASE(realtime_coarse), CASE(boottime), CASE(tai), CASE(calls_agree), CASE(real_and_mono),
    CASE(mono_and_boot), CASE(real_and_tai), CASE(resolutions), CASE(readable), CASE(zone), CASE(processor_time),
};
MAIN(cases)
