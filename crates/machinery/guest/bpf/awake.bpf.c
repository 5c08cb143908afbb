// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Counts the threads of a session that run or are ready to run, and the work that the kernel has
// deferred for them (softirqs of the network, tasklets, work items, frames that a queue holds
// back). The supervisor maps one word of the map `words`: while its low half is zero, nothing of
// the session runs, and whenever anything begins or ends to run, its high half changes.
//
// A thread is a *member* if it lives in the session's cgroup or below, or belongs to the
// supervisor's process (without the thread that asks). Members are found when they are first
// woken or switched away from, so that a process which is moved into the cgroup needs no help.
//
// When a member blocks, its memory is still the current one. If it stands in the image's waiting
// instruction, its deadline lies at the top of its stack and is copied here. A member whose deadline
// has passed blocks until the kernel's timer of zero length ends its wait, and stays awake meanwhile.
//
// Compiled by `scripts/bpf`; the object is committed, so that users need no compiler for BPF.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u64 u64;
typedef __u32 u32;
typedef __s64 s64;
typedef _Bool bool;

// What is used of the kernel's types; the loader finds where the running kernel has it.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node { u64 id; };
struct cgroup { int level; struct kernfs_node *kn; struct cgroup *ancestors[0]; };
struct css_set { struct cgroup *dfl_cgrp; };
struct task_struct { unsigned int __state; int pid; int tgid; struct css_set *cgroups; };
struct pt_regs___x86 { unsigned long ip; unsigned long sp; };
struct pt_regs___arm { u64 pc; u64 sp; };
struct work_struct { unsigned long data; };
struct pool_workqueue;
struct linux_binprm;
struct qdisc_skb_head { u32 qlen; };
struct ns_common { u32 inum; };
struct net { struct ns_common ns; };
typedef struct { struct net *net; } possible_net_t;
struct net_device { possible_net_t nd_net; };
struct netdev_queue { struct net_device *dev; };
struct Qdisc { struct qdisc_skb_head q; struct netdev_queue *dev_queue; };
#pragma clang attribute pop

// Set by the loader.
const volatile u64 session_cgroup = 0;
const volatile u32 supervisor = 0;  // the process
const volatile u32 asker = 0;       // its thread that reads the count
const volatile u64 wait_begin = 0;
const volatile u64 wait_end = 0;
const volatile u64 host_at = 0;

// Bits of a member's state. A thread that has either is awake.
#define RUNS 1u   // runs, or is ready to run
#define WAKES 2u  // is being woken

#define EEXIST 17

#define TASK_INTERRUPTIBLE 0x1u
#define TASK_UNINTERRUPTIBLE 0x2u
#define TASK_DEAD 0x80u
#define TASK_FREEZABLE 0x2000u

#define CHANGED (1ull << 24)
#define MOST_LEVELS 16

struct member {
    u32 bits;
    u32 tgid;
    s64 deadline;  // of a wait in virtual time
    u32 host;      // whose clock it is
    u32 waits;     // whether it stands in the waiting instruction
    u64 logged;    // in which round it was written to the log
    u32 runs;      // whether it belongs to a guest
    u32 unused;
};

struct words {
    u64 awake;     // changes << 24 | threads and works that are not at rest
    u64 round;     // advanced by the reader of the log
    u64 sleeps;    // the reader is to be woken when all rest
    u64 lost;      // members or log entries without room, and waits that were not read
    u64 counting;  // set when all programs are attached
    u64 level;     // depth of the session's cgroup, once it is known
    u64 deferred;  // softirqs, works and queues alone: what /proc does not show
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, u32);
    __type(value, struct words);
} words SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __type(key, u32);
    __type(value, struct member);
} members SEC(".maps");

// Works that members have queued, with the time at which they did.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, u64);
    __type(value, u64);
} works SEC(".maps");

// Network namespaces of the session, by inode number.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, u32);
} networks SEC(".maps");

// Queues of network devices that hold frames back until a timer of theirs expires.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, u64);
    __type(value, u64);
} queues SEC(".maps");

// Softirqs of each processor: for each vector whether it is pending (bit) and runs (bit + 16).
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} softirqs SEC(".maps");

// Numbers of members that have blocked or ended, each at most once a round; 0 says that all rest.
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} ran SEC(".maps");

// Until all programs are attached none counts: a thread whose wake-up was seen and whose end
// was not would be awake for ever.
static __always_inline struct words *shared(void) {
    u32 zero = 0;
    struct words *all = bpf_map_lookup_elem(&words, &zero);
    return all && all->counting ? all : 0;
}

static __always_inline void more(void) {
    struct words *all = shared();
    if (all)
        __sync_fetch_and_add(&all->awake, CHANGED + 1);
}

static __always_inline void fewer(void) {
    struct words *all = shared();
    if (!all)
        return;
    u64 before = __sync_fetch_and_add(&all->awake, CHANGED - 1);
    if ((before & (CHANGED - 1)) == 1 && all->sleeps) {
        u32 nobody = 0;
        bpf_ringbuf_output(&ran, &nobody, sizeof(nobody), BPF_RB_FORCE_WAKEUP);
    }
}

static __always_inline void defer(void) {
    struct words *all = shared();
    if (all)
        __sync_fetch_and_add(&all->deferred, 1);
    more();
}

static __always_inline void undefer(void) {
    struct words *all = shared();
    if (all)
        __sync_fetch_and_add(&all->deferred, -1);
    fewer();
}

static __always_inline void lose(void) {
    struct words *all = shared();
    if (all)
        __sync_fetch_and_add(&all->lost, 1);
}

static __always_inline u64 ancestor_of(struct cgroup *group, u32 level) {
    struct cgroup *ancestor = 0;
    u32 at = bpf_core_field_offset(struct cgroup, ancestors) + level * sizeof(ancestor);
    bpf_probe_read_kernel(&ancestor, sizeof(ancestor), (void *)group + at);
    return ancestor ? BPF_CORE_READ(ancestor, kn, id) : 0;
}

static __always_inline int is_guest(struct words *all, struct task_struct *task) {
    struct cgroup *group = BPF_CORE_READ(task, cgroups, dfl_cgrp);
    u32 depth = BPF_CORE_READ(group, level);
    u32 level = all->level;
    if (level)
        return depth >= level && ancestor_of(group, level) == session_cgroup;
    // No guest was seen yet. How deep its cgroup lies the supervisor cannot tell where it
    // sees only a part of the hierarchy.
    for (level = 1; level < MOST_LEVELS; level++) {
        if (level > depth)
            break;
        if (ancestor_of(group, level) == session_cgroup) {
            all->level = level;
            return 1;
        }
    }
    return 0;
}

// The member of this number; made now if the thread is one and not known yet.
static __always_inline struct member *member(struct task_struct *task, u32 bits) {
    u32 number = task->pid;
    struct words *all = shared();
    if (!all)
        return 0;
    struct member *known = bpf_map_lookup_elem(&members, &number);
    if (known)
        return known;
    u32 tgid = task->tgid;
    if (number == asker)
        return 0;
    int guest = is_guest(all, task);
    if (!guest && tgid != supervisor)
        return 0;
    struct member fresh = {.bits = bits, .tgid = tgid, .runs = guest};
    if (bpf_map_update_elem(&members, &number, &fresh, BPF_NOEXIST))
        lose();
    else if (bits)
        more();
    return bpf_map_lookup_elem(&members, &number);
}

static __always_inline void set(struct member *thread, u32 bit) {
    if (__sync_fetch_and_or(&thread->bits, bit) == 0)
        more();
}

static __always_inline void clear(struct member *thread, u32 bit) {
    if (__sync_fetch_and_and(&thread->bits, ~bit) == bit)
        fewer();
}

static __always_inline void write_down(struct member *thread, u32 number) {
    struct words *all = shared();
    if (!all || thread->logged == all->round || !thread->runs)
        return;
    if (bpf_ringbuf_output(&ran, &number, sizeof(number), BPF_RB_NO_WAKEUP))
        lose();
    else
        thread->logged = all->round;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task) {
    struct member *thread = member(task, 0);
    if (thread)
        set(thread, WAKES);
    return 0;
}

static __always_inline void woken(struct task_struct *task) {
    struct member *thread = member(task, 0);
    if (!thread)
        return;
    set(thread, RUNS);
    clear(thread, WAKES);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task) {
    woken(task);
    return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task) {
    woken(task);
    return 0;
}

// Deadline of a wait that the kernel ends at once: its timeout is zero (timeloom_abi::ENDS_AT_ONCE).
#define ENDS_AT_ONCE (-0x7fffffffffffffffll - 1)

// Reads where a thread that blocks stands in its program, and until when it waits there. Returns
// false if the thread blocks for a moment only: until the kernel's timer has ended a wait whose
// deadline has passed.
static __always_inline bool look(struct member *thread, struct task_struct *task) {
    u64 at = 0, stack = 0;
    void *registers = (void *)bpf_task_pt_regs(task);
    thread->waits = 0;
    if (bpf_core_field_exists(struct pt_regs___x86, ip)) {
        struct pt_regs___x86 *own = registers;
        at = BPF_CORE_READ(own, ip);
        stack = BPF_CORE_READ(own, sp);
    } else {
        struct pt_regs___arm *own = registers;
        at = BPF_CORE_READ(own, pc);
        stack = BPF_CORE_READ(own, sp);
    }
    if (at < wait_begin || at > wait_end)
        return 1;
    s64 deadline = 0;
    u32 host = 0;
    if (bpf_probe_read_user(&deadline, sizeof(deadline), (void *)stack) ||
        bpf_probe_read_user(&host, sizeof(host), (void *)host_at)) {
        lose();
        return 1;
    }
    if (deadline == ENDS_AT_ONCE)
        return 0;
    thread->deadline = deadline;
    thread->host = host;
    thread->waits = 1;
    return 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev) {
    if (preempt)
        return 0;
    struct member *thread = member(prev, RUNS);
    if (!thread)
        return 0;
    u32 state = prev->__state;
    u32 number = prev->pid;
    if (state & TASK_DEAD) {
        write_down(thread, number);
        u32 before = __sync_fetch_and_and(&thread->bits, 0);
        bpf_map_delete_elem(&members, &number);
        if (before)
            fewer();
        return 0;
    }
    // Uninterruptible sleep is work (a disk), but for a parent whose child has its memory.
    if (!(state & TASK_INTERRUPTIBLE) &&
        (state & (TASK_UNINTERRUPTIBLE | TASK_FREEZABLE)) != (TASK_UNINTERRUPTIBLE | TASK_FREEZABLE))
        // Its state is being changed by a thread that wakes it: it was going to sleep.
        if (!(thread->bits & WAKES) || state == 0)
            return 0;
    if (thread->runs && !look(thread, prev))
        return 0;
    write_down(thread, number);
    clear(thread, RUNS);
    return 0;
}

// An exec by another thread than the first: it takes over the number of the process.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_number) {
    u32 old = old_number, number = task->pid;
    if (old == number)
        return 0;
    struct member *before = bpf_map_lookup_elem(&members, &old);
    if (!before)
        return 0;
    u32 bits = __sync_fetch_and_and(&before->bits, 0);
    bpf_map_delete_elem(&members, &old);
    if (bits)
        fewer();
    struct member *now = bpf_map_lookup_elem(&members, &number);
    if (now)
        set(now, RUNS);
    else
        member(task, RUNS);
    return 0;
}

// NET_TX, NET_RX and TASKLET.
#define COUNTED(vector) ((vector) == 2 || (vector) == 3 || (vector) == 6)

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_raise, u32 vector) {
    u32 zero = 0, *own = bpf_map_lookup_elem(&softirqs, &zero);
    if (!own || !COUNTED(vector) || !shared())
        return 0;
    u32 bit = 1u << (vector & 15);
    if (!(__sync_fetch_and_or(own, bit) & bit))
        defer();
    return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_entry, u32 vector) {
    u32 zero = 0, *own = bpf_map_lookup_elem(&softirqs, &zero);
    if (!own || !COUNTED(vector) || !shared())
        return 0;
    u32 pending = 1u << (vector & 15), runs = pending << 16;
    if (!(__sync_fetch_and_or(own, runs) & runs))
        defer();
    if (__sync_fetch_and_and(own, ~pending) & pending)
        undefer();
    return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_exit, u32 vector) {
    u32 zero = 0, *own = bpf_map_lookup_elem(&softirqs, &zero);
    if (!own || !COUNTED(vector) || !shared())
        return 0;
    u32 runs = 1u << ((vector & 15) + 16);
    if (__sync_fetch_and_and(own, ~runs) & runs)
        undefer();
    return 0;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(on_queue, int cpu, struct pool_workqueue *pool, struct work_struct *work) {
    u32 number = (u32)bpf_get_current_pid_tgid();
    if (!shared() || !bpf_map_lookup_elem(&members, &number))
        return 0;
    u64 key = (u64)work, now = bpf_ktime_get_ns();
    if (!bpf_map_update_elem(&works, &key, &now, BPF_NOEXIST))
        defer();
    return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_executed, struct work_struct *work) {
    u64 key = (u64)work;
    if (!bpf_map_delete_elem(&works, &key))
        undefer();
    return 0;
}

static __always_inline int emptied(struct Qdisc *queue) {
    u64 key = (u64)queue;
    if (shared() && !bpf_map_delete_elem(&queues, &key))
        undefer();
    return 0;
}

// A queue that still has frames after it was asked for one passes the next when its timer expires (a
// bucket without tokens, a simulated delay). While it passes several in turn, a softirq or a thread
// runs anyway. The frame passed is not looked at: verifiers of some kernels (about 6.5 to 6.12) take
// it for never null and would remove the code for a queue that passes none.
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(on_dequeue, struct Qdisc *queue) {
    u64 key = (u64)queue, held = 1;
    if (!shared())
        return 0;
    u32 network = BPF_CORE_READ(queue, dev_queue, dev, nd_net.net, ns.inum);
    if (!bpf_map_lookup_elem(&networks, &network))
        return 0;
    if (!BPF_CORE_READ(queue, q.qlen))
        return emptied(queue);
    // Without room in the map the queue counts for ever: time then passes as usual, and is right.
    if (bpf_map_update_elem(&queues, &key, &held, BPF_NOEXIST) != -EEXIST)
        defer();
    return 0;
}

SEC("tp_btf/qdisc_reset")
int BPF_PROG(on_reset, struct Qdisc *queue) {
    return emptied(queue);
}

SEC("tp_btf/qdisc_destroy")
int BPF_PROG(on_destroy, struct Qdisc *queue) {
    return emptied(queue);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
