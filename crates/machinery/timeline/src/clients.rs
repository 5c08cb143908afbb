//! The connections of a timeline: so many, of one user no more than his share, so that
//! nobody takes the daemon's descriptors away from its sources and from others.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::net::Shutdown;
use timeloom_sys::{limit, local};

/// The connections of a timeline that are open.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// Of all users.
    most: usize,
    /// The user who may have all of them: the daemon's.
    own: u32,
    /// Oldest first.
    open: Arc<Mutex<Vec<Open>>>,
}

#[derive(Debug)]
struct Open {
    user: u32,
    socket: Weak<OwnedFd>,
    bound: Arc<AtomicBool>,
}

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) socket: Arc<OwnedFd>,
    /// To be kept true while it has bindings: then it is not ended for another's sake.
    pub(crate) bound: Arc<AtomicBool>,
}

impl Clients {
    /// For one of so many timelines of this daemon.
    pub(crate) fn new(timelines: usize) -> Self {
        let descriptors = limit::descriptors().map_or(1024, |all| all.min(1 << 20) as usize);
        // What sources, pages and others' formats need is never lent.
        let free = descriptors.saturating_sub(RESERVED) / timelines.max(1);
        Self {
            most: free.saturating_sub(RESERVED).clamp(LEAST, MOST),
            own: rustix::process::geteuid().as_raw(),
            open: Arc::default(),
        }
    }

    /// Lets a connection in. If its user has his share already, or there are too many of
    /// all, the oldest that has no binding gives way: his, or that of who has the most.
    /// Without such a one the new connection is closed.
    pub(crate) fn admit(&self, socket: OwnedFd) -> Option<Admitted> {
        let user = local::peer(&socket).ok()?.uid;
        let mut open = self.lock();
        open.retain(|client| client.socket.strong_count() > 0);
        let of = |user: u32| open.iter().filter(|client| client.user == user).count();
        let share = if user == self.own {
            self.most
        } else {
            self.most / SHARES
        };
        let from = if of(user) >= share {
            Some(user)
        } else if open.len() >= self.most {
            open.iter()
                .map(|client| client.user)
                .max_by_key(|&user| of(user))
        } else {
            None
        };
        if let Some(user) = from {
            let idle = |client: &Open| client.user == user && !client.bound.load(SeqCst);
            let at = open.iter().position(idle)?;
            end(&open.remove(at));
        }
        let admitted = Admitted {
            socket: Arc::new(socket),
            bound: Arc::default(),
        };
        open.push(Open {
            user,
            socket: Arc::downgrade(&admitted.socket),
            bound: Arc::clone(&admitted.bound),
        });
        Some(admitted)
    }

    /// Ends all.
    pub(crate) fn end(&self) {
        self.lock().iter().for_each(end);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its thread sees the end and closes it.
fn end(client: &Open) {
    if let Some(socket) = client.socket.upgrade() {
        let _: Result<(), io::Error> =
            rustix::net::shutdown(&*socket, Shutdown::Both).map_err(io::Error::from);
    }
}

/// Connections that one timeline serves at a time, wherever there are descriptors for it.
const MOST: usize = 1024;

/// And wherever there are not.
const LEAST: usize = 8;

/// A user other than the daemon's may have one part of so many.
const SHARES: usize = 4;

/// Descriptors for the daemon itself, and again for each timeline.
const RESERVED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn connection() -> (OwnedFd, OwnedFd) {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn who_has_his_share_loses_his_oldest_that_is_idle() {
        let clients = Clients {
            most: 8,
            own: u32::MAX,
            open: Arc::default(),
        };
        let (one, _a) = connection();
        let (two, _b) = connection();
        let (three, _c) = connection();
        let (four, _d) = connection();
        let one = clients.admit(one).unwrap();
        one.bound.store(true, SeqCst);
        let two = clients.admit(two).unwrap();
        let three = clients.admit(three).unwrap();
        let ended = |socket: &OwnedFd| {
            let mut buffer = [0; 1];
            let flags = rustix::net::RecvFlags::DONTWAIT;
            rustix::net::recv(socket, &mut buffer[..], flags).is_ok_and(|(length, _)| length == 0)
        };
        assert!(!ended(&one.socket), "what is bound stays");
        assert!(ended(&two.socket), "the oldest without a binding goes");
        assert!(!ended(&three.socket));
        three.bound.store(true, SeqCst);
        assert!(clients.admit(four).is_none(), "nobody gives way");
        drop(one);
        let (five, _e) = connection();
        assert!(clients.admit(five).is_some(), "there is room again");
    }
}
