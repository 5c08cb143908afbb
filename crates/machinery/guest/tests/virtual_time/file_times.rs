//! Tests of sessions that request dates of files by the host's clock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration as StdDuration;

use timeloom_guest::{ClockOptions, FileTimes, HostOptions};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_test_support::need;
use timeloom_time::{Duration, Instant};

use crate::support::command_line::{CommandLine, User};
use crate::support::{Differential, Scratch, World, c_program, c_program_static};

/// 2031-05-01, in seconds since 1970.
const LATER_S: i64 = 1_935_360_000;
/// 2019-05-01, in seconds since 1970.
const EARLIER_S: i64 = 1_556_668_800;

fn world(theme: &str, start_s: i64, files: FileTimes) -> World {
    let clock = ClockOptions {
        start: Some(Instant::from_ns(start_s * 1_000_000_000)),
        files,
        ..ClockOptions::default()
    };
    World::with_clock(theme, clock)
}

/// Covers every call that returns or sets a date, with virtual dates before and after the
/// machine's. If the session starts at the machine's own date, both are equal at first.
#[test]
fn each_call_shows_dates_by_the_clock_and_those_set_as_they_were_set() {
    let now_s = read_ns(ClockId::Realtime) / 1_000_000_000;
    for start_s in [LATER_S, EARLIER_S, now_s] {
        for program in [c_program("file_dates"), c_program_static("file_dates")] {
            let world = world("dates", start_s, FileTimes::Virtual);
            let machine_ns = (read_ns(ClockId::Realtime) + 2_000_000).to_string();
            let argv = [program.into_os_string(), machine_ns.into()];
            let (lines, status) = world.start(argv).finish();
            let last = lines.last().map(String::as_str);
            assert_eq!(
                (last, status),
                (Some("failed=0"), 0),
                "{start_s}: {lines:#?}"
            );
        }
    }
}

/// Calls that set dates behave as natively.
#[test]
fn dates_are_set_as_natively() {
    let programs = [c_program("files"), c_program_static("files")];
    let world = world("dates-set", LATER_S, FileTimes::Virtual);
    Differential::of(programs, 0).run(&world, |_| ());
}

const SHOW: &str = "import os, sys
for path in sys.argv[1:]: print(os.stat(path).st_mtime_ns, os.stat(path).st_ctime_ns)";

fn dates(world: &World, paths: &[&str]) -> Vec<i64> {
    let argv = [&["python3", "-c", SHOW], paths].concat();
    let (lines, status) = world.start(argv).finish();
    assert_eq!(status, 0, "{lines:?}");
    let words = lines.iter().flat_map(|line| line.split(' '));
    words.map(|word| word.parse().expect("a number")).collect()
}

/// Makes more changes of the clock (of the rate, and pauses) than a clock page remembers.
#[test]
fn a_date_stays_the_same_over_a_hundred_changes_of_rate() {
    let scratch = Scratch::new("dates-stay");
    let world = world("dates-stay", LATER_S, FileTimes::Virtual);
    let file = scratch.path("file");
    let file = file.to_str().expect("UTF-8");
    let before = scratch.path("before");
    let before = before.to_str().expect("UTF-8");
    let write = |what: &str| {
        let (lines, status) = world
            .start(["sh", "-c", &format!("echo x >> {what}")])
            .finish();
        assert_eq!(status, 0, "{lines:?}");
    };
    write(before);
    for change in 0..60 {
        world
            .session
            .dilate([0.5, 3.0][change % 2])
            .expect("a factor");
    }
    write(file);
    let first = dates(&world, &[file, before]);
    let start_ns = LATER_S * 1_000_000_000;
    assert!(
        first.iter().all(|date| (start_ns..).contains(date)),
        "{first:?}"
    );
    assert!(first[2] < first[0], "in their order: {first:?}");
    for change in 0..100 {
        world.pause_for(StdDuration::from_millis(2));
        world
            .session
            .dilate([0.25, 7.0, 1.0][change % 3])
            .expect("a factor");
    }
    assert_eq!(dates(&world, &[file, before]), first);
    let now = world
        .session
        .clock()
        .civil()
        .at(world.session.clock().now());
    write(file);
    let last = dates(&world, &[file, before]);
    assert!(last[0] + 20_000_000 >= now.as_ns(), "{last:?} {now:?}");
    assert_eq!(last[2..], first[2..]);
}

/// Without virtual dates, programs see the machine's dates. With them, they still see the machine's
/// dates of files that were written before the session.
#[test]
fn without_being_asked_for_and_of_older_files_dates_are_the_machines() {
    let scratch = Scratch::new("dates-machine");
    let path = scratch.path("file");
    fs::write(&path, "x").expect("there is room");
    let metadata = fs::metadata(&path).expect("it is there");
    let own = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    // The following code runs one kernel tick later.
    std::thread::sleep(StdDuration::from_millis(50));
    for files in [FileTimes::Virtual, FileTimes::Machine] {
        let world = world("dates-machine", LATER_S, files);
        let seen = dates(&world, &[path.to_str().expect("UTF-8")]);
        assert_eq!(seen[0], own, "{files:?}");
        let new = scratch.path("new");
        let new = new.to_str().expect("UTF-8");
        world
            .start(["sh", "-c", &format!("echo x > {new}")])
            .finish();
        let is_virtual = dates(&world, &[new])[0] >= LATER_S * 1_000_000_000;
        assert_eq!(is_virtual, files == FileTimes::Virtual, "{files:?}");
    }
}

/// Files of a host whose clock is behind have earlier dates.
#[test]
fn each_host_has_its_own_dates() {
    let scratch = Scratch::new("dates-hosts");
    let path = scratch.path("file");
    let path = path.to_str().expect("UTF-8");
    let world = world("dates-hosts", LATER_S, FileTimes::Virtual);
    let options = HostOptions {
        offset: Duration::from_s(-1000),
        ..HostOptions::default()
    };
    let behind = world
        .session
        .add_host("behind", &options)
        .expect("a host more");
    let script = format!(
        "echo x > {path}; python3 -c 'import os, time
s = os.stat(\"{path}\").st_mtime; print(0 <= time.time() - s < 100, s)'"
    );
    let age = |host| {
        let (lines, status) = world.start_on(host, ["sh", "-c", &script]).finish();
        assert_eq!(status, 0, "{lines:?}");
        assert!(lines[0].starts_with("True"), "{lines:?}");
    };
    age(None);
    age(Some(behind));
}

/// Script with make, tar, touch, cp and find, run while time skips.
const TOOLS: &str = r#"set -e
cd "$1"
echo a > src
printf 'out: src\n\tcp src out\n' > Makefile
sleep 100; make -s out
sleep 100; echo b > src
make -q out && echo not made anew
make -s out; make -q out && echo made
touch -d 2001-02-03T04:05:06Z old
tar cf all.tar src old; sleep 100; mkdir apart; tar xf all.tar -C apart
[ "$(stat -c %Y src)" = "$(stat -c %Y apart/src)" ] && echo unpacked
[ "$(stat -c %Y apart/old)" = 981173106 ] && echo old
sleep 100; echo c > late; touch now
echo newer $(find . -newer src -name '[ln]*' | sort)
cp -p src kept; [ "$(stat -c %y src)" = "$(stat -c %y kept)" ] && echo kept
age=$(( $(date +%s) - $(stat -c %Y src) )); [ $age -ge 200 ] && [ $age -lt 260 ] && echo age
ls -l --time-style=+%F late | cut -d' ' -f6"#;

#[test]
fn tools_that_compare_dates_are_right_in_time_that_skips() {
    need("make", "make");
    for (start, day) in [
        ("2031-05-01T12:00:00Z", "2031-05-01"),
        ("2019-05-01T12:00:00Z", "2019-05-01"),
    ] {
        let scratch = Scratch::new("dates-tools");
        let line = CommandLine::new("dates-tools", User::Same);
        let place = scratch.path("");
        let options = ["--skip", "--file-times", "virtual", "--start", start, "--"];
        let place = place.to_str().expect("UTF-8");
        let mut running = line.exec(options.iter().chain(&["sh", "-c", TOOLS, "sh", place]));
        let status = running.wait();
        let output = line.output();
        let expected = "made\nunpacked\nold\nnewer ./late ./now\nkept\nage\n";
        assert_eq!((output, status), (format!("{expected}{day}\n"), 0));
    }
}

/// Script of a service that logs around midnight, restarted before and after it. Its log must
/// rotate once.
const ROTATE: &str = r#"
import glob, logging, logging.handlers, os, sys, time
name = os.path.join(sys.argv[1], "app.log")
def handler():
    return logging.handlers.TimedRotatingFileHandler(name, when="midnight", utc=True, backupCount=9)
h = handler(); log = logging.getLogger("a"); log.setLevel(20); log.addHandler(h)
for i in range(12):
    log.info("line %d", i); time.sleep(10)
    if i in (2, 6, 8):
        log.removeHandler(h); h.close(); h = handler(); log.addHandler(h)
for f in sorted(glob.glob(name + "*")): print(os.path.basename(f), sum(1 for _ in open(f)))
"#;

#[test]
fn a_log_turns_at_the_virtual_midnight() {
    for day in ["2031-05-01", "2019-05-01"] {
        let scratch = Scratch::new("dates-log");
        let line = CommandLine::new("dates-log", User::Same);
        let start = format!("{day}T23:59:05Z");
        let options = ["--skip", "--file-times", "virtual", "--start", &start, "--"];
        let place = scratch.path("");
        let place = place.to_str().expect("UTF-8");
        let mut running = line.exec(options.iter().chain(&["python3", "-c", ROTATE, place]));
        let status = running.wait();
        let expected = format!("app.log 6\napp.log.{day} 6\n");
        assert_eq!((line.output(), status), (expected, 0));
    }
}
