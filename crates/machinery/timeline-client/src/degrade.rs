//! Graceful degradation: behaviour of a controller whose time is not good enough any more, and
//! conditions for its return to acting with others.
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
//! Two sources must agree that time is good: the binding, which reports edges, and the controller's
//! own readings. A daemon that dies reports nothing; its page ages, and the reader detects that. A
//! controller without readings counts as one without time.
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
//! This module reads no clock, moves no arm, and knows no peer. The program defines the meaning of
//! a mode for its machine, and may leave for reasons of its own, such as a command that came too
//! late, by [`Degradation::withdraw`].

use core::fmt;

use timeloom_clock::Monotonic;
use timeloom_clock::quality::{Requirement, Shortfall, Stamp, Status};
use timeloom_time::{Duration, Instant};

use crate::binding::Change;

/// Permitted behaviour of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Safe stop, and the initial mode: nothing moves until time is good again.
    Stopped = 0,
    /// Time has been good for long enough: rejoin the others, alone and with care, then call
    /// [`Degradation::rejoined`].
    Rejoining = 1,
    /// Act with the others, by the timeline.
    Coordinated = 2,
    /// Hold the present state: end the move under way, begin none.
    Hold = 3,
}

/// Reason for entering the present mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has happened yet.
    Beginning,
    /// A reading did not meet the requirement.
    Reading(Shortfall),
    /// A reading shows that the daemon is dead. However narrow the interval still is, it is not
    /// renewed, and a violation would not be reported.
    DaemonDead,
    /// The binding reports a violation, with the timeline's status at that time.
    Violated(Status),
    /// There was no reading for longer than `blind_after`.
    Blind,
    /// The program called [`Degradation::withdraw`].
    Withdrawn,
    /// The mode was [`Mode::Hold`] for too long.
    HeldTooLong,
    /// Time has been good for long enough.
    Steady,
    /// The program called [`Degradation::rejoined`].
    Rejoined,
}

/// Conditions for changes of mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Requirement on readings while the controller is coordinated.
    pub keep: Requirement,
    /// Requirement on readings on the way back. It is tighter than `keep`, so that a clock at the
    /// edge does not make the mode alternate.
    pub regain: Requirement,
    /// Duration of [`Mode::Hold`] before [`Mode::Stopped`].
    pub hold_for: Duration,
    /// Duration for which time must be good, without a break, on the way back.
    pub steady: Duration,
    /// Longest time without a reading.
    pub blind_after: Duration,
}

/// Inconsistent policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// `regain` is looser than `keep` on some side: the mode would alternate.
    #[error("regain must be no looser than keep, on either side")]
    LooseRegain,
    /// `hold_for` or `steady` is negative.
    #[error("hold_for and steady must not be negative")]
    NegativeLength,
    /// `blind_after` is not positive: no reading would ever be fresh.
    #[error("blind_after must be longer than nothing")]
    AlwaysBlind,
}

/// State machine of degradation. Instants are of the host's CLOCK_MONOTONIC, since a timeline may
/// have no valid time; an instant before an earlier one counts as that one.
///
/// Every input returns the mode that it begins, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degradation {
    policy: Policy,
    mode: Mode,
    reason: Reason,
    /// Instant of the last change of mode.
    since: Instant<Monotonic>,
    /// Last instant given by the caller.
    now: Instant<Monotonic>,
    /// Instant of the last reading.
    looked: Option<Instant<Monotonic>>,
    /// True if the binding reports that its requirement is met; `None` if it has reported nothing,
    /// or if there is no binding.
    bound: Option<bool>,
    /// Instant since when all inputs have been good by the tighter requirement.
    good_since: Option<Instant<Monotonic>>,
}

impl Policy {
    /// Creates a policy that leaves beyond `accuracy` on either side and returns within three
    /// quarters of it.
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
    /// Creates a controller in [`Mode::Stopped`], as of `now`.
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

    /// Processes a change reported by the binding's subscription. The end of a daemon is reported
    /// as a violation and nothing after it: bind again, and continue with this value.
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

    /// Leaves for a reason of the program's own: a command that came too late, a peer that has
    /// left. On the way back time must be good for `steady` from now on.
    pub fn withdraw(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.bad(now, Reason::Withdrawn);
        self.settle(now, before)
    }

    /// Records that the program acts with the others again. Has an effect only in
    /// [`Mode::Rejoining`].
    pub fn rejoined(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        if self.mode == Mode::Rejoining {
            self.enter(now, Mode::Coordinated, Reason::Rejoined);
        }
        self.settle(now, before)
    }

    /// Processes the passing of time.
    pub fn wake(&mut self, now: Instant<Monotonic>) -> Option<Mode> {
        let before = self.mode;
        let now = self.pass(now);
        self.settle(now, before)
    }

    /// Returns the instant at which [`Self::wake`] is due, unless another input comes before;
    /// `None` if no change is pending.
    pub fn next_wake(&self) -> Option<Instant<Monotonic>> {
        [self.blind_at(), self.stop_at(), self.back_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the instant at which the last reading will be too old, if that would change
    /// anything.
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

    /// Performs all changes due until `now`, each at its instant and in order, so that a late
    /// wake-up leads to the same mode as a punctual one.
    fn pass(&mut self, now: Instant<Monotonic>) -> Instant<Monotonic> {
        self.now = self.now.max(now);
        while let Some(due) = self.next_wake().filter(|due| *due <= self.now) {
            // A controller without a reading at that instant does not return at it.
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

    /// Performs the changes that an input has made due at its own instant.
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
    /// All modes, in the order of their numbers.
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
