//! Attacks, for the laboratory only: a cable on which an attacker alters messages.
//!
//! The attacker is a separate namespace between two nodes, with an interface to each. Until an
//! attack begins, the kernel bridges the two interfaces. From then on the attacker forwards every
//! frame, as a cable does, and alters the frames that its attack concerns. The attacker needs no
//! cooperation of the nodes, so it works on ptp4l as on Timeloom's own clocks. It has no key; the
//! simulated attacks of `timeloom-ptp` cover a clock that has a valid key.

mod wire;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};

use timeloom_fabric::{Namespace, Splice};

use super::chain::{DOWN, UP};
use super::kernel;
use crate::socket::PortSocket;
use crate::{ProgramControl, PtpError, PtpInterface, Stamping, Transport};
use wire::Wire;

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabAttack {
    /// Adds a microsecond to the correction of each Follow_Up.
    Correction,
    /// Changes the origin timestamp of each Follow_Up by 64 ns.
    Origin,
    /// Removes the TLV with the signatures.
    Strip,
    /// Removes the last hop's entry from the chain of signatures.
    RemoveHop,
    /// Replaces the epoch number of the keys.
    Epoch,
    /// Resends the Sync and Follow_Up of two seconds ago.
    Replay,
    /// Sends every Sync a second time, a millisecond late.
    DuplicateSync,
    /// Sends a forged Sync before the genuine one.
    SpoofSync,
    /// Announces a better grandmaster.
    SecondMaster,
    /// Changes the timestamps in the neighbour's peer-delay messages.
    Pdelay,
    /// Sends a hundred Follow_Ups with corrupted signatures for each genuine one.
    Flood,
    /// Sends bytes that are not valid messages: truncated, inconsistent or of an unknown version.
    /// They do not affect any clock's time; clocks drop and count them.
    Malformed,
    /// Delays Syncs by 2 ms.
    DelaySync,
    /// Delays all messages by 20 µs in both directions, from the start. No check can detect this
    /// attack; it is visible in the link's delay.
    SymmetricDelay,
    /// Lets a hop with a valid key overstate its own residence time by 5 µs, from the start. No
    /// check can detect this within the hop's bounds; it is visible in the offset.
    Lie,
}

impl LabAttack {
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
    /// Fails with a list of the valid names.
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

    /// Returns the name of the attack on the command line.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, attack)| *attack == self);
        found.expect("all of them are listed").0
    }

    /// Returns true if a signed chain must detect the attack. A symmetric delay that exists from
    /// the start is part of the path, and other clocks cannot check a hop's statement about itself.
    pub const fn is_detectable(self) -> bool {
        !matches!(self, Self::SymmetricDelay | Self::Lie | Self::Malformed)
    }
}

/// Control of the attacker's cable, with the attack's counters. Clones control the same cable.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    attacked: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    attack: Option<LabAttack>,
    /// Present while there is no attack: the kernel then forwards frames with the delay of a cable.
    /// A program that forwards frames adds scheduling delays.
    splice: Option<Splice>,
}

impl Orders {
    /// Takes over the cable, which forwards all frames unchanged until an attack.
    fn take_wire(&self, mut splice: Splice) -> Result<(), PtpError> {
        let mut state = self.lock();
        if state.attack.is_none() {
            splice.close().map_err(kernel)?;
        }
        state.splice = Some(splice);
        Ok(())
    }

    /// Starts an attack. Until then all frames were forwarded unchanged.
    pub(super) fn attack(&self, attack: LabAttack) -> Result<(), PtpError> {
        let mut state = self.lock();
        if let Some(splice) = &mut state.splice {
            splice.open().map_err(kernel)?;
        }
        state.attack = Some(attack);
        Ok(())
    }

    /// Ends the attack, so that the cable forwards all frames unchanged again.
    pub(super) fn cease(&self) -> Result<(), PtpError> {
        let mut state = self.lock();
        state.attack = None;
        match &mut state.splice {
            Some(splice) => splice.close().map_err(kernel),
            None => Ok(()),
        }
    }

    /// Returns the number of messages that all attacks so far have altered, delayed, duplicated,
    /// replayed or forged.
    pub(super) fn attacked(&self) -> u64 {
        self.0.attacked.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Returns true while the kernel forwards frames.
    fn is_spliced(&self) -> bool {
        let state = self.lock();
        state.splice.is_some() && state.attack.is_none()
    }

    /// Returns the attack under way; `None` if there is none.
    fn get(&self) -> Option<LabAttack> {
        self.lock().attack
    }

    fn count(&self, messages: u64) {
        self.0.attacked.fetch_add(messages, Ordering::Relaxed);
    }
}

/// Attacker's cable in operation. Dropping the value stops its thread.
pub(super) struct Attacker {
    wake: ProgramControl,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    /// Starts the thread of the attacker's cable.
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
        let wake = ProgramControl::new().map_err(PtpError::doing("open a socket pair"))?;
        let open = |name: &str| {
            let interface = PtpInterface::find(name)?;
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
            // If the thread panicked, the message has been printed already.
            let _ = thread.join();
        }
    }
}
