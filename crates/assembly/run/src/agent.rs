//! Session on one of several machines that agree on the instants of their pauses.

use parking_lot::Mutex;
use std::sync::Arc;

pub use crate::agreed::{AgreedPause, AgreedSession, Anchor, PauseCallback, json_lines, settings};
pub use crate::placed::{
    AgentDescription, AgentError, AgentTimeline, Description, KeyFileError, Secret, Serve,
    SpreadError, describe, read_key,
};
pub use timeloom_agreement::{LeadMode, OnSilence, Settings};
use timeloom_bus::Hold;
pub use timeloom_bus::{
    BoundSocket, Bus, BusKey, BusPeer, CommonTimeline, GpioPins, HaltReason, LineSettings,
    MachineTimeline, MachineWire, NetworkedWire, PinNames, StandaloneWire, SystemTimeline, Udp,
    prove,
};
use timeloom_guest::{ComponentText, Controlled, HoldError, HoldText, Session};
use timeloom_time::{Instant, Virtual};

use crate::agreed::dilate_all;
use crate::awaited::agent;
use crate::testbed::{USER, holds_of};

/// Session control for `timeloom pause`, `resume`, `hold`, `step`, `run-until` and `dilate`. Each
/// command adds a hold on the pause wire that the machines share.
pub struct AgreedControl {
    session: Arc<Session>,
    bus: Bus,
    line: Arc<dyn MachineWire>,
    by_hand: Mutex<Option<Hold>>,
}

impl AgreedControl {
    /// Creates a control that takes its holds from `bus`, whose wire is `line`.
    pub fn new(session: Arc<Session>, bus: Bus, line: Arc<dyn MachineWire>) -> Self {
        Self {
            session,
            bus,
            line,
            by_hand: Mutex::new(None),
        }
    }

    fn by_hand<T>(&self, change: impl FnOnce(&mut Option<Hold>) -> T) -> T {
        change(&mut self.by_hand.lock())
    }
}

impl Controlled for AgreedControl {
    fn pause(&self) -> Result<(), HoldError> {
        if self.is_held() {
            return Ok(());
        }
        let hold = self.bus.hold(USER, "timeloom pause");
        let hold = hold.map_err(HoldError::other)?;
        self.by_hand(|by_hand| by_hand.replace(hold));
        Ok(())
    }

    fn resume(&self) -> Result<(), HoldError> {
        match self.by_hand(Option::take) {
            Some(hold) => drop(hold),
            None => return Err(HoldError::other("this machine was not paused by hand")),
        }
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.by_hand(|by_hand| by_hand.is_some())
    }

    fn hold(&self, requester: &str, reason: &str) -> Result<Box<dyn Send>, HoldError> {
        let hold = self.bus.hold(requester, reason);
        Ok(Box::new(hold.map_err(HoldError::other)?))
    }

    fn dilate(&self, factor: f64) -> Result<(), HoldError> {
        dilate_all(&self.session, &self.bus, factor)
    }

    fn share_stop(&self, target: Instant<Virtual>) -> Result<(), HoldError> {
        self.pause()?;
        self.by_hand(|by_hand| match by_hand {
            Some(hold) => self
                .bus
                .stop_at(hold, USER, target)
                .map_err(HoldError::other),
            None => Err(HoldError::other("the pause has ended meanwhile")),
        })
    }

    fn end_shared_stop(&self) {
        self.bus.forget_stop(USER);
    }

    fn is_agreed(&self) -> bool {
        true
    }

    fn holds(&self) -> Vec<HoldText> {
        holds_of(&self.bus)
    }

    fn awaited(&self) -> Vec<ComponentText> {
        self.line.awaited().into_iter().map(agent).collect()
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError> {
        match on {
            true => Err(HoldError::other(
                "time cannot skip in a session that agrees on its pauses with other machines",
            )),
            false => Ok(()),
        }
    }

    fn session(&self) -> &Session {
        &self.session
    }
}
