//! What happens to each system call that carries time, as a table for people:
//! `docs/coverage.md`, written from the filter's own data.

use crate::filter::{CALLS, EMULATING_TSC, Treatment, When};
use crate::supervise::clock_calls;
use crate::supervise::timer_calls;

const CPU_TIME: i64 = timeloom_page::CPU_TIME_CALL as i64;

/// The table in Markdown.
pub fn coverage() -> String {
    let mut text = String::from(
        "# What happens to each call\n\n\
         Written from the filter's table (`crates/machinery/guest/src/filter.rs`) by its test; calls that are not listed run natively.\n\
         The tests of `crates/machinery/guest/tests` run these calls natively and under the clock, paused in the middle, at several rates.\n\n\
         | call | when | what happens |\n|---|---|---|\n\
         | `clock_gettime`, `gettimeofday`, `time`, `clock_getres`, `getcpu`, `getrandom` | through the vDSO | answered by \
         the image that stands for the vDSO; CPU-time clocks divided by the dilation; hardware clocks (`/dev/ptpN`) as by `ioctl` |\n",
    );
    text.push_str(
        "| `rdtsc`, `rdtscp` (instructions) | with `--tsc emulate` | virtual, in the process, at the machine's frequency; \
         else the machine's, unseen |\n",
    );
    text.push_str(
        "| reads of `/proc/uptime`, `/proc/stat` | with root and FUSE | uptime and boot time of the host's clock, by a file system of \
         the supervisor; else the machine's, and said so ([limitations.md](limitations.md#files-that-tell-time)) |\n\
         | reads of `/proc/PID/stat` | never | start times are the machine's |\n",
    );
    for (number, name, treatment, when) in CALLS {
        text.push_str(&format!(
            "| `{name}` | {} | {} |\n",
            condition(*when),
            outcome(*number, name, *treatment)
        ));
    }
    for (_, name, ..) in EMULATING_TSC {
        text.push_str(&format!(
            "| `{name}` | with `--tsc emulate` | in the process: the program's SIGSEGV is kept apart from the image's |\n"
        ));
    }
    text.push_str(
        "| `recvmsg`, `recvmmsg` | after `SO_TIMESTAMP*` | stamps of the kernel are put onto the virtual CLOCK_REALTIME; \
         those of a card's own clock stay |\n\
         | `read`, `readv` | after `timerfd_settime` with `TFD_TIMER_CANCEL_ON_SET` | ECANCELED where the host's \
         CLOCK_REALTIME was set; else natively |\n\
         | `read`, `readv`, `recvfrom`, `recvmsg`, `recvmmsg`, `accept`, `accept4`, `connect`, `write`, `writev`, `sendto`, \
         `sendmsg`, `sendmmsg` | after `SO_RCVTIMEO`, `SO_SNDTIMEO` | sockets with a timeout: virtual, in the process; others \
         natively |\n",
    );
    text
}

fn condition(when: When) -> &'static str {
    match when {
        When::Always => "always",
        When::Given(_) => "with a timeout (or mask, or action)",
        When::EitherGiven(..) => "with a timeout or a signal mask",
        When::Positive(_) => "with a timeout",
        When::NotZero(_) | When::NotZeroOrGiven(..) => "when it may wait",
        When::Null(_) => "when set to now",
        When::FutexWait => "waits with a timeout",
        When::IntervalTimer | When::MayCancel | When::PosixTimer => "always",
        When::NotOfProcessor | When::OwnPosixTimer => {
            "but on processor time, where the kernel's timer serves"
        }
        When::HardwareClock => "`PTP_SYS_OFFSET`, `_EXTENDED`, `_PRECISE`, `…2`, `…_CYCLES`",
        When::TscControl => "about the time-stamp counter",
        When::SocketTime => "`SO_RCVTIMEO`, `SO_SNDTIMEO`, `SO_TIMESTAMP*`",
    }
}

fn outcome(number: i64, name: &str, treatment: Treatment) -> &'static str {
    match (treatment, number) {
        _ if SETS_NOW.contains(&name) => "\"now\" is the virtual time; times given stay",
        (Treatment::Trap, libc::SYS_ioctl) => {
            "stamps of the system's clocks are put onto the host's, those of the hardware clock onto true virtual time plus what it is ahead"
        }
        (Treatment::Ask, libc::SYS_timerfd_settime) => {
            "virtual, by the supervisor; with `TFD_TIMER_CANCEL_ON_SET` the calls below trap from then on in this process and what it starts"
        }
        (Treatment::Trap, libc::SYS_setsockopt) => {
            "the option is set; from then on the calls below trap in this process and what it starts"
        }
        (
            Treatment::Trap,
            libc::SYS_getrusage | libc::SYS_times | libc::SYS_wait4 | libc::SYS_waitid,
        ) => "processor time divided by the dilation, in the process",
        (Treatment::Trap, _) => "virtual, in the process",
        (Treatment::Refuse, _) => "ENOSYS, on which callers fall back",
        (Treatment::Ask, libc::SYS_execve | libc::SYS_execveat) => {
            "followed by the supervisor: the new program is prepared"
        }
        (Treatment::Ask, libc::SYS_clock_settime | libc::SYS_clock_adjtime) => {
            "acts on the clock of the guest's host, as the kernel would, by the supervisor; hardware clocks are not set: EOPNOTSUPP"
        }
        (Treatment::Ask, call) if clock_calls::is_one(call) => {
            "acts on the clock of the guest's host, as the kernel would, by the supervisor"
        }
        (Treatment::Ask, libc::SYS_setitimer | libc::SYS_getitimer) => {
            "virtual, by the supervisor; `ITIMER_VIRTUAL` and `ITIMER_PROF` divided by the dilation, in the process"
        }
        (Treatment::Ask, libc::SYS_timer_settime | libc::SYS_timer_gettime) => {
            "virtual, by the supervisor; on processor time divided by the dilation, in the process"
        }
        (Treatment::Ask, call) if timer_calls::is_one(call) => "virtual, by the supervisor",
        (Treatment::Ask, libc::SYS_io_uring_setup) => {
            "refused with ENOSYS, on which programs fall back, and reported; **with `--allow-leaks` done in real time**"
        }
        (Treatment::Ask, libc::SYS_sigaltstack) => {
            "refused with ENOMEM where two signals do not fit onto the stack, and reported"
        }
        (Treatment::Ask, CPU_TIME) => {
            "no call of programs: the image asks what a CPU clock shows after a change of rate"
        }
        (Treatment::Ask, _) => "**done in real time, and reported**",
    }
}

const SETS_NOW: [&str; 4] = ["utimensat", "utime", "utimes", "futimesat"];

#[cfg(test)]
mod matrix;

#[cfg(test)]
mod tests {
    /// The page lists the calls of x86-64; there are fewer elsewhere.
    /// `UPDATE=1 cargo test -p timeloom-guest coverage` writes the page anew.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "lists the calls of x86-64")]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/coverage.md");
        let expected = super::coverage() + &super::matrix::table();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            page, expected,
            "docs/coverage.md is not what the filter and the tests do; run with UPDATE=1"
        );
    }
}
