//! Attacks, for the laboratory only: a wire that lies.
//!
//! The attacker is a namespace of its own between two nodes, with an interface
//! to each. Until its attack the kernel joins the two. From then on the attacker forwards every
//! frame, as a cable does, and alters the frames that its attack concerns. It needs no cooperation
//! of the nodes, so it works on ptp4l as on our own clocks. It has no key; the simulated attacks of
//! `timeloom-ptp` cover a clock with a valid key.

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

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Adds a microsecond to the Follow_Up's correction.
    Correction,
    /// Changes the Follow_Up's time by 64 ns.
    Origin,
    /// Takes the signed TLV away.
    Strip,
    /// Takes the last hop out of the chain.
    RemoveHop,
    /// Names another epoch of keys.
    Epoch,
    /// Sends Sync and Follow_Up of two seconds ago once more.
    Replay,
    /// Sends every Sync once more, a millisecond late.
    DuplicateSync,
    /// Sends a Sync of its own making before the genuine one.
    SpoofSync,
    /// Announces a better grandmaster.
    SecondMaster,
    /// Changes the neighbour's peer-delay stamps.
    Pdelay,
    /// Spoils signatures, a hundred Follow_Ups for each genuine one.
    Flood,
    /// Sends bytes that are no messages: cut off, odd, of an unknown version. It
    /// violates nobody's time; they are dropped and counted.
    Malformed,
    /// Holds Syncs back for 2 ms.
    DelaySync,
    /// Holds everything back for 20 µs from the start, both ways: symmetric.
    /// Nothing can notice it, and nothing does; it shows in the link's delay.
    SymmetricDelay,
    /// A hop, with its valid key, says 5 µs too much of itself, from the start.
    /// Within its bounds nothing can notice it; the offset shows it.
    Lie,
}

impl Attack {
    /// All of them with their names and what is expected of a signed chain.
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

    /// The attack called `name`.
    ///
    /// # Errors
    /// With the names there are.
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

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, attack)| *attack == self);
        found.expect("all of them are listed").0
    }

    /// Whether a signed chain must notice it. A delay that was there from the
    /// start and is the same both ways is part of the path, and what a hop says
    /// of itself nobody else can know.
    pub const fn is_detectable(self) -> bool {
        !matches!(self, Self::SymmetricDelay | Self::Lie | Self::Malformed)
    }
}

/// What the wire is told to do, and how much of it it has done. Clones tell the
/// same wire.
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
    /// Closed while there is no attack: the kernel then forwards with the delay of a cable. A
    /// program that forwards frames adds scheduling delays.
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

    /// Attack from now on; before, everything is handed on.
    pub(super) fn attack(&self, attack: Attack) -> Result<(), PtpError> {
        let mut state = self.lock();
        if let Some(splice) = &mut state.splice {
            splice.open().map_err(kernel)?;
        }
        state.attack = Some(attack);
        Ok(())
    }

    /// Be an ordinary cable again.
    pub(super) fn cease(&self) -> Result<(), PtpError> {
        let mut state = self.lock();
        state.attack = None;
        match &mut state.splice {
            Some(splice) => splice.close().map_err(kernel),
            None => Ok(()),
        }
    }

    /// How many messages were changed or made, in all attacks.
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

    /// The attack that is on.
    fn get(&self) -> Option<Attack> {
        self.lock().attack
    }

    fn count(&self, messages: u64) {
        self.0.attacked.fetch_add(messages, Ordering::Relaxed);
    }
}

/// The wire at work. Dropping it ends it.
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
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}
