// The time-stamp counter, read by the program itself, and the program's own SIGSEGV, which must
// behave as natively.
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>

static inline uint64_t rdtsc(void) {
    uint64_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return high << 32 | low;
}

static inline uint64_t rdtscp(uint32_t *aux) {
    uint64_t low, high, c;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(c));
    *aux = (uint32_t)c;
    return high << 32 | low;
}

// Reads the counter and CLOCK_MONOTONIC_RAW together. Of many attempts, the least interrupted
// counts.
static uint64_t both(int64_t *raw_ns) {
    uint64_t best = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 50; i++) {
        int64_t before = clock_ns(CLOCK_MONOTONIC_RAW);
        uint64_t ticks = rdtsc();
        int64_t width = clock_ns(CLOCK_MONOTONIC_RAW) - before;
        if (width >= least) continue;
        least = width;
        best = ticks;
        *raw_ns = before + width / 2;
    }
    return best;
}

// Ticks per nanosecond of that clock, measured over `ns`.
static double rate(int64_t ns) {
    int64_t from, to;
    uint64_t first = both(&from);
    rest_ns(ns);
    uint64_t last = both(&to);
    return (double)(last - first) / (double)(to - from);
}

static int steps_back(int reads) {
    int wrong = 0;
    uint32_t aux;
    uint64_t last = rdtsc();
    for (int i = 0; i < reads; i++) {
        uint64_t now = i & 1 ? rdtscp(&aux) : rdtsc();
        wrong += now <= last;
        last = now;
    }
    return wrong;
}

// Each read returns more than the one before, whatever happens to the clock.
static long increases(struct outcome *out) {
    int wrong = 0;
    while (mono_ns() - out->begun_ns < out->want_ns) wrong += steps_back(200);
    note(out, "wrong=%d", wrong);
    return 0;
}

// A wait takes the expected number of ticks.
static long counts_a_wait(struct outcome *out) {
    double before = rate(20 * MS), across = rate(out->want_ns);
    note(out, "same=%d", across > before * 0.98 && across < before * 1.02);
    return 0;
}

static void *in_a_thread(void *arg) {
    *(int *)arg = steps_back(200);
    return arg;
}
static long threads(struct outcome *out) {
    int wrong[4] = { 9, 9, 9, 9 };
    pthread_t all[4];
    out->want_ns = 0;
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, in_a_thread, &wrong[i]);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    note(out, "wrong=%d", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
    return 0;
}

static long tells_the_processor(struct outcome *out) {
    cpu_set_t set;
    unsigned cpu, node;
    uint32_t aux;
    out->want_ns = 0;
    sched_getaffinity(0, sizeof set, &set);
    int wrong = 0, last = -1;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        cpu_set_t one;
        if (!CPU_ISSET(i, &set)) continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        sched_setaffinity(0, sizeof one, &one);
        rdtscp(&aux);
        syscall(SYS_getcpu, &cpu, &node, NULL);
        wrong += aux != (node << 12 | cpu);
        last = i;
    }
    note(out, "wrong=%d,some=%d", wrong, last >= 0);
    return 0;
}

// Tries other encodings of the instructions, and checks the upper halves of the registers.
#define SPELLED(bytes) ({ \
    uint64_t a = ~0ul, d = ~0ul; \
    __asm__ volatile(".byte " bytes : "+a"(a), "+d"(d) : : "rcx"); \
    wrong += a >> 32 != 0 || d >> 32 != 0 || (d << 32 | a) <= last; \
    last = d << 32 | a; })
static long prefixes(struct outcome *out) {
    int wrong = 0;
    uint64_t last = rdtsc();
    out->want_ns = 0;
    SPELLED("0x66, 0x0f, 0x31");
    SPELLED("0x48, 0x0f, 0x31");
    SPELLED("0x2e, 0x0f, 0x31");
    SPELLED("0xf3, 0x0f, 0x31");
    SPELLED("0xf2, 0x41, 0x0f, 0x31");
    SPELLED("0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x0f, 0x31");
    SPELLED("0x48, 0x0f, 0x01, 0xf9");
    note(out, "wrong=%d", wrong);
    return 0;
}

// The instruction is the last one in a page, with no mapping after it.
static long end_of_a_page(struct outcome *out) {
    static const uint8_t code[] = { 0x0f, 0x31, 0xc3 };
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    out->want_ns = 0;
    memcpy(pages + 4096 - sizeof code, code, sizeof code);
    mprotect(pages, 4096, PROT_READ | PROT_EXEC);
    munmap(pages + 4096, 4096);
    uint32_t (*read)(void) = (uint32_t (*)(void))(void *)(pages + 4096 - sizeof code);
    uint32_t first = read(), second = read();
    note(out, "differ=%d", first != second);
    return 0;
}

static long switch_of_its_own(struct outcome *out) {
    int state = -1;
    out->want_ns = 0;
    long got = prctl(PR_GET_TSC, &state);
    long set = prctl(PR_SET_TSC, PR_TSC_ENABLE);
    long bad = prctl(PR_GET_TSC, (int *)8);
    note(out, "got=%ld,state=%d,set=%ld,bad=%ld,%d", got, state, set, bad, errno);
    return steps_back(10);
}

// Data recorded by the handler.
static struct {
    volatile int count, signal, code, pid, value, on_stack, blocked, usr1, trap, wrong;
    void *volatile address;
    volatile uint64_t rdi;
} seen;
static char other_stack[64 * 1024];
static sigjmp_buf back;
static void (*inside)(void);

static void handler(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    char here;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    seen.count++;
    seen.signal = signal;
    seen.code = info->si_code;
    seen.address = info->si_addr;
    if (info->si_code <= 0) {
        seen.pid = info->si_pid == getpid();
        seen.value = info->si_value.sival_int;
        seen.address = NULL;
    }
    seen.wrong += info->si_signo != signal;
    seen.on_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
    seen.blocked = sigismember(&mask, SIGSEGV);
    seen.usr1 = sigismember(&mask, SIGUSR1);
    if (info->si_code > 0) {
        seen.trap = (int)at->uc_mcontext.gregs[REG_TRAPNO];
        seen.rdi = (uint64_t)at->uc_mcontext.gregs[REG_RDI];
    }
    seen.wrong += steps_back(5);
    if (inside) inside();
    if (info->si_code > 0) siglongjmp(back, 1);
}

static void install(int flags) {
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaction(SIGSEGV, &action, NULL) != 0) _exit(96);
}

static void use_other_stack(void) {
    stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    sigaltstack(&stack, NULL);
}

static void fault(void) {
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("movb $1, (%0)" : : "D"(0x123456789ab8ul) : "memory");
}
static void privileged(void) {
    if (sigsetjmp(back, 1) == 0) __asm__ volatile("hlt");
}
static void not_canonical(void) {
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("movb $1, (%0)" : : "D"(0x8888000000000000ul) : "memory");
}

static long report(struct outcome *out) {
    sigset_t mask;
    out->want_ns = 0;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    note(out, "count=%d,signal=%d,code=%d,at=%p,stack=%d,mask=%d%d,trap=%d,rdi=%lx,wrong=%d,after=%d,pid=%d,value=%d",
        seen.count, seen.signal, seen.code, seen.address, seen.on_stack, seen.blocked, seen.usr1,
        seen.trap, (unsigned long)(seen.trap ? seen.rdi : 0), seen.wrong + steps_back(5), sigismember(&mask, SIGSEGV),
        seen.pid, seen.value);
    return 0;
}

static long own_fault(struct outcome *out) { install(0); fault(); fault(); return report(out); }
static long own_fault_nodefer(struct outcome *out) { install(SA_NODEFER); fault(); return report(out); }
static long own_fault_on_stack(struct outcome *out) {
    use_other_stack(); install(SA_ONSTACK); fault(); return report(out);
}
static long own_fault_off_stack(struct outcome *out) { use_other_stack(); install(0); fault(); return report(out); }
static long own_privileged(struct outcome *out) { install(0); privileged(); return report(out); }
static long own_not_canonical(struct outcome *out) { install(0); not_canonical(); return report(out); }

static long raised(struct outcome *out) { install(SA_RESTART); raise(SIGSEGV); return report(out); }
static long killed(struct outcome *out) { install(0); kill(getpid(), SIGSEGV); return report(out); }
static long queued(struct outcome *out) {
    install(0);
    sigqueue(getpid(), SIGSEGV, (union sigval){ .sival_int = 77 });
    return report(out);
}

static int blocked_now(int how) {
    sigset_t set, old;
    sigfillset(&set);
    sigprocmask(how, &set, &old);
    return sigismember(&old, SIGSEGV);
}

// While SIGSEGV is blocked, reading works and nothing is delivered.
static long put_off(struct outcome *out, int sent_to_thread) {
    sigset_t pending;
    install(0);
    int before = blocked_now(SIG_BLOCK);
    seen.wrong += steps_back(50);
    if (sent_to_thread) raise(SIGSEGV); else sigqueue(getpid(), SIGSEGV, (union sigval){ .sival_int = 5 });
    rest_ns(2 * MS);
    sigpending(&pending);
    int early = seen.count, waits = sigismember(&pending, SIGSEGV);
    int during = blocked_now(SIG_UNBLOCK);
    report(out);
    note(out, "%s,early=%d,waits=%d,blocked=%d%d,code=%d,value=%d,count=%d,signal=%d,wrong=%d", "put_off", early, waits, before,
        during, seen.code, seen.value, seen.count, seen.signal, seen.wrong);
    return 0;
}
static long put_off_of_thread(struct outcome *out) { return put_off(out, 1); }
static long put_off_of_process(struct outcome *out) { return put_off(out, 0); }

// One thread blocks the signal, another does not and must receive it.
static volatile int other_tid, stop_now;
static void *other_thread(void *arg) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    other_tid = 1;
    while (!stop_now) rest_ns(MS);
    return arg;
}
static long taken_by_another(struct outcome *out) {
    pthread_t other;
    install(0);
    blocked_now(SIG_BLOCK);
    pthread_create(&other, NULL, other_thread, NULL);
    while (!other_tid) rest_ns(MS);
    kill(getpid(), SIGSEGV);
    while (seen.count == 0) rest_ns(MS);
    stop_now = 1;
    pthread_join(other, NULL);
    return report(out);
}

static long waited_for(struct outcome *out) {
    sigset_t set;
    siginfo_t info;
    out->want_ns = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigqueue(getpid(), SIGSEGV, (union sigval){ .sival_int = 6 });
    int got = sigwaitinfo(&set, &info);
    note(out, "got=%d,signal=%d,code=%d,value=%d", got, info.si_signo, info.si_code, info.si_value.sival_int);
    return 0;
}

// Returns the status of a child that does this.
static int end_of(void (*act)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        seen.wrong += steps_back(5);
        act();
        _exit(40 + seen.count);
    }
    while (waitpid(child, &status, 0) < 0) {}
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}
static void die_of_fault(void) { fault(); }
static void die_of_raise(void) { raise(SIGSEGV); }
static void die_of_privileged(void) { privileged(); }
static void ignore_raise(void) { signal(SIGSEGV, SIG_IGN); raise(SIGSEGV); }
static void ignore_fault(void) { signal(SIGSEGV, SIG_IGN); fault(); }
static void fault_while_blocked(void) { install(0); blocked_now(SIG_BLOCK); fault(); }
static void fault_in_handler(void) { install(0); inside = fault; fault(); }
static void nest_once(void) { inside = NULL; sigjmp_buf saved; memcpy(&saved, &back, sizeof back); fault(); memcpy(&back, &saved, sizeof back); }
static void fault_in_handler_nodefer(void) { install(SA_NODEFER); inside = nest_once; fault(); }
static void once_only(void) { install(SA_RESETHAND); fault(); fault(); }
static void once_and_default(void) { install(SA_RESETHAND); raise(SIGSEGV); }
static void back_to_default(void) { install(0); fault(); signal(SIGSEGV, SIG_DFL); fault(); }
static void other_number(void) { raise(SIGSTKFLT); }
static long ends(struct outcome *out) {
    out->want_ns = 0;
    note(out, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", end_of(die_of_fault), end_of(die_of_raise),
        end_of(die_of_privileged), end_of(ignore_raise), end_of(ignore_fault), end_of(fault_while_blocked),
        end_of(fault_in_handler), end_of(fault_in_handler_nodefer), end_of(once_only), end_of(once_and_default),
        end_of(back_to_default), end_of(other_number));
    return 0;
}

// Actions read back as they were set.
static long actions(struct outcome *out) {
    struct sigaction first, old, now;
    int flags[] = { 0, SA_RESTART, SA_NODEFER | SA_ONSTACK, SA_RESETHAND };
    int wrong = 0;
    out->want_ns = 0;
    sigaction(SIGSEGV, NULL, &first);
    wrong += first.sa_handler != SIG_DFL || first.sa_flags & ~0x04000000;
    for (int i = 0; i < 4; i++) {
        install(flags[i]);
        sigaction(SIGSEGV, NULL, &now);
        wrong += now.sa_sigaction != handler || (now.sa_flags & ~0x04000000) != (flags[i] | SA_SIGINFO);
        wrong += !sigismember(&now.sa_mask, SIGUSR1) || sigismember(&now.sa_mask, SIGUSR2) || sigismember(&now.sa_mask, SIGSEGV);
    }
    signal(SIGSEGV, SIG_IGN);
    sigaction(SIGSEGV, &first, &old);
    wrong += old.sa_handler != SIG_IGN;
    // Another signal's mask that contains it.
    now = (struct sigaction){ .sa_handler = SIG_IGN };
    sigfillset(&now.sa_mask);
    sigaction(SIGUSR2, &now, NULL);
    sigaction(SIGUSR2, NULL, &old);
    wrong += !sigismember(&old.sa_mask, SIGSEGV);
    note(out, "wrong=%d,bad=%ld,%d", wrong, syscall(SYS_rt_sigaction, SIGSEGV, 8, NULL, 8), errno);
    return 0;
}

// Handlers of other signals, with SIGSEGV in their masks.
static volatile int read_in_handler = -1, blocked_in_handler = -1;
static void of_another(int signal) {
    sigset_t mask;
    (void)signal;
    read_in_handler = steps_back(20);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    blocked_in_handler = sigismember(&mask, SIGSEGV);
}
static long in_a_full_mask(struct outcome *out) {
    struct sigaction action = { .sa_handler = of_another };
    sigset_t mask;
    out->want_ns = 0;
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    note(out, "wrong=%d,blocked=%d,after=%d", read_in_handler, blocked_in_handler, sigismember(&mask, SIGSEGV));
    return 0;
}

// A `vfork` child has its own actions in the same memory.
static long beside_vfork(struct outcome *out) {
    install(0);
    pid_t child = vfork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(steps_back(5));
    }
    int status = -1;
    waitpid(child, &status, 0);
    fault();
    report(out);
    return status;
}

static const char *self;
static long in_a_new_program(struct outcome *out) {
    int status = -1;
    out->want_ns = 0;
    blocked_now(SIG_BLOCK); // inherited
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "once", NULL);
        _exit(97);
    }
    waitpid(child, &status, 0);
    note(out, "status=%x", status);
    return 0;
}

static const struct test_case cases[] = {
    { "increases", increases },
    { "counts_a_wait", counts_a_wait },
    { "threads", threads },
    { "tells_the_processor", tells_the_processor },
    { "prefixes", prefixes },
    { "end_of_a_page", end_of_a_page },
    { "switch_of_its_own", switch_of_its_own },
    { "own_fault", own_fault },
    { "own_fault_nodefer", own_fault_nodefer },
    { "own_fault_on_stack", own_fault_on_stack },
    { "own_fault_off_stack", own_fault_off_stack },
    { "own_privileged", own_privileged },
    { "own_not_canonical", own_not_canonical },
    { "raised", raised },
    { "killed", killed },
    { "queued", queued },
    { "put_off_of_thread", put_off_of_thread },
    { "put_off_of_process", put_off_of_process },
    { "taken_by_another", taken_by_another },
    { "waited_for", waited_for },
    { "ends", ends },
    { "actions", actions },
    { "in_a_full_mask", in_a_full_mask },
    { "beside_vfork", beside_vfork },
    { "in_a_new_program", in_a_new_program },
};

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "once") == 0) {
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        return steps_back(5) + 10 * !sigismember(&mask, SIGSEGV);
    }
    if (argc == 2 && strcmp(argv[1], "rate") == 0) {
        printf("khz=%.0f\n", rate(300 * MS) * 1e6);
        return 0;
    }
    // Prints the cost of a trap, for information.
    if (argc == 2 && strcmp(argv[1], "cost") == 0) {
        int64_t from = mono_ns();
        for (int i = 0; i < 100000; i++) rdtsc();
        printf("read=%.0f ns\n", (double)(mono_ns() - from) / 1e5);
        from = mono_ns();
        for (int i = 0; i < 100000; i++) mono_ns();
        printf("clock=%.0f ns\n", (double)(mono_ns() - from) / 1e5);
        return 0;
    }
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
