/* A controller that leaves when its time is not good enough.
 *
 *     cc -o degrade examples/timeline/c/degrade.c -ltimeloom && ./degrade NAME [SECONDS]
 *
 * It moves nothing: it prints what it would do, until the time is over. Kill the daemon
 * meanwhile (`timeloom timeline serve`). The controller binds to a restarted daemon again.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <timeloom.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Called from a thread of the library. */
static void told(const timeloom_change *change, void *machine)
{
    timeloom_degradation_told(machine, now_ns(), change, NULL);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, timeloom_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"stopped", "rejoining", "coordinated", "hold"};
    const timeloom_requirement good = {500000000, 500000000, 1000000};
    const timeloom_requirement better = {400000000, 400000000, 1000000};
    const timeloom_policy policy = {good, better, 500000000, 100000000, 200000000};
    const int64_t over_ns = now_ns() + (argc > 2 ? atoi(argv[2]) : 10) * INT64_C(1000000000);
    const struct timespec period = {0, 10000000};
    timeloom_timeline *timeline = NULL;
    timeloom_binding *binding = NULL;
    timeloom_degradation *machine = NULL;
    uint32_t mode = TIMELOOM_STOPPED, before = 99;

    if (argc < 2)
        return 2;
    if (timeloom_open(argv[1], NULL, &timeline) != TIMELOOM_DONE)
        return failed(argv[1]);
    if (timeloom_degradation_new(&policy, now_ns(), &machine) != TIMELOOM_DONE)
        return failed("policy");
    if (timeloom_bind(timeline, &good, &binding, NULL) != TIMELOOM_DONE
        || timeloom_subscribe(binding, told, machine) != TIMELOOM_DONE)
        return failed("binding");
    while (now_ns() < over_ns) {
        timeloom_stamp stamp;
        if (timeloom_read(timeline, &stamp) != TIMELOOM_DONE)
            return failed("reading");
        timeloom_degradation_read(machine, now_ns(), &stamp, &mode);
        if (mode == TIMELOOM_REJOINING) /* no peer to rejoin here */
            timeloom_degradation_rejoined(machine, now_ns(), &mode);
        if (mode != before) {
            char words[120];
            timeloom_degradation_reason(machine, words, sizeof words);
            printf("%s: %s\n", names[mode], words);
            fflush(stdout);
            before = mode;
        }
        nanosleep(&period, NULL);
    }
    timeloom_unbind(binding); /* first: it may still tell */
    timeloom_degradation_free(machine);
    timeloom_close(timeline);
    return 0;
}
