// Reads /proc/uptime and /proc/stat all the time and compares them with the clocks:
//
//   uptime VIRTUAL_MS | for-ever
//
// prints `begun`, and at the end `wrong=N FIRST_REASON`. A read that fails ends it,
// with its errno.
#include "common.h"
#include <inttypes.h>

static int wrong;
static char first[160];

static void expect(int right, const char *format, ...) {
    if (right) return;
    va_list args;
    va_start(args, format);
    if (wrong++ == 0) vsnprintf(first, sizeof first, format, args);
    va_end(args);
}

static char text[1 << 20];

// Reads an open file from its beginning, in pieces of `piece` bytes.
static const char *read_all(int fd, size_t piece) {
    size_t length = 0;
    for (;;) {
        ssize_t got = pread(fd, text + length, piece, (off_t)length);
        if (got < 0) {
            say("failed errno=%d\n", errno);
            _exit(1);
        }
        if (got == 0) break;
        length += (size_t)got;
    }
    text[length] = 0;
    return text;
}

static int open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        say("failed errno=%d\n", errno);
        _exit(1);
    }
    return fd;
}

// Converts `12.34` to hundredths; -1 if it is no such number.
static int64_t hundredths(const char *from) {
    int64_t whole;
    int part;
    return sscanf(from, "%" SCNd64 ".%2d", &whole, &part) == 2 ? whole * 100 + part : -1;
}

static int64_t last_idle;

static void look_at_uptime(int fd, size_t piece) {
    int64_t before = clock_ns(CLOCK_BOOTTIME);
    const char *shown = read_all(fd, piece);
    int64_t after = clock_ns(CLOCK_BOOTTIME);
    const char *space = strchr(shown, ' ');
    int64_t up = hundredths(shown), idle = space ? hundredths(space + 1) : -1;
    const int64_t unit = S / 100;
    expect(up >= before / unit && up <= after / unit, "uptime_%" PRId64 "_not_in_%" PRId64 "_%" PRId64, up, before, after);
    expect(idle >= last_idle, "idle_back_from_%" PRId64 "_to_%" PRId64, last_idle, idle);
    last_idle = idle;
}

static void look_at_stat(int fd) {
    // The clocks are read at different times: the difference may be truncated to either second.
    int64_t least = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
    const char *found = strstr(read_all(fd, sizeof text / 2), "\nbtime ");
    int64_t boot = clock_ns(CLOCK_BOOTTIME), most = clock_ns(CLOCK_REALTIME) - boot, shown = 0;
    expect(found && sscanf(found, "\nbtime %" SCNd64, &shown) == 1, "no_btime");
    expect(shown >= least / S - (least < 0) - 1 && shown <= most / S, "btime_%" PRId64 "_not_in_%" PRId64 "_%" PRId64, shown, least, most);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int64_t span = strcmp(argv[1], "for-ever") == 0 ? INT64_MAX / 2 : atoll(argv[1]) * MS;
    int64_t end = mono_ns() + span;
    int uptime = open_file("/proc/uptime"), stat = open_file("/proc/stat");
    say("begun\n");
    for (int round = 0; mono_ns() < end; round++) {
        // The files are read in three ways: held open and read from the beginning again, reopened,
        // and byte by byte.
        look_at_uptime(uptime, 64);
        if (round % 4 == 0) {
            look_at_stat(stat);
            int fd = open_file("/proc/uptime");
            look_at_uptime(fd, 1);
            close(fd);
        }
    }
    say("wrong=%d %s\n", wrong, first);
    return 0;
}
