// Programs that start programs. Every process of a tree runs by the same clock and is started as
// natively: same status, same descriptors, same signals.
//
// The program executes itself in a role: PROGRAM as ROLE ARGUMENTS.
#include "common.h"
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>

extern char **environ;
static char self[4096];

static int open_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

// Roles of an executed program. The exit code tells the outcome.
static int role_sleep(char **args) { // BEFORE_NS SLEEP_NS TIMES
    int64_t before = atoll(args[0]), sleep_ns = atoll(args[1]), now = mono_ns();
    int times = atoi(args[2]);
    if (now < before || now > before + FAR_NS) return 50; // the clock continues across an exec
    struct timespec wait = spec(sleep_ns);
    if (nanosleep(&wait, NULL) != 0) return 51;
    if (mono_ns() - now < sleep_ns) return 52;
    if (times <= 1) return 0;
    char now_text[32], times_text[32];
    snprintf(now_text, sizeof now_text, "%lld", (long long)mono_ns());
    snprintf(times_text, sizeof times_text, "%d", times - 1);
    execl(self, self, "as", "sleep", now_text, args[1], times_text, NULL);
    return 53;
}
static int role_descriptors(char **args) { (void)args; return open_descriptors(); }
static int role_signals(char **args) { // blocked, ignored and pending are inherited
    (void)args;
    sigset_t mask, pending;
    struct sigaction action;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    sigaction(SIGUSR2, NULL, &action);
    return sigismember(&mask, SIGUSR1) + 2 * (action.sa_handler == SIG_IGN) + 4 * sigismember(&pending, SIGUSR1);
}
static int role_code(char **args) { return atoi(args[0]); }

static int play(int argc, char **argv) {
    static const struct { const char *name; int (*role)(char **); int arguments; } roles[] = {
        { "sleep", role_sleep, 3 }, { "descriptors", role_descriptors, 0 }, { "signals", role_signals, 0 },
        { "code", role_code, 1 },
    };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(argv[2], roles[i].name) == 0 && argc == 3 + roles[i].arguments) return roles[i].role(argv + 3);
    return 64;
}

static long status_with(pid_t pid, int options) {
    int status;
    while (waitpid(pid, &status, options) < 0) if (errno != EINTR) return -1;
    if (WIFSTOPPED(status)) return 1000 + WSTOPSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 500 + WTERMSIG(status);
}
static long status_of(pid_t pid) { return status_with(pid, 0); }
static char *number(int64_t value) {
    char *text = malloc(32);
    snprintf(text, 32, "%lld", (long long)value);
    return text;
}
static char **sleeper(struct outcome *out, int times) {
    char **argv = calloc(7, sizeof *argv);
    char *values[] = { self, "as", "sleep", number(mono_ns()), number(out->want_ns / times), number(times) };
    memcpy(argv, values, sizeof values);
    return argv;
}

static long run_exec_chain(struct outcome *out) {
    pid_t pid = fork();
    if (pid == 0) { execv(self, sleeper(out, 10)); _exit(90); }
    return status_of(pid);
}
// A parent that requests stops sees none: neither exec nor pause is one.
static long run_stops_unseen(struct outcome *out) {
    pid_t pid = fork();
    if (pid == 0) { execv(self, sleeper(out, 2)); _exit(90); }
    return status_with(pid, WUNTRACED | WCONTINUED);
}
static long run_vfork_exec(struct outcome *out) {
    char **argv = sleeper(out, 1);
    volatile int before = 5;
    pid_t pid = vfork();
    if (pid == 0) { before = 6; execv(self, argv); _exit(90); }
    note(out, "shared=%d", before);
    return status_of(pid);
}
static long run_vfork_sleep(struct outcome *out) { // a trapped wait on the shared memory
    struct timespec wait = spec(out->want_ns);
    pid_t pid = vfork();
    if (pid == 0) { nanosleep(&wait, NULL); _exit(21); }
    return status_of(pid);
}
static long run_posix_spawn(struct outcome *out) {
    pid_t pid;
    long ret = posix_spawn(&pid, self, NULL, NULL, sleeper(out, 2), environ);
    note(out, "status=%ld", ret == 0 ? status_of(pid) : -1);
    return ret;
}
static long run_posix_spawn_signals(struct outcome *out) {
    posix_spawnattr_t attributes;
    sigset_t usr1, all;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &usr1);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    signal(SIGUSR2, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, NULL);
    pid_t pid;
    char *argv[] = { self, "as", "signals", NULL };
    out->want_ns = 0;
    long ret = posix_spawn(&pid, self, NULL, &attributes, argv, environ);
    note(out, "status=%ld", ret == 0 ? status_of(pid) : -1);
    return ret;
}
static long run_posix_spawn_missing(struct outcome *out) {
    pid_t pid;
    char *argv[] = { "missing", NULL };
    int before = open_descriptors();
    out->want_ns = 0;
    long ret = posix_spawn(&pid, "/nonexistent/program", NULL, NULL, argv, environ);
    note(out, "descriptors=%d", open_descriptors() - before);
    return ret;
}
static long run_system(struct outcome *out) {
    char line[100];
    snprintf(line, sizeof line, "sleep %f; exit 9", (double)out->want_ns / S);
    return system(line);
}
static long run_popen(struct outcome *out) {
    char line[100], answer[100] = "";
    snprintf(line, sizeof line, "sh -c 'sleep %f; echo yes' | tr a-z A-Z", (double)out->want_ns / S);
    FILE *stream = popen(line, "r");
    if (fgets(answer, sizeof answer, stream) == NULL) strcpy(answer, "nothing");
    answer[strcspn(answer, "\n")] = 0;
    note(out, "answer=%s", answer);
    return pclose(stream);
}
static char *script(const char *text) {
    char *path = strdup("/tmp/timeloom-script-XXXXXX");
    int fd = mkstemp(path);
    if (write(fd, text, strlen(text)) < 0 || fchmod(fd, 0755) != 0 || close(fd) != 0) _exit(95);
    return path;
}
static long run_script(struct outcome *out) {
    char text[200];
    snprintf(text, sizeof text, "#!/bin/sh\nsleep %f\nexit $#\n", (double)out->want_ns / S);
    char *path = script(text);
    pid_t pid = fork();
    if (pid == 0) { execl(path, path, "a", "b", "c", NULL); _exit(90); }
    long ret = status_of(pid);
    unlink(path);
    return ret;
}

// Records the error of a failing exec, and checks that it leaves no descriptor open.
static void fail_exec(const char *path, char *text, size_t size) {
    char *argv[] = { "x", NULL };
    int before = open_descriptors();
    int lowest = dup(1);
    close(lowest);
    long ret = execve(path, argv, environ);
    int error = errno, after = open_descriptors(), same = dup(1);
    close(same);
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%ld/%d/%d/%d;", ret, error, after - before, same - lowest);
}
static long run_exec_failures(struct outcome *out) {
    char *no_interpreter = script("#!/nonexistent/interpreter\n"), *no_program = script("\x7f" "ELFnot really\n");
    char *not_executable = script("x");
    chmod(not_executable, 0644);
    char text[200] = "";
    fail_exec("/nonexistent/program", text, sizeof text);
    fail_exec("/tmp", text, sizeof text);
    fail_exec("/dev/null/x", text, sizeof text);
    fail_exec("", text, sizeof text);
    fail_exec(no_interpreter, text, sizeof text);
    fail_exec(no_program, text, sizeof text);
    fail_exec(not_executable, text, sizeof text);
    unlink(no_interpreter);
    unlink(no_program);
    unlink(not_executable);
    note(out, "%s", text);
    struct timespec wait = spec(out->want_ns); // and time goes on
    return nanosleep(&wait, NULL);
}
static long run_exec_search(struct outcome *out) { // execvp tries one directory after the other
    setenv("PATH", "/nonexistent:/tmp:/usr/bin:/bin", 1);
    pid_t pid = fork();
    if (pid == 0) { execlp("sh", "sh", "-c", "exit 4", NULL); _exit(90); }
    out->want_ns = 0;
    return status_of(pid);
}
static void *exec_in_thread(void *argv) { execv(self, argv); _exit(90); }
static void *idle(void *none) { rest_ns(3600 * S); return none; }
static long run_exec_from_thread(struct outcome *out) {
    char **argv = sleeper(out, 2);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t threads[4];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, idle, NULL);
        pthread_create(&threads[3], NULL, exec_in_thread, argv);
        rest_ns(3600 * S);
    }
    return status_of(pid);
}
static void *fail_in_thread(void *text) {
    fail_exec("/nonexistent/program", text, 100);
    return NULL;
}
static long run_exec_failure_in_thread(struct outcome *out) {
    char text[100] = "";
    pthread_t thread;
    pthread_create(&thread, NULL, fail_in_thread, text);
    pthread_join(thread, NULL);
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}
static long run_exec_by_descriptor(struct outcome *out) {
    char **argv = sleeper(out, 1);
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) { fexecve(fd, argv, environ); _exit(90); }
    return status_of(pid);
}
static long run_descriptors(struct outcome *out) {
    char *argv[] = { self, "as", "descriptors", NULL };
    int before = open_descriptors();
    pid_t pid = fork();
    if (pid == 0) { execv(self, argv); _exit(90); }
    out->want_ns = 0;
    return status_of(pid) - before;
}
static long run_inherited_signals(struct outcome *out) {
    char *argv[] = { self, "as", "signals", NULL };
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_SETMASK, &usr1, NULL);
        signal(SIGUSR2, SIG_IGN);
        kill(getpid(), SIGUSR1);
        execv(self, argv);
        _exit(90);
    }
    out->want_ns = 0;
    return status_of(pid);
}
static long run_many_at_once(struct outcome *out) {
    pid_t pids[40];
    long sum = 0;
    char *argv[] = { self, "as", "code", "3", NULL };
    for (int i = 0; i < 40; i++)
        if ((pids[i] = fork()) == 0) { execv(self, argv); _exit(90); }
    for (int i = 0; i < 40; i++) sum += status_of(pids[i]);
    out->want_ns = 0;
    return sum;
}
static long run_orphan(struct outcome *out) { // its parent has ended: it still runs by the clock
    int ends[2];
    if (pipe(ends) != 0) _exit(98);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() != 0) _exit(0);
        setsid();
        struct timespec wait = spec(out->want_ns);
        nanosleep(&wait, NULL);
        _exit(write(ends[1], "x", 1) != 1);
    }
    status_of(pid);
    char byte;
    return read(ends[0], &byte, 1);
}

static const struct test_case cases[] = {
    CASE(exec_chain), CASE(stops_unseen), CASE(vfork_exec), CASE(vfork_sleep), CASE(posix_spawn),
    CASE(posix_spawn_signals), CASE(posix_spawn_missing), CASE(system), CASE(popen), CASE(script),
    CASE(exec_failures), CASE(exec_search), CASE(exec_from_thread), CASE(exec_failure_in_thread),
    CASE(exec_by_descriptor), CASE(descriptors), CASE(inherited_signals), CASE(many_at_once), CASE(orphan),
};

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return 94;
    if (argc > 2 && strcmp(argv[1], "as") == 0) return play(argc, argv);
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
