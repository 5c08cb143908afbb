//! Graceful degradation: a state machine for a controller whose time may become too inaccurate. It
//! decides whether the controller may act together with its peers, and when it may rejoin them.
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
//! Two inputs must agree that time is good: the binding, which reports changes, and the
//! controller's own readings. A daemon that dies reports nothing, but its page ages, and the reader
//! detects that. A controller that takes no readings counts as one without time.
//!
//! ```no_run
//! use timeloom_time::{Duration, Instant};
//! use timeloom_timeline::{Degradation, Mode, Monotonic, Policy, Timeline};
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
//! This module reads no clock, moves no actuator, and knows no peer. The program defines what each
//! mode means for its machine. It may also leave the coordinated mode for reasons of its own, such
//! as a command that came too late; see [`Degradation::withdraw`].

use core::fmt;

use timeloom_clock::Monotonic;
use timeloom_clock::quality::{Requirement, Shortfall, Stamp, Status};
use timeloom_time::{Duration, Instant};

use crate::binding::Change;

/// Behaviour that a controller is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Safe stop, which is also the initial mode: nothing moves until time has been good for long
    /// enough.
    Stopped = 0,
    /// Time has been good for long enough: the controller rejoins its peers with care, and then
    /// calls [`Degradation::rejoined`].
    Rejoining = 1,
    /// The controller acts together with its peers, at instants of the timeline.
    Coordinated = 2,
    /// The controller holds the present state: it finishes the move under way and begins none.
    Hold = 3,
}

/// Reason for entering the present mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has happened yet.
    Beginning,
    /// A reading did not meet the requirement.
    Reading(Shortfall),
    /// A reading shows that the daemon is dead. Even if the interval is still narrow, no daemon
    /// renews it, and no violation would be reported.
    DaemonDead,
    /// The binding reported a violation; the value is the timeline's status at that time.
    Violated(Status),
    /// There was no reading for longer than `blind_after`.
    Blind,
    /// The program called [`Degradation::withdraw`].
    Withdrawn,
    /// The mode was [`Mode::Hold`] for longer than `hold_for`.
    HeldTooLong,
    /// Time has been good for `steady` without a break.
    Steady,
    /// The program called [`Degradation::rejoined`].
    Rejoined,
}

/// Conditions under which a controller changes its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Requirement that readings must meet while the controller is coordinated.
    pub keep: Requirement,
    /// Requirement that readings must meet before the controller may rejoin. It is tighter than
    /// `keep`, so that the mode does not alternate when the accuracy is close to the limit.
    pub regain: Requirement,
    /// Maximum duration of [`Mode::Hold`], after which the mode is [`Mode::Stopped`].
    pub hold_for: Duration,
    /// Duration for which time must be good, without a break, before the controller may rejoin.
    pub steady: Duration,
    /// Longest time without a reading that counts as good time.
    pub blind_after: Duration,
}

/// Reason why a policy is inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// `regain` is looser than `keep` on one side, so the mode could alternate.
    #[error("regain must not be looser than keep on either side")]
    LooseRegain,
    /// `hold_for` or `steady` is negative.
    #[error("hold_for and steady must not be negative")]
    NegativeLength,
    /// `blind_after` is not positive: no reading would ever be fresh.
    #[error("blind_after must be positive")]
    AlwaysBlind,
}

/// State machine of degradation. Instants are of the host's CLOCK_MONOTONIC, since a timeline may
/// have no valid time. An instant before that of an earlier call is replaced by the earlier call's
/// instant.
///
/// Every input returns the new mode if it changes the mode, and `None` otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degradation {
    policy: Policy,
    mode: Mode,
    reason: Reason,
    /// Instant of the last change of mode.
    since: Instant<Monotonic>,
    /// Latest instant that the caller has given.
    now: Instant<Monotonic>,
    /// Instant of the last reading.
    looked: Option<Instant<Monotonic>>,
    /// True if the binding's requirement is met, according to the last change that the subscription
    /// reported; `None` before the first one, and without a binding.
    bound: Option<bool>,
    /// Instant from which on all inputs have met the tighter requirement.
    good_since: Option<Instant<Monotonic>>,
}

impl Policy {
    /// Creates a policy with `accuracy` as the limit on either side while coordinated, and three
    /// quarters of it as the limit for rejoining.
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
    /// Creates a controller in [`Mode::Stopped`] at instant `now`.
    ///
    /// # Errors
    /// Fails if the policy is inconsistent.
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

    /// Returns the present mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the reason for entering the present mode.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Processes a reading of the timeline, taken at `now`.
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

    /// Processes a change reported by the binding's subscription. When a daemon ends, its
    /// subscription reports a violation and nothing more. The program then binds again and may
    /// continue to use this value.
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

    /// Leaves the coordinated mode for a reason of the program's own, such as a command that came
    /// too late or a peer that has left. Before the controller may rejoin, time must be good for
    /// `steady`, counted from `now`.
    pub fn withdraw(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.bad(now, Reason::Withdrawn);
        self.settle(now, before)
    }

    /// Records that the controller acts together with its peers again. The call has an effect only
    /// in [`Mode::Rejoining`].
    pub fn rejoined(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        if self.mode == Mode::Rejoining {
            self.enter(now, Mode::Coordinated, Reason::Rejoined);
        }
        self.settle(now, before)
    }

    /// Performs the changes of mode that are due because time has passed.
    pub fn wake(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.settle(now, before)
    }

    /// Returns the instant at which [`Self::wake`] is due if no other input comes before; `None` if
    /// no change of mode is pending.
    pub fn next_wake(&self) -> Option<Instant<Monotonic>> {
        [self.blind_at(), self.stop_at(), self.back_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the instant at which the last reading becomes too old; `None` if that would not
    /// change the mode.
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

    /// Performs all changes that are due until `now`, each at its own instant and in order, so that
    /// a late wake-up leads to the same mode as a punctual one.
    fn pass(&mut self, now: Instant<Monotonic>) -> Instant<Monotonic> {
        self.now = self.now.max(now);
        while let Some(due) = self.next_wake().filter(|due| *due <= self.now) {
            // A controller whose last reading becomes too old at this instant does not rejoin at
            // the same instant.
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

    /// Performs the changes that an input has made due at the instant of that input.
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
    /// All modes, in the order of their discriminants.
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
