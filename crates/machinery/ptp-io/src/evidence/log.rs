//! Writer of evidence lines.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::EvidenceLine;
use crate::PtpError;

/// Function that formats a line.
type Format = fn(&EvidenceLine) -> String;

/// Writer that formats and writes lines in a thread of its own, so that neither formatting nor a
/// slow disk delays a Sync.
#[derive(Debug)]
pub struct LineWriter {
    lines: Option<Sender<(EvidenceLine, Format)>>,
    thread: Option<JoinHandle<()>>,
}

impl LineWriter {
    /// Creates a log file at `path` that its owner and group can read.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, PtpError> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o640);
        Self::to(BufWriter::new(
            options.open(path).map_err(PtpError::file(path))?,
        ))
    }

    /// Creates a writer to standard output.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn stdout() -> Result<Self, PtpError> {
        Self::to(std::io::stdout())
    }

    fn to(output: impl Write + Send + 'static) -> Result<Self, PtpError> {
        let (lines, queue) = channel();
        let thread = Builder::new()
            .name("ptp-log".to_owned())
            .spawn(move || write_lines(&queue, output))
            .map_err(PtpError::doing("start a thread"))?;
        Ok(Self {
            lines: Some(lines),
            thread: Some(thread),
        })
    }

    /// Returns a sink for [`super::Evidence`] that writes JSON.
    pub fn json(&self) -> impl FnMut(&EvidenceLine) + Send + use<> {
        self.sink(|line| serde_json::to_string(line).expect("lines are plain data"))
    }

    /// Returns a sink that writes readable text, without lines that only a log needs.
    pub fn text(&self) -> impl FnMut(&EvidenceLine) + Send + use<> {
        self.sink(EvidenceLine::to_string)
    }

    fn sink(&self, format: Format) -> impl FnMut(&EvidenceLine) + Send + use<> {
        let lines = self.lines.clone();
        move |line| {
            if let Some(lines) = &lines {
                let _ = lines.send((line.clone(), format));
            }
        }
    }
}

fn write_lines(queue: &Receiver<(EvidenceLine, Format)>, mut file: impl Write) {
    while let Ok(first) = queue.recv() {
        for (line, format) in std::iter::once(first).chain(queue.try_iter()) {
            let text = format(&line);
            // A write error is ignored. The truncated file shows what could be written.
            if !text.is_empty() {
                let _ = writeln!(file, "{text}");
            }
        }
        let _ = file.flush();
    }
}

impl Drop for LineWriter {
    /// Waits until all lines are written. All sinks must have been dropped before.
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
