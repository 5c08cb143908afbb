//! Connections of peers that offer runs to an agent.
//!
//! A connection costs a thread and a descriptor before the agent knows whether its peer has the
//! key. Peers without proof of the key have a quota of their own. When that quota is exhausted, the
//! agent closes the oldest connection of the IP address with the most connections. Peers that stay
//! silent, or send a byte now and then, therefore cannot lock out a peer that has the key.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All open connections of the agent.
#[derive(Default)]
pub(super) struct Guests(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    /// Open connections, the oldest first.
    open: Vec<Open>,
}

struct Open {
    number: u64,
    from: IpAddr,
    stream: TcpStream,
    phase: Phase,
}

enum Phase {
    /// The peer has not proved that it has the key.
    Unproved,
    Proved,
    /// The peer's share is running. Setting the flag interrupts that share.
    Running(Arc<AtomicBool>),
}

/// One open connection, registered until this value is dropped.
pub(super) struct Guest {
    all: Arc<Guests>,
    number: u64,
}

impl Guests {
    /// Registers a connection. If too many have no proof of the key, one of these is closed.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(super) fn admit(
        self: &Arc<Self>,
        stream: &TcpStream,
        from: SocketAddr,
    ) -> io::Result<Guest> {
        let stream = stream.try_clone()?;
        let mut state = self.lock();
        if state.unproved().count() >= MOST_UNPROVED
            && let Some(at) = state.gives_way()
        {
            let ended = state.open.remove(at);
            let _ = ended.stream.shutdown(Shutdown::Both);
        }
        let number = state.next;
        state.next += 1;
        state.open.push(Open {
            number,
            from: from.ip(),
            stream,
            phase: Phase::Unproved,
        });
        Ok(Guest {
            all: Arc::clone(self),
            number,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }

    /// Ends all connections. Running shares are interrupted, and still send their results.
    pub(super) fn stop(&self) {
        for guest in &self.lock().open {
            match &guest.phase {
                Phase::Running(interrupted) => interrupted.store(true, Ordering::SeqCst),
                Phase::Unproved | Phase::Proved => {
                    let _ = guest.stream.shutdown(Shutdown::Both);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn unproved(&self) -> impl Iterator<Item = (usize, &Open)> {
        let all = self.open.iter().enumerate();
        all.filter(|(_, guest)| matches!(guest.phase, Phase::Unproved))
    }

    /// Returns the index of the oldest connection among those of the IP address with the most.
    fn gives_way(&self) -> Option<usize> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for (_, guest) in self.unproved() {
            *counts.entry(guest.from).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?.0;
        let (at, _) = self.unproved().find(|(_, guest)| guest.from == most)?;
        Some(at)
    }
}

impl Guest {
    /// Records that the peer has proved that it has the key. Returns false if there are too many
    /// such peers.
    pub(super) fn prove(&self) -> bool {
        let mut state = self.all.lock();
        let proved = state.open.len() - state.unproved().count();
        let has_room = proved < MOST_PROVED;
        if has_room {
            self.enter(&mut state, Phase::Proved);
        }
        has_room
    }

    /// Records that the peer's share is running; setting `interrupted` interrupts that share.
    pub(super) fn runs(&self, interrupted: Arc<AtomicBool>) {
        self.enter(&mut self.all.lock(), Phase::Running(interrupted));
    }

    fn enter(&self, state: &mut State, phase: Phase) {
        let mut all = state.open.iter_mut();
        if let Some(guest) = all.find(|guest| guest.number == self.number) {
            guest.phase = phase;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        state.open.retain(|guest| guest.number != self.number);
    }
}

/// Maximum number of simultaneous connections without proof of the key.
const MOST_UNPROVED: usize = 64;

/// Maximum number of simultaneous connections with proof of the key. One of them may run a share;
/// the others are told that the agent is busy.
const MOST_PROVED: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_oldest_of_the_address_with_the_most_leaves_and_key_holders_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let guests = Arc::new(Guests::default());
        let flood: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let other: SocketAddr = "10.0.0.2:1".parse().unwrap();
        let mut far = Vec::new();
        let mut admit = |from| {
            far.push(TcpStream::connect(to).unwrap());
            let (stream, _) = listener.accept().unwrap();
            guests.admit(&stream, from).unwrap()
        };
        let proved = admit(flood);
        assert!(proved.prove());
        let lone = admit(other);
        let _silent: Vec<Guest> = (0..2 * MOST_UNPROVED).map(|_| admit(flood)).collect();
        let is_open = |number| {
            guests
                .lock()
                .open
                .iter()
                .any(|guest| guest.number == number)
        };
        assert!(is_open(proved.number) && is_open(lone.number));
        assert_eq!(guests.lock().unproved().count(), MOST_UNPROVED);
        assert!(lone.prove(), "there is room for a peer with the key");
        // The agent closed the oldest connection of the address that opened too many.
        assert_eq!(far[2].read(&mut [0]).unwrap(), 0);
        guests.stop();
        assert_eq!(far[1].read(&mut [0]).unwrap(), 0);
    }
}
