// Sleeps and prints the year.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    struct timespec wait = { 0, 100000000 }, begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    nanosleep(&wait, NULL);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    long long lasted = (ended.tv_sec - begun.tv_sec) * 1000000000LL + ended.tv_nsec - begun.tv_nsec;
    time_t *now = malloc(sizeof *now);
    time(now);
    printf("year=%d early=%d\n", gmtime(now)->tm_year + 1900, lasted < wait.tv_nsec);
    free(now);
    return 0;
}
