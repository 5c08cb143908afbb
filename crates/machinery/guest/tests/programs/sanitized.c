// Threads, a lock, a condition with a deadline, sleeps, memory. Built with a sanitizer.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never;
static int count;
static volatile sig_atomic_t handled;

static void on_alarm(int signal) { (void)signal; handled++; }

static void *work(void *argument) {
    struct timespec wait = { 0, 20000000 };
    for (int i = 0; i < 5; i++) {
        nanosleep(&wait, NULL);
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

int main(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&never, &attributes);
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
    raise(SIGUSR1);
    struct timespec until, begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    until = begun;
    until.tv_sec += 1;
    int result = 0;
    pthread_mutex_lock(&mutex);
    while (result == 0) result = pthread_cond_timedwait(&never, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    // Uses more memory than the whole heap once.
    char *blocks[64];
    size_t sum = 0;
    for (int i = 0; i < 64; i++) {
        blocks[i] = calloc(1, (size_t)1 << (i % 22));
        blocks[i][0] = 1;
    }
    for (int i = 0; i < 64; i++) {
        sum += (size_t)blocks[i][0];
        free(blocks[i]);
    }
    int early = ended.tv_sec < until.tv_sec || (ended.tv_sec == until.tv_sec && ended.tv_nsec < until.tv_nsec);
    printf("count=%d result=%d early=%d handled=%d sum=%zu\n", count, result, early, handled, sum);
    return count == 10 ? 0 : 1;
}
