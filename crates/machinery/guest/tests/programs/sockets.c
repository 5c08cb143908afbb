// Sockets with timeouts (SO_RCVTIMEO, SO_SNDTIMEO): every call that waits by one, ended by the
// timeout, by data, by a signal; and the calls that must not wait.
#include "common.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static char self[4096];

static void set(int fd, int option, int64_t ns) {
    struct timeval timeout = { ns / S, ns % S / 1000 };
    if (setsockopt(fd, SOL_SOCKET, option, &timeout, sizeof timeout) != 0) _exit(90);
}
// Creates two connected ends. The first has the timeout.
static void pair(int type, int option, int64_t ns, int ends[2]) {
    if (socketpair(AF_UNIX, type, 0, ends) != 0) _exit(91);
    set(ends[0], option, ns);
}
static struct sockaddr_in local(int type, int fd) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, length) != 0) _exit(92);
    if (type == SOCK_STREAM && listen(fd, 0) != 0) _exit(93);
    getsockname(fd, (struct sockaddr *)&address, &length);
    return address;
}
static int udp(int64_t ns) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    local(SOCK_DGRAM, fd);
    set(fd, SO_RCVTIMEO, ns);
    return fd;
}
static void send_abc(int fd) { if (send(fd, "abc", 3, 0) != 3) _exit(94); }
static char plenty[1 << 20];
static void drain(int fd) { // until all sent data is read
    for (size_t got = 0; got < sizeof plenty;) {
        long more = read(fd, plenty, sizeof plenty);
        if (more <= 0) break;
        got += (size_t)more;
    }
}

// Ended by the timeout.
static long run_recv(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}
static long run_recv_udp(struct outcome *out) {
    char bytes[8];
    return FAILS(recv(udp(out->want_ns), bytes, sizeof bytes, 0));
}
static long run_read(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    return FAILS(read(ends[0], bytes, sizeof bytes));
}
static long run_readv(struct outcome *out) {
    int ends[2]; char bytes[8];
    struct iovec parts[2] = { { bytes, 4 }, { bytes + 4, 4 } };
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    return FAILS(readv(ends[0], parts, 2));
}
static long run_recvmsg(struct outcome *out) {
    char bytes[8];
    struct iovec part = { bytes, 8 };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    return FAILS(recvmsg(udp(out->want_ns), &header, 0));
}
static long run_recvmmsg(struct outcome *out) {
    char bytes[8];
    struct iovec part = { bytes, 8 };
    struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
    return FAILS(recvmmsg(udp(out->want_ns), &message, 1, 0, NULL));
}
static long run_accept(struct outcome *out) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    local(SOCK_STREAM, fd);
    set(fd, SO_RCVTIMEO, out->want_ns);
    return FAILS(accept(fd, NULL, NULL));
}
static long run_accept4(struct outcome *out) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    local(SOCK_STREAM, fd);
    set(fd, SO_RCVTIMEO, out->want_ns);
    return FAILS(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
}
// Connecting to a listener with a full queue.
static long run_connect(struct outcome *out) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local(SOCK_STREAM, listener);
    for (int i = 0; i < 4; i++)
        if (connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&address, sizeof address) == 0) _exit(95);
    rest_ns(20 * MS);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set(fd, SO_SNDTIMEO, out->want_ns);
    out->begun_ns = mono_ns();
    long ret = FAILS(connect(fd, (struct sockaddr *)&address, sizeof address));
    note(out, "nonblocking=%d", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    return ret;
}
static long run_connect_unix(struct outcome *out) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t length = sizeof(sa_family_t);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 0) != 0) _exit(92);
    length = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &length);
    for (int i = 0; i < 2; i++) connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&address, length);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    set(fd, SO_SNDTIMEO, out->want_ns);
    return FAILS(connect(fd, (struct sockaddr *)&address, length));
}
static long run_connect_refused(struct outcome *out) {
    int closed = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local(SOCK_STREAM, closed);
    close(closed);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set(fd, SO_SNDTIMEO, S);
    out->want_ns = 0;
    return FAILS(connect(fd, (struct sockaddr *)&address, sizeof address));
}
static long run_connect_accepted(struct outcome *out) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local(SOCK_STREAM, listener);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set(fd, SO_SNDTIMEO, S);
    out->want_ns = 0;
    long ret = FAILS(connect(fd, (struct sockaddr *)&address, sizeof address));
    int again = connect(fd, (struct sockaddr *)&address, sizeof address);
    note(out, "again=%d,errno=%d", again, errno);
    return ret;
}

static long full(struct outcome *out, int type, int ends[2]) {
    pair(type, SO_SNDTIMEO, out->want_ns, ends);
    while (send(ends[0], plenty, 1000, MSG_DONTWAIT) >= 0) {}
    return errno;
}
static long run_send_full(struct outcome *out) {
    int ends[2];
    full(out, SOCK_STREAM, ends);
    return FAILS(send(ends[0], plenty, 1000, 0));
}
static long run_write_full(struct outcome *out) {
    int ends[2];
    full(out, SOCK_STREAM, ends);
    return FAILS(write(ends[0], plenty, 1000));
}
static long run_writev_full(struct outcome *out) {
    int ends[2];
    full(out, SOCK_STREAM, ends);
    struct iovec parts[2] = { { plenty, 4 }, { plenty, 4 } };
    return FAILS(writev(ends[0], parts, 2));
}
static long run_sendmsg_full(struct outcome *out) {
    int ends[2];
    full(out, SOCK_DGRAM, ends);
    struct iovec part = { plenty, 8 };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    return FAILS(sendmsg(ends[0], &header, 0));
}
static long run_sendmmsg_full(struct outcome *out) {
    int ends[2];
    full(out, SOCK_DGRAM, ends);
    struct iovec part = { plenty, 8 };
    struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
    return FAILS(sendmmsg(ends[0], &message, 1, 0));
}
// Sends to another datagram socket whose queue is full. According to poll the sender is ready, but
// it cannot write.
static long run_sendto_full_peer(struct outcome *out) {
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t length = sizeof address;
    if (bind(to, (struct sockaddr *)&address, sizeof(sa_family_t)) != 0) _exit(92);
    getsockname(to, (struct sockaddr *)&address, &length);
    while (sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&address, length) == 1) {}
    set(fd, SO_SNDTIMEO, out->want_ns);
    return FAILS(sendto(fd, "x", 1, 0, (struct sockaddr *)&address, length));
}
// The part that fits is sent, and reported after the timeout.
static long run_send_part(struct outcome *out) {
    int ends[2];
    pair(SOCK_STREAM, SO_SNDTIMEO, out->want_ns, ends);
    long ret = send(ends[0], plenty, sizeof plenty, 0);
    note(out, "part=%d", ret > 0 && ret < (long)sizeof plenty);
    return 0;
}
static long run_send_all(struct outcome *out) { // a reader comes in time
    int ends[2];
    pair(SOCK_STREAM, SO_SNDTIMEO, FAR_NS, ends);
    AFTER(out, drain(ends[1]));
    return FAILS(send(ends[0], plenty, sizeof plenty, 0));
}
static long run_writev_all(struct outcome *out) {
    int ends[2];
    struct iovec parts[4];
    for (int i = 0; i < 4; i++) parts[i] = (struct iovec){ plenty + i * (sizeof plenty / 4), sizeof plenty / 4 };
    pair(SOCK_STREAM, SO_SNDTIMEO, FAR_NS, ends);
    AFTER(out, drain(ends[1]));
    return FAILS(writev(ends[0], parts, 4));
}
static long run_waitall(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    send_abc(ends[1]);
    return FAILS(recv(ends[0], bytes, sizeof bytes, MSG_WAITALL));
}
static long run_waitall_filled(struct outcome *out) {
    int ends[2]; char bytes[6] = "";
    pair(SOCK_STREAM, SO_RCVTIMEO, FAR_NS, ends);
    send_abc(ends[1]);
    AFTER(out, send_abc(ends[1]));
    long ret = FAILS(recv(ends[0], bytes, sizeof bytes, MSG_WAITALL));
    note(out, "%.6s", bytes);
    return ret;
}

// Ended by arriving data.
static long run_recv_data(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, FAR_NS, ends);
    AFTER(out, send_abc(ends[1]));
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}
static long run_recv_without_limit(struct outcome *out) { // only the other direction has one
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_SNDTIMEO, out->want_ns / 4, ends);
    AFTER(out, send_abc(ends[1]));
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}
static long run_peer_gone(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, S, ends);
    close(ends[1]);
    out->want_ns = 0;
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}
static long run_peer_gone_write(struct outcome *out) {
    int ends[2];
    pair(SOCK_STREAM, SO_SNDTIMEO, S, ends);
    close(ends[1]);
    out->want_ns = 0;
    return FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL));
}
static void nothing(int signal) { (void)signal; }
static long run_interrupted(struct outcome *out) { // EINTR in spite of SA_RESTART
    int ends[2]; char bytes[8];
    struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, NULL);
    pair(SOCK_STREAM, SO_RCVTIMEO, FAR_NS, ends);
    signal_at(out->begun_ns + out->want_ns, SIGUSR1);
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}

// Without waiting.
static long run_nonblocking(struct outcome *out) {
    int ends[2]; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, S, ends);
    out->want_ns = 0;
    long by_flag = recv(ends[0], bytes, 8, MSG_DONTWAIT);
    int error = errno;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    long by_status = read(ends[0], bytes, 8);
    note(out, "%ld/%d,%ld/%d", by_flag, error, by_status, errno);
    return 0;
}
static long run_other_descriptors(struct outcome *out) { // files and pipes of such a process
    int ends[2], pipe_ends[2]; char bytes[8] = "";
    pair(SOCK_STREAM, SO_RCVTIMEO, S, ends);
    if (pipe(pipe_ends) != 0) _exit(96);
    long wrote = write(pipe_ends[1], "12345", 5), got = read(pipe_ends[0], bytes, 8);
    struct iovec part = { bytes, 8 };
    wrote += writev(pipe_ends[1], &part, 1);
    got += readv(pipe_ends[0], &part, 1);
    long bad = read(-1, bytes, 8);
    note(out, "%ld,%ld,%ld/%d,%ld", wrote, got, bad, errno, read(ends[0], bytes, 0));
    out->want_ns = 0;
    return 0;
}
static long run_errors(struct outcome *out) {
    int ends[2];
    char text[200] = "";
    pair(SOCK_STREAM, SO_RCVTIMEO, S, ends);
    struct timeval negative = { -1, 0 }, wrong = { 0, 2000000 }, got = { 7, 7 };
    struct { int fd; void *value; socklen_t length; } tries[] = {
        { ends[0], &negative, 16 }, { ends[0], &wrong, 16 }, { ends[0], &wrong, 4 }, { ends[0], (void *)8, 16 },
        { -1, &negative, 16 }, { 1000, &negative, 16 },
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        errno = 0;
        int ret = setsockopt(tries[i].fd, SOL_SOCKET, SO_RCVTIMEO, tries[i].value, tries[i].length);
        snprintf(text + strlen(text), 32, "%d/%d,", ret, errno);
    }
    set(ends[0], SO_RCVTIMEO, 1500 * MS);
    socklen_t length = sizeof got;
    getsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &got, &length);
    snprintf(text + strlen(text), 64, "%ld.%ld,", got.tv_sec, got.tv_usec);
    errno = 0;
    send_abc(ends[1]);
    long fault = recv(ends[0], (void *)8, 3, 0);
    snprintf(text + strlen(text), 64, "%ld/%d", fault, errno);
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}

// The timeout belongs to the socket, and applies to every process that uses it.
static long run_in_child(struct outcome *out) {
    int ends[2], status; char bytes[8];
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    pid_t pid = fork();
    if (pid == 0) _exit(recv(ends[0], bytes, 8, 0) < 0 ? errno : 0);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
static long run_in_executed(struct outcome *out) {
    int ends[2], status;
    pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
    char number[16];
    snprintf(number, sizeof number, "%d", ends[0]);
    pid_t pid = fork();
    if (pid == 0) { execl(self, self, "as", number, NULL); _exit(97); }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
struct shared { int fd; int64_t lasted; _Atomic int go; };
static void *receive_when_told(void *argument) {
    struct shared *shared = argument;
    char bytes[8];
    while (!shared->go) rest_ns(MS);
    int64_t begun = mono_ns();
    long ret = recv(shared->fd, bytes, 8, 0);
    shared->lasted = mono_ns() - begun;
    return (void *)(ret < 0 ? (long)errno : 0);
}
static long run_in_older_thread(struct outcome *out) { // it ran before the option was set
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) _exit(91);
    struct shared shared = { ends[0], 0, 0 };
    pthread_t thread;
    pthread_create(&thread, NULL, receive_when_told, &shared);
    set(ends[0], SO_RCVTIMEO, out->want_ns);
    shared.go = 1;
    void *error;
    pthread_join(thread, &error);
    note(out, "long_enough=%d", shared.lasted >= out->want_ns * 9 / 10);
    return (long)error;
}
static long run_many_times(struct outcome *out) { // the filter is added once, not each time
    int ends[2]; char bytes[8];
    for (int i = 0; i < 200; i++) {
        pair(SOCK_STREAM, SO_RCVTIMEO, out->want_ns, ends);
        if (i < 199) { close(ends[0]); close(ends[1]); }
    }
    return FAILS(recv(ends[0], bytes, sizeof bytes, 0));
}

static const struct test_case cases[] = {
    CASE(recv), CASE(recv_udp), CASE(read), CASE(readv), CASE(recvmsg), CASE(recvmmsg), CASE(accept), CASE(accept4),
    CASE(connect), CASE(connect_unix), CASE(connect_refused), CASE(connect_accepted), CASE(send_full), CASE(write_full),
    CASE(writev_full), CASE(sendmsg_full), CASE(sendmmsg_full), CASE(sendto_full_peer), CASE(send_part), CASE(send_all),
    CASE(writev_all), CASE(waitall), CASE(waitall_filled), CASE(recv_data), CASE(recv_without_limit), CASE(peer_gone),
    CASE(peer_gone_write), CASE(interrupted), CASE(nonblocking), CASE(other_descriptors), CASE(errors), CASE(in_child),
    CASE(in_executed), CASE(in_older_thread), CASE(many_times),
};

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return 94;
    if (argc == 3 && strcmp(argv[1], "as") == 0) {
        char bytes[8];
        return recv(atoi(argv[2]), bytes, 8, 0) < 0 ? errno : 0;
    }
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
