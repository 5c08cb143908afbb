//! Output of programs and packets on recorded links, both with virtual timestamps.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use timeloom_fabric::{CaptureOptions, CapturedFrame, Fabric, MacAddress, PacketCapture};
use timeloom_guest::Clock;
use timeloom_results::{CutLog, DiscardedBytes, LimitedWriter, LogWriter, RunDirectory};
use timeloom_scenario::{Capture, LinkName, Medium, Plan, TunnelEnd};
use timeloom_sys::rights::Rights;
use timeloom_time::{Instant, Utc};

use crate::error::RunError;
use crate::network;
use crate::quiescence::Quiescence;
use crate::record::RunRecorder;
use crate::spoofing::SpoofWatch;
use crate::verdict::Reporter;

/// Thread that copies a program's output into `logs/NAME.log` and stamps each line with virtual
/// time. The last part stays in memory for `log:` readiness checks.
pub(crate) struct Log {
    output: Arc<Output>,
    thread: Option<JoinHandle<()>>,
}

/// Output of a program: the pipe, and the part that has been read from it.
pub(crate) struct Output {
    name: String,
    reporter: Reporter,
    pipe: PipeReader,
    written: Mutex<Written>,
    /// Run that is busy while output is being read; set before the program starts.
    quiescence: OnceLock<Quiescence>,
}

struct Written {
    log: Box<dyn Write + Send>,
    tail: Vec<u8>,
}

/// Directory of the logs, the size limit of a log, and the number of bytes left out of each log.
pub(crate) struct Logs<'a> {
    directory: &'a RunDirectory,
    limit: u64,
    /// Number of bytes left out, by the name of the log.
    left_out: Mutex<Vec<(String, DiscardedBytes)>>,
}

impl<'a> Logs<'a> {
    pub(crate) fn new(directory: &'a RunDirectory, plan: &Plan) -> Self {
        Self {
            directory,
            limit: plan.results.log_limit.as_bytes(),
            left_out: Mutex::default(),
        }
    }

    /// Returns the variable `TIMELOOM_FILES` and its value, a directory in which a program with
    /// these rights may write. Returns `None` if the program runs as Timeloom's own user.
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

    /// Returns the directory with the PTP keys of a host.
    ///
    /// # Errors
    /// Fails if another entry of the run directory has the name of the folder.
    pub(crate) fn ptp_keys(&self, host: &str) -> Result<OsString, RunError> {
        Ok(self.directory.make_ptp_keys(host)?.into_os_string())
    }

    /// Returns the logs from which output was left out.
    pub(crate) fn cut(&self) -> Vec<CutLog> {
        let all = self.left_out.lock();
        let cut = all.iter().filter(|(_, left_out)| left_out.bytes() > 0);
        cut.map(|(log, left_out)| CutLog {
            log: log.clone(),
            left_out_bytes: left_out.bytes(),
        })
        .collect()
    }

    fn file(&self, name: &str) -> Result<LimitedWriter<File>, RunError> {
        let (file, name) = self.directory.log(name)?;
        let file = LimitedWriter::new(file, self.limit);
        let mut all = self.left_out.lock();
        all.push((name, file.left_out()));
        Ok(file)
    }
}

impl Log {
    /// Opens a log whose lines have virtual times. Returns the log and the end of the pipe to which
    /// the program writes.
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

    /// Opens a log like [`Self::open`], but without virtual times.
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
            quiescence: OnceLock::new(),
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

    /// Waits until all output has been written to the log. All processes that write to the pipe
    /// must have ended.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Output {
    /// Reads the output that is in the pipe now, and writes it to the log. A failure ends the run.
    pub(crate) fn catch_up(&self) {
        if let Err(error) = self.try_to_catch_up() {
            let what = format!("writing the log of `{}`: {error}", self.name);
            self.reporter.failed("results", what);
        }
    }

    fn try_to_catch_up(&self) -> io::Result<()> {
        let _work = self.quiescence.get().map(Quiescence::work);
        let mut written = self.lock();
        let mut left = ioctl_fionread(&self.pipe)?;
        let mut bytes = [0u8; 8192];
        while left > 0 {
            // The pipe holds at least this number of bytes, because this thread is its only reader.
            let most = left.min(bytes.len() as u64) as usize;
            let length = (&self.pipe).read(&mut bytes[..most])?;
            written.push(&bytes[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Returns at most `most` of the last lines of output, for a message about the program's
    /// failure.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        let written = self.lock();
        let text = String::from_utf8_lossy(&written.tail);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(most)..];
        last.iter().map(|line| (*line).to_owned()).collect()
    }

    /// Marks this run as busy whenever output is being read from now on.
    pub(crate) fn keep_busy_while_reading(&self, quiescence: &Quiescence) {
        let _ = self.quiescence.set(quiescence.clone());
    }

    /// Returns the name of the program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if some output has not been read from the pipe or not been written to the log
    /// yet.
    pub(crate) fn has_unread(&self) -> bool {
        let idle = self.written.try_lock();
        idle.is_none() || ioctl_fionread(&self.pipe).is_ok_and(|unread| unread > 0)
    }

    /// Returns true if `text` occurs in the part of the output that is kept in memory.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let tail = &self.lock().tail;
        !text.is_empty()
            && tail
                .windows(text.len())
                .any(|window| window == text.as_bytes())
    }

    /// Waits for more output and copies it to the log. Returns false once all writers have closed
    /// the pipe.
    fn read_more(&self) -> bool {
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        if poll(&mut ready, None).is_err_and(|error| error != Errno::INTR) {
            return false;
        }
        let events = ready[0].revents();
        self.catch_up();
        // The output that preceded the last writer's end has been copied above.
        events.is_empty() || events.contains(PollFlags::IN)
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
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

/// Returns name, address and hardware address of each station, for a network that consists of parts
/// of the kernel.
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

/// Starts the recordings of the captured links of `plan`, which is the plan `whole` or one agent's
/// share of it. A recording ends when its value is dropped.
pub(crate) fn captures(
    (plan, whole, tunnels): (&Plan, &Plan, &[TunnelEnd]),
    fabric: &Fabric,
    directory: &RunDirectory,
    clock: &Arc<Clock>,
    start: Instant<Utc>,
    (run_recorder, reporter): (&RunRecorder, &Reporter),
) -> Result<BTreeMap<String, PacketCapture>, RunError> {
    let mut recordings = BTreeMap::new();
    let macs = network::macs(whole);
    let is_real = |capture: &&Capture| {
        let link = whole.link_of(&capture.link);
        // A link that the scenario does not list belongs to a generated, and therefore simulated,
        // network.
        link.is_some_and(|link| whole.medium(link) == Medium::Kernel)
    };
    for capture in plan.captures.iter().filter(is_real) {
        let [a, b] = match (&capture.link, whole.link_of(&capture.link)) {
            (LinkName::Named(_), Some(link)) => &link.between,
            (LinkName::Ends(ends), _) => ends,
            (LinkName::Named(_), None) => continue,
        };
        let name = capture.link.to_string();
        let end = tunnels.iter().find(|end| [&end.node, &end.peer] == [a, b]);
        let far = end.map_or_else(|| b.clone(), |end| network::uplink(end.link));
        let port = fabric
            .link_interface(a, &far)
            .ok_or_else(|| RunError::Plan(format!("there is no link {name} to capture")))?;
        let mut file = directory.capture(&name, start)?;
        let (clock, run_recorder, link) = (Arc::clone(clock), run_recorder.clone(), name.clone());
        let reporter = reporter.clone();
        let mut watch = SpoofWatch::new(stations(whole, &macs), true);
        let mut failed = false;
        let sink = move |frame: CapturedFrame| {
            if failed {
                return;
            }
            let at = clock.at(frame.at);
            if let Some(spoofed) = watch.look(at, &frame.bytes) {
                run_recorder.spoofed(at, &link, &spoofed);
            }
            if let Err(error) = file.packet(at, frame.at, &frame.bytes, None) {
                failed = true;
                reporter.failed("results", format!("the capture of {link}: {error}"));
            }
        };
        let recording = PacketCapture::start_with(
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
