//! Protocol of the control socket: one JSON object per line, each way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use timeloom_time::Duration;

use crate::clock::HostTime;
use crate::control::error::Refusal;
use crate::session::{Process, Status};

/// Request of a client.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    /// Stop clock and processes.
    Pause,
    /// Resume clock and processes.
    Resume,
    /// Set the wall seconds per virtual second from now on.
    Dilate {
        /// New factor.
        factor: f64,
    },
    /// Run for exactly this virtual time, from a pause, then pause again. The answer follows when
    /// that is done.
    Step {
        /// Span in nanoseconds.
        span_ns: i64,
    },
    /// Run until an instant, then pause; as [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Virtual nanoseconds since the session began, or from now.
        at_ns: i64,
        /// True if counted from now.
        relative: bool,
    },
    /// Skip to the next event while all threads wait.
    Skip {
        /// False to end skipping.
        on: bool,
    },
    /// Make this client the granter of the session's time, as long as this connection lasts;
    /// further requests follow on it. (`Step` and `RunUntil` do the same, in a session whose time
    /// moves by grants.)
    Attach,
    /// Stop the session as long as this connection lasts, independently of other holders.
    Hold {
        /// Reason of the hold.
        reason: String,
    },
    /// Execute a request on some hosts, while the others continue.
    Host {
        /// Names of the hosts.
        hosts: Vec<String>,
        /// Request for these hosts.
        request: HostRequest,
    },
    /// Return the status and the processes.
    Query,
    /// Return the status without the processes, after passing recorded rows to their files: for a
    /// reader that shows a run while it goes on, several times a second.
    Watch,
    /// Execute a request and record it as an event, with the name of its requester.
    By {
        /// Name of the requester, such as `the live view`.
        who: String,
        /// Request to execute; not one of this kind.
        request: Box<Request>,
    },
    /// Bring a running process into the session.
    Register {
        /// Process identifier.
        pid: i32,
    },
    /// Release a process that was attached with [`Self::Register`].
    Unregister {
        /// Process identifier.
        pid: i32,
    },
    /// Let an engine of the simulated network leave, while the rest continues.
    Leave {
        /// Name of the engine.
        engine: String,
    },
    /// Let an engine that has left rejoin the others.
    Join {
        /// Name of the engine.
        engine: String,
    },
    /// Start a command on a host, on descriptors that are sent next.
    Enter(Entry),
}

/// Command to start in a running session from outside.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Entry {
    /// Host to start it on; `None` for a session whose only host has no name.
    pub host: Option<String>,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// Variables, added to those of the session's supervisor.
    pub env: BTreeMap<String, String>,
    /// True if its standard input is a terminal made for it.
    pub terminal: bool,
    /// User of the command: a name, `UID` or `UID:GID`; if `None`, the user of the host's programs.
    #[serde(default)]
    pub user: Option<String>,
    /// Privileges of the command, as capability names of capabilities(7). If empty: those of the
    /// host's programs, or none if a user is given.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// Answer of the session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// Success, with the present status.
    Ok(StatusText),
    /// Failure, with the reason.
    Error(String),
    /// The command that was started has ended, with this status.
    Exited(i32),
}

/// [`Status`] in the protocol, and in the output of `--json`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StatusText {
    /// Name of the session.
    pub name: String,
    /// Virtual time since the session began.
    pub virtual_ns: i64,
    /// CLOCK_REALTIME as guests see it, since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began.
    pub wall_ns: i64,
    /// Wall time during which the clock stood.
    pub paused_total_ns: i64,
    /// True if the clock stands now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// True if time skips while all threads wait.
    #[serde(default)]
    pub skipping: bool,
    /// Directory of the results, if it is a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// After a step: wall time between the stop of the clock at the requested instant and the stop
    /// of all processes. No reader saw a later time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after_ns: Option<i64>,
    /// After a grant: information for the granter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Present holds on the pause, the longest first, if the session has a pause bus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldText>,
    /// Hosts, in an answer to a query or to a request for hosts. In other answers, only the hosts
    /// whose own time differs from the session's: a client that changes the time of a thousand
    /// hosts does not wait until all are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostText>,
    /// Processes, in an answer to a query only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessText>>,
}

/// State when a granted instant was reached.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Standing {
    /// First instant at which something may happen by itself, in virtual nanoseconds since the
    /// session began: the present instant, if a program was stopped while it computed; `None`, if
    /// all programs wait for data from others.
    pub next_deadline_ns: Option<i64>,
    /// The session has ended; nothing more can be granted.
    pub ended: bool,
    /// Number of grants so far.
    pub grants: u64,
}

/// Hold on a session's pause.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct HoldText {
    /// Name of its requester: a plant, `user`, `granter`.
    pub requester: String,
    /// Purpose of the hold.
    pub reason: String,
    /// Wall time since the hold was granted.
    pub held_ns: i64,
}

/// A process of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessText {
    /// Process identifier.
    pub pid: i32,
    /// Name of the process, as in `ps`.
    pub name: String,
    /// Its host, if that has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Program of the scenario that it belongs to, or command started from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl From<Process> for ProcessText {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid,
            name: process.name,
            host: process.host,
            program: process.program,
        }
    }
}

impl Request {
    /// Returns the request to execute, without its requester's name.
    pub(crate) fn inner(&self) -> &Self {
        match self {
            Self::By { request, .. } => request,
            other => other,
        }
    }

    /// Returns the effect of this request in words, if it is worth an event.
    pub(crate) fn effect(&self) -> Option<String> {
        let span = |ns: i64| Duration::from_ns(ns);
        Some(match self {
            Self::Pause => "paused".to_owned(),
            Self::Resume => "resumed".to_owned(),
            Self::Dilate { factor } => format!("dilation set to {factor}"),
            Self::Step { span_ns } => format!("stepped {}", span(*span_ns)),
            Self::RunUntil { at_ns, relative } => match relative {
                true => format!("ran for {}", span(*at_ns)),
                false => format!("ran until {}", span(*at_ns)),
            },
            Self::Skip { on: true } => "skipping switched on".to_owned(),
            Self::Skip { on: false } => "skipping switched off".to_owned(),
            _ => return None,
        })
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self::Error(refusal.to_string())
    }
}

impl From<Status> for StatusText {
    fn from(status: Status) -> Self {
        Self {
            name: status.name,
            virtual_ns: status.virtual_time.as_ns(),
            utc_ns: status.utc_ns,
            wall_ns: status.wall.as_ns(),
            paused_total_ns: status.paused_total.as_ns(),
            paused: status.paused,
            dilation: status.dilation,
            skipping: status.skipping,
            directory: None,
            stopped_after_ns: None,
            standing: None,
            holds: Vec::new(),
            hosts: status.hosts.into_iter().map(HostText::from).collect(),
            processes: None,
        }
    }
}

impl StatusText {
    /// Converts a status without the hosts whose own time is the session's.
    pub(crate) fn brief(mut status: Status) -> Self {
        status.hosts.retain(HostTime::is_off);
        status.into()
    }
}

/// Request of a client for some hosts of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum HostRequest {
    /// Stop their clocks and processes.
    Pause,
    /// Resume them from where they stand.
    Resume,
    /// Set the seconds of the session per second of the host from now on.
    Dilate {
        /// New factor.
        factor: f64,
    },
    /// Run for exactly this span of their own time, from a pause, then pause again. The answer
    /// follows when that is done.
    Step {
        /// Span in nanoseconds.
        span_ns: i64,
    },
    /// Run until an instant of their own time, then pause; as [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Nanoseconds that they have lived through since the session began, or from now.
        at_ns: i64,
        /// True if counted from now.
        relative: bool,
    },
}

/// State of a host's own time against the session's.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct HostText {
    /// Name of the host.
    pub name: String,
    /// Virtual time that it has lived through since the session began.
    pub virtual_ns: i64,
    /// Lag behind the session; negative if it is ahead.
    pub behind_ns: i64,
    /// True if the host itself is paused.
    pub paused: bool,
    /// Seconds of the session per second of the host.
    pub dilation: f64,
}

impl From<HostTime> for HostText {
    fn from(time: HostTime) -> Self {
        Self {
            name: time.host.name().to_owned(),
            virtual_ns: time.lived.as_ns(),
            behind_ns: time.behind.as_ns(),
            paused: time.held,
            dilation: time.dilation,
        }
    }
}

/// Requests of a client, line by line.
pub(crate) struct Lines<R = UnixStream>(BufReader<R>);

impl<R: Read> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self(BufReader::new(stream))
    }

    /// Returns the next request; `None` at the end of the stream.
    pub(crate) fn next_request(&mut self) -> Option<Result<Request, Refusal>> {
        let mut line = String::new();
        let read = (&mut self.0).take(MOST_BYTES).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            return None;
        }
        Some(serde_json::from_str(&line).map_err(Refusal::Malformed))
    }
}

/// Sends an answer; a client that has disconnected needs none.
pub(crate) fn send(stream: &mut UnixStream, response: &Response) {
    if let Ok(mut text) = serde_json::to_string(response) {
        text.push('\n');
        let _ = stream.write_all(text.as_bytes());
    }
}

/// Limit of an answer. A status of a session with ten thousand processes fits.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
