//! Client's side of the control socket: one request, one answer, and a bounded wait for a session
//! that does not answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use timeloom_sys::{local, own};

use crate::control::protocol::{EnterCommand, MOST_BYTES, Request, Response, StatusText};
use crate::linux::descriptor::send_descriptor;
use crate::names::{is_served, list_sessions, session_sockets, socket_path};

/// Sends a request to a session. Without a name, sends it to the only session that exists. A
/// request that takes long (a step of an hour) may take any time, as long as the session answers
/// other requests meanwhile.
///
/// # Errors
/// Fails if there is no such session, if there are several and none was named, if the session does
/// not answer, or if it refuses.
pub fn connect(name: Option<&str>, request: &Request) -> Result<StatusText, ControlError> {
    let chosen = choose(name)?;
    let answered = ask(&chosen, request).map_err(|error| error.of(&chosen));
    answered.map(|(status, _)| status)
}

/// Hold on a session. It lasts until this value is dropped or the process ends.
#[must_use = "dropping it lets the session go on"]
#[derive(Debug)]
pub struct SessionHold(#[expect(dead_code, reason = "it is the hold")] UnixStream);

/// Holds a session, independently of other holders. The session is chosen as by [`connect`].
/// Returns the status of the session, and the hold.
///
/// # Errors
/// Fails like [`connect`], and if the session has no pause bus.
pub fn hold(name: Option<&str>, reason: &str) -> Result<(StatusText, SessionHold), ControlError> {
    let reason = reason.to_owned();
    let chosen = choose(name)?;
    let held = ask(&chosen, &Request::Hold { reason });
    held.map(|(status, stream)| (status, SessionHold(stream)))
        .map_err(|error| error.of(&chosen))
}

/// Returns the name of the session: `name`, or without one that of the only session that exists.
fn choose(name: Option<&str>) -> Result<String, ControlError> {
    if let Some(name) = name {
        // A named session is found without a connection to the others.
        let exists = session_sockets()?.iter().any(|socket| socket.name == name);
        if exists && is_served(name) {
            return Ok(name.to_owned());
        }
    }
    let running = list_sessions()?;
    let chosen = match name {
        Some(name) => running.iter().find(|other| *other == name),
        None if running.len() == 1 => running.first(),
        None => None,
    };
    chosen.cloned().ok_or_else(|| ControlError::NoSession {
        name: name.map(str::to_owned),
        running,
    })
}

/// Starts a command on a host of a running session, with these three streams. The session is chosen
/// as by [`connect`].
///
/// # Errors
/// Fails like [`connect`], and if the command cannot be started.
pub fn enter(
    name: Option<&str>,
    entry: EnterCommand,
    streams: [BorrowedFd<'_>; 3],
) -> Result<EnteredCommand, ControlError> {
    let chosen = choose(name)?;
    let inside = || {
        let stream = begin(&chosen, &Request::Enter(entry))?;
        let answers = BufReader::new(stream.try_clone()?.take(MOST_BYTES));
        let mut inside = EnteredCommand { answers };
        inside.answer()?;
        for descriptor in streams {
            send_descriptor(stream.as_fd(), descriptor);
        }
        inside.answer()?;
        // The command may run for any time, so there is no timeout.
        stream.set_read_timeout(None)?;
        Ok(inside)
    };
    inside().map_err(|error: Broken| error.of(&chosen))
}

/// Command that this client has started in a session. Dropping this value sends the command a
/// SIGHUP.
#[derive(Debug)]
pub struct EnteredCommand {
    answers: BufReader<io::Take<UnixStream>>,
}

impl EnteredCommand {
    /// Waits for the end of the command. Returns its exit status in the form that a shell reports;
    /// `None` if the session, and the command with it, has ended.
    pub fn wait(mut self) -> Option<i32> {
        self.answer().ok()?
    }

    /// Returns the next answer of the session: `Some` with the exit status if it is the last.
    fn answer(&mut self) -> Result<Option<i32>, Broken> {
        let mut line = String::new();
        self.answers.get_mut().set_limit(MOST_BYTES);
        self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Response::Ok(_)) => Ok(None),
            Ok(Response::Exited(status)) => Ok(Some(status)),
            Ok(Response::Error(text)) => Err(Broken::Refused(text)),
            Err(_) => {
                Err(io::Error::other("the connection closed before an answer arrived").into())
            }
        }
    }
}

fn begin(session: &str, request: &Request) -> Result<UnixStream, Broken> {
    let mut stream = local::connect(&socket_path(session), PATIENCE)?;
    write_request(&mut stream, request)?;
    Ok(stream)
}

/// Sends a request.
pub(super) fn write_request(stream: &mut UnixStream, request: &Request) -> Result<(), Broken> {
    let mut line = serde_json::to_string(request).map_err(io::Error::other)?;
    if line.len() as u64 >= MOST_BYTES {
        let text = format!("the request has more than {MOST_BYTES} bytes");
        return Err(Broken::Refused(text));
    }
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    Ok(())
}

fn ask(session: &str, request: &Request) -> Result<(StatusText, UnixStream), Broken> {
    let stream = begin(session, request)?;
    let answer = read_answer(stream.try_clone()?, || match request {
        Request::Query | Request::Why => Err(Broken::Silent),
        // The session may be busy with this very request. It then still answers queries.
        _ => ask(session, &Request::Query).map(drop),
    })?;
    Ok((status_of(&answer)?, stream))
}

/// Returns the status in an answer.
pub(super) fn status_of(answer: &str) -> Result<StatusText, Broken> {
    match serde_json::from_str(answer) {
        Ok(Response::Ok(status)) => Ok(status),
        Ok(Response::Error(text)) => Err(Broken::Refused(text)),
        Ok(Response::Exited(_)) | Err(_) => {
            Err(io::Error::other("the connection closed before an answer arrived").into())
        }
    }
}

/// Reads a line. `silence` is called after each timeout, and returns an error to end the wait.
fn read_answer(
    stream: UnixStream,
    silence: impl Fn() -> Result<(), Broken>,
) -> Result<String, Broken> {
    let mut lines = BufReader::new(stream.take(MOST_BYTES));
    let mut answer = Vec::new();
    loop {
        // Data received before a timeout stays in `answer`.
        match lines.read_until(b'\n', &mut answer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => silence()?,
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

/// Time within which a session must answer a query. A running session needs some milliseconds, if
/// the machine is not overloaded.
const PATIENCE: Duration = Duration::from_secs(5);

/// Failure of a request to a session.
pub(super) enum Broken {
    Silent,
    Refused(String),
    Io(io::Error),
}

impl Broken {
    /// Converts this failure to an error that names the session.
    pub(super) fn of(self, session: &str) -> ControlError {
        match self {
            Self::Silent => ControlError::Silent {
                session: session.to_owned(),
            },
            Self::Refused(text) => ControlError::Refused(text),
            Self::Io(error) => ControlError::Refused(format!("session `{session}`: {error}")),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

impl From<own::UnsafeDirectory> for ControlError {
    fn from(error: own::UnsafeDirectory) -> Self {
        Self::Directory(error)
    }
}

/// Reason why a request was not carried out.
#[derive(Debug)]
pub enum ControlError {
    /// There is no session of this name. The error lists the running sessions.
    NoSession {
        /// Requested name; `None` if the request named no session.
        name: Option<String>,
        /// Names of running sessions.
        running: Vec<String>,
    },
    /// The session exists, but does not answer.
    Silent {
        /// Name of the session.
        session: String,
    },
    /// Other users can write to the directory of sessions.
    Directory(own::UnsafeDirectory),
    /// The session refused the request, or closed the connection.
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
                    "several sessions are running, choose one with --name: {}",
                    running.join(", ")
                )
            }
            Self::Silent { session } => write!(
                f,
                "session `{session}` does not answer: its supervisor is stopped (`kill -CONT` \
                 lets it go on), stuck, or was killed (`timeloom clean` removes what is left)"
            ),
            Self::Directory(error) => error.fmt(f),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ControlError {}
