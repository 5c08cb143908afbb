//! A place to publish and subscribe, by datagrams to peers that are named.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use timeloom_clock::Timeline as Scale;
use timeloom_time::Instant;
use timeloom_timeline_client::{Refusal, Stamp, Timeline};

use crate::agenda::Agenda;
use crate::envelope::Envelope;
use crate::seal::Seal;
use crate::{Refused, datagram, key};

/// Where a channel is, and to whom it speaks. Nobody is looked for.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// Where messages come; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who gets what is published.
    pub peers: Vec<SocketAddr>,
}

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Without the channel's prefix.
    pub key: String,
    /// What it says.
    pub payload: Vec<u8>,
    /// When it was sent, by its sender's reading.
    pub sent: Stamp,
    /// When it arrived, by ours.
    pub arrived: Stamp,
    /// When to act on it; `None` when that does not matter.
    pub act_at: Option<Instant<Scale>>,
    /// What was read before the callback: at `act_at` or after it, where that was waited for.
    pub acted: Stamp,
}

impl Message {
    /// Whether it certainly arrived before it was to be acted on; also when that does not matter.
    pub fn in_time(&self) -> bool {
        let latest = self.arrived.interval().map(|it| it.latest());
        self.act_at
            .is_none_or(|act_at| latest.is_some_and(|latest| latest <= act_at))
    }
}

/// What came and was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not sealed with our key, changed, said before, or from before we began.
    pub unproved: u64,
    /// No message, under another prefix, of another timeline, or one too many that would have
    /// waited for its time.
    pub dropped: u64,
}

/// Why a channel does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A prefix or key has an empty part, stars where none may be, or is too long.
    #[error("`{0}` is no key: parts with `/` between, and `*` or `**` only where is subscribed")]
    Key(String),
    /// The message is longer than a datagram: so many bytes.
    #[error("a message of {0} bytes fits into no datagram")]
    Long(usize),
    /// The timeline cannot be read.
    #[error("{0}")]
    Page(Refusal),
    /// No socket or thread can be had.
    #[error("{0}")]
    System(std::io::Error),
}

pub(crate) type Callback = Arc<dyn Fn(&Message) + Send + Sync>;

/// Publishes to its peers and hears what they publish. Callbacks run in threads of the channel's;
/// it ends when it is dropped, and waits for a callback under way unless dropped by that.
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
    /// Read before anything could have come.
    since: Stamp,
    subscribers: Mutex<Vec<Arc<Subscriber>>>,
    unproved: AtomicU64,
    dropped: AtomicU64,
}

struct Subscriber {
    pattern: String,
    told: Callback,
    /// Of who is told at their time of messages that have one.
    agenda: Option<Agenda>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, peers, .. } = self;
        write!(f, "Channel({local} to {peers:?})")
    }
}

impl Channel {
    /// Every run takes a `prefix` of its own. With a seal only what is sealed with the same key is
    /// heard, once each, and of a sender that was not heard before only what was sent since now.
    ///
    /// # Errors
    /// When the prefix is no key, or socket, thread or timeline cannot be had.
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

    /// Where messages come.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Sends to every peer; returns when it was sent, as receivers will see it. That a peer is not
    /// there is no error: nobody would know of a message that is lost on its way either.
    ///
    /// # Errors
    /// When the key is none, the message too long, or the timeline cannot be read.
    pub fn publish(
        &self,
        key: &str,
        payload: &[u8],
        act_at: Option<Instant<Scale>>,
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
        let message = crate::write(self.shared.seal.as_ref(), &name, &envelope);
        let bytes = datagram::write(&name, &message);
        if bytes.len() > datagram::MOST_BYTES {
            return Err(ChannelError::Long(bytes.len()));
        }
        for peer in &self.peers {
            let _ = self.shared.socket.send_to(&bytes, peer);
        }
        Ok(sent)
    }

    /// Has `told` called for each message whose key `pattern` stands for: as it comes, or with
    /// `at_time` certainly not before its `act_at`, in that order.
    ///
    /// # Errors
    /// When it is no pattern, or no thread can be made.
    pub fn subscribe(
        &self,
        pattern: &str,
        at_time: bool,
        told: impl Fn(&Message) + Send + Sync + 'static,
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

    /// What came and was not taken, until now.
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
        // Counts from 0 once: it cannot be full.
        let _ = rustix::io::write(&self.over, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        // Not under the lock: an agenda waits for its callback, which may subscribe.
        let subscribers = std::mem::take(&mut *self.shared.subscribers());
        drop(subscribers);
    }
}

impl Shared {
    fn subscribers(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Subscriber>>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what comes until `over` can be read.
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
            // An error here is one of a datagram that was sent: a peer that is not there.
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
        let envelope = match crate::open(self.seal.as_ref(), name, message, Some(&self.since)) {
            Ok(envelope) if envelope.sent.timeline() == self.timeline.id() => envelope,
            Err(Refused::Unproved(_)) => {
                self.unproved.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        let message = Message {
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
