//! Timers on timelines.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use timeloom_time::{Duration, Instant};
use timeloom_timeline::Timer;

use crate::errors::{Code, bad_argument, fail, fail_wait};
use crate::timelines::CTimeline;
use crate::types::{CWoken, Context, OnTimer};

/// C type `timeloom_timer`.
#[derive(Debug)]
pub(crate) struct CTimer(Timer);

/// Starts a timer that calls `fire` at a time of the timeline. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header; `fire` may be called from another
/// thread with `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_timer_start(
    timeline: *const CTimeline,
    first_ns: i64,
    period_ns: i64,
    fire: Option<OnTimer>,
    context: *mut c_void,
    timer: *mut *mut CTimer,
) -> c_int {
    // SAFETY: by contract.
    let (Some(timeline), Some(fire)) = (unsafe { timeline.as_ref() }, fire) else {
        return bad_argument("timeline or fire");
    };
    if timer.is_null() {
        return bad_argument("timer");
    }
    if period_ns < 0 {
        return bad_argument("period_ns");
    }
    let period = (period_ns != 0).then(|| Duration::from_ns(period_ns));
    let context = Context(context);
    let started = Timer::start(
        Arc::clone(&timeline.0),
        Instant::from_ns(first_ns),
        period,
        move |woken| {
            let context = context.get();
            match woken {
                Ok(woken) => {
                    let woken = CWoken::from(woken);
                    // SAFETY: the function belongs to the caller, who promised that it accepts
                    // these arguments.
                    unsafe { fire(Code::Done as c_int, &raw const woken, context) };
                }
                Err(error) => {
                    // SAFETY: as above.
                    unsafe { fire(fail_wait(&error), core::ptr::null(), context) };
                }
            }
        },
    );
    match started {
        Ok(started) => {
            let boxed = Box::into_raw(Box::new(CTimer(started)));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *timer = boxed };
            Code::Done as c_int
        }
        Err(error) => fail(Code::System, error),
    }
}

/// Cancels a timer, and waits for a callback that is running. Specified in `timeloom.h`.
///
/// # Safety
/// `timer` is NULL or from [`timeloom_timer_start`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_timer_cancel(timer: *mut CTimer) {
    if !timer.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        unsafe { Box::from_raw(timer) }.0.cancel();
    }
}
