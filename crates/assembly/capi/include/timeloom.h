/* Timeloom's timelines: time with an error bound. Messages with time stamps. Holds, which pause a
 * testbed while a program outside of it computes (at the end).
 *
 * For C11 and later and C++11 and later. Link with -ltimeloom.
 *
 * All instants are nanoseconds of the timeline (TAI since 1970-01-01T00:00:00
 * TAI, unless the timeline is a local one), all lengths nanoseconds. Functions
 * that can fail return one of `enum timeloom_error`; results are stored only with
 * TIMELOOM_DONE. `timeloom_last_error` returns the error message.
 *
 * A `timeloom_timeline` may be used by several threads at once; a reading takes no
 * lock and makes no system call. A timeline must be closed after everything that was
 * made from it (bindings, timers). After fork() a child may read, but must not use
 * bindings, subscriptions and timers of its parent.
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
    TIMELOOM_BAD_ARGUMENT = -1,   /* NULL, not a text, an invalid length */
    TIMELOOM_NO_DAEMON = -2,      /* no daemon for the timeline, or opened by its page alone */
    TIMELOOM_REFUSED_PAGE = -3,   /* damaged, of another machine, or not a page */
    TIMELOOM_IMPOSSIBLE = -4,     /* the requirement cannot be met */
    TIMELOOM_VOID = -5,           /* the timeline has no interval; see the status */
    TIMELOOM_DAEMON_FAILED = -6,  /* the daemon refused, or the connection broke */
    TIMELOOM_OTHER_TIMELINE = -7, /* stamps of different timelines cannot be compared */
    TIMELOOM_SYSTEM = -8,         /* a system call failed, e.g. to create a thread */
    TIMELOOM_NO_SESSION = -9,     /* no session of this name, or several without a name given */
    TIMELOOM_REFUSED_HOLD = -10,  /* the session has no pause bus, is not ready, or is stuck */
    TIMELOOM_UNPROVED = -11,      /* a message without our key's seal, changed, or replayed */
    TIMELOOM_MALFORMED = -12      /* the bytes are not a message */
};

enum timeloom_status {
    TIMELOOM_NEVER_SYNCHRONISED = 0, /* no interval */
    TIMELOOM_OK = 1,
    TIMELOOM_SOURCE_LOST = 2,        /* the interval grows, and ends after a while */
    TIMELOOM_DAEMON_DEAD = 3,        /* the interval grows, and ends after a while */
    TIMELOOM_DISRUPTED = 4,          /* no interval */
    TIMELOOM_UNAUTHENTICATED = 5     /* no interval */
};

enum timeloom_order {
    TIMELOOM_BEFORE = -1,
    TIMELOOM_UNCERTAIN = 0,
    TIMELOOM_AFTER = 1
};

/* A reading. If `bounded` is not 0, true time lies in [earliest_ns, latest_ns];
 * otherwise the three times are 0 and `status` is the reason. */
typedef struct timeloom_stamp {
    int64_t earliest_ns;
    int64_t estimate_ns;
    int64_t latest_ns;
    uint64_t timeline_low;  /* identity of the timeline: 128 bits */
    uint64_t timeline_high;
    uint32_t status;        /* enum timeloom_status */
    uint32_t bounded;
} timeloom_stamp;

/* Requirement of a program. */
typedef struct timeloom_requirement {
    int64_t below_ns;      /* maximum distance of true time before the estimate */
    int64_t above_ns;      /* maximum distance of true time after the estimate */
    int64_t resolution_ns; /* maximum step of the clock */
} timeloom_requirement;

/* Result of a wait: the reading that showed that the target had passed. */
typedef struct timeloom_woken {
    int64_t target_ns;
    int64_t overshoot_ns;  /* lower bound of the delay; never less than 0 */
    timeloom_stamp stamp;
} timeloom_woken;

/* Periods that begin at `start_ns` and at whole periods after it. Initialise `last_ns`
 * to INT64_MIN; timeloom_wait_until_next_period updates it. */
typedef struct timeloom_schedule {
    int64_t period_ns;
    int64_t start_ns;
    int64_t last_ns;
} timeloom_schedule;

/* A requirement is no longer met (`met` is 0) or is met again. If it is not met: the
 * status, the lengths (-1 without an interval), and the reason, which is valid during
 * the call only. */
typedef struct timeloom_change {
    uint32_t met;
    uint32_t status;
    int64_t below_ns;
    int64_t above_ns;
    const char *reason;
} timeloom_change;

/* Modes of a controller. */
enum timeloom_mode {
    TIMELOOM_STOPPED = 0,     /* safe stop, also the initial mode */
    TIMELOOM_REJOINING = 1,   /* time is good again: rejoin the peers, then call ..._rejoined */
    TIMELOOM_COORDINATED = 2, /* act with the peers, by the timeline */
    TIMELOOM_HOLD = 3         /* finish the current move, begin no other */
};

/* Conditions of mode changes. `regain` must be no looser than `keep`. */
typedef struct timeloom_policy {
    timeloom_requirement keep;   /* required of a reading to stay coordinated */
    timeloom_requirement regain; /* required of a reading to return */
    int64_t hold_for_ns;         /* time in hold before the safe stop */
    int64_t steady_ns;           /* uninterrupted time of good readings to return */
    int64_t blind_after_ns;      /* maximum time without a reading */
} timeloom_policy;

/* Contents of a message. */
typedef struct timeloom_envelope {
    timeloom_stamp sent;    /* reading of the sender */
    int64_t act_at_ns;      /* time to act on it, if `acts` is not 0 */
    uint64_t acts;
    const uint8_t *payload; /* may be NULL if `payload_bytes` is 0 */
    size_t payload_bytes;
} timeloom_envelope;

/* A received message; valid during the call only. */
typedef struct timeloom_message {
    timeloom_envelope envelope;
    timeloom_stamp arrived;     /* reading of the receiver at its arrival */
    timeloom_stamp acted;       /* reading of the receiver before the call */
    uint64_t in_time;           /* not 0: certainly arrived before its time to act, or has none */
    const char *key;            /* without the channel's prefix */
} timeloom_message;

/* Address, peers, and key (NULL and 0 for none) of a channel. */
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

/* Called from a thread of the library. */
typedef void (*timeloom_on_change)(const timeloom_change *change, void *context);
/* `result` is TIMELOOM_DONE, or the error that ended the timer: then `woken` is NULL. */
typedef void (*timeloom_on_timer)(int result, const timeloom_woken *woken, void *context);

/* Called from threads of the channel. With `at_time`, messages with a time to act come from a
 * separate thread. */
typedef void (*timeloom_on_message)(const timeloom_message *message, void *context);

/* Message about the last error in this thread; "" initially. Valid until the next
 * call in this thread. */
const char *timeloom_last_error(void);
/* Text of a status. */
const char *timeloom_status_text(uint32_t status);

/* Opens the timeline of this name, in the directory of its daemon; NULL means the
 * usual directory. */
int timeloom_open(const char *name, const char *directory, timeloom_timeline **timeline);
/* Open a page in a file, or behind a descriptor, which remains the caller's: sufficient
 * for readings, waits and timers. */
int timeloom_open_page(const char *path, timeloom_timeline **timeline);
int timeloom_open_fd(int fd, timeloom_timeline **timeline);
void timeloom_close(timeloom_timeline *timeline);

int timeloom_read(const timeloom_timeline *timeline, timeloom_stamp *stamp);
/* Strict readings of one `timeline` never have equal estimates. */
int timeloom_read_strict(const timeloom_timeline *timeline, timeloom_stamp *stamp);
/* Reads the counter and the timeline at one instant, for an event that happens now. */
int timeloom_event(const timeloom_timeline *timeline, uint64_t *ticks, timeloom_stamp *stamp);
/* Converts `ticks` of the local counter to the time, as it was known then. */
int timeloom_convert(const timeloom_timeline *timeline, uint64_t ticks, timeloom_stamp *stamp);
/* TAI minus UTC in seconds; TIMELOOM_VOID if it is unknown. */
int timeloom_tai_offset_s(const timeloom_timeline *timeline, int32_t *seconds);

/* `order` becomes one of enum timeloom_order. */
int timeloom_compare(const timeloom_stamp *first, const timeloom_stamp *second, int *order);
/* `older` becomes 1 if certainly more than `length_ns` lies between them. */
int timeloom_certainly_older(const timeloom_stamp *stamp, int64_t length_ns,
                             const timeloom_stamp *now, int *older);

/* With TIMELOOM_IMPOSSIBLE, `possible` (may be NULL) becomes the best possible requirement. */
int timeloom_bind(const timeloom_timeline *timeline, const timeloom_requirement *requirement,
                  timeloom_binding **binding, timeloom_requirement *possible);
/* Also ends the subscription, and waits for a running callback: must not be called
 * from the callback. */
void timeloom_unbind(timeloom_binding *binding);
int timeloom_get_requirement(const timeloom_binding *binding, timeloom_requirement *requirement);
int timeloom_set_requirement(timeloom_binding *binding, const timeloom_requirement *requirement);
int timeloom_get_accuracy(const timeloom_binding *binding, int64_t *accuracy_ns);
int timeloom_set_accuracy(timeloom_binding *binding, int64_t accuracy_ns);
int timeloom_get_resolution(const timeloom_binding *binding, int64_t *resolution_ns);
int timeloom_set_resolution(timeloom_binding *binding, int64_t resolution_ns);
/* Reports changes only, the first state at once. One subscription at a time; the last
 * one replaces others. */
int timeloom_subscribe(timeloom_binding *binding, timeloom_on_change told, void *context);

/* Waits. Never returns too early: the earliest time of the reading is not before the
 * target. `woken` may be NULL. TIMELOOM_VOID if the timeline has no interval or loses it. */
int timeloom_wait_until(const timeloom_timeline *timeline, int64_t target_ns, timeloom_woken *woken);
int timeloom_wait_until_next_period(const timeloom_timeline *timeline,
                                    timeloom_schedule *schedule, timeloom_woken *woken);
int timeloom_sleep(const timeloom_timeline *timeline, int64_t length_ns, timeloom_woken *woken);
/* Waits until `stamp` certainly lies in the past, for every reader of the timeline. */
int timeloom_commit_wait(const timeloom_timeline *timeline, const timeloom_stamp *stamp,
                         timeloom_woken *woken);

/* Fires at `first_ns` and, if `period_ns` is not 0, at every period after it. */
int timeloom_timer_start(const timeloom_timeline *timeline, int64_t first_ns, int64_t period_ns,
                         timeloom_on_timer fire, void *context, timeloom_timer **timer);
/* Waits for a running callback, unless called from it. */
void timeloom_timer_cancel(timeloom_timer *timer);

/* Graceful degradation: a state machine that begins in TIMELOOM_STOPPED. `now_ns` is
 * CLOCK_MONOTONIC, since the timeline may have no time. After each input `mode` (may
 * be NULL) is the mode in force, one of enum timeloom_mode. Inputs may come from all
 * threads, including the callback of timeloom_subscribe. */
int timeloom_degradation_new(const timeloom_policy *policy, int64_t now_ns,
                             timeloom_degradation **degradation);
void timeloom_degradation_free(timeloom_degradation *degradation);
/* Input of a reading; one with status TIMELOOM_DAEMON_DEAD is never good enough. */
int timeloom_degradation_read(const timeloom_degradation *degradation, int64_t now_ns,
                              const timeloom_stamp *stamp, uint32_t *mode);
/* Input of a change reported by the subscription of a binding. */
int timeloom_degradation_told(const timeloom_degradation *degradation, int64_t now_ns,
                              const timeloom_change *change, uint32_t *mode);
/* Leaves for a reason of the program: a late command, a peer that left. */
int timeloom_degradation_withdraw(const timeloom_degradation *degradation, int64_t now_ns,
                                  uint32_t *mode);
/* The program acts with its peers again; only in TIMELOOM_REJOINING. */
int timeloom_degradation_rejoined(const timeloom_degradation *degradation, int64_t now_ns,
                                  uint32_t *mode);
/* Time has passed. */
int timeloom_degradation_wake(const timeloom_degradation *degradation, int64_t now_ns,
                              uint32_t *mode);
/* Time at which ..._wake is due; TIMELOOM_VOID if nothing changes by itself. */
int timeloom_degradation_next_wake(const timeloom_degradation *degradation, int64_t *at_ns);
/* Reason why the mode in force was entered, truncated to `size` bytes including the zero. */
int timeloom_degradation_reason(const timeloom_degradation *degradation, char *text, size_t size);

/* Messages between programs that share a timeline: each contains the time when it was sent, as an
 * interval, and optionally a time to act on it. A channel sends to each of its peers, by
 * datagrams, without retransmission or discovery. Every run needs a `prefix` of its own. With a
 * key messages are sealed by HMAC-SHA256: unsealed, changed and replayed messages are rejected,
 * and so are those that a new sender certainly sent before this channel was opened. A seal does
 * not encrypt. */
int timeloom_channel_open(const timeloom_timeline *timeline, const char *prefix,
                          const timeloom_place *place, timeloom_channel **channel);
/* Drops messages that still wait for their time. Waits for a running callback: must not be called
 * from one. */
void timeloom_channel_close(timeloom_channel *channel);
int timeloom_channel_port(const timeloom_channel *channel, uint16_t *port);
/* Sends; `act_at_ns` may be NULL, and so may `sent`, which becomes the reading in the message. */
int timeloom_channel_publish(const timeloom_channel *channel, const char *key, const void *payload,
                             size_t payload_bytes, const int64_t *act_at_ns, timeloom_stamp *sent);
/* Keys have parts separated by `/`; in `pattern` `*` matches one part and `**` any number. `told`
 * is called as messages arrive; if `at_time` is not 0, certainly not before their time to act, in
 * the order of that time. All subscriptions last until the channel is closed. */
int timeloom_channel_subscribe(const timeloom_channel *channel, const char *pattern, int at_time,
                               timeloom_on_message told, void *context);
/* Numbers of rejected messages (both may be NULL): `unproved` as with TIMELOOM_UNPROVED; `dropped`
 * were malformed, or of another prefix or timeline. */
int timeloom_channel_counts(const timeloom_channel *channel, uint64_t *unproved, uint64_t *dropped);

/* Without a channel, for programs with a transport of their own: conversion of a message under
 * `name` to bytes and back. A message takes up to TIMELOOM_MESSAGE_OVERHEAD bytes more than its
 * payload; `message_bytes` becomes its length, also if `room` is insufficient
 * (TIMELOOM_BAD_ARGUMENT). `seal` may be NULL. A seal remembers the messages that it has opened. */
#define TIMELOOM_MESSAGE_OVERHEAD 116
int timeloom_seal_new(const void *key, size_t key_bytes, timeloom_seal **seal);
void timeloom_seal_free(timeloom_seal *seal);
int timeloom_message_write(const timeloom_seal *seal, const char *name,
                           const timeloom_envelope *envelope, void *message, size_t room,
                           size_t *message_bytes);
/* `since` (may be NULL) is a reading from before any message could arrive: a message that a new
 * sender certainly sent before it is unproved. `envelope` points into `message`. */
int timeloom_message_open(const timeloom_seal *seal, const char *name, const void *message,
                          size_t message_bytes, const timeloom_stamp *since,
                          timeloom_envelope *envelope);

/* Holds a run, or all machines of a pause bus; holds may overlap. When this returns, the run is
 * paused at the virtual instant `at_ns` since it began (may be NULL), until the last hold is
 * released. `session` is its name; NULL suffices if only one is running. `reason` is recorded.
 * For programs outside of the testbed: a program inside would be paused too, and never release
 * its hold. The end of a process, for whatever reason, releases its holds. Returns when all
 * participants are paused; holds may be released in another thread. Not to be used in a child
 * after fork(), which also holds until it ends or executes another program. */
int timeloom_hold(const char *session, const char *reason, timeloom_held **held, int64_t *at_ns);
void timeloom_let_go(timeloom_held *held);

#ifdef __cplusplus
}
#define TIMELOOM_SAME(what) static_assert(what, #what)
#else
#define TIMELOOM_SAME(what) _Static_assert(what, #what)
#endif

/* The Rust side (crates/assembly/capi/src/types.rs) checks the same sizes. */
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
