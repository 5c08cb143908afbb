// Calls in which a program may block without a time limit, each ended from outside after the wait,
// and calls of asynchronous input and output with a limit. None may reveal that it was stopped and
// continued (signal(7), "Interruption of system calls by stop signals").
#include "common.h"
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>

#define MUST(call) ({ long result_ = (call); if (result_ < 0) { say("%s: errno %d\n", #call, errno); _exit(97); } result_; })

static void put(int fd) { MUST(write(fd, "12345678", 8)); }
static void take(int fd) {
    static char much[1 << 20];
    MUST(read(fd, much, sizeof much));
}
static void fill(int fd) {
    static char much[65536];
    int flags = MUST(fcntl(fd, F_GETFL));
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, much, sizeof much) > 0) {}
    while (write(fd, much, 1) > 0) {}
    fcntl(fd, F_SETFL, flags);
}
static void pair(int fds[2]) { MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds)); }

// --- descriptors
static long reads(struct outcome *out, int fd, int other) {
    char some[64];
    AFTER(out, put(other));
    return FAILS(read(fd, some, 8));
}
static long run_read_pipe(struct outcome *out) {
    int fds[2];
    MUST(pipe(fds));
    return reads(out, fds[0], fds[1]);
}
static long run_read_socket(struct outcome *out) {
    int fds[2];
    pair(fds);
    return reads(out, fds[0], fds[1]);
}
static long run_read_eventfd(struct outcome *out) {
    int fd = MUST(eventfd(0, 0));
    return reads(out, fd, fd);
}
static long run_read_terminal(struct outcome *out) {
    int master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(grantpt(master)), MUST(unlockpt(master));
    int terminal = MUST(open(ptsname(master), O_RDWR | O_NOCTTY));
    struct termios raw;
    MUST(tcgetattr(terminal, &raw));
    cfmakeraw(&raw);
    MUST(tcsetattr(terminal, TCSANOW, &raw));
    return reads(out, terminal, master);
}
static long run_read_signalfd(struct outcome *out) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    struct signalfd_siginfo info;
    int fd = MUST(signalfd(-1, &set, 0));
    pid_t me = getpid();
    AFTER(out, kill(me, SIGUSR1));
    return FAILS(read(fd, &info, sizeof info));
}
static int scratch;
static char scratch_name[64];
static void make_scratch(void) {
    snprintf(scratch_name, sizeof scratch_name, "/tmp/timeloom-blocked-%d", getpid());
    scratch = MUST(open(scratch_name, O_RDWR | O_CREAT, 0600));
}
static void change(int fd) { MUST(pwrite(fd, "x", 1, 0)); }
static long run_read_inotify(struct outcome *out) {
    char event[4096];
    make_scratch();
    int fd = MUST(inotify_init1(0));
    MUST(inotify_add_watch(fd, scratch_name, IN_MODIFY));
    AFTER(out, change(scratch));
    long ret = FAILS(read(fd, event, sizeof event));
    unlink(scratch_name);
    return ret;
}
static long run_read_fanotify(struct outcome *out) {
    char event[4096];
    make_scratch();
    int fd = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
    if (fd >= 0) MUST(fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, scratch_name));
    AFTER(out, change(scratch));
    // Without the privilege, the case makes another wait of the same length.
    long ret = fd >= 0 ? FAILS(read(fd, event, sizeof event)) : (rest_ns(out->want_ns), 24);
    unlink(scratch_name);
    return ret;
}
static long run_write_pipe(struct outcome *out) {
    int fds[2];
    MUST(pipe(fds));
    fill(fds[1]);
    AFTER(out, take(fds[0]));
    return FAILS(write(fds[1], "12345678", 8));
}
static long run_send_socket(struct outcome *out) {
    int fds[2];
    pair(fds);
    fill(fds[0]);
    AFTER(out, take(fds[1]));
    return FAILS(send(fds[0], "12345678", 8, 0));
}
static long run_splice(struct outcome *out) {
    int from[2], to[2];
    MUST(pipe(from)), MUST(pipe(to));
    AFTER(out, put(from[1]));
    return FAILS(splice(from[0], NULL, to[1], NULL, 8, 0));
}
static long run_tee(struct outcome *out) {
    int from[2], to[2];
    MUST(pipe(from)), MUST(pipe(to));
    AFTER(out, put(from[1]));
    return FAILS(tee(from[0], to[1], 8, 0));
}
static long run_sendfile(struct outcome *out) {
    int fds[2];
    make_scratch();
    unlink(scratch_name);
    MUST(write(scratch, "12345678", 8));
    off_t from = 0;
    pair(fds);
    fill(fds[0]);
    AFTER(out, take(fds[1]));
    return FAILS(sendfile(fds[0], scratch, &from, 8));
}
static long run_accept(struct outcome *out) {
    struct sockaddr_un name = { AF_UNIX, "" };
    int server = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    int length = snprintf(name.sun_path + 1, 60, "timeloom-blocked-%d", getpid());
    socklen_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + length;
    MUST(bind(server, (void *)&name, bytes)), MUST(listen(server, 1));
    AFTER(out, MUST(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, bytes)));
    return FAILS(accept(server, NULL, NULL)) >= 0;
}
static void accept_all(int server) {
    while (accept(server, NULL, NULL) >= 0 && poll(&(struct pollfd){ server, POLLIN, 0 }, 1, 0) == 1) {}
}
static long run_connect(struct outcome *out) {
    struct sockaddr_un name = { AF_UNIX, "" };
    int server = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    int length = snprintf(name.sun_path + 1, 60, "timeloom-blocked-%d", getpid());
    socklen_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + length;
    MUST(bind(server, (void *)&name, bytes)), MUST(listen(server, 0));
    MUST(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, bytes));
    AFTER(out, accept_all(server));
    return FAILS(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, bytes));
}
static long run_poll(struct outcome *out) {
    int fds[2];
    MUST(pipe(fds));
    AFTER(out, put(fds[1]));
    return FAILS(poll(&(struct pollfd){ fds[0], POLLIN, 0 }, 1, -1));
}
static long run_select(struct outcome *out) {
    int fds[2];
    MUST(pipe(fds));
    AFTER(out, put(fds[1]));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    return FAILS(select(fds[0] + 1, &set, NULL, NULL, NULL));
}
static long run_epoll(struct outcome *out) {
    int fds[2], epoll = MUST(epoll_create1(0));
    struct epoll_event event = { .events = EPOLLIN };
    MUST(pipe(fds));
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event));
    AFTER(out, put(fds[1]));
    return FAILS(epoll_wait(epoll, &event, 1, -1));
}

// --- locks
static long locked(struct outcome *out, int command, int (*lock)(int fd, int command)) {
    int held[2];
    make_scratch();
    MUST(pipe(held));
    int64_t then = out->begun_ns + out->want_ns;
    if (fork() == 0) {
        int own = MUST(open(scratch_name, O_RDWR));
        MUST(lock(own, command));
        put(held[1]);
        rest_ns(then - mono_ns());
        _exit(0);
    }
    take(held[0]);
    long ret = FAILS(lock(scratch, command));
    unlink(scratch_name);
    return ret;
}
static int whole_file(int fd, int command) {
    struct flock lock = { .l_type = F_WRLCK };
    return fcntl(fd, command, &lock);
}
static long run_flock(struct outcome *out) { return locked(out, LOCK_EX, flock); }
static long run_lock_record(struct outcome *out) { return locked(out, F_SETLKW, whole_file); }
static long run_lock_description(struct outcome *out) { return locked(out, F_OFD_SETLKW, whole_file); }
static long run_futex(struct outcome *out) {
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(shared, 1, 0);
    AFTER(out, sem_post(shared));
    return FAILS(sem_wait(shared));
}
static long run_open_fifo(struct outcome *out) {
    snprintf(scratch_name, sizeof scratch_name, "/tmp/timeloom-blocked-%d", getpid());
    MUST(mkfifo(scratch_name, 0600));
    AFTER(out, MUST(open(scratch_name, O_WRONLY)));
    long ret = FAILS(open(scratch_name, O_RDONLY)) >= 0;
    unlink(scratch_name);
    return ret;
}

// --- messages
static long run_msgrcv(struct outcome *out) {
    struct { long type; char text[8]; } message = { 1, "" };
    int id = MUST(msgget(IPC_PRIVATE, 0600));
    AFTER(out, MUST(msgsnd(id, &message, 8, 0)));
    long ret = FAILS(msgrcv(id, &message, 8, 0, 0));
    msgctl(id, IPC_RMID, NULL);
    return ret;
}
static long run_msgsnd(struct outcome *out) {
    static struct { long type; char text[4096]; } message = { 1, "" };
    int id = MUST(msgget(IPC_PRIVATE, 0600));
    while (msgsnd(id, &message, 4096, IPC_NOWAIT) == 0) {}
    AFTER(out, MUST(msgrcv(id, &message, 4096, 0, 0)));
    long ret = FAILS(msgsnd(id, &message, 4096, 0));
    msgctl(id, IPC_RMID, NULL);
    return ret;
}
static long run_mq_send(struct outcome *out) {
    char name[40];
    struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
    snprintf(name, sizeof name, "/timeloom-blocked-%d", getpid());
    mqd_t id = MUST(mq_open(name, O_RDWR | O_CREAT, 0600, &attributes));
    mq_unlink(name);
    MUST(mq_send(id, "a", 1, 0));
    AFTER(out, char text[8]; MUST(mq_receive(id, text, sizeof text, NULL)));
    return FAILS(mq_send(id, "b", 1, 0));
}

// --- signals and processes
static void ignore(int signal) { (void)signal; }
static long run_pause(struct outcome *out) {
    MUST(sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = ignore }, NULL));
    pid_t me = getpid();
    AFTER(out, kill(me, SIGUSR1));
    return FAILS(pause());
}
static long run_wait4(struct outcome *out) {
    int status;
    AFTER(out, (void)0);
    return FAILS(waitpid(-1, &status, 0)) > 0;
}
static long run_waitid(struct outcome *out) {
    siginfo_t info;
    AFTER(out, (void)0);
    return FAILS(waitid(P_ALL, 0, &info, WEXITED));
}

// --- asynchronous input and output: polls of pipes, which end at once or after a write.
static aio_context_t context;
static int poll_pipe(void) {
    int fds[2];
    MUST(pipe(fds));
    static struct iocb requests[8], *list[1];
    static int used;
    struct iocb *request = list[0] = &requests[used++];
    *request = (struct iocb){ .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = fds[0], .aio_buf = POLLIN };
    MUST(syscall(SYS_io_submit, context, 1, list));
    return fds[1];
}
static long get_events(struct outcome *out, long least, const struct timespec *wait) {
    static struct io_event events[8];
    return FAILS(syscall(SYS_io_getevents, context, least, 8L, events, wait));
}
static long get_events_masked(struct outcome *out, long least, const struct timespec *wait) {
    static struct io_event events[8];
    sigset_t all;
    sigfillset(&all);
    struct { const sigset_t *mask; size_t size; } mask = { &all, 8 };
    return FAILS(syscall(SYS_io_pgetevents, context, least, 8L, events, wait, &mask));
}
typedef long get(struct outcome *out, long least, const struct timespec *wait);

static long aio_endless(struct outcome *out, get *get) {
    MUST(syscall(SYS_io_setup, 8, &context));
    int fd = poll_pipe();
    AFTER(out, put(fd));
    return get(out, 1, NULL);
}
static long aio_timeout(struct outcome *out, get *get) {
    struct timespec wait = spec(out->want_ns);
    MUST(syscall(SYS_io_setup, 8, &context));
    poll_pipe();
    return get(out, 1, &wait);
}
// One of two operations ends early. If it ended only after the wait, the case is run once more.
static long aio_some(struct outcome *out, get *get) {
    struct timespec wait = spec(out->want_ns);
    MUST(syscall(SYS_io_setup, 8, &context));
    int first = poll_pipe();
    poll_pipe();
    AT(out->begun_ns + out->want_ns / 4, put(first));
    long ret = 0;
    while (ret == 0) ret = get(out, 2, &wait);
    return ret;
}
// Both operations end, one of them early.
static long aio_all(struct outcome *out, get *get) {
    MUST(syscall(SYS_io_setup, 8, &context));
    int first = poll_pipe(), second = poll_pipe();
    AT(out->begun_ns + out->want_ns / 4, put(first));
    AFTER(out, put(second));
    struct timespec wait = spec(FAR_NS);
    return get(out, 2, &wait);
}
static long aio_look(struct outcome *out, get *get) {
    struct timespec none = { 0, 0 };
    MUST(syscall(SYS_io_setup, 8, &context));
    poll_pipe();
    long ret = get(out, 1, &none);
    rest_ns(out->want_ns);
    return ret;
}
#define BOTH(name) \
    static long run_##name(struct outcome *out) { return name(out, get_events); } \
    static long run_##name##_masked(struct outcome *out) { return name(out, get_events_masked); }
BOTH(aio_endless)
BOTH(aio_timeout)
BOTH(aio_some)
BOTH(aio_all)
BOTH(aio_look)
static long run_aio_errors(struct outcome *out) {
    struct io_event event;
    struct timespec odd;
    MUST(syscall(SYS_io_setup, 8, &context));
    poll_pipe();
    int numbers[6] = { 0 };
    long rets[6];
#define TRY(index, ...) (errno = 0, rets[index] = syscall(__VA_ARGS__), numbers[index] = errno)
    TRY(0, SYS_io_getevents, 4711L, 1L, 1L, &event, NULL);
    TRY(1, SYS_io_getevents, context, -1L, 1L, &event, NULL);
    TRY(2, SYS_io_getevents, context, 2L, 1L, &event, NULL);
    TRY(3, SYS_io_getevents, context, 1L, 1L, &event, 8L);
    TRY(4, SYS_io_pgetevents, context, 1L, 1L, &event, NULL, 8L);
    odd = (struct timespec){ -1, 1000001000 }; // the kernel takes any: a microsecond
    TRY(5, SYS_io_getevents, context, 1L, 1L, &event, &odd);
    for (int i = 0; i < 6; i++) {
        size_t at = strlen(out->note);
        snprintf(out->note + at, sizeof out->note - at, "%ld:%d,", rets[i], numbers[i]);
    }
    out->want_ns = 0;
    return 0;
}

static const struct test_case cases[] = {
    CASE(read_pipe), CASE(read_socket), CASE(read_eventfd), CASE(read_terminal), CASE(read_signalfd),
    CASE(read_inotify), CASE(read_fanotify), CASE(write_pipe), CASE(send_socket), CASE(splice), CASE(tee),
    CASE(sendfile), CASE(accept), CASE(connect), CASE(poll), CASE(select), CASE(epoll), CASE(flock),
    CASE(lock_record), CASE(lock_description), CASE(futex), CASE(open_fifo), CASE(msgrcv), CASE(msgsnd),
    CASE(mq_send), CASE(pause), CASE(wait4), CASE(waitid), CASE(aio_endless), CASE(aio_endless_masked),
    CASE(aio_timeout), CASE(aio_timeout_masked), CASE(aio_some), CASE(aio_some_masked), CASE(aio_all),
    CASE(aio_all_masked), CASE(aio_look), CASE(aio_look_masked), CASE(aio_errors),
};
MAIN(cases)
