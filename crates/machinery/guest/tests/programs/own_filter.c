// A program's own seccomp filters: each verdict on each kind of call, installed in each way, alone
// and stacked; invalid filters; strict mode. Prints one line for each case, the same natively and
// under the clock. Each case runs in a child of its own.
#include "common.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#ifdef __aarch64__
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE AUDIT_ARCH_X86_64
#endif
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define LENGTH(array) (unsigned short)(sizeof(array) / sizeof *(array))

// Observations of a case, in memory that outlives it.
static struct seen {
    long ret, second;
    int err, trapped, data, call, code;
    bool is_done;
} *seen;

static void on_sigsys(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    seen->trapped++;
    seen->data = info->si_errno;
    seen->call = info->si_syscall;
    seen->code = info->si_code;
}

static void handle_sigsys(void) {
    struct sigaction action = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };
    sigaction(SIGSYS, &action, NULL);
}

static void no_new_privileges(void) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) abort();
}

static long by_prctl(struct sock_fprog *program, unsigned flags) {
    return flags ? -1 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

static long by_seccomp(struct sock_fprog *program, unsigned flags) {
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

// Calls that receive verdicts: one that traps under the clock, one that the supervisor answers, one
// that traps only with other arguments, and one without time.
static const struct { const char *name; long number; } calls[] = {
    { "nanosleep", SYS_nanosleep }, { "setitimer", SYS_setitimer },
    { "ioctl", SYS_ioctl }, { "getppid", SYS_getppid },
    { "prctl", SYS_prctl }, { "execve", SYS_execve },
};

// The kernel ignores the last three arguments; filters may inspect them.
#define REST 1L, 0x100000001L, -1L
static long make(int which) {
    static const struct timespec moment = { 0, 1000000 };
    static const struct itimerval none;
    switch (which) {
    case 0: return syscall(SYS_nanosleep, &moment, NULL, 0L, REST);
    case 1: return syscall(SYS_setitimer, ITIMER_REAL, &none, NULL, REST);
    case 2: return syscall(SYS_ioctl, -1, 0L, 0L, REST);
    case 3: return syscall(SYS_getppid, 0L, 0L, 0L, REST) > 0;
    case 4: return syscall(SYS_prctl, PR_SET_NAME, "renamed", 0L, 0L, 0L);
    default: return syscall(SYS_execve, "/does/not/exist", NULL, NULL, REST);
    }
}

static const struct { const char *name; uint32_t action; } verdicts[] = {
    { "allow", SECCOMP_RET_ALLOW },
    { "log", SECCOMP_RET_LOG },
    { "notify", SECCOMP_RET_USER_NOTIF },
    { "eperm", SECCOMP_RET_ERRNO | EPERM },
    { "success", SECCOMP_RET_ERRNO },
    { "large", SECCOMP_RET_ERRNO | 0xffff },
    { "trap", SECCOMP_RET_TRAP | 5 },
    { "marked", SECCOMP_RET_TRAP | 0x746c },
    { "judged", SECCOMP_RET_TRAP | 0x746d },
    { "strict", SECCOMP_RET_TRAP | 0x746e },
    { "thread", SECCOMP_RET_KILL_THREAD },
    { "process", SECCOMP_RET_KILL_PROCESS },
    { "unknown", 0x00010000 },
};

// Installs a verdict on one call, in several forms; all other calls are allowed.
static long install(long (*how)(struct sock_fprog *, unsigned), unsigned flags, int form,
                    int call, uint32_t action) {
    uint32_t number = calls[call].number;
    struct sock_filter constant[] = {
        LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        RETURN(action), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter computed[] = {
        LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_IMM, action ^ 0x1234), BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 0x1234),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    // All kinds of jumps, memory, and both registers; nothing is loaded at the beginning.
    struct sock_filter jumps[] = {
        BPF_STMT(BPF_ST, 3), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RETURN(0),
        BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RETURN(0),
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0), RETURN(0),
        LOAD(nr), BPF_STMT(BPF_ST, 5), BPF_STMT(BPF_LDX | BPF_IMM, number),
        BPF_STMT(BPF_JMP | BPF_JA, 1), RETURN(0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0), RETURN(SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_MEM, 5), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, number, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0xffffffff, 0, 1),
        RETURN(action), RETURN(action ? action : 0),
    };
    struct sock_fprog programs[] = {
        { LENGTH(constant), constant }, { LENGTH(computed), computed }, { LENGTH(jumps), jumps },
    };
    return how(&programs[form], flags);
}
enum { FORMS = 3 };

// Runs a case in a child, and prints its end and its observations.
static void run(const char *name, void (*body)(const int *), const int *arguments) {
    memset(seen, 0, sizeof *seen);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        handle_sigsys();
        body(arguments);
        seen->is_done = true;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s ret=%ld errno=%d second=%ld done=%d trapped=%d data=%d call=%d code=%d "
           "signal=%d exit=%d\n", name, seen->ret, seen->err, seen->second, seen->is_done, seen->trapped, seen->data,
           seen->call, seen->code, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
           WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void judge(int call) {
    seen->ret = make(call);
    seen->err = seen->ret < 0 ? errno : 0;
    if (seen->trapped && seen->ret == calls[call].number) seen->ret = -1000;
    // Handlers must return, and waits must take their time, under any filter.
    seen->second = make(3);
    raise(SIGSYS);
}

static void one(const int *arguments) {
    no_new_privileges();
    int call = arguments[0], verdict = arguments[1], how = arguments[2], form = arguments[3];
    if (install(how ? by_seccomp : by_prctl, 0, form, call, verdicts[verdict].action)) abort();
    judge(call);
}

static void *judge_in_thread(void *argument) {
    int *arguments = argument;
    while (!__atomic_load_n(&arguments[4], __ATOMIC_ACQUIRE)) sched_yield();
    judge(arguments[0]);
    return NULL;
}

// The filter is installed by another thread.
static void one_for_all(const int *given) {
    int arguments[5] = { given[0], given[1], given[2], given[3], 0 };
    pthread_t thread;
    pthread_create(&thread, NULL, judge_in_thread, arguments);
    no_new_privileges();
    unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG;
    if (install(by_seccomp, flags, arguments[3], arguments[0], verdicts[arguments[1]].action))
        abort();
    __atomic_store_n(&arguments[4], 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void two(const int *arguments) {
    no_new_privileges();
    for (int index = 0; index < 2; index++) {
        uint32_t action = verdicts[arguments[1 + index]].action;
        if (install(by_seccomp, SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0, arguments[0], action)) abort();
        // A first filter may forbid the installation of the second.
    }
    judge(arguments[0]);
}

static void verdict_cases(void) {
    char name[80];
    for (int call = 0; call < LENGTH(calls); call++)
        for (int verdict = 0; verdict < LENGTH(verdicts); verdict++) {
            for (int how = 0; how < 2; how++)
                for (int form = 0; form < FORMS; form++) {
                    snprintf(name, sizeof name, "%s_%s_%d_%d", calls[call].name,
                             verdicts[verdict].name, how, form);
                    run(name, one, (int[]){ call, verdict, how, form });
                }
            snprintf(name, sizeof name, "%s_%s_all", calls[call].name, verdicts[verdict].name);
            run(name, one_for_all, (int[]){ call, verdict, 0, 0 });
        }
}

static void stacked_cases(void) {
    char name[80];
    for (int call = 0; call < 4; call++)
        for (int first = 0; first < LENGTH(verdicts); first++)
            for (int second = 0; second < LENGTH(verdicts); second++) {
                snprintf(name, sizeof name, "%s_%s_then_%s", calls[call].name,
                         verdicts[first].name, verdicts[second].name);
                run(name, two, (int[]){ call, first, second });
            }
}

// Filters that the kernel accepts or refuses.
static struct sock_filter allow[] = { RETURN(SECCOMP_RET_ALLOW) };

static long try(struct sock_filter *filter, unsigned short length, unsigned flags) {
    struct sock_fprog program = { length, filter };
    seen->ret = by_seccomp(&program, flags);
    seen->err = seen->ret < 0 ? errno : 0;
    if (seen->ret > 0) seen->ret = 1; // a thread, or a descriptor
    seen->second = make(0);
    return seen->ret;
}
#define TRY(...) do { \
        struct sock_filter filter[] = { __VA_ARGS__ }; \
        try(filter, LENGTH(filter), 0); \
    } while (0)

static void shape(const int *arguments) {
    if (arguments[1]) no_new_privileges();
    if (arguments[1] == 2 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 })) abort();
    if (!arguments[1] && setuid(65534)) abort();
    static struct sock_filter much[5000];
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int index = 0; index < 5000; index++) much[index] = allow[0];
    switch (arguments[0]) {
    case 0: TRY(allow[0]); break;
    case 1: try(allow, 0, 0); break;
    case 2: try(much, 4097, 0); break;
    case 3: try(NULL, 1, 0); break;
    case 4: try((void *)8, 1, 0); break;
    case 5: seen->ret = by_seccomp(NULL, 0), seen->err = errno; break;
    case 6: seen->ret = by_seccomp((void *)8, 0), seen->err = errno; break;
    case 7: seen->ret = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL), seen->err = errno; break;
    // Jumps beyond the end: to the step after the last, and further.
    case 8: TRY(BPF_STMT(BPF_JMP | BPF_JA, 1), allow[0]); break;
    case 9: TRY(BPF_STMT(BPF_JMP | BPF_JA, 30), allow[0]); break;
    case 10: TRY(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0), allow[0]); break;
    case 11: TRY(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1), allow[0]); break;
    case 12: TRY(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 1, 40, 0), allow[0]); break;
    case 13: TRY(BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), allow[0]); break;
    case 14: TRY(LOAD(nr)); break;
    case 15: TRY(allow[0], LOAD(nr)); break;
    case 16: TRY(BPF_STMT(0x99, 0), allow[0]); break;
    case 17: TRY(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), allow[0]); break;
    case 18: TRY(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), allow[0]); break;
    case 19: TRY(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), allow[0]); break;
    case 20: TRY(BPF_STMT(BPF_LD | BPF_MEM, 1), allow[0]); break;
    // Memory is not written on the path that the kernel checks.
    case 21: TRY(LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2), BPF_STMT(BPF_ST, 1),
                 RETURN(SECCOMP_RET_ERRNO), BPF_STMT(BPF_LD | BPF_MEM, 1), allow[0]); break;
    case 22: TRY(BPF_STMT(BPF_ST, 1), BPF_STMT(BPF_LD | BPF_MEM, 1), allow[0]); break;
    case 23: TRY(BPF_STMT(BPF_ST, 16), allow[0]); break;
    case 24: TRY(BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), allow[0]); break;
    case 25: TRY(BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), allow[0]); break;
    case 26: TRY(BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), allow[0]); break;
    case 27: TRY(BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_ALU | BPF_NEG, 0), allow[0]); break;
    case 28: TRY(BPF_STMT(BPF_RET | BPF_X, 0)); break;
    case 29: try(allow, 1, 1 << 20); break;
    case 30: try(allow, 1, SECCOMP_FILTER_FLAG_LOG); break;
    case 31: try(allow, 1, SECCOMP_FILTER_FLAG_SPEC_ALLOW); break;
    case 32: try(allow, 1, 1 << 5); break; // WAIT_KILLABLE_RECV without a listener
    case 33: try(NULL, 1, 1 << 5); break;
    case 34: try(allow, 1, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER); break;
    case 35: seen->ret = syscall(SYS_seccomp, 77, 0, NULL), seen->err = errno; break;
    case 36: seen->ret = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL), seen->err = errno; break;
    case 37: seen->ret = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, allow), seen->err = errno; break;
    case 38: seen->ret = prctl(PR_SET_SECCOMP, 7, NULL), seen->err = errno; break;
    case 39: seen->ret = prctl(PR_GET_SECCOMP); break;
    case 40: TRY(allow[0]); seen->ret = prctl(PR_GET_SECCOMP); break;
    case 41: TRY(allow[0]); seen->ret = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), seen->err = errno; break;
    case 42: {
        uint32_t trap = SECCOMP_RET_TRAP;
        seen->ret = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap);
        break;
    }
    case 43: {
        struct seccomp_notif_sizes sizes = { 0 };
        seen->ret = syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
        seen->second = sizes.seccomp_notif;
        break;
    }
    // At the end of a page, and beyond.
    case 44: case 45: {
        munmap(pages + 8192, 4096);
        struct sock_filter *last = (void *)(pages + 8192 - 8 * 600);
        for (int index = 0; index < 600; index++) last[index] = allow[0];
        try(last, arguments[0] == 44 ? 600 : 601, 0);
        break;
    }
    case 46: try(much, 3900, 0); break;
    // Many actions.
    case 47: {
        for (int index = 0; index < 3000; index += 2) {
            much[index] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 100000 + index, 0, 1);
            much[index + 1] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | (index & 127));
        }
        try(much, 3001, 0);
        break;
    }
    }
}
enum { SHAPES = 48 };

static void shape_cases(void) {
    char name[80];
    for (int privileges = 0; privileges < 3; privileges++)
        for (int index = 0; index < SHAPES; index++) {
            snprintf(name, sizeof name, "shape_%d_%d", index, privileges);
            run(name, shape, (int[]){ index, privileges });
        }
}

// Strict mode.
static void strict(const int *arguments) {
    if (arguments[1] ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
                     : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) {
        seen->err = errno;
        return;
    }
    seen->second = syscall(SYS_write, 1, "", 0);
    raise(0);
    seen->second = 7;
    syscall(SYS_exit, 3);
}

static void strictly(const int *arguments) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) abort();
    char byte;
    seen->second = syscall(SYS_write, -1, &byte, 1);
    switch (arguments[0]) {
    case 0: syscall(SYS_exit, 3); break;
    case 1: syscall(SYS_exit_group, 3); break;
    case 2: syscall(SYS_getppid); break;
    case 3: make(0); break;
    case 4: make(1); break;
    case 5: make(5); break;
    case 6: prctl(PR_GET_SECCOMP); break;
    case 7: syscall(SYS_clone3, NULL, 0); break;
    case 8: syscall(SYS_read, -1, &byte, 1), syscall(SYS_exit, 4); break;
    }
}

static void *strict_thread(void *argument) {
    (void)argument;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) abort();
    make(0);
    return NULL;
}

// Only the thread ends.
static void strict_in_thread(const int *arguments) {
    (void)arguments;
    pthread_t thread;
    pthread_create(&thread, NULL, strict_thread, NULL);
    pthread_join(thread, NULL);
    seen->second = make(3);
}

static void strict_cases(void) {
    char name[80];
    for (int index = 0; index < 9; index++) {
        snprintf(name, sizeof name, "strict_%d", index);
        run(name, strictly, (int[]){ index });
    }
    run("strict_by_prctl", strict, (int[]){ 0, 0 });
    run("strict_by_seccomp", strict, (int[]){ 0, 1 });
    run("strict_in_thread", strict_in_thread, (int[]){ 0 });
}

// A filter on one thread; then one for all, which that thread cannot have.
static void *with_own_filter(void *argument) {
    if (install(by_seccomp, 0, 0, 3, SECCOMP_RET_ERRNO | EXDEV)) abort();
    __atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
    pause();
    return NULL;
}

static void diverged(const int *arguments) {
    no_new_privileges();
    int is_there = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, with_own_filter, &is_there);
    while (!__atomic_load_n(&is_there, __ATOMIC_ACQUIRE)) sched_yield();
    try(allow, 1, SECCOMP_FILTER_FLAG_TSYNC | (arguments[0] ? 1 << 4 : 0)); // TSYNC_ESRCH
    seen->second = prctl(PR_GET_SECCOMP);
}

// A filter in a grandchild, also after a vfork.
static void inherited(const int *arguments) {
    no_new_privileges();
    if (install(by_prctl, 0, 0, 0, SECCOMP_RET_ERRNO | EXDEV)) abort();
    pid_t child = arguments[0] ? vfork() : fork();
    if (!child) {
        seen->ret = make(0);
        seen->err = errno;
        _exit(prctl(PR_GET_SECCOMP));
    }
    int status;
    waitpid(child, &status, 0);
    seen->second = status;
}

// A call that traps only after an option is set: before or after the filter is installed.
static void late(const int *arguments) {
    no_new_privileges();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) abort();
    struct timeval limit = { 0, 1000 };
    struct sock_filter filter[] = {
        LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvfrom, 0, 1),
        RETURN(verdicts[arguments[1]].action), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { LENGTH(filter), filter };
    if (arguments[0] == 1 && by_seccomp(&program, 0)) abort();
    if (setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) abort();
    if (arguments[0] == 0 && by_seccomp(&program, 0)) abort();
    char byte;
    if (arguments[2] && send(ends[1], "a", 1, 0) + send(ends[1], "b", 1, 0) != 2) abort();
    seen->ret = syscall(SYS_recvfrom, ends[0], &byte, 1, 0, NULL, NULL);
    seen->err = seen->ret < 0 ? errno : 0;
    if (seen->trapped) seen->ret = -1000;
    seen->second = arguments[2] && seen->ret == 1 ? byte : make(0);
}

static void other_cases(void) {
    char name[80];
    run("diverged", diverged, (int[]){ 0 });
    run("diverged_esrch", diverged, (int[]){ 1 });
    run("inherited", inherited, (int[]){ 0 });
    run("inherited_vfork", inherited, (int[]){ 1 });
    for (int order = 0; order < 2; order++)
        for (int verdict = 0; verdict < LENGTH(verdicts); verdict++) {
            snprintf(name, sizeof name, "late_%d_%s", order, verdicts[verdict].name);
            run(name, late, (int[]){ order, verdict, 0 });
            snprintf(name, sizeof name, "late_message_%d_%s", order, verdicts[verdict].name);
            run(name, late, (int[]){ order, verdict, 1 });
        }
}

// Random filters on four of the calls: arithmetic, memory, jumps and several ends.
static uint64_t state;
static uint32_t chance(uint32_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 20) % below;
}

static struct sock_filter any_step(int rest) {
    static const unsigned short arithmetic[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR };
    static const unsigned short tests[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
    static const uint32_t values[] = { 0, 1, 2, 0xff, 0xffff, SYS_ioctl, SYS_nanosleep, 0xffffffff };
    uint32_t value = values[chance(8)];
    unsigned short by = chance(3) ? BPF_K : BPF_X;
    switch (chance(9)) {
    case 0: return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, chance(2) * 4);
    case 1: return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 40 + 4 * chance(6));
    case 2: return (struct sock_filter)BPF_STMT(BPF_ALU | by | arithmetic[chance(6)], value);
    case 3: return (struct sock_filter)BPF_STMT(chance(2) ? BPF_ST : BPF_STX, chance(2));
    case 4: return (struct sock_filter)BPF_STMT((chance(2) ? BPF_LD : BPF_LDX) | BPF_MEM, chance(2));
    case 5: return (struct sock_filter)BPF_STMT(BPF_MISC | (chance(2) ? BPF_TAX : BPF_TXA), 0);
    case 6: return (struct sock_filter)BPF_STMT((chance(2) ? BPF_LD : BPF_LDX) | BPF_W | BPF_LEN, 0);
    case 7: return (struct sock_filter)RETURN(verdicts[chance(LENGTH(verdicts))].action);
    default:
        return (struct sock_filter)BPF_JUMP(BPF_JMP | by | tests[chance(4)], value,
                                            chance(rest < 200 ? rest : 200), chance(rest < 9 ? rest : 9));
    }
}

static void by_chance(const int *arguments) {
    state = 0x9e3779b97f4a7c15u * (arguments[0] + 1);
    no_new_privileges();
    struct sock_filter filter[400] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setitimer, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_ST, 0), BPF_STMT(BPF_STX, 1),
    };
    int length = 20 + chance(360);
    for (int index = 8; index < length - 1; index++) filter[index] = any_step(length - 1 - index);
    filter[length - 1] = chance(2) ? (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0)
                                   : (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    struct sock_fprog program = { length, filter };
    if ((seen->ret = by_seccomp(&program, 0))) return;
    judge(arguments[1]);
}

static void chance_cases(void) {
    char name[80];
    for (int seed = 0; seed < 250; seed++)
        for (int call = 0; call < 4; call++) {
            snprintf(name, sizeof name, "chance_%d_%s", seed, calls[call].name);
            run(name, by_chance, (int[]){ seed, call });
        }
}

int main(int count, char **arguments) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *which = count > 1 ? arguments[1] : "";
    if (!strcmp(which, "verdicts")) verdict_cases();
    if (!strcmp(which, "stacked")) stacked_cases();
    if (!strcmp(which, "shapes")) shape_cases();
    if (!strcmp(which, "strict")) strict_cases();
    if (!strcmp(which, "others")) other_cases();
    if (!strcmp(which, "chance")) chance_cases();
    return 0;
}
