/* One of three parties: sends its name until it has received both others' names, each at its
 * time. At the end of its input it waits for the two forgeries that are sent to it, and prints
 * the numbers of rejected messages.
 *
 *   party NAME LISTEN PEER PEER KEY
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <timeloom.h>

static atomic_int heard[256];

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, timeloom_last_error());
    _Exit(1);
}

/* Each party publishes NAME with the key hello/NAME. */
static void told(const timeloom_message *message, void *context)
{
    const timeloom_envelope *envelope = &message->envelope;
    const char *name = message->key + strlen("hello/");
    if (context != heard || strncmp(message->key, "hello/", 6) || envelope->payload_bytes != strlen(name)
        || memcmp(envelope->payload, name, envelope->payload_bytes))
        fail("another message");
    if (!envelope->acts || message->acted.earliest_ns < envelope->act_at_ns)
        fail("not at its time");
    if (!envelope->sent.bounded || envelope->sent.earliest_ns > message->arrived.latest_ns)
        fail("sent after it has arrived");
    atomic_store(&heard[(unsigned char)name[0]], 1);
}

static int count_heard(void)
{
    int count = 0;
    for (int at = 0; at < 256; at++)
        count += atomic_load(&heard[at]);
    return count;
}

int main(int argc, char **argv)
{
    timeloom_timeline *timeline;
    timeloom_channel *channel;
    if (argc != 6 || timeloom_open("cell", NULL, &timeline))
        fail("open");
    const char *peers[] = {argv[3], argv[4]};
    const timeloom_place place = {argv[2], peers, 2, argv[5], strlen(argv[5])};
    if (timeloom_channel_open(timeline, "run", &place, &channel))
        fail("channel");
    if (timeloom_channel_subscribe(channel, "hello/*", 1, told, heard))
        fail("subscribe");
    char key[64];
    snprintf(key, sizeof key, "hello/%s", argv[1]);
    /* Messages from before this party's start also count as unproved, so they are excluded. */
    uint64_t before = 0, unproved = 0, dropped = 0;
    struct pollfd input = {0, POLLIN, 0};
    for (int said = 0; poll(&input, 1, 50) == 0;) {
        timeloom_stamp now;
        if (timeloom_read(timeline, &now) || !now.bounded)
            fail("read");
        int64_t act_at_ns = now.latest_ns + 20000000;
        if (timeloom_channel_publish(channel, key, argv[1], strlen(argv[1]), &act_at_ns, NULL))
            fail("publish");
        if (!said && count_heard() == 2) {
            said = 1;
            if (timeloom_channel_counts(channel, &before, &dropped))
                fail("counts");
            puts("heard both");
            fflush(stdout);
        }
    }
    /* The forgeries may not have reached the channel's thread yet. */
    for (int look = 0; look < 1200 && unproved < before + 2; look++) {
        if (timeloom_channel_counts(channel, &unproved, &dropped))
            fail("counts");
        poll(NULL, 0, 50);
    }
    timeloom_channel_close(channel);
    timeloom_close(timeline);
    printf("%d heard, %d unproved, %d dropped\n", count_heard(), (int)(unproved - before), (int)dropped);
    return 0;
}
