//! Check of a process that runs a single test: its threads and descriptors.

use std::time::{Duration, Instant};

use crate::PATIENCE;

use crate::traces::processes::{numbers, open_files};

/// Threads and descriptors of this process, for a test that has the process for itself.
#[derive(Debug)]
pub struct WholeProcess {
    files: Vec<String>,
    threads: usize,
}

impl WholeProcess {
    /// Records the present threads and descriptors.
    #[must_use]
    pub fn now() -> Self {
        // The directory that is being read is open during the read, so it contains a link to
        // itself.
        let own = format!("/proc/{}/fd", std::process::id());
        let files = open_files("self").into_iter();
        let mut files: Vec<String> = files
            .map(|(_, target)| target.to_string_lossy().into_owned())
            .filter(|target| *target != own)
            .map(|target| kind(&target))
            .collect();
        files.sort();
        Self {
            files,
            threads: numbers("/proc/self/task").len(),
        }
    }

    /// Waits until the process has as many threads, and as many descriptors of each kind, as
    /// before, or fewer.
    ///
    /// # Panics
    /// Panics if it still has more after [`PATIENCE`].
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let begun = Instant::now();
        loop {
            let now = Self::now();
            let mut more = now.files.clone();
            for file in &self.files {
                if let Some(at) = more.iter().position(|it| it == file) {
                    more.swap_remove(at);
                }
            }
            if more.is_empty() && now.threads <= self.threads {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "left behind: {more:?}, {} threads where {} were",
                now.threads,
                self.threads
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the kind of a link's target, such as `socket` for `socket:[123]`.
fn kind(target: &str) -> String {
    let (kind, _) = target.split_once(":[").unwrap_or((target, ""));
    kind.to_owned()
}
