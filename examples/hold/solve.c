/* Holds a testbed while something outside of it is computed.
 *
 *   cc -I crates/assembly/capi/include examples/hold/solve.c -L target/release -ltimeloom -o solve
 *   LD_LIBRARY_PATH=target/release ./solve SESSION < problem
 *
 * SESSION is a run (its name), or any agent of several machines: all of them are held at one
 * virtual instant until this program has read its problem to the end and computed. `timeloom
 * hold` and `timeloom.control.Hold` do the same as a command and in Python. */
#include <inttypes.h>
#include <stdio.h>
#include <timeloom.h>

int main(int argc, char **argv)
{
    timeloom_held *held = NULL;
    int64_t at_ns = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: solve SESSION\n");
        return 2;
    }
    int done = timeloom_hold(argv[1], "solving", &held, &at_ns);
    if (done != TIMELOOM_DONE) {
        fprintf(stderr, "hold: %s\n", timeloom_last_error());
        return done == TIMELOOM_NO_SESSION ? 3 : 4;
    }
    printf("stands at %" PRId64 " ns\n", at_ns);
    fflush(stdout);

    /* No virtual time passes, however long this takes. */
    double sum = 0, number;
    while (scanf("%lf", &number) == 1)
        sum += number;

    timeloom_let_go(held);
    printf("solved: %g\n", sum);
    return 0;
}
