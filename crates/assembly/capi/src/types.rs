//! Rust definitions of the structures in `timeloom.h`.

use core::ffi::{c_char, c_int, c_void};
use core::mem::{offset_of, size_of};

use timeloom_time::{Duration, Instant};
use timeloom_timeline::{Interval, Requirement, Schedule, Stamp, Status, TimelineId, WaitResult};

/// C type `timeloom_stamp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CStamp {
    pub(crate) earliest_ns: i64,
    pub(crate) estimate_ns: i64,
    pub(crate) latest_ns: i64,
    pub(crate) timeline_low: u64,
    pub(crate) timeline_high: u64,
    pub(crate) status: u32,
    pub(crate) bounded: u32,
}

/// C type `timeloom_requirement`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CRequirement {
    pub(crate) below_ns: i64,
    pub(crate) above_ns: i64,
    pub(crate) resolution_ns: i64,
}

/// C type `timeloom_woken`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CWoken {
    pub(crate) target_ns: i64,
    pub(crate) overshoot_ns: i64,
    pub(crate) stamp: CStamp,
}

/// C type `timeloom_schedule`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CSchedule {
    pub(crate) period_ns: i64,
    pub(crate) start_ns: i64,
    pub(crate) last_ns: i64,
}

/// C type `timeloom_change`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CChange {
    pub(crate) met: u32,
    pub(crate) status: u32,
    pub(crate) below_ns: i64,
    pub(crate) above_ns: i64,
    pub(crate) reason: *const c_char,
}

/// C type `timeloom_policy`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CPolicy {
    pub(crate) keep: CRequirement,
    pub(crate) regain: CRequirement,
    pub(crate) hold_for_ns: i64,
    pub(crate) steady_ns: i64,
    pub(crate) blind_after_ns: i64,
}

/// C type `timeloom_envelope`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CEnvelope {
    pub(crate) sent: CStamp,
    pub(crate) act_at_ns: i64,
    pub(crate) acts: u64,
    pub(crate) payload: *const u8,
    pub(crate) payload_bytes: usize,
}

/// C type `timeloom_message`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CMessage {
    pub(crate) envelope: CEnvelope,
    pub(crate) arrived: CStamp,
    pub(crate) acted: CStamp,
    pub(crate) in_time: u64,
    pub(crate) key: *const c_char,
}

/// C type `timeloom_place`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CPlace {
    pub(crate) listen: *const c_char,
    pub(crate) peers: *const *const c_char,
    pub(crate) peer_count: usize,
    pub(crate) key: *const c_void,
    pub(crate) key_bytes: usize,
}

/// C type `timeloom_on_message`.
pub(crate) type OnMessage = unsafe extern "C" fn(*const CMessage, *mut c_void);
/// C type `timeloom_on_change`.
pub(crate) type OnChange = unsafe extern "C" fn(*const CChange, *mut c_void);
/// C type `timeloom_on_timer`.
pub(crate) type OnTimer = unsafe extern "C" fn(c_int, *const CWoken, *mut c_void);

/// Pointer that a caller provides, and that is passed to the caller's callbacks.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: the library never dereferences the pointer; the header states that callbacks may use it
// in the library's thread.
unsafe impl Send for Context {}
// SAFETY: as above; the threads of a channel share it.
unsafe impl Sync for Context {}

impl Context {
    /// Returns the pointer. Closures use this method, because a closure that used the field would
    /// capture only the pointer, which is not `Send`.
    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

impl From<Stamp> for CStamp {
    fn from(stamp: Stamp) -> Self {
        let TimelineId(id) = stamp.timeline();
        let interval = stamp.interval();
        let ns = |instant: fn(&Interval<_>) -> Instant<_>| {
            interval
                .as_ref()
                .map_or(0, |interval| instant(interval).as_ns())
        };
        Self {
            earliest_ns: ns(Interval::earliest),
            estimate_ns: ns(Interval::estimate),
            latest_ns: ns(Interval::latest),
            timeline_low: id as u64,
            timeline_high: (id >> 64) as u64,
            status: stamp.status() as u32,
            bounded: u32::from(interval.is_some()),
        }
    }
}

impl CStamp {
    /// Converts the stamp. A caller may have changed the stamp to anything; one with an unknown
    /// status becomes a stamp without an interval.
    pub(crate) fn stamp(&self) -> Stamp {
        let id = TimelineId(u128::from(self.timeline_low) | u128::from(self.timeline_high) << 64);
        let status = u8::try_from(self.status).ok().and_then(Status::from_number);
        let status = status.unwrap_or(Status::NeverSynchronised);
        if self.bounded == 0 {
            return Stamp::void(id, status);
        }
        let estimate = Instant::from_ns(self.estimate_ns);
        let interval = Interval::around(
            estimate,
            estimate - Instant::from_ns(self.earliest_ns),
            Instant::from_ns(self.latest_ns) - estimate,
        );
        Stamp::new(id, status, interval)
    }
}

impl From<Requirement> for CRequirement {
    fn from(requirement: Requirement) -> Self {
        Self {
            below_ns: requirement.below.as_ns(),
            above_ns: requirement.above.as_ns(),
            resolution_ns: requirement.resolution.as_ns(),
        }
    }
}

impl From<CRequirement> for Requirement {
    fn from(requirement: CRequirement) -> Self {
        Self {
            below: Duration::from_ns(requirement.below_ns),
            above: Duration::from_ns(requirement.above_ns),
            resolution: Duration::from_ns(requirement.resolution_ns),
        }
    }
}

impl From<WaitResult> for CWoken {
    fn from(woken: WaitResult) -> Self {
        Self {
            target_ns: woken.target.as_ns(),
            overshoot_ns: woken.overshoot.as_ns(),
            stamp: woken.stamp.into(),
        }
    }
}

impl From<CSchedule> for Schedule {
    fn from(schedule: CSchedule) -> Self {
        let last = (schedule.last_ns != i64::MIN).then(|| Instant::from_ns(schedule.last_ns));
        Self {
            last,
            ..Self::new(
                Duration::from_ns(schedule.period_ns),
                Instant::from_ns(schedule.start_ns),
            )
        }
    }
}

// The header checks that its structures have the same sizes.
const _: () = assert!(size_of::<CStamp>() == 48);
const _: () = assert!(offset_of!(CStamp, status) == 40);
const _: () = assert!(size_of::<CRequirement>() == 24);
const _: () = assert!(size_of::<CWoken>() == 64);
const _: () = assert!(offset_of!(CWoken, stamp) == 16);
const _: () = assert!(size_of::<CSchedule>() == 24);
const _: () = assert!(offset_of!(CChange, reason) == 24);
const _: () = assert!(size_of::<CEnvelope>() == 64 + 2 * size_of::<usize>());
const _: () = assert!(offset_of!(CEnvelope, payload) == 64);
const _: () = assert!(offset_of!(CMessage, arrived) == 64 + 2 * size_of::<usize>());
const _: () = assert!(size_of::<CPlace>() == 5 * size_of::<usize>());
const _: () = assert!(size_of::<CPolicy>() == 72);
const _: () = assert!(offset_of!(CPolicy, hold_for_ns) == 48);
