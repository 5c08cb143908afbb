// Enters time namespaces with clock offsets, or tries to.
//
//   time_namespaces PID
//
// PID is a process in another time namespace. Prints one line for each attempt; natively all
// succeed.
#include "common.h"
#include <sched.h>
#include <sys/syscall.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static char path[64];

static int namespace_of(const char *pid, const char *kind) {
    snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, kind);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void tried(const char *what, int ret) {
    say("%s ret=%d errno=%d\n", what, ret, ret < 0 ? errno : 0);
}

// Makes each attempt in its own child.
static void try(const char *what, int make, int descriptor, int flags) {
    pid_t pid = fork();
    if (pid == 0) {
        tried(what, make ? unshare(flags) : setns(descriptor, flags));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s PID\n", argv[0]);
        return 64;
    }
    try("new", 1, 0, CLONE_NEWTIME);
    try("new_with_others", 1, 0, CLONE_NEWTIME | CLONE_NEWUTS);
    try("entered", 0, namespace_of(argv[1], "time"), CLONE_NEWTIME);
    try("entered_any", 0, namespace_of(argv[1], "time"), 0);
    int pidfd = (int)syscall(SYS_pidfd_open, atoi(argv[1]), 0);
    try("entered_by_process", 0, pidfd, CLONE_NEWTIME);
    try("own", 0, namespace_of("self", "time"), CLONE_NEWTIME);
    try("own_any", 0, namespace_of("self", "time"), 0);
    try("other_new", 1, 0, CLONE_NEWUTS);
    try("other", 0, namespace_of("self", "uts"), CLONE_NEWUTS);
    try("other_any", 0, namespace_of("self", "uts"), 0);
    // Its clocks are the original ones.
    int64_t before = mono_ns();
    struct timespec until = spec(before + 20 * MS);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    int64_t late = mono_ns() - before - 20 * MS;
    say("slept early=%d late=%d\n", late < 0, late > 9 * S);
    return 0;
}
