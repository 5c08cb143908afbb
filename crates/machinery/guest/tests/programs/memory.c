// Programs that apply an operation to all of their memory, including the vDSO: clock page and image
// stay.
#include "common.h"
#include <elf.h>
#include <sys/auxv.h>

static char *vdso(void) { return (char *)getauxval(AT_SYSINFO_EHDR); }
enum { VDSO_BYTES = 2 * 4096 };

// By system call: the C library may have no vDSO any more.
static long sleep_by_call(int64_t ns) {
    struct timespec wait = spec(ns);
    return syscall(SYS_nanosleep, &wait, NULL);
}

// Changes the memory of a child, which then sleeps until the case ends.
static long in_child(struct outcome *out, int (*act)(void)) {
    pid_t child = fork();
    if (child == 0) {
        int failed = act();
        _exit(failed != 0 ? failed : sleep_by_call(out->want_ns) != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    note(out, "status=%d", status);
    return 0;
}

static int unmap(void) { return munmap(vdso(), VDSO_BYTES) != 0 ? 2 : 0; }
static int move(void) {
    void *to = mmap(NULL, VDSO_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    return mremap(vdso(), VDSO_BYTES, VDSO_BYTES, flags, to) != to ? 3 : 0;
}
static int replace(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return mmap(vdso(), VDSO_BYTES, PROT_NONE, flags, -1, 0) != vdso() ? 4 : 0;
}
static int make_writable(void) {
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    if (mprotect(vdso(), VDSO_BYTES, all) != 0) return 5;
    volatile char *last = vdso() + VDSO_BYTES - 1;
    *last = 1;
    return *last != 1 ? 6 : 0;
}
static int unmap_and_execute(void) {
    if (unmap() != 0) return 2;
    execlp("sleep", "sleep", "0.1", NULL);
    return 7;
}
static void on_signal(int signal) { (void)signal; }
static int unmap_and_be_interrupted(void) {
#ifndef __aarch64__ // where handlers return through the vDSO
    struct sigaction action = { .sa_handler = on_signal };
    if (unmap() != 0 || sigaction(SIGUSR1, &action, NULL) != 0) return 2;
    return raise(SIGUSR1);
#else
    (void)on_signal;
    return 0;
#endif
}
static long run_unmap(struct outcome *out) { return in_child(out, unmap); }
static long run_move(struct outcome *out) { return in_child(out, move); }
static long run_replace(struct outcome *out) { return in_child(out, replace); }
static long run_make_writable(struct outcome *out) { return in_child(out, make_writable); }
static long run_unmap_and_execute(struct outcome *out) { out->want_ns = 100 * MS; return in_child(out, unmap_and_execute); }
static long run_unmap_and_be_interrupted(struct outcome *out) { return in_child(out, unmap_and_be_interrupted); }

struct mapping { char *from; size_t length; char rights[5], name[256]; };
// Applies `act` to all mappings of this process, except for special ones of the kernel.
static int each_mapping(int (*act)(const struct mapping *)) {
    static struct mapping all[256];
    int failed = 0, count = 0;
    char line[512];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (count < 256 && fgets(line, sizeof line, maps)) {
        struct mapping *one = &all[count];
        one->name[0] = 0;
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &from, &to, one->rights, one->name) < 3) _exit(96);
        one->from = (char *)from;
        one->length = to - from;
        if (!strstr(line, "[vvar") && !strstr(line, "[vsyscall]")) count++;
    }
    fclose(maps);
    for (int i = 0; i < count; i++) failed += act(&all[i]) != 0;
    return failed;
}
static int protect_as_it_is(const struct mapping *it) {
    const char *rights = it->rights;
    int protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0)
        | (rights[2] == 'x' ? PROT_EXEC : 0);
    return mprotect(it->from, it->length, protection);
}
// Makes shared mappings neither inheritable nor readable: none is needed here.
static int shut_shared(const struct mapping *it) {
    if (it->rights[3] != 's' || it->rights[1] == 'w') return 0;
    return madvise(it->from, it->length, MADV_DONTFORK) + mprotect(it->from, it->length, PROT_NONE);
}
// Unmaps like checkpoint restore: all but the mappings of this program.
static int unmap_foreign(const struct mapping *it) {
    const char *own[] = { program_invocation_short_name, ".so", "[heap]", "[stack]" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (it->name[0] == 0 || strstr(it->name, own[i])) return 0;
    int failed = munmap(it->from, it->length);
    return it->name[0] == '[' ? 0 : failed; // A kernel may keep its vDSO.
}
static int unmap_all_foreign(void) { return each_mapping(unmap_foreign); }
static long run_unmap_all_foreign(struct outcome *out) { return in_child(out, unmap_all_foreign); }
static int protect_all(void) { return each_mapping(protect_as_it_is); }
static int shut_all_shared(void) {
    int failed = each_mapping(shut_shared), status = -1;
    pid_t child = fork();
    if (child == 0) _exit(sleep_by_call(1) != 0);
    waitpid(child, &status, 0);
    return failed + status;
}
// Clears a wide range in which nothing is mapped natively.
static int clear_range(void) {
#ifdef __x86_64__
    return munmap((char *)0x7e7f00000000, 0x200000000);
#else
    return 0;
#endif
}
static int map_between(void) {
    char *at = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(at + 4096, 4096, PROT_READ, flags, -1, 0) != at + 4096) return 8;
    if (mremap(at, 4096, 2 * 4096, MREMAP_MAYMOVE) == MAP_FAILED) return 9;
    return munmap(at + 4096, 2 * 4096);
}
static long run_protect_all(struct outcome *out) { return in_child(out, protect_all); }
static long run_shut_all_shared(struct outcome *out) { return in_child(out, shut_all_shared); }
static long run_clear_range(struct outcome *out) { return in_child(out, clear_range); }
static long run_map_between(struct outcome *out) { return in_child(out, map_between); }

static const struct test_case cases[] = {
    CASE(unmap), CASE(move), CASE(replace), CASE(make_writable), CASE(unmap_and_execute),
    CASE(unmap_and_be_interrupted), CASE(protect_all), CASE(unmap_all_foreign),
    CASE(shut_all_shared), CASE(clear_range), CASE(map_between),
};

// Cases that exist only under the clock: `memory own`.

// Returns the function `name` of a vDSO at `at`.
static void *function_of(char *at, const char *name) {
    Elf64_Ehdr *header = (Elf64_Ehdr *)at;
    Elf64_Phdr *segments = (Elf64_Phdr *)(at + header->e_phoff);
    char *base = NULL;
    Elf64_Dyn *dynamic = NULL;
    for (int i = header->e_phnum - 1; i >= 0; i--) {
        if (segments[i].p_type == PT_LOAD) base = at + segments[i].p_offset - segments[i].p_vaddr;
        if (segments[i].p_type == PT_DYNAMIC) dynamic = (Elf64_Dyn *)(at + segments[i].p_offset);
    }
    Elf64_Sym *symbols = NULL;
    char *strings = NULL;
    uint32_t *hash = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        char *place = base + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)place;
        if (dynamic->d_tag == DT_STRTAB) strings = place;
        if (dynamic->d_tag == DT_HASH) hash = (uint32_t *)place;
    }
    for (uint32_t i = 0; i < hash[1]; i++)
        if (strcmp(strings + symbols[i].st_name, name) == 0) return base + symbols[i].st_value;
    return NULL;
}

static void report(const char *what, long result) { say("%s result=%ld errno=%d\n", what, result, result < 0 ? errno : 0); }

static int own(void) {
    char *page = NULL, line[512];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "timeloom-abi") && sscanf(line, "%lx-%lx", &from, &to) == 2) page = (char *)from;
    fclose(maps);
    char *image = page + 4096, *elsewhere = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    report("munmap", munmap(page, 3 * 4096));
    report("munmap_nothing", munmap(page, 0));
    report("mprotect", mprotect(page, 3 * 4096, PROT_NONE));
    report("mprotect_invalid", mprotect(page, 4096, ~0));
    report("mmap", mmap(page, 4096, PROT_READ, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    report("mmap_far", mmap(image + 0x1f000, 4096, PROT_READ, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    report("mmap_beyond", mmap(image + 0x20000, 4096, PROT_READ, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    report("mremap_from", mremap(image, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == MAP_FAILED ? -1 : 0);
    report("mremap_to", mremap(elsewhere, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, image) == MAP_FAILED ? -1 : 0);
    report("pkey_mprotect", syscall(SYS_pkey_mprotect, page, 4096, PROT_NONE, -1));
    report("remap_file_pages", syscall(SYS_remap_file_pages, page, 4096, 0, 1, 0));
    report("madvise", madvise(page, 3 * 4096, MADV_DONTFORK));
    // The moved copy still leads to the image; so does one that was partly overwritten.
    char *to_here = elsewhere + 4096;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    report("move", mremap(vdso(), VDSO_BYTES, VDSO_BYTES, flags, to_here) != to_here);
#ifdef __x86_64__
    int (*read)(clockid_t, struct timespec *) = function_of(to_here, "__vdso_clock_gettime");
#else
    int (*read)(clockid_t, struct timespec *) = function_of(to_here, "__kernel_clock_gettime");
#endif
    struct timespec moved, called;
    int failed = read(CLOCK_REALTIME, &moved);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &called);
    report("read", failed == 0 && called.tv_sec - moved.tv_sec < 1000 && called.tv_sec >= moved.tv_sec ? called.tv_sec : -1);
    report("sleep", sleep_by_call(1));
#ifdef __x86_64__
    // Another vDSO of the kernel, in place of the unmapped one.
    maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &from, &to) == 2) munmap((char *)from, to - from);
    fclose(maps);
    report("map_vdso", syscall(SYS_arch_prctl, 0x2003, 0));
#endif
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "own") == 0) return own();
    return run_cases(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
