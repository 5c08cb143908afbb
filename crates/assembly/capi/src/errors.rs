//! Error numbers, and the message of the last error in each thread.

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Display;
use std::ffi::CString;

use timeloom_guest::ControlError;
use timeloom_timeline::{BindError, ClientError, OpenError, PastError, Status, WaitError};

/// C type `enum timeloom_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Done = 0,
    BadArgument = -1,
    NoDaemon = -2,
    RefusedPage = -3,
    Impossible = -4,
    Void = -5,
    DaemonFailed = -6,
    OtherTimeline = -7,
    System = -8,
    NoSession = -9,
    RefusedHold = -10,
    Unproved = -11,
    Malformed = -12,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Stores the message of an error for this thread, and returns the error's number.
pub(crate) fn fail(code: Code, words: impl Display) -> c_int {
    let text: Vec<u8> = words.to_string().into_bytes();
    let text = CString::new(text).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
    code as c_int
}

/// Stores the message that the argument `which` is NULL or invalid, and returns the error's number.
pub(crate) fn bad_argument(which: &str) -> c_int {
    fail(Code::BadArgument, format_args!("bad argument: {which}"))
}

pub(crate) fn code_of_client(error: &ClientError) -> Code {
    match error {
        ClientError::NoDaemon(_) => Code::NoDaemon,
        _ => Code::DaemonFailed,
    }
}

pub(crate) fn fail_open(error: &OpenError) -> c_int {
    let code = match error {
        OpenError::Name(_) => Code::BadArgument,
        OpenError::Daemon(client) => code_of_client(client),
        OpenError::Page(_) => Code::RefusedPage,
    };
    fail(code, error)
}

pub(crate) fn fail_bind(error: &BindError) -> c_int {
    let code = match error {
        BindError::Impossible(_) => Code::Impossible,
        BindError::Senseless => Code::BadArgument,
        BindError::NoDaemon => Code::NoDaemon,
        BindError::Daemon(client) => code_of_client(client),
    };
    fail(code, error)
}

pub(crate) fn fail_wait(error: &WaitError) -> c_int {
    let code = match error {
        WaitError::Void(_) => Code::Void,
        WaitError::Page(_) => Code::RefusedPage,
        WaitError::Senseless => Code::BadArgument,
    };
    fail(code, error)
}

pub(crate) fn fail_past(error: &PastError) -> c_int {
    let code = match error {
        PastError::NoDaemon | PastError::Guest => Code::NoDaemon,
        PastError::Daemon(client) => code_of_client(client),
    };
    fail(code, error)
}

pub(crate) fn fail_hold(error: &ControlError) -> c_int {
    let code = match error {
        ControlError::NoSession { .. } => Code::NoSession,
        _ => Code::RefusedHold,
    };
    fail(code, error)
}

/// Returns the message of the calling thread's last error. Specified in `timeloom.h`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn timeloom_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Returns the text for the status of a timeline. Specified in `timeloom.h`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn timeloom_status_text(status: u32) -> *const c_char {
    let text: &CStr = match u8::try_from(status).ok().and_then(Status::from_number) {
        Some(Status::NeverSynchronised) => c"never synchronised",
        Some(Status::Ok) => c"ok",
        Some(Status::SourceLost) => c"source lost",
        Some(Status::DaemonDead) => c"daemon dead",
        Some(Status::Disrupted) => c"disrupted",
        Some(Status::Unauthenticated) => c"unauthenticated",
        None => c"no status",
    };
    text.as_ptr()
}
