//! Channel through which programs publish messages to listed peers and subscribe to messages, by
//! datagrams.

use parking_lot::Mutex;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::{Refusal, Stamp, Timeline};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use timeloom_clock::TimelineTime;
use timeloom_time::Instant;

use crate::messages::agenda::Agenda;
use crate::messages::envelope::Envelope;
use crate::messages::seal::Seal;
use crate::messages::{MessageRefusal, datagram, key};

/// Addresses of a channel and of its peers. There is no discovery of peers.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// Local address at which messages are received. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Addresses to which published messages are sent.
    pub peers: Vec<SocketAddr>,
}

/// Message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Key of the message, without the channel's prefix.
    pub key: String,
    /// Content of the message.
    pub payload: Vec<u8>,
    /// Reading of the timeline by the sender, when it sent the message.
    pub sent: Stamp,
    /// Reading of the timeline by this program, when the message arrived.
    pub arrived: Stamp,
    /// Instant at which receivers are to act on the message; `None` if there is none.
    pub act_at: Option<Instant<TimelineTime>>,
    /// Reading of the timeline before the callback. If the subscriber waits for `act_at`, the
    /// reading is certainly not before that instant.
    pub acted: Stamp,
}

impl ReceivedMessage {
    /// Returns true if the message certainly arrived before `act_at`, or if it has no such instant.
    pub fn in_time(&self) -> bool {
        let latest = self.arrived.interval().map(|it| it.latest());
        self.act_at
            .is_none_or(|act_at| latest.is_some_and(|latest| latest <= act_at))
    }
}

/// Numbers of datagrams that were received but not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of datagrams that were not sealed with our key, were modified or replayed, or were
    /// sent before this channel was opened.
    pub unproved: u64,
    /// Number of datagrams that were not a message, had another prefix, were of another timeline,
    /// or exceeded the limit for waiting messages.
    pub dropped: u64,
}

/// Reason why an operation of a channel failed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A prefix, key or pattern is invalid: it has an empty part, a wildcard where none is allowed,
    /// or is too long.
    #[error(
        "`{0}` is not a key: write parts with `/` between, and `*` or `**` in subscriptions \
        only"
    )]
    Key(String),
    /// A message of this length in bytes does not fit a datagram.
    #[error("a message of {0} bytes does not fit into a datagram")]
    Long(usize),
    /// The timeline cannot be read.
    #[error("{0}")]
    Page(Refusal),
    /// A socket or a thread cannot be created.
    #[error("{0}")]
    System(std::io::Error),
}

pub(crate) type Callback = Arc<dyn Fn(&ReceivedMessage) + Send + Sync>;

/// Channel that publishes messages to its peers and receives the messages that they publish.
/// Callbacks are called in threads of the channel. Dropping the value ends the channel. Dropping
/// waits until a callback under way has returned, unless that callback itself drops the value.
pub struct Channel {
    shared: Arc<Shared>,
    peers: Vec<SocketAddr>,
    local: SocketAddr,
    over: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    timeline: Arc<Timeline>,
    prefix: String,
    seal: Option<Seal>,
    socket: UdpSocket,
    /// Reading of the timeline from before any message could arrive.
    since: Stamp,
    subscribers: Mutex<Vec<Arc<Subscriber>>>,
    unproved: AtomicU64,
    dropped: AtomicU64,
}

struct Subscriber {
    pattern: String,
    told: Callback,
    /// Queue of messages that wait for their `act_at`; present if the subscriber requests this.
    agenda: Option<Agenda>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, peers, .. } = self;
        write!(f, "Channel({local} to {peers:?})")
    }
}

impl Channel {
    /// Opens a channel. Every run should have a `prefix` of its own. With a seal, the channel
    /// accepts only messages that were sealed with the same key, and each only once. From a sender
    /// that was not heard before, it accepts only messages that were sent after this call.
    ///
    /// # Errors
    /// Fails if the prefix is not a valid key, if a socket or thread cannot be created, or if the
    /// timeline cannot be read.
    pub fn open(
        timeline: Arc<Timeline>,
        prefix: &str,
        endpoints: &Endpoints,
        seal: Option<Seal>,
    ) -> Result<Self, ChannelError> {
        if !key::is_key(prefix) {
            return Err(ChannelError::Key(prefix.to_owned()));
        }
        let since = timeline.read().map_err(ChannelError::Page)?;
        let socket = UdpSocket::bind(endpoints.listen).map_err(ChannelError::System)?;
        let local = socket.local_addr().map_err(ChannelError::System)?;
        let system = |error: rustix::io::Errno| ChannelError::System(error.into());
        let over = eventfd(0, EventfdFlags::CLOEXEC).map_err(system)?;
        let shared = Arc::new(Shared {
            timeline,
            prefix: prefix.to_owned(),
            seal,
            socket,
            since,
            subscribers: Mutex::default(),
            unproved: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let (own, end) = (Arc::clone(&shared), over.try_clone());
        let end = end.map_err(ChannelError::System)?;
        let thread = std::thread::Builder::new()
            .name("message-channel".to_owned())
            .spawn(move || own.hear(&end))
            .map_err(ChannelError::System)?;
        Ok(Self {
            shared,
            peers: endpoints.peers.clone(),
            local,
            over,
            thread: Some(thread),
        })
    }

    /// Returns the address at which messages are received.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Sends a message to every peer. Returns the reading of the timeline that receivers will see
    /// as the time of sending. A peer that is not running is no error, because a message that is
    /// lost on its way would not be detected either.
    ///
    /// # Errors
    /// Fails if the key is invalid, the message too long, or the timeline cannot be read.
    pub fn publish(
        &self,
        key: &str,
        payload: &[u8],
        act_at: Option<Instant<TimelineTime>>,
    ) -> Result<Stamp, ChannelError> {
        if !key::is_key(key) {
            return Err(ChannelError::Key(key.to_owned()));
        }
        let name = format!("{}/{key}", self.shared.prefix);
        let sent = self.shared.timeline.read().map_err(ChannelError::Page)?;
        let envelope = Envelope {
            sent,
            act_at,
            payload,
        };
        let message = crate::messages::write(self.shared.seal.as_ref(), &name, &envelope);
        let bytes = datagram::write(&name, &message);
        if bytes.len() > datagram::MOST_BYTES {
            return Err(ChannelError::Long(bytes.len()));
        }
        for peer in &self.peers {
            let _ = self.shared.socket.send_to(&bytes, peer);
        }
        Ok(sent)
    }

    /// Calls `told` for each message whose key matches `pattern`. Without `at_time` it is
    /// called when the message arrives. With `at_time` it is called when `act_at` has certainly
    /// been reached, in the order of `act_at`.
    ///
    /// # Errors
    /// Fails if the pattern is invalid, or if a thread cannot be created.
    pub fn subscribe(
        &self,
        pattern: &str,
        at_time: bool,
        told: impl Fn(&ReceivedMessage) + Send + Sync + 'static,
    ) -> Result<(), ChannelError> {
        if !key::is_pattern(pattern) {
            return Err(ChannelError::Key(pattern.to_owned()));
        }
        let told: Callback = Arc::new(told);
        let start = || Agenda::start(Arc::clone(&self.shared.timeline), Arc::clone(&told));
        let agenda = at_time.then(start).transpose();
        let subscriber = Subscriber {
            pattern: pattern.to_owned(),
            agenda: agenda.map_err(ChannelError::System)?,
            told: Arc::clone(&told),
        };
        self.shared.subscribers().push(Arc::new(subscriber));
        Ok(())
    }

    /// Returns the numbers of datagrams that were not accepted until now.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            unproved: of(&self.shared.unproved),
            dropped: of(&self.shared.dropped),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The counter is 0 and written once, so it cannot overflow.
        let _ = rustix::io::write(&self.over, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        // The lock is not held here, because a queue waits for its callback, which may call
        // `subscribe`.
        let subscribers = std::mem::take(&mut *self.shared.subscribers());
        drop(subscribers);
    }
}

impl Shared {
    fn subscribers(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Subscriber>>> {
        self.subscribers.lock()
    }

    /// Receives datagrams until `over` is readable.
    fn hear(&self, over: &OwnedFd) {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let mut ready = [
                PollFd::new(over, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            if poll(&mut ready, None).is_err() {
                continue;
            }
            if !ready[0].revents().is_empty() {
                return;
            }
            // An error here belongs to a datagram that this socket sent: the peer is not running.
            if let Ok((length, _)) = self.socket.recv_from(&mut bytes) {
                self.take(&bytes[..length]);
            }
        }
    }

    fn take(&self, bytes: &[u8]) {
        let Ok(arrived) = self.timeline.read() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let read = datagram::read(bytes).and_then(|(name, message)| {
            let key = name.strip_prefix(&self.prefix)?.strip_prefix('/')?;
            key::is_key(key).then_some((name, key, message))
        });
        let Some((name, key, message)) = read else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let envelope =
            match crate::messages::open(self.seal.as_ref(), name, message, Some(&self.since)) {
                Ok(envelope) if envelope.sent.timeline() == self.timeline.id() => envelope,
                Err(MessageRefusal::Unproved(_)) => {
                    self.unproved.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                _ => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            };
        let message = ReceivedMessage {
            key: key.to_owned(),
            payload: envelope.payload.to_vec(),
            sent: envelope.sent,
            arrived,
            act_at: envelope.act_at,
            acted: arrived,
        };
        let wanted: Vec<Arc<Subscriber>> = (self.subscribers().iter())
            .filter(|subscriber| key::matches(&subscriber.pattern, key))
            .cloned()
            .collect();
        for subscriber in wanted {
            match (&subscriber.agenda, message.act_at) {
                (Some(agenda), Some(act_at)) => {
                    let gone = agenda.add(act_at, message.clone());
                    self.dropped.fetch_add(gone, Ordering::Relaxed);
                }
                _ => (subscriber.told)(&message),
            }
        }
    }
}
