// A handler that sleeps, on an alternate stack: small_stack SIZE DEPTH. DEPTH signals
// are handled within each other. Below the stack lies what must not be overwritten
// unnoticed.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
    char below[32768];
    char stack[32768];
} memory;

static int depth;

static void rest(int signal) {
    if (--depth > 0) raise(signal);
    else nanosleep(&(struct timespec){ 0, 1000 }, NULL);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    stack_t stack = { .ss_sp = memory.stack, .ss_size = atol(argv[1]) };
    struct sigaction action = { .sa_handler = rest, .sa_flags = SA_ONSTACK | SA_NODEFER };
    depth = atoi(argv[2]);
    // Bound before, since that takes stack of its own.
    raise(0);
    nanosleep(&(struct timespec){ 0, 1 }, NULL);
    if (sigaltstack(&stack, NULL) != 0) printf("refused with %d, ", errno);
    if (sigaction(SIGUSR1, &action, NULL) != 0) return 2;
    raise(SIGUSR1);
    for (size_t i = 0; i < sizeof memory.below; i++) if (memory.below[i]) return 3;
    printf("rested\n");
    return 0;
}
