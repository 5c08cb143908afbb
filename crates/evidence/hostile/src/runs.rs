//! Untrusted input of results: the directory of a finished or unfinished run.

use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use timeloom_results::report::{Panel, PanelSignal, ReportRun, ReportSpec, RunKind, render};
use timeloom_results::{ClockRow, EventRow, LabelRow, ResultsError, Row, RunDirectory, SignalRow};

/// Tests a run directory in which one file is untrusted. The directory is opened, read and
/// completed. No invalid row may be read, and nothing outside of the directory may change.
///
/// Input: one byte for the index in [`FILES`]; then the contents.
pub(crate) fn directory(input: &[u8]) {
    let Some((which, content)) = input.split_first() else {
        return;
    };
    // All inputs use one directory, so that only one thread writes and reads it at a time.
    let place = place();
    let file = FILES[usize::from(*which) % FILES.len()];
    lay_out(&place, file, content).expect("there is room for a small file");
    if let Ok(run) = RunDirectory::open(&*place) {
        let _ = (run.manifest(), run.checks(), run.signal_names());
        let (_, _) = (run.series(&["*"]), run.series(&["p.v"]));
        rows::<SignalRow>(&run);
        rows::<EventRow>(&run);
        rows::<ClockRow>(&run);
        rows::<LabelRow>(&run);
        let _ = run.labels();
    }
    if file.starts_with("journal/")
        && let Ok((run, told)) = RunDirectory::recover(&*place)
    {
        let mut kept = 0;
        kept += rows::<SignalRow>(&run) + rows::<EventRow>(&run);
        kept += rows::<ClockRow>(&run) + rows::<LabelRow>(&run);
        assert!(run.is_finished());
        assert_eq!(kept, told.rows, "what was made whole is read");
    }
}

/// Tests the report about such a run. It must be drawn for any contents, with untrusted text
/// escaped.
///
/// Input: as for [`directory`]. The run also contains a network and its signals.
pub(crate) fn report(input: &[u8]) {
    let Some((which, content)) = input.split_first() else {
        return;
    };
    let place = place();
    let file = FILES[usize::from(*which) % FILES.len()];
    lay_out(&place, file, content).expect("there is room for a small file");
    if file == NETWORK {
        fs::write(place.join("journal/signals.jsonl"), OF_NETWORK).expect("there is room");
    }
    let spec = ReportSpec {
        title: "A stranger's".to_owned(),
        runs: vec![ReportRun {
            directory: place.clone(),
            label: "one".to_owned(),
            kind: RunKind::Attack,
        }],
        panels: vec![Panel {
            signals: vec![PanelSignal {
                name: "v".to_owned(),
                legend: String::new(),
            }],
            ..Panel::default()
        }],
        ..ReportSpec::default()
    };
    let page = render(&spec);
    for tag in ["<script", "<img", "<iframe", "<object", "<link"] {
        assert!(!page.contains(tag), "{tag} in {page}");
    }
}

const NETWORK: &str = "topology.json";

/// Recorded signals of a link and of a flow.
const OF_NETWORK: &str = r#"[0,0,"","net","link.l.load",0.5,"1"]
[1000000,0,"","net","link.l.load",0.7,"1"]
[0,0,"","net","link.l.loss",0.1,"share"]
[0,0,"","net","flow.f.throughput",1000000,"bit/s"]
"#;

fn rows<R: Row>(run: &RunDirectory) -> u64 {
    let mut count = 0;
    let _: Result<(), ResultsError> = run.for_each(|_: R| {
        count += 1;
        Ok(())
    });
    count
}

/// Names of a run's files.
const FILES: [&str; 11] = [
    "manifest.json",
    "checks.json",
    "journal/signals.jsonl",
    "journal/events.jsonl",
    "journal/clock.jsonl",
    "journal/labels.jsonl",
    "signals.parquet",
    "events.parquet",
    "clock.parquet",
    "labels.parquet",
    NETWORK,
];

fn lay_out(place: &Path, file: &str, content: &[u8]) -> std::io::Result<()> {
    for name in FILES {
        match fs::remove_file(place.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // A run that is in progress, or was killed, has a journal.
    fs::create_dir_all(place.join("journal"))?;
    fs::write(place.join("journal/lock"), "")?;
    fs::write(place.join(file), content)
}

/// Returns the directory of this process, locked for one thread.
pub(crate) fn place() -> MutexGuard<'static, PathBuf> {
    PLACE.lock()
}

/// The directory is in memory if the machine has such a file system.
static PLACE: LazyLock<Mutex<PathBuf>> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let base = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let place = base.join(format!("timeloom-hostile-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a place for a small file");
    Mutex::new(place)
});

/// Removes the directory. A fuzzer does not call this, and leaves one directory behind.
pub fn remove_directory() {
    let place = place();
    let _ = fs::remove_dir_all(&*place);
}
