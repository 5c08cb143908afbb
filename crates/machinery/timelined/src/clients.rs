//! Limits on the connections of a timeline: one in total, and one for each user. Without them, a
//! user could exhaust the file descriptors that the daemon needs for its sources, for its own user
//! and for other users.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use rustix::net::Shutdown;
use timeloom_sys::{limit, local};

/// Open connections of a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// Maximum number of connections of all users together.
    most: usize,
    /// User id of the daemon. This user may have all connections, and a part is always reserved for
    /// it.
    own: u32,
    /// Open connections, oldest first.
    open: Arc<Mutex<Vec<Open>>>,
}

#[derive(Debug)]
struct Open {
    user: u32,
    socket: Weak<OwnedFd>,
    bound: Arc<AtomicBool>,
}

/// Connection that was admitted. The connection counts until its owner drops this value.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) socket: Arc<OwnedFd>,
    /// True while the connection has bindings; its owner sets the flag. A connection with bindings
    /// is not closed in favour of another user as long as its user is within its share.
    pub(crate) bound: Arc<AtomicBool>,
}

impl Clients {
    /// Creates the limits for one timeline of a daemon that keeps `timelines` timelines.
    pub(crate) fn new(timelines: usize) -> Self {
        let descriptors = limit::descriptors().map_or(1024, |all| all.min(1 << 20) as usize);
        // Clients never get the descriptors that sources, pages and outputs need.
        let free = descriptors.saturating_sub(RESERVED) / timelines.max(1);
        Self {
            most: free.saturating_sub(RESERVED).clamp(LEAST, MOST),
            own: rustix::process::geteuid().as_raw(),
            open: Arc::default(),
        }
    }

    /// Admits a connection, or closes it and returns `None`.
    ///
    /// One part of all connections is reserved for the daemon's user. The other users that have
    /// connections share the rest evenly, and none gets more than one part. A user that has reached
    /// its share loses its oldest connection without a binding. If no connection is free for a user
    /// below its share, the user that exceeds its share most loses a connection: the oldest without
    /// a binding, or else the one that was bound last.
    pub(crate) fn admit(&self, socket: OwnedFd) -> Option<Admitted> {
        let user = local::peer(&socket).ok()?.uid;
        self.admit_user(user, socket)
    }

    fn admit_user(&self, user: u32, socket: OwnedFd) -> Option<Admitted> {
        let mut open = self.lock();
        open.retain(|client| client.socket.strong_count() > 0);
        let shares = Shares::new(self, &open, user);
        if shares.count(user) >= shares.entitled(user) {
            let own = idle_of(&open, user)?;
            end(&open.remove(own));
        } else if !shares.has_room(user) {
            let at = shares.gives_way(&open)?;
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

    /// Closes all connections.
    pub(crate) fn end(&self) {
        self.lock().iter().for_each(end);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock()
    }
}

/// Division of the connections among the users present, including the new one.
struct Shares {
    most: usize,
    own: u32,
    /// Number of connections of each user.
    counts: BTreeMap<u32, usize>,
}

impl Shares {
    fn new(clients: &Clients, open: &[Open], newcomer: u32) -> Self {
        let mut counts = BTreeMap::from([(newcomer, 0)]);
        for client in open {
            *counts.entry(client.user).or_insert(0) += 1;
        }
        Self {
            most: clients.most,
            own: clients.own,
            counts,
        }
    }

    fn count(&self, user: u32) -> usize {
        self.counts.get(&user).copied().unwrap_or(0)
    }

    /// Returns the number of connections for all users except the daemon's.
    fn of_others(&self) -> usize {
        self.most - self.most / SHARES
    }

    fn others(&self) -> impl Iterator<Item = (u32, usize)> {
        let all = self.counts.iter().map(|(user, count)| (*user, *count));
        all.filter(|(user, _)| *user != self.own)
    }

    fn entitled(&self, user: u32) -> usize {
        if user == self.own {
            return self.most;
        }
        let even = self.of_others() / self.others().count().max(1);
        even.min(self.most / SHARES).max(1)
    }

    fn has_room(&self, user: u32) -> bool {
        let others: usize = self.others().map(|(_, count)| count).sum();
        let all = others + self.count(self.own);
        all < self.most && (user == self.own || others < self.of_others())
    }

    /// Returns the index of the connection to close in favour of another user, if there is one.
    fn gives_way(&self, open: &[Open]) -> Option<usize> {
        let beyond = |(user, count): (u32, usize)| {
            let beyond = count.checked_sub(self.entitled(user))?;
            (beyond > 0).then_some((beyond, user))
        };
        let (_, furthest) = self.others().filter_map(beyond).max().unzip();
        let idle = furthest.and_then(|user| idle_of(open, user));
        let bound = || {
            open.iter()
                .rposition(|client| Some(client.user) == furthest)
        };
        // No user exceeds its share: choose an idle connection of the user that has the most
        // connections.
        let any_idle = || {
            let idle = open.iter().filter(|client| client.is_idle());
            let most = idle.map(|client| (self.count(client.user), client.user));
            idle_of(open, most.max()?.1)
        };
        idle.or_else(bound).or_else(any_idle)
    }
}

impl Open {
    fn is_idle(&self) -> bool {
        !self.bound.load(SeqCst)
    }
}

/// Returns the index of the oldest connection of `user` that has no binding.
fn idle_of(open: &[Open], user: u32) -> Option<usize> {
    let mut all = open.iter();
    all.position(|client| client.user == user && client.is_idle())
}

/// Shuts the connection down. The thread that serves the connection then ends and closes it.
fn end(client: &Open) {
    if let Some(socket) = client.socket.upgrade() {
        let _: Result<(), io::Error> =
            rustix::net::shutdown(&*socket, Shutdown::Both).map_err(io::Error::from);
    }
}

/// Maximum number of connections of one timeline, if the process has enough file descriptors.
const MOST: usize = 1024;

/// Number of connections of one timeline if file descriptors are scarce.
const LEAST: usize = 8;

/// Number of equal parts into which the connections are divided. One part is reserved for the
/// daemon's user. Any other user gets one part at most.
const SHARES: usize = 4;

/// Number of file descriptors reserved for the daemon itself, and the same number for each
/// timeline.
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
    fn a_client_at_its_share_loses_its_oldest_idle_connection() {
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
        assert!(clients.admit(four).is_none(), "no connection gives way");
        drop(one);
        let (five, _e) = connection();
        assert!(clients.admit(five).is_some(), "there is room again");
    }

    fn ended(admitted: &Admitted) -> bool {
        let mut buffer = [0; 1];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        let received = rustix::net::recv(&*admitted.socket, &mut buffer[..], flags);
        received.is_ok_and(|(length, _)| length == 0)
    }

    #[test]
    fn users_with_full_shares_shut_neither_the_owner_nor_another_user_out() {
        const OWNER: u32 = 7;
        let clients = Clients {
            most: 32,
            own: OWNER,
            open: Arc::default(),
        };
        let mut peers = Vec::new();
        let mut bound = |user: u32| {
            let (ours, theirs) = connection();
            peers.push(theirs);
            let admitted = clients.admit_user(user, ours)?;
            admitted.bound.store(true, SeqCst);
            Some(admitted)
        };
        // Four users take and bind as many connections as they can.
        let greedy = [100, 101, 102, 103];
        let mut held = Vec::new();
        for user in greedy {
            held.extend((0..32).map_while(|_| bound(user)).map(|it| (user, it)));
        }
        let of = |held: &[(u32, Admitted)], of: u32| {
            let open = held.iter().filter(|(user, it)| *user == of && !ended(it));
            open.count()
        };
        let others: usize = greedy.iter().map(|user| of(&held, *user)).sum();
        assert_eq!(others, 24, "a quarter stays free for the owner");
        for _ in 0..8 {
            assert!(bound(OWNER).is_some_and(|it| {
                held.push((OWNER, it));
                true
            }));
        }
        // A fifth and a sixth user receive an equal share.
        for user in [104, 105] {
            held.extend((0..32).map_while(|_| bound(user)).map(|it| (user, it)));
        }
        for user in [100, 101, 102, 103, 104, 105] {
            assert_eq!(of(&held, user), 4, "user {user}");
        }
        assert_eq!(of(&held, OWNER), 8, "no user takes the owner's share");
    }
}
