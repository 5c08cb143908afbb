//! Process of one plant, from its start to its end.

mod conversation;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use timeloom_sys::command::restrict;
use timeloom_sys::environment;
use timeloom_sys::rights::Rights;
use timeloom_time::{Duration, Instant, Virtual};

use crate::child::Child;
use crate::error::{Op, PlantError, PlantFault};
use crate::lines::MAX_LINE;
use crate::log::PlantLog;
use crate::message::{self, Advance, PlantInfo, PlantInit, Request};
use conversation::{Answer, Conversation};

/// Parameters with which a plant is started.
#[derive(Clone, Debug)]
pub struct PlantSpec {
    /// Name of the plant in messages and records.
    pub name: String,
    /// Program and its arguments; not empty.
    pub argv: Vec<OsString>,
    /// Names of environment variables that the plant inherits from the caller, in addition to the
    /// usual ones ([`timeloom_sys::environment`]). A `*` at the end of a name matches any suffix.
    pub inherit: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory; `None` selects the caller's.
    pub cwd: Option<PathBuf>,
    /// Destination of standard output and error.
    pub log: PlantLog,
    /// Cgroup for this plant alone. Every process in it is killed with the plant, even a process
    /// that has left the plant's process group.
    pub cgroup: Option<PathBuf>,
    /// Rights of the plant; `None` selects the caller's.
    pub rights: Option<Rights>,
    /// Maximum waits for replies.
    pub timeouts: Timeouts,
}

/// Maximum waits for replies, in wall time.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Timeout of `init`, during which the plant may load a large model.
    pub init: Duration,
    /// Timeout of each `advance`, `read` and `write`.
    pub request: Duration,
    /// Timeout of `stop`, and then again of the process's exit.
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

/// Plant in a process of its own. Dropping the handle kills and reaps the process and its process
/// group.
pub struct PlantProcess {
    timeouts: Timeouts,
    conversation: Conversation,
    info: PlantInfo,
    recorded: Vec<usize>,
    at: Instant<Virtual>,
    /// Longest advance whose samples are certain to fit into one reply, in virtual time.
    longest_advance: Duration,
}

/// Result of [`PlantProcess::step`].
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Result of the advance, if one was requested. It is returned even if the plant refused a
    /// later request, because its samples exist nowhere else.
    pub advance: Option<Advance>,
    /// Values that were read, in the requested order, or the first refusal of a write or read.
    pub values: Result<Vec<f64>, PlantError>,
}

impl PlantProcess {
    /// Starts the plant and waits until it is ready.
    ///
    /// # Errors
    /// Fails if the plant cannot be started, or does not answer `init` properly. In that case no
    /// process is left running.
    pub fn start(spec: &PlantSpec, init: &PlantInit) -> Result<Self, PlantError> {
        let refuse = |reason: String| PlantError {
            plant: spec.name.clone(),
            fault: PlantFault::Start { reason },
            at: None,
            log_tail: Vec::new(),
        };
        let (program, arguments) = spec
            .argv
            .split_first()
            .ok_or_else(|| refuse("its command is empty".to_owned()))?;
        let log = || {
            let log = spec.log.input();
            log.map_err(|error| refuse(format!("its log: {error}")))
        };
        let (ours, theirs) = UnixStream::pair().map_err(|error| refuse(error.to_string()))?;
        let mut command = Command::new(program);
        let account = spec.rights.as_ref().and_then(Rights::account);
        command
            .args(arguments)
            .env_clear()
            .envs(environment::given(account, &spec.inherit))
            .envs(account.iter().flat_map(|account| account.variables()))
            .envs(spec.env.iter().map(|(key, value)| (key, value)))
            .env(FD_VARIABLE, theirs.as_raw_fd().to_string())
            .stdout(log()?)
            .stderr(log()?);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        if let Some(rights) = &spec.rights {
            restrict(&mut command, rights.clone());
        }
        let child = Child::start(command, theirs, spec.cgroup.clone()).map_err(|error| {
            let program = program.to_string_lossy();
            refuse(match account {
                Some(account) if error.kind() == io::ErrorKind::PermissionDenied => {
                    account.may_not_execute(&program)
                }
                _ => format!("{program}: {error}"),
            })
        })?;
        let mut plant = Self {
            timeouts: spec.timeouts,
            conversation: Conversation::new(&spec.name, spec.log.last_lines(), child, ours),
            info: PlantInfo {
                name: String::new(),
                signals: Vec::new(),
            },
            recorded: Vec::new(),
            at: init.t,
            longest_advance: longest_advance(init),
        };
        let conversation = &mut plant.conversation;
        let reply = conversation.ask_one(Op::Init, Request::Init(init), spec.timeouts.init)?;
        plant.info = conversation.understand(Op::Init, &reply, |ok| message::info(ok, init))?;
        let index = |name: &String| plant.info.signals.iter().position(|it| it.name == *name);
        plant.recorded = init.record.iter().filter_map(index).collect();
        let signals = plant.info.signals.len();
        tracing::debug!(
            plant = spec.name,
            pid = plant.pid(),
            signals,
            "plant started"
        );
        Ok(plant)
    }

    /// Returns the description that the plant gave of itself.
    pub fn info(&self) -> &PlantInfo {
        &self.info
    }

    /// Returns the recorded signals, in the order of the values in each sample.
    pub fn recorded(&self) -> impl Iterator<Item = &crate::Signal> {
        self.recorded.iter().map(|index| &self.info.signals[*index])
    }

    /// Returns the virtual instant to which the plant has computed.
    pub fn at(&self) -> Instant<Virtual> {
        self.at
    }

    /// Returns the process ID of the plant, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.conversation.pid()
    }

    /// Advances the plant to `to`, which must not precede [`at`](Self::at).
    ///
    /// # Errors
    /// Returns a [`PlantFault`] with the plant's name and log.
    pub fn advance(&mut self, to: Instant<Virtual>) -> Result<Advance, PlantError> {
        let step = self.step(Some(to), &[], &[])?;
        Ok(step.advance.expect("a step that advances says how far"))
    }

    /// Returns the present values of `signals`, all finite.
    ///
    /// # Errors
    /// Returns a [`PlantFault`] with the plant's name and log.
    pub fn read(&mut self, signals: &[&str]) -> Result<Vec<f64>, PlantError> {
        self.step(None, &[], signals)?.values
    }

    /// Sets signals, given as pairs of name and value. If a signal is given twice, the last value
    /// counts.
    ///
    /// # Errors
    /// Returns a [`PlantFault`] with the plant's name and log. A value that is not finite is
    /// refused without a request to the plant.
    pub fn write(&mut self, values: &[(&str, f64)]) -> Result<(), PlantError> {
        self.step(None, values, &[])?.values.map(drop)
    }

    /// Advances the plant, writes signals and then reads signals, each only if requested. This
    /// takes one round trip, or several if the advance has more samples than fit into one reply.
    ///
    /// # Errors
    /// Returns a [`PlantFault`] if the plant refused the advance or failed. If it refused a write
    /// or a read, the refusal is in [`Step::values`], and the plant still executes the requests
    /// that follow.
    pub fn step(
        &mut self,
        to: Option<Instant<Virtual>>,
        write: &[(&str, f64)],
        read: &[&str],
    ) -> Result<Step, PlantError> {
        let done = self.try_step(to, write, read);
        done.map_err(|error| error.since(self.at))
    }

    fn try_step(
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
            return Err(self
                .conversation
                .refuse(Op::Write, message, Some((*name).to_owned())));
        }
        if let Some(to) = to.filter(|to| *to < self.at) {
            let message = format!(
                "{} lies before {}, where the plant stands",
                to - Instant::ZERO,
                self.at - Instant::ZERO
            );
            return Err(self.conversation.refuse(Op::Advance, message, None));
        }
        while let Some(to) = to {
            let piece = to.min(self.at + self.longest_advance);
            let mut requests = vec![(Op::Advance, Request::Advance(piece))];
            if piece == to {
                append(&mut requests, write, read);
            }
            let mut replies = self
                .conversation
                .ask(&requests, self.timeouts.request)?
                .into_iter();
            let reply = replies.next().expect("one reply per request")?;
            let (from, recorded) = (self.at, self.recorded.len());
            let advance = self.conversation.understand(Op::Advance, &reply, |ok| {
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
        let replies = self
            .conversation
            .ask(&requests, self.timeouts.request)?
            .into_iter();
        step.values = self.values(replies, &requests, read.len())?;
        Ok(step)
    }

    /// Combines the replies to a write and a read. `count` is the number of values that were to be
    /// read.
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
                    let read = self
                        .conversation
                        .understand(*op, &reply, |ok| message::values(ok, count))?;
                    values = values.and(Ok(read));
                }
                Ok(_) => {}
            }
        }
        Ok(values)
    }

    /// Checks that the process still runs, without sending a request. Otherwise the death of a
    /// plant that gets no requests would go unnoticed. A failure is reported only once.
    ///
    /// # Errors
    /// Returns [`PlantFault::Died`] if the process has ended.
    pub fn look(&mut self) -> Result<(), PlantError> {
        self.conversation.look()
    }

    /// Requests that the plant finish, and waits until its process has ended.
    ///
    /// # Errors
    /// Fails if the plant does not finish properly. Its process has ended even then.
    pub fn stop(&mut self) -> Result<(), PlantError> {
        self.conversation
            .ask_one(Op::Stop, Request::Stop, self.timeouts.stop)?;
        self.conversation.end(self.timeouts.stop)
    }
}

/// Appends a write and a read to `requests`, if they are not empty.
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

/// Returns the longest advance for one request, in virtual time. It has half as many samples as
/// fill a line if every value has the maximum number of digits. (A plant may refuse such an advance
/// anyway.)
fn longest_advance(init: &PlantInit) -> Duration {
    if init.record.is_empty() {
        return Duration::MAX;
    }
    let samples = (MAX_LINE / 2 / (64 + 26 * init.record.len())).max(1);
    let samples = i64::try_from(samples).unwrap_or(i64::MAX);
    Duration::from_ns(init.record_every.as_ns().max(1).saturating_mul(samples))
}

/// Environment variable that contains the descriptor number of the inherited socket.
const FD_VARIABLE: &str = "TIMELOOM_PLANT_FD";
