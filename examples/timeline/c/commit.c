/* Writes with commit wait, and watches the quality of its clock.
 *
 *   cc -I crates/assembly/capi/include examples/timeline/c/commit.c -L target/release -ltimeloom -o commit
 *   LD_LIBRARY_PATH=target/release ./commit NAME
 *
 * The daemon: `timeloom timeline serve`. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <timeloom.h>

static atomic_int told = 0;

static void on_change(const timeloom_change *change, void *context)
{
    (void)context;
    if (change->met)
        fprintf(stderr, "the clock is good enough\n");
    else
        fprintf(stderr, "the clock is not good enough: %s\n", change->reason);
    atomic_fetch_add(&told, 1);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, timeloom_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    timeloom_timeline *timeline = NULL;
    timeloom_binding *binding = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: commit NAME\n");
        return 2;
    }
    if (timeloom_open(argv[1], NULL, &timeline) != TIMELOOM_DONE)
        return failed("open");

    /* Half a second to either side suffices, in steps of a microsecond. */
    timeloom_requirement need = {500000000, 500000000, 1000}, possible;
    int bound = timeloom_bind(timeline, &need, &binding, &possible);
    if (bound == TIMELOOM_IMPOSSIBLE)
        fprintf(stderr, "possible: %" PRId64 " ns\n", possible.below_ns);
    if (bound != TIMELOOM_DONE)
        return failed("bind");
    if (timeloom_subscribe(binding, on_change, NULL) != TIMELOOM_DONE)
        return failed("subscribe");

    for (int write = 0; write < 3; write++) {
        timeloom_stamp stamp, now;
        timeloom_woken woken;
        int order = TIMELOOM_UNCERTAIN;
        if (timeloom_read(timeline, &stamp) != TIMELOOM_DONE)
            return failed("read");
        /* From here on every reading of the timeline is later. */
        if (timeloom_commit_wait(timeline, &stamp, &woken) != TIMELOOM_DONE)
            return failed("commit wait");
        if (timeloom_read(timeline, &now) != TIMELOOM_DONE
            || timeloom_compare(&stamp, &now, &order) != TIMELOOM_DONE)
            return failed("compare");
        printf("write %d: %" PRId64 " +- %" PRId64 " ns, %s, %s\n", write, stamp.estimate_ns,
               (stamp.latest_ns - stamp.earliest_ns) / 2, timeloom_status_text(stamp.status),
               order == TIMELOOM_BEFORE ? "committed" : "uncertain");
        if (order != TIMELOOM_BEFORE)
            return 1;
    }

    /* An event keeps its counter, so that it can be judged again later. */
    uint64_t ticks;
    timeloom_stamp event, later;
    if (timeloom_event(timeline, &ticks, &event) != TIMELOOM_DONE)
        return failed("event");
    if (timeloom_convert(timeline, ticks, &later) != TIMELOOM_DONE)
        return failed("convert");
    printf("event: %" PRId64 " ns, again %" PRId64 " ns\n", event.estimate_ns, later.estimate_ns);

    int64_t accuracy = 0;
    if (timeloom_set_accuracy(binding, 600000000) != TIMELOOM_DONE
        || timeloom_get_accuracy(binding, &accuracy) != TIMELOOM_DONE || accuracy != 600000000)
        return failed("accuracy");
    /* The first change is reported at once, but from another thread. */
    struct timespec moment = {0, 1000000};
    for (int wait = 0; wait < 60000 && atomic_load(&told) == 0; wait++)
        thrd_sleep(&moment, NULL);
    timeloom_unbind(binding);
    timeloom_close(timeline);
    printf("told %s\n", atomic_load(&told) > 0 ? "at least once" : "never");
    return atomic_load(&told) > 0 ? 0 : 1;
}
