//! Generator of `docs/coverage.md`: the treatment of each system call that carries time, from the
//! table from which the filter is made.

use timeloom_abi::calls::{CallCondition, Extra, IOCTLS, SOCKET_OPTIONS, calls};

/// Returns the text of `docs/coverage.md`, in Markdown.
fn coverage() -> String {
    let mut text = String::from(
        "# Treatment of calls and interfaces that carry time\n\n\
         To find out how Timeloom treats an interface that carries time, search this page for its name. The first table has the\n\
         system calls that Timeloom treats, the [second](#other-interfaces-that-carry-time) all other interfaces with time, and the\n\
         [third](#tests-of-each-call) the tests. Calls that are in neither of the first two tables run natively.\n\n\
         A test writes this page from the table of calls (`crates/machinery/abi/src/calls/table.rs`). Tests verify that the page\n\
         has all system calls, and all options of sockets that are reported. `ioctl` commands, netlink, `/proc` and `/sys` are\n\
         listed by hand, so some of these may be missing.\n\n\
         | call | condition | treatment |\n|---|---|---|\n\
         | `clock_gettime`, `gettimeofday`, `time`, `clock_getres`, `getcpu`, `getrandom` | through a vDSO, found by any method | answered by \
         the image in place of the vDSO; processor time is divided by the dilation; hardware clocks (`/dev/ptpN`) as for `ioctl` |\n",
    );
    text.push_str(
        "| `rdtsc`, `rdtscp` (instructions) | with `--tsc emulate` | virtual time, in the process, at the machine's frequency; \
         otherwise the machine's counter, not reported |\n",
    );
    text.push_str(
        "| reads of `/proc/uptime`, `/proc/stat` | with root and FUSE | uptime and boot time of the host's clock, by a file system of \
         the supervisor; otherwise the machine's, and reported ([limitations.md](limitations.md#files-with-times)) |\n\
         | reads of `/proc/PID/stat` | never | start times are the machine's |\n",
    );
    for call in calls().filter(|call| call.treatment.is_some()) {
        let (name, when, outcome) = (call.name, condition(call.when), call.outcome);
        text.push_str(&format!("| `{name}` | {when} | {outcome} |\n"));
    }
    for call in calls().filter(|call| call.emulating_tsc.is_some()) {
        let name = call.name;
        text.push_str(&format!(
            "| `{name}` | with `--tsc emulate` | in the process: the program's SIGSEGV is kept apart from the image's |\n"
        ));
    }
    let dated = calls().filter(|call| call.file_times.is_some());
    let names = dated.map(|call| format!("`{}`", call.name));
    text.push_str(&format!(
        "| {} | with `--file-times virtual` | dates that the kernel has set since the session began are converted to the host's \
         CLOCK_REALTIME; dates set by programs are kept |\n",
        names.collect::<Vec<_>>().join(", ")
    ));
    let carded = calls().filter(|call| call.with_card.is_some());
    let names = carded.map(|call| format!("`{}`", call.name));
    text.push_str(&format!(
        "| {} | on hosts with a network card of the model | executed, except for `/dev/ptp0`, which is the card's clock |\n",
        names.collect::<Vec<_>>().join(", ")
    ));
    for (extra, when, outcome) in ON_DEMAND {
        let calls = calls().filter(|call| call.is_for(*extra));
        let names: Vec<String> = calls.map(|call| format!("`{}`", call.name)).collect();
        text.push_str(&format!("| {} | {when} | {outcome} |\n", names.join(", ")));
    }
    text.push_str(&format!(
        "\nThe following commands and options act in real time, and are reported under these names ({} is refused): {}.\n",
        listed(
            IOCTLS
                .iter()
                .filter(|ioctl| ioctl.is_refused)
                .map(|ioctl| ioctl.name)
        ),
        listed(
            (IOCTLS.iter().map(|ioctl| ioctl.name))
                .chain(SOCKET_OPTIONS.iter().map(|option| option.name))
        ),
    ));
    text.push_str(&interfaces::table());
    text
}

/// Formats names as Markdown code. A repeated name appears once.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut list: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    list.dedup();
    list.join(", ")
}

fn condition(when: CallCondition) -> &'static str {
    match when {
        CallCondition::Always => "always",
        CallCondition::Given(_) => "if a timeout, mask, usage buffer or file is given",
        CallCondition::EitherGiven(..) => "with a timeout or a signal mask",
        CallCondition::Positive(_) => "with a timeout",
        CallCondition::NotZero(_) | CallCondition::NotZeroOrGiven(..) => "when it may wait",
        CallCondition::Null(_) => "if dates are set to \"now\"",
        CallCondition::FutexWait => "waits with a timeout",
        CallCondition::IntervalTimer | CallCondition::MayCancel | CallCondition::PosixTimer => {
            "always"
        }
        CallCondition::NotOfProcessor | CallCondition::OwnPosixTimer => {
            "except timers on processor time, which the kernel implements"
        }
        CallCondition::OneOf(..) => "commands that concern time, signals or filters",
        CallCondition::DeviceTime => {
            "`PTP_SYS_OFFSET`, `_EXTENDED`, `_PRECISE`, `…2`, `…_CYCLES`, `SIOCGSTAMP`, \
             `SIOCGSTAMPNS`, and the commands listed below"
        }
        CallCondition::KeptAction => "if an action is set, or for SIGSYS",
        CallCondition::SeccompOrTsc => "options that concern seccomp or the time-stamp counter",
        CallCondition::Range(..) => "if the range may include the clock page or the image",
        CallCondition::FixedRange => {
            "with `MAP_FIXED`, if the range may include the clock page or the image"
        }
        CallCondition::MovedRange => "if a range may include the clock page or the image",
        CallCondition::AdvisedRange(_) => {
            "`MADV_DONTFORK` and `MADV_GUARD_INSTALL`, if the range may include the clock page or the image"
        }
        CallCondition::NewTime(_) => "with `CLONE_NEWTIME`",
        CallCondition::NewTimeOrAny(_) => "into another time namespace",
        CallCondition::SocketTime => {
            "`SO_RCVTIMEO`, `SO_SNDTIMEO`, `SO_TIMESTAMP*`, and the options listed below"
        }
    }
}

/// Requests after which further calls trap: the request, its trigger, and the treatment of these
/// calls.
const ON_DEMAND: &[(Extra, &str, &str)] = &[
    (
        Extra::Stamps,
        "after `SO_TIMESTAMP*`",
        "stamps of the kernel are converted to the virtual CLOCK_REALTIME; those of a card's own \
         clock are kept",
    ),
    (
        Extra::Reads,
        "after `timerfd_settime` with `TFD_TIMER_CANCEL_ON_SET`",
        "ECANCELED if the host's CLOCK_REALTIME was set; otherwise natively",
    ),
    (
        Extra::Timeouts,
        "after `SO_RCVTIMEO`, `SO_SNDTIMEO`",
        "sockets with a timeout: virtual time, in the process; others natively",
    ),
    (
        Extra::Signals,
        "after the program has used SIGSYS in a mask or set a handler of it",
        "queries return the program's own settings",
    ),
];

mod interfaces;
mod matrix;

/// Compares the generated page with the file. The page lists the calls of x86-64; other
/// architectures have fewer. `UPDATE=1 cargo test -p timeloom-house coverage` rewrites the
/// file.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "lists the calls of x86-64")]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/coverage.md");
    let expected = coverage() + &matrix::table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        page, expected,
        "docs/coverage.md is out of date: it differs from the filter and the tests; run with UPDATE=1"
    );
}
