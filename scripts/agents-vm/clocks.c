/* Measures the true relations of the clocks of several emulated machines.
 *
 * In QEMU's emulation rdtsc returns the processor's own counter, less a constant of each machine:
 * a common scale that no machine adjusts. That constant is found with a page of memory that all
 * share: a counter value in it was written before another machine reads it.
 *
 *   clocks truth PAGE      on the host: writes its counter there, until killed, and what it
 *                          saw of the machines' counters
 *   clocks relate PAGE N   in machine N: "relation LOWEST HIGHEST RATE": its counter less the
 *                          host's, in ticks, and ticks of it in 1 s of its CLOCK_MONOTONIC
 *   clocks rate            ticks in 1 s of this machine's CLOCK_MONOTONIC
 *   clocks watch           lines "COUNTER COUNTER NANOSECONDS": CLOCK_REALTIME, read between
 *                          the two, every 10 ms of it
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { MACHINES = 8, SPAN_S = 4 };

/* One word per cache line. */
struct word {
    _Atomic int64_t value;
    char fill[56];
};

struct page {
    struct word host;
    /* Written by a machine: its counter. */
    struct word machine[MACHINES];
    /* Written by the host: the minimum lead of its counter over a machine's. */
    struct word least[MACHINES];
};

static int64_t counter(void) {
    _mm_lfence();
    int64_t ticks = (int64_t)__rdtsc();
    _mm_lfence();
    return ticks;
}

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct page *map(const char *path) {
    int file = open(path, O_RDWR | O_SYNC);
    if (file < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    void *page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        fprintf(stderr, "%s: mmap: %s\n", path, strerror(errno));
        exit(1);
    }
    return page;
}

static void truth(struct page *page) {
    for (int index = 0; index < MACHINES; index++)
        atomic_store(&page->least[index].value, INT64_MAX);
    for (;;) {
        atomic_store(&page->host.value, counter());
        for (int index = 0; index < MACHINES; index++) {
            int64_t theirs = atomic_load(&page->machine[index].value);
            int64_t ahead = counter() - theirs;
            if (theirs != 0 && ahead < atomic_load(&page->least[index].value))
                atomic_store(&page->least[index].value, ahead);
        }
    }
}

static void relate(struct page *page, int index) {
    int64_t highest = INT64_MAX;
    int64_t begun = nanoseconds(CLOCK_MONOTONIC), first = counter(), now;
    do {
        atomic_store(&page->machine[index].value, counter());
        int64_t hosts = atomic_load(&page->host.value);
        int64_t ahead = counter() - hosts;
        if (hosts != 0 && ahead < highest)
            highest = ahead;
        now = nanoseconds(CLOCK_MONOTONIC);
    } while (now - begun < SPAN_S * INT64_C(1000000000));
    double rate = (double)(counter() - first) / (double)(now - begun) * 1e9;
    int64_t lowest = -atomic_load(&page->least[index].value);
    printf("relation %" PRId64 " %" PRId64 " %.0f\n", lowest, highest, rate);
}

static void rate(void) {
    int64_t begun = nanoseconds(CLOCK_MONOTONIC), first = counter();
    sleep(1);
    int64_t ticks = counter() - first, span = nanoseconds(CLOCK_MONOTONIC) - begun;
    printf("%.0f\n", (double)ticks / (double)span * 1e9);
}

static void watch(void) {
    int64_t next = nanoseconds(CLOCK_REALTIME);
    for (;;) {
        int64_t before = counter();
        int64_t shown = nanoseconds(CLOCK_REALTIME);
        int64_t after = counter();
        printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", before, after, shown);
        fflush(stdout);
        next += 10000000;
        struct timespec until = {next / 1000000000, next % 1000000000};
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
    }
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "truth") == 0)
        truth(map(words[2]));
    else if (count == 4 && strcmp(words[1], "relate") == 0)
        relate(map(words[2]), atoi(words[3]));
    else if (count == 2 && strcmp(words[1], "rate") == 0)
        rate();
    else if (count == 2 && strcmp(words[1], "watch") == 0)
        watch();
    else
        return 2;
    return 0;
}
