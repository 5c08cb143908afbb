// Reads the time like a program without a C library: it finds the vDSO by everything that announces
// one, looks up its functions itself and calls them; and it searches its memory for the machine's
// time.
//
//   vdso [SECONDS]
//
// or again for each line of its input. SECONDS is the machine's CLOCK_REALTIME plus DISGUISE. (The
// time itself would be found in the program's own arguments.) Prints for each method
//
//   WAY year=.. wrong=..
//
// the year that is read there, and the number of reads that were not between two of the C library;
// then the places where the machine's time was found, and the result of mapping a vDSO once more.
#include "common.h"
#include <elf.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/time.h>

#define DISGUISE 1000000000000LL
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifdef __aarch64__
#define PREFIX "__kernel_"
#else
#define PREFIX "__vdso_"
#endif

static uintptr_t in_maps(void) {
    char line[512];
    uintptr_t at = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[vdso]") != NULL) at = strtoull(line, NULL, 16);
    fclose(maps);
    return at;
}

static uintptr_t in_vector(const uint64_t *words, ssize_t bytes) {
    for (ssize_t i = 0; i + 1 < bytes / 8 && words[i] != AT_NULL; i += 2)
        if (words[i] == AT_SYSINFO_EHDR) return words[i + 1];
    return 0;
}

static uintptr_t in_proc(void) {
    uint64_t words[256];
    int fd = open("/proc/self/auxv", O_RDONLY);
    ssize_t bytes = read(fd, words, sizeof words);
    close(fd);
    return in_vector(words, bytes);
}

static uintptr_t in_kernel(void) {
    uint64_t words[256] = { 0 };
    return in_vector(words, prctl(PR_GET_AUXV, words, sizeof words, 0, 0));
}

static uintptr_t on_stack(void) { return getauxval(AT_SYSINFO_EHDR); }

static void *function(uintptr_t base, const char *name) {
    const Elf64_Ehdr *header = (const void *)base;
    const Elf64_Phdr *segment = (const void *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    uintptr_t load = 0;
    int loaded = 0;
    for (int i = 0; i < header->e_phnum; i++, segment++) {
        if (segment->p_type == PT_DYNAMIC) dynamic = (const void *)(base + segment->p_offset);
        if (segment->p_type == PT_LOAD && loaded++ == 0)
            load = base + segment->p_offset - segment->p_vaddr;
    }
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *)(load + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) names = (const void *)(load + dynamic->d_un.d_ptr);
    }
    // The names are behind the symbols in memory.
    for (; (const void *)symbols < (const void *)names; symbols++)
        if (strcmp(names + symbols->st_name, name) == 0)
            return (void *)(load + symbols->st_value);
    return NULL;
}

static int wrong;

static void between(int64_t before, int64_t shown, int64_t after) {
    wrong += shown < before || shown > after;
}

// The value of time(): the kernel counts its seconds by ticks.
static int64_t coarse_s(void) { return clock_ns(CLOCK_REALTIME_COARSE) / S; }

static int year_of(int64_t ns) {
    time_t seconds = ns / S;
    struct tm parts;
    return gmtime_r(&seconds, &parts)->tm_year + 1900;
}

static void by(const char *way, uintptr_t base) {
    if (base == 0) {
        say("%s year=0 wrong=0\n", way);
        return;
    }
    int (*gettime)(clockid_t, struct timespec *) = function(base, PREFIX "clock_gettime");
    int (*getday)(struct timeval *, void *) = function(base, PREFIX "gettimeofday");
    time_t (*gettime_s)(time_t *) = function(base, PREFIX "time");
    int64_t shown = 0;
    wrong = 0;
    for (int i = 0; i < 1000; i++) {
        clockid_t clock = (clockid_t[]){ CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME }[i % 3];
        struct timespec now;
        struct timeval day;
        int64_t before = clock_ns(clock);
        gettime(clock, &now);
        between(before, now.tv_sec * S + now.tv_nsec, clock_ns(clock));
        before = clock_ns(CLOCK_REALTIME);
        getday(&day, NULL);
        shown = day.tv_sec * S + day.tv_usec * 1000;
        between(before / 1000 * 1000, shown, clock_ns(CLOCK_REALTIME));
        before = coarse_s();
        if (gettime_s != NULL) between(before, gettime_s(NULL), clock_ns(CLOCK_REALTIME) / S);
    }
    say("%s year=%d wrong=%d\n", way, year_of(shown), wrong);
}

static sigjmp_buf unreadable;

static void leave(int signal) { siglongjmp(unreadable, signal); }

// Returns the number of words of a mapping with the machine's CLOCK_REALTIME, in seconds.
static int words_with(const volatile uint64_t *from, const volatile uint64_t *to, uint64_t disguised) {
    volatile int found = 0;
    for (const volatile uint64_t *volatile page = from; page < to; page += 512)
        if (sigsetjmp(unreadable, 1) == 0)
            for (int i = 0; i < 512; i++) found += page[i] + DISGUISE - disguised + 60 < 120;
    return found;
}

static void search(uint64_t disguised) {
    struct sigaction action = { .sa_handler = leave };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    // The file is read as a whole first, since the search itself must not change it.
    static char maps[1 << 16], where[256];
    int found = 0, fd = open("/proc/self/maps", O_RDONLY);
    size_t length = 0;
    for (ssize_t got; (got = read(fd, maps + length, sizeof maps - 1 - length)) > 0;)
        length += (size_t)got;
    close(fd);
    char *rest;
    for (char *line = strtok_r(maps, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned long from, to;
        char read, name[128] = "anonymous";
        sscanf(line, "%lx-%lx %c%*s %*s %*s %*s %127s", &from, &to, &read, name);
        if (read != 'r') continue;
        int here = words_with((void *)from, (void *)to, disguised);
        if (here > 0 && found == 0) snprintf(where, sizeof where, "%s", name);
        found += here;
    }
    say("search found=%d where=%s\n", found, found > 0 ? where : "nowhere");
}

#ifdef __x86_64__
// The page at a fixed address that vDSOs have replaced.
static void by_old_page(void) {
    time_t (*old)(time_t *) = (void *)0xffffffffff600400;
    struct sigaction action = { .sa_handler = leave };
    sigaction(SIGSEGV, &action, NULL);
    wrong = 0;
    if (sigsetjmp(unreadable, 1) != 0) {
        say("page year=0 wrong=0\n"); // vsyscall=none
        return;
    }
    int64_t before = coarse_s();
    time_t shown = old(NULL);
    between(before, shown, clock_ns(CLOCK_REALTIME) / S);
    say("page year=%d wrong=%d\n", year_of(shown * S), wrong);
}

static void map_again(void) {
    const int ARCH_MAP_VDSO_64 = 0x2003;
    long mapped = syscall(SYS_arch_prctl, ARCH_MAP_VDSO_64, 0x10000000);
    say("again ret=%ld errno=%d\n", mapped < 0 ? -1L : 0L, mapped < 0 ? errno : 0);
}
#endif

static void report(const char *seconds) {
    by("maps", in_maps());
    by("proc", in_proc());
    by("kernel", in_kernel());
    by("stack", on_stack());
#ifdef __x86_64__
    by_old_page();
    map_again();
#endif
    search((uint64_t)atoll(seconds));
}

int main(int argc, char **argv) {
    char line[64];
    if (argc == 2) report(argv[1]);
    while (argc == 1 && fgets(line, sizeof line, stdin) != NULL) report(line);
    return 0;
}
