/* Timeloom's timelines: a time that says how far it may be from true. Messages that carry it.
 * And holds: a testbed that stands while a program outside of it computes (at the end).
 *
 * For C11 and later and C++11 and later. Link with -ltimeloom.
 *
 * All instants are nanoseconds of the timeline (TAI since 1970-01-01T00:00:00
 * TAI, unless the timeline is a local one), all lengths nanoseconds. Functions
 * that can fail return one of `enum timeloom_error`; what they give, they give
 * only with TIMELOOM_DONE. `timeloom_last_error` has the words.
 *
 * A `timeloom_timeline` may be used by all threads at once; readings take no lock
 * and no system call. It must be closed after everything that was made from it
 * (bindings, timers). After fork() a child may read, but must not use bindings,
 * subscriptions and timers of its parent.
 */
#ifndef TIMELOOM_H
#define TIMELOOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum timeloom_error {
    TIMELOOM_DONE = 0,
    TIMELOOM_BAD_ARGUMENT = -1,   /* NULL, no text, a length that makes no sense */
    TIMELOOM_NO_DAEMON = -2,      /* nobody keeps the timeline there, or it was opened by its page alone */
    TIMELOOM_REFUSED_PAGE = -3,   /* damaged, of another machine, or no page at all */
    TIMELOOM_IMPOSSIBLE = -4,     /* no effort can meet the requirement */
    TIMELOOM_VOID = -5,           /* the timeline has no interval; see the status */
    TIMELOOM_DAEMON_FAILED = -6,  /* it refused, or the connection broke */
    TIMELOOM_OTHER_TIMELINE = -7, /* stamps of different timelines do not compare */
    TIMELOOM_SYSTEM = -8,         /* no thread could be made, or the like */
    TIMELOOM_NO_SESSION = -9,     /* no session of this name, or several and none was named */
    TIMELOOM_REFUSED_HOLD = -10,  /* the session has no pause bus, is not ready, or is stuck */
    TIMELOOM_UNPROVED = -11,      /* a message not sealed with our key, changed, or said before */
    TIMELOOM_MALFORMED = -12      /* bytes that are no message */
};

enum timeloom_status {
    TIMELOOM_NEVER_SYNCHRONISED = 0, /* no interval */
    TIMELOOM_OK = 1,
    TIMELOOM_SOURCE_LOST = 2,        /* the interval grows, then there is none */
    TIMELOOM_DAEMON_DEAD = 3,        /* the interval grows, then there is none */
    TIMELOOM_DISRUPTED = 4,          /* no interval */
    TIMELOOM_UNAUTHENTICATED = 5     /* no interval */
};

enum timeloom_order {
    TIMELOOM_BEFORE = -1,
    TIMELOOM_UNCERTAIN = 0,
    TIMELOOM_AFTER = 1
};

/* A reading. True time lies in [earliest_ns, latest_ns] when `bounded` is not 0;
 * else the three are 0 and `status` is the reason. */
typedef struct timeloom_stamp {
    int64_t earliest_ns;
    int64_t estimate_ns;
    int64_t latest_ns;
    uint64_t timeline_low;  /* which timeline: 128 bits */
    uint64_t timeline_high;
    uint32_t status;        /* enum timeloom_status */
    uint32_t bounded;
} timeloom_stamp;

/* What a program needs. */
typedef struct timeloom_requirement {
    int64_t below_ns;      /* true time at most so far before the estimate */
    int64_t above_ns;      /* true time at most so far after the estimate */
    int64_t resolution_ns; /* coarsest step of the clock that will do */
} timeloom_requirement;

/* How a wait ended: with the reading that showed that its instant had come. */
typedef struct timeloom_woken {
    int64_t target_ns;
    int64_t overshoot_ns;  /* at least so much too late; never less than 0 */
    timeloom_stamp stamp;
} timeloom_woken;

/* Beginnings at `start_ns` and whole periods from there. Set `last_ns` to
 * INT64_MIN at first; it is kept by timeloom_wait_until_next_period. */
typedef struct timeloom_schedule {
    int64_t period_ns;
    int64_t start_ns;
    int64_t last_ns;
} timeloom_schedule;

/* A requirement has ceased (`met` is 0) or begun to be met. Of one that is not
 * met: the status, the lengths (-1 without an interval), and the reason, which is
 * valid during the call only. */
typedef struct timeloom_change {
    uint32_t met;
    uint32_t status;
    int64_t below_ns;
    int64_t above_ns;
    const char *reason;
} timeloom_change;

/* What a controller may do. */
enum timeloom_mode {
    TIMELOOM_STOPPED = 0,     /* safe stop, and the beginning */
    TIMELOOM_REJOINING = 1,   /* time is good again: meet the others, then ..._rejoined */
    TIMELOOM_COORDINATED = 2, /* act with the others, by the timeline */
    TIMELOOM_HOLD = 3         /* end the move under way, begin none */
};

/* When modes change. `regain` must be no looser than `keep`. */
typedef struct timeloom_policy {
    timeloom_requirement keep;   /* what a reading must meet to stay */
    timeloom_requirement regain; /* what it must meet on the way back */
    int64_t hold_for_ns;         /* in hold, before the safe stop */
    int64_t steady_ns;           /* good for so long, without a break, on the way back */
    int64_t blind_after_ns;      /* longest time without a reading */
} timeloom_policy;

/* What travels with a message. */
typedef struct timeloom_envelope {
    timeloom_stamp sent;    /* when, by its sender's reading */
    int64_t act_at_ns;      /* when to act on it, if `acts` is not 0 */
    uint64_t acts;
    const uint8_t *payload; /* what it says; may be NULL when that is nothing */
    size_t payload_bytes;
} timeloom_envelope;

/* A message that has arrived; it lives during the call only. */
typedef struct timeloom_message {
    timeloom_envelope envelope;
    timeloom_stamp arrived;     /* when, by our reading */
    timeloom_stamp acted;       /* what was read before the call */
    uint64_t in_time;           /* not 0: it certainly arrived before its time to act, or has none */
    const char *key;            /* without the channel's prefix */
} timeloom_message;

/* Where a channel is, to whom it speaks, and with which key (NULL and 0 for none). */
typedef struct timeloom_place {
    const char *listen;         /* as in "0.0.0.0:7447"; port 0 takes a free one */
    const char *const *peers;
    size_t peer_count;
    const void *key;            /* 16 bytes or more */
    size_t key_bytes;
} timeloom_place;

typedef struct timeloom_timeline timeloom_timeline;
typedef struct timeloom_binding timeloom_binding;
typedef struct timeloom_timer timeloom_timer;
typedef struct timeloom_degradation timeloom_degradation;
typedef struct timeloom_held timeloom_held;
typedef struct timeloom_seal timeloom_seal;
typedef struct timeloom_channel timeloom_channel;

/* Called from a thread of the library's. */
typedef void (*timeloom_on_change)(const timeloom_change *change, void *context);
/* `result` is TIMELOOM_DONE, or why the timer has ended: then `woken` is NULL. */
typedef void (*timeloom_on_timer)(int result, const timeloom_woken *woken, void *context);

/* Called from threads of the channel's, with `at_time` from another than without. */
typedef void (*timeloom_on_message)(const timeloom_message *message, void *context);

/* What went wrong last in this thread, for people; "" at first. Valid until the
 * next call in this thread. */
const char *timeloom_last_error(void);
/* A status in words. */
const char *timeloom_status_text(uint32_t status);

/* Opens the timeline of this name, in a directory where its daemon is met; NULL
 * means the usual one. */
int timeloom_open(const char *name, const char *directory, timeloom_timeline **timeline);
/* Opens a page in a file, or behind a descriptor, which stays the caller's: enough
 * to read, to wait and for timers. */
int timeloom_open_page(const char *path, timeloom_timeline **timeline);
int timeloom_open_fd(int fd, timeloom_timeline **timeline);
void timeloom_close(timeloom_timeline *timeline);

int timeloom_read(const timeloom_timeline *timeline, timeloom_stamp *stamp);
/* No two of these through one `timeline` have the same estimate. */
int timeloom_read_strict(const timeloom_timeline *timeline, timeloom_stamp *stamp);
/* An event that happens now: the counter and the reading of one instant. */
int timeloom_event(const timeloom_timeline *timeline, uint64_t *ticks, timeloom_stamp *stamp);
/* What the local counter showed `ticks` at, as it was known then. */
int timeloom_convert(const timeloom_timeline *timeline, uint64_t ticks, timeloom_stamp *stamp);
/* TAI less UTC in seconds; TIMELOOM_VOID when it is not known. */
int timeloom_tai_offset_s(const timeloom_timeline *timeline, int32_t *seconds);

/* `order` becomes one of enum timeloom_order. */
int timeloom_compare(const timeloom_stamp *first, const timeloom_stamp *second, int *order);
/* `older` becomes 1 when certainly more than `length_ns` lies between them. */
int timeloom_certainly_older(const timeloom_stamp *stamp, int64_t length_ns,
                             const timeloom_stamp *now, int *older);

/* With TIMELOOM_IMPOSSIBLE, `possible` (may be NULL) becomes what can be had. */
int timeloom_bind(const timeloom_timeline *timeline, const timeloom_requirement *requirement,
                  timeloom_binding **binding, timeloom_requirement *possible);
/* Ends the subscription as well, and waits for a call under way: not to be called
 * from the callback. */
void timeloom_unbind(timeloom_binding *binding);
int timeloom_get_requirement(const timeloom_binding *binding, timeloom_requirement *requirement);
int timeloom_set_requirement(timeloom_binding *binding, const timeloom_requirement *requirement);
int timeloom_get_accuracy(const timeloom_binding *binding, int64_t *accuracy_ns);
int timeloom_set_accuracy(timeloom_binding *binding, int64_t accuracy_ns);
int timeloom_get_resolution(const timeloom_binding *binding, int64_t *resolution_ns);
int timeloom_set_resolution(timeloom_binding *binding, int64_t resolution_ns);
/* Edges only, the first at once. One subscription at a time; the last counts. */
int timeloom_subscribe(timeloom_binding *binding, timeloom_on_change told, void *context);

/* Waits. Never too early: the reading's earliest is not before the target. `woken`
 * may be NULL. TIMELOOM_VOID when the timeline has or keeps no interval. */
int timeloom_wait_until(const timeloom_timeline *timeline, int64_t target_ns, timeloom_woken *woken);
int timeloom_wait_until_next_period(const timeloom_timeline *timeline,
                                    timeloom_schedule *schedule, timeloom_woken *woken);
int timeloom_sleep(const timeloom_timeline *timeline, int64_t length_ns, timeloom_woken *woken);
/* Until `stamp` certainly lies in the past, for every reader of the timeline. */
int timeloom_commit_wait(const timeloom_timeline *timeline, const timeloom_stamp *stamp,
                         timeloom_woken *woken);

/* Fires at `first_ns` and, when `period_ns` is not 0, every period from there. */
int timeloom_timer_start(const timeloom_timeline *timeline, int64_t first_ns, int64_t period_ns,
                         timeloom_on_timer fire, void *context, timeloom_timer **timer);
/* Waits for a call under way, unless called from that. */
void timeloom_timer_cancel(timeloom_timer *timer);

/* Graceful degradation: a state machine that begins in TIMELOOM_STOPPED. `now_ns` is
 * CLOCK_MONOTONIC, since the timeline may have no time to tell. After each input
 * `mode` (may be NULL) is the one in force, one of enum timeloom_mode. Inputs may
 * come from all threads, so also from the callback of timeloom_subscribe. */
int timeloom_degradation_new(const timeloom_policy *policy, int64_t now_ns,
                             timeloom_degradation **degradation);
void timeloom_degradation_free(timeloom_degradation *degradation);
/* A reading; one whose status is TIMELOOM_DAEMON_DEAD is never good enough. */
int timeloom_degradation_read(const timeloom_degradation *degradation, int64_t now_ns,
                              const timeloom_stamp *stamp, uint32_t *mode);
/* What the subscription of a binding tells. */
int timeloom_degradation_told(const timeloom_degradation *degradation, int64_t now_ns,
                              const timeloom_change *change, uint32_t *mode);
/* A reason of the program's own to leave: a command too late, a peer that left. */
int timeloom_degradation_withdraw(const timeloom_degradation *degradation, int64_t now_ns,
                                  uint32_t *mode);
/* The program acts with the others again; only when TIMELOOM_REJOINING. */
int timeloom_degradation_rejoined(const timeloom_degradation *degradation, int64_t now_ns,
                                  uint32_t *mode);
/* Time has passed. */
int timeloom_degradation_wake(const timeloom_degradation *degradation, int64_t now_ns,
                              uint32_t *mode);
/* When ..._wake is due; TIMELOOM_VOID when nothing changes by itself. */
int timeloom_degradation_next_wake(const timeloom_degradation *degradation, int64_t *at_ns);
/* Why the mode in force was entered, in words, cut to `size` bytes with the zero. */
int timeloom_degradation_reason(const timeloom_degradation *degradation, char *text, size_t size);

/* Messages between programs that share a timeline: each says when it was sent, as an interval,
 * and may say when to act on it. A channel sends to each of its peers, by datagrams: what is
 * lost is lost. Nobody is looked for. Every run takes a `prefix` of its own. With a key messages
 * are sealed by HMAC-SHA256: what is not, is changed or was said before is not taken, nor is what
 * a new sender certainly sent before this channel was opened. A seal hides nothing. */
int timeloom_channel_open(const timeloom_timeline *timeline, const char *prefix,
                          const timeloom_place *place, timeloom_channel **channel);
/* Drops what still waits for its time. Waits for a call under way: not to be called from one. */
void timeloom_channel_close(timeloom_channel *channel);
int timeloom_channel_port(const timeloom_channel *channel, uint16_t *port);
/* Sends; `act_at_ns` may be NULL, and `sent`, which becomes what receivers will see. */
int timeloom_channel_publish(const timeloom_channel *channel, const char *key, const void *payload,
                             size_t payload_bytes, const int64_t *act_at_ns, timeloom_stamp *sent);
/* Keys have parts with `/` between; in `pattern` `*` stands for one part and `**` for any number.
 * Told as messages come; with `at_time` not 0 certainly not before their time to act, in its
 * order. All who subscribe are told, until the channel is closed. */
int timeloom_channel_subscribe(const timeloom_channel *channel, const char *pattern, int at_time,
                               timeloom_on_message told, void *context);
/* How many messages were not taken (both may be NULL): `unproved` as with TIMELOOM_UNPROVED;
 * `dropped` were none, or of another prefix or timeline. */
int timeloom_channel_counts(const timeloom_channel *channel, uint64_t *unproved, uint64_t *dropped);

/* Without a channel, for who has a transport of his own: the bytes of a message under `name`,
 * and back. A message takes up to TIMELOOM_MESSAGE_OVERHEAD bytes more than its payload;
 * `message_bytes` becomes how many there are, or would be with TIMELOOM_BAD_ARGUMENT for want
 * of `room`. `seal` may be NULL. A seal remembers what it has opened. */
#define TIMELOOM_MESSAGE_OVERHEAD 116
int timeloom_seal_new(const void *key, size_t key_bytes, timeloom_seal **seal);
void timeloom_seal_free(timeloom_seal *seal);
int timeloom_message_write(const timeloom_seal *seal, const char *name,
                           const timeloom_envelope *envelope, void *message, size_t room,
                           size_t *message_bytes);
/* `since` (may be NULL) is a reading from before anything could have come: what a new sender
 * certainly sent before it is unproved. `envelope` points into `message`. */
int timeloom_message_open(const timeloom_seal *seal, const char *name, const void *message,
                          size_t message_bytes, const timeloom_stamp *since,
                          timeloom_envelope *envelope);

/* Holds a run, or all machines of a pause bus, beside others that do: it stands when this
 * returns, at the virtual instant `at_ns` since it began (may be NULL), until the last has
 * let go. `session` is its name; NULL will do when only one runs. `reason` goes into the
 * records. For programs outside of the testbed: one inside would stand too, and never let
 * go. A process that ends, in whatever way, lets go. May take as long as all need to stand;
 * holds may be let go of in another thread. Not to be used in a child after fork(), which
 * holds as well until it ends or executes another program. */
int timeloom_hold(const char *session, const char *reason, timeloom_held **held, int64_t *at_ns);
void timeloom_let_go(timeloom_held *held);

#ifdef __cplusplus
}
#define TIMELOOM_SAME(what) static_assert(what, #what)
#else
#define TIMELOOM_SAME(what) _Static_assert(what, #what)
#endif

/* The other side (crates/assembly/capi/src/types.rs) checks the same figures. */
TIMELOOM_SAME(sizeof(timeloom_stamp) == 48);
TIMELOOM_SAME(offsetof(timeloom_stamp, status) == 40);
TIMELOOM_SAME(sizeof(timeloom_requirement) == 24);
TIMELOOM_SAME(sizeof(timeloom_woken) == 64);
TIMELOOM_SAME(offsetof(timeloom_woken, stamp) == 16);
TIMELOOM_SAME(sizeof(timeloom_schedule) == 24);
TIMELOOM_SAME(offsetof(timeloom_change, reason) == 24);
TIMELOOM_SAME(sizeof(timeloom_envelope) == 64 + 2 * sizeof(size_t));
TIMELOOM_SAME(offsetof(timeloom_envelope, payload) == 64);
TIMELOOM_SAME(offsetof(timeloom_message, arrived) == 64 + 2 * sizeof(size_t));
TIMELOOM_SAME(sizeof(timeloom_place) == 5 * sizeof(size_t));
TIMELOOM_SAME(sizeof(timeloom_policy) == 72);
TIMELOOM_SAME(offsetof(timeloom_policy, hold_for_ns) == 48);
#undef TIMELOOM_SAME

#endif
