// A handler that sleeps, on an alternate stack: small_stack SIZE DEPTH. DEPTH signals are handled
// within each other. The data below the stack must not be overwritten unnoticed. small_stack sizes
// [FRAMES BYTES MORE]: a call that traps in a handler, on stacks of all sizes around FRAMES frames
// of BYTES each (two of the kernel's) plus the image's use, from MORE on, each in a process of its
// own.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct memory {
    char below[32768];
    char stack[32768];
};
static struct memory *memory;

static int depth;

static void rest(int signal) {
    if (--depth > 0) raise(signal);
    else nanosleep(&(struct timespec){ 0, 1000 }, NULL);
}

static int was_written_below(void) {
    for (size_t i = 0; i < sizeof memory->below; i++) if (memory->below[i]) return 1;
    return 0;
}

static int handle(size_t size, void (*handler)(int)) {
    stack_t stack = { .ss_sp = memory->stack, .ss_size = size };
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER };
    // The symbol is resolved in advance, since that uses stack space of its own.
    raise(0);
    nanosleep(&(struct timespec){ 0, 1 }, NULL);
    if (sigaltstack(&stack, NULL) != 0) printf("refused with %d, ", errno);
    if (sigaction(SIGUSR1, &action, NULL) != 0) return 2;
    raise(SIGUSR1);
    return was_written_below() ? 3 : 0;
}

static int ends[2];
static void reads_a_clock(int signal) {
    (void)signal;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
}
static void sleeps(int signal) {
    (void)signal;
    nanosleep(&(struct timespec){ 0, 1000 }, NULL);
}
static void selects(int signal) {
    (void)signal;
    fd_set none;
    FD_ZERO(&none);
    pselect(0, &none, NULL, NULL, &(struct timespec){ 0, 1000 }, NULL);
}
static void writes(int signal) {
    (void)signal;
    struct iovec part = { "x", 1 };
    writev(ends[0], &part, 1);
}
// Sends into a full socket, so that the call waits.
static void sends(int signal) {
    (void)signal;
    struct iovec part = { "x", 1 };
    while (writev(ends[0], &part, 1) > 0) {}
}

// Handles its signal within itself, and then by this one.
static void (*inner)(int);
static void nests(int signal) {
    if (--depth > 0) syscall(SYS_tgkill, getpid(), gettid(), signal);
    else inner(signal);
}

static int frames = 2;
static void try(const char *name, void (*handler)(int), size_t size) {
    int told[2], status;
    memset(memory->below, 0, sizeof memory->below);
    if (pipe(told) != 0) exit(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(told[1], 2);
        // One call first, for symbols resolved at that time.
        handler(0);
        inner = handler;
        depth = frames - 1;
        _exit(handle(size, nests));
    }
    close(told[1]);
    waitpid(child, &status, 0);
    char text[64] = "";
    ssize_t length = read(told[0], text, sizeof text - 1);
    close(told[0]);
    const char *outcome = "strange";
    int is_told = length > 0 && strstr(text, "timeloom: ") != NULL;
    if (was_written_below()) outcome = "written below";
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !is_told) outcome = "answered";
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) outcome = is_told ? "ended, and told" : "ended by the kernel";
    printf("%s on %zu: %s\n", name, size, outcome);
}

static int sizes(size_t frame, ssize_t more) {
    struct timeval soon = { 0, 20000 };
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 2;
    int least = 4096;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    size_t from = frames * frame + more;
    for (size_t size = from; size < from + 2304; size += 32) {
        try("a clock", reads_a_clock, size);
        try("a sleep", sleeps, size);
        try("a select", selects, size);
        try("a write", writes, size);
        if (size % 256 == 0) try("a wait to send", sends, size);
    }
    return 0;
}

static char *handled_at;
static void notes_where(int signal) {
    (void)signal;
    handled_at = __builtin_frame_address(0);
}

// Returns the size of the frame that the kernel writes for a signal. (AT_MINSIGSTKSZ is the
// maximum: on processors with tile registers it is three times the frame of a program that does not
// use them.)
static size_t frame_bytes(void) {
    stack_t stack = { .ss_sp = memory->stack, .ss_size = sizeof memory->stack };
    struct sigaction action = { .sa_handler = notes_where, .sa_flags = SA_ONSTACK };
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR2, &action, NULL) != 0) exit(2);
    raise(SIGUSR2);
    return memory->stack + sizeof memory->stack - handled_at;
}

int main(int argc, char **argv) {
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    if (argc == 2 && strcmp(argv[1], "sizes") == 0) return sizes(frame_bytes(), -1024);
    if (argc == 5 && strcmp(argv[1], "sizes") == 0) {
        frames = atoi(argv[2]);
        return sizes(atol(argv[3]), atol(argv[4]));
    }
    if (argc != 3) return 2;
    depth = atoi(argv[2]);
    int result = handle(atol(argv[1]), rest);
    if (result == 0) printf("rested\n");
    return result;
}
