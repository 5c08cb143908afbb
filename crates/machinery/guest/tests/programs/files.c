// Times of files that are set to "now" lie between the clock readings before and after, with any
// call; explicit times are kept.
#include "common.h"
#include <sys/stat.h>
#include <sys/time.h>
#include <utime.h>

static char *fresh(void) {
    char *path = strdup("/tmp/timeloom-file-XXXXXX");
    close(mkstemp(path));
    return path;
}
static int64_t of(struct timespec time) { return time.tv_sec * S + time.tv_nsec; }
// Seconds are enough for `utime`; natively, a tick of the kernel's coarse clock.
static void judge(struct outcome *out, const char *path, int64_t before) {
    struct stat status;
    stat(path, &status);
    int64_t after = clock_ns(CLOCK_REALTIME), grain = S / 50;
    int64_t times[] = { of(status.st_atim), of(status.st_mtim) };
    char text[2][16];
    for (int i = 0; i < 2; i++)
        strcpy(text[i], times[i] < before - grain ? "early" : times[i] > after + grain ? "late" : "now");
    note(out, "accessed=%s,modified=%s", text[0], text[1]);
    unlink(path);
    out->want_ns = 0;
}
#define SETS(name, call) \
    static long run_##name(struct outcome *out) { \
        char *path = fresh(); \
        int fd = open(path, O_RDWR); \
        int64_t before = clock_ns(CLOCK_REALTIME); \
        long ret = call; \
        out->err = ret < 0 ? errno : 0; \
        judge(out, path, before); \
        close(fd); \
        return ret; \
    }
static const struct timespec now_now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
static const struct timespec given_now[2] = { { 1000, 5 }, { 0, UTIME_NOW } };
static const struct timespec omit_now[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };
SETS(utime, utime(path, NULL))
SETS(utimes, utimes(path, NULL))
SETS(futimes, futimes(fd, NULL))
// Calls that newer architectures do not have.
#ifdef SYS_utime
SETS(utime_raw, syscall(SYS_utime, path, NULL))
SETS(utimes_raw, syscall(SYS_utimes, path, NULL))
SETS(futimesat, syscall(SYS_futimesat, AT_FDCWD, path, NULL))
#endif
SETS(utimensat, utimensat(AT_FDCWD, path, NULL, 0))
SETS(utimensat_now, utimensat(AT_FDCWD, path, now_now, 0))
SETS(futimens, futimens(fd, NULL))
SETS(futimens_now, futimens(fd, now_now))
SETS(half_given, futimens(fd, given_now))
static long run_given(struct outcome *out) {
    char *path = fresh();
    struct timespec times[2] = { { 1111, 5 }, { 2222, 7 } };
    long ret = utimensat(AT_FDCWD, path, times, 0);
    ret += utimensat(AT_FDCWD, path, (struct timespec[]){ { 0, UTIME_OMIT }, { 0, UTIME_OMIT } }, 0);
    struct stat status;
    stat(path, &status);
    note(out, "%ld.%ld,%ld.%ld", status.st_atim.tv_sec, status.st_atim.tv_nsec, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    unlink(path);
    out->want_ns = 0;
    return ret;
}
static long run_errors(struct outcome *out) {
    char text[200] = "";
    struct timespec wrong[2] = { { 0, -5 }, { 0, 0 } };
    char *path = fresh();
    struct { int at; const char *path; const void *times; int flags; } tries[] = {
        { AT_FDCWD, "/nonexistent", NULL, 0 }, { AT_FDCWD, path, wrong, 0 }, { AT_FDCWD, path, (void *)8, 0 },
        { -1, NULL, NULL, 0 }, { AT_FDCWD, path, NULL, 77 }, { AT_FDCWD, "/proc/version", omit_now, 0 }, { AT_FDCWD, (void *)8, NULL, 0 },
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        errno = 0;
        long ret = syscall(SYS_utimensat, tries[i].at, tries[i].path, tries[i].times, tries[i].flags);
        snprintf(text + strlen(text), 20, "%ld/%d,", ret, errno);
    }
    unlink(path);
    note(out, "%s", text);
    out->want_ns = 0;
    return 0;
}

static const struct test_case cases[] = {
    CASE(utime), CASE(utimes), CASE(futimes), CASE(utimensat),
#ifdef SYS_utime
    CASE(utime_raw), CASE(utimes_raw), CASE(futimesat),
#endif
    CASE(utimensat_now), CASE(futimens), CASE(futimens_now), CASE(half_given), CASE(given), CASE(errors),
};
MAIN(cases)
