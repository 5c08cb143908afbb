// Wake-ups of threads that wait for events: one byte is for one of them, if they requested that,
// and only a wait interrupted by a handler returns EINTR.
#include "common.h"
#include <pthread.h>
#include <sys/epoll.h>

enum { WAITERS = 5 };

#define MUST(call) ({ long result_ = (call); if (result_ < 0) { say("%s: errno %d\n", #call, errno); _exit(97); } result_; })

static int ends[2], woken, failed, timeout_ms = -1;

static int asleep(pid_t thread) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got = MUST(read(fd, text, sizeof text - 1));
    close(fd);
    text[got] = 0;
    return strrchr(text, ')')[2] == 'S';
}

static void until_asleep(const pid_t *thread) {
    while (__atomic_load_n(thread, __ATOMIC_ACQUIRE) == 0 || !asleep(*thread)) rest_ns(MS / 5);
}

static int load(const int *count) { return __atomic_load_n(count, __ATOMIC_ACQUIRE); }
static void add(int *count) { __atomic_add_fetch(count, 1, __ATOMIC_ACQ_REL); }

struct waiter {
    int set;
    pid_t thread;
};

static void *wait_once(void *argument) {
    struct waiter *own = argument;
    struct epoll_event event;
    __atomic_store_n(&own->thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    add(epoll_wait(own->set, &event, 1, timeout_ms) == 1 ? &woken : &failed);
    return NULL;
}

static int set_of(uint32_t events) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = { .events = events };
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    return set;
}

// Wakes some threads by one byte, and gives the others the time to wake too.
static int woken_by_a_byte(int least) {
    MUST(write(ends[1], "x", 1));
    while (load(&woken) + load(&failed) < least) rest_ns(MS);
    rest_ns(60 * MS);
    return load(&woken);
}

static void begin(struct waiter *waiters, struct outcome *out, uint32_t events, int together) {
    pthread_t thread;
    MUST(pipe(ends));
    int one = together ? set_of(events) : -1;
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){ .set = together ? one : set_of(events) };
        pthread_create(&thread, NULL, wait_once, &waiters[i]);
    }
    rest_ns(out->begun_ns + out->want_ns - mono_ns());
    for (int i = 0; i < WAITERS; i++) until_asleep(&waiters[i].thread);
}

// --- each with a set of its own, of which one byte wakes one
static long run_exclusive(struct outcome *out) {
    struct waiter waiters[WAITERS];
    begin(waiters, out, EPOLLIN | EPOLLEXCLUSIVE, 0);
    int first = woken_by_a_byte(1);
    note(out, "woken=%d,failed=%d", first, load(&failed));
    return 0;
}
static long run_exclusive_timed(struct outcome *out) {
    timeout_ms = FAR_MS;
    return run_exclusive(out);
}
// --- the same, without that request
static long run_all(struct outcome *out) {
    struct waiter waiters[WAITERS];
    begin(waiters, out, EPOLLIN, 0);
    note(out, "woken=%d,failed=%d", woken_by_a_byte(WAITERS), load(&failed));
    return 0;
}
// --- with one common set
static long run_edge_together(struct outcome *out) {
    struct waiter waiters[WAITERS];
    begin(waiters, out, EPOLLIN | EPOLLET, 1);
    int first = woken_by_a_byte(1), second = woken_by_a_byte(2);
    note(out, "woken=%d,%d,failed=%d", first, second, load(&failed));
    return 0;
}
static long run_oneshot_together(struct outcome *out) {
    struct waiter waiters[WAITERS];
    struct epoll_event again = { .events = EPOLLIN | EPOLLONESHOT };
    begin(waiters, out, EPOLLIN | EPOLLONESHOT, 1);
    int first = woken_by_a_byte(1), second = woken_by_a_byte(1);
    MUST(epoll_ctl(waiters[0].set, EPOLL_CTL_MOD, ends[0], &again));
    int third = woken_by_a_byte(2);
    note(out, "woken=%d,%d,%d,failed=%d", first, second, third, load(&failed));
    return 0;
}
// --- an edge is reported once
static long run_edge(struct outcome *out) {
    struct epoll_event event;
    MUST(pipe(ends));
    int set = set_of(EPOLLIN | EPOLLET), half = (int)(out->want_ns / MS / 2);
    int none = epoll_wait(set, &event, 1, half);
    MUST(write(ends[1], "x", 1));
    int first = epoll_wait(set, &event, 1, -1), again = epoll_wait(set, &event, 1, half);
    MUST(write(ends[1], "x", 1));
    note(out, "%d,%d,%d,%d", none, first, again, epoll_wait(set, &event, 1, -1));
    return 0;
}

// --- a handler that runs is reported, whatever else happens meanwhile
static int handled, told;
static pid_t listener;

static void handle(int signal) {
    (void)signal;
    add(&handled);
}

static void *send_signals(void *argument) {
    int64_t end = *(int64_t *)argument;
    do {
        until_asleep(&listener);
        int before = load(&told);
        MUST(syscall(SYS_tgkill, getpid(), listener, SIGUSR1));
        while (load(&told) == before) rest_ns(MS / 5);
    } while (mono_ns() < end);
    MUST(write(ends[1], "x", 1));
    return NULL;
}

static long signalled(struct outcome *out, int (*wait_in)(int)) {
    struct sigaction action = { .sa_handler = handle };
    int64_t end = out->begun_ns + out->want_ns;
    pthread_t sender;
    int spurious = 0;
    MUST(pipe(ends));
    int set = set_of(EPOLLIN);
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&sender, NULL, send_signals, &end);
    listener = (pid_t)syscall(SYS_gettid);
    for (;;) {
        int before = load(&handled), got = wait_in(set);
        if (got == 1) break;
        if (got != -1 || errno != EINTR || load(&handled) != before + 1) spurious++;
        add(&told);
    }
    note(out, "lost=%d,spurious=%d,some=%d", load(&handled) - load(&told), spurious, handled > 0);
    return 0;
}

static struct epoll_event unused;
static int for_ever(int set) { return epoll_wait(set, &unused, 1, -1); }
static int for_long(int set) { return epoll_wait(set, &unused, 1, 100000); }
static int masked(int set) {
    sigset_t all, without;
    sigfillset(&all);
    without = all;
    sigdelset(&without, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return epoll_pwait(set, &unused, 1, -1, &without);
}
static long run_signalled(struct outcome *out) { return signalled(out, for_ever); }
static long run_signalled_timed(struct outcome *out) { return signalled(out, for_long); }
static long run_signalled_masked(struct outcome *out) { return signalled(out, masked); }

static const struct test_case cases[] = {
    CASE(exclusive), CASE(exclusive_timed), CASE(all), CASE(edge_together), CASE(oneshot_together),
    CASE(edge), CASE(signalled), CASE(signalled_timed), CASE(signalled_masked),
};
MAIN(cases)
