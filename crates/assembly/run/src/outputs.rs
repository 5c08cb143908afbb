//! Output of programs, and packets on recorded links, with virtual timestamps.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use timeloom_fabric::{Capture as Recording, CaptureOptions, CapturedFrame, Fabric, MacAddress};
use timeloom_guest::Clock;
use timeloom_results::{CutLog, LeftOut, Limited, LogWriter, RunDirectory};
use timeloom_scenario::{Capture, CapturedLink, Medium, Plan, TunnelEnd};
use timeloom_sys::rights::Rights;
use timeloom_time::{Instant, Utc};

use crate::error::RunError;
use crate::network;
use crate::record::Scribe;
use crate::spoofing::SpoofWatch;
use crate::verdict::Reporter;

/// Copies a program's output into `logs/NAME.log`, line by line with virtual times, and keeps the
/// last part in memory for `log:` readiness checks.
pub(crate) struct Log {
    output: Arc<Output>,
    thread: Option<JoinHandle<()>>,
}

/// Output of a program, and the part that was read.
pub(crate) struct Output {
    name: String,
    reporter: Reporter,
    pipe: PipeReader,
    written: Mutex<Written>,
}

struct Written {
    log: Box<dyn Write + Send>,
    tail: Vec<u8>,
}

/// Directory and size limit of the logs, with the parts left out of logs that are too long.
pub(crate) struct Logs<'a> {
    directory: &'a RunDirectory,
    limit: u64,
    /// Parts left out, by file.
    left_out: Mutex<Vec<(String, LeftOut)>>,
}

impl<'a> Logs<'a> {
    pub(crate) fn new(directory: &'a RunDirectory, plan: &Plan) -> Self {
        Self {
            directory,
            limit: plan.results.log_limit.as_bytes(),
            left_out: Mutex::default(),
        }
    }

    /// Returns the variable `TIMELOOM_FILES` with a directory that a program with these rights may
    /// write to; none if the program runs with Timeloom's own account.
    pub(crate) fn place(
        &self,
        name: &str,
        rights: Option<&Rights>,
    ) -> Result<Option<(&'static str, OsString)>, RunError> {
        let Some(account) = rights.and_then(Rights::account) else {
            return Ok(None);
        };
        let place = self
            .directory
            .place_for(name, account.user, account.group)?;
        Ok(Some(("TIMELOOM_FILES", place.into_os_string())))
    }

    /// Returns the logs that are not complete.
    pub(crate) fn cut(&self) -> Vec<CutLog> {
        let all = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let cut = all.iter().filter(|(_, left_out)| left_out.bytes() > 0);
        cut.map(|(log, left_out)| CutLog {
            log: log.clone(),
            left_out_bytes: left_out.bytes(),
        })
        .collect()
    }

    fn file(&self, name: &str) -> Result<Limited<File>, RunError> {
        let (file, name) = self.directory.log(name)?;
        let file = Limited::new(file, self.limit);
        let mut all = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name, file.left_out()));
        Ok(file)
    }
}

impl Log {
    /// Returns the log, whose lines have virtual times, and the end of a pipe that the program
    /// writes to.
    pub(crate) fn open(
        logs: &Logs<'_>,
        name: &str,
        clock: &Arc<Clock>,
        reporter: &Reporter,
    ) -> Result<(Self, OwnedFd), RunError> {
        let stamp = Arc::clone(clock);
        let file = LogWriter::new(logs.file(name)?, move || stamp.now());
        Self::copy(Box::new(file), name, reporter)
    }

    /// Variant of [`Self::open`] without virtual times.
    pub(crate) fn open_plain(
        logs: &Logs<'_>,
        name: &str,
        reporter: &Reporter,
    ) -> Result<(Self, OwnedFd), RunError> {
        Self::copy(Box::new(logs.file(name)?), name, reporter)
    }

    fn copy(
        log: Box<dyn Write + Send>,
        name: &str,
        reporter: &Reporter,
    ) -> Result<(Self, OwnedFd), RunError> {
        let (pipe, input) = io::pipe()
            .map_err(|error| RunError::Start(format!("a pipe for the log of `{name}`: {error}")))?;
        let output = Arc::new(Output {
            name: name.to_owned(),
            reporter: reporter.clone(),
            pipe,
            written: Mutex::new(Written {
                log,
                tail: Vec::new(),
            }),
        });
        let reader = Arc::clone(&output);
        let thread = std::thread::Builder::new()
            .spawn(move || while reader.read_more() {})
            .map_err(|error| RunError::Start(format!("a thread for a log: {error}")))?;
        Ok((
            Self {
                output,
                thread: Some(thread),
            },
            input.into(),
        ))
    }

    pub(crate) fn output(&self) -> &Arc<Output> {
        &self.output
    }

    /// Waits until everything printed is written. All writers must have ended.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Output {
    /// Reads and writes what was printed before the call; a failure ends the run.
    pub(crate) fn catch_up(&self) {
        if let Err(error) = self.try_to_catch_up() {
            let what = format!("writing the log of `{}`: {error}", self.name);
            self.reporter.failed("results", what);
        }
    }

    fn try_to_catch_up(&self) -> io::Result<()> {
        let mut written = self.lock();
        let mut left = ioctl_fionread(&self.pipe)?;
        let mut bytes = [0u8; 8192];
        while left > 0 {
            // This number of bytes is in the pipe, and there is no other reader.
            let most = left.min(bytes.len() as u64) as usize;
            let length = (&self.pipe).read(&mut bytes[..most])?;
            written.push(&bytes[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Returns up to this number of the last lines, for a message about the program's failure.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        let written = self.lock();
        let text = String::from_utf8_lossy(&written.tail);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(most)..];
        last.iter().map(|line| (*line).to_owned()).collect()
    }

    /// True if output exists that is not read yet, or not written.
    pub(crate) fn has_unread(&self) -> bool {
        let idle = self.written.try_lock();
        idle.is_err() || ioctl_fionread(&self.pipe).is_ok_and(|unread| unread > 0)
    }

    /// True if the program has printed `text` recently.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let tail = &self.lock().tail;
        !text.is_empty()
            && tail
                .windows(text.len())
                .any(|window| window == text.as_bytes())
    }

    /// Waits for more output; returns false at its end.
    fn read_more(&self) -> bool {
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        if poll(&mut ready, None).is_err_and(|error| error != Errno::INTR) {
            return false;
        }
        let events = ready[0].revents();
        self.catch_up();
        // Output written before the last writer closed its end has been read above.
        events.is_empty() || events.contains(PollFlags::IN)
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tail.extend_from_slice(bytes);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.log.write_all(bytes)
    }
}

/// Size of the part of a program's output that is kept in memory.
const TAIL_BYTES: usize = 64 * 1024;

/// Returns name, address and interface of the stations, in a network of kernel parts.
fn stations<'a>(
    plan: &'a Plan,
    macs: &'a BTreeMap<String, MacAddress>,
) -> impl Iterator<Item = (&'a str, IpAddr, [u8; 6])> {
    let hosts = plan.system.hosts.iter();
    let hosts = hosts.map(|(name, host)| (name, host.address));
    let devices = plan.system.devices.iter();
    let devices = devices.map(|(name, device)| (name, device.address));
    let all = hosts.chain(devices);
    let all = all.filter_map(|(name, own)| Some((name.as_str(), own, macs.get(name)?.0)));
    all.flat_map(|(name, own, mac)| own.each().map(move |address| (name, address, mac)))
}

/// Starts the recording of the links of `plan`, which is `whole` or a share of it. Each recording
/// ends when it is dropped.
pub(crate) fn captures(
    (plan, whole, tunnels): (&Plan, &Plan, &[TunnelEnd]),
    fabric: &Fabric,
    directory: &RunDirectory,
    clock: &Arc<Clock>,
    start: Instant<Utc>,
    (scribe, reporter): (&Scribe, &Reporter),
) -> Result<BTreeMap<String, Recording>, RunError> {
    let mut recordings = BTreeMap::new();
    let macs = network::macs(whole);
    let is_real = |capture: &&Capture| {
        let link = whole.link_of(capture);
        // A link that the scenario does not list belongs to a generated network.
        link.is_some_and(|link| whole.medium(link) == Medium::Kernel)
    };
    for capture in plan.captures.iter().filter(is_real) {
        let [a, b] = match (&capture.link, whole.link_of(capture)) {
            (CapturedLink::Named(_), Some(link)) => &link.between,
            (CapturedLink::Ends(ends), _) => ends,
            (CapturedLink::Named(_), None) => continue,
        };
        let name = capture.link.to_string();
        let end = tunnels.iter().find(|end| [&end.node, &end.peer] == [a, b]);
        let far = end.map_or_else(|| b.clone(), |end| network::uplink(end.link));
        let port = fabric
            .link_interface(a, &far)
            .ok_or_else(|| RunError::Plan(format!("there is no link {name} to capture")))?;
        let mut file = directory.capture(&name, start)?;
        let (clock, scribe, link) = (Arc::clone(clock), scribe.clone(), name.clone());
        let reporter = reporter.clone();
        let mut watch = SpoofWatch::new(stations(whole, &macs), true);
        let mut failed = false;
        let sink = move |frame: CapturedFrame| {
            if failed {
                return;
            }
            let at = clock.at(frame.at);
            if let Some(spoofed) = watch.look(at, &frame.bytes) {
                scribe.spoofed(at, &link, &spoofed);
            }
            if let Err(error) = file.packet(at, frame.at, &frame.bytes, None) {
                failed = true;
                reporter.failed("results", format!("the capture of {link}: {error}"));
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
