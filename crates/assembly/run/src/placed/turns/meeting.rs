//! Connection of all agents of a run by one stream for each pair.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::message::PeerMessage;
use crate::channel::{Receiver, Sender, Side, greet};
use crate::placed::guests::Guests;
use crate::placed::secret::Secret;

/// Sockets and addresses by which the agents of a run connect.
pub(crate) struct Meeting {
    pub(crate) listener: TcpListener,
    pub(crate) secret: Secret,
    /// Addresses of the other agents, by their names.
    pub(crate) addresses: Vec<(String, SocketAddr)>,
    /// Wall time after which a silent agent counts as lost.
    pub(crate) patience: Duration,
}

/// Reason why the agents of a run have not connected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeetError {
    #[error("the streams between the agents: {0}")]
    Stream(#[source] io::Error),
    #[error("agent {name} at {address}: {error}")]
    Connect {
        name: String,
        address: SocketAddr,
        error: io::Error,
    },
    #[error("the run has no address of agent {0} (is it of another version?)")]
    NoAddress(String),
    #[error("agent {0} has not connected within {limit} s", limit = TOGETHER_WITHIN.as_secs())]
    Missing(String),
    #[error("interrupted while waiting for the other agents")]
    Interrupted,
}

type Stream = (Sender, Receiver);

impl Meeting {
    /// Connects to the agents with lower numbers than `me`, and waits for those with higher ones.
    /// Returns the streams, by the numbers of the agents; that of `me` is `None`.
    ///
    /// # Errors
    /// Fails if an agent cannot be reached, or does not connect in time.
    pub(super) fn connect(
        &self,
        me: usize,
        names: &[String],
        interrupted: &AtomicBool,
    ) -> Result<Vec<Option<Stream>>, MeetError> {
        let (came, arrivals) = mpsc::channel();
        let mut reached = Reached(Vec::new());
        for to in &names[..me] {
            reached.0.push(self.reach(&names[me], to, came.clone())?);
        }
        let streams = self.await_all(me, names, (came, &arrivals), interrupted)?;
        reached.0.clear();
        Ok(streams)
    }

    fn await_all(
        &self,
        me: usize,
        names: &[String],
        (came, arrivals): (mpsc::Sender<Arrival>, &mpsc::Receiver<Arrival>),
        interrupted: &AtomicBool,
    ) -> Result<Vec<Option<Stream>>, MeetError> {
        let mut streams: Vec<Option<Stream>> = names.iter().map(|_| None).collect();
        let begun = Instant::now();
        let guests = Arc::<Guests>::default();
        self.listener
            .set_nonblocking(true)
            .map_err(MeetError::Stream)?;
        let missing = |streams: &[Option<Stream>]| {
            (0..names.len()).find(|number| *number != me && streams[*number].is_none())
        };
        while let Some(missing) = missing(&streams) {
            if interrupted.load(Ordering::SeqCst) {
                return Err(MeetError::Interrupted);
            }
            if begun.elapsed() > TOGETHER_WITHIN {
                return Err(MeetError::Missing(names[missing].clone()));
            }
            // Strangers may connect, too: a thread of its own greets each peer.
            while let Ok((stream, from)) = self.listener.accept() {
                let Ok(guest) = guests.admit(&stream, from) else {
                    continue;
                };
                let (came, secret) = (came.clone(), self.secret.clone());
                let greet = move || {
                    let _guest = guest;
                    if let Ok((name, stream)) = answer(stream, &secret) {
                        let _ = came.send(Arrival::Higher(name, stream));
                    }
                };
                let _ = thread::Builder::new().spawn(greet);
            }
            while let Ok(arrival) = arrivals.try_recv() {
                let (name, stream, numbers) = match arrival {
                    Arrival::Lower(name, stream) => (name, stream?, 0..me),
                    Arrival::Higher(name, stream) => (name, stream, me + 1..names.len()),
                };
                let number = names.iter().position(|it| *it == name);
                if let Some(number) = number.filter(|it| numbers.contains(it)) {
                    streams[number].get_or_insert(stream);
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(streams)
    }

    /// Connects to the agent with the name `to`, which a thread then greets. Returns a handle that
    /// ends the connection.
    fn reach(
        &self,
        me: &str,
        to: &str,
        came: mpsc::Sender<Arrival>,
    ) -> Result<TcpStream, MeetError> {
        let address = self.addresses.iter().find(|(name, _)| name == to);
        let Some(&(_, address)) = address else {
            return Err(MeetError::NoAddress(to.to_owned()));
        };
        let (me, to) = (me.to_owned(), to.to_owned());
        let name = to.clone();
        let failed = move |error| MeetError::Connect {
            name: name.clone(),
            address,
            error,
        };
        let stream = TcpStream::connect_timeout(&address, GREETED_WITHIN);
        let stream = stream.map_err(&failed)?;
        let handle = stream.try_clone().map_err(MeetError::Stream)?;
        let secret = self.secret.clone();
        let greet = move || {
            let greeted = greet_lower(stream, &secret, me);
            let _ = came.send(Arrival::Lower(to, greeted.map_err(failed)));
        };
        let spawned = thread::Builder::new().spawn(greet);
        spawned.map_err(MeetError::Stream)?;
        Ok(handle)
    }
}

/// Connections whose greetings threads wait for. They end when this value is dropped.
struct Reached(Vec<TcpStream>);

impl Drop for Reached {
    fn drop(&mut self) {
        for stream in &self.0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Stream to another agent that is ready for use, or the reason why there is none.
enum Arrival {
    /// To an agent with a lower number than this one, which this one has called.
    Lower(String, Result<Stream, MeetError>),
    /// From an agent with a higher number.
    Higher(String, Stream),
}

/// Greets an agent that this one has called. It answers when its share is prepared.
fn greet_lower(stream: TcpStream, secret: &Secret, me: String) -> io::Result<Stream> {
    let (mut sender, receiver) = greet(stream, Side::Run, secret, TOGETHER_WITHIN)?;
    sender.say(&PeerMessage::Hello { agent: me })?;
    Ok((sender, receiver))
}

/// Greets an agent that has connected, and returns its name with its stream.
fn answer(stream: TcpStream, secret: &Secret) -> io::Result<(String, Stream)> {
    stream.set_nonblocking(false)?;
    let (sender, mut receiver) = greet(stream, Side::Agent, secret, GREETED_WITHIN)?;
    match receiver.hear()? {
        PeerMessage::Hello { agent } => Ok((agent, (sender, receiver))),
        _ => Err(io::Error::other("it did not introduce itself")),
    }
}

/// Wall time within which all agents must have prepared their shares and connected.
pub(super) const TOGETHER_WITHIN: Duration = Duration::from_secs(600);
/// Wall time within which a peer that has connected must prove its key.
const GREETED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);
