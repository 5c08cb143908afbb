// Calls that carry time and are not virtualised yet: each is made as often as
// its loop says, and must be reported so. It still works.
#include "common.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

int main(void) {
    struct rusage usage;
    struct timeval timeout = { 0, 20000 };
    char byte;
    int ends[2], bad = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);

    for (int i = 0; i < 3; i++) bad |= getrusage(RUSAGE_SELF, &usage);
    for (int i = 0; i < 5; i++) bad |= utimensat(AT_FDCWD, "/proc/self/fd/1", NULL, 0) != 0 && errno == ENOSYS;
    // These carry no time and must not be reported.
    int size = 4096;
    bad |= setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    bad |= setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    bad |= recv(ends[0], &byte, 1, 0) != -1 || errno != EAGAIN; // the timeout works
    say("bad=%d\n", bad);
    return bad;
}
