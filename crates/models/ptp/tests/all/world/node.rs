//! Common interface of ordinary and transparent clocks in a simulated world.

use timeloom_ptp::security::{SigningResult, Verdict};
use timeloom_ptp::{
    Action, Local, OrdinaryClock, OrdinaryConfig, Packet, Random, Stamp, Token, TransparentClock,
    TransparentConfig,
};
use timeloom_time::Instant;
use timeloom_wire::ClockIdentity;

pub enum Machine {
    Ordinary(Box<OrdinaryClock>),
    Transparent(Box<TransparentClock>),
}

pub struct Node {
    pub machine: Machine,
    identity: ClockIdentity,
    pub lost_stamps_permille: u64,
}

impl Node {
    pub fn ordinary(config: OrdinaryConfig, now: Instant<Local>) -> Self {
        let identity = config.clock;
        let machine = Machine::Ordinary(Box::new(OrdinaryClock::new(config, now)));
        Self {
            machine,
            identity,
            lost_stamps_permille: 0,
        }
    }

    pub fn transparent(config: TransparentConfig, now: Instant<Local>) -> Self {
        let identity = config.clock;
        let machine = Machine::Transparent(Box::new(TransparentClock::new(config, now)));
        Self {
            machine,
            identity,
            lost_stamps_permille: 0,
        }
    }

    pub fn identity(&self) -> ClockIdentity {
        self.identity
    }

    pub fn handling_ns(&self) -> u64 {
        50_000
    }

    pub fn loses_stamp(&self, random: u64) -> bool {
        random % 1000 < self.lost_stamps_permille
    }

    pub fn as_ordinary(&self) -> &OrdinaryClock {
        match &self.machine {
            Machine::Ordinary(clock) => clock,
            Machine::Transparent(_) => panic!("not an ordinary clock"),
        }
    }

    pub fn next_wake(&self) -> Option<Instant<Local>> {
        match &self.machine {
            Machine::Ordinary(clock) => clock.next_wake(),
            Machine::Transparent(clock) => clock.next_wake(),
        }
    }

    pub fn handle_wake(&mut self, now: Instant<Local>, random: &mut dyn Random) {
        match &mut self.machine {
            Machine::Ordinary(clock) => clock.handle_wake(now, random),
            Machine::Transparent(clock) => clock.handle_wake(now, random),
        }
    }

    pub fn handle_receive(
        &mut self,
        now: Instant<Local>,
        port: u16,
        packet: &Packet,
        stamp: Option<Stamp>,
    ) {
        match &mut self.machine {
            Machine::Ordinary(clock) => clock.handle_receive(now, packet, stamp),
            Machine::Transparent(clock) => clock.handle_receive(now, port, packet, stamp),
        }
    }

    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Local>,
        port: u16,
        token: Token,
        stamp: Option<Stamp>,
    ) {
        match &mut self.machine {
            Machine::Ordinary(clock) => clock.handle_transmit_stamp(now, token, stamp),
            Machine::Transparent(clock) => clock.handle_transmit_stamp(now, port, token, stamp),
        }
    }

    pub fn handle_verdict(&mut self, now: Instant<Local>, verdict: &Verdict) {
        match &mut self.machine {
            Machine::Ordinary(clock) => clock.handle_verdict(now, verdict),
            Machine::Transparent(clock) => clock.handle_verdict(now, verdict),
        }
    }

    pub fn handle_signed(&mut self, now: Instant<Local>, signed: SigningResult) {
        if let Machine::Transparent(clock) = &mut self.machine {
            clock.handle_signed(now, signed);
        }
    }

    pub fn handle_statement(&mut self, now: Instant<Local>, record: &[u8]) {
        if let Machine::Ordinary(clock) = &mut self.machine {
            clock.handle_statement(now, record);
        }
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        match &mut self.machine {
            Machine::Ordinary(clock) => clock.poll_action(),
            Machine::Transparent(clock) => clock.poll_action(),
        }
    }
}
