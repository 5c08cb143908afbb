//! Messages of the control socket: one JSON object per line, in both directions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use timeloom_time::Duration;

use crate::clock::HostTimeState;
use crate::control::error::Refusal;
use crate::control::link::LinkProperties;
use crate::control::why::Why;
use crate::session::{Process, SessionStatus};

/// Request of a client.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    /// Stop the session's clock and processes.
    Pause,
    /// Resume the session's clock and processes.
    Resume,
    /// Set the wall seconds per virtual second from now on.
    Dilate {
        /// Wall seconds per virtual second.
        factor: f64,
    },
    /// Let a paused session run for exactly this virtual time, then pause it again. The answer
    /// follows after the pause.
    Step {
        /// Virtual time to run for, in nanoseconds.
        span_ns: i64,
    },
    /// Let the session run until an instant, then pause it; otherwise like [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Virtual nanoseconds since the session began, or from now if `relative`.
        at_ns: i64,
        /// True if `at_ns` counts from now.
        relative: bool,
    },
    /// Begin or end skipping of time to the next event while all threads wait.
    Skip {
        /// True to begin skipping, false to end it.
        on: bool,
    },
    /// Make this client the granter of the session's time, as long as this connection lasts.
    /// Further requests follow on it. (In a session whose time moves by grants, `Step` and
    /// `RunUntil` also make the client the granter.)
    Attach,
    /// Stop the session as long as this connection lasts, independently of other holders.
    Hold {
        /// Reason of the hold, for the session's messages.
        reason: String,
    },
    /// Execute a request on some hosts, while the others continue.
    Host {
        /// Names of the hosts.
        hosts: Vec<String>,
        /// Request for these hosts.
        request: HostRequest,
    },
    /// Return the status with the list of processes.
    Query,
    /// Return the status without the processes.
    Status,
    /// Return the status, and the causes because of which time stands or does not skip. The answer
    /// takes some 20 ms of observation.
    Why,
    /// Return the status without the processes, after passing recorded rows to their files (those
    /// of the last fraction of a second may be missing): for a reader that shows a run while it
    /// goes on, several times a second.
    Watch,
    /// Execute a request and record it as an event, with the name of its requester.
    By {
        /// Name of the requester, such as `the live view`.
        requester: String,
        /// Request to execute: one that changes the session, and not one of this kind.
        request: Box<Request>,
    },
    /// Attach a running process to the session.
    Register {
        /// Process identifier.
        pid: i32,
    },
    /// Release a process that was attached with [`Self::Register`].
    Unregister {
        /// Process identifier.
        pid: i32,
    },
    /// Remove an engine of the simulated network while the others continue.
    Leave {
        /// Name of the engine.
        engine: String,
    },
    /// Let an engine that has left rejoin the others.
    Join {
        /// Name of the engine.
        engine: String,
    },
    /// Change a link of the network, in both directions.
    Link {
        /// Name of the link, or its two nodes as `A-B`.
        link: String,
        /// New properties.
        change: LinkProperties,
    },
    /// Start or stop an attack of the scenario.
    Attack {
        /// Name of the attack.
        id: String,
        /// True to start it, false to stop it.
        start: bool,
    },
    /// Start a command on a host. The client sends its standard streams as descriptors next.
    Enter(EnterCommand),
}

/// Command that a client starts in a running session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct EnterCommand {
    /// Name of the host; `None` for a session whose only host has no name.
    pub host: Option<String>,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub directory: String,
    /// Environment variables, added to those of the session's supervisor.
    pub env: BTreeMap<String, String>,
    /// True if standard input is a terminal that was created for the command.
    pub terminal: bool,
    /// User of the command: a name, `UID` or `UID:GID`. `None` for the user of the host's programs.
    #[serde(default)]
    pub user: Option<String>,
    /// Capabilities of the command, by their names in capabilities(7). If empty, the command has
    /// those of the host's programs, or none if `user` is given.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// Answer of the session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// The request succeeded; contains the present status.
    Ok(StatusText),
    /// The request failed; contains the reason.
    Error(String),
    /// The client's command has ended; contains its exit status.
    Exited(i32),
}

/// [`SessionStatus`] in the form for the protocol and for the output of `--json`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct StatusText {
    /// Name of the session.
    pub name: String,
    /// Virtual time since the session began, in nanoseconds.
    pub virtual_ns: i64,
    /// CLOCK_REALTIME as guests see it, in nanoseconds since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began, in nanoseconds.
    pub wall_ns: i64,
    /// Total wall time during which the clock was stopped, in nanoseconds.
    pub paused_total_ns: i64,
    /// True if the clock is stopped now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// True if time skips while all threads wait.
    #[serde(default)]
    pub skipping: bool,
    /// Directory of the results; `None` if the session is not a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Present after a step: wall time in nanoseconds from the stop of the clock at the requested
    /// instant to the stop of all processes. No reader saw a later virtual time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after_ns: Option<i64>,
    /// Present after a grant: information for the granter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<GrantedState>,
    /// Present holds on the pause, the longest first, if the session has a pause bus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldText>,
    /// Hosts of the session, in an answer to a query or to a request for hosts. Other answers
    /// contain only the hosts whose own time differs from the session's: a client that changes the
    /// time of a thousand hosts need not wait until all are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostText>,
    /// Processes of the session; present only in an answer to a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessText>>,
    /// Causes because of which time stands or does not skip; present only in an answer to
    /// [`Request::Why`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<Why>>,
}

/// State of a session that has reached a granted instant.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct GrantedState {
    /// First instant at which an event may happen without input from outside, in virtual
    /// nanoseconds since the session began. It is the present instant if a program was stopped
    /// while it computed, and `None` if all programs wait for data from others.
    pub next_deadline_ns: Option<i64>,
    /// True if the session has ended, so that no more time can be granted.
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

/// Process of a session, in the form for the protocol.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessText {
    /// Process identifier.
    pub pid: i32,
    /// Name of the process, as in `ps`.
    pub name: String,
    /// Name of the process's host; `None` if the host has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Program of the scenario, or command of a client, to which the process belongs; `None` if
    /// unknown.
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

    /// Returns the effect of this request in words; `None` for one that changes nothing, or that
    /// lasts as long as its connection.
    pub(crate) fn effect(&self) -> Option<String> {
        Some(match self {
            Self::Pause => "paused".to_owned(),
            Self::Resume => "resumed".to_owned(),
            Self::Dilate { factor } => format!("dilation set to {factor}"),
            Self::Step { span_ns } => stepped(*span_ns),
            Self::RunUntil { at_ns, relative } => ran(*at_ns, *relative),
            Self::Skip { on: true } => "skipping switched on".to_owned(),
            Self::Skip { on: false } => "skipping switched off".to_owned(),
            Self::Host { hosts, request } => {
                format!("{} on {}", request.effect(), hosts.join(", "))
            }
            Self::Register { pid } => format!("process {pid} attached"),
            Self::Unregister { pid } => format!("process {pid} released"),
            Self::Leave { engine } => format!("engine {engine} removed"),
            Self::Join { engine } => format!("engine {engine} let in again"),
            Self::Attack { id, start: true } => format!("attack {id} started"),
            Self::Attack { id, start: false } => format!("attack {id} stopped"),
            Self::Link { link, change } => format!("link {link}: {change}"),
            Self::Attach
            | Self::Hold { .. }
            | Self::Query
            | Self::Status
            | Self::Why
            | Self::Watch
            | Self::By { .. }
            | Self::Enter(_) => return None,
        })
    }
}

impl HostRequest {
    /// Returns the effect of this request in words.
    fn effect(&self) -> String {
        match self {
            Self::Pause => "paused".to_owned(),
            Self::Resume => "resumed".to_owned(),
            Self::Dilate { factor } => format!("dilation set to {factor}"),
            Self::Step { span_ns } => stepped(*span_ns),
            Self::RunUntil { at_ns, relative } => ran(*at_ns, *relative),
        }
    }
}

fn stepped(span_ns: i64) -> String {
    format!("stepped {}", Duration::from_ns(span_ns))
}

fn ran(at_ns: i64, relative: bool) -> String {
    let word = if relative { "for" } else { "until" };
    format!("ran {word} {}", Duration::from_ns(at_ns))
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self::Error(refusal.to_string())
    }
}

impl From<SessionStatus> for StatusText {
    fn from(status: SessionStatus) -> Self {
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
            why: None,
        }
    }
}

impl StatusText {
    /// Converts a status, leaving out the hosts whose own time equals the session's.
    pub(crate) fn brief(mut status: SessionStatus) -> Self {
        status.hosts.retain(HostTimeState::is_off);
        status.into()
    }
}

/// Request of a client for some hosts of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum HostRequest {
    /// Stop the hosts' clocks and processes.
    Pause,
    /// Resume the hosts' clocks and processes.
    Resume,
    /// Set the session seconds per second of the hosts from now on.
    Dilate {
        /// Session seconds per second of the hosts.
        factor: f64,
    },
    /// Let paused hosts run for exactly this span of their own time, then pause them again. The
    /// answer follows after the pause.
    Step {
        /// Own time of the hosts to run for, in nanoseconds.
        span_ns: i64,
    },
    /// Let the hosts run until an instant of their own time, then pause them; otherwise like
    /// [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Nanoseconds of the hosts' own time since the session began, or from now if `relative`.
        at_ns: i64,
        /// True if `at_ns` counts from now.
        relative: bool,
    },
}

/// State of a host's own time, compared with the session's.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct HostText {
    /// Name of the host.
    pub name: String,
    /// The host's own time since the session began, in nanoseconds.
    pub virtual_ns: i64,
    /// Session time minus the host's own time, in nanoseconds; negative if the host is ahead.
    pub behind_ns: i64,
    /// True if the host itself is paused, independently of its session.
    pub paused: bool,
    /// Session seconds per second of the host.
    pub dilation: f64,
}

impl From<HostTimeState> for HostText {
    fn from(time: HostTimeState) -> Self {
        Self {
            name: time.host.name().to_owned(),
            virtual_ns: time.lived.as_ns(),
            behind_ns: time.behind.as_ns(),
            paused: time.held,
            dilation: time.dilation,
        }
    }
}

/// Reader of a client's requests, one per line.
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

/// Sends an answer. Ignores errors: a client that has disconnected needs no answer.
pub(crate) fn send(stream: &mut UnixStream, response: &Response) {
    if let Ok(mut text) = serde_json::to_string(response) {
        text.push('\n');
        let _ = stream.write_all(text.as_bytes());
    }
}

/// Maximum size of an answer in bytes. The status of a session with ten thousand processes fits.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_session_has_its_words() {
        let hosts = vec!["plc".to_owned(), "hmi".to_owned()];
        let engine = || "lab".to_owned();
        let step = HostRequest::Step { span_ns: 5_000_000 };
        let until = Request::RunUntil {
            at_ns: 2_000_000_000,
            relative: false,
        };
        for (request, effect) in [
            (Request::Step { span_ns: 1_000_000 }, "stepped 1 ms"),
            (until, "ran until 2 s"),
            (
                Request::Host {
                    hosts,
                    request: step,
                },
                "stepped 5 ms on plc, hmi",
            ),
            (Request::Register { pid: 7 }, "process 7 attached"),
            (Request::Unregister { pid: 7 }, "process 7 released"),
            (Request::Leave { engine: engine() }, "engine lab removed"),
            (
                Request::Join { engine: engine() },
                "engine lab let in again",
            ),
        ] {
            assert_eq!(request.effect().as_deref(), Some(effect));
        }
        let change = LinkProperties {
            delay_ns: Some(2_000_000),
            loss: Some(0.1),
            ..LinkProperties::default()
        };
        let link = "wan".to_owned();
        let request = Request::Link { link, change };
        assert_eq!(
            request.effect().as_deref(),
            Some("link wan: delay 2 ms, loss 0.1")
        );
        for request in [
            Request::Attach,
            Request::Query,
            Request::Status,
            Request::Why,
        ] {
            assert_eq!(request.effect(), None);
        }
    }
}
