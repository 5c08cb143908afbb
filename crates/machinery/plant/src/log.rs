//! Destination of a plant's standard output and error, and its last lines for error messages.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Destination of a plant's standard output and error.
#[derive(Clone)]
pub struct PlantLog {
    input: Arc<OwnedFd>,
    last_lines: LastLines,
}

/// Function that returns the last lines of a log.
pub(crate) type LastLines = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

impl PlantLog {
    /// Creates a log in a file, which must be open for reading and writing.
    ///
    /// # Errors
    /// Fails if no file descriptor is left.
    pub fn file(file: File) -> io::Result<Self> {
        let input = file.try_clone()?;
        Ok(Self::pipe(input.into(), move || log_tail(&file)))
    }

    /// Creates a log at the write end of a pipe. When `last_lines` is called, it must return lines
    /// that include every byte written before the call.
    pub fn pipe(
        input: OwnedFd,
        last_lines: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            input: Arc::new(input),
            last_lines: Arc::new(last_lines),
        }
    }

    /// Duplicates the descriptor to which the plant writes.
    pub(crate) fn input(&self) -> io::Result<OwnedFd> {
        self.input.try_clone()
    }

    pub(crate) fn last_lines(&self) -> &LastLines {
        &self.last_lines
    }
}

impl fmt::Debug for PlantLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlantLog({:?})", self.input)
    }
}

/// Returns the last lines of a log for an error message. If the log cannot be read, returns none,
/// because the error that is being reported is more important.
fn log_tail(log: &File) -> Vec<String> {
    // The file is read by position, because the plant's file offset must not change.
    let read = || -> io::Result<Vec<u8>> {
        let from = log.metadata()?.len().saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; TAIL_BYTES as usize];
        let length = log.read_at(&mut bytes, from)?;
        bytes.truncate(length);
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|line| line.to_string())
        .collect()
}

const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 10;
