//! Rows that the recorder accepted must be kept even if the disk was full at that time.

use std::path::Path;
use std::process::Command;

use timeloom_results::{Manifest, Outcome, RunDirectory, SignalRow};
use timeloom_test_support::Traces;
use timeloom_time::Instant;

fn mount(how: &[&str], path: &Path) {
    let done = Command::new("mount").args(how).arg(path).status();
    assert!(done.expect("there is mount").success(), "as root");
}

struct Disk<'a>(&'a Path);

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn sample(number: i64) -> SignalRow {
    SignalRow {
        t_virtual: Instant::from_ns(number),
        t_wall: Instant::from_ns(number),
        host: "local".into(),
        source: "plant".into(),
        name: "level".into(),
        value: number as f64,
        unit: "m".into(),
    }
}

#[test]
fn every_row_that_was_taken_is_there_once_there_is_room() {
    let place = tempfile::tempdir().unwrap();
    mount(
        &["-t", "tmpfs", "-o", "mode=755,size=2m", "tmpfs"],
        place.path(),
    );
    let disk = Disk(place.path());
    let traces = Traces::in_directory(place.path());
    let run = RunDirectory::create(place.path()).unwrap();
    run.set_room_aside().unwrap();
    let mut manifest = Manifest::begin("full", 1, Instant::from_ns(0), b"");
    run.write_manifest(&manifest).unwrap();
    let recorder = run.recorder().unwrap();
    let mut taken = 0;
    // Some rows are rejected, and none is accepted after the first rejection.
    let mut refused = 0;
    while refused < 10 {
        match recorder.signal(&sample(taken)) {
            Ok(()) => {
                assert_eq!(refused, 0, "a row after one that was refused");
                taken += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("make room"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(run.write_manifest(&manifest).is_err(), "it is full");
    run.use_room_aside().unwrap();
    recorder.flush().unwrap();
    let finished = recorder.finish();
    manifest.outcome = Outcome::Failed;
    run.write_manifest(&manifest).unwrap();
    drop(recorder);
    // The tables are built with or without enough space for them.
    mount(&["-o", "remount,size=64m"], place.path());
    if finished.is_err() {
        assert!(!run.is_finished());
        RunDirectory::recover(place.path()).unwrap();
    }
    let mut found = Vec::new();
    run.for_each(|row: SignalRow| {
        found.push(row.t_virtual.as_ns());
        Ok(())
    })
    .unwrap();
    assert_eq!(found, (0..taken).collect::<Vec<_>>());
    assert_eq!(run.manifest().unwrap().outcome, Outcome::Failed);
    drop(run);
    traces.assert_nothing_left();
    drop(disk);
}
