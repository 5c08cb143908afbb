//! Bindings of programs to timelines.

use core::ffi::{c_int, c_void};
use std::ffi::CString;

use timeloom_time::Duration;
use timeloom_timeline::{
    BindError, Binding, Change, ClientError, Requirement, Status, Subscription,
};

use crate::errors::{Code, bad_argument, code_of_client, fail, fail_bind};
use crate::timelines::CTimeline;
use crate::types::{CChange, CRequirement, Context, OnChange};

/// C type `timeloom_binding`. The subscription must be dropped before the binding.
#[derive(Debug)]
pub(crate) struct CBinding {
    subscription: Option<Subscription>,
    binding: Binding,
}

/// Binds a program to a timeline with a requirement. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_bind(
    timeline: *const CTimeline,
    requirement: *const CRequirement,
    binding: *mut *mut CBinding,
    possible: *mut CRequirement,
) -> c_int {
    // SAFETY: by contract.
    let (Some(timeline), Some(requirement)) =
        (unsafe { (timeline.as_ref(), requirement.as_ref()) })
    else {
        return bad_argument("timeline or requirement");
    };
    if binding.is_null() {
        return bad_argument("binding");
    }
    match timeline.0.bind((*requirement).into()) {
        Ok(bound) => {
            let boxed = Box::into_raw(Box::new(CBinding {
                subscription: None,
                binding: bound,
            }));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *binding = boxed };
            Code::Done as c_int
        }
        Err(error) => {
            if let BindError::Impossible(best) = &error
                && !possible.is_null()
            {
                let best = CRequirement {
                    below_ns: best.accuracy.as_ns(),
                    above_ns: best.accuracy.as_ns(),
                    resolution_ns: best.resolution.as_ns(),
                };
                // SAFETY: by contract.
                unsafe { *possible = best };
            }
            fail_bind(&error)
        }
    }
}

/// Ends a binding and its subscription. Specified in `timeloom.h`.
///
/// # Safety
/// `binding` is NULL or from [`timeloom_bind`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_unbind(binding: *mut CBinding) {
    if !binding.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        drop(unsafe { Box::from_raw(binding) });
    }
}

fn done_or_client<T>(result: Result<T, ClientError>, store: impl FnOnce(T)) -> c_int {
    match result {
        Ok(value) => {
            store(value);
            Code::Done as c_int
        }
        Err(error) => fail(code_of_client(&error), error),
    }
}

fn done_or_bind(result: Result<(), BindError>) -> c_int {
    match result {
        Ok(()) => Code::Done as c_int,
        Err(error) => fail_bind(&error),
    }
}

/// Stores the present requirement of a binding. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_get_requirement(
    binding: *const CBinding,
    requirement: *mut CRequirement,
) -> c_int {
    // SAFETY: by contract.
    let (Some(binding), Some(place)) = (unsafe { (binding.as_ref(), requirement.as_mut()) }) else {
        return bad_argument("binding or requirement");
    };
    done_or_client(binding.binding.requirement(), |found: Requirement| {
        *place = found.into();
    })
}

/// Replaces the requirement of a binding. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_set_requirement(
    binding: *mut CBinding,
    requirement: *const CRequirement,
) -> c_int {
    // SAFETY: by contract.
    let (Some(binding), Some(requirement)) = (unsafe { (binding.as_ref(), requirement.as_ref()) })
    else {
        return bad_argument("binding or requirement");
    };
    done_or_bind(binding.binding.set_requirement((*requirement).into()))
}

/// Stores the required accuracy of a binding, in ns. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_get_accuracy(
    binding: *const CBinding,
    accuracy_ns: *mut i64,
) -> c_int {
    // SAFETY: by contract.
    let (Some(binding), Some(place)) = (unsafe { (binding.as_ref(), accuracy_ns.as_mut()) }) else {
        return bad_argument("binding or accuracy_ns");
    };
    done_or_client(binding.binding.accuracy(), |found| *place = found.as_ns())
}

/// Replaces the required accuracy of a binding, in ns. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_set_accuracy(
    binding: *mut CBinding,
    accuracy_ns: i64,
) -> c_int {
    // SAFETY: by contract.
    let Some(binding) = (unsafe { binding.as_ref() }) else {
        return bad_argument("binding");
    };
    done_or_bind(binding.binding.set_accuracy(Duration::from_ns(accuracy_ns)))
}

/// Stores the required resolution of a binding, in ns. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_get_resolution(
    binding: *const CBinding,
    resolution_ns: *mut i64,
) -> c_int {
    // SAFETY: by contract.
    let (Some(binding), Some(place)) = (unsafe { (binding.as_ref(), resolution_ns.as_mut()) })
    else {
        return bad_argument("binding or resolution_ns");
    };
    done_or_client(binding.binding.resolution(), |found| *place = found.as_ns())
}

/// Replaces the required resolution of a binding, in ns. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_set_resolution(
    binding: *mut CBinding,
    resolution_ns: i64,
) -> c_int {
    // SAFETY: by contract.
    let Some(binding) = (unsafe { binding.as_ref() }) else {
        return bad_argument("binding");
    };
    done_or_bind(
        binding
            .binding
            .set_resolution(Duration::from_ns(resolution_ns)),
    )
}

/// Calls `told` for each change of a binding's state, from another thread.
/// Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_bind`]; `told` may be called from another thread with `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_subscribe(
    binding: *mut CBinding,
    told: Option<OnChange>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    let (Some(binding), Some(told)) = (unsafe { binding.as_mut() }, told) else {
        return bad_argument("binding or told");
    };
    // The previous subscription ends first, because two would take events from each other.
    binding.subscription = None;
    let context = Context(context);
    let subscribed = binding.binding.subscribe(move |change| {
        let context = context.get();
        let (change, _reason) = change_for_c(&change);
        // SAFETY: the function belongs to the caller, who promised that it accepts these arguments.
        // The text of the reason lives until the function returns.
        unsafe { told(&raw const change, context) };
    });
    done_or_client(subscribed, |subscription| {
        binding.subscription = Some(subscription);
    })
}

/// Converts a change for C. The returned string owns the text to which the structure points.
fn change_for_c(change: &Change) -> (CChange, CString) {
    let (met, status, sides, why) = match change {
        Change::Restored => (1, Status::Ok, None, ""),
        Change::Violated { status, sides, why } => (0, *status, *sides, why.as_str()),
    };
    let text = CString::new(why).unwrap_or_default();
    let (below, above) = sides.map_or((-1, -1), |(below, above)| (below.as_ns(), above.as_ns()));
    let change = CChange {
        met,
        status: status as u32,
        below_ns: below,
        above_ns: above,
        reason: text.as_ptr(),
    };
    (change, text)
}
