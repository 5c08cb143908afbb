//! The socket through which `timeloom pause` and its siblings speak to a
//! running session: one JSON object per line, each way.

pub(crate) mod granter;
pub(crate) mod grants;
mod hosts;
pub(crate) mod stepped;
pub(crate) mod until;
pub(crate) mod until_hosts;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};
use timeloom_time::{Duration, Instant, Virtual};

use crate::error::GuestError;
use crate::session::{Session, Status};
use granter::Stepped;
pub use hosts::{HostRequest, HostText};
use until::run_until;

/// What can be controlled through the socket.
pub trait Controlled: Send + Sync {
    /// Stops clock and processes.
    fn pause(&self) -> Result<(), String>;
    /// Lets them go on.
    fn resume(&self) -> Result<(), String>;
    /// Whether it was paused by [`Self::pause`], or has not been let go yet.
    fn is_held(&self) -> bool {
        self.session().clock().is_paused()
    }
    /// Lets time skip while everything waits, or not any more.
    fn skip(self: Arc<Self>, on: bool) -> Result<(), String>;
    /// What it has beyond if its time moves by grants only.
    fn stepped(&self) -> Option<&dyn Stepped> {
        None
    }
    /// The session behind it, for all else.
    fn session(&self) -> &Session;
}

impl Controlled for Session {
    fn pause(&self) -> Result<(), String> {
        Session::pause(self)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn resume(&self) -> Result<(), String> {
        Session::resume(self).map_err(|error| error.to_string())
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), String> {
        self.set_skipping(on);
        Ok(())
    }

    fn session(&self) -> &Session {
        self
    }
}

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
    /// To some of its hosts, while the others go on.
    Host {
        /// Their names.
        hosts: Vec<String>,
        /// What to do to them.
        request: HostRequest,
    },
    /// How is it going?
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
}

/// What the session answers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// Done; how things stand now.
    Ok(StatusText),
    /// Not done, and why.
    Error(String),
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
    /// After a step: wall time from when the clock stood at the instant asked
    /// for to when all processes stood. No reader saw a later time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after_ns: Option<i64>,
    /// After a grant: what the granter wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Its hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostText>,
    /// Its processes.
    pub processes: Vec<ProcessText>,
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
            stopped_after_ns: None,
            standing: None,
            hosts: status.hosts.into_iter().map(HostText::from).collect(),
            processes: status
                .processes
                .into_iter()
                .map(|(pid, name)| ProcessText { pid, name })
                .collect(),
        }
    }
}

/// Why a request got no answer.
#[derive(Debug)]
pub enum ControlError {
    /// There is no session of this name; those that run are listed.
    NoSession {
        /// As asked for.
        name: Option<String>,
        /// Names of running sessions.
        running: Vec<String>,
    },
    /// The session refused, or broke off.
    Refused(String),
}

impl std::fmt::Display for ControlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSession {
                name: Some(name),
                running,
            } if running.is_empty() => {
                write!(f, "there is no session `{name}`: no session is running")
            }
            Self::NoSession {
                name: Some(name),
                running,
            } => {
                write!(
                    f,
                    "there is no session `{name}`; running: {}",
                    running.join(", ")
                )
            }
            Self::NoSession {
                name: None,
                running,
            } if running.is_empty() => {
                f.write_str("no session is running; start one with `timeloom exec -- COMMAND`")
            }
            Self::NoSession {
                name: None,
                running,
            } => {
                write!(
                    f,
                    "several sessions are running, say which with --name: {}",
                    running.join(", ")
                )
            }
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ControlError {}

/// Where control sockets lie: a directory that only this user may enter.
pub fn runtime_directory() -> PathBuf {
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    if user == 0 {
        return "/run/timeloom".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join("timeloom"),
        None => std::env::temp_dir().join(format!("timeloom-{user}")),
    }
}

/// The socket of a session.
pub(crate) fn socket_path(session: &str) -> PathBuf {
    runtime_directory().join(format!("{session}.sock"))
}

/// Names of the sessions that answer.
pub fn list_sessions() -> Vec<String> {
    let Ok(entries) = fs::read_dir(runtime_directory()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| UnixStream::connect(entry.path()).is_ok())
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".sock")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Asks a session. Without a name, the only one that runs.
///
/// # Errors
/// No such session, several when none was named, or the session's own refusal.
pub fn connect(name: Option<&str>, request: &Request) -> Result<StatusText, ControlError> {
    let running = list_sessions();
    let chosen = match name {
        Some(name) => running.iter().find(|other| *other == name),
        None if running.len() == 1 => running.first(),
        None => None,
    };
    let Some(chosen) = chosen else {
        return Err(ControlError::NoSession {
            name: name.map(str::to_owned),
            running,
        });
    };
    let broken = |error: &dyn std::fmt::Display| {
        ControlError::Refused(format!("session `{chosen}`: {error}"))
    };
    let mut stream = UnixStream::connect(socket_path(chosen)).map_err(|e| broken(&e))?;
    let mut line = serde_json::to_string(request).map_err(|e| broken(&e))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(|e| broken(&e))?;
    let mut answer = String::new();
    BufReader::new(stream.take(MOST_BYTES))
        .read_line(&mut answer)
        .map_err(|e| broken(&e))?;
    match serde_json::from_str(&answer) {
        Ok(Response::Ok(status)) => Ok(status),
        Ok(Response::Error(text)) => Err(ControlError::Refused(text)),
        Err(_) => Err(broken(&"it ended before it answered")),
    }
}

/// Opens the session's socket and serves it in a thread until the process ends.
///
/// # Errors
/// The name is taken by a running session, or the directory is not ours alone.
pub fn serve<C: Controlled + 'static>(controlled: &Arc<C>) -> Result<(), GuestError> {
    let session = controlled.session();
    let directory = runtime_directory();
    let failed = || GuestError::system(format!("preparing {}", directory.display()));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(failed())?;
    let metadata = fs::metadata(&directory).map_err(failed())?;
    // SAFETY: no arguments.
    if metadata.uid() != unsafe { libc::geteuid() } || metadata.permissions().mode() & 0o022 != 0 {
        return Err(GuestError::Usage(format!(
            "{} must belong to you alone",
            directory.display()
        )));
    }
    let path = socket_path(session.name());
    if UnixStream::connect(&path).is_ok() {
        return Err(GuestError::Usage(format!(
            "a session named `{}` is already running",
            session.name()
        )));
    }
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .map_err(GuestError::system(format!("opening {}", path.display())))?;
    session
        .has_socket
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let controlled = Arc::downgrade(controlled);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let controlled = controlled.clone();
            // A client that connects and says nothing must not block others.
            std::thread::spawn(move || answer(&controlled, stream));
        }
    });
    Ok(())
}

fn answer<C: Controlled>(controlled: &Weak<C>, mut stream: UnixStream) {
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(5)));
    let Ok(mut lines) = stream.try_clone().map(Lines::new) else {
        return;
    };
    let stepped = controlled
        .upgrade()
        .and_then(|held| held.stepped().map(|stepped| Arc::clone(stepped.grants())));
    let grants = |request: &Request| {
        matches!(
            request,
            Request::Attach | Request::Step { .. } | Request::RunUntil { .. }
        )
    };
    while let Some(request) = lines.next_request() {
        // Who has asked once may think as long as it likes about what is next.
        let _ = stream.set_read_timeout(None);
        let response = match (request, &stepped) {
            (Ok(request), Some(by)) if grants(&request) => {
                return granter::serve(controlled, by, stream, lines, request);
            }
            (Ok(request), _) => obey(controlled, request).unwrap_or_else(Response::Error),
            (Err(text), _) => Response::Error(text),
        };
        send(&mut stream, &response);
    }
}

/// What a client sends, line by line.
pub(crate) struct Lines(BufReader<UnixStream>);

impl Lines {
    fn new(stream: UnixStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// `None` when it has no more to say.
    pub(crate) fn next_request(&mut self) -> Option<Result<Request, String>> {
        let mut line = String::new();
        let read = (&mut self.0).take(MOST_BYTES).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            return None;
        }
        Some(serde_json::from_str(&line).map_err(|error| format!("not a request: {error}")))
    }
}

/// Sends an answer; who has gone needs none.
pub(crate) fn send(stream: &mut UnixStream, response: &Response) {
    if let Ok(mut text) = serde_json::to_string(response) {
        text.push('\n');
        let _ = stream.write_all(text.as_bytes());
    }
}

/// Does what was asked.
pub(crate) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Response, String> {
    let stopped_after = carry_out(controlled, request)?;
    let controlled = controlled.upgrade().ok_or("the session has ended")?;
    Ok(Response::Ok(StatusText {
        stopped_after_ns: stopped_after.map(Duration::as_ns),
        ..controlled.session().status().into()
    }))
}

/// What it took beyond, if it was to stop at an instant.
fn carry_out<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Option<Duration>, String> {
    let held = controlled.upgrade().ok_or("the session has ended")?;
    let session = held.session();
    let text = |error: GuestError| error.to_string();
    match request {
        Request::Pause => {
            held.pause()?;
            // Who pauses by hand does not want it to run to somewhere any more.
            // What was granted stays so, and is used after the pause.
            if held.stepped().is_none() {
                session.clock().forget_stop();
            }
        }
        Request::Resume => held.resume()?,
        Request::Attach => return Err(NOT_STEPPED.into()),
        Request::Dilate { factor } => session.dilate(factor).map_err(text)?,
        Request::Query => {}
        Request::Register { pid } => session.register(pid).map_err(text)?,
        Request::Unregister { pid } => session.unregister(pid).map_err(text)?,
        Request::Skip { on } => Arc::clone(&held).skip(on)?,
        Request::Host { hosts, request } => {
            let named = session.hosts_named(&hosts).map_err(text)?;
            drop(held);
            return hosts::obey(controlled, &named, request);
        }
        Request::Step { span_ns } => {
            if !held.is_held() {
                return Err(
                    "the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`"
                        .into(),
                );
            }
            let target = ahead(session, span_ns)?;
            drop(held);
            return run_until(controlled, target).map(Some);
        }
        Request::RunUntil { at_ns, relative } => {
            let target = match relative {
                true => ahead(session, at_ns)?,
                false => Instant::from_ns(at_ns),
            };
            drop(held);
            return run_until(controlled, target).map(Some);
        }
    }
    Ok(None)
}

/// So much later than the session's clock shows.
pub(crate) fn ahead(session: &Session, span_ns: i64) -> Result<Instant<Virtual>, String> {
    if span_ns <= 0 {
        return Err("a span to run must be more than zero".into());
    }
    let now_ns = session.clock().now().as_ns();
    let at_ns = now_ns.checked_add(span_ns).ok_or("the span is too long")?;
    Ok(Instant::from_ns(at_ns))
}

/// Why nobody can be the granter.
const NOT_STEPPED: &str = "this session runs by itself, and nobody need grant it time; begin it with `timeloom exec --stepped`, or say mode = \"stepped\" under [time] in its scenario";

/// A status of a session with ten thousand processes fits.
const MOST_BYTES: u64 = 1 << 20;
