//! Attacker: a clock, or tapped wires behind a clock, that falsifies the messages that it sends.
//! `timeloom ptp lab` has the same attacks for real interfaces.

use std::collections::VecDeque;

use timeloom_ptp::PtpPacket;
use timeloom_ptp::tamper::Tamper;
use timeloom_time::{Duration, Instant, Virtual};
use timeloom_wire::{Header, MessageType};

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RogueAttack {
    /// Changes Follow_Up messages after they were signed.
    Tamper(Tamper),
    /// Sends each Sync and Follow_Up again after two seconds.
    Replay,
    /// Sends a forged Sync before each genuine one.
    SpoofSync,
    /// Delays each Sync by this time after it was timestamped.
    DelaySync(Duration),
    /// Overstates the clock's own residence time by this much, signed with its valid key.
    Lie(Duration),
}

/// Attack of a clock, with its start.
#[derive(Clone, Copy, Debug)]
pub struct Rogue {
    /// The attack.
    pub attack: RogueAttack,
    /// Virtual time at which the attack starts.
    pub from: Instant<Virtual>,
}

/// State of a running attack: delayed messages, and a counter.
#[derive(Debug)]
pub(crate) struct RogueState {
    rogue: Rogue,
    /// Messages to send later, with their due time and port.
    held: VecDeque<(Instant<Virtual>, u16, PtpPacket)>,
    /// Genuine Syncs and Follow_Ups with their time and port, for replay.
    kept: VecDeque<(Instant<Virtual>, u16, PtpPacket)>,
    /// Number of messages that were changed, forged or delayed.
    pub(crate) tampered: u64,
}

/// Age at which a message is replayed.
const REPLAYED_AFTER: Duration = Duration::from_s(2);
/// Delay of a replayed message after a genuine one, so that neither queues behind the other.
const ASIDE: Duration = Duration::from_ms(30);

impl RogueState {
    pub(crate) fn new(rogue: Rogue) -> Self {
        Self {
            rogue,
            held: VecDeque::new(),
            kept: VecDeque::new(),
            tampered: 0,
        }
    }

    /// Returns the overstatement of a residence time at `now`; zero before the attack.
    pub(crate) fn lie(&mut self, now: Instant<Virtual>) -> Duration {
        match self.rogue.attack {
            RogueAttack::Lie(by) if now >= self.rogue.from => {
                self.tampered += 1;
                by
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns the messages to send in place of `packet` at `port`: a forged message to send before
    /// it, and the message itself, perhaps changed. The second is `None` if the message is delayed.
    pub(crate) fn pass(
        &mut self,
        now: Instant<Virtual>,
        port: u16,
        packet: &PtpPacket,
    ) -> (Option<PtpPacket>, Option<PtpPacket>) {
        let mut packet = packet.clone();
        let Ok((header, _)) = Header::parse(&packet.bytes) else {
            return (None, Some(packet));
        };
        let kind = header.message_type;
        let begun = now >= self.rogue.from;
        let mut before = None;
        match self.rogue.attack {
            RogueAttack::Tamper(tamper) if begun => {
                self.tampered += u64::from(tamper.apply(&mut packet.bytes));
            }
            RogueAttack::SpoofSync if begun && kind == MessageType::Sync => {
                let mut spoof = packet.clone();
                spoof.bytes[43] ^= 0x10;
                before = Some(spoof);
                self.tampered += 1;
            }
            RogueAttack::DelaySync(by) if begun && kind == MessageType::Sync => {
                self.held.push_back((now + by, port, packet));
                self.tampered += 1;
                return (None, None);
            }
            RogueAttack::Replay if matches!(kind, MessageType::Sync | MessageType::FollowUp) => {
                self.replay(now, begun);
                self.kept.push_back((now, port, packet.clone()));
            }
            _ => {}
        }
        (before, Some(packet))
    }

    /// Schedules stored messages that are old enough for sending; before the attack, drops them.
    fn replay(&mut self, now: Instant<Virtual>, begun: bool) {
        while let Some((at, ..)) = self.kept.front()
            && now - *at > REPLAYED_AFTER
            && let Some((_, port, old)) = self.kept.pop_front()
        {
            if begun {
                self.held.push_back((now + ASIDE, port, old));
                self.tampered += 1;
            }
        }
    }

    /// Returns the next delayed message that is due at `now`, with its port.
    pub(crate) fn due(&mut self, now: Instant<Virtual>) -> Option<(u16, PtpPacket)> {
        self.held.front().filter(|(at, ..)| *at <= now)?;
        let (_, port, packet) = self.held.pop_front()?;
        Some((port, packet))
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.held.front().map(|(at, ..)| *at)
    }
}
