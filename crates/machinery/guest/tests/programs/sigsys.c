// A program's own SIGSYS: its action, mask and pending signals, and its death by one.
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>

static volatile sig_atomic_t handled, number, told, code, value, blocked_inside, on_stack, by_self;
static char *stack_memory;
enum { STACK = 65536 };
static int is_blocked(int signal) {
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, signal);
}
static int is_pending(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}
static void count(int signal, siginfo_t *information, void *context) {
    (void)context;
    char here;
    handled++;
    number = signal;
    told = information->si_signo;
    code = information->si_code;
    value = information->si_value.sival_int;
    by_self = information->si_pid == getpid();
    blocked_inside = is_blocked(SIGSYS);
    on_stack = stack_memory && &here >= stack_memory && &here < stack_memory + STACK;
}
static void install(int flags) {
    struct sigaction action = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | flags };
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSYS, &action, NULL) != 0) _exit(96);
}
static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
static void block(int how, int signal) {
    sigset_t set = only(signal);
    if (signal == SIGKILL) sigfillset(&set); // stands for all
    if (sigprocmask(how, &set, NULL) != 0) _exit(96);
}
static void saw(struct outcome *out) {
    note(out, "handled=%d,number=%d,told=%d,code=%d,blocked=%d,after=%d", handled, number, told, code, blocked_inside,
        is_blocked(SIGSYS));
    out->want_ns = 0;
}

static long run_raised(struct outcome *out) { install(0); raise(SIGSYS); saw(out); return by_self; }
static long run_killed(struct outcome *out) { install(0); kill(getpid(), SIGSYS); saw(out); return by_self; }
static long run_queued(struct outcome *out) {
    install(0);
    sigqueue(getpid(), SIGSYS, (union sigval){ .sival_int = 4711 });
    saw(out);
    return value;
}
static long run_not_deferred(struct outcome *out) { install(SA_NODEFER); raise(SIGSYS); saw(out); return 0; }
static long run_on_stack(struct outcome *out) {
    stack_memory = malloc(STACK);
    stack_t stack = { .ss_sp = stack_memory, .ss_size = STACK };
    sigaltstack(&stack, NULL);
    install(SA_ONSTACK);
    raise(SIGSYS);
    int first = on_stack;
    install(0);
    raise(SIGSYS);
    out->want_ns = 0;
    note(out, "first=%d,second=%d", first, on_stack);
    return handled;
}
static void plain(int signal) { handled += signal == SIGSYS; }
static long run_plain_handler(struct outcome *out) {
    signal(SIGSYS, plain);
    raise(SIGSYS);
    raise(SIGSYS);
    out->want_ns = 0;
    return handled;
}

// The signal is sent to a thread and handled there.
static pthread_t thread_of_handler;
static void note_thread(int signal) { (void)signal; thread_of_handler = pthread_self(); handled++; }
static void *wait_for_it(void *argument) {
    (void)argument;
    while (!handled) sched_yield();
    return NULL;
}
static long run_to_a_thread(struct outcome *out) {
    signal(SIGSYS, note_thread);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_it, NULL);
    pthread_kill(thread, SIGSYS);
    pthread_join(thread, NULL);
    out->want_ns = 0;
    return pthread_equal(thread, thread_of_handler) != 0;
}
// The only thread that does not block the signal receives it, whichever thread the kernel tried
// first.
static long run_to_whom_it_is_let_in(struct outcome *out) {
    signal(SIGSYS, note_thread);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_it, NULL);
    block(SIG_BLOCK, SIGSYS);
    kill(getpid(), SIGSYS);
    pthread_join(thread, NULL);
    out->want_ns = 0;
    note(out, "pending=%d", is_pending(SIGSYS));
    return pthread_equal(thread, thread_of_handler) != 0;
}

// Actions are read back as they were set.
static long run_actions(struct outcome *out) {
    struct sigaction old, none = { .sa_handler = SIG_IGN }, set = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER };
    sigaction(SIGSYS, NULL, &old);
    int first = old.sa_handler == SIG_DFL;
    sigemptyset(&set.sa_mask);
    sigaddset(&set.sa_mask, SIGUSR1);
    sigaddset(&set.sa_mask, SIGSYS);
    sigaction(SIGSYS, &set, &old);
    int second = old.sa_handler == SIG_DFL;
    sigaction(SIGSYS, NULL, &old);
    int same = old.sa_sigaction == count && sigismember(&old.sa_mask, SIGUSR1) && sigismember(&old.sa_mask, SIGSYS)
        && !sigismember(&old.sa_mask, SIGUSR2);
    int flags = old.sa_flags & ~0x04000000;
    sigaction(SIGSYS, &none, &old);
    same = same && old.sa_sigaction == count;
    set.sa_flags = SA_RESETHAND | SA_ONSTACK;
    sigaction(SIGSYS, &set, &old);
    int ignored = old.sa_handler == SIG_IGN;
    sigaction(SIGSYS, NULL, &old);
    struct sigaction other = { .sa_handler = plain }, back;
    other.sa_mask = only(SIGSYS);
    sigaction(SIGUSR1, &other, NULL);
    sigaction(SIGUSR1, NULL, &back);
    out->want_ns = 0;
    note(out, "%d,%d,%d,%x,%d,%x,%d", first, second, same, flags, ignored, old.sa_flags & ~0x04000000,
        sigismember(&back.sa_mask, SIGSYS));
    return 0;
}

// Returns the status of a process.
static int end_of(void (*act)(void)) {
    pid_t child = fork();
    if (child == 0) {
        act();
        _exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}
static void by_raise(void) { raise(SIGSYS); }
static void by_kill(void) { kill(getpid(), SIGSYS); rest_ns(10 * S); }
static void ignoring(void) { signal(SIGSYS, SIG_IGN); raise(SIGSYS); kill(getpid(), SIGSYS); }
static void once(void) { install(SA_RESETHAND); raise(SIGSYS); if (handled != 1) _exit(8); raise(SIGSYS); }
static void back_to_default(void) { install(0); signal(SIGSYS, SIG_DFL); raise(SIGSYS); }
static void when_let_in(void) { block(SIG_BLOCK, SIGSYS); raise(SIGSYS); if (!is_pending(SIGSYS)) _exit(8); block(SIG_UNBLOCK, SIGSYS); }
static void from_full_mask(void) {
    block(SIG_SETMASK, SIGKILL);
    raise(SIGSYS);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
static void ignored_while_pending(void) {
    block(SIG_BLOCK, SIGSYS);
    raise(SIGSYS);
    signal(SIGSYS, SIG_IGN);
    if (is_pending(SIGSYS)) _exit(8);
    signal(SIGSYS, SIG_DFL);
    block(SIG_UNBLOCK, SIGSYS);
}
static void in_a_suspend(void) {
    block(SIG_BLOCK, SIGSYS);
    raise(SIGSYS);
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
}
static void in_a_handler(void) { install(0); signal(SIGUSR1, SIG_DFL); by_raise(); raise(SIGUSR1); }
static long run_ends(struct outcome *out) {
    out->want_ns = 0;
    note(out, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", end_of(by_raise), end_of(by_kill), end_of(ignoring), end_of(once),
        end_of(back_to_default), end_of(when_let_in), end_of(from_full_mask), end_of(ignored_while_pending),
        end_of(in_a_suspend), end_of(in_a_handler));
    return 0;
}
// Killed by another process while it sleeps, computes, or reads.
static long ends_by_other(struct outcome *out, int what) {
    pid_t child = fork();
    if (child == 0) {
        int fds[2];
        char byte;
        if (pipe(fds) != 0) _exit(98);
        if (what == 0) rest_ns(FAR_NS);
        if (what == 1) for (;;) {}
        if (what == 2) _exit(read(fds[0], &byte, 1) < 0);
        _exit(9);
    }
    rest_ns(out->want_ns);
    kill(child, SIGSYS);
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}
static long run_ends_asleep(struct outcome *out) { return ends_by_other(out, 0); }
static long run_ends_at_work(struct outcome *out) { return ends_by_other(out, 1); }
static long run_ends_reading(struct outcome *out) { return ends_by_other(out, 2); }

// While the signal is blocked, it is pending and reported as pending.
static long run_blocked(struct outcome *out) {
    install(0);
    block(SIG_BLOCK, SIGSYS);
    int shown = is_blocked(SIGSYS), none = is_pending(SIGSYS);
    kill(getpid(), SIGSYS);
    int pending = is_pending(SIGSYS), before = handled;
    sigset_t old, set = only(SIGSYS);
    sigprocmask(SIG_UNBLOCK, &set, &old);
    out->want_ns = 0;
    note(out, "%d,%d,%d,%d,%d,%d,%d,%d,%d", shown, none, pending, before, handled, code, sigismember(&old, SIGSYS),
        is_blocked(SIGSYS), is_pending(SIGSYS));
    return 0;
}
static long run_full_mask(struct outcome *out) {
    block(SIG_SETMASK, SIGKILL);
    sigset_t now, old, none;
    sigprocmask(SIG_BLOCK, NULL, &now);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, &old);
    int shown = 0, told_back = 0, left = 0;
    for (int signal = 1; signal < 65; signal++) {
        shown += sigismember(&now, signal) == 1;
        told_back += sigismember(&old, signal) == 1;
    }
    sigprocmask(SIG_BLOCK, NULL, &now);
    for (int signal = 1; signal < 65; signal++) left += sigismember(&now, signal) == 1;
    out->want_ns = 0;
    note(out, "%d,%d,%d", shown, told_back, left);
    return 0;
}
// Blocked by another signal's handler.
static volatile sig_atomic_t within, shown_within;
static void raise_inside(int signal) {
    (void)signal;
    raise(SIGSYS);
    within = handled;
    shown_within = is_blocked(SIGSYS) + 2 * is_pending(SIGSYS);
}
static long run_held_back_by_a_handler(struct outcome *out) {
    install(0);
    struct sigaction action = { .sa_handler = raise_inside, .sa_mask = only(SIGSYS) };
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    out->want_ns = 0;
    note(out, "within=%d,after=%d,shown=%d", within, handled, shown_within);
    return 0;
}
static long run_waited_for(struct outcome *out) {
    block(SIG_BLOCK, SIGSYS);
    sigset_t set = only(SIGSYS);
    siginfo_t first, second;
    sigqueue(getpid(), SIGSYS, (union sigval){ .sival_int = 12 });
    int one = sigwaitinfo(&set, &first);
    signal_at(out->begun_ns + out->want_ns, SIGSYS);
    int two = sigwaitinfo(&set, &second);
    note(out, "%d,%d,%d,%d,%d,%d,%d", one, first.si_signo, first.si_code, first.si_value.sival_int, two, second.si_signo, second.si_code);
    return is_pending(SIGSYS);
}
// Unblocked by a wait's own mask: pending already, or sent meanwhile.
static long let_in_by_mask(struct outcome *out, int which, int later) {
    install(0);
    block(SIG_BLOCK, SIGSYS);
    if (later) {
        signal_at(out->begun_ns + out->want_ns, SIGSYS);
    } else {
        out->want_ns = 0;
        kill(getpid(), SIGSYS);
    }
    struct timespec wait = spec(FAR_NS);
    sigset_t none;
    sigemptyset(&none);
    long ret = which ? FAILS(ppoll(NULL, 0, &wait, &none)) : FAILS(sigsuspend(&none));
    note(out, "handled=%d,blocked=%d", handled, is_blocked(SIGSYS));
    return ret;
}
static long run_pending_sigsuspend(struct outcome *out) { return let_in_by_mask(out, 0, 0); }
static long run_pending_ppoll(struct outcome *out) { return let_in_by_mask(out, 1, 0); }
static long run_later_sigsuspend(struct outcome *out) { return let_in_by_mask(out, 0, 1); }
static long run_later_ppoll(struct outcome *out) { return let_in_by_mask(out, 1, 1); }

// Sent in the middle of a wait, which it ends long before its time, or does not end.
static long sleeps(struct outcome *out, int is_ended) {
    const volatile int *sent = signal_at(out->begun_ns + out->want_ns / 2, SIGSYS);
    struct timespec wait = spec(is_ended ? FAR_NS : out->want_ns), left = { 0, 0 };
    long ret = FAILS(nanosleep(&wait, &left));
    while (!*sent) rest_ns(MS); // it is late if the machine is busy
    note(out, "handled=%d,left=%d", handled == (is_ended ? *sent : 0), left.tv_sec > 0 || left.tv_nsec > 0);
    if (is_ended) out->want_ns /= 2;
    return ret;
}
static long run_sleep_ended(struct outcome *out) { install(0); return sleeps(out, 1); }
static long run_sleep_ended_restart(struct outcome *out) { install(SA_RESTART); return sleeps(out, 1); }
static long run_sleep_ignoring(struct outcome *out) { signal(SIGSYS, SIG_IGN); return sleeps(out, 0); }
static long run_sleep_blocking(struct outcome *out) { install(0); block(SIG_BLOCK, SIGSYS); return sleeps(out, 0); }
static long reads(struct outcome *out, int is_ended) {
    int fds[2];
    char byte;
    if (pipe(fds) != 0) _exit(98);
    pid_t me = getpid();
    const volatile int *sent = NULL;
    if (is_ended) sent = signal_at(out->begun_ns + out->want_ns, SIGSYS);
    else AFTER(out, kill(me, SIGSYS); if (write(fds[1], "x", 1) != 1) _exit(97));
    long ret = FAILS(read(fds[0], &byte, 1));
    note(out, "handled=%d", sent ? handled == *sent : handled);
    return ret;
}
static long run_read_ended(struct outcome *out) { install(0); return reads(out, 1); }
static long run_read_restarted(struct outcome *out) { install(SA_RESTART); return reads(out, 0); }
static long run_read_ignoring(struct outcome *out) { signal(SIGSYS, SIG_IGN); return reads(out, 0); }
// The handler itself sleeps and reads clocks.
static struct outcome *current;
static volatile int64_t slept;
static void sleeping_handler(int signal) {
    (void)signal;
    int64_t before = mono_ns();
    struct timespec wait = spec(current->want_ns / 2);
    nanosleep(&wait, NULL);
    slept = mono_ns() - before;
    handled++;
}
static long run_handler_sleeps(struct outcome *out) {
    current = out;
    signal(SIGSYS, sleeping_handler);
    raise(SIGSYS);
    note(out, "handled=%d,slept=%d", handled, slept >= out->want_ns / 2);
    out->want_ns /= 2;
    return 0;
}
static sigjmp_buf landing;
static void jump(int signal) { siglongjmp(landing, signal); }
static long run_left_by_a_jump(struct outcome *out) {
    signal(SIGSYS, jump);
    for (volatile int turn = 0; turn < 3; turn++) {
        if (sigsetjmp(landing, 1) == 0) raise(SIGSYS); else handled++;
    }
    struct timespec wait = spec(out->want_ns);
    long ret = FAILS(nanosleep(&wait, NULL));
    note(out, "handled=%d,blocked=%d", handled, is_blocked(SIGSYS));
    return ret;
}

// The action and the mask are inherited through fork and exec.
static long run_inherited_by_fork(struct outcome *out) {
    install(0);
    block(SIG_BLOCK, SIGSYS);
    raise(SIGSYS);
    out->want_ns = 0;
    int status;
    pid_t child = fork();
    if (child == 0) {
        int pending = is_pending(SIGSYS), shown = is_blocked(SIGSYS);
        block(SIG_UNBLOCK, SIGSYS);
        raise(SIGSYS);
        _exit(pending + 2 * shown + 4 * handled);
    }
    waitpid(child, &status, 0);
    note(out, "status=%x,pending=%d", status, is_pending(SIGSYS));
    return 0;
}
static long over_exec(struct outcome *out, void (*prepare)(void)) {
    out->want_ns = 0;
    pid_t child = fork();
    if (child == 0) {
        prepare();
        execl("/proc/self/exe", "sigsys", "show", NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}
static void ignored(void) { signal(SIGSYS, SIG_IGN); }
static void caught(void) { install(0); }
static void blocking(void) { block(SIG_BLOCK, SIGSYS); }
static void waiting(void) { install(0); block(SIG_BLOCK, SIGSYS); raise(SIGSYS); }
static void nothing(void) {}
static long run_over_exec(struct outcome *out) {
    note(out, "%ld,%ld,%ld,%ld,%ld", over_exec(out, ignored), over_exec(out, caught), over_exec(out, blocking),
        over_exec(out, waiting), over_exec(out, nothing));
    return 0;
}
static int show(void) {
    struct sigaction action;
    sigaction(SIGSYS, NULL, &action);
    int is_ignored = action.sa_handler == SIG_IGN, is_default = action.sa_handler == SIG_DFL;
    // Named, so that tests for its name find it.
    sigset_t set = only(SIGSYS), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int status = is_ignored + 2 * is_default + 4 * sigismember(&old, SIGSYS) + 8 * is_pending(SIGSYS);
    if (status == 6 || status == 1) {
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(SIGSYS); // fatal, or not
    }
    return status;
}

// The program's own filter, whose trap is answered by its own handler.
static void answer(int signal, siginfo_t *information, void *context) {
    count(signal, information, context);
    ucontext_t *interrupted = context;
    value = information->si_syscall;
#ifdef __x86_64__
    interrupted->uc_mcontext.gregs[REG_RAX] = 4711;
#else
    interrupted->uc_mcontext.regs[0] = 4711;
#endif
}
static int trap_getsid(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 99),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof program / sizeof program[0], program };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}
static long run_own_filter(struct outcome *out) {
    struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO };
    sigaction(SIGSYS, &action, NULL);
    int installed = trap_getsid();
    long first = syscall(SYS_getsid, 0), second = syscall(SYS_getsid, 0);
    note(out, "%d,%ld,%ld,%d,%d,%d", installed, first, second, handled, code, value == SYS_getsid);
    struct timespec wait = spec(out->want_ns);
    return FAILS(nanosleep(&wait, NULL));
}
static void filter_without_handler(void) { trap_getsid(); syscall(SYS_getsid, 0); }
static void filter_while_blocked(void) { install(0); block(SIG_BLOCK, SIGSYS); trap_getsid(); syscall(SYS_getsid, 0); }
static void filter_while_ignored(void) { signal(SIGSYS, SIG_IGN); trap_getsid(); syscall(SYS_getsid, 0); }
static long run_own_filter_ends(struct outcome *out) {
    out->want_ns = 0;
    note(out, "%d,%d,%d", end_of(filter_without_handler), end_of(filter_while_blocked), end_of(filter_while_ignored));
    return 0;
}

static const struct test_case cases[] = {
    CASE(raised), CASE(killed), CASE(queued), CASE(not_deferred), CASE(on_stack), CASE(plain_handler), CASE(to_a_thread),
    CASE(to_whom_it_is_let_in), CASE(actions), CASE(ends), CASE(ends_asleep), CASE(ends_at_work), CASE(ends_reading),
    CASE(blocked), CASE(full_mask), CASE(held_back_by_a_handler), CASE(waited_for), CASE(pending_sigsuspend),
    CASE(pending_ppoll), CASE(later_sigsuspend), CASE(later_ppoll), CASE(sleep_ended), CASE(sleep_ended_restart),
    CASE(sleep_ignoring), CASE(sleep_blocking), CASE(read_ended), CASE(read_restarted), CASE(read_ignoring),
    CASE(handler_sleeps), CASE(left_by_a_jump), CASE(inherited_by_fork), CASE(over_exec), CASE(own_filter),
    CASE(own_filter_ends),
};

// Prints the nanoseconds per call, the minimum of some rounds. The last kind makes more calls trap.
static void cost(void) {
    uint64_t one = 1ull << (SIGUSR1 - 1), all = ~0ull, full = ~(3ull << 31), old;
    struct { const char *name; uint64_t *set; } kinds[] = { { "query", NULL }, { "one", &one }, { "all", &all }, { "full", &full }, { "query_then", NULL } };
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        int64_t least = INT64_MAX;
        for (int round = 0; round < 20; round++) {
            int64_t begun = mono_ns();
            for (int i = 0; i < 1000; i++) {
                syscall(SYS_rt_sigprocmask, SIG_BLOCK, kinds[kind].set, &old, 8);
                if (kinds[kind].set) syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, kinds[kind].set, &old, 8);
            }
            int64_t each = (mono_ns() - begun) / (kinds[kind].set ? 2000 : 1000);
            if (each < least) least = each;
        }
        say("%s=%lld ns\n", kinds[kind].name, (long long)least);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "cost") == 0) return cost(), 0;
    if (argc == 2 && strcmp(argv[1], "show") == 0) return show();
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
