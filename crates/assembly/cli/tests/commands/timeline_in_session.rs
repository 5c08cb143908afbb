//! Timelines in virtual time: the daemon and its readers are programs of the same session.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, timeloom};

/// The reference is `date`, which shows true time in a session whose host's clock is right.
const SERVE: &str = "timeline serve plant --local --source 'system-clock,vouched_error=0 ns'";

/// Commands that read until the timeline has an interval.
const IN_STEP: &str =
    "until $T timeline read plant >$D/out 2>/dev/null; do kill -0 $P || exit 9; sleep 0.02; done";

/// Commands that print a reading between two readings of the date, as three lines.
const LOOK: &str = "date +%s%N; $T timeline read plant --json; date +%s%N";

/// Runs `timeloom exec` with these options, and in it a shell with `$T`, `$D` and a timeline.
fn session(scratch: &Scratch, name: &str, options: &[&str], then: &str) -> Command {
    let script = format!("$T {SERVE} & P=$!\n{IN_STEP}\n{then}\nkill $P; wait $P");
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command
        .args(["exec", "--quiet", "--name", name])
        .args(options)
        .args(["--", "sh", "-c", &script])
        .env("T", env!("CARGO_BIN_EXE_timeloom"))
        .env("D", scratch.path(""))
        .env("TIMELOOM_TIMELINES", scratch.path(""));
    command
}

/// Checks the readings in the output of [`LOOK`]. Each must be between the two dates, and its
/// interval must be far narrower than a pause. Returns the first date of each reading.
fn check(printed: &str) -> Vec<i64> {
    let lines: Vec<&str> = printed.lines().collect();
    let looks = lines.chunks(3).map(|look| {
        let [before, reading, after] = look else {
            panic!("{printed}")
        };
        let date = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{printed}"));
        let reading: serde_json::Value = serde_json::from_str(reading).expect("JSON");
        let end = |key: &str| reading[key].as_i64().unwrap_or_else(|| panic!("{printed}"));
        assert_eq!(reading["status"], "ok", "{printed}");
        assert!(end("earliest_ns") <= date(after), "ahead: {printed}");
        assert!(end("latest_ns") >= date(before), "behind: {printed}");
        assert!(
            end("latest_ns") - end("earliest_ns") < 50_000_000,
            "{printed}"
        );
        date(before)
    });
    looks.collect()
}

#[test]
fn a_timeline_advances_with_the_date_in_every_time_mode() {
    for (name, options) in [
        ("slow", ["--dilate", "4"]),
        ("fast", ["--dilate", "0.25"]),
        ("skipping", ["--skip", "--dilate=1"]),
        ("emulated", ["--tsc", "emulate"]),
    ] {
        let scratch = Scratch::new(&format!("timeline-{name}"));
        let name = format!("timeline-{name}-{}", std::process::id());
        let then = format!("{LOOK}; sleep 0.6; {LOOK}; sleep 0.6; {LOOK}");
        let ended = session(&scratch, &name, &options, &then).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {said}");
        let at = check(&String::from_utf8_lossy(&ended.stdout));
        assert_eq!(at.len(), 3);
        assert!(at[1] - at[0] >= 600_000_000 && at[2] - at[1] >= 600_000_000);
    }
}

#[test]
fn a_pause_is_invisible() {
    let scratch = Scratch::new("timeline-pause");
    let name = format!("timeline-pause-{}", std::process::id());
    let then = format!("{LOOK}; touch $D/first; until [ -e $D/go ]; do sleep 0.01; done; {LOOK}");
    let mut command = session(&scratch, &name, &["--dilate", "2"], &then);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    await_file(&scratch.path("first"));
    // Longer than the widest interval that is possible.
    for _ in 0..3 {
        let code = |verb| timeloom(&[verb, "--name", &name]).code;
        assert_eq!(code("pause"), Some(0));
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(code("resume"), Some(0));
    }
    std::fs::write(scratch.path("go"), "").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert_eq!(check(&String::from_utf8_lossy(&ended.stdout)).len(), 2);
}

#[test]
fn each_domain_refuses_the_others_pages_and_states_the_fix() {
    let scratch = Scratch::new("timeline-domain");
    let name = format!("timeline-domain-{}", std::process::id());
    let then = "touch $D/there; until [ -e $D/go ]; do sleep 0.01; done";
    let child = session(&scratch, &name, &[], then).spawn().unwrap();
    await_file(&scratch.path("there"));
    let directory = scratch.text("");
    let read = ["timeline", "read", "plant", "--directory", &directory];
    let outside = timeloom(&read);
    // The same, from another session.
    let exec = ["exec", "--quiet", "--", env!("CARGO_BIN_EXE_timeloom")];
    let elsewhere = timeloom(&[&exec[..], &read].concat());
    std::fs::write(scratch.path("go"), "").unwrap();
    assert!(wait(child).success());
    assert_eq!(outside.code, Some(1), "{}", outside.out);
    for part in [
        "virtual time",
        "lives outside",
        "run the program in that session",
    ] {
        assert!(outside.err.contains(part), "{}", outside.err);
    }
    assert_eq!(elsewhere.code, Some(1), "{}", elsewhere.out);
    assert!(
        elsewhere.err.contains("lives on host 0"),
        "{}",
        elsewhere.err
    );

    // The timeline is the machine's, and it is read in a session.
    let machine = Scratch::new("timeline-domain-machine");
    let mut daemon = Command::new("sh")
        .args(["-c", &format!("exec $T {SERVE}")])
        .env("T", env!("CARGO_BIN_EXE_timeloom"))
        .env("TIMELOOM_TIMELINES", machine.path(""))
        .spawn()
        .unwrap();
    let directory = machine.text("");
    let read = ["timeline", "read", "plant", "--directory", &directory];
    let deadline = Instant::now() + PATIENCE;
    while timeloom(&read).code != Some(0) {
        assert!(Instant::now() < deadline, "never synchronised");
    }
    let inside = timeloom(&[&exec[..], &read].concat());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(inside.code, Some(1), "{}", inside.out);
    for part in [
        "is the machine's",
        "run the timeline's daemon in the session",
    ] {
        assert!(inside.err.contains(part), "{}", inside.err);
    }
}

#[test]
fn a_step_of_the_hosts_clock_is_noticed() {
    let scratch = Scratch::new("timeline-step");
    let name = format!("timeline-step-{}", std::process::id());
    // In a session, root may set the clock of its host.
    let then = format!(
        "date -s @1900000000 >/dev/null; until $T timeline list --json | \
         grep -q '\"last_disturbance\":\"the system clock was set\"'; do sleep 0.02; done\n\
         {IN_STEP}\n{LOOK}"
    );
    let ended = session(&scratch, &name, &["--dilate", "2"], &then)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let at = check(&String::from_utf8_lossy(&ended.stdout));
    assert!(at[0] >= 1_900_000_000_000_000_000, "{at:?}");
}

/// A kernel whose TAI offset was never set reports 1 after a leap second. In a session, root may
/// set the offset of its host.
#[test]
fn a_wrong_tai_offset_of_the_kernel_is_in_no_reading() {
    const SET: &str = "python3 -c 'import ctypes, struct\n\
        timex = ctypes.create_string_buffer(208)\n\
        struct.pack_into(\"I\", timex, 0, 0x80)\n\
        struct.pack_into(\"q\", timex, 48, 1)\n\
        assert ctypes.CDLL(None).adjtimex(timex) >= 0'";
    let run = |name: &str, offset: &str, then: &str| {
        let scratch = Scratch::new(name);
        let source = "--source 'system-clock,vouched_error=0 ns'";
        let script =
            format!("{SET} || exit 9\n$T timeline serve plant {offset} {source} & P=$!\n{then}");
        let name = format!("{name}-{}", std::process::id());
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command
            .args([
                "exec", "--quiet", "--name", &name, "--", "sh", "-c", &script,
            ])
            .env("T", env!("CARGO_BIN_EXE_timeloom"))
            .env("D", scratch.path(""))
            .env("TIMELOOM_TIMELINES", scratch.path(""));
        let ended = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(ended.status.success(), "{out}{err}");
        (out, err)
    };
    // At this date the configured offset is possible, and the kernel's is not.
    let then = format!("{IN_STEP}\n{LOOK}\n$T timeline list; kill $P; wait $P");
    let (out, _) = run("tai-overruled", "--tai-offset-s 37", &then);
    let lines: Vec<&str> = out.lines().collect();
    let date = |line: &str| line.parse::<i64>().unwrap() + 37_000_000_000;
    let reading: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    let end = |key: &str| reading[key].as_i64().unwrap();
    assert!(end("earliest_ns") <= date(lines[2]), "{out}");
    assert!(end("latest_ns") >= date(lines[0]), "{out}");
    assert!(
        out.contains("warning: the kernel says that TAI is 1 s"),
        "{out}"
    );
    assert!(out.contains("the configuration 37 s"), "{out}");
    // If only the impossible offset is known, there must be no reading, but a reason.
    let then = "until $T timeline list | grep 'the last because'; do sleep 0.02; done\n\
        $T timeline read plant; [ $? = 1 ] || exit 8; kill $P; wait $P";
    let (_, err) = run("tai-refused", "", then);
    assert!(err.contains("the kernel says that TAI is 1 s"), "{err}");
}

fn await_file(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait(mut child: Child) -> std::process::ExitStatus {
    child.wait().unwrap()
}

const PATIENCE: Duration = Duration::from_secs(120);

/// A script that takes the place of the emulator prints its arguments.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_virtual_machine_in_a_session_is_given_timelines_where_the_counter_is_emulated() {
    const RUN: &str = "$T vm run --timeline plant -- printf '%s\\n'; echo code $?";
    let told = |name: &str, options: &[&str]| {
        let scratch = Scratch::new(name);
        let name = format!("{name}-{}", std::process::id());
        let output = session(&scratch, &name, options, RUN).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, err) = told("vm-emulated", &["--tsc", "emulate"]);
    for part in ["memdev=timeloom\n", "chardev=timeloom-port,", "code 0\n"] {
        assert!(out.contains(part), "{part} in {out}{err}");
    }
    // The arguments must have the host's clock page, or there must be a warning that it is not
    // available.
    let is_given = out.contains("ivshmem-plain,memdev=timeloom-clock\n");
    let is_missed = err.contains("CAP_CHECKPOINT_RESTORE");
    assert!(is_given != is_missed, "{out}{err}");
    let mut mapped = std::fs::read_dir("/proc/self/map_files")
        .into_iter()
        .flatten()
        .flatten();
    let may_open = mapped.any(|entry| std::fs::File::open(entry.path()).is_ok());
    assert!(is_given || !may_open, "{err}");
    let (out, err) = told("vm-native", &["--tsc", "native"]);
    assert!(out.contains("code 2\n"), "{out}{err}");
    assert!(err.contains("`tsc = \"emulate\"`"), "{err}");
}
