//! Client that asks a session for its status several times a second, on one connection.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use timeloom_sys::{local, own};

use crate::control::client::{Broken, ControlError, status_of, write_request};
use crate::control::protocol::{MOST_BYTES, Request, StatusText};
use crate::names::{runtime_directory, socket_path};

/// Connection to a session whose status is asked for repeatedly. It starts no thread and looks up
/// no name for each question.
#[derive(Debug)]
pub struct StatusConnection {
    session: String,
    answers: BufReader<io::Take<UnixStream>>,
}

impl StatusConnection {
    /// Connects to the session of this name, and to no other. Each answer must come within
    /// `patience`.
    ///
    /// # Errors
    /// Fails if the session cannot be reached.
    pub fn open(session: &str, patience: Duration) -> Result<Self, ControlError> {
        own::check(&runtime_directory())?;
        let stream = local::connect(&socket_path(session), patience);
        let stream = stream.map_err(|error| Broken::from(error).of(session))?;
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
    /// differs from the session's.
    ///
    /// # Errors
    /// Fails if the session has ended, does not answer in time, or refuses. The connection is of no
    /// use after an error.
    pub fn status(&mut self) -> Result<StatusText, ControlError> {
        self.ask(&Request::Status)
    }

    /// Returns the status like [`Self::status`]. Recorded rows are in their files when it returns,
    /// except for those of the last fraction of a second.
    ///
    /// # Errors
    /// Fails under the same conditions.
    pub fn flushed_status(&mut self) -> Result<StatusText, ControlError> {
        self.ask(&Request::Watch)
    }

    fn ask(&mut self, request: &Request) -> Result<StatusText, ControlError> {
        let mut answer = || {
            write_request(self.answers.get_mut().get_mut(), request)?;
            self.answers.get_mut().set_limit(MOST_BYTES);
            let mut answer = String::new();
            self.answers.read_line(&mut answer)?;
            status_of(&answer)
        };
        answer().map_err(|error: Broken| error.of(&self.session))
    }
}
