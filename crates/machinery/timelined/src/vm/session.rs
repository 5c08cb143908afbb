//! Connections of one guest to daemons, from the guest's hello until it falls silent.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use timeloom_timeline::protocol::{Answer, DaemonMessage, RequestKind};

/// Connections of a guest that has sent a hello.
#[derive(Debug)]
pub(crate) struct Session {
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// True while a guest that has sent a hello gives signs of life.
    live: bool,
    heard: Instant,
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// Connection of a guest to a daemon.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Index of the connection's timeline in the region.
    pub(crate) index: u32,
    bindings: Mutex<Bindings>,
}

#[derive(Debug, Default)]
struct Bindings {
    /// Identifiers of pending requests that may create a binding.
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

    /// Begins the session of a guest. Connections of a previous guest are closed.
    pub(crate) fn begin(&self) {
        let mut open = self.lock();
        open.end();
        open.live = true;
        open.heard = Instant::now();
    }

    /// Records a sign of life of the guest.
    pub(crate) fn heard(&self) {
        self.lock().heard = Instant::now();
    }

    /// Closes all connections if the guest has been silent for longer than [`SILENCE`].
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

    /// Adds a connection. Returns `None` if no guest is live, or if it has the maximum number
    /// already.
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

    /// Removes `connection`. Returns true if the number still belonged to this connection.
    pub(crate) fn remove(&self, number: u64, connection: &Arc<Connection>) -> bool {
        let mut open = self.lock();
        let known = open.connections.get(&number);
        let same = known.is_some_and(|known| Arc::ptr_eq(known, connection));
        if same {
            open.connections.remove(&number);
        }
        same
    }

    /// Returns the number of connections and the number of bindings.
    pub(crate) fn count(&self) -> (usize, usize) {
        let open = self.lock();
        let bound = |connection: &Arc<Connection>| connection.lock().bound.len();
        let bindings = open.connections.values().map(bound).sum();
        (open.connections.len(), bindings)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
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
    /// Closes the connection. The daemon then ends its bindings, and the receiving thread ends.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Returns true if the request is within the quota, and records it.
    pub(crate) fn may(&self, id: u64, ask: &RequestKind) -> bool {
        let mut bindings = self.lock();
        match ask {
            RequestKind::Bind(_)
                if bindings.asked.len() + bindings.bound.len() >= MOST_BINDINGS =>
            {
                return false;
            }
            RequestKind::Bind(_) => bindings.asked.push(id),
            RequestKind::Unbind { binding } => {
                bindings.bound.remove(binding);
            }
            _ => {}
        }
        true
    }

    /// Updates the counts from a message of the daemon.
    pub(crate) fn learn(&self, message: &DaemonMessage) {
        let DaemonMessage::Reply(reply) = message else {
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
        self.bindings.lock()
    }
}

/// Silence after which a guest is considered gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// Maximum number of connections of one guest.
pub(crate) const MOST_CONNECTIONS: usize = 64;

/// Maximum number of bindings on one connection. (The library has one on each.)
pub(crate) const MOST_BINDINGS: usize = 4;
