//! One plant: started, asked, ended.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time;

use serde_json::Value;
use timeloom_time::{Duration, Instant, Virtual};

use crate::child::{Child, log_tail};
use crate::error::{Fault, Op, PlantError};
use crate::lines::{LineError, Lines, MAX_LINE};
use crate::message::{self, Advance, BadReply, PlantInfo, PlantInit, Request};

/// How to start a plant.
#[derive(Clone, Debug)]
pub struct PlantSpec {
    /// The plant's name in messages and records.
    pub name: String,
    /// Program and arguments. Not empty.
    pub argv: Vec<OsString>,
    /// Variables added to the caller's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; the caller's when `None`.
    pub cwd: Option<PathBuf>,
    /// Where its standard output and error go. Overwritten.
    pub log: PathBuf,
    /// How long to wait for it.
    pub timeouts: Timeouts,
}

/// How long to wait for each reply, in wall time.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For `init`, which may load a large model.
    pub init: Duration,
    /// For `advance`, `read` and `write`, each.
    pub request: Duration,
    /// For `stop`, and then again for the process to exit.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            init: Duration::from_s(60),
            request: Duration::from_s(10),
            stop: Duration::from_s(5),
        }
    }
}

/// A plant in its own process. Dropping it kills and reaps it, with its group.
pub struct PlantProcess {
    name: String,
    log: PathBuf,
    timeouts: Timeouts,
    child: Child,
    lines: Lines,
    next_id: u64,
    info: PlantInfo,
    recorded: Vec<usize>,
    at: Instant<Virtual>,
    /// As far as the samples of one reply surely fit into a line.
    longest_advance: Duration,
    failed: Option<PlantError>,
}

/// What came of [`PlantProcess::step`].
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The advance, when one was asked. Its samples exist nowhere else, so they
    /// are here even when the plant refused what came after it.
    pub advance: Option<Advance>,
    /// The values read, in the order asked; or the first refusal.
    pub values: Result<Vec<f64>, PlantError>,
}

impl PlantProcess {
    /// Starts the plant and waits for it to be ready.
    ///
    /// # Errors
    /// When it cannot be started or does not answer `init` properly; nothing is
    /// left running then.
    pub fn start(spec: &PlantSpec, init: &PlantInit) -> Result<Self, PlantError> {
        let refuse = |reason: String| PlantError {
            plant: spec.name.clone(),
            fault: Fault::Start { reason },
            log_tail: Vec::new(),
        };
        let (program, arguments) = spec
            .argv
            .split_first()
            .ok_or_else(|| refuse("its command is empty".to_owned()))?;
        let log = File::create(&spec.log)
            .map_err(|error| refuse(format!("its log {}: {error}", spec.log.display())))?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| refuse(error.to_string()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(spec.env.iter().map(|(key, value)| (key, value)))
            .env(FD_VARIABLE, theirs.as_raw_fd().to_string())
            .stdout(log.try_clone().map_err(|error| refuse(error.to_string()))?)
            .stderr(log);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let child = Child::start(command, theirs)
            .map_err(|error| refuse(format!("{}: {error}", program.to_string_lossy())))?;
        let mut plant = Self {
            name: spec.name.clone(),
            log: spec.log.clone(),
            timeouts: spec.timeouts,
            child,
            lines: Lines::new(ours),
            next_id: 1,
            info: PlantInfo {
                name: String::new(),
                signals: Vec::new(),
            },
            recorded: Vec::new(),
            at: init.t,
            longest_advance: longest_advance(init),
            failed: None,
        };
        let reply = plant.ask_one(Op::Init, Request::Init(init), spec.timeouts.init)?;
        plant.info = plant.understand(Op::Init, &reply, |ok| message::info(ok, init))?;
        let index = |name: &String| plant.info.signals.iter().position(|it| it.name == *name);
        plant.recorded = init.record.iter().filter_map(index).collect();
        Ok(plant)
    }

    /// What the plant said it is.
    pub fn info(&self) -> &PlantInfo {
        &self.info
    }

    /// The recorded signals, in the order of every sample's values.
    pub fn recorded(&self) -> impl Iterator<Item = &crate::Signal> {
        self.recorded.iter().map(|index| &self.info.signals[*index])
    }

    /// The virtual instant at which the plant stands.
    pub fn at(&self) -> Instant<Virtual> {
        self.at
    }

    /// The process number, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the plant compute until `to`, not before [`at`](Self::at).
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn advance(&mut self, to: Instant<Virtual>) -> Result<Advance, PlantError> {
        let step = self.step(Some(to), &[], &[])?;
        Ok(step.advance.expect("a step that advances says how far"))
    }

    /// The present values of `signals`, all finite.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn read(&mut self, signals: &[&str]) -> Result<Vec<f64>, PlantError> {
        self.step(None, &[], signals)?.values
    }

    /// Sets signals. Of two values for the same one the last counts.
    ///
    /// # Errors
    /// See [`Fault`]. A value that is not finite is refused without asking.
    pub fn write(&mut self, values: &[(&str, f64)]) -> Result<(), PlantError> {
        self.step(None, values, &[])?.values.map(drop)
    }

    /// Advances, writes, then reads, each when asked for, in one round trip. An
    /// advance with more samples than a reply holds takes several.
    ///
    /// # Errors
    /// See [`Fault`]; when the advance was refused or the plant failed. That
    /// the write or the read was refused is in [`Step::values`]; it does not
    /// keep the plant from doing what comes after it.
    pub fn step(
        &mut self,
        to: Option<Instant<Virtual>>,
        write: &[(&str, f64)],
        read: &[&str],
    ) -> Result<Step, PlantError> {
        let mut step = Step {
            advance: None,
            values: Ok(Vec::new()),
        };
        if let Some((name, value)) = write.iter().find(|(_, value)| !value.is_finite()) {
            let message = format!("{value} is not finite");
            return Err(self.refuse(Op::Write, message, Some((*name).to_owned())));
        }
        if let Some(to) = to.filter(|to| *to < self.at) {
            let message = format!("{to:?} lies before {:?}, where the plant stands", self.at);
            return Err(self.refuse(Op::Advance, message, None));
        }
        while let Some(to) = to {
            let piece = to.min(self.at + self.longest_advance);
            let mut requests = vec![(Op::Advance, Request::Advance(piece))];
            if piece == to {
                append(&mut requests, write, read);
            }
            let mut replies = self.ask(&requests, self.timeouts.request)?.into_iter();
            let reply = replies.next().expect("one reply per request")?;
            let (from, recorded) = (self.at, self.recorded.len());
            let advance = self.understand(Op::Advance, &reply, |ok| {
                message::advance(ok, from, piece, recorded)
            })?;
            self.at = piece;
            match &mut step.advance {
                Some(whole) => whole.append(advance),
                none => *none = Some(advance),
            }
            if piece == to {
                step.values = self.values(replies, &requests[1..], read.len())?;
                return Ok(step);
            }
        }
        let mut requests = Vec::new();
        append(&mut requests, write, read);
        let replies = self.ask(&requests, self.timeouts.request)?.into_iter();
        step.values = self.values(replies, &requests, read.len())?;
        Ok(step)
    }

    /// What the replies to a write and a read amount to.
    fn values(
        &mut self,
        replies: impl Iterator<Item = Answer>,
        requests: &[(Op, Request<'_>)],
        count: usize,
    ) -> Result<Answer<Vec<f64>>, PlantError> {
        let mut values = Ok(Vec::new());
        for (reply, (op, _)) in replies.zip(requests) {
            match reply {
                Err(refusal) => values = values.and(Err(refusal)),
                Ok(reply) if *op == Op::Read => {
                    let read = self.understand(*op, &reply, |ok| message::values(ok, count))?;
                    values = values.and(Ok(read));
                }
                Ok(_) => {}
            }
        }
        Ok(values)
    }

    /// Whether it still runs, without asking it anything: a plant that nobody
    /// asks would otherwise die unnoticed. A failure is told once here.
    ///
    /// # Errors
    /// [`Fault::Died`].
    pub fn look(&mut self) -> Result<(), PlantError> {
        if self.failed.is_some() {
            return Ok(());
        }
        match self.child.wait(time::Duration::ZERO) {
            Some(status) => Err(self.fail(Fault::Died {
                during: Op::Idle,
                status,
            })),
            None => Ok(()),
        }
    }

    /// Asks the plant to finish, and waits until its process is gone.
    ///
    /// # Errors
    /// When it does not do so properly. It is gone then too.
    pub fn stop(&mut self) -> Result<(), PlantError> {
        self.ask_one(Op::Stop, Request::Stop, self.timeouts.stop)?;
        let fault = match self.child.wait(to_std(self.timeouts.stop)) {
            Some(status) if status.success() => {
                let gone = Fault::Died {
                    during: Op::Stop,
                    status,
                };
                self.failed = Some(self.error(gone));
                return Ok(());
            }
            Some(status) => Fault::Died {
                during: Op::Stop,
                status,
            },
            None => Fault::TimedOut {
                during: Op::Stop,
                after: self.timeouts.stop,
            },
        };
        Err(self.fail(fault))
    }

    /// Sends `requests` at once and returns the replies: their `ok` members, or
    /// the plant's refusals. A failure of the plant is this function's own.
    fn ask(
        &mut self,
        requests: &[(Op, Request<'_>)],
        patience: Duration,
    ) -> Result<Vec<Answer>, PlantError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let first = self.next_id;
        let mut lines = Vec::new();
        for (op, request) in requests {
            let begin = lines.len();
            request.append(self.next_id, &mut lines);
            self.next_id += 1;
            if lines.len() - begin > MAX_LINE {
                let message = format!("the request would be longer than {MAX_LINE} bytes");
                return Err(self.refuse(*op, message, None));
            }
        }
        let mut replies = Vec::with_capacity(requests.len());
        // A plant that answers as it reads would wait for us to read while we
        // wait for it to, were more sent than the socket holds.
        let batch = if lines.len() > PIPELINE_BYTES {
            1
        } else {
            requests.len().max(1)
        };
        let mut unsent = lines.split_inclusive(|byte| *byte == b'\n');
        for (index, (op, _)) in requests.iter().enumerate() {
            let began = time::Instant::now();
            let deadline = began + to_std(patience);
            if index % batch == 0 {
                let part: Vec<u8> = unsent.by_ref().take(batch).flatten().copied().collect();
                if let Err(error) = self.lines.send(&part, deadline) {
                    return Err(self.broken_line(*op, &error, patience));
                }
            }
            let line = match self.lines.receive(deadline) {
                Ok(line) => line,
                Err(error) => return Err(self.broken_line(*op, &error, patience)),
            };
            match message::reply(&line, first + index as u64) {
                Ok(ok) => replies.push(Ok(Reply { ok, line })),
                Err(BadReply::Refused { message, signal }) => {
                    replies.push(Err(self.refuse(*op, message, signal)));
                }
                Err(bad) => return Err(self.bad_reply(*op, bad, &line)),
            }
        }
        Ok(replies)
    }

    /// The reply to a lone request.
    fn ask_one(
        &mut self,
        op: Op,
        request: Request<'_>,
        patience: Duration,
    ) -> Result<Reply, PlantError> {
        let replies = self.ask(&[(op, request)], patience)?;
        replies.into_iter().next().expect("one reply per request")
    }

    fn understand<T>(
        &mut self,
        during: Op,
        reply: &Reply,
        read: impl FnOnce(&Value) -> Result<T, BadReply>,
    ) -> Result<T, PlantError> {
        read(&reply.ok).map_err(|bad| self.bad_reply(during, bad, &reply.line))
    }

    fn refuse(&self, during: Op, message: String, signal: Option<String>) -> PlantError {
        let fault = Fault::Refused {
            during,
            message,
            signal,
        };
        PlantError {
            plant: self.name.clone(),
            fault,
            log_tail: Vec::new(),
        }
    }

    fn bad_reply(&mut self, during: Op, bad: BadReply, line: &str) -> PlantError {
        let line: String = line.chars().take(EXCERPT_CHARS).collect();
        match bad {
            BadReply::Nonsense(what) => self.fail(Fault::Nonsense { during, what, line }),
            BadReply::NotFinite => self.fail(Fault::NotFinite { during, line }),
            BadReply::Refused { message, signal } => self.refuse(during, message, signal),
        }
    }

    fn broken_line(&mut self, during: Op, error: &LineError, after: Duration) -> PlantError {
        let fault = match error {
            // A dying process closes its socket a little before it is dead.
            LineError::Closed => match self.child.wait(DYING) {
                Some(status) => Fault::Died { during, status },
                None => Fault::HungUp { during },
            },
            // It may be dead without an end of file, when a process that it
            // started and that left its group has the socket still.
            LineError::TimedOut => match self.child.wait(time::Duration::ZERO) {
                Some(status) => Fault::Died { during, status },
                None => Fault::TimedOut { during, after },
            },
            LineError::TooLong => Fault::Oversize {
                during,
                limit: MAX_LINE,
            },
            LineError::NotText => Fault::Nonsense {
                during,
                what: "not UTF-8".to_owned(),
                line: String::new(),
            },
        };
        self.fail(fault)
    }

    /// Ends the plant for good: no request after this one reaches it.
    fn fail(&mut self, fault: Fault) -> PlantError {
        self.child.kill();
        // Killed processes end at once, except in the depths of a device
        // driver; the drop waits for those.
        let _ = self.child.wait(DYING);
        let error = self.error(fault);
        self.failed = Some(error.clone());
        error
    }

    fn error(&self, fault: Fault) -> PlantError {
        PlantError {
            plant: self.name.clone(),
            fault,
            log_tail: log_tail(&self.log),
        }
    }
}

/// A reply, or the plant's refusal.
type Answer<T = Reply> = Result<T, PlantError>;

/// Adds what is asked for of a write and a read.
fn append<'a>(
    requests: &mut Vec<(Op, Request<'a>)>,
    write: &'a [(&'a str, f64)],
    read: &'a [&'a str],
) {
    if !write.is_empty() {
        requests.push((Op::Write, Request::Write(write)));
    }
    if !read.is_empty() {
        requests.push((Op::Read, Request::Read(read)));
    }
}

/// How far the plant may be sent at once: to half as many samples as fill a
/// line when every value takes all its digits. Plants may refuse more.
fn longest_advance(init: &PlantInit) -> Duration {
    if init.record.is_empty() {
        return Duration::MAX;
    }
    let samples = (MAX_LINE / 2 / (64 + 26 * init.record.len())).max(1);
    let samples = i64::try_from(samples).unwrap_or(i64::MAX);
    Duration::from_ns(init.record_every.as_ns().max(1).saturating_mul(samples))
}

/// A reply that said `ok`, with its line for messages.
struct Reply {
    ok: Value,
    line: String,
}

fn to_std(length: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(length.as_ns()).unwrap_or(0))
}

/// Names the inherited socket's number to the plant.
const FD_VARIABLE: &str = "TIMELOOM_PLANT_FD";
/// As much as surely fits into a socket's buffer, in bytes.
const PIPELINE_BYTES: usize = 64 << 10;
/// As much of a bad line as an error message shows.
const EXCERPT_CHARS: usize = 160;
/// From closing its socket, or from SIGKILL, to death.
const DYING: time::Duration = time::Duration::from_secs(1);
