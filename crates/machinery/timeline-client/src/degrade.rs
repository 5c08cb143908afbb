//! Graceful degradation: what a controller does when its time is not good enough
//! any more, and when it may go back to acting with others.
//!
//! ```text
//!              not good enough                 held for too long
//! Coordinated ----------------->  Hold  ----------------------------> Stopped
//!      ^                          ^  |                                   |
//!      | rejoined()   not good    |  | good enough for `steady`          |
//!      |              enough      |  v                                   |
//!      +------------------------ Rejoining <-----------------------------+
//!                                        good enough for `steady`
//! ```
//!
//! Two witnesses must agree that time is good: the binding, which tells of edges,
//! and the controller's own readings. A daemon that dies tells nobody of anything;
//! its page grows old, and the reader sees that. A controller that does not look
//! counts as one that sees nothing.
//!
//! ```no_run
//! use timeloom_time::{Duration, Instant};
//! use timeloom_timeline_client::{Degradation, Mode, Monotonic, Policy, Timeline};
//! # fn now() -> Instant<Monotonic> { Instant::from_ns(0) }
//! # fn act_at_its_instant() {}
//! # fn meet_with_care() -> bool { true }
//! use std::sync::{Arc, Mutex};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timeline = Timeline::open("cell")?;
//! let policy = Policy::within(Duration::from_us(100));
//! let machine = Arc::new(Mutex::new(Degradation::new(policy, now())?));
//! let (binding, told) = (timeline.bind(policy.keep)?, Arc::clone(&machine));
//! let _watch = binding.subscribe(move |change| {
//!     told.lock().unwrap().told(now(), &change);
//! })?;
//! loop {
//!     let mode = {
//!         let mut machine = machine.lock().unwrap();
//!         machine.read(now(), &timeline.read()?);
//!         machine.mode()
//!     };
//!     match mode {
//!         Mode::Coordinated => act_at_its_instant(),
//!         Mode::Rejoining if meet_with_care() => {
//!             machine.lock().unwrap().rejoined(now());
//!         }
//!         Mode::Rejoining | Mode::Hold | Mode::Stopped => {}
//!     }
//!     std::thread::sleep(std::time::Duration::from_millis(10));
//! }
//! # }
//! ```
//!
//! What it is not: it reads no clock, moves no arm, and knows no peer. What a mode
//! means for the machine is the program's; [`Degradation::withdraw`] is for its own
//! reasons, such as a command that came too late.

use core::fmt;

use timeloom_clock::Monotonic;
use timeloom_clock::quality::{Requirement, Shortfall, Stamp, Status};
use timeloom_time::{Duration, Instant};

use crate::binding::Change;

/// What a controller may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Safe stop, and the beginning: nothing moves until time is good again.
    Stopped = 0,
    /// Time has been good for long enough: meet the others again, alone and with
    /// care, then say [`Degradation::rejoined`].
    Rejoining = 1,
    /// Act with the others, by the timeline.
    Coordinated = 2,
    /// Keep what is there: end the move under way, begin none.
    Hold = 3,
}

/// Why the mode in force was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has happened yet.
    Beginning,
    /// A reading did not meet the requirement.
    Reading(Shortfall),
    /// A reading says that the daemon is dead. However narrow the interval still
    /// is, nobody renews it, and nobody would tell of a violation.
    DaemonDead,
    /// The binding tells of a violation, with the timeline's status then.
    Violated(Status),
    /// There was no reading for longer than `blind_after`.
    Blind,
    /// The program said so.
    Withdrawn,
    /// It was held for too long.
    HeldTooLong,
    /// Time has been good for long enough.
    Steady,
    /// The program said that it acts with the others again.
    Rejoined,
}

/// When modes change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a reading must meet for the controller to stay where it is.
    pub keep: Requirement,
    /// What it must meet on the way back. Tighter than `keep`, so that a clock at
    /// the edge does not make the machine come and go.
    pub regain: Requirement,
    /// How long the mode is [`Mode::Hold`] before it is [`Mode::Stopped`].
    pub hold_for: Duration,
    /// For how long, without a break, time must be good on the way back.
    pub steady: Duration,
    /// The longest time without a reading.
    pub blind_after: Duration,
}

/// A policy that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// `regain` is looser than `keep` on some side: the mode would come and go.
    #[error("regain must be no looser than keep, on either side")]
    LooseRegain,
    /// `hold_for` or `steady` is negative.
    #[error("hold_for and steady must not be negative")]
    NegativeLength,
    /// `blind_after` is not positive: no reading would ever be fresh.
    #[error("blind_after must be longer than nothing")]
    AlwaysBlind,
}

/// The state machine. Instants are the host's CLOCK_MONOTONIC, since a timeline may
/// have no time to tell; an instant before an earlier one counts as that one.
///
/// Every input returns the mode that begins with it, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degradation {
    policy: Policy,
    mode: Mode,
    reason: Reason,
    /// When the mode in force began.
    since: Instant<Monotonic>,
    /// The last instant that was given.
    now: Instant<Monotonic>,
    /// The last reading, when it was taken.
    looked: Option<Instant<Monotonic>>,
    /// Whether the binding says that its requirement is met; `None` when it has
    /// never said anything, as where there is none.
    bound: Option<bool>,
    /// Since when all has been good, by the tighter requirement.
    good_since: Option<Instant<Monotonic>>,
}

impl Policy {
    /// Leaves beyond `accuracy` on either side and comes back within three quarters
    /// of it.
    pub fn within(accuracy: Duration) -> Self {
        Self {
            keep: Requirement::within(accuracy),
            regain: Requirement::within(Duration::from_ns(accuracy.as_ns() / 4 * 3)),
            hold_for: Duration::from_s(2),
            steady: Duration::from_s(1),
            blind_after: Duration::from_ms(100),
        }
    }

    fn check(&self) -> Result<(), BadPolicy> {
        if self.regain.below > self.keep.below || self.regain.above > self.keep.above {
            return Err(BadPolicy::LooseRegain);
        }
        if self.hold_for < Duration::ZERO || self.steady < Duration::ZERO {
            return Err(BadPolicy::NegativeLength);
        }
        if self.blind_after <= Duration::ZERO {
            return Err(BadPolicy::AlwaysBlind);
        }
        Ok(())
    }
}

impl Degradation {
    /// A controller that stands still, as of `now`.
    ///
    /// # Errors
    /// When the policy makes no sense.
    pub fn new(policy: Policy, now: Instant<Monotonic>) -> Result<Self, BadPolicy> {
        policy.check()?;
        Ok(Self {
            policy,
            mode: Mode::Stopped,
            reason: Reason::Beginning,
            since: now,
            now,
            looked: None,
            bound: None,
            good_since: None,
        })
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why it was entered.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// A reading of the timeline, taken at `now`.
    pub fn read(&mut self, now: Instant<Monotonic>, stamp: &Stamp) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.looked = Some(now);
        if stamp.status() == Status::DaemonDead {
            self.bad(now, Reason::DaemonDead);
        } else if let Some(shortfall) = self.policy.keep.shortfall(stamp) {
            self.bad(now, Reason::Reading(shortfall));
        } else if self.bound == Some(false) || self.policy.regain.shortfall(stamp).is_some() {
            self.good_since = None;
        } else {
            self.good_since.get_or_insert(now);
        }
        self.settle(now, before)
    }

    /// What the subscription of the binding tells. A daemon that ends is told as a
    /// violation and nothing after it: bind again, and go on here.
    pub fn told(&mut self, now: Instant<Monotonic>, change: &Change) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        match change {
            Change::Restored => self.bound = Some(true),
            Change::Violated { status, .. } => {
                self.bound = Some(false);
                self.bad(now, Reason::Violated(*status));
            }
        }
        self.settle(now, before)
    }

    /// A reason of the program's own to leave: a command that came too late, a peer
    /// that has left. On the way back time must be good for `steady` from now on.
    pub fn withdraw(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.bad(now, Reason::Withdrawn);
        self.settle(now, before)
    }

    /// The program acts with the others again. Only while [`Mode::Rejoining`] does
    /// this change anything.
    pub fn rejoined(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        if self.mode == Mode::Rejoining {
            self.enter(now, Mode::Coordinated, Reason::Rejoined);
        }
        self.settle(now, before)
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.settle(now, before)
    }

    /// When [`Self::wake`] is due, unless something else happens before; `None` when
    /// nothing changes by itself.
    pub fn next_wake(&self) -> Option<Instant<Monotonic>> {
        [self.blind_at(), self.stop_at(), self.back_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the controller will have been without a reading for too long, where
    /// that would change anything.
    fn blind_at(&self) -> Option<Instant<Monotonic>> {
        let acts = matches!(self.mode, Mode::Coordinated | Mode::Rejoining);
        let waits = self.good_since.is_some();
        let looked = self.looked.filter(|_| acts || waits)?;
        Some(looked + self.policy.blind_after)
    }

    fn stop_at(&self) -> Option<Instant<Monotonic>> {
        (self.mode == Mode::Hold).then(|| self.since + self.policy.hold_for)
    }

    fn back_at(&self) -> Option<Instant<Monotonic>> {
        let stands = matches!(self.mode, Mode::Hold | Mode::Stopped);
        let good = self.good_since.filter(|_| stands)?;
        Some(good + self.policy.steady)
    }

    /// Does all that was due until `now`, each at its instant and in order, so that
    /// who is woken late comes to the mode of one who is not.
    fn pass(&mut self, now: Instant<Monotonic>) -> Instant<Monotonic> {
        self.now = self.now.max(now);
        while let Some(due) = self.next_wake().filter(|due| *due <= self.now) {
            // Whoever sees nothing at that instant does not go back at it.
            if self.blind_at() == Some(due) {
                self.looked = None;
                self.bad(due, Reason::Blind);
            } else if self.back_at() == Some(due) {
                self.enter(due, Mode::Rejoining, Reason::Steady);
            } else {
                self.enter(due, Mode::Stopped, Reason::HeldTooLong);
            }
        }
        self.now
    }

    /// What an input has made due at its own instant.
    fn settle(&mut self, now: Instant<Monotonic>, before: Mode) -> Option<Mode> {
        self.pass(now);
        (self.mode != before).then_some(self.mode)
    }

    fn bad(&mut self, at: Instant<Monotonic>, reason: Reason) {
        self.good_since = None;
        if matches!(self.mode, Mode::Coordinated | Mode::Rejoining) {
            self.enter(at, Mode::Hold, reason);
        }
    }

    fn enter(&mut self, at: Instant<Monotonic>, mode: Mode, reason: Reason) {
        self.mode = mode;
        self.reason = reason;
        self.since = at;
    }
}

impl Mode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Stopped,
        Self::Rejoining,
        Self::Coordinated,
        Self::Hold,
    ];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Rejoining => "rejoining",
            Self::Coordinated => "coordinated",
            Self::Hold => "hold",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("nothing has happened yet"),
            Self::Reading(shortfall) => shortfall.fmt(f),
            Self::DaemonDead => Status::DaemonDead.fmt(f),
            Self::Violated(status) => write!(f, "the binding is violated ({status})"),
            Self::Blind => f.write_str("no reading for too long"),
            Self::Withdrawn => f.write_str("the program withdrew"),
            Self::HeldTooLong => f.write_str("held for too long"),
            Self::Steady => f.write_str("good for long enough"),
            Self::Rejoined => f.write_str("acts with the others again"),
        }
    }
}
