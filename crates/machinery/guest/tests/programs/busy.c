// A program that a timer interrupts while it computes. It sleeps in the handler, and prints the
// number of interruptions and the year.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t handled;

static void on_alarm(int signal) {
    struct timespec wait = { 0, 1000000 };
    (void)signal;
    nanosleep(&wait, NULL);
    handled++;
}

int main(void) {
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval each = { { 0, 5000 }, { 0, 5000 } }, none = { { 0, 0 }, { 0, 0 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
    while (handled < 20) {}
    setitimer(ITIMER_REAL, &none, NULL);
    time_t now = time(NULL);
    printf("handled=%d year=%d\n", handled >= 20, gmtime(&now)->tm_year + 1900);
    return 0;
}
