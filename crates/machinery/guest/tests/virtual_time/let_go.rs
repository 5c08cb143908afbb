//! Tests of attached programs that are released again: their waits, timers and clocks are then the
//! machine's, and they outlive the session.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use timeloom_guest::ClockOptions;

use crate::support::{PATIENCE, Program, World, c_program, c_program_static, pipe};

/// Wall seconds per virtual second in these sessions.
const DILATION: f64 = 300.0;
/// Waits of a second each. They begin when the program sees that it is in a session.
const WAITS: [&str; 10] = [
    "nanosleep",
    "absolute",
    "poll",
    "ppoll",
    "select",
    "condition",
    "socket",
    "civil",
    "timerfd",
    "epoll",
];

struct Ward {
    program: Program,
    orders: fs::File,
    pid: i32,
    posix_timers: bool,
}

impl Ward {
    fn start(path: std::path::PathBuf, posix_timers: bool) -> Self {
        let (read, write) = pipe();
        let mut argv = vec![path.into()];
        argv.extend((!posix_timers).then(|| "without POSIX timers".into()));
        let mut program = Program::native_reading(&argv, read.into());
        program.wait_for("ready");
        Self {
            pid: program.native_pid(),
            program,
            orders: write.into(),
            posix_timers,
        }
    }

    /// Requests a report from the program, and returns it.
    fn report(&mut self) -> BTreeMap<String, i64> {
        self.orders.write_all(b"\n").expect("it reads");
        let line = self
            .program
            .wait_for_line(|line| line.starts_with("report "));
        let pairs = line.split(' ').filter_map(|word| word.split_once('='));
        pairs
            .map(|(key, value)| (key.to_owned(), value.parse().expect("a number")))
            .collect()
    }
}

fn world(theme: &str) -> World {
    let clock = ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        dilation: DILATION,
        ..ClockOptions::default()
    };
    World::with_clock(theme, clock)
}

fn machine_ns(clock: libc::clockid_t) -> i64 {
    // SAFETY: plain data, written by the kernel.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut now);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }
}

/// Checks that the program's clocks are the machine's, and that all its calls work. Returns the
/// number of expirations of the timer that the program does not read in between.
fn lives_in_real_time(ward: &mut Ward) -> i64 {
    let clocks = [
        ("realtime", libc::CLOCK_REALTIME),
        ("monotonic", libc::CLOCK_MONOTONIC),
        ("called", libc::CLOCK_MONOTONIC),
        ("boottime", libc::CLOCK_BOOTTIME),
    ];
    let before = clocks.map(|(_, clock)| machine_ns(clock));
    let report = ward.report();
    for ((name, clock), before) in clocks.into_iter().zip(before) {
        let (shown, after) = (report[name], machine_ns(clock));
        assert!(
            (before..=after).contains(&shown),
            "{name}: {before} {shown} {after}"
        );
    }
    assert_ne!(report["year"], 2019);
    let least = [("slept", 20), ("forked", 50), ("executed", 50)];
    for (name, ms) in least {
        let lasted = report[name];
        let in_the_session = ms * DILATION as i64;
        assert!(
            (ms * 1_000_000..in_the_session * 1_000_000).contains(&lasted),
            "{name}: {report:?}"
        );
    }
    assert_eq!((report["known"], report["made"]), (1, 1), "{report:?}");
    assert_eq!(report["alarms"], 1, "{report:?}");
    if ward.posix_timers {
        assert_eq!(report["posix"], 42, "{report:?}");
        assert!(report["ticks"] >= 5, "{report:?}");
    }
    // The timer expires ten times a second, and the next expiration comes when it is due. In the
    // session it would come after thirty seconds of the machine.
    assert!(report["tick"] < 30_000_000_000, "{report:?}");
    report["unread"]
}

/// Checks that no process related to the program is left, in particular no escort.
fn no_process_is_left(pid: i32) {
    let sign = format!("timeloom-released-{pid} ");
    let holds = |entry: &fs::DirEntry| {
        let entries = fs::read_dir(entry.path().join("fd"));
        let mut links = entries.into_iter().flatten().flatten();
        links.any(|link| {
            fs::read_link(link.path()).is_ok_and(|to| format!("{} ", to.display()).contains(&sign))
        })
    };
    let begun = Instant::now();
    loop {
        let all = fs::read_dir("/proc").expect("it is there").flatten();
        let Some(one) = all.into_iter().find(holds) else {
            return;
        };
        assert!(begun.elapsed() < PATIENCE, "{:?} stays", one.path());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns true if the kernel can create timers with chosen identifiers (Linux 6.15).
fn kernel_keeps_timer_numbers() -> bool {
    const PR_TIMER_CREATE_RESTORE_IDS: libc::c_int = 77;
    const GET: libc::c_ulong = 2;
    // SAFETY: the call is a query that changes nothing.
    unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, GET, 0, 0, 0) >= 0 }
}

fn is_let_go(theme: &str, path: std::path::PathBuf, paused: bool) {
    let world = world(theme);
    let mut ward = Ward::start(path, kernel_keeps_timer_numbers());
    world.session.register(ward.pid).expect("a program of ours");
    let begun = Instant::now();
    ward.program.wait_for("in");
    assert!(world.pids().contains(&ward.pid));
    // The program is now in the middle of its waits.
    std::thread::sleep(Duration::from_millis(900));
    if paused {
        world.session.pause().expect("pausing");
    }
    let used = begun.elapsed().div_f64(DILATION);
    let let_go = Instant::now();
    world
        .session
        .unregister(ward.pid)
        .expect("it is ours to let go");
    assert!(!world.pids().contains(&ward.pid));
    let again = world.session.unregister(ward.pid).expect_err("it is gone");
    assert!(
        again
            .to_string()
            .contains("was not brought into this session"),
        "{again}"
    );
    let mut over = Vec::new();
    while over.len() < WAITS.len() {
        let line = ward.program.wait_for_line(|line| line.ends_with(" over"));
        let name = line.trim_end_matches(" over").to_owned();
        let after = let_go.elapsed();
        // The rest of each wait passes in real time. In the session, the second would have lasted
        // five minutes, for which no test waits.
        let least = if name == "civil" {
            Duration::ZERO
        } else {
            Duration::from_secs(1).saturating_sub(used)
        };
        assert!(
            after >= least,
            "{name} was over after {after:?}, before {least:?}"
        );
        over.push(name);
    }
    over.sort();
    let mut expected = WAITS.map(str::to_owned);
    expected.sort();
    assert_eq!(over, expected);
    ward.program.wait_for("socket again");
    let unread = lives_in_real_time(&mut ward);
    // Two seconds have passed for the timer since it began, with ten expirations in each.
    assert!(unread >= 15, "{unread}");
    let refused = world
        .session
        .register(ward.pid)
        .expect_err("once is enough");
    assert!(refused.to_string().contains("released"), "{refused}");
    // The session ends, which must not affect the program.
    drop(world);
    lives_in_real_time(&mut ward);
    let pid = ward.pid;
    let Ward {
        program, orders, ..
    } = ward;
    drop(orders);
    let (_, status) = program.finish();
    assert_eq!(status, 0);
    no_process_is_left(pid);
}

#[test]
fn a_program_is_let_go_with_its_waits_and_timers() {
    is_let_go("let-go", c_program("let_go"), false);
}

#[test]
fn a_static_program_is_let_go_from_a_paused_session() {
    is_let_go("let-go-paused", c_program_static("let_go"), true);
}

/// If only the kernel can choose the identifiers of timers, a program that has timers is not
/// released, and nothing happens to it.
#[test]
fn a_program_with_posix_timers_stays_where_it_could_not_keep_them() {
    assert!(
        !kernel_keeps_timer_numbers(),
        "this kernel lets programs keep their timers; `scripts/exclusions` excludes this test"
    );
    let world = world("not-let-go");
    let mut ward = Ward::start(c_program("let_go"), true);
    world.session.register(ward.pid).expect("a program of ours");
    ward.program.wait_for("in");
    let refused = world.session.unregister(ward.pid);
    let refused = refused.expect_err("it has timers").to_string();
    assert!(refused.contains("Linux 6.15"), "{refused}");
    assert!(world.pids().contains(&ward.pid));
    assert_eq!(ward.report()["year"], 2019);
    world.session.kill_all();
}

/// A shell and the processes that it has started in the session are released together.
#[test]
fn child_processes_are_released_with_their_program() {
    let world = world("let-go-children");
    let script = "echo ready; while [ $(date +%Y) != 2019 ]; do sleep 0.01; done; \
        (sleep 1; echo child $(date +%Y)) & sleep 1; echo parent $(date +%Y); wait; \
        while read line; do date +%s; done; echo end";
    let (read, write) = pipe();
    let mut program = Program::native_reading(&["sh", "-c", script].map(Into::into), read.into());
    program.wait_for("ready");
    let pid = program.native_pid();
    world.session.register(pid).expect("a program of ours");
    let begun = Instant::now();
    let sleeping = || {
        let names: Vec<String> = world
            .session
            .processes()
            .expect("they can be looked at")
            .into_iter()
            .map(|process| process.name)
            .collect();
        // With fewer processes, the loop would still execute programs.
        names.iter().filter(|name| *name == "sleep").count() == 2
    };
    while !sleeping() {
        assert!(
            begun.elapsed() < PATIENCE,
            "{:?}",
            world.session.processes()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    world.session.unregister(pid).expect("it is ours to let go");
    assert_eq!(world.pids(), Vec::<i32>::new());
    drop(world);
    let mut lines = [program.next_line(), program.next_line()];
    lines.sort();
    assert!(
        lines[0].starts_with("child ") && !lines[0].ends_with("2019"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("parent ") && !lines[1].ends_with("2019"),
        "{lines:?}"
    );
    let mut orders: fs::File = write.into();
    for _ in 0..3 {
        let before = machine_ns(libc::CLOCK_REALTIME) / 1_000_000_000;
        orders.write_all(b"\n").expect("it reads");
        let shown: i64 = program.next_line().parse().expect("seconds");
        let after = machine_ns(libc::CLOCK_REALTIME) / 1_000_000_000;
        assert!(
            (before..=after).contains(&shown),
            "{before} {shown} {after}"
        );
    }
    drop(orders);
    let (lines, status) = program.finish();
    assert_eq!((lines.last().map(String::as_str), status), (Some("end"), 0));
    no_process_is_left(pid);
}
