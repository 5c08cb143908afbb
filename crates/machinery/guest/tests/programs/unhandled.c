// A call that cannot be virtualised: refused as by a kernel that lacks it, and counted; executed,
// and counted, if leaks are allowed.
#include "common.h"
#include <linux/io_uring.h>
#include <sys/socket.h>

int main(void) {
    struct io_uring_params params;
    int done = 0, refused = 0, ends[2], size = 4096, bad = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < 3; i++) {
        memset(&params, 0, sizeof params);
        long ring = syscall(SYS_io_uring_setup, 4, &params);
        done += ring >= 0;
        refused += ring < 0 && errno == ENOSYS;
    }
    // This carries no time and must not be reported.
    bad |= setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    say("bad=%d done=%d refused=%d\n", bad, done, refused);
    // This call may reset all handlers; programs fall back as on a kernel without it.
    errno = 0;
    long made = syscall(SYS_clone3, NULL, 0);
    say("clone3=%ld errno=%d\n", made, errno);
    return bad;
}
