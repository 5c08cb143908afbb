//! Tests that the verdicts of a program's own seccomp filters are the same as natively.

use std::process::Command;

#[cfg(target_arch = "x86_64")]
use timeloom_guest::{ClockOptions, Tsc};
use timeloom_test_support::{find, need, need_root};

use crate::support::command_line::{CommandLine, User};
use crate::support::{Program, Scratch, World, c_program, c_program_static};

/// Returns true for cases with known differences.
fn is_known_to_differ(case: &str) -> bool {
    // In a session, a program's filter cannot have a listener, so the program's request for one is
    // refused at once. Natively an older filter, whose action takes precedence, would refuse it
    // first.
    let refused = ["eperm", "success", "large"];
    case.strip_suffix("_then_notify")
        .is_some_and(|case| refused.iter().any(|verdict| case.ends_with(verdict)))
}

fn compare(native: (Vec<String>, i32), guest: (Vec<String>, i32)) {
    let known = |line: &&String| !is_known_to_differ(line.split(' ').next().unwrap_or_default());
    let native_lines: Vec<_> = native.0.iter().filter(known).collect();
    let guest_lines: Vec<_> = guest.0.iter().filter(known).collect();
    let differ: Vec<_> = native_lines
        .iter()
        .zip(&guest_lines)
        .filter(|(native, guest)| native != guest)
        .collect();
    assert!(
        differ.is_empty(),
        "natively and under the clock: {differ:#?}"
    );
    assert_eq!(native_lines.len(), guest_lines.len());
    assert!(native_lines.len() > 5, "{native_lines:?}");
    assert_eq!((native.1, guest.1), (0, 0));
}

fn as_natively(cases: &str) {
    let argv = || [c_program("own_filter").into_os_string(), cases.into()];
    let native = Program::native(&argv()).finish();
    let world = World::new("own-filter", 2.0);
    compare(native, world.start(argv()).finish());
}

#[test]
fn each_verdict_is_as_natively() {
    as_natively("verdicts");
}

#[test]
fn verdicts_of_two_filters_are_as_natively() {
    as_natively("stacked");
}

#[test]
fn malformed_filters_are_refused_as_natively() {
    need_root();
    as_natively("shapes");
}

#[test]
fn filters_of_chance_decide_as_natively() {
    as_natively("chance");
}

#[test]
fn strict_mode_is_as_natively() {
    as_natively("strict");
}

#[test]
fn threads_children_and_later_traps_are_as_natively() {
    as_natively("others");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn verdicts_are_as_natively_where_the_counter_is_emulated() {
    let argv = || [c_program("own_filter").into_os_string(), "others".into()];
    let native = Program::native(&argv()).finish();
    let clock = ClockOptions {
        tsc: Tsc::Emulate,
        ..ClockOptions::default()
    };
    let world = World::with_clock("own-filter-tsc", clock);
    compare(native, world.start(argv()).finish());
}

#[test]
fn verdicts_are_as_natively_without_root() {
    need_root();
    for cases in ["verdicts", "strict", "others"] {
        let line = CommandLine::new("own-filter", User::Nobody);
        let program = line.scratch.copy(&c_program("own_filter"));
        let native = Program::native(&[program.clone().into_os_string(), cases.into()]).finish();
        let mut running = line.exec([
            "--quiet".as_ref(),
            "--dilate".as_ref(),
            "2".as_ref(),
            "--".as_ref(),
            program.as_os_str(),
            cases.as_ref(),
        ]);
        let status = running.wait();
        let output = line.output();
        // The session's reports of ends by a filter appear between the program's lines.
        let lines = output.lines().filter(|line| line.contains(" ret="));
        compare(native, (lines.map(str::to_owned).collect(), status));
        line.assert_nothing_left();
    }
}

/// The calls that prepare a new program are made in it, although its own filter forbids them.
#[test]
fn a_program_executed_under_a_narrow_filter_comes_under_the_clock() {
    let argv = || [c_program_static("confined_exec")];
    let native = Program::native(&argv().map(Into::into)).finish();
    assert_eq!(native.1, 0, "{native:?}");
    for dilation in [1.0, 3.0] {
        let world = World::new("confined-exec", dilation);
        assert_eq!(world.start(argv()).finish(), native);
        let warnings = world.warnings.lock().expect("no panic while held");
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn an_end_by_a_filter_is_reported_with_its_call() {
    let world = World::new("own-filter-end", 1.0);
    let argv = [c_program("own_filter").into_os_string(), "others".into()];
    let (lines, _) = world.start(argv).finish();
    // Of the `late` cases, these have a filter that kills.
    let killed = lines.iter().filter(|line| line.contains("signal=31"));
    let killed = killed.filter(|line| line.starts_with("late_")).count();
    let warnings = world.warnings.lock().expect("no panic while held");
    let reports = warnings.iter().filter(|text| {
        text.contains("own_filter.dyna") && text.contains("called recvfrom, which its own")
    });
    assert!(killed > 0);
    const MOST: usize = 10;
    assert_eq!(reports.count(), killed.min(MOST), "{warnings:#?}");
    assert_eq!(world.session.explain_end(128 + libc::SIGSYS), None);
    // An end by SIGSYS that the session has not reported is explained as well.
    let other = World::new("own-filter-other", 1.0);
    let why = other.session.explain_end(128 + libc::SIGSYS);
    assert!(why.is_some_and(|why| why.contains("ended by SIGSYS")));
}

/// The kernel does not accept longer filters.
#[test]
fn filters_of_almost_every_length_are_installed() {
    const LENGTHS: &str = "
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
def install(length):
    filter = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000) * length)
    program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', length, ctypes.addressof(filter)))
    result = libc.prctl(22, 2, program)
    return result or 0 if result == 0 else ctypes.get_errno()
print([install(length) for length in (1, 2, 3900, 4096, 4097)])
";
    let argv = ["python3", "-c", LENGTHS].map(std::ffi::OsString::from);
    let native = Program::native(&argv).finish();
    assert_eq!(native, (vec![format!("[0, 0, 0, 0, {}]", libc::EINVAL)], 0));
    let world = World::new("filter-lengths", 1.0);
    let limited = format!("[0, 0, 0, {}, {}]", libc::ENOMEM, libc::EINVAL);
    assert_eq!(world.start(argv).finish(), (vec![limited], 0));
}

#[test]
fn a_program_that_is_confined_already_is_not_brought_in() {
    let mut program = Command::new("python3")
        .args([
            "-c",
            "
import ctypes, struct, time
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
filter = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(filter)))
assert libc.prctl(22, 2, program) == 0
print('confined', flush=True)
time.sleep(600)",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("Python is there");
    let mut line = String::new();
    let stdout = program.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("it says");
    assert_eq!(line, "confined\n");
    let world = World::new("confined-register", 1.0);
    let refused = world.session.register(program.id() as i32);
    program.kill().expect("it lives");
    program.wait().expect("our child");
    let refused = refused
        .expect_err("its filter cannot be changed")
        .to_string();
    assert!(refused.contains("seccomp filter of its own"), "{refused}");
}

/// Runs a shell command natively and in a session. Checks that both succeed and print the same.
/// Returns the lines.
fn says_the_same(world: &World, command: &str) -> Vec<String> {
    let argv = ["sh", "-c", command].map(std::ffi::OsString::from);
    let native = Program::native(&argv).finish();
    assert_eq!(native.1, 0, "{command}: {native:?}");
    assert!(!native.0.is_empty(), "{command} says nothing");
    assert_eq!(world.start(argv).finish(), native, "{command}");
    let warnings = world.warnings.lock().expect("no panic while held");
    assert!(warnings.is_empty(), "{command}: {warnings:?}");
    native.0
}

/// `file` confines itself by a filter before it reads untrusted files.
#[test]
fn file_confines_itself() {
    let file = need("file", "file");
    let world = World::new("confined-file", 2.0);
    let help = says_the_same(&world, &format!("{} --help", file.display()));
    assert!(help.iter().any(|line| line.contains("--no-sandbox")));
    let command = format!("{} -b /bin/true /etc/passwd /dev/null", file.display());
    says_the_same(&world, &command);
}

/// A container tool installs a filter. The program in it sleeps (if the filter allows it), executes
/// another program and prints the time.
#[test]
fn bubblewrap_confines_its_program() {
    need_root();
    let bwrap = need("bwrap", "bubblewrap").display().to_string();
    let scratch = Scratch::new("bwrap");
    let [load, refuse] = [(0x20, 0, 0, 0), (0x06, 0, 0, 0x0005_000d_u32)];
    let is_call = |number: i64| (0x15, 0, 1, number as u32);
    let allow = (0x06, 0, 0, libc::SECCOMP_RET_ALLOW);
    let filter = |calls: &[i64]| -> Vec<u8> {
        let tests = calls.iter().flat_map(|&call| [is_call(call), refuse]);
        let steps = [load].into_iter().chain(tests).chain([allow]);
        steps
            .flat_map(|(code, then, otherwise, k): (u16, u8, u8, u32)| {
                let [low, high] = code.to_ne_bytes();
                let [a, b, c, d] = k.to_ne_bytes();
                [low, high, then, otherwise, a, b, c, d]
            })
            .collect()
    };
    let world = World::new("confined-bwrap", 2.0);
    let inside = "sleep 0.1; echo slept $?; kill -SYS $$ 2>&1; date +%s > /dev/null; echo $?";
    for (calls, expected) in [
        (&[libc::SYS_umask][..], "slept 0"),
        (&[libc::SYS_clock_nanosleep, libc::SYS_nanosleep], "slept 1"),
        (&[libc::SYS_rt_sigpending, libc::SYS_ppoll], "slept 0"),
    ] {
        let path = scratch.path("filter");
        std::fs::write(&path, filter(calls)).expect("a new file");
        let confined = format!(
            "{bwrap} --dev-bind / / --seccomp 9 sh -c 'trap : SYS; {inside}' 2>&1 9<{}",
            path.display()
        );
        let said = says_the_same(&world, &confined);
        assert!(said.iter().any(|line| line == expected), "{said:?}");
    }
}

/// A time daemon is confined as by Debian, and more strictly. It runs as a server, and as a client
/// that queries it, with packet timestamps and timeouts.
#[test]
fn chronyd_confines_itself() {
    need_root();
    let chronyd = chronyd().display().to_string();
    let scratch = Scratch::new("confined-chronyd");
    let place = scratch.path("").display().to_string();
    let common = "'port 0' 'cmdport 0' 'bindcmdaddress /'";
    for (level, dilation) in [(1, 2.0), (2, 1.0), (1, 0.5)] {
        let script = format!(
            "unshare --net sh -c \"ip link set lo up; \
             {chronyd} -x -d -u root -F {level} -t 40 'local stratum 8' 'allow' 'port 123' \
             'cmdport 0' 'bindcmdaddress /' 'pidfile {place}/server' >{place}/server.log 2>&1 & \
             {chronyd} -Q -u root -F {level} -t 30 'server 127.0.0.1 iburst' {common} \
             'pidfile {place}/client' 2>&1; kill \\$!; wait\"; cat {place}/server.log"
        );
        let world = World::new("confined-chronyd", dilation);
        let argv = ["bash", "-c", &script].map(std::ffi::OsString::from);
        let (said, _) = world.start(argv).finish();
        let has = |text: &str| said.iter().filter(|line| line.contains(text)).count();
        let loaded = has(&format!("Loaded seccomp filter (level {level})"));
        assert_eq!((loaded, has("System clock wrong by")), (2, 1), "{said:#?}");
        let warnings = world.warnings.lock().expect("no panic while held");
        let by_filter = warnings.iter().find(|text| text.contains("seccomp filter"));
        assert_eq!(by_filter, None);
    }
}

/// Returns the path of chronyd: the installed one, or the one unpacked by `scripts/chronyd`.
fn chronyd() -> std::path::PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
    let unpacked = std::path::Path::new(root).join(".tools/chrony/usr/sbin/chronyd");
    find("chronyd").unwrap_or(unpacked)
}
