// Calls that are executed in real time and must be reported, each beside a similar one that does
// not concern time and must not be. Argument: PHASE, "quiet" or "named".
#include "common.h"
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/rtc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <termios.h>

struct schedule {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static int terminal(int tenths) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    int fd = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct termios settings;
    int bad = tcgetattr(fd, &settings);
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = tenths;
    return bad | tcsetattr(fd, TCSANOW, &settings);
}

static int limit(int which, rlim_t seconds) {
    struct rlimit old, new = { seconds, seconds };
    getrlimit(which, &old);
    return setrlimit(which, &new);
}

int main(int argc, char **argv) {
    (void)argc;
    int named = strcmp(argv[1], "named") == 0;
    int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct schedule schedule = { .size = sizeof schedule, .policy = named ? 6 : 0 };
    // There is no such task: the call has no effect, but was requested.
    syscall(SYS_sched_setattr, -1, &schedule, 0);
    terminal(named ? 5 : 0);
    limit(named ? RLIMIT_CPU : RLIMIT_NOFILE, named ? 7000 : 100);
    limit(RLIMIT_RTTIME, RLIM_INFINITY);
    setsockopt(tcp, IPPROTO_TCP, named ? TCP_USER_TIMEOUT : TCP_NODELAY, &one, sizeof one);
    setsockopt(udp, 263, named ? PACKET_RX_RING : PACKET_AUXDATA, &one, sizeof one);
    setsockopt(udp, SOL_SOCKET, named ? 61 : SO_REUSEADDR, &one, sizeof one);
    syscall(SYS_keyctl, named ? 15 : 0, -1, 10);
    syscall(SYS_bpf, named ? 5 : 0, NULL, 0);
    klogctl(named ? 3 : 10, NULL, 0);
    syscall(SYS_acct, named ? "/nonexistent" : NULL);
    if (named) syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
    int null = open("/dev/null", O_RDWR);
    struct rtc_time time = { 0 };
    errno = 0;
    int set = ioctl(null, named ? RTC_SET_TIME : RTC_WIE_ON, &time), error = errno;
    ioctl(null, named ? RTC_RD_TIME : RTC_WIE_OFF, &time);
    // NTSYNC_IOC_WAIT_ANY and _ALL; NTSYNC_IOC_EVENT_SET and _RESET.
    char wait[40] = "";
    ioctl(null, named ? 0xc0284e82 : 0x80044e88, wait);
    ioctl(null, named ? 0xc0284e83 : 0x80044e89, wait);
    say("set=%d errno=%d\n", set, error);
    return 0;
}
