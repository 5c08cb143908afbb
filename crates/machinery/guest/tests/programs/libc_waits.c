// The C library's timed waits: condition variables, semaphores, mutexes, joins. Each uses a futex;
// the library chooses the operation and the clock.
#include "common.h"
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

static struct timespec at(clockid_t clock, struct outcome *out) { return spec(clock_ns(clock) + out->want_ns); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static long run_cond_timedwait(struct outcome *out) {
    struct timespec until = at(CLOCK_REALTIME, out);
    pthread_mutex_lock(&mutex);
    return pthread_cond_timedwait(&condition, &mutex, &until);
}
static long run_cond_timedwait_mono(struct outcome *out) {
    pthread_condattr_t attributes;
    pthread_cond_t on_mono;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&on_mono, &attributes);
    struct timespec until = at(CLOCK_MONOTONIC, out);
    pthread_mutex_lock(&mutex);
    return pthread_cond_timedwait(&on_mono, &mutex, &until);
}
static long run_cond_clockwait(struct outcome *out) {
    struct timespec until = at(CLOCK_MONOTONIC, out);
    pthread_mutex_lock(&mutex);
    return pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until);
}
static long run_sem_timedwait(struct outcome *out) {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until = at(CLOCK_REALTIME, out);
    long ret = sem_timedwait(&semaphore, &until);
    out->err = ret < 0 ? errno : 0;
    return ret;
}
static long run_sem_clockwait(struct outcome *out) {
    sem_t semaphore;
    sem_init(&semaphore, 1, 0);
    struct timespec until = at(CLOCK_MONOTONIC, out);
    long ret = sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until);
    out->err = ret < 0 ? errno : 0;
    return ret;
}

// A mutex that another thread holds for ever.
static void *hold(void *held) {
    pthread_mutex_lock(held);
    rest_ns(3600 * S);
    return NULL;
}
static long held_mutex(struct outcome *out, int protocol, int clock) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t held;
    pthread_t holder;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(&held, &attributes);
    pthread_create(&holder, NULL, hold, &held);
    while (pthread_mutex_trylock(&held) == 0) {
        pthread_mutex_unlock(&held);
        rest_ns(MS);
    }
    out->begun_ns = mono_ns();
    struct timespec until = at(clock, out);
    return pthread_mutex_clocklock(&held, clock, &until);
}
static long run_mutex_timedlock(struct outcome *out) { return held_mutex(out, PTHREAD_PRIO_NONE, CLOCK_REALTIME); }
static long run_mutex_clocklock(struct outcome *out) { return held_mutex(out, PTHREAD_PRIO_NONE, CLOCK_MONOTONIC); }
static long run_mutex_pi_timedlock(struct outcome *out) { return held_mutex(out, PTHREAD_PRIO_INHERIT, CLOCK_REALTIME); }

static long run_rwlock_timedrdlock(struct outcome *out) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_rdlock(&lock);
    struct timespec until = at(CLOCK_REALTIME, out);
    return pthread_rwlock_timedwrlock(&lock, &until);
}
static void *sleep_long(void *none) {
    rest_ns(3600 * S);
    return none;
}
static long run_timedjoin(struct outcome *out) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_long, NULL);
    struct timespec until = at(CLOCK_REALTIME, out);
    return pthread_timedjoin_np(thread, NULL, &until);
}
static long run_thrd_sleep(struct outcome *out) {
    struct timespec wait = spec(out->want_ns);
    return thrd_sleep(&wait, NULL);
}
// Makes the same wait in ten threads at once. Returns the sum of their results.
static void *wait_in_thread(void *argument) {
    struct timespec *until = argument;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&own);
    return (void *)(long)pthread_cond_timedwait(&never, &own, until);
}
static long run_ten_threads(struct outcome *out) {
    struct timespec until = at(CLOCK_REALTIME, out);
    pthread_t threads[10];
    long sum = 0;
    for (int i = 0; i < 10; i++) pthread_create(&threads[i], NULL, wait_in_thread, &until);
    for (int i = 0; i < 10; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    return sum;
}

static const struct test_case cases[] = {
    CASE(cond_timedwait), CASE(cond_timedwait_mono), CASE(cond_clockwait), CASE(sem_timedwait),
    CASE(sem_clockwait), CASE(mutex_timedlock), CASE(mutex_clocklock), CASE(mutex_pi_timedlock),
    CASE(rwlock_timedrdlock), CASE(timedjoin), CASE(thrd_sleep), CASE(ten_threads),
};
MAIN(cases)
