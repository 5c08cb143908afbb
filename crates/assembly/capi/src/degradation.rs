//! State machine for graceful degradation. It has a lock, since a binding reports changes from
//! another thread.

use core::ffi::{c_char, c_int};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::CString;

use timeloom_time::{Duration, Instant};
use timeloom_timeline::{Change, Degradation, Mode, Monotonic, Policy, Status};

use crate::errors::{Code, bad_argument, fail};
use crate::types::{CChange, CPolicy, CStamp};

/// C type `timeloom_degradation`.
#[derive(Debug)]
pub(crate) struct CDegradation {
    machine: Mutex<Degradation>,
}

impl CDegradation {
    fn lock(&self) -> MutexGuard<'_, Degradation> {
        self.machine.lock()
    }
}

/// Passes one input to the state machine: calls `input` with `now_ns`, and stores the resulting
/// mode.
///
/// # Safety
/// `degradation` is NULL or from this library, `mode` is NULL or a place for one.
unsafe fn give(
    degradation: *const CDegradation,
    now_ns: i64,
    mode: *mut u32,
    input: impl FnOnce(&mut Degradation, Instant<Monotonic>) -> Option<Mode>,
) -> c_int {
    // SAFETY: by contract.
    let Some(degradation) = (unsafe { degradation.as_ref() }) else {
        return bad_argument("degradation");
    };
    let mut machine = degradation.lock();
    input(&mut machine, Instant::from_ns(now_ns));
    if !mode.is_null() {
        // SAFETY: by contract.
        unsafe { *mode = machine.mode() as u32 };
    }
    Code::Done as c_int
}

/// Creates a state machine for graceful degradation. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_new(
    policy: *const CPolicy,
    now_ns: i64,
    degradation: *mut *mut CDegradation,
) -> c_int {
    // SAFETY: by contract.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return bad_argument("policy");
    };
    if degradation.is_null() {
        return bad_argument("degradation");
    }
    let policy = Policy {
        keep: policy.keep.into(),
        regain: policy.regain.into(),
        hold_for: Duration::from_ns(policy.hold_for_ns),
        steady: Duration::from_ns(policy.steady_ns),
        blind_after: Duration::from_ns(policy.blind_after_ns),
    };
    match Degradation::new(policy, Instant::from_ns(now_ns)) {
        Ok(machine) => {
            let boxed = Box::into_raw(Box::new(CDegradation {
                machine: Mutex::new(machine),
            }));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *degradation = boxed };
            Code::Done as c_int
        }
        Err(bad) => fail(Code::BadArgument, bad),
    }
}

/// Frees a state machine for graceful degradation. Specified in `timeloom.h`.
///
/// # Safety
/// `degradation` is NULL or from [`timeloom_degradation_new`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_free(degradation: *mut CDegradation) {
    if !degradation.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        drop(unsafe { Box::from_raw(degradation) });
    }
}

/// Passes a reading of the timeline to the state machine. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_read(
    degradation: *const CDegradation,
    now_ns: i64,
    stamp: *const CStamp,
    mode: *mut u32,
) -> c_int {
    // SAFETY: by contract.
    let Some(stamp) = (unsafe { stamp.as_ref() }) else {
        return bad_argument("stamp");
    };
    let stamp = stamp.stamp();
    // SAFETY: by contract.
    unsafe {
        give(degradation, now_ns, mode, |machine, now| {
            machine.read(now, &stamp)
        })
    }
}

/// Passes a change of a binding's state to the state machine. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_told(
    degradation: *const CDegradation,
    now_ns: i64,
    change: *const CChange,
    mode: *mut u32,
) -> c_int {
    // SAFETY: by contract.
    let Some(change) = (unsafe { change.as_ref() }) else {
        return bad_argument("change");
    };
    let status = u8::try_from(change.status).ok();
    let change = if change.met != 0 {
        Change::Restored
    } else {
        Change::Violated {
            status: status
                .and_then(Status::from_number)
                .unwrap_or(Status::Disrupted),
            sides: None,
            why: String::new(),
        }
    };
    // SAFETY: by contract.
    unsafe {
        give(degradation, now_ns, mode, |machine, now| {
            machine.told(now, &change)
        })
    }
}

/// Leaves the coordinated mode for a reason of the program, such as a late command.
/// Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_withdraw(
    degradation: *const CDegradation,
    now_ns: i64,
    mode: *mut u32,
) -> c_int {
    // SAFETY: by contract.
    unsafe { give(degradation, now_ns, mode, Degradation::withdraw) }
}

/// Ends the mode of rejoining: the program acts with its peers again. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_rejoined(
    degradation: *const CDegradation,
    now_ns: i64,
    mode: *mut u32,
) -> c_int {
    // SAFETY: by contract.
    unsafe { give(degradation, now_ns, mode, Degradation::rejoined) }
}

/// Passes the present time to the state machine. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_wake(
    degradation: *const CDegradation,
    now_ns: i64,
    mode: *mut u32,
) -> c_int {
    // SAFETY: by contract.
    unsafe { give(degradation, now_ns, mode, Degradation::wake) }
}

/// Stores the time at which `timeloom_degradation_wake` is due. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_next_wake(
    degradation: *const CDegradation,
    at_ns: *mut i64,
) -> c_int {
    // SAFETY: by contract.
    let (Some(degradation), Some(place)) = (unsafe { (degradation.as_ref(), at_ns.as_mut()) })
    else {
        return bad_argument("degradation or at_ns");
    };
    let Some(next) = degradation.lock().next_wake() else {
        return fail(Code::Void, "nothing changes by itself");
    };
    *place = next.as_ns();
    Code::Done as c_int
}

/// Stores the reason why the present mode was entered, as text. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_degradation_new`]; `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_degradation_reason(
    degradation: *const CDegradation,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: by contract.
    let Some(degradation) = (unsafe { degradation.as_ref() }) else {
        return bad_argument("degradation");
    };
    if text.is_null() || size == 0 {
        return bad_argument("text");
    }
    let words = CString::new(degradation.lock().reason().to_string()).unwrap_or_default();
    let bytes = words.as_bytes();
    let kept = (0..=bytes.len().min(size - 1))
        .rev()
        .find(|&end| core::str::from_utf8(&bytes[..end]).is_ok())
        .unwrap_or(0);
    // SAFETY: `kept` bytes and the zero fit into `size`, and texts do not overlap.
    unsafe {
        core::ptr::copy_nonoverlapping(words.as_ptr(), text, kept);
        *text.add(kept) = 0;
    }
    Code::Done as c_int
}
