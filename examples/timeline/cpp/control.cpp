// A control loop at whole hundredths of a second of a timeline, and a timer.
//
//   c++ -std=c++17 -I crates/assembly/capi/include examples/timeline/cpp/control.cpp -L target/release -ltimeloom -o control
//   LD_LIBRARY_PATH=target/release ./control NAME
//
// The daemon: `timeloom timeline serve`.
#include <timeloom.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>

namespace {

void check(int result) {
    if (result != TIMELOOM_DONE) throw std::runtime_error(timeloom_last_error());
}

struct Close {
    void operator()(timeloom_timeline *timeline) const { timeloom_close(timeline); }
    void operator()(timeloom_timer *timer) const { timeloom_timer_cancel(timer); }
};

void count(int result, const timeloom_woken *woken, void *context) {
    if (result == TIMELOOM_DONE && woken->overshoot_ns >= 0)
        ++*static_cast<std::atomic<int> *>(context);
}

void run(const char *name) {
    timeloom_timeline *opened = nullptr;
    check(timeloom_open(name, nullptr, &opened));
    const std::unique_ptr<timeloom_timeline, Close> timeline(opened);

    constexpr std::int64_t period_ns = 10'000'000;
    timeloom_schedule schedule{period_ns, 0, std::numeric_limits<std::int64_t>::min()};
    timeloom_woken woken{};
    check(timeloom_wait_until_next_period(timeline.get(), &schedule, &woken));

    std::atomic<int> fired{0};
    timeloom_timer *started = nullptr;
    check(timeloom_timer_start(timeline.get(), woken.target_ns + period_ns / 2, period_ns, count, &fired, &started));
    std::unique_ptr<timeloom_timer, Close> timer(started);

    // On a busy machine the timer's thread may be late.
    for (int turn = 0; turn < 5 || (fired == 0 && turn < 2000); ++turn) {
        check(timeloom_wait_until_next_period(timeline.get(), &schedule, &woken));
        std::printf("turn %d: phase %lld ns, at least %lld ns late\n", turn,
                    static_cast<long long>(woken.target_ns % period_ns), static_cast<long long>(woken.overshoot_ns));
        if (woken.target_ns % period_ns != 0 || woken.stamp.earliest_ns < woken.target_ns)
            throw std::runtime_error("woken at another time");
    }
    timer.reset();  // No call is under way any more.
    std::printf("the timer fired %s\n", fired > 0 ? "between" : "never");
    if (fired == 0) throw std::runtime_error("the timer never fired");

    timeloom_stamp first{}, second{};
    check(timeloom_read_strict(timeline.get(), &first));
    check(timeloom_read_strict(timeline.get(), &second));
    if (second.estimate_ns <= first.estimate_ns) throw std::runtime_error("not strictly increasing");
    check(timeloom_sleep(timeline.get(), 1'000'000, nullptr));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: control NAME\n");
        return 2;
    }
    try {
        run(argv[1]);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
