//! A client's side of the control socket: one request, one answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use crate::control::protocol::{MOST_BYTES, Request, Response, StatusText};
use crate::names::{list_sessions, socket_path};

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
