//! Tests of readers while the writer is stopped or killed in the middle of a publication.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{ID, segment};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::{PageReader, PageWriter};

/// Main function of the writer's process, which publishes as fast as it can. It is not a test.
#[test]
#[ignore = "run by the test below"]
fn publish_for_ever() {
    let Ok(path) = std::env::var("TIMELOOM_TEST_PAGE") else {
        return;
    };
    let writer =
        PageWriter::at_path(&PathBuf::from(path), ID, PageCounter::Monotonic, None).unwrap();
    for turn in (0..800i64).cycle() {
        writer.publish(&segment(turn * 1_000_000_000, turn * 1_000_000_000));
    }
}

fn spawn(path: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed_writer::publish_for_ever",
            "--ignored",
            "--nocapture",
        ])
        .env("TIMELOOM_TEST_PAGE", path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for_page(path: &std::path::Path) -> PageReader {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match PageReader::open_path(path) {
            Ok(reader) if reader.read_with(|| NOW).is_ok_and(|r| r.bounded) => return reader,
            _ => assert!(Instant::now() < deadline, "no page"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

const NOW: u64 = 900_000_000_000;

fn read_often(reader: &PageReader, when: &str) {
    for _ in 0..1_000 {
        let off = reader.read_with(|| NOW).unwrap().estimate_ns - NOW as i64;
        assert!(off.abs() < 10_000_000, "off by {off} ns {when}");
    }
}

#[test]
fn readers_do_not_notice_a_writer_stopped_or_killed_anywhere() {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("killed.{}", std::process::id()));
    for turn in 0..12u64 {
        // The page is new, so that the awaited publications are those of this writer.
        let _ = std::fs::remove_file(&path);
        let mut writer = spawn(&path);
        let reader = wait_for_page(&path);
        std::thread::sleep(Duration::from_micros(100 + turn * 37));
        // The writer is stopped at any point of its loop, the page is read, the writer is killed,
        // and the page is read again.
        let signal = |name: &str| {
            let sent = Command::new("kill")
                .args([name, &writer.id().to_string()])
                .status();
            assert!(sent.unwrap().success());
        };
        signal("-STOP");
        read_often(&reader, "while it is stopped");
        writer.kill().unwrap();
        writer.wait().unwrap();
        read_often(&reader, "after it was killed");
    }
    for extension in ["lock", "new"] {
        let _ = std::fs::remove_file(path.with_extension(extension));
    }
    std::fs::remove_file(path).unwrap();
}
