// Virtual dates of files. A date set by the kernel lies between two readings of the clock, in every
// call that shows a date. A date set by a program is shown as it was set, by any call, even if the
// machine's kernel could have set the same date. The argument is the machine's CLOCK_REALTIME in
// nanoseconds, a moment after now.
#include "common.h"
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <utime.h>

static int failed;
#define EXPECT(holds, ...) do { if (!(holds)) { failed++; printf("line %d: %s ", __LINE__, #holds); printf(__VA_ARGS__); puts(""); } } while (0)
static int64_t of(struct timespec time) { return time.tv_sec * S + time.tv_nsec; }

struct dates { int64_t access, modification, change, birth; };
static struct dates by_struct(const struct stat *status) {
    return (struct dates){ of(status->st_atim), of(status->st_mtim), of(status->st_ctim), 0 };
}
static int64_t of_statx(struct statx_timestamp time) { return time.tv_sec * S + time.tv_nsec; }
static struct dates by_statx(int directory, const char *path, int flags) {
    struct statx status;
    memset(&status, 0, sizeof status);
    long result = syscall(SYS_statx, directory, path, flags, STATX_BASIC_STATS | STATX_BTIME, &status);
    EXPECT(result == 0, "%d", errno);
    return (struct dates){ of_statx(status.stx_atime), of_statx(status.stx_mtime), of_statx(status.stx_ctime),
                           status.stx_mask & STATX_BTIME ? of_statx(status.stx_btime) : 0 };
}
// The kernel dates files by its last tick.
static const int64_t tick = S / 50;
static void all_within(struct dates dates, int64_t from, int64_t to, const char *call) {
    int64_t all[] = { dates.access, dates.modification, dates.change, dates.birth };
    for (int i = 0; i < 4; i++)
        EXPECT((i == 3 && all[i] == 0) || (all[i] >= from - tick && all[i] <= to), "%s %d %lld", call, i, (long long)(all[i] - from));
}
static void shown_by_each_call(const char *path, int fd) {
    struct stat status;
    int64_t from = clock_ns(CLOCK_REALTIME);
    EXPECT(write(fd, "x", 1) == 1, "%d", errno);
    char byte;
    EXPECT(pread(fd, &byte, 1, 0) == 1, "%d", errno);
    int64_t to = clock_ns(CLOCK_REALTIME);
    struct dates first = by_statx(AT_FDCWD, path, 0);
    // Access and birth date from the creation of the file, a moment before.
    from -= S;
    all_within(first, from, to, "statx");
#define SAME(call) do { \
        EXPECT((call) == 0, "%d", errno); \
        struct dates seen = by_struct(&status); \
        EXPECT(seen.access == first.access && seen.modification == first.modification && seen.change == first.change, \
               "%lld", (long long)(seen.modification - first.modification)); } while (0)
    SAME(stat(path, &status));
    SAME(lstat(path, &status));
    SAME(fstat(fd, &status));
    SAME(fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW));
    SAME(syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH));
#ifdef SYS_stat
    SAME(syscall(SYS_stat, path, &status));
    SAME(syscall(SYS_lstat, path, &status));
#endif
    SAME(syscall(SYS_fstat, fd, &status));
    struct dates empty = by_statx(fd, "", AT_EMPTY_PATH);
    EXPECT(memcmp(&empty, &first, sizeof first) == 0, "statx of a descriptor");
    errno = 0;
    EXPECT(fstat(-1, &status) == -1 && errno == EBADF, "%d", errno);
    EXPECT(stat(path, (struct stat *)8) == -1 && errno == EFAULT, "%d", errno);
}
static void set_by_each_call(const char *path, int fd, int64_t access, int64_t modification) {
    struct timespec both[2] = { { access / S, access % S }, { modification / S, modification % S } };
    struct timeval us[2] = { { access / S, access % S / 1000 }, { modification / S, modification % S / 1000 } };
    struct utimbuf s = { access / S, modification / S };
#define SHOWS(call, grain) do { \
        int64_t before = clock_ns(CLOCK_REALTIME); \
        struct stat status; \
        EXPECT((call) == 0, "%d", errno); \
        EXPECT(stat(path, &status) == 0, "%d", errno); \
        struct dates seen = by_struct(&status); \
        EXPECT(seen.access == access / (grain) * (grain), "%lld", (long long)(seen.access - access)); \
        EXPECT(seen.modification == modification / (grain) * (grain), "%lld", (long long)(seen.modification - modification)); \
        EXPECT(seen.change >= before - tick && seen.change <= clock_ns(CLOCK_REALTIME), "%lld", (long long)(seen.change - before)); } while (0)
    SHOWS(utimensat(AT_FDCWD, path, both, 0), 1);
    SHOWS(futimens(fd, both), 1);
    SHOWS(syscall(SYS_utimensat, fd, NULL, both, 0), 1);
    SHOWS(utimes(path, us), 1000);
    SHOWS(utime(path, &s), S);
#ifdef SYS_utime
    SHOWS(syscall(SYS_utime, path, &s), S);
    SHOWS(syscall(SYS_utimes, path, us), 1000);
    SHOWS(syscall(SYS_futimesat, AT_FDCWD, path, us), 1000);
    struct timeval wrong[2] = { { 1, 1000000 }, { 1, 0 } };
    EXPECT(syscall(SYS_utimes, path, wrong) == -1 && errno == EINVAL, "%d", errno);
    EXPECT(syscall(SYS_utimes, path, 8) == -1 && errno == EFAULT, "%d", errno);
#endif
    // The date of a link itself, not of its target.
    char link[256];
    snprintf(link, sizeof link, "%s-link", path);
    EXPECT(symlink(path, link) == 0, "%d", errno);
    EXPECT(utimensat(AT_FDCWD, link, both, AT_SYMLINK_NOFOLLOW) == 0, "%d", errno);
    struct stat status;
    EXPECT(lstat(link, &status) == 0 && of(status.st_mtim) == modification, "%lld", (long long)of(status.st_mtim));
    unlink(link);
    // Sets one date only; the other keeps its value, which a program set.
    struct timespec half[2] = { { 0, UTIME_OMIT }, { 77, 7 } };
    EXPECT(utimensat(AT_FDCWD, path, both, 0) == 0 && utimensat(AT_FDCWD, path, half, 0) == 0, "%d", errno);
    EXPECT(stat(path, &status) == 0 && of(status.st_atim) == access && of(status.st_mtim) == 77 * S + 7, "half");
    // A write gives the file a date of the kernel again.
    int64_t before = clock_ns(CLOCK_REALTIME);
    rest_ns(2 * tick);
    EXPECT(write(fd, "y", 1) == 1 && stat(path, &status) == 0, "%d", errno);
    EXPECT(of(status.st_mtim) >= before && of(status.st_mtim) <= clock_ns(CLOCK_REALTIME), "%lld", (long long)(of(status.st_mtim) - before));
}
int main(int argc, char **argv) {
    int64_t machine = argc > 1 ? atoll(argv[1]) : 0;
    char path[] = "/tmp/timeloom-dates-XXXXXX";
    int fd = mkstemp(path);
    shown_by_each_call(path, fd);
    set_by_each_call(path, fd, 981173106 * S + 123456789, 1000000000 * S + 987654321);
    set_by_each_call(path, fd, machine, machine + 1);
    unlink(path);
    printf("failed=%d\n", failed);
    return failed != 0;
}
