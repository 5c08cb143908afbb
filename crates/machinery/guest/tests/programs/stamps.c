// Times of packets: a stamp lies between the clock readings before the packet was sent and after
// it, however long the program then leaves the packet unread. In between the harness pauses or
// changes the rate.
#include "common.h"
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

static int64_t real_ns(void) { return clock_ns(CLOCK_REALTIME); }

struct udp { int fd; struct sockaddr_in address; };
static struct udp bound(int option, int value) {
    struct udp udp = { socket(AF_INET, SOCK_DGRAM, 0), { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof udp.address;
    bind(udp.fd, (struct sockaddr *)&udp.address, length);
    getsockname(udp.fd, (struct sockaddr *)&udp.address, &length);
    if (setsockopt(udp.fd, SOL_SOCKET, option, &value, sizeof value) != 0) _exit(90);
    return udp;
}
static void send_to(struct udp *udp, int from) {
    if (sendto(from, "abc", 3, 0, (struct sockaddr *)&udp->address, sizeof udp->address) != 3) _exit(91);
}

// All stamps of a received message, on CLOCK_REALTIME.
struct message { char bytes[8]; union { char room[512]; struct cmsghdr align; } control; struct iovec part; };
static struct msghdr header_of(struct message *message) {
    message->part = (struct iovec){ message->bytes, sizeof message->bytes };
    return (struct msghdr){ .msg_iov = &message->part, .msg_iovlen = 1, .msg_control = message->control.room,
                            .msg_controllen = sizeof message->control.room };
}
static int64_t stamp_of(struct msghdr *header, char *kind) {
    for (struct cmsghdr *one = CMSG_FIRSTHDR(header); one != NULL; one = CMSG_NXTHDR(header, one)) {
        if (one->cmsg_level != SOL_SOCKET) continue;
        struct timespec stamps[3];
        struct timeval micro;
        snprintf(kind, 32, "type=%d", one->cmsg_type);
        switch (one->cmsg_type) {
        case SCM_TIMESTAMP:
            memcpy(&micro, CMSG_DATA(one), sizeof micro);
            return micro.tv_sec * S + micro.tv_usec * 1000 + 999;
        case SCM_TIMESTAMPNS:
            memcpy(stamps, CMSG_DATA(one), sizeof stamps[0]);
            return stamps[0].tv_sec * S + stamps[0].tv_nsec;
        case SCM_TIMESTAMPING:
            memcpy(stamps, CMSG_DATA(one), sizeof stamps);
            if (stamps[2].tv_sec != 0) snprintf(kind, 32, "hardware");
            return stamps[0].tv_sec * S + stamps[0].tv_nsec;
        }
    }
    snprintf(kind, 32, "none");
    return 0;
}
static void judge(struct outcome *out, struct msghdr *header, int64_t before, int64_t after) {
    char kind[32];
    int64_t stamp = stamp_of(header, kind);
    // A pause may fall between the readings and the sending; a tenth is a margin for a busy
    // machine.
    if (stamp == 0) note(out, "%s", kind);
    else if (stamp < before - S / 10) note(out, "%s,early_ms=%lld", kind, (long long)((before - stamp) / MS));
    else if (stamp > after + S / 10) note(out, "%s,late_ms=%lld", kind, (long long)((stamp - after) / MS));
    else note(out, "%s,in_time", kind);
}
// The packet is sent at once, and read after the wait.
static long received(struct outcome *out, int option, int value, int many) {
    struct udp udp = bound(option, value);
    int64_t before = real_ns();
    send_to(&udp, socket(AF_INET, SOCK_DGRAM, 0));
    int64_t after = real_ns();
    rest_ns(out->want_ns);
    struct message message;
    struct mmsghdr one = { .msg_hdr = header_of(&message) };
    long ret = many ? recvmmsg(udp.fd, &one, 1, 0, NULL) : recvmsg(udp.fd, &one.msg_hdr, 0);
    judge(out, &one.msg_hdr, before, after);
    return ret;
}
static const int software = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE;
static long run_timestamp(struct outcome *out) { return received(out, SO_TIMESTAMP, 1, 0); }
static long run_timestampns(struct outcome *out) { return received(out, SO_TIMESTAMPNS, 1, 0); }
static long run_timestamping(struct outcome *out) { return received(out, SO_TIMESTAMPING, software, 0); }
static long run_timestamp_many(struct outcome *out) { return received(out, SO_TIMESTAMP, 1, 1); }
static long run_timestampns_many(struct outcome *out) { return received(out, SO_TIMESTAMPNS, 1, 1); }
static long run_timestamp_off(struct outcome *out) { return received(out, SO_TIMESTAMP, 0, 0); }

// Stamp of the packet's departure, from the error queue.
static long run_sent(struct outcome *out) {
    int value = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
    struct udp to = bound(SO_REUSEADDR, 1), from = bound(SO_TIMESTAMPING, value);
    int64_t before = real_ns();
    send_to(&to, from.fd);
    int64_t after = real_ns();
    rest_ns(out->want_ns);
    struct pollfd error = { .fd = from.fd };
    poll(&error, 1, FAR_MS);
    struct message message;
    struct msghdr header = header_of(&message);
    long ret = recvmsg(from.fd, &header, MSG_ERRQUEUE);
    judge(out, &header, before, after);
    return ret;
}
// The socket also has a timeout, for which the same calls trap.
static long run_with_timeout(struct outcome *out) {
    struct udp udp = bound(SO_TIMESTAMPNS, 1);
    struct timeval timeout = { FAR_NS / S, 0 };
    setsockopt(udp.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    int64_t before = real_ns() + out->want_ns;
    AT(mono_ns() + out->want_ns, send_to(&udp, socket(AF_INET, SOCK_DGRAM, 0)));
    struct message message;
    struct msghdr header = header_of(&message);
    long ret = recvmsg(udp.fd, &header, 0);
    judge(out, &header, before, real_ns());
    return ret;
}
// Truncated ancillary data must not be taken for a stamp.
static long run_truncated(struct outcome *out) {
    struct udp udp = bound(SO_TIMESTAMPING, software);
    send_to(&udp, socket(AF_INET, SOCK_DGRAM, 0));
    struct message message;
    memset(&message, 0x5a, sizeof message);
    struct msghdr header = header_of(&message);
    header.msg_controllen = CMSG_LEN(8);
    long ret = recvmsg(udp.fd, &header, 0);
    note(out, "flags=%x,beyond=%d", header.msg_flags, message.control.room[CMSG_LEN(8)] == 0x5a);
    out->want_ns = 0;
    return ret;
}
// A program that is stopped for a while at any point, as on a busy machine: the stamp is still the
// packet's time, and not the time at which the program continued.
static long run_stood(struct outcome *out) {
    struct { volatile int packets, early, late; } *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                                                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        struct udp udp = bound(SO_TIMESTAMPNS, 1);
        char kind[32];
        for (struct message message;; seen->packets++) {
            struct msghdr header = header_of(&message);
            int64_t before = real_ns();
            send_to(&udp, udp.fd);
            int64_t after = real_ns();
            if (recvmsg(udp.fd, &header, 0) != 3) _exit(93);
            int64_t stamp = stamp_of(&header, kind);
            seen->early += stamp < before - MS;
            seen->late += stamp > after + MS;
        }
    }
    for (int times = 0; times < 100; times++) {
        for (int packets = seen->packets; seen->packets < packets + 3;) rest_ns(MS / 10);
        kill(child, SIGSTOP);
        rest_ns(5 * MS);
        kill(child, SIGCONT);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    note(out, "early=%d,late=%d", seen->early, seen->late);
    out->want_ns = 0;
    return 0;
}

static const struct test_case cases[] = {
    CASE(timestamp), CASE(timestampns), CASE(timestamping), CASE(timestamp_many), CASE(timestampns_many),
    CASE(timestamp_off), CASE(sent), CASE(with_timeout), CASE(truncated), CASE(stood),
};

// The kernel stamps packets only while a process requests it, and begins a little after the first
// request. So the request is kept all the time, until it works.
int main(int argc, char **argv) {
    struct udp udp = bound(SO_TIMESTAMPING, software);
    char kind[32] = "none";
    for (int i = 0; i < 2000 && strcmp(kind, "none") == 0; i++) {
        send_to(&udp, udp.fd);
        struct message message;
        struct msghdr header = header_of(&message);
        if (recvmsg(udp.fd, &header, 0) != 3) return 92;
        stamp_of(&header, kind);
        rest_ns(MS);
    }
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
