//! Functions that wait for a time of a timeline.

use core::ffi::c_int;

use timeloom_time::{Duration, Instant};
use timeloom_timeline::{Schedule, WaitError, WaitResult};

use crate::errors::{Code, bad_argument, fail, fail_wait};
use crate::timelines::CTimeline;
use crate::types::{CSchedule, CStamp, CWoken};

/// Stores the result of a wait at `woken`, and returns the error number.
///
/// # Safety
/// `woken` is NULL or valid for a store.
unsafe fn store(waited: Result<WaitResult, WaitError>, woken: *mut CWoken) -> c_int {
    match waited {
        Ok(ended) => {
            if !woken.is_null() {
                // SAFETY: by contract.
                unsafe { *woken = ended.into() };
            }
            Code::Done as c_int
        }
        Err(error) => fail_wait(&error),
    }
}

/// Waits until a time of the timeline. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_wait_until(
    timeline: *const CTimeline,
    target_ns: i64,
    woken: *mut CWoken,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    // SAFETY: by contract.
    unsafe { store(timeline.0.wait_until(Instant::from_ns(target_ns)), woken) }
}

/// Waits until the next period of a schedule. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_wait_until`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_wait_until_next_period(
    timeline: *const CTimeline,
    schedule: *mut CSchedule,
    woken: *mut CWoken,
) -> c_int {
    // SAFETY: by contract.
    let (Some(timeline), Some(place)) = (unsafe { (timeline.as_ref(), schedule.as_mut()) }) else {
        return bad_argument("timeline or schedule");
    };
    let mut schedule = Schedule::from(*place);
    let waited = timeline.0.wait_until_next_period(&mut schedule);
    place.last_ns = schedule.last.map_or(i64::MIN, Instant::as_ns);
    // SAFETY: by contract.
    unsafe { store(waited, woken) }
}

/// Waits for a duration of the timeline's time. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_wait_until`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_sleep(
    timeline: *const CTimeline,
    length_ns: i64,
    woken: *mut CWoken,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    // SAFETY: by contract.
    unsafe { store(timeline.0.sleep(Duration::from_ns(length_ns)), woken) }
}

/// Waits until a stamp is certainly in the past. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_wait_until`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_commit_wait(
    timeline: *const CTimeline,
    stamp: *const CStamp,
    woken: *mut CWoken,
) -> c_int {
    // SAFETY: by contract.
    let (Some(timeline), Some(stamp)) = (unsafe { (timeline.as_ref(), stamp.as_ref()) }) else {
        return bad_argument("timeline or stamp");
    };
    let stamp = stamp.stamp();
    if stamp.timeline() != timeline.0.id() {
        return fail(Code::OtherTimeline, "the stamp is of another timeline");
    }
    // SAFETY: by contract.
    unsafe { store(timeline.0.commit_wait(&stamp), woken) }
}
