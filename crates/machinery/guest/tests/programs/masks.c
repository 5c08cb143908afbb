// Programs that block, mask or handle signals, SIGSYS among them, and programs
// with a signal stack of their own.
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <ucontext.h>

static volatile sig_atomic_t handled;
static void count(int signal) { (void)signal; handled++; }

static void install(int signal, void (*handler)(int), int flags) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigfillset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0) _exit(96);
}
static void block(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    if (signal == 0) sigfillset(&set); else sigaddset(&set, signal);
    if (sigprocmask(how, &set, NULL) != 0) _exit(96);
}
static long sleep_some(struct outcome *out, int64_t ns) {
    struct timespec wait = spec(ns);
    return FAILS(nanosleep(&wait, NULL));
}

// Blocked signals stay pending, also while the program sleeps; they are delivered when unblocked.
static long run_all_blocked(struct outcome *out) {
    install(SIGUSR1, count, 0);
    block(SIG_SETMASK, 0);
    kill(getpid(), SIGUSR1);
    long ret = sleep_some(out, out->want_ns);
    int before = handled;
    sigset_t mask, pending;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    int blocked = sigismember(&mask, SIGUSR1), waiting = sigismember(&pending, SIGUSR1);
    block(SIG_UNBLOCK, SIGUSR1);
    note(out, "before=%d,after=%d,blocked=%d,pending=%d", before, handled, blocked, waiting);
    return ret;
}
// A thread blocks the signals in its own mask.
static void *blocked_thread(void *argument) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return (void *)sleep_some(argument, ((struct outcome *)argument)->want_ns);
}
static long run_all_blocked_in_thread(struct outcome *out) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, blocked_thread, out);
    pthread_join(thread, &result);
    return (long)result;
}
// The mask survives being read, changed and set back.
static long run_mask_arithmetic(struct outcome *out) {
    sigset_t old, now;
    block(SIG_SETMASK, SIGUSR2);
    block(SIG_BLOCK, SIGUSR1);
    block(SIG_UNBLOCK, SIGUSR2);
    sigprocmask(SIG_BLOCK, NULL, &now);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_SETMASK, &set, &old);
    sigprocmask(SIG_SETMASK, &old, &set);
    out->want_ns = 0;
    note(out, "now=%lx,old=%lx,set=%lx", *(long *)&now, *(long *)&old, *(long *)&set);
    return 0;
}
// A pending signal that only the wait's own mask lets in: EINTR at once.
static long masked_wait(struct outcome *out, int which) {
    install(SIGUSR1, count, 0);
    block(SIG_BLOCK, SIGUSR1);
    kill(getpid(), SIGUSR1);
    struct timespec wait = spec(FAR_NS);
    struct epoll_event got;
    sigset_t none;
    sigemptyset(&none);
    long ret;
    switch (which) {
    case 0: ret = FAILS(ppoll(NULL, 0, &wait, &none)); break;
    case 1: ret = FAILS(pselect(0, NULL, NULL, NULL, &wait, &none)); break;
    case 2: ret = FAILS(epoll_pwait(epoll_create1(0), &got, 1, FAR_MS, &none)); break;
    case 3: ret = FAILS(epoll_pwait(epoll_create1(0), &got, 1, -1, &none)); break;
    case 4: ret = FAILS(syscall(SYS_epoll_pwait2, epoll_create1(0), &got, 1, &wait, &none, 8)); break;
    default: ret = FAILS(sigsuspend(&none));
    }
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    note(out, "handled=%d,blocked=%d", handled, sigismember(&mask, SIGUSR1));
    out->want_ns = 0;
    return ret;
}
static long run_pending_ppoll(struct outcome *out) { return masked_wait(out, 0); }
static long run_pending_pselect(struct outcome *out) { return masked_wait(out, 1); }
static long run_pending_epoll_pwait(struct outcome *out) { return masked_wait(out, 2); }
static long run_pending_epoll_endless(struct outcome *out) { return masked_wait(out, 3); }
static long run_pending_epoll_pwait2(struct outcome *out) { return masked_wait(out, 4); }
static long run_pending_sigsuspend(struct outcome *out) { return masked_wait(out, 5); }

// Waiting for a signal with everything blocked, SIGSYS too.
static long run_sigsuspend(struct outcome *out) {
    install(SIGUSR1, count, 0);
    block(SIG_SETMASK, 0);
    const volatile int *sent = signal_at(out->begun_ns + out->want_ns, SIGUSR1);
    sigset_t rest;
    sigfillset(&rest);
    sigdelset(&rest, SIGUSR1);
    long ret = FAILS(sigsuspend(&rest));
    note(out, "handled=%d", handled == *sent);
    return ret;
}
// The wait's mask contains all signals: one sent meanwhile stays pending. If it came after the
// wait, once more.
static long run_fillset_during_wait(struct outcome *out) {
    install(SIGUSR1, count, 0);
    const volatile int *sent = signal_at(out->begun_ns + out->want_ns / 2, SIGUSR1);
    sigset_t all;
    sigfillset(&all);
    struct timespec wait = spec(out->want_ns);
    long ret = 0;
    while (handled == 0 && ret == 0) ret = FAILS(ppoll(NULL, 0, &wait, &all));
    note(out, "handled=%d", handled == *sent); // on return the old mask lets it in
    return ret;
}
// A handler whose own mask is full sleeps and reads clocks; so does a nested one.
static volatile int64_t slept;
static struct outcome *current;
static void sleeping_handler(int signal) {
    (void)signal;
    int64_t before = mono_ns();
    struct timespec wait = spec(current->want_ns / 4);
    nanosleep(&wait, NULL);
    slept = mono_ns() - before;
    handled++;
}
static long run_handler_sleeps(struct outcome *out) {
    current = out;
    install(SIGUSR1, sleeping_handler, 0);
    const volatile int *sent = signal_at(out->begun_ns + out->want_ns, SIGUSR1);
    long ret = sleep_some(out, FAR_NS);
    note(out, "handled=%d,slept=%d", handled == *sent, slept >= out->want_ns / 4);
    out->want_ns += out->want_ns / 4;
    return ret;
}
// The program's own handler for SIGSYS, which must not break the waits.
static long run_own_sigsys_handler(struct outcome *out) {
    install(SIGSYS, count, SA_RESTART);
    long first = sleep_some(out, out->want_ns / 2);
    signal(SIGSYS, SIG_IGN);
    long second = sleep_some(out, out->want_ns / 2);
    signal(SIGSYS, SIG_DFL);
    struct sigaction other = { .sa_handler = count }, old;
    long set = sigaction(SIGUSR2, &other, &old);
    long third = sleep_some(out, 1);
    note(out, "handled=%d,set=%ld,old=%d", handled, set, old.sa_handler == SIG_DFL);
    return first + second + third;
}
// Every action reset, as a shell does before it runs a command.
static long run_all_actions_reset(struct outcome *out) {
    int refused = 0;
    for (int number = 1; number < 65; number++) {
        struct sigaction action = { .sa_handler = SIG_DFL };
        refused += sigaction(number, &action, NULL) != 0;
    }
    block(SIG_SETMASK, 0);
    block(SIG_UNBLOCK, 0);
    long ret = sleep_some(out, out->want_ns);
    note(out, "refused=%d", refused);
    return ret;
}

// A signal stack of 8 KiB (SIGSTKSZ as programs compiled it in), except on ARM, where two signals
// do not fit onto that.
static long with_stack(struct outcome *out, size_t size, int flags) {
    char *memory = malloc(size);
    stack_t stack = { .ss_sp = memory, .ss_size = size, .ss_flags = flags }, after;
    if (sigaltstack(&stack, NULL) != 0) return FAILS(-1);
    install(SIGUSR1, count, SA_ONSTACK);
    const volatile int *sent = signal_at(out->begun_ns + out->want_ns, SIGUSR1);
    long ret = sleep_some(out, FAR_NS);
    sigaltstack(NULL, &after);
    note(out, "handled=%d,kept=%d,flags=%d", handled == *sent, after.ss_sp == memory, after.ss_flags);
    return ret;
}
#ifndef __aarch64__
static long run_stack_8k(struct outcome *out) { return with_stack(out, 8192, 0); }
#endif
static long run_stack_64k(struct outcome *out) { return with_stack(out, 65536, 0); }
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1 << 31)
#endif
static long run_stack_autodisarm(struct outcome *out) { return with_stack(out, 65536, SS_AUTODISARM); }

// Handlers that make calls which trap, on stacks of the sizes that programs have compiled in, with
// nothing below: on ARM glibc's SIGSTKSZ, and musl's.
static void rest_and_count(int signal) {
    (void)signal;
    struct timespec no_time = { 0, 1000 };
    fd_set none;
    FD_ZERO(&none);
    nanosleep(&no_time, NULL);
    pselect(0, &none, NULL, NULL, &no_time, NULL);
    handled++;
}
static long rests_on_stack(struct outcome *out, size_t size) {
    size_t page = 4096, whole = (size + page - 1) / page * page;
    char *memory = mmap(NULL, page + whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, page, PROT_NONE);
    stack_t stack = { .ss_sp = memory + page, .ss_size = size };
    if (sigaltstack(&stack, NULL) != 0) return FAILS(-1);
    out->want_ns = 0;
    install(SIGUSR1, rest_and_count, SA_ONSTACK);
    raise(SIGUSR1);
    note(out, "handled=%d", handled);
    return 0;
}
static long run_rests_on_12k(struct outcome *out) { return rests_on_stack(out, 12288); }
static long run_rests_on_16k(struct outcome *out) { return rests_on_stack(out, 16384); }
#ifdef __aarch64__
// The minimum stated by the kernel, and a little for the handler itself.
static long run_rests_on_least(struct outcome *out) { return rests_on_stack(out, getauxval(AT_MINSIGSTKSZ) + 1024); }
#endif

// A mask that the handler leaves in its frame, for the interrupted code.
static sigset_t left;
static void leave_mask(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    memcpy(&((ucontext_t *)context)->uc_sigmask, &left, 8);
    handled++;
}
static void leaves(int signal, int flags) {
    struct sigaction action = { .sa_sigaction = leave_mask, .sa_flags = SA_SIGINFO | flags };
    if (sigaction(signal, &action, NULL) != 0) _exit(96);
}
// Sleeps under the mask in force, and records it. (SIGSTKFLT stands for SIGSYS.)
static long sleep_and_note(struct outcome *out, int64_t ns) {
    sigset_t mask;
    long ret = sleep_some(out, ns);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    note(out, "handled=%d,term=%d,usr2=%d,segv=%d", handled, sigismember(&mask, SIGTERM),
        sigismember(&mask, SIGUSR2), sigismember(&mask, SIGSEGV));
    return ret;
}
static long run_leaves_all_blocked(struct outcome *out) {
    memset(&left, 0xff, sizeof left);
    leaves(SIGUSR1, 0);
    raise(SIGUSR1);
    return sleep_and_note(out, out->want_ns);
}
static long run_leaves_sigsys_blocked(struct outcome *out) {
    sigemptyset(&left);
    sigaddset(&left, SIGSYS);
    sigaddset(&left, SIGUSR2);
    leaves(SIGUSR1, SA_RESETHAND | SA_NODEFER);
    raise(SIGUSR1);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    int is_blocked = sigismember(&mask, SIGSYS);
    kill(getpid(), SIGSYS);
    long ret = sleep_and_note(out, out->want_ns);
    note(out, "%s", is_blocked ? "blocked" : "open");
    return ret;
}
// SIGSEGV and SIGSYS enter the program's own handlers by other paths.
static long run_kept_handlers_leave_all_blocked(struct outcome *out) {
    memset(&left, 0xff, sizeof left);
    leaves(SIGSEGV, 0);
    raise(SIGSEGV);
    long ret = sleep_some(out, out->want_ns / 2);
    block(SIG_UNBLOCK, 0);
    leaves(SIGSYS, 0);
    raise(SIGSYS);
    return ret + sleep_and_note(out, out->want_ns / 2);
}
// On an alternate stack, as used by crash handlers.
static long run_leaves_all_blocked_on_stack(struct outcome *out) {
    stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
    sigaltstack(&stack, NULL);
    memset(&left, 0xff, sizeof left);
    leaves(SIGUSR1, SA_ONSTACK);
    raise(SIGUSR1);
    return sleep_and_note(out, out->want_ns);
}
// The handler interrupts a wait, and leaves the mask to it all the same.
static long leaves_in_wait(struct outcome *out, int which) {
    sigemptyset(&left);
    sigaddset(&left, SIGUSR2);
    sigset_t none;
    sigemptyset(&none);
    leaves(SIGUSR1, 0);
    signal_at(out->begun_ns + out->want_ns / 2, SIGUSR1);
    struct timespec wait = spec(FAR_NS);
    long ret = 0;
    switch (which) {
    case 0: ret = FAILS(nanosleep(&wait, NULL)); break;
    case 1: ret = FAILS(ppoll(NULL, 0, &wait, &none)); break;
    default: ret = FAILS(sigsuspend(&none));
    }
    int err = out->err;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    int usr1 = sigismember(&mask, SIGUSR1), usr2 = sigismember(&mask, SIGUSR2);
    out->want_ns /= 2;
    out->err = err;
    note(out, "usr1=%d,usr2=%d", usr1, usr2);
    return ret;
}
static long run_leaves_in_sleep(struct outcome *out) { return leaves_in_wait(out, 0); }
static long run_leaves_in_ppoll(struct outcome *out) { return leaves_in_wait(out, 1); }
static long run_leaves_in_sigsuspend(struct outcome *out) { return leaves_in_wait(out, 2); }

#ifdef __x86_64__
// Frames left by the program's own `rt_sigreturn`: in its restorer, and directly in the handler, as
// unwinders and checkpoint tools do.
__attribute__((naked)) static void own_restorer(void) { __asm__("mov $15, %eax\n syscall"); }
static void return_at_once(int signal, siginfo_t *info, void *context) {
    leave_mask(signal, info, context);
    __asm__ volatile("mov %0, %%rsp\n mov %1, %%eax\n syscall" : : "r"(context), "i"(SYS_rt_sigreturn));
    __builtin_unreachable();
}
static long returns_by(struct outcome *out, void (*handler)(int, siginfo_t *, void *)) {
    struct { void *handler; long flags; void *restorer; long mask; } action =
        { handler, SA_SIGINFO | 0x04000000, own_restorer, 0 };
    if (syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8) != 0) return FAILS(-1);
    memset(&left, 0xff, sizeof left);
    raise(SIGUSR1);
    return sleep_and_note(out, out->want_ns);
}
static long run_own_restorer(struct outcome *out) { return returns_by(out, leave_mask); }
static long run_own_return(struct outcome *out) { return returns_by(out, return_at_once); }
#endif

#ifdef __GLIBC__ // (musl has none.)
// Contexts that are entered with their masks.
static ucontext_t here, there;
static long of_there;
static void sleep_there(void) { of_there = sleep_and_note(current, current->want_ns); }
static long run_switched_context(struct outcome *out) {
    current = out;
    getcontext(&there);
    there.uc_stack = (stack_t){ .ss_sp = malloc(65536), .ss_size = 65536 };
    there.uc_link = &here;
    sigfillset(&there.uc_sigmask);
    makecontext(&there, sleep_there, 0);
    swapcontext(&here, &there);
    return of_there;
}
#endif
// Started with all signals blocked.
static long run_spawned_all_blocked(struct outcome *out) {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all;
    memset(&all, 0xff, sizeof all);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char seconds[32], *argv[] = { "sleep", seconds, NULL };
    snprintf(seconds, sizeof seconds, "%lld.%09lld", (long long)(out->want_ns / S), (long long)(out->want_ns % S));
    pid_t pid;
    int status = -1;
    long ret = posix_spawnp(&pid, "sleep", NULL, &attributes, argv, NULL);
    waitpid(pid, &status, 0);
    note(out, "status=%d", status);
    return ret;
}
// A tracer sets the mask, and reads it.
static long run_mask_by_tracer(struct outcome *out) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        long ret = sleep_some(out, out->want_ns);
        _exit(ret == 0 ? 0 : 1);
    }
    int status = -1;
    uint64_t mask = ~0ull, read = 0;
    waitpid(child, &status, 0);
    long set = ptrace(PTRACE_SETSIGMASK, child, 8, &mask);
    long got = ptrace(PTRACE_GETSIGMASK, child, 8, &read);
    long bad = ptrace(PTRACE_SETSIGMASK, child, 4, &mask);
    int err = errno;
    // A tracer sees the signals of trapped calls, and passes them on like any other.
    for (long signal = 0; WIFSTOPPED(status); signal = WSTOPSIG(status)) {
        ptrace(PTRACE_CONT, child, NULL, signal);
        waitpid(child, &status, 0);
    }
    note(out, "set=%ld,got=%ld,read=%lx,bad=%ld,err=%d,status=%d", set, got, read, bad, err, status);
    return 0;
}

static const struct test_case cases[] = {
    CASE(leaves_all_blocked), CASE(leaves_sigsys_blocked), CASE(kept_handlers_leave_all_blocked),
    CASE(leaves_all_blocked_on_stack), CASE(leaves_in_sleep), CASE(leaves_in_ppoll),
    CASE(leaves_in_sigsuspend), CASE(spawned_all_blocked), CASE(mask_by_tracer),
#ifdef __GLIBC__
    CASE(switched_context),
#endif
#ifdef __x86_64__
    CASE(own_restorer), CASE(own_return),
#endif
    CASE(all_blocked), CASE(all_blocked_in_thread), CASE(mask_arithmetic), CASE(pending_ppoll),
    CASE(pending_pselect), CASE(pending_epoll_pwait), CASE(pending_epoll_endless),
    CASE(pending_epoll_pwait2), CASE(pending_sigsuspend), CASE(sigsuspend), CASE(fillset_during_wait),
    CASE(handler_sleeps), CASE(own_sigsys_handler), CASE(all_actions_reset),
#ifndef __aarch64__
    CASE(stack_8k),
#endif
    CASE(stack_64k), CASE(stack_autodisarm), CASE(rests_on_12k), CASE(rests_on_16k),
#ifdef __aarch64__
    CASE(rests_on_least),
#endif
};
MAIN(cases)
