//! Blocking client of a timeline's daemon.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::protocol::packet;
use crate::protocol::{
    Answer, BindingEvent, DaemonMessage, MOST_BYTES, Page, RefusalCode, Reply, Request,
    RequestKind, decode, encode,
};
use crate::protocol::{Directory, TimelineName};

/// Connection to a timeline's daemon. All calls block. When the connection ends, so do the bindings
/// made through it.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    last_id: u64,
    /// Events that arrived while the client waited for a reply.
    events: VecDeque<BindingEvent>,
}

/// Reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon keeps a timeline of that name in that directory.
    #[error("no daemon maintains this timeline: {0}")]
    NoDaemon(io::Error),
    /// The connection broke.
    #[error("the connection to the daemon failed: {0}")]
    Broken(io::Error),
    /// The daemon ended the connection or did not follow the protocol.
    #[error("the daemon ended the connection")]
    Ended,
    /// The daemon refused the request.
    #[error("{why}")]
    Refused {
        /// Machine-readable reason for the refusal.
        code: RefusalCode,
        /// Text that states the reason.
        why: String,
    },
}

impl Connection {
    /// Connects to the daemon that keeps `name` in `directory`.
    ///
    /// # Errors
    /// Fails with [`ClientError::NoDaemon`] if no daemon accepts the connection.
    pub fn open(directory: &Directory, name: &TimelineName) -> Result<Self, ClientError> {
        directory.check().map_err(ClientError::NoDaemon)?;
        let socket = packet::connect(&directory.socket(name), PATIENCE);
        let socket = socket.map_err(ClientError::NoDaemon)?;
        Ok(Self {
            socket,
            last_id: 0,
            events: VecDeque::new(),
        })
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// Fails if no answer arrives, or if the answer is a refusal.
    pub fn ask(&mut self, ask: RequestKind) -> Result<Answer, ClientError> {
        self.ask_for(ask).map(|(answer, _)| answer)
    }

    /// Requests the timeline's page, for `crate::shm::PageReader::open`.
    ///
    /// # Errors
    /// Fails as [`Self::ask`] does.
    pub fn page(&mut self) -> Result<(Page, OwnedFd), ClientError> {
        match self.ask_for(RequestKind::Open)? {
            (Answer::Page(page), Some(fd)) => Ok((page, fd)),
            _ => Err(ClientError::Ended),
        }
    }

    /// Requests the page that relates the counter of this virtual machine's guest to the counter of
    /// its host, for `crate::shm::RegionReader::open`. Only for programs in such a guest.
    ///
    /// # Errors
    /// Fails as [`Self::ask`] does.
    pub fn relation(&mut self) -> Result<OwnedFd, ClientError> {
        match self.ask_for(RequestKind::Relation)? {
            (Answer::Relation, Some(fd)) => Ok(fd),
            _ => Err(ClientError::Ended),
        }
    }

    /// Requests the clock page of the session's host on which this virtual machine runs, for
    /// `crate::shm::RegionReader::open`. Only for programs in the guest of such a machine.
    ///
    /// # Errors
    /// Fails as [`Self::ask`] does.
    pub fn host_clock(&mut self) -> Result<OwnedFd, ClientError> {
        match self.ask_for(RequestKind::HostClock)? {
            (Answer::HostClock, Some(fd)) => Ok(fd),
            _ => Err(ClientError::Ended),
        }
    }

    /// Returns the next event, or `None` if none arrives within `patience`.
    ///
    /// # Errors
    /// Fails when the connection ends.
    pub fn next_event(&mut self, patience: Duration) -> Result<Option<BindingEvent>, ClientError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some((DaemonMessage::Event(event), _)) = self.receive(Some(left))? {
                self.events.push_back(event);
            }
        }
    }

    /// Returns the socket, so that a caller can wait for several sockets with `poll`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ask_for(&mut self, ask: RequestKind) -> Result<(Answer, Option<OwnedFd>), ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = encode(&Request { id, ask });
        packet::send(&self.socket, &request, None, true).map_err(ClientError::Broken)?;
        loop {
            match self.receive(Some(PATIENCE))? {
                None => {
                    let silent = io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
                    return Err(ClientError::Broken(silent));
                }
                Some((DaemonMessage::Event(event), _)) => self.events.push_back(event),
                Some((DaemonMessage::Reply(Reply { id: of, answer }), fd)) if of == id => {
                    return match answer {
                        Answer::Refused { code, why } => Err(ClientError::Refused { code, why }),
                        answer => Ok((answer, fd)),
                    };
                }
                _ => {}
            }
        }
    }

    /// Receives a message; returns `None` if none arrives within `patience`.
    fn receive(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Option<(DaemonMessage, Option<OwnedFd>)>, ClientError> {
        packet::set_patience(&self.socket, patience).map_err(ClientError::Broken)?;
        let mut buffer = [0; MOST_BYTES];
        match packet::receive(&self.socket, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(ClientError::Broken(error)),
            Ok(None) => Err(ClientError::Ended),
            Ok(Some((length, fd))) => match decode(&buffer[..length]) {
                Ok(message) => Ok(Some((message, fd))),
                Err(_) => Err(ClientError::Ended),
            },
        }
    }
}

/// Time limit for an answer. A daemon on a machine that is not overloaded needs less than a
/// millisecond.
const PATIENCE: Duration = Duration::from_secs(10);
