//! What one guest has open at the daemons, from its hello to its silence.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use timeloom_timeline_protocol::{Answer, Ask, Message};

/// The connections of a guest that has said hello.
#[derive(Debug)]
pub(crate) struct Session {
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// Whether a guest has said hello.
    live: bool,
    heard: Instant,
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// One connection to a daemon.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Of the timeline in the region.
    pub(crate) index: u32,
    bindings: Mutex<Bindings>,
}

#[derive(Debug, Default)]
struct Bindings {
    /// The requests that are not answered.
    asked: Vec<u64>,
    bound: BTreeSet<u64>,
}

impl Session {
    pub(crate) fn new() -> Self {
        let open = Open {
            live: false,
            heard: Instant::now(),
            connections: BTreeMap::new(),
        };
        Self {
            open: Mutex::new(open),
        }
    }

    /// A guest begins: what another one had ends.
    pub(crate) fn begin(&self) {
        let mut open = self.lock();
        open.end();
        open.live = true;
        open.heard = Instant::now();
    }

    /// The guest was heard.
    pub(crate) fn heard(&self) {
        self.lock().heard = Instant::now();
    }

    /// Ends all that a guest has which is silent for too long.
    pub(crate) fn look(&self) {
        let mut open = self.lock();
        if open.live && open.heard.elapsed() > SILENCE {
            open.end();
        }
    }

    pub(crate) fn end(&self) {
        self.lock().end();
    }

    pub(crate) fn is_live(&self) -> bool {
        self.lock().live
    }

    pub(crate) fn connection(&self, number: u64) -> Option<Arc<Connection>> {
        self.lock().connections.get(&number).cloned()
    }

    /// Takes one in; `None` when there are as many as a guest may have.
    pub(crate) fn add(&self, number: u64, socket: OwnedFd, index: u32) -> Option<Arc<Connection>> {
        let mut open = self.lock();
        if !open.live || open.connections.len() >= MOST_CONNECTIONS {
            return None;
        }
        let connection = Arc::new(Connection {
            socket,
            index,
            bindings: Mutex::default(),
        });
        open.connections.insert(number, connection.clone());
        Some(connection)
    }

    /// Takes `connection` out; whether it was still the one of that number.
    pub(crate) fn remove(&self, number: u64, connection: &Arc<Connection>) -> bool {
        let mut open = self.lock();
        let known = open.connections.get(&number);
        let same = known.is_some_and(|known| Arc::ptr_eq(known, connection));
        if same {
            open.connections.remove(&number);
        }
        same
    }

    /// How many connections and bindings there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        let open = self.lock();
        let bound = |connection: &Arc<Connection>| connection.lock().bound.len();
        let bindings = open.connections.values().map(bound).sum();
        (open.connections.len(), bindings)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn end(&mut self) {
        self.live = false;
        for connection in std::mem::take(&mut self.connections).values() {
            connection.end();
        }
    }
}

impl Connection {
    /// The daemon ends its bindings, and the thread that listens to it ends.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether a request is within the quota.
    pub(crate) fn may(&self, id: u64, ask: &Ask) -> bool {
        let mut bindings = self.lock();
        match ask {
            Ask::Bind(_) if bindings.asked.len() + bindings.bound.len() >= MOST_BINDINGS => {
                return false;
            }
            Ask::Bind(_) => bindings.asked.push(id),
            Ask::Unbind { binding } => {
                bindings.bound.remove(binding);
            }
            _ => {}
        }
        true
    }

    /// Learns from an answer.
    pub(crate) fn learn(&self, message: &Message) {
        let Message::Reply(reply) = message else {
            return;
        };
        let mut bindings = self.lock();
        if let Some(at) = bindings.asked.iter().position(|id| *id == reply.id) {
            bindings.asked.swap_remove(at);
        }
        if let Answer::Bound { binding } = reply.answer {
            bindings.bound.insert(binding);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest that says nothing for so long is gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// Connections of one guest.
pub(crate) const MOST_CONNECTIONS: usize = 64;

/// Bindings of one connection. (The library has one on each.)
pub(crate) const MOST_BINDINGS: usize = 4;
