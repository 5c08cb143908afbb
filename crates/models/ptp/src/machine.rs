//! Common interface of ordinary and transparent clocks.

use timeloom_time::Instant;

use crate::security::{Security, SigningResult, Verdict};
use crate::{
    Action, Local, OrdinaryClock, OrdinaryConfig, Packet, Random, Stamp, Token, TransparentClock,
    TransparentConfig,
};

/// State machine of either kind of clock.
#[derive(Debug)]
pub enum Machine {
    /// Ordinary clock, with one port.
    Ordinary(Box<OrdinaryClock>),
    /// Transparent clock, with any number of ports.
    Transparent(Box<TransparentClock>),
}

impl Machine {
    /// Creates an ordinary clock that starts at `now`.
    pub fn ordinary(config: OrdinaryConfig, now: Instant<Local>) -> Self {
        Self::Ordinary(Box::new(OrdinaryClock::new(config, now)))
    }

    /// Creates a transparent clock that starts at `now`.
    pub fn transparent(config: TransparentConfig, now: Instant<Local>) -> Self {
        Self::Transparent(Box::new(TransparentClock::new(config, now)))
    }

    /// Returns the time at which `handle_wake` must be called; `None` if no timer is set.
    pub fn next_wake(&self) -> Option<Instant<Local>> {
        match self {
            Self::Ordinary(clock) => clock.next_wake(),
            Self::Transparent(clock) => clock.next_wake(),
        }
    }

    /// Returns the next action. The driver must call this until it returns `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        match self {
            Self::Ordinary(clock) => clock.poll_action(),
            Self::Transparent(clock) => clock.poll_action(),
        }
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_wake(&mut self, now: Instant<Local>, random: &mut dyn Random) {
        match self {
            Self::Ordinary(clock) => clock.handle_wake(now, random),
            Self::Transparent(clock) => clock.handle_wake(now, random),
        }
    }

    /// Handles a packet that arrived on `port`, counted from 1. Event messages have an arrival
    /// timestamp, `stamp`.
    pub fn handle_receive(
        &mut self,
        now: Instant<Local>,
        port: u16,
        packet: &Packet,
        stamp: Option<Stamp>,
    ) {
        match self {
            Self::Ordinary(clock) => clock.handle_receive(now, packet, stamp),
            Self::Transparent(clock) => clock.handle_receive(now, port, packet, stamp),
        }
    }

    /// Handles the departure timestamp of an event message; `None` if the timestamp was lost.
    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Local>,
        port: u16,
        token: Token,
        stamp: Option<Stamp>,
    ) {
        match self {
            Self::Ordinary(clock) => clock.handle_transmit_stamp(now, token, stamp),
            Self::Transparent(clock) => clock.handle_transmit_stamp(now, port, token, stamp),
        }
    }

    /// Handles the result of an [`Action::Verify`].
    pub fn handle_verdict(&mut self, now: Instant<Local>, verdict: &Verdict) {
        match self {
            Self::Ordinary(clock) => clock.handle_verdict(now, verdict),
            Self::Transparent(clock) => clock.handle_verdict(now, verdict),
        }
    }

    /// Handles the result of an [`Action::Sign`]; only transparent clocks request it.
    pub fn handle_signed(&mut self, now: Instant<Local>, signed: SigningResult) {
        if let Self::Transparent(clock) = self {
            clock.handle_signed(now, signed);
        }
    }

    /// Replaces the keys. Keys cannot be removed: a clock that has keys never returns to unsigned
    /// operation.
    pub fn set_security(&mut self, security: Security) {
        match self {
            Self::Ordinary(clock) => clock.set_security(security),
            Self::Transparent(clock) => clock.set_security(security),
        }
    }

    /// Ends the clock: queues reports of the Syncs that are still pending.
    pub fn end(&mut self) {
        if let Self::Ordinary(clock) = self {
            clock.end();
        }
    }

    /// Handles a record that arrived over the second network.
    pub fn handle_statement(&mut self, now: Instant<Local>, record: &[u8]) {
        if let Self::Ordinary(clock) = self {
            clock.handle_statement(now, record);
        }
    }
}
