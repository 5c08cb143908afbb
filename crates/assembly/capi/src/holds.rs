//! Holds on a run, or on the machines of a pause bus.

use core::ffi::{c_char, c_int};

use timeloom_guest::{SessionHold, hold};

use crate::errors::{Code, bad_argument, fail_hold};
use crate::timelines::text;

/// C type `timeloom_held`.
#[derive(Debug)]
pub(crate) struct CHeld(#[expect(dead_code, reason = "it is the hold")] SessionHold);

/// Takes a hold on a run, or on the machines of a pause bus. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_hold(
    session: *const c_char,
    reason: *const c_char,
    held: *mut *mut CHeld,
    at_ns: *mut i64,
) -> c_int {
    // SAFETY: by contract.
    let (name, why) = unsafe { (text(session), text(reason)) };
    if name.is_none() && !session.is_null() {
        return bad_argument("session");
    }
    let Some(why) = why else {
        return bad_argument("reason");
    };
    if held.is_null() {
        return bad_argument("held");
    }
    match hold(name, why) {
        Ok((status, hold)) => {
            let boxed = Box::into_raw(Box::new(CHeld(hold)));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *held = boxed };
            // SAFETY: by contract.
            if let Some(place) = unsafe { at_ns.as_mut() } {
                *place = status.virtual_ns;
            }
            Code::Done as c_int
        }
        Err(error) => fail_hold(&error),
    }
}

/// Releases a hold. Specified in `timeloom.h`.
///
/// # Safety
/// `held` is NULL or from [`timeloom_hold`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_let_go(held: *mut CHeld) {
    if !held.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        drop(unsafe { Box::from_raw(held) });
    }
}
