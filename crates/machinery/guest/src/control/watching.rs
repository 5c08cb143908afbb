//! Client that asks a session for its status several times a second, on one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use timeloom_sys::local;

use crate::control::client::{ControlError, PATIENCE};
use crate::control::protocol::{MOST_BYTES, Request, Response, StatusText};
use crate::names::{list_sessions, socket_path};

/// Connection to a session whose status is asked for repeatedly. It starts no thread and looks up
/// no name for each question.
#[derive(Debug)]
pub struct Watching {
    session: String,
    answers: BufReader<io::Take<UnixStream>>,
}

impl Watching {
    /// Connects to a session.
    ///
    /// # Errors
    /// Fails if there is no such session, or if it cannot be reached.
    pub fn open(session: &str) -> Result<Self, ControlError> {
        let running = list_sessions()?;
        if !running.iter().any(|name| name == session) {
            return Err(ControlError::NoSession {
                name: Some(session.to_owned()),
                running,
            });
        }
        let stream = local::connect(&socket_path(session), PATIENCE);
        let stream = stream.map_err(|error| broken(session, &error))?;
        Ok(Self {
            session: session.to_owned(),
            answers: BufReader::new(stream.take(MOST_BYTES)),
        })
    }

    /// Returns the name of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the present status, without the processes, and with those hosts only whose own time
    /// differs from the session's. Rows recorded until now are in their files when it returns.
    ///
    /// # Errors
    /// Fails if the session has ended, does not answer in time, or refuses. The connection is of no
    /// use after an error.
    pub fn status(&mut self) -> Result<StatusText, ControlError> {
        let answer = self.ask().map_err(|error| broken(&self.session, &error))?;
        match serde_json::from_str(&answer) {
            Ok(Response::Ok(status)) => Ok(status),
            Ok(Response::Error(text)) => Err(ControlError::Refused(text)),
            Ok(Response::Exited(_)) | Err(_) => {
                let ended = io::Error::other("it ended before it answered");
                Err(broken(&self.session, &ended))
            }
        }
    }

    fn ask(&mut self) -> io::Result<String> {
        let mut line = serde_json::to_string(&Request::Watch).map_err(io::Error::other)?;
        line.push('\n');
        self.answers
            .get_mut()
            .get_mut()
            .write_all(line.as_bytes())?;
        self.answers.get_mut().set_limit(MOST_BYTES);
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }
}

fn broken(session: &str, error: &io::Error) -> ControlError {
    let session = session.to_owned();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent { session },
        _ => ControlError::Refused(format!("session `{session}`: {error}")),
    }
}
