//! A rogue clock, or one whose wires are tapped: what it sends on is not what it
//! should be. `timeloom ptp lab` has the same attacks for real interfaces.

use std::collections::VecDeque;

use timeloom_ptp::Packet;
use timeloom_ptp::tamper::Tamper;
use timeloom_time::{Duration, Instant, Virtual};
use timeloom_wire::{Header, MessageType};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Follow_Ups are changed after they were signed.
    Tamper(Tamper),
    /// Sync and Follow_Up of two seconds ago are sent once more.
    Replay,
    /// A Sync of its own making goes out before each genuine one.
    SpoofSync,
    /// Syncs are held back for this long, after they were stamped.
    DelaySync(Duration),
    /// It says so much too much of itself, with its valid key.
    Lie(Duration),
}

/// A clock that attacks.
#[derive(Clone, Copy, Debug)]
pub struct Rogue {
    /// What it does.
    pub attack: Attack,
    /// From when on.
    pub from: Instant<Virtual>,
}

/// A rogue at work: what it holds back, and how much it has tampered with.
#[derive(Debug)]
pub(crate) struct RogueState {
    rogue: Rogue,
    /// What it sends later: when, by which port, what.
    held: VecDeque<(Instant<Virtual>, u16, Packet)>,
    /// Genuine Syncs and Follow_Ups, to be replayed.
    kept: VecDeque<(Instant<Virtual>, u16, Packet)>,
    /// Messages changed, made or held back.
    pub(crate) tampered: u64,
}

/// How old a message is that is replayed.
const REPLAYED_AFTER: Duration = Duration::from_s(2);
/// How long after a genuine one a replayed message goes out, so that neither
/// makes the other wait.
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

    /// By how much residences are overstated at `now`.
    pub(crate) fn lie(&mut self, now: Instant<Virtual>) -> Duration {
        match self.rogue.attack {
            Attack::Lie(by) if now >= self.rogue.from => {
                self.tampered += 1;
                by
            }
            _ => Duration::ZERO,
        }
    }

    /// What becomes of a message that is to go out by `port`: perhaps changed,
    /// perhaps nothing for now. What is to go before it comes back beside it.
    pub(crate) fn pass(
        &mut self,
        now: Instant<Virtual>,
        port: u16,
        packet: &Packet,
    ) -> (Option<Packet>, Option<Packet>) {
        let mut packet = packet.clone();
        let Ok((header, _)) = Header::parse(&packet.bytes) else {
            return (None, Some(packet));
        };
        let kind = header.message_type;
        let begun = now >= self.rogue.from;
        let mut before = None;
        match self.rogue.attack {
            Attack::Tamper(tamper) if begun => {
                self.tampered += u64::from(tamper.apply(&mut packet.bytes));
            }
            Attack::SpoofSync if begun && kind == MessageType::Sync => {
                let mut spoof = packet.clone();
                spoof.bytes[43] ^= 0x10;
                before = Some(spoof);
                self.tampered += 1;
            }
            Attack::DelaySync(by) if begun && kind == MessageType::Sync => {
                self.held.push_back((now + by, port, packet));
                self.tampered += 1;
                return (None, None);
            }
            Attack::Replay if matches!(kind, MessageType::Sync | MessageType::FollowUp) => {
                self.replay(now, begun);
                self.kept.push_back((now, port, packet.clone()));
            }
            _ => {}
        }
        (before, Some(packet))
    }

    /// Sends what is old enough once more, or forgets it.
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

    /// The next message that was held back and is due.
    pub(crate) fn due(&mut self, now: Instant<Virtual>) -> Option<(u16, Packet)> {
        self.held.front().filter(|(at, ..)| *at <= now)?;
        let (_, port, packet) = self.held.pop_front()?;
        Some((port, packet))
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.held.front().map(|(at, ..)| *at)
    }
}
