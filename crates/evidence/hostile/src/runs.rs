//! Results from a stranger: a run directory, finished or not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use timeloom_results::{ClockRow, EventRow, LabelRow, ResultsError, Row, RunDirectory, SignalRow};

/// A run directory with one file that a stranger wrote. It is opened, read and made whole;
/// nothing is read that is no row, and nothing beside the directory is touched.
///
/// Input: one byte, which file (of [`FILES`]); what it says.
pub(crate) fn directory(input: &[u8]) {
    let Some((which, content)) = input.split_first() else {
        return;
    };
    // One directory, written and read by one thread at a time.
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

fn rows<R: Row>(run: &RunDirectory) -> u64 {
    let mut count = 0;
    let _: Result<(), ResultsError> = run.for_each(|_: R| {
        count += 1;
        Ok(())
    });
    count
}

/// What a run consists of.
const FILES: [&str; 10] = [
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
];

fn lay_out(place: &Path, file: &str, content: &[u8]) -> std::io::Result<()> {
    for name in FILES {
        match fs::remove_file(place.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // A run that goes on, or was killed, has a journal.
    fs::create_dir_all(place.join("journal"))?;
    fs::write(place.join("journal/lock"), "")?;
    fs::write(place.join(file), content)
}

/// A directory of this process's, for one at a time.
pub(crate) fn place() -> MutexGuard<'static, PathBuf> {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In memory, where there is such a place.
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

/// Removes what inputs wrote to. A fuzzer leaves one directory behind.
pub fn remove_directory() {
    let place = place();
    let _ = fs::remove_dir_all(&*place);
}
