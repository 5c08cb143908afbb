// A thread cancelled in a timed wait unwinds through the handler of the trap
// and runs its cleanup handlers, innermost first.
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>

static char cleaned[8];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int ready;

static void clean(void *letter) { strcat(cleaned, letter); }
static void unlock(void *held) { pthread_mutex_unlock(held); strcat(cleaned, "u"); }
static struct timespec limit_at(clockid_t clock) { return spec(clock_ns(clock) + FAR_NS); }

static void in_nanosleep(void) { struct timespec wait = spec(FAR_NS); nanosleep(&wait, NULL); }
static void in_poll(void) { poll(NULL, 0, FAR_MS); }
static void in_select(void) {
    struct timespec wait = spec(FAR_NS);
    pselect(0, NULL, NULL, NULL, &wait, NULL);
}
static void in_epoll(void) {
    struct epoll_event got;
    epoll_wait(epoll_create1(0), &got, 1, FAR_MS);
}
static void in_epoll_endless(void) {
    struct epoll_event got;
    epoll_wait(epoll_create1(0), &got, 1, -1);
}
static void in_semaphore(void) {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until = limit_at(CLOCK_REALTIME);
    sem_timedwait(&semaphore, &until);
}
static void in_condition(void) {
    struct timespec until = limit_at(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_cleanup_pop(1);
}

static void *thread(void *wait) {
    pthread_cleanup_push(clean, "a");
    pthread_cleanup_push(clean, "b");
    ready = 1;
    ((void (*)(void))wait)();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}
static long cancelled(struct outcome *out, void (*wait)(void)) {
    pthread_t id;
    void *result;
    pthread_create(&id, NULL, thread, (void *)wait);
    rest_ns(out->want_ns);
    while (!ready) rest_ns(MS);
    long ret = pthread_cancel(id);
    pthread_join(id, &result);
    note(out, "cancelled=%d,cleaned=%s,locked=%d", result == PTHREAD_CANCELED, cleaned,
        pthread_mutex_trylock(&mutex) != 0);
    return ret;
}

#define CANCELLED(name) static long run_##name(struct outcome *out) { return cancelled(out, in_##name); }
CANCELLED(nanosleep) CANCELLED(poll) CANCELLED(select) CANCELLED(epoll) CANCELLED(epoll_endless)
CANCELLED(semaphore) CANCELLED(condition)

static const struct test_case cases[] = {
    CASE(nanosleep), CASE(poll), CASE(select), CASE(epoll), CASE(epoll_endless), CASE(semaphore), CASE(condition),
};
MAIN(cases)
