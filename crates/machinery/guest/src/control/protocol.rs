//! What goes over the control socket: one JSON object per line, each way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::clock::HostTime;
use crate::control::error::Refusal;
use crate::session::{Process, Status};

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    /// Stop clock and processes.
    Pause,
    /// Let them go on.
    Resume,
    /// Wall seconds per virtual second from now on.
    Dilate {
        /// The new factor.
        factor: f64,
    },
    /// From where it is paused, run for exactly so much virtual time; then
    /// pause. The answer comes when that is done.
    Step {
        /// How long, in nanoseconds.
        span_ns: i64,
    },
    /// Run until an instant, then pause; as [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Virtual nanoseconds: since the session began, or from now.
        at_ns: i64,
        /// From now.
        relative: bool,
    },
    /// While everything waits, skip to the next thing that happens.
    Skip {
        /// Or not any more.
        on: bool,
    },
    /// Make me the one who grants the session its time, for as long as this
    /// connection lasts; further requests come on it. (`Step` and `RunUntil` do
    /// the same, in a session whose time moves by grants.)
    Attach,
    /// Make it stand for as long as this connection lasts, beside others that do.
    Hold {
        /// What for.
        reason: String,
    },
    /// To some of its hosts, while the others go on.
    Host {
        /// Their names.
        hosts: Vec<String>,
        /// What to do to them.
        request: HostRequest,
    },
    /// How is it going, and with which processes?
    Query,
    /// Bring a running process into the session.
    Register {
        /// Its identifier.
        pid: i32,
    },
    /// Let a process go that was brought in.
    Unregister {
        /// Its identifier.
        pid: i32,
    },
    /// Let an engine of its simulated network leave, while the rest goes on.
    Leave {
        /// Its name.
        engine: String,
    },
    /// Let one that has left join the others again.
    Join {
        /// Its name.
        engine: String,
    },
    /// Start a command of mine on one of its hosts, on descriptors that I send next.
    Enter(Entry),
}

/// A command that comes into a running session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Entry {
    /// The host to start it on; none for a session whose only host has no name.
    pub host: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub directory: String,
    /// Its variables, on top of those of the session's supervisor.
    pub env: BTreeMap<String, String>,
    /// Whether its standard input is a terminal made for it.
    pub terminal: bool,
    /// Who it is: a user's name, `UID` or `UID:GID`; none: who the host's programs are.
    #[serde(default)]
    pub user: Option<String>,
    /// What it has of root's rights, as capabilities(7) names them. None said: what the
    /// host's programs have, or nothing where a user is said.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// What the session answers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// Done; how things stand now.
    Ok(StatusText),
    /// Not done, and why.
    Error(String),
    /// The command that came in has ended, with this status.
    Exited(i32),
}

/// [`Status`] as it goes over the wire, and as `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StatusText {
    /// The session's name.
    pub name: String,
    /// Virtual time since the session began.
    pub virtual_ns: i64,
    /// CLOCK_REALTIME as guests see it, since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began.
    pub wall_ns: i64,
    /// Wall time during which the clock stood.
    pub paused_total_ns: i64,
    /// Whether it stands now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// Whether time skips while everything waits.
    #[serde(default)]
    pub skipping: bool,
    /// Where its results go, of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// After a step: wall time from when the clock stood at the instant asked
    /// for to when all processes stood. No reader saw a later time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after_ns: Option<i64>,
    /// After a grant: what the granter wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Its hosts, in an answer to a query or to what was asked of hosts. In others those whose
    /// own time is not the session's: who changes the time of a thousand does not wait until
    /// all are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostText>,
    /// Its processes, in an answer to a query alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessText>>,
}

/// How things stand when a granted instant was reached.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Standing {
    /// The first instant at which something may happen by itself, in virtual
    /// nanoseconds since the session began: where it stands, if a program was
    /// stopped while it computed; none, if all wait for what others send.
    pub next_deadline_ns: Option<i64>,
    /// The session has ended; nothing more can be granted.
    pub ended: bool,
    /// How many grants there have been.
    pub grants: u64,
}

/// A process of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessText {
    /// Its identifier.
    pub pid: i32,
    /// Its name, as in `ps`.
    pub name: String,
    /// The host that it is on, if that has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The program of the scenario that it belongs to, or what came in from outside.
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
            hosts: status.hosts.into_iter().map(HostText::from).collect(),
            processes: None,
        }
    }
}

impl StatusText {
    /// Without hosts whose own time is the session's.
    pub(crate) fn brief(mut status: Status) -> Self {
        status.hosts.retain(HostTime::is_off);
        status.into()
    }
}

/// What a client asks of some hosts of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum HostRequest {
    /// Stop their clocks and processes.
    Pause,
    /// Let them go on from where they stand.
    Resume,
    /// Seconds of the session per second of the host from now on.
    Dilate {
        /// The new factor.
        factor: f64,
    },
    /// From where they are paused, run for exactly so much of their own time; then
    /// pause. The answer comes when that is done.
    Step {
        /// How long, in nanoseconds.
        span_ns: i64,
    },
    /// Run until an instant of their own time, then pause; as [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Nanoseconds that they have lived through since the session began, or
        /// from now.
        at_ns: i64,
        /// From now.
        relative: bool,
    },
}

/// How the own time of a host stands against the session's.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct HostText {
    /// Its name.
    pub name: String,
    /// The virtual time that it has lived through since the session began.
    pub virtual_ns: i64,
    /// How much it has missed; negative when it is ahead.
    pub behind_ns: i64,
    /// Whether it is paused by itself.
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

/// What a client sends, line by line.
pub(crate) struct Lines<R = UnixStream>(BufReader<R>);

impl<R: Read> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self(BufReader::new(stream))
    }

    /// `None` when it has no more to say.
    pub(crate) fn next_request(&mut self) -> Option<Result<Request, Refusal>> {
        let mut line = String::new();
        let read = (&mut self.0).take(MOST_BYTES).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            return None;
        }
        Some(serde_json::from_str(&line).map_err(Refusal::Malformed))
    }
}

/// Sends an answer; who has gone needs none.
pub(crate) fn send(stream: &mut UnixStream, response: &Response) {
    if let Ok(mut text) = serde_json::to_string(response) {
        text.push('\n');
        let _ = stream.write_all(text.as_bytes());
    }
}

/// A status of a session with ten thousand processes fits.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
