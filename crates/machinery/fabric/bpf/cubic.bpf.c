// SPDX-License-Identifier: MIT OR Apache-2.0
//
// CUBIC (RFC 9438) for the kernel's TCP in virtual time. The kernel's own CUBIC measures the
// machine's time, of which almost none passes where virtual time skips: its window hardly grows.
//
// The simulated network stores the virtual time at which it delivers frames in the map `clock`;
// acknowledgements are processed then. The decisions of Linux that RFC 9438 leaves open (what it
// rounds, how often it recomputes the growth, HyStart's thresholds) are kept, because a run in
// mode `virtual` has the kernel's CUBIC and both are to take equally long.
//
// Compiled by `scripts/bpf`; the object is committed, so that users need no compiler for BPF. The
// section names are placeholders: the loader loads each program as a member of
// `tcp_congestion_ops` (`src/congestion`).

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u64 u64;
typedef __u32 u32;
typedef __s64 s64;
typedef __u8 u8;

// Members of the kernel's types that are used here; the loader finds their offsets.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_connection_sock { u64 icsk_ca_priv[13]; };
struct tcp_sock {
    struct inet_connection_sock inet_conn;
    u32 snd_una;
    u32 snd_nxt;
    u32 snd_cwnd;
    u32 snd_cwnd_cnt;
    u32 snd_cwnd_clamp;
    u32 snd_ssthresh;
    u32 prior_cwnd;
    u32 max_packets_out;
    u8 is_cwnd_limited : 1;
};
struct ack_sample;
#pragma clang attribute pop

// Virtual time in ns, as of the latest delivery of frames.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, u32);
    __type(value, u64);
} clock SEC(".maps");

// The multiplicative decrease of 0.7, of 1,024, and the additive increase that is as fast as
// Reno's with it: one segment for each 15/8 windows that are acknowledged.
#define DECREASE 717
#define WHOLE 1024
#define FRIENDLY_EIGHTHS 15

#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull
// While the window stays, its growth is computed at most 32 times a second.
#define UPDATE_NS (1000000000ull / 32)
// A window that has not been reduced yet grows by at least one segment for 20 of them.
#define FIRST_GROWTH 20

// HyStart: smallest window, longest gap within a train of acknowledgements, bounds of the increase
// of the round trip that counts, and number of acknowledgements of a round before it counts.
#define HYSTART_WINDOW 16
#define TRAIN_NS (2 * NS_PER_MS)
#define LEAST_INCREASE_US 4000u
#define MOST_INCREASE_US 16000u
#define HYSTART_SAMPLES 8

#define TCP_CA_LOSS 4
#define CA_EVENT_TX_START 0
#define UNKNOWN 0xffffffffu

// State of a connection, in the 104 bytes that the kernel has for it. Instants are virtual, in ns;
// 0 is "none", which is why a clock that begins at 0 is read as 1.
struct cubic {
    u64 epoch;           // begin of the growth since the latest reduction
    u64 updated;         // latest computation of the growth
    u64 round;           // begin of the present round; none after the connection was idle
    u64 acked_at;        // latest acknowledgement
    u64 train_at;        // latest acknowledgement of the train with which the round began
    u64 k_ms;            // time from the epoch until the window is what it was
    u32 origin;          // window at that time
    u32 most;            // window before the latest reduction
    u32 last_window;     // window at the latest computation
    u32 per_segment;     // acknowledged segments for which the window grows by one
    u32 acked;           // acknowledged segments since the growth of `friendly`
    u32 friendly;        // window that Reno would have
    u32 round_end;       // sequence number: the round ends when what follows it is acknowledged
    u32 least_rtt_us;    // shortest round trip, 0 if unknown
    u32 rtt_us;          // round trip with which this round began
    u32 found_and_seen;  // whether HyStart has ended slow start (bit 31), and the round's samples
};
#define FOUND (1u << 31)

static __always_inline struct cubic *state(struct tcp_sock *tp) {
    return (struct cubic *)tp->inet_conn.icsk_ca_priv;
}

static __always_inline u64 now(void) {
    u32 zero = 0;
    u64 *at = bpf_map_lookup_elem(&clock, &zero);
    return at && *at ? *at : 1;
}

// The engines of a network may store their times a little out of order.
static __always_inline u64 since(u64 at, u64 before) { return at > before ? at - before : 0; }
static __always_inline u32 least(u32 a, u32 b) { return a < b ? a : b; }
static __always_inline u32 larger(u32 a, u32 b) { return a > b ? a : b; }
static __always_inline int in_slow_start(struct tcp_sock *tp) {
    return tp->snd_cwnd < tp->snd_ssthresh;
}

// The integer cube root, rounded down, of less than 2^63, by bits from the highest. Without
// branches: the verifier would follow both ways of each of the 21.
static __always_inline u64 cube_root(u64 value) {
    u64 root = 0;
    for (int bit = 20; bit >= 0; bit--) {
        u64 next = root | (1ull << bit);
        s64 too_large = (s64)(value - next * next * next) >> 63;
        asm volatile("" : "+r"(too_large));
        root = (root & too_large) | (next & ~too_large);
    }
    return root;
}

static __always_inline void begin_round(struct tcp_sock *tp, struct cubic *ca) {
    ca->round = ca->train_at = now();
    ca->round_end = tp->snd_nxt;
    ca->rtt_us = UNKNOWN;
    ca->found_and_seen &= FOUND;
}

static __always_inline void forget(struct tcp_sock *tp, struct cubic *ca) {
    ca->epoch = ca->updated = ca->k_ms = 0;
    ca->origin = ca->most = ca->last_window = ca->per_segment = ca->acked = ca->friendly = 0;
    ca->least_rtt_us = ca->found_and_seen = 0;
    begin_round(tp, ca);
    ca->acked_at = ca->round;
}

SEC("fentry/init")
int BPF_PROG(init, struct tcp_sock *tp) {
    forget(tp, state(tp));
    return 0;
}

SEC("fentry/ssthresh")
int BPF_PROG(ssthresh, struct tcp_sock *tp) {
    struct cubic *ca = state(tp);
    u32 window = tp->snd_cwnd;
    ca->epoch = 0;
    // A connection whose window was reduced before it was as large again leaves more to others.
    ca->most = window < ca->most ? window * (WHOLE + DECREASE) / (2 * WHOLE) : window;
    return larger(window * DECREASE / WHOLE, 2);
}

// Computes for how many acknowledged segments the window grows by one.
static __always_inline void update(struct tcp_sock *tp, struct cubic *ca, u32 acked) {
    u32 window = tp->snd_cwnd;
    u64 at = now();
    ca->acked += acked;
    if (ca->last_window == window && at >= ca->updated && at - ca->updated <= UPDATE_NS)
        return;
    ca->last_window = window;
    ca->updated = at;
    if (!ca->epoch) {
        ca->epoch = at;
        ca->acked = acked;
        ca->friendly = window;
        if (ca->most <= window) {
            ca->k_ms = 0;
            ca->origin = window;
        } else {
            // K = cbrt((most - window) / 0.4) seconds.
            ca->k_ms = cube_root(2500000000ull * least(ca->most - window, 1u << 31));
            ca->origin = ca->most;
        }
    }
    u64 t_ms = since(at, ca->epoch) / NS_PER_MS + ca->least_rtt_us / 1000;
    u64 apart = t_ms < ca->k_ms ? ca->k_ms - t_ms : t_ms - ca->k_ms;
    // A thousand seconds are enough for any window, and their cube fits.
    if (apart > 1000000)
        apart = 1000000;
    // 0.4 segments per cubic second.
    u64 grown = apart * apart * apart / 2500000000ull;
    u64 target = t_ms < ca->k_ms ? (grown < ca->origin ? ca->origin - grown : 0) : ca->origin + grown;
    u32 count = target > window ? (u32)(window / (target - window)) : 100 * window;
    if (!ca->most && count > FIRST_GROWTH)
        count = FIRST_GROWTH;
    // At least as fast as Reno.
    u32 delta = larger((window * FRIENDLY_EIGHTHS) >> 3, 1);
    u32 grows = ca->acked > delta ? (ca->acked - 1) / delta : 0;
    ca->acked -= grows * delta;
    ca->friendly += grows;
    if (ca->friendly > window)
        count = least(count, window / (ca->friendly - window));
    ca->per_segment = larger(count, 2);
}

SEC("fentry/cong_avoid")
int BPF_PROG(cong_avoid, struct tcp_sock *tp, u32 ack, u32 acked) {
    struct cubic *ca = state(tp);
    u32 window = tp->snd_cwnd;
    // The window does not grow while the program, not the window, limits what is sent.
    int is_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
                     (in_slow_start(tp) && window < 2 * tp->max_packets_out);
    if (!is_limited)
        return 0;
    if (in_slow_start(tp)) {
        u32 grown = least(window + acked, tp->snd_ssthresh);
        acked -= grown - window;
        window = least(grown, tp->snd_cwnd_clamp);
        tp->snd_cwnd = window;
        if (!acked)
            return 0;
    }
    update(tp, ca, acked);
    u32 per = ca->per_segment, count = tp->snd_cwnd_cnt;
    if (count >= per) {
        count = 0;
        window++;
    }
    count += acked;
    if (per && count >= per) {
        window += count / per;
        count %= per;
    }
    tp->snd_cwnd_cnt = count;
    tp->snd_cwnd = least(window, tp->snd_cwnd_clamp);
    return 0;
}

SEC("fentry/set_state")
int BPF_PROG(set_state, struct tcp_sock *tp, u32 to) {
    if (to == TCP_CA_LOSS)
        forget(tp, state(tp));
    return 0;
}

SEC("fentry/cwnd_event")
int BPF_PROG(cwnd_event, struct tcp_sock *tp, u32 event) {
    // The clock is exact when frames arrive, not when a program sends after it was idle. The next
    // acknowledgement takes the idle time off, and the round is not measured.
    if (event == CA_EVENT_TX_START)
        state(tp)->round = 0;
    return 0;
}

// HyStart: slow start ends when a round's acknowledgements are spread over half a round trip, or
// when its round trip is longer than the shortest.
static __always_inline void look(struct tcp_sock *tp, struct cubic *ca, u64 at) {
    int found = 0;
    if (since(at, ca->train_at) <= TRAIN_NS) {
        ca->train_at = at;
        found = since(at, ca->round) / NS_PER_US > ca->least_rtt_us / 2;
    }
    u32 seen = ca->found_and_seen & ~FOUND;
    if (seen < HYSTART_SAMPLES) {
        ca->found_and_seen++;
    } else if (ca->rtt_us != UNKNOWN) {
        u32 more = larger(ca->least_rtt_us >> 3, LEAST_INCREASE_US);
        found |= ca->rtt_us > ca->least_rtt_us + least(more, MOST_INCREASE_US);
    }
    if (found) {
        ca->found_and_seen |= FOUND;
        tp->snd_ssthresh = tp->snd_cwnd;
    }
}

SEC("fentry/pkts_acked")
int BPF_PROG(pkts_acked, struct tcp_sock *tp, struct ack_sample *sample) {
    struct cubic *ca = state(tp);
    u64 at = now();
    if (!ca->round) {
        // The window does not grow in time in which nothing was sent.
        u64 idle = since(at, ca->acked_at), rtt = ca->least_rtt_us * NS_PER_US;
        if (ca->epoch && idle > rtt) {
            ca->epoch += idle - rtt;
            if (ca->epoch > at)
                ca->epoch = at;
        }
        begin_round(tp, ca);
    } else if ((__s32)(tp->snd_una - ca->round_end) > 0) {
        // The kernel's samples of the round trip are in the machine's time. In virtual time it is
        // measured once a round.
        u32 rtt_us = (u32)(since(at, ca->round) / NS_PER_US);
        if (rtt_us && (!ca->least_rtt_us || rtt_us < ca->least_rtt_us))
            ca->least_rtt_us = rtt_us;
        begin_round(tp, ca);
        ca->rtt_us = rtt_us;
    }
    if (ca->least_rtt_us && !(ca->found_and_seen & FOUND) && in_slow_start(tp) &&
        tp->snd_cwnd >= HYSTART_WINDOW)
        look(tp, ca, at);
    ca->acked_at = at;
    return 0;
}

SEC("fentry/undo_cwnd")
int BPF_PROG(undo_cwnd, struct tcp_sock *tp) {
    return larger(tp->snd_cwnd, tp->prior_cwnd);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
