//! A client's side of the control socket: one request, one answer, and nobody waits
//! for ever for a session that is stuck.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use timeloom_sys::{local, own};

use crate::control::protocol::{MOST_BYTES, Request, Response, StatusText};
use crate::names::{list_sessions, socket_path};

/// Asks a session. Without a name, the only one that is there. What takes long (a step
/// of an hour) is waited for as long as the session answers others meanwhile.
///
/// # Errors
/// No such session, several when none was named, one that does not answer, or the
/// session's own refusal.
pub fn connect(name: Option<&str>, request: &Request) -> Result<StatusText, ControlError> {
    let running = list_sessions()?;
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
    ask(chosen, request).map_err(|error| match error {
        Broken::Silent => ControlError::Silent {
            session: chosen.clone(),
        },
        Broken::Refused(text) => ControlError::Refused(text),
        Broken::Io(error) => ControlError::Refused(format!("session `{chosen}`: {error}")),
    })
}

fn ask(session: &str, request: &Request) -> Result<StatusText, Broken> {
    let mut stream = local::connect(&socket_path(session), PATIENCE)?;
    let mut line = serde_json::to_string(request).map_err(io::Error::other)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let answer = read_answer(stream, || match request {
        Request::Query => Err(Broken::Silent),
        // It may be busy with just that. Then it still says how it stands.
        _ => ask(session, &Request::Query).map(drop),
    })?;
    match serde_json::from_str(&answer) {
        Ok(Response::Ok(status)) => Ok(status),
        Ok(Response::Error(text)) => Err(Broken::Refused(text)),
        Err(_) => Err(io::Error::other("it ended before it answered").into()),
    }
}

/// A line. `silence` is asked whether to go on whenever there was nothing for so long.
fn read_answer(
    stream: UnixStream,
    silence: impl Fn() -> Result<(), Broken>,
) -> Result<String, Broken> {
    let mut lines = BufReader::new(stream.take(MOST_BYTES));
    let mut answer = Vec::new();
    loop {
        // What has come before a time-out stays in `answer`.
        match lines.read_until(b'\n', &mut answer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => silence()?,
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

/// How long a session may take to say how it stands. One that runs needs some
/// milliseconds, on a machine that has them to give.
const PATIENCE: Duration = Duration::from_secs(5);

enum Broken {
    Silent,
    Refused(String),
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

impl From<own::NotOwn> for ControlError {
    fn from(error: own::NotOwn) -> Self {
        Self::Directory(error)
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
    /// The session is there, and does not answer.
    Silent {
        /// Its name.
        session: String,
    },
    /// Sessions are not looked for where others could have put them.
    Directory(own::NotOwn),
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
