//! Functions that open, read and compare timelines.

use core::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use timeloom_time::Duration;
use timeloom_timeline::{Directory, OpenError, Order, Refusal, Stamp, Timeline};

use crate::errors::{Code, bad_argument, fail, fail_open, fail_past};
use crate::types::CStamp;

/// C type `timeloom_timeline`.
#[derive(Debug)]
pub(crate) struct CTimeline(pub(crate) Arc<Timeline>);

/// Returns the text of a caller. Returns `None` for NULL, and for text that is not UTF-8.
///
/// # Safety
/// `text` is NULL or ends in a zero byte, and lives for the call.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Stores a handle of an opened timeline at `place`, and returns the error number.
///
/// # Safety
/// `place` is valid for a store.
unsafe fn give(opened: Result<Timeline, OpenError>, place: *mut *mut CTimeline) -> c_int {
    match opened {
        Ok(timeline) => {
            let boxed = Box::into_raw(Box::new(CTimeline(Arc::new(timeline))));
            // SAFETY: by contract.
            unsafe { *place = boxed };
            Code::Done as c_int
        }
        Err(error) => fail_open(&error),
    }
}

/// Opens a timeline by its name. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_open(
    name: *const c_char,
    directory: *const c_char,
    timeline: *mut *mut CTimeline,
) -> c_int {
    // SAFETY: by contract.
    let (name, place) = unsafe { (text(name), text(directory)) };
    let Some(name) = name else {
        return bad_argument("name");
    };
    if timeline.is_null() {
        return bad_argument("timeline");
    }
    let directory = match place {
        Some(path) => Directory::new(path),
        None if directory.is_null() => Directory::usual(),
        None => return bad_argument("directory"),
    };
    // SAFETY: not NULL, and by contract a place for a pointer.
    unsafe { give(Timeline::open_in(&directory, name), timeline) }
}

/// Opens a timeline's page by the path of its file. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_open_page(
    path: *const c_char,
    timeline: *mut *mut CTimeline,
) -> c_int {
    // SAFETY: by contract.
    let Some(path) = (unsafe { text(path) }) else {
        return bad_argument("path");
    };
    if timeline.is_null() {
        return bad_argument("timeline");
    }
    // SAFETY: as above.
    unsafe { give(Timeline::open_page(Path::new(path)), timeline) }
}

/// Opens a timeline's page by a file descriptor. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`]; `fd` stays open during the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_open_fd(
    fd: c_int,
    timeline: *mut *mut CTimeline,
) -> c_int {
    if fd < 0 {
        return bad_argument("fd");
    }
    if timeline.is_null() {
        return bad_argument("timeline");
    }
    // SAFETY: not -1, and by contract open. A closed descriptor results in an error.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: as above.
    unsafe { give(Timeline::open_fd(fd), timeline) }
}

/// Closes a timeline. Specified in `timeloom.h`.
///
/// # Safety
/// `timeline` is NULL or from an opening function, and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_close(timeline: *mut CTimeline) {
    if !timeline.is_null() {
        // SAFETY: by contract the pointer came from `give` and is not used again.
        drop(unsafe { Box::from_raw(timeline) });
    }
}

/// Stores a reading at `stamp`, and returns the error number.
///
/// # Safety
/// `stamp` is NULL or valid for a store.
unsafe fn store(read: Result<Stamp, Refusal>, stamp: *mut CStamp) -> c_int {
    if stamp.is_null() {
        return bad_argument("stamp");
    }
    match read {
        Ok(read) => {
            // SAFETY: by contract.
            unsafe { *stamp = read.into() };
            Code::Done as c_int
        }
        Err(refusal) => fail(Code::RefusedPage, refusal),
    }
}

/// Reads a timeline. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_read(
    timeline: *const CTimeline,
    stamp: *mut CStamp,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    // SAFETY: by contract.
    unsafe { store(timeline.0.read(), stamp) }
}

/// Reads a timeline, with an estimate that differs from those of earlier readings.
/// Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_read_strict(
    timeline: *const CTimeline,
    stamp: *mut CStamp,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    // SAFETY: by contract.
    unsafe { store(timeline.0.read_strict(), stamp) }
}

/// Reads the local counter and a timeline at the same instant. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_event(
    timeline: *const CTimeline,
    ticks: *mut u64,
    stamp: *mut CStamp,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    if ticks.is_null() {
        return bad_argument("ticks");
    }
    let event = timeline.0.event();
    if let Ok(event) = event {
        // SAFETY: by contract.
        unsafe { *ticks = event.ticks };
    }
    // SAFETY: by contract.
    unsafe { store(event.map(|event| event.stamp), stamp) }
}

/// Converts a value of the local counter to the timeline's time. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_convert(
    timeline: *const CTimeline,
    ticks: u64,
    stamp: *mut CStamp,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    match timeline.0.convert(ticks) {
        // SAFETY: by contract.
        Ok(converted) => unsafe { store(Ok(converted), stamp) },
        Err(error) => fail_past(&error),
    }
}

/// Stores TAI minus UTC, in seconds. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_tai_offset_s(
    timeline: *const CTimeline,
    seconds: *mut i32,
) -> c_int {
    // SAFETY: by contract.
    let Some(timeline) = (unsafe { timeline.as_ref() }) else {
        return bad_argument("timeline");
    };
    if seconds.is_null() {
        return bad_argument("seconds");
    }
    match timeline.0.tai_offset_s() {
        Some(offset) => {
            // SAFETY: by contract.
            unsafe { *seconds = offset.into() };
            Code::Done as c_int
        }
        None => fail(Code::Void, "the offset of TAI from UTC is unknown"),
    }
}

/// Compares two stamps, with regard to their error bounds. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_compare(
    first: *const CStamp,
    second: *const CStamp,
    order: *mut c_int,
) -> c_int {
    // SAFETY: by contract.
    let (Some(first), Some(second)) = (unsafe { (first.as_ref(), second.as_ref()) }) else {
        return bad_argument("stamp");
    };
    if order.is_null() {
        return bad_argument("order");
    }
    match first.stamp().compare(&second.stamp()) {
        Ok(found) => {
            let number = match found {
                Order::Before => -1,
                Order::Uncertain => 0,
                Order::After => 1,
            };
            // SAFETY: by contract.
            unsafe { *order = number };
            Code::Done as c_int
        }
        Err(error) => fail(Code::OtherTimeline, error),
    }
}

/// Determines whether a stamp is certainly older than a given duration. Specified in `timeloom.h`.
///
/// # Safety
/// Same contract as [`timeloom_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_certainly_older(
    stamp: *const CStamp,
    length_ns: i64,
    now: *const CStamp,
    older: *mut c_int,
) -> c_int {
    // SAFETY: by contract.
    let (Some(stamp), Some(now)) = (unsafe { (stamp.as_ref(), now.as_ref()) }) else {
        return bad_argument("stamp");
    };
    if older.is_null() {
        return bad_argument("older");
    }
    let length = Duration::from_ns(length_ns);
    match stamp.stamp().certainly_older_than(length, &now.stamp()) {
        Ok(certain) => {
            // SAFETY: by contract.
            unsafe { *older = c_int::from(certain) };
            Code::Done as c_int
        }
        Err(error) => fail(Code::OtherTimeline, error),
    }
}
