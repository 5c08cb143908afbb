/* Invalid calls: every function rejects them with an error code. */
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

/* Messages and channels. */
static int careless_with_messages(const timeloom_timeline *timeline, const timeloom_stamp *now)
{
    timeloom_seal *seal = NULL, *other = NULL;
    timeloom_channel *channel = NULL;
    timeloom_envelope envelope = {*now, 5, 1, (const uint8_t *)"said", 4}, back;
    char bytes[4 + TIMELOOM_MESSAGE_OVERHEAD];
    size_t length = 0;
    EXPECT(timeloom_seal_new(NULL, 16, &seal), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_seal_new("fifteen bytes..", 15, &seal), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_seal_new("sixteen bytes...", 16, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_seal_new("sixteen bytes...", 16, &seal), TIMELOOM_DONE);
    EXPECT(timeloom_seal_new("sixteen bytes...", 16, &other), TIMELOOM_DONE);
    EXPECT(timeloom_message_write(seal, NULL, &envelope, bytes, sizeof bytes, &length), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_write(seal, "a", NULL, bytes, sizeof bytes, &length), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_write(seal, "a", &envelope, NULL, sizeof bytes, &length), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_write(seal, "a", &envelope, bytes, sizeof bytes, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_write(seal, "a", &envelope, bytes, sizeof bytes - 1, &length), TIMELOOM_BAD_ARGUMENT);
    EXPECT((int)length, (int)sizeof bytes);
    EXPECT(timeloom_message_write(seal, "a", &envelope, bytes, sizeof bytes, &length), TIMELOOM_DONE);
    EXPECT(timeloom_message_open(other, NULL, bytes, length, NULL, &back), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_open(other, "a", NULL, length, NULL, &back), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_open(other, "a", bytes, length, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_message_open(NULL, "a", bytes, length, NULL, &back), TIMELOOM_MALFORMED);
    EXPECT(timeloom_message_open(other, "b", bytes, length, NULL, &back), TIMELOOM_UNPROVED);
    EXPECT(timeloom_message_open(other, "a", bytes, length - 1, NULL, &back), TIMELOOM_UNPROVED);
    EXPECT(timeloom_message_open(other, "a", bytes, length, now, &back), TIMELOOM_DONE);
    EXPECT(back.payload_bytes == 4 && !memcmp(back.payload, "said", 4) && back.acts && back.act_at_ns == 5, 1);
    EXPECT(timeloom_message_open(other, "a", bytes, length, now, &back), TIMELOOM_UNPROVED);
    timeloom_seal_free(seal);
    timeloom_seal_free(other);
    timeloom_seal_free(NULL);

    const char *nobody[] = {NULL};
    timeloom_place place = {"127.0.0.1:0", nobody, 1, NULL, 0};
    uint16_t port = 0;
    EXPECT(timeloom_channel_open(timeline, "run", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    place.peers = NULL;
    EXPECT(timeloom_channel_open(timeline, "run", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    place.peer_count = 0;
    EXPECT(timeloom_channel_open(NULL, "run", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_open(timeline, NULL, &place, &channel), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_open(timeline, "a//b", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_open(timeline, "run", NULL, &channel), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_open(timeline, "run", &place, NULL), TIMELOOM_BAD_ARGUMENT);
    place.key_bytes = 16;
    EXPECT(timeloom_channel_open(timeline, "run", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    place.key_bytes = 0;
    place.listen = "nowhere";
    EXPECT(timeloom_channel_open(timeline, "run", &place, &channel), TIMELOOM_BAD_ARGUMENT);
    place.listen = "127.0.0.1:0";
    EXPECT(timeloom_channel_open(timeline, "run", &place, &channel), TIMELOOM_DONE);
    EXPECT(timeloom_channel_publish(NULL, "a", "", 0, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_publish(channel, NULL, "", 0, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_publish(channel, "a", NULL, 1, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_publish(channel, "*", "", 0, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_publish(channel, "a", NULL, 0, NULL, NULL), TIMELOOM_DONE);
    EXPECT(timeloom_channel_subscribe(channel, "a", 1, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_counts(NULL, NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_counts(channel, NULL, NULL), TIMELOOM_DONE);
    EXPECT(timeloom_channel_port(channel, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_channel_port(channel, &port), TIMELOOM_DONE);
    EXPECT(port != 0, 1);
    timeloom_channel_close(channel);
    timeloom_channel_close(NULL);
    return 0;
}

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

    timeloom_degradation *machine = NULL;
    timeloom_policy policy = {{100, 100, 1}, {101, 100, 1}, 50, 20, 10};
    uint32_t mode = 99;
    int64_t due = 0;
    char words[12];
    EXPECT(timeloom_degradation_new(NULL, 0, &machine), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_new(&policy, 0, &machine), TIMELOOM_BAD_ARGUMENT);
    policy.regain.below_ns = 50;
    EXPECT(timeloom_degradation_new(&policy, 0, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_new(&policy, 0, &machine), TIMELOOM_DONE);
    EXPECT(timeloom_degradation_wake(NULL, 0, &mode), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_read(machine, 0, NULL, &mode), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_told(machine, 0, NULL, &mode), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_next_wake(machine, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_next_wake(machine, &due), TIMELOOM_VOID);
    EXPECT(timeloom_degradation_reason(machine, words, 0), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_degradation_reason(machine, words, sizeof words), TIMELOOM_DONE);
    EXPECT(strcmp(words, "nothing has"), 0);
    /* From stopped to coordinated, and back when the daemon is dead. */
    other = stamp;
    other.status = TIMELOOM_OK;
    other.bounded = 1;
    other.estimate_ns = 1000;
    other.earliest_ns = 960;
    other.latest_ns = 1040;
    for (int64_t now = 0; now <= 20; now += 5)
        EXPECT(timeloom_degradation_read(machine, now, &other, &mode), TIMELOOM_DONE);
    EXPECT((int)mode, TIMELOOM_REJOINING);
    EXPECT(timeloom_degradation_rejoined(machine, 21, &mode), TIMELOOM_DONE);
    EXPECT((int)mode, TIMELOOM_COORDINATED);
    EXPECT(timeloom_degradation_next_wake(machine, &due), TIMELOOM_DONE);
    EXPECT((int)due, 30);
    other.status = TIMELOOM_DAEMON_DEAD;
    EXPECT(timeloom_degradation_read(machine, 22, &other, &mode), TIMELOOM_DONE);
    EXPECT((int)mode, TIMELOOM_HOLD);
    EXPECT(timeloom_degradation_reason(machine, words, sizeof words), TIMELOOM_DONE);
    EXPECT(strcmp(words, "daemon dead"), 0);
    EXPECT(timeloom_degradation_withdraw(machine, 23, NULL), TIMELOOM_DONE);
    EXPECT(timeloom_degradation_wake(machine, 72, &mode), TIMELOOM_DONE);
    EXPECT((int)mode, TIMELOOM_STOPPED);
    timeloom_degradation_free(machine);
    timeloom_degradation_free(NULL);
    EXPECT(timeloom_read(timeline, &stamp), TIMELOOM_DONE);
    EXPECT(careless_with_messages(timeline, &stamp), 0);
    timeloom_held *held = NULL;
    EXPECT(timeloom_hold("nobody", NULL, &held, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_hold("\xff", "why", &held, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_hold("nobody", "why", NULL, NULL), TIMELOOM_BAD_ARGUMENT);
    EXPECT(timeloom_hold("nobody", "why", &held, NULL), TIMELOOM_NO_SESSION);
    EXPECT(held == NULL, 1);
    timeloom_let_go(NULL);
    timeloom_unbind(NULL);
    timeloom_timer_cancel(NULL);
    timeloom_close(NULL);
    timeloom_close(page);
    timeloom_close(timeline);
    puts("all refused");
    return 0;
}
