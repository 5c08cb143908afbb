//! One interface for both kinds of clock.

use timeloom_time::{Instant, Wall};

use crate::security::{Security, Signed, Verdict};
use crate::{
    Action, OrdinaryClock, OrdinaryConfig, Packet, Random, Stamp, Token, TransparentClock,
    TransparentConfig,
};

/// A clock's state machine.
#[derive(Debug)]
pub enum Machine {
    /// One port.
    Ordinary(Box<OrdinaryClock>),
    /// Any number of ports.
    Transparent(Box<TransparentClock>),
}

impl Machine {
    /// An ordinary clock that starts at `now`.
    pub fn ordinary(config: OrdinaryConfig, now: Instant<Wall>) -> Self {
        Self::Ordinary(Box::new(OrdinaryClock::new(config, now)))
    }

    /// A transparent clock that starts at `now`.
    pub fn transparent(config: TransparentConfig, now: Instant<Wall>) -> Self {
        Self::Transparent(Box::new(TransparentClock::new(config, now)))
    }

    /// When `handle_wake` is due.
    pub fn next_wake(&self) -> Option<Instant<Wall>> {
        match self {
            Self::Ordinary(clock) => clock.next_wake(),
            Self::Transparent(clock) => clock.next_wake(),
        }
    }

    /// What is to be done; call until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        match self {
            Self::Ordinary(clock) => clock.poll_action(),
            Self::Transparent(clock) => clock.poll_action(),
        }
    }

    /// Does what is due.
    pub fn handle_wake(&mut self, now: Instant<Wall>, random: &mut dyn Random) {
        match self {
            Self::Ordinary(clock) => clock.handle_wake(now, random),
            Self::Transparent(clock) => clock.handle_wake(now, random),
        }
    }

    /// A packet came in by `port`, from 1; `stamp` for event messages.
    pub fn handle_receive(
        &mut self,
        now: Instant<Wall>,
        port: u16,
        packet: &Packet,
        stamp: Option<Stamp>,
    ) {
        match self {
            Self::Ordinary(clock) => clock.handle_receive(now, packet, stamp),
            Self::Transparent(clock) => clock.handle_receive(now, port, packet, stamp),
        }
    }

    /// The departure of an event message is known, or lost for good.
    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Wall>,
        port: u16,
        token: Token,
        stamp: Option<Stamp>,
    ) {
        match self {
            Self::Ordinary(clock) => clock.handle_transmit_stamp(now, token, stamp),
            Self::Transparent(clock) => clock.handle_transmit_stamp(now, port, token, stamp),
        }
    }

    /// Signatures have been checked.
    pub fn handle_verdict(&mut self, now: Instant<Wall>, verdict: &Verdict) {
        match self {
            Self::Ordinary(clock) => clock.handle_verdict(now, verdict),
            Self::Transparent(clock) => clock.handle_verdict(now, verdict),
        }
    }

    /// A signature has been made; only transparent clocks ask for any.
    pub fn handle_signed(&mut self, now: Instant<Wall>, signed: Signed) {
        if let Self::Transparent(clock) = self {
            clock.handle_signed(now, signed);
        }
    }

    /// New keys; never none, for a clock with keys does not go back to none.
    pub fn set_security(&mut self, security: Security) {
        match self {
            Self::Ordinary(clock) => clock.set_security(security),
            Self::Transparent(clock) => clock.set_security(security),
        }
    }

    /// The clock ends: what is known of Syncs that wait is told.
    pub fn end(&mut self) {
        if let Self::Ordinary(clock) = self {
            clock.end();
        }
    }

    /// A record came by the second network.
    pub fn handle_statement(&mut self, now: Instant<Wall>, record: &[u8]) {
        if let Self::Ordinary(clock) = self {
            clock.handle_statement(now, record);
        }
    }
}
