//! The plain way to speak to a timeline's daemon.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::packet;
use crate::{
    Answer, Ask, Event, MOST_BYTES, Message, Page, RefusalCode, Reply, Request, decode, encode,
};
use crate::{Directory, TimelineName};

/// A connection to a timeline's daemon; its bindings end with it. Blocking.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    last_id: u64,
    /// That came while an answer was waited for.
    events: VecDeque<Event>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon keeps a timeline of that name there.
    #[error("no daemon keeps this timeline: {0}")]
    NoDaemon(io::Error),
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(io::Error),
    /// The daemon did not speak the protocol, or ended.
    #[error("the daemon ended the connection")]
    Ended,
    /// The daemon refused.
    #[error("{why}")]
    Refused {
        /// For programs.
        code: RefusalCode,
        /// For people.
        why: String,
    },
}

impl Connection {
    /// Connects to the daemon that keeps `name` in `directory`.
    ///
    /// # Errors
    /// [`ClientError::NoDaemon`].
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

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// When there is none, or it is a refusal.
    pub fn ask(&mut self, ask: Ask) -> Result<Answer, ClientError> {
        self.ask_for(ask).map(|(answer, _)| answer)
    }

    /// The timeline's page, for `timeloom_publish::PageReader::open`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn page(&mut self) -> Result<(Page, OwnedFd), ClientError> {
        match self.ask_for(Ask::Open)? {
            (Answer::Page(page), Some(fd)) => Ok((page, fd)),
            _ => Err(ClientError::Ended),
        }
    }

    /// In the guest of a virtual machine, the page that says how its counter stands to
    /// the host's, for `timeloom_publish::RegionReader::open`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn relation(&mut self) -> Result<OwnedFd, ClientError> {
        match self.ask_for(Ask::Relation)? {
            (Answer::Relation, Some(fd)) => Ok(fd),
            _ => Err(ClientError::Ended),
        }
    }

    /// In the guest of a virtual machine on a host of a session: that one's clock page, for
    /// `timeloom_publish::RegionReader::open`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn host_clock(&mut self) -> Result<OwnedFd, ClientError> {
        match self.ask_for(Ask::HostClock)? {
            (Answer::HostClock, Some(fd)) => Ok(fd),
            _ => Err(ClientError::Ended),
        }
    }

    /// The next event, waited for until `patience` is over.
    ///
    /// # Errors
    /// When the connection ends.
    pub fn next_event(&mut self, patience: Duration) -> Result<Option<Event>, ClientError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some((Message::Event(event), _)) = self.receive(Some(left))? {
                self.events.push_back(event);
            }
        }
    }

    /// The socket, for waiting on several with `poll`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ask_for(&mut self, ask: Ask) -> Result<(Answer, Option<OwnedFd>), ClientError> {
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
                Some((Message::Event(event), _)) => self.events.push_back(event),
                Some((Message::Reply(Reply { id: of, answer }), fd)) if of == id => {
                    return match answer {
                        Answer::Refused { code, why } => Err(ClientError::Refused { code, why }),
                        answer => Ok((answer, fd)),
                    };
                }
                _ => {}
            }
        }
    }

    /// `None` when patience is over.
    fn receive(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Option<(Message, Option<OwnedFd>)>, ClientError> {
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

/// How long a daemon may take to answer. One that runs needs less than a millisecond, on a
/// machine that has it to give.
const PATIENCE: Duration = Duration::from_secs(10);
