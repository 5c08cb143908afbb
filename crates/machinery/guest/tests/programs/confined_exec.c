// Executes itself under a filter that allows only the calls of the new program, and none of those
// that bring a program under the clock. Linked statically.
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

static void confine(void) {
    static const int allowed[] = {
        SYS_execve, SYS_brk, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64,
        SYS_readlinkat, SYS_getrandom, SYS_mprotect, SYS_write, SYS_exit_group, SYS_newfstatat,
        SYS_clock_nanosleep,
#ifdef SYS_arch_prctl
        SYS_arch_prctl, SYS_readlink,
#endif
    };
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[2 * COUNT + 2];
    int length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int index = 0; index < COUNT; index++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[index], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = { length, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

int main(int count, char **arguments) {
    if (count > 1) {
        // This code runs in the program after its exec.
        struct timespec moment = { 0, 50 * MS };
        int64_t begun = mono_ns();
        long result = syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
        say("slept=%ld enough=%d calls=%s\n", result, mono_ns() - begun >= 50 * MS, arguments[1]);
        syscall(SYS_exit_group, 0);
    }
    confine();
    char *next[] = { arguments[0], "few", NULL };
    execve("/does/not/exist", next, NULL);
    syscall(SYS_write, 1, "failed\n", 7);
    execve(arguments[0], next, NULL);
    return 1;
}
