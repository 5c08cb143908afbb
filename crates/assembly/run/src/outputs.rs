//! What programs print, and packets on recorded links, on the virtual clock.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use timeloom_fabric::{Capture as Recording, CaptureOptions, CapturedFrame, Fabric};
use timeloom_guest::Clock;
use timeloom_results::RunDirectory;
use timeloom_scenario::{Capture, Medium, Plan};
use timeloom_time::{Instant, Utc};

use crate::error::RunError;
use crate::record::Scribe;
use crate::verdict::Reporter;

/// Copies a program's output into `logs/NAME.log`, line by line with virtual
/// times, and remembers the last of it for `log:` readiness checks and for
/// messages about its death.
pub(crate) struct Log {
    tail: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Returns the log and the end of a pipe that the program writes to.
    pub(crate) fn open(
        directory: &RunDirectory,
        name: &str,
        clock: &Arc<Clock>,
        reporter: &Reporter,
    ) -> Result<(Self, OwnedFd), RunError> {
        let stamp = Arc::clone(clock);
        let mut writer = directory.log(name, move || stamp.now())?;
        let (mut output, input) = io::pipe()
            .map_err(|error| RunError::Start(format!("a pipe for the log of `{name}`: {error}")))?;
        let tail = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&tail);
        let (name, reporter) = (name.to_owned(), reporter.clone());
        let thread = std::thread::spawn(move || {
            let mut bytes = [0u8; 8192];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                remember(&seen, &bytes[..length]);
                if let Err(error) = writer.write_all(&bytes[..length]) {
                    reporter.failed("results", format!("writing the log of `{name}`: {error}"));
                    return;
                }
            }
        });
        Ok((
            Self {
                tail,
                thread: Some(thread),
            },
            input.into(),
        ))
    }

    /// Whether the program has printed `text` lately.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        !text.is_empty()
            && tail
                .windows(text.len())
                .any(|window| window == text.as_bytes())
    }

    /// The last lines, for a message about its death.
    pub(crate) fn last_lines(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Waits until everything printed is written. All writers must have ended.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn remember(tail: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    tail.extend_from_slice(bytes);
    let excess = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..excess);
}

/// How much of a program's output is kept in memory.
const TAIL_BYTES: usize = 64 * 1024;

/// Begins to record the plan's links. Each recording ends when it is dropped.
pub(crate) fn captures(
    plan: &Plan,
    fabric: &Fabric,
    directory: &RunDirectory,
    clock: &Arc<Clock>,
    start: Instant<Utc>,
    scribe: &Scribe,
) -> Result<BTreeMap<String, Recording>, RunError> {
    let mut recordings = BTreeMap::new();
    let is_real = |capture: &&Capture| {
        let link = plan.link_of(capture);
        link.is_none_or(|link| plan.medium(link) == Medium::Kernel)
    };
    for capture in plan.captures.iter().filter(is_real) {
        let [a, b] = &capture.link;
        let name = format!("{a}-{b}");
        let port = fabric
            .link_interface(a, b)
            .ok_or_else(|| RunError::Plan(format!("there is no link {name} to capture")))?;
        let mut file = directory.capture(&name, start)?;
        let (clock, scribe, link) = (Arc::clone(clock), scribe.clone(), name.clone());
        let mut failed = false;
        let sink = move |frame: CapturedFrame| {
            if failed {
                return;
            }
            if let Err(error) = file.packet(clock.at(frame.at), frame.at, &frame.bytes, None) {
                failed = true;
                scribe.event(
                    "local",
                    &link,
                    "error",
                    &format!("the capture ended: {error}"),
                );
            }
        };
        let recording = Recording::start_with(
            port.namespace,
            port.interface,
            CaptureOptions::default(),
            sink,
        )
        .map_err(|error| RunError::Start(format!("recording the link {name}: {error}")))?;
        recordings.insert(name, recording);
    }
    Ok(recordings)
}
