/* What a careless caller does: every function refuses it with a code. */
#include <stdio.h>
#include <string.h>
#include <timeloom.h>

#define EXPECT(what, code)                                                                        \
    do {                                                                                          \
        int got = (what);                                                                         \
        if (got != (code)) {                                                                      \
            fprintf(stderr, "line %d: %s is %d: %s\n", __LINE__, #what, got, timeloom_last_error()); \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

int main(int argc, char **argv)
{
    timeloom_timeline *timeline = NULL, *page = NULL;
    timeloom_binding *binding = NULL;
    timeloom_timer *timer = NULL;
    timeloom_stamp stamp, other;
    timeloom_requirement need = {1, 1, 1}, possible = {0, 0, 0};
    int order;
    if (argc != 3)
        return 2;
    EXPECT((int)strlen(timeloom_last_error()), 0);
    EXPECT(timeloom_open(NULL, NULL, &timeline), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_open("../cell", NULL, &timeline), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_open("\xff", NULL, &timeline), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_open("nobody", NULL, &timeline), TIMELOOM_NO_DAEMON);
    EXPECT(timeloom_open(argv[1], NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_open_page("/dev/null", &page), TIMELOOM_REFUSED_PAGE);
    EXPECT(timeloom_open_fd(-1, &page), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_open_fd(0, &page), TIMELOOM_REFUSED_PAGE);
    EXPECT(timeline == NULL && page == NULL, 1);
    EXPECT(timeloom_read(NULL, &stamp), TIMELOOM_BAD_ARGUMENT);

    EXPECT(timeloom_open(argv[1], NULL, &timeline), TIMELOOM_DONE);
    EXPECT(timeloom_open_page(argv[2], &page), TIMELOOM_DONE);
    EXPECT(timeloom_read(timeline, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_read(page, &stamp), TIMELOOM_DONE);
    EXPECT(stamp.bounded == 1 && stamp.earliest_ns <= stamp.estimate_ns, 1);
    other = stamp;
    other.timeline_low ^= 1;
    EXPECT(timeloom_compare(&stamp, &other, &order), TIMELOOM_OTHER_TIMELINE);
    EXPECT(timeloom_commit_wait(page, &other, NULL), TIMELOOM_OTHER_TIMELINE);
    other = stamp;
    other.status = 4000000000u;
    EXPECT(timeloom_commit_wait(page, &other, NULL), TIMELOOM_VOID);
    other = stamp;
    other.bounded = 0;
    EXPECT(timeloom_compare(&stamp, &other, &order), TIMELOOM_DONE);
    EXPECT(order, TIMELOOM_UNCERTAIN);
    other = stamp;
    other.earliest_ns += 1000000000;
    other.estimate_ns += 1000000000;
    other.latest_ns += 1000000000;
    EXPECT(timeloom_certainly_older(&stamp, 900000000, &other, &order), TIMELOOM_DONE);
    EXPECT(order, 1);
    EXPECT(timeloom_certainly_older(&stamp, 1000000000, &other, &order), TIMELOOM_DONE);
    EXPECT(order, 0);

    EXPECT(timeloom_bind(page, &need, &binding, NULL), TIMELOOM_NO_DAEMON);
    EXPECT(timeloom_bind(timeline, &need, &binding, &possible), TIMELOOM_IMPOSSIBLE);
    EXPECT(possible.below_ns > 1 && possible.resolution_ns >= 1, 1);
    need.below_ns = -1;
    EXPECT(timeloom_bind(timeline, &need, &binding, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_get_accuracy(NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_subscribe(NULL, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_timer_start(timeline, 0, -1, NULL, NULL, &timer), TIMELOOM_BAD_ARGUMENT);
    timeloom_schedule never = {0, 0, INT64_MIN};
    EXPECT(timeloom_wait_until_next_period(timeline, &never, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_convert(timeline, 1, &stamp), TIMELOOM_DAEMON_FAILED);
    EXPECT(timeloom_convert(page, 1, &stamp), TIMELOOM_NO_DAEMON);
    int32_t seconds = 0;
    EXPECT(timeloom_tai_offset_s(timeline, &seconds), TIMELOOM_DONE);
    EXPECT(seconds, 37);
    EXPECT(strcmp(timeloom_status_text(99), "no status"), 0);
    timeloom_unbind(NULL);
    timeloom_timer_cancel(NULL);
    timeloom_close(NULL);
    timeloom_close(page);
    timeloom_close(timeline);
    puts("all refused");
    return 0;
}
