//! One interface for both kinds of clock.

use timeloom_ptp::security::{Security, Signed, Verdict};
use timeloom_ptp::{
    Action, OrdinaryClock, OrdinaryConfig, Packet, Random, Stamp, Token, TransparentClock,
    TransparentConfig,
};
use timeloom_time::{Instant, Wall};

/// A clock's state machine.
#[derive(Debug)]
pub(crate) enum Machine {
    Ordinary(Box<OrdinaryClock>),
    Transparent(Box<TransparentClock>),
}

impl Machine {
    pub(crate) fn ordinary(config: OrdinaryConfig, now: Instant<Wall>) -> Self {
        Self::Ordinary(Box::new(OrdinaryClock::new(config, now)))
    }

    pub(crate) fn transparent(config: TransparentConfig, now: Instant<Wall>) -> Self {
        Self::Transparent(Box::new(TransparentClock::new(config, now)))
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Wall>> {
        match self {
            Self::Ordinary(clock) => clock.next_wake(),
            Self::Transparent(clock) => clock.next_wake(),
        }
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        match self {
            Self::Ordinary(clock) => clock.poll_action(),
            Self::Transparent(clock) => clock.poll_action(),
        }
    }

    pub(crate) fn handle_wake(&mut self, now: Instant<Wall>, random: &mut dyn Random) {
        match self {
            Self::Ordinary(clock) => clock.handle_wake(now, random),
            Self::Transparent(clock) => clock.handle_wake(now, random),
        }
    }

    pub(crate) fn handle_receive(
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

    pub(crate) fn handle_transmit_stamp(
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

    pub(crate) fn handle_verdict(&mut self, now: Instant<Wall>, verdict: &Verdict) {
        match self {
            Self::Ordinary(clock) => clock.handle_verdict(now, verdict),
            Self::Transparent(clock) => clock.handle_verdict(now, verdict),
        }
    }

    pub(crate) fn handle_signed(&mut self, now: Instant<Wall>, signed: Signed) {
        if let Self::Transparent(clock) = self {
            clock.handle_signed(now, signed);
        }
    }

    /// New keys; never none, for a clock with keys does not go back to none.
    pub(crate) fn set_security(&mut self, security: Security) {
        match self {
            Self::Ordinary(clock) => clock.set_security(security),
            Self::Transparent(clock) => clock.set_security(security),
        }
    }

    pub(crate) fn handle_statement(&mut self, now: Instant<Wall>, record: &[u8]) {
        if let Self::Ordinary(clock) = self {
            clock.handle_statement(now, record);
        }
    }
}
