//! Tests that `/proc/uptime` and `/proc/stat` show the time of the clocks that programs read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use timeloom_guest::{ClockOptions, Host, HostTarget, run_hosts_until};
use timeloom_test_support::{need, need_root};
use timeloom_time::{Duration, Instant};

use crate::support::command_line::{CommandLine, User, eventually, processes_of, shell};
use crate::support::{Program, World, c_program};

/// Checks that programs see virtual files. Without root or FUSE they see the machine's, which
/// another test covers.
///
/// # Panics
/// Panics if they see the machine's. `scripts/exclusions` excludes such tests in that case.
pub(crate) fn need_files(world: &World) {
    let missing = world.session.machine_files();
    assert!(missing.is_none(), "{missing:?}");
}

/// Starts the test program that compares the files with the clocks.
fn comparing(world: &World, host: Option<Arc<Host>>, virtual_ms: &str) -> Program {
    let argv = [c_program("uptime").into_os_string(), virtual_ms.into()];
    let mut program = world.start_on(host, argv);
    program.wait_for("begun");
    program
}

fn expect_right(program: Program) {
    let (lines, status) = program.finish();
    let last = lines.last().map(String::as_str);
    assert_eq!((last, status), (Some("wrong=0 "), 0), "{lines:?}");
}

/// Returns the seconds since boot, as a program of `host` reads them from `/proc/uptime`.
fn uptime_on(world: &World, host: Option<&Arc<Host>>) -> f64 {
    let (lines, status) = world
        .start_on(host.cloned(), ["cat", "/proc/uptime"])
        .finish();
    assert_eq!(status, 0, "{lines:?}");
    first_number(&lines[0])
}

fn first_number(text: &str) -> f64 {
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    word.parse()
        .unwrap_or_else(|_| panic!("`{text}` does not begin with a number"))
}

fn machine_uptime() -> f64 {
    first_number(&fs::read_to_string("/proc/uptime").expect("/proc"))
}

const START: &str = "2019-06-03T00:00:00Z";
const START_NS: i64 = 1_559_520_000_000_000_000;

pub(crate) fn dated() -> ClockOptions {
    ClockOptions {
        start: Some(Instant::from_ns(START_NS)),
        ..ClockOptions::default()
    }
}

/// The session is paused hundreds of times in the middle of reads. Each pause must succeed, and no
/// read may fail or be wrong.
#[test]
fn the_files_follow_pauses_and_changes_of_rate() {
    let world = World::with_clock("files-storm", dated());
    need_files(&world);
    let program = comparing(&world, None, "1500");
    let factors = [5.0, 0.5, 1.0, 0.125, 20.0];
    for turn in 0..200 {
        world.pause_for(StdDuration::from_micros(300 * (turn % 3)));
        std::thread::sleep(StdDuration::from_micros(500 * (turn % 5)));
        if turn % 8 == 0 {
            let factor = factors[turn as usize / 8 % factors.len()];
            world.session.dilate(factor).expect("a possible factor");
        }
    }
    world.session.dilate(1.0).expect("a possible factor");
    expect_right(program);
}

/// Stops processes while many of them read the files at the same time.
#[test]
fn many_readers_stand_at_each_pause() {
    let world = World::new("files-readers", 1.0);
    need_files(&world);
    let programs: Vec<Program> = (0..6).map(|_| comparing(&world, None, "800")).collect();
    for _ in 0..60 {
        let at = world.session.pause().expect("all stand");
        assert_eq!(world.session.clock().now(), at);
        world.session.resume().expect("resuming");
    }
    programs.into_iter().for_each(expect_right);
}

#[test]
fn each_host_has_its_own() {
    let world = World::new("files-hosts", 1.0);
    need_files(&world);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let far_alone = std::slice::from_ref(&far);
    world
        .session
        .pause_hosts(far_alone)
        .expect("pausing a host");
    std::thread::sleep(StdDuration::from_millis(1200));
    world.session.resume_hosts(far_alone).expect("resuming");
    let behind = || {
        let (_, times) = world.session.clock().host_times();
        let its = times.iter().find(|time| time.host.name() == "far");
        its.expect("a host of ours").behind.as_s_f64()
    };
    // The time between the two readings makes the difference smaller, never larger.
    let apart = uptime_on(&world, Some(&near)) - uptime_on(&world, Some(&far));
    assert!(apart <= behind() + 0.02, "{apart} of {}", behind());
    let apart = -(uptime_on(&world, Some(&far)) - uptime_on(&world, Some(&near)));
    assert!(apart >= behind() - 0.02, "{apart} of {}", behind());

    world
        .session
        .dilate_hosts(far_alone, 4.0)
        .expect("a factor");
    let (one, other) = (
        comparing(&world, Some(far), "400"),
        comparing(&world, Some(near), "400"),
    );
    expect_right(one);
    expect_right(other);
}

/// Lets a host run up to an instant, at which it stops.
#[test]
fn a_step_shows_in_the_files() {
    let world = World::new("files-step", 1.0);
    need_files(&world);
    let host = world.add_host("stepped");
    let before = uptime_on(&world, Some(&host));
    let hosts = [Arc::clone(&host)];
    world.session.dilate_hosts(&hosts, 0.01).expect("a factor");
    let target = HostTarget::After(Duration::from_s(20));
    run_hosts_until(&Arc::downgrade(&world.session), &hosts, target).expect("twenty seconds");
    world.session.dilate_hosts(&hosts, 1.0).expect("a factor");
    world.session.resume_hosts(&hosts).expect("resuming");
    let passed = uptime_on(&world, Some(&host)) - before;
    assert!(passed >= 19.98, "{passed}");
}

/// Nothing of the file system is visible outside, and the machine's own files stay as they are.
#[test]
fn the_machine_sees_nothing_of_it() {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let namespace = || fs::metadata("/proc/self/ns/mnt").expect("/proc").ino();
    let before = namespace();
    let world = World::with_clock(
        "files-outside",
        ClockOptions {
            dilation: 0.01,
            ..dated()
        },
    );
    need_files(&world);
    let mut program = world.start([
        "sh",
        "-c",
        "while read -r up rest < /proc/uptime; do [ ${up%.*} -gt 2 ] && break; done; \
         grep -c timeloom /proc/self/mountinfo; exec sleep 3600",
    ]);
    assert_eq!(program.next_line(), "2", "two files");
    let there = format!("/proc/{}/ns/mnt", program.guest().pid());
    assert_ne!(fs::metadata(there).expect("it lives").ino(), before);
    assert_eq!(namespace(), before);
    assert!(!mounts().contains("timeloom"), "{}", mounts());
    let (wall, shown) = (std::time::Instant::now(), machine_uptime());
    let inside = uptime_on(&world, None);
    std::thread::sleep(StdDuration::from_millis(100));
    assert!(
        uptime_on(&world, None) - inside > 9.0,
        "a hundred times faster"
    );
    let passed = machine_uptime() - shown;
    assert!(passed <= wall.elapsed().as_secs_f64() + 0.01, "{passed}");
}

/// Common tools must show the same uptime: by file, by clock, and by the language's function. Boot
/// time must be the present time minus uptime.
#[test]
fn languages_and_tools_agree() {
    let world = World::with_clock("files-tools", dated());
    need_files(&world);
    world.pause_for(StdDuration::from_millis(300));
    let script = "import os, time\n\
        boot = [int(l.split()[1]) for l in open('/proc/stat') if l.startswith('btime ')]\n\
        up = float(open('/proc/uptime').read().split()[0])\n\
        clock = time.clock_gettime(time.CLOCK_BOOTTIME)\n\
        print(abs(clock - up) < 5, abs(time.time() - clock - boot[0]) < 5, open('/proc/uptime').isatty())";
    let (lines, _) = world.start(["python3", "-c", script]).finish();
    assert_eq!(lines, ["True True False"]);
    need("uptime", "procps");
    let (lines, _) = world.start(["sh", "-c", "TZ=UTC uptime -s"]).finish();
    // The boot time is 2019-06-03 00:00:00 minus the machine's uptime at the start.
    let days = (machine_uptime() / 86_400.0) as i64;
    let day = lines[0].split(' ').next().unwrap_or_default();
    let possible = [days, days + 1].map(|back| {
        let (out, _) = world
            .start([
                "date",
                "-u",
                "-d",
                &format!("2019-06-03 -{back} days"),
                "+%F",
            ])
            .finish();
        out[0].clone()
    });
    assert!(
        possible.iter().any(|one| one == day),
        "{day} of {possible:?}"
    );
}

/// With default options, the ages of processes are those shown by the machine.
#[test]
fn ages_of_processes_are_right_in_real_time() {
    need("ps", "procps");
    let world = World::new("files-ages", 1.0);
    let own = std::process::id().to_string();
    let ask = ["-o", "etimes=", "-p", &own];
    let age = |text: &str| text.trim().parse::<i64>().expect("a number");
    let outside = || {
        let output = std::process::Command::new("ps").args(ask).output();
        age(&String::from_utf8_lossy(
            &output.expect("running ps").stdout,
        ))
    };
    let before = outside();
    let (lines, _) = world.start(["ps"].iter().chain(&ask)).finish();
    // The kernel truncates in one case and ps in the other, so the ages may differ by a second.
    assert!(
        (before - 1..=outside() + 1).contains(&age(&lines[0])),
        "{lines:?} after {before}"
    );
}

/// A program that reads the file continuously is not blocked by a dead supervisor: its read then
/// fails.
#[test]
fn a_dead_supervisor_lets_readers_go() {
    let _turn = timeloom_test_support::orphans_turn();
    let line = CommandLine::new("files-orphan", User::Same);
    let argv = [c_program("uptime").into_os_string(), "for-ever".into()];
    let mut running = line.exec(["--".into()].into_iter().chain(argv));
    eventually("the program", || line.output().contains("begun\n"));
    assert!(
        !line.output().contains("show the machine's"),
        "{}",
        line.output()
    );
    // SAFETY: the process is the reaper of a session of ours.
    assert_eq!(unsafe { libc::kill(running.keeper(), libc::SIGKILL) }, 0);
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait(), 128 + libc::SIGKILL);
    eventually("the end of its reads", || {
        line.output().contains("failed errno=")
    });
    eventually("its end", || processes_of(&line.name).is_empty());
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(!mounts.contains("timeloom"), "{mounts}");
    let cleaned = line.command(["clean"]).output().expect("running timeloom");
    assert!(cleaned.status.success(), "{cleaned:?}");
    line.assert_nothing_left();
}

#[test]
fn a_killed_supervisor_leaves_no_reader_and_no_mount() {
    let line = CommandLine::new("files-killed", User::Same);
    let running = line.exec(shell(
        "for i in 1 2 3; do while :; do cat /proc/uptime /proc/stat; done > /dev/null & done; wait",
    ));
    line.wait_for_process("cat");
    line.ask(&["pause"]);
    line.ask(&["resume"]);
    running.signal(libc::SIGKILL);
    line.assert_nothing_left();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(!mounts.contains("timeloom"), "{mounts}");
}

/// On request, programs see the machine's files, in the machine's mount namespace.
#[test]
fn the_machines_files_can_be_asked_for() {
    let line = CommandLine::new("files-machine", User::Same);
    let mut running = line.exec(
        [
            "--start",
            START,
            "--proc",
            "machine",
            "--report-leaks",
            "--",
        ]
        .iter()
        .chain(&[
            "sh",
            "-c",
            "readlink /proc/self/ns/mnt; grep btime /proc/stat",
        ]),
    );
    assert_eq!(running.wait(), 0);
    let output = line.output();
    let own = fs::read_link("/proc/self/ns/mnt").expect("/proc");
    let stat = fs::read_to_string("/proc/stat").expect("/proc");
    let boot = stat.lines().find(|line| line.starts_with("btime"));
    for expected in [own.to_str(), boot, Some("boot time, as asked for")] {
        let expected = expected.expect("it is text");
        assert!(output.contains(expected), "{expected} in {output}");
    }
    assert_eq!(
        output.matches("as asked for").count(),
        1,
        "only in the report: {output}"
    );
}

#[test]
fn without_root_the_files_are_the_machines_and_reported_as_such() {
    need_root();
    let line = CommandLine::new("files-nobody", User::Nobody);
    let mut running = line.exec(["--", "cat", "/proc/uptime"]);
    assert_eq!(running.wait(), 0);
    let output = line.output();
    let named = "/proc/uptime and /proc/stat show the machine's uptime and boot time: ";
    assert_eq!(output.matches(named).count(), 1, "{output}");
    let shown = output.lines().last().map(first_number).expect("a line");
    assert!(shown <= machine_uptime(), "{output}");
}
