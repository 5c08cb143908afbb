//! Attacks, for the laboratory only: a wire that alters messages.
//!
//! The attacker is a separate namespace between two nodes, with an interface to each. Until its
//! attack the kernel bridges the two. From then on the attacker forwards every frame, as a cable
//! does, and alters the frames that its attack concerns. It needs no cooperation of the nodes, so
//! it works on ptp4l as on our own clocks. It has no key; the simulated attacks of `timeloom-ptp`
//! cover a clock with a valid key.

mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use timeloom_fabric::{Namespace, Splice};

use super::chain::{DOWN, UP};
use super::kernel;
use crate::socket::PortSocket;
use crate::{Interface, PtpError, Stamping, Transport, Wake};
use wire::Wire;

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Adds a microsecond to the Follow_Up's correction.
    Correction,
    /// Changes the Follow_Up's time by 64 ns.
    Origin,
    /// Removes the signed TLV.
    Strip,
    /// Removes the last hop from the chain.
    RemoveHop,
    /// Replaces the epoch of the keys.
    Epoch,
    /// Resends Sync and Follow_Up of two seconds ago.
    Replay,
    /// Resends every Sync, a millisecond late.
    DuplicateSync,
    /// Sends a forged Sync before the genuine one.
    SpoofSync,
    /// Announces a better grandmaster.
    SecondMaster,
    /// Changes the neighbour's peer-delay stamps.
    Pdelay,
    /// Sends a hundred Follow_Ups with corrupted signatures for each genuine one.
    Flood,
    /// Sends bytes that are no valid messages: truncated, inconsistent, of an unknown version. They
    /// violate no clock's time; they are dropped and counted.
    Malformed,
    /// Delays Syncs by 2 ms.
    DelaySync,
    /// Delays everything by 20 µs from the start, symmetrically. No check can detect it; it shows
    /// in the link's delay.
    SymmetricDelay,
    /// A hop with a valid key overstates its own residence by 5 µs, from the start. Within its
    /// bounds no check can detect it; the offset shows it.
    Lie,
}

impl Attack {
    /// All attacks with their names.
    pub const ALL: [(&'static str, Self); 15] = [
        ("correction", Self::Correction),
        ("origin", Self::Origin),
        ("strip", Self::Strip),
        ("remove-hop", Self::RemoveHop),
        ("epoch", Self::Epoch),
        ("replay", Self::Replay),
        ("duplicate-sync", Self::DuplicateSync),
        ("spoof-sync", Self::SpoofSync),
        ("second-master", Self::SecondMaster),
        ("pdelay", Self::Pdelay),
        ("flood", Self::Flood),
        ("malformed", Self::Malformed),
        ("delay-sync", Self::DelaySync),
        ("symmetric-delay", Self::SymmetricDelay),
        ("lie", Self::Lie),
    ];

    /// Returns the attack called `name`.
    ///
    /// # Errors
    /// Fails with the list of valid names.
    pub fn named(name: &str) -> Result<Self, PtpError> {
        Self::ALL
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, attack)| *attack)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|(of, _)| *of).collect();
                PtpError::usage(format!(
                    "there is no attack `{name}`; there are {}",
                    names.join(", ")
                ))
            })
    }

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, attack)| *attack == self);
        found.expect("all of them are listed").0
    }

    /// Returns true if a signed chain must detect it. A symmetric delay that exists from the start
    /// is part of the path, and a hop's statement about itself cannot be checked by others.
    pub const fn is_detectable(self) -> bool {
        !matches!(self, Self::SymmetricDelay | Self::Lie | Self::Malformed)
    }
}

/// Control of the wire, with its counters. Clones control the same wire.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    attacked: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    attack: Option<Attack>,
    /// Set while there is no attack: the kernel then forwards with the delay of a cable. A program
    /// that forwards frames adds scheduling delays.
    splice: Option<Splice>,
}

impl Orders {
    /// Takes over the wire, which is an ordinary cable until an attack.
    fn take_wire(&self, mut splice: Splice) -> Result<(), PtpError> {
        let mut state = self.lock();
        if state.attack.is_none() {
            splice.close().map_err(kernel)?;
        }
        state.splice = Some(splice);
        Ok(())
    }

    /// Starts an attack; before, all frames are forwarded unchanged.
    pub(super) fn attack(&self, attack: Attack) -> Result<(), PtpError> {
        let mut state = self.lock();
        if let Some(splice) = &mut state.splice {
            splice.open().map_err(kernel)?;
        }
        state.attack = Some(attack);
        Ok(())
    }

    /// Ends the attack: the wire is an ordinary cable again.
    pub(super) fn cease(&self) -> Result<(), PtpError> {
        let mut state = self.lock();
        state.attack = None;
        match &mut state.splice {
            Some(splice) => splice.close().map_err(kernel),
            None => Ok(()),
        }
    }

    /// Returns the total over all attacks so far: messages altered, delayed, duplicated, replayed
    /// or forged.
    pub(super) fn attacked(&self) -> u64 {
        self.0.attacked.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true while the kernel forwards frames.
    fn is_spliced(&self) -> bool {
        let state = self.lock();
        state.splice.is_some() && state.attack.is_none()
    }

    /// Returns the current attack.
    fn get(&self) -> Option<Attack> {
        self.lock().attack
    }

    fn count(&self, messages: u64) {
        self.0.attacked.fetch_add(messages, Ordering::Relaxed);
    }
}

/// A running wire. Dropping it stops the thread.
pub(super) struct Attacker {
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    /// Taps the cable from now on.
    pub(super) fn start(
        orders: Orders,
        transport: Transport,
        wire: &Namespace,
    ) -> Result<Self, PtpError> {
        if transport != Transport::Layer2 {
            return Err(PtpError::usage(
                "the laboratory's attacker works on layer 2",
            ));
        }
        let wake = Wake::new().map_err(PtpError::doing("open a socket pair"))?;
        let open = |name: &str| {
            let interface = Interface::find(name)?;
            PortSocket::open(&interface, transport, Stamping::Software)
        };
        let ports = wire.run(|| Ok::<_, PtpError>([open(UP)?, open(DOWN)?]))??;
        orders.take_wire(Splice::new(wire, [UP, DOWN]).map_err(kernel)?)?;
        let told = wake.clone();
        let thread = spawn(move || Wire::new(orders, ports).run(&told));
        Ok(Self {
            wake,
            thread: Some(thread),
        })
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}
