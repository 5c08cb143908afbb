// Dates written by the kernel itself, and those read from x86-64's vsyscall page, lie between the
// clock readings before and after.
#include "common.h"
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/time.h>

static int64_t date_ns(void) { return clock_ns(CLOCK_REALTIME); }

// Checks that a date lies between two readings. `grain` is the resolution of the date in
// nanoseconds.
static void judge(struct outcome *out, int64_t before, int64_t date, int64_t grain) {
    int64_t after = date_ns();
    // The kernel's whole seconds may be of the previous tick.
    int64_t least = before - grain - S / 50;
    const char *text = date < least ? "early" : date > after ? "late" : "now";
    snprintf(out->note + strlen(out->note), 10, "%s,", text);
    out->want_ns = 0;
}
// A second of the machine is as many seconds of the session as its dilation says, or more.
#define SECOND (4 * S)
static long run_shared_memory(struct outcome *out) {
    int64_t before = date_ns();
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    void *at = shmat(id, NULL, 0);
    struct shmid_ds status;
    long ret = shmctl(id, IPC_STAT, &status);
    out->note[0] = '\0';
    judge(out, before, status.shm_atime * S, SECOND);
    judge(out, before, status.shm_ctime * S, SECOND);
    ret += status.shm_dtime + status.shm_segsz + status.shm_nattch;
    shmdt(at);
    shmctl(id, IPC_RMID, NULL);
    return ret;
}
static long run_semaphores(struct outcome *out) {
    int64_t before = date_ns();
    int id = semget(IPC_PRIVATE, 3, 0600);
    struct semid_ds status;
    long ret = semctl(id, 0, IPC_STAT, &status);
    ret += status.sem_otime; // never
    semop(id, &(struct sembuf){ 0, 1, 0 }, 1);
    ret += semctl(id, 0, IPC_STAT, &status);
    out->note[0] = '\0';
    judge(out, before, status.sem_otime * S, SECOND);
    judge(out, before, status.sem_ctime * S, SECOND);
    ret += status.sem_nsems;
    semctl(id, 0, IPC_RMID);
    return ret;
}
static long run_messages(struct outcome *out) {
    int64_t before = date_ns();
    int id = msgget(IPC_PRIVATE, 0600);
    struct { long type; char text[4]; } message = { 1, "abc" };
    long ret = msgsnd(id, &message, 4, 0);
    struct msqid_ds status;
    ret += msgctl(id, IPC_STAT, &status);
    out->note[0] = '\0';
    judge(out, before, status.msg_stime * S, SECOND);
    judge(out, before, status.msg_ctime * S, SECOND);
    ret += status.msg_rtime + status.msg_qnum;
    msgctl(id, IPC_RMID, NULL);
    return ret;
}
static long run_errors(struct outcome *out) {
    struct msqid_ds status;
    out->note[0] = '\0';
    for (int command = 0; command < 22; command++) {
        long answers[] = { msgctl(-1, command, &status), shmctl(-1, command, (void *)8), semctl(-1, 0, command, 8) };
        // Commands for the state of the whole machine.
        if (command == IPC_INFO || command == 12 || command == 14 || command == 19) continue;
        for (int i = 0; i < 3; i++) out->err = out->err * 3 + (answers[i] != -1);
    }
    out->want_ns = 0;
    note(out, "last=%d", errno);
    return 0;
}
static long stamp_of(struct outcome *out, unsigned long command, int64_t unit) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    bind(fd, (struct sockaddr *)&address, length);
    getsockname(fd, (struct sockaddr *)&address, &length);
    struct timespec stamp;
    long ret = ioctl(fd, command, &stamp); // no packet yet
    int64_t before = date_ns();
    char byte;
    sendto(fd, "x", 1, 0, (struct sockaddr *)&address, length);
    recv(fd, &byte, 1, 0);
    ret = ret * 10 + ioctl(fd, command, &stamp);
    out->note[0] = '\0';
    judge(out, before, stamp.tv_sec * S + stamp.tv_nsec * unit, unit);
    return ret;
}
static long run_stamp(struct outcome *out) { return stamp_of(out, SIOCGSTAMP_OLD, 1000); }
static long run_stampns(struct outcome *out) { return stamp_of(out, SIOCGSTAMPNS_OLD, 1); }
static long run_stamp_new(struct outcome *out) { return stamp_of(out, SIOCGSTAMP_NEW, 1000); }
static long run_stampns_new(struct outcome *out) { return stamp_of(out, SIOCGSTAMPNS_NEW, 1); }

#ifdef __x86_64__
// The functions are at fixed addresses, if the kernel has the page.
static int has_page(void) {
    char line[300];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, "[vsyscall]") != NULL;
    fclose(maps);
    return found;
}
static long run_vsyscall(struct outcome *out) {
    if (!has_page()) { out->want_ns = 0; return 0; }
    long (*its_time)(long *) = (void *)0xffffffffff600400;
    int (*its_day)(struct timeval *, void *) = (void *)0xffffffffff600000;
    int (*its_processor)(unsigned *, unsigned *, void *) = (void *)0xffffffffff600800;
    struct timeval day;
    unsigned processor = ~0u;
    int64_t before = date_ns();
    long second = its_time(NULL);
    long ret = its_day(&day, NULL) + its_processor(&processor, NULL, NULL);
    out->note[0] = '\0';
    judge(out, before, second * S, S);
    judge(out, before, day.tv_sec * S + day.tv_usec * 1000, 1000);
    return ret * 2 + (processor == ~0u);
}
#endif

static const struct test_case cases[] = {
    CASE(shared_memory), CASE(semaphores), CASE(messages), CASE(errors),
    CASE(stamp), CASE(stampns), CASE(stamp_new), CASE(stampns_new),
#ifdef __x86_64__
    CASE(vsyscall),
#endif
};
MAIN(cases)
