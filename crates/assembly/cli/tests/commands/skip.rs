//! Tests of `time.mode = "skip"`: the run must take as long as its computing, and its programs must
//! not be able to detect that.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use timeloom_results::RunDirectory;

#[test]
fn hello_is_the_same_and_time_was_skipped() {
    let directory = std::env::temp_dir().join(format!("timeloom-skip-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args([
            "run",
            "examples/hello/hello.toml",
            "--set",
            "time.mode=skip",
            "--set",
            "time.duration=60 s",
            "-o",
        ])
        .arg(&directory)
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let log = fs::read_to_string(directory.join("logs/greet.log")).unwrap();
    // If Python starts slowly, the first virtual seconds pass during its start.
    let greeted: Vec<bool> = (0..60)
        .map(|second| log.contains(&format!("00:00:{second:02} here")))
        .collect();
    assert!(
        greeted[59] && greeted.is_sorted(),
        "a second is missing in:\n{log}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let manifest = RunDirectory::open(&directory).unwrap().manifest().unwrap();
    assert_eq!(manifest.virtual_duration.as_s_f64(), 60.0);
    // The greeter sleeps for a second at a time, and nothing else takes time. Only if the machine
    // were too busy to skip at all would the run take as long in wall time.
    assert!(
        manifest.wall_duration < manifest.virtual_duration,
        "nothing was skipped: {:?} of wall time",
        manifest.wall_duration
    );
    fs::remove_dir_all(&directory).unwrap();
}

/// `exec --dilate` must accept the same ends of the range as `timeloom dilate`.
#[test]
fn a_program_may_begin_with_no_dilation_or_a_boundless_one() {
    let timeloom = || Command::new(env!("CARGO_BIN_EXE_timeloom"));
    let skipping = timeloom()
        .args(["exec", "--dilate", "0", "--", "sleep", "864000"])
        .output()
        .unwrap();
    assert!(skipping.status.success(), "{skipping:?}");

    let name = format!("boundless-{}", std::process::id());
    let mut standing = timeloom()
        .args(["exec", "--dilate", "inf", "--name", &name, "--", "true"])
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = timeloom().args(["resume", "--name", &name]).output();
        if answer.unwrap().status.success() {
            break;
        }
        assert!(Instant::now() < deadline, "it cannot be resumed");
        assert!(standing.try_wait().unwrap().is_none(), "it did not stand");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(standing.wait().unwrap().success());

    let refused = timeloom()
        .args(["exec", "--dilate", "nan", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// When a wait's deadline has passed, the kernel ends the wait after the thread's timer slack of
/// real time, here 20 ms. Time must not advance meanwhile, however the supervisor finds out that
/// all threads sleep.
#[test]
fn a_wait_ends_at_its_deadline_with_a_late_timer_of_the_kernel() {
    let program = "
import ctypes, threading, time
PR_SET_TIMERSLACK = 29
assert ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 20_000_000, 0, 0, 0) == 0
lock = threading.Lock()
lock.acquire()
for _ in range(20):
    begin = time.monotonic_ns()
    lock.acquire(timeout=0.005)
    print(time.monotonic_ns() - begin)
";
    for bpf in ["on", "off"] {
        let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(["exec", "--quiet", "--skip", "--compute", "none", "--"])
            .args(["python3", "-c", program])
            .env("TIMELOOM_BPF", bpf)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let took = String::from_utf8_lossy(&output.stdout);
        assert_eq!(took, "5000000\n".repeat(20), "with BPF {bpf}");
    }
}
