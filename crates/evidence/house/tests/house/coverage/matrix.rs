//! System calls that each test program makes, and conditions under which the tests run it. They
//! form the third table of `docs/coverage.md`.
//!
//! A program makes a call if its source names the call, or a function of the C library that makes
//! it. The conditions are those of the tests in `tests/virtual_time`, where every program is also
//! run natively for comparison; they are repeated here by hand, and the tests below detect a
//! program that is missing or is not run any more.

use std::fs;
use std::path::PathBuf;

use timeloom_abi::calls::{Extra, IMAGE_CALL, calls};

/// Test programs, and conditions under which their cases give the same results as natively.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "waits",
        &[
            PAUSED, "×1/10", "×1/5", "×2", "×10", CHANGED, STORM, HOST, MUSL,
        ],
    ),
    ("libc_waits", &[PAUSED, "×1/5", "×2", CHANGED, STORM, HOST]),
    (
        "queues",
        &[PAUSED, "×1/5", "×2", CHANGED, STORM, HOST, MUSL],
    ),
    (
        "posix_timers",
        &[PAUSED, "×1/5", "×2", CHANGED, STORM, HOST],
    ),
    ("late_timers", &["timers served late"]),
    ("orphan_timer", &["number used again"]),
    (
        "sockets",
        &[PAUSED, "×1/10", "×1/5", "×10", CHANGED, STORM, HOST, MUSL],
    ),
    ("blocked", &[PAUSED, "×1/5", "×2", CHANGED, STORM]),
    ("stamps", &[PAUSED, "×1/5", CHANGED, STORM, HOST, MUSL]),
    ("cpu_time", &[PAUSED, "×1/4", "×2", CHANGED, MUSL]),
    ("cpu_timers", &[PAUSED, "×1/4", "×2", CHANGED, MUSL]),
    ("clocks", &[PAUSED, CHANGED, STORM]),
    ("steer", &["as the kernel", CHANGED]),
    ("processes", &[PAUSED, STORM, MUSL]),
    ("signals", &[PAUSED]),
    ("masks", &[PAUSED, MUSL]),
    ("cancel", &[PAUSED]),
    ("early", &[PAUSED]),
    ("storm", &[CHANGED]),
    ("errors", &[NATIVE]),
    ("files", &["another date", MUSL]),
    ("file_dates", &["another date"]),
    ("phc", &[NATIVE, "with a device (`make test-phc`)"]),
    ("set_time", &["as the kernel"]),
    ("unhandled", &["refused"]),
    ("named", &["reported"]),
    ("dates", &["another date", "×1/4"]),
    ("time_namespaces", &["refused"]),
    ("sigsys", &[PAUSED, "×1/5", "×2", CHANGED]),
    ("epolls", &[PAUSED, "×1/5", STORM, MUSL]),
    ("tsc", &[PAUSED, "×1/5", "×2", CHANGED, MUSL]),
    ("let_go", &["released from the session"]),
    ("small_stack", &["small signal stack"]),
    ("uptime", &[PAUSED, CHANGED, STORM, HOST, "another date"]),
    ("vdso", &["another date"]),
    ("own_filter", &["×2", "without root"]),
    ("confined_exec", &["×3"]),
    ("memory", &[PAUSED, "×2", "another date"]),
    ("sanitized", &["×2"]),
    ("year", &["another date"]),
    ("busy", &["another date"]),
];
const NATIVE: &str = "native errors";
const PAUSED: &str = "paused";
const CHANGED: &str = "rate changed";
const STORM: &str = "many pauses";
const HOST: &str = "host alone";
const MUSL: &str = "musl";

/// Functions of the C library, with the system calls that they make.
const WRAPPERS: &[(&str, &[&str])] = &[
    (
        "futex",
        &[
            "pthread_cond_timedwait",
            "pthread_cond_clockwait",
            "sem_timedwait",
            "sem_clockwait",
            "pthread_mutex_clocklock",
            "pthread_timedjoin_np",
        ],
    ),
    ("rt_sigtimedwait", &["sigtimedwait", "sigwaitinfo"]),
    ("rt_sigprocmask", &["sigprocmask", "pthread_sigmask"]),
    ("rt_sigaction", &["sigaction", "signal"]),
    ("rt_sigsuspend", &["sigsuspend"]),
    ("rt_sigpending", &["sigpending"]),
    ("pselect6", &["pselect"]),
    (
        "execve",
        &["execv", "execl", "execlp", "posix_spawn", "system", "popen"],
    ),
    ("execveat", &["fexecve"]),
    ("utimensat", &["futimens"]),
    ("mq_timedsend", &["mq_timedsend"]),
    ("adjtimex", &["ntp_adjtime", "adjtime"]),
    ("syslog", &["klogctl"]),
    ("prlimit64", &["setrlimit"]),
    ("recvfrom", &["recv"]),
    ("sendto", &["send"]),
];

/// Returns the table in Markdown.
pub(super) fn table() -> String {
    let mut text = String::from(
        "\n# Tests of each call\n\n\
         Each test program is run natively and under the clock; in virtual time it must return the same results and take the same time. The \
         conditions are: *paused*: for a second, in the middle of the call; *×1/5*: the clock at a fifth of the speed; \
         *rate changed*: in the middle of the call; *many pauses*: hundreds of short ones; *host alone*: the program's host is \
         paused, dilated and stepped while the session continues; *musl*: also with musl's C library; *native errors*: \
         invalid arguments give the same errno as natively; *as the kernel*: compared with the kernel's own clock. Programs in \
         Go, Java, JavaScript, Python, Rust and shell, and redis, nginx, curl and sqlite are tested in addition.\n\n\
         | call | test programs | conditions |\n|---|---|---|\n",
    );
    let sources: Vec<(&str, String)> = PROGRAMS
        .iter()
        .map(|(program, _)| {
            (
                *program,
                fs::read_to_string(source(program)).unwrap_or_default(),
            )
        })
        .collect();
    let always = calls()
        .filter(|call| call.treatment.is_some() && call.number() != Some(IMAGE_CALL as u32))
        .map(|call| (call.name, None));
    // These calls trap only if a process has requested a timeout or timestamps.
    let on_demand = calls()
        .filter(|call| call.treatment.is_none() && !call.on_demand.is_empty())
        .map(|call| {
            let by_sockets = !call.is_for(Extra::Signals);
            (call.name, by_sockets.then_some(["sockets", "stamps"]))
        });
    for (call, only) in always.chain(on_demand) {
        let makers: Vec<&str> = sources
            .iter()
            .filter(|(program, source)| {
                let tells_of_steps = *program == "steer" && matches!(call, "read" | "readv");
                only.is_none_or(|only| only.contains(program) || tells_of_steps)
                    && makes(source, call)
            })
            .map(|(program, _)| *program)
            .collect();
        let mut places: Vec<&str> = Vec::new();
        for (_, conditions) in PROGRAMS.iter().filter(|(name, _)| makers.contains(name)) {
            for condition in *conditions {
                if !places.contains(condition) {
                    places.push(condition);
                }
            }
        }
        let list = |items: &[&str]| {
            if items.is_empty() {
                "—".to_owned()
            } else {
                items.join(", ")
            }
        };
        text.push_str(&format!(
            "| `{call}` | {} | {} |\n",
            list(&makers),
            list(&places)
        ));
    }
    text
}

/// Returns true if a source names the call, either as a word before a parenthesis or as `SYS_…`.
fn makes(source: &str, call: &str) -> bool {
    let wrappers = WRAPPERS
        .iter()
        .find(|(name, _)| *name == call)
        .map_or(&[][..], |(_, wrappers)| wrappers);
    let called = |name: &str| {
        source
            .match_indices(&format!("{name}("))
            .any(|(at, _)| !source[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    };
    let by_number = source
        .match_indices(&format!("SYS_{call}"))
        .any(|(at, found)| {
            !source[at + found.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        });
    by_number || called(call) || wrappers.iter().any(|name| called(name))
}

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../machinery/guest/tests")
}

fn source(program: &str) -> PathBuf {
    tests().join("programs").join(format!("{program}.c"))
}

#[test]
fn every_test_program_is_in_the_table_and_is_run() {
    let mut programs: Vec<String> = fs::read_dir(tests().join("programs"))
        .expect("the programs")
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name().into_string().ok()?;
            name.strip_suffix(".c").map(str::to_owned)
        })
        .collect();
    programs.sort();
    let mut known: Vec<&str> = PROGRAMS.iter().map(|(program, _)| *program).collect();
    known.sort_unstable();
    assert_eq!(programs, known);
    let runs: String = fs::read_dir(tests().join("virtual_time"))
        .expect("the tests")
        .filter_map(|entry| fs::read_to_string(entry.expect("an entry").path()).ok())
        .collect();
    for program in known {
        // `signals.rs` passes the names of its programs as arguments; all names are in quotes.
        assert!(
            runs.contains(&format!("\"{program}\"")),
            "{program} is not run"
        );
    }
}

#[test]
fn a_call_is_a_word() {
    assert!(makes("x = poll(fds, 1, 5);", "poll"));
    assert!(!makes("x = ppoll(fds, 1, 5);", "poll"));
    assert!(makes("syscall(SYS_time, NULL)", "time"));
    assert!(!makes("syscall(SYS_times, NULL)", "time"));
    assert!(makes("sigwaitinfo(&set, NULL)", "rt_sigtimedwait"));
}
