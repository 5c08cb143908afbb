// All ways to set the machine's clock, by five seconds or, if a call offers no choice, by zero.
// None may affect the machine.
#include "common.h"
#include <sys/time.h>
#include <sys/timex.h>

int main(void) {
    struct timespec later = spec(clock_ns(CLOCK_REALTIME) + 5 * S);
    struct timeval day = { later.tv_sec, 0 };
    struct timex none = { .modes = 0 }, read_back = { .modes = 0 };
    char text[300] = "";
#define TRY(call) do { \
        errno = 0; \
        long ret_ = (call); \
        size_t used_ = strlen(text); \
        snprintf(text + used_, sizeof text - used_, "%s%ld/%d", used_ ? "," : "", ret_ < 0 ? ret_ : 0, ret_ < 0 ? errno : 0); \
    } while (0)
    TRY(adjtimex(&none)); // reads
    TRY(clock_adjtime(CLOCK_REALTIME, &read_back));
    TRY(clock_settime(CLOCK_REALTIME, &later));
    TRY(settimeofday(&day, NULL));
    struct timex frequency = { .modes = ADJ_FREQUENCY, .freq = none.freq };
    TRY(adjtimex(&frequency));
    struct timex offset = { .modes = ADJ_SETOFFSET | ADJ_NANO, .time = { 5, 0 } };
    TRY(clock_adjtime(CLOCK_REALTIME, &offset));
    struct timex tick = { .modes = ADJ_TICK, .tick = none.tick };
    TRY(syscall(SYS_adjtimex, &tick));
    struct timeval slew = { 0, 1 };
    TRY(adjtime(&slew, NULL));
    say("%s\n", text);
    say("clock=%lld\n", (long long)clock_ns(CLOCK_REALTIME));
    return 0;
}
