//! Messages as bytes: encoding, sealing, verification and decoding.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;

use timeloom_time::Instant;
use timeloom_timeline::messages::{Envelope, MessageRefusal, Seal};

use crate::errors::{Code, bad_argument, fail};
use crate::timelines::text;
use crate::types::{CEnvelope, CStamp};

/// C type `timeloom_seal`.
#[derive(Debug)]
pub(crate) struct CSeal(pub(crate) Seal);

/// Returns the bytes of a caller. NULL with length 0 is an empty slice; NULL with another length is
/// `None`.
///
/// # Safety
/// `bytes` is NULL or valid for `length` bytes during the call.
pub(crate) unsafe fn bytes_of<'a>(bytes: *const c_void, length: usize) -> Option<&'a [u8]> {
    match (bytes.is_null(), length) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: by contract.
        (false, _) => Some(unsafe { core::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// Creates a seal from a key. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_seal_new(
    key: *const c_void,
    key_bytes: usize,
    seal: *mut *mut CSeal,
) -> c_int {
    // SAFETY: by contract.
    let Some(key) = (unsafe { bytes_of(key, key_bytes) }) else {
        return bad_argument("key");
    };
    if seal.is_null() {
        return bad_argument("seal");
    }
    match Seal::new(key) {
        Ok(made) => {
            let boxed = Box::into_raw(Box::new(CSeal(made)));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *seal = boxed };
            Code::Done as c_int
        }
        Err(error) => fail(Code::BadArgument, error),
    }
}

/// Frees a seal. Specified in `timeloom.h`.
///
/// # Safety
/// `seal` is NULL or from [`timeloom_seal_new`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_seal_free(seal: *mut CSeal) {
    if !seal.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        drop(unsafe { Box::from_raw(seal) });
    }
}

/// Encodes and seals a message. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_message_write(
    seal: *const CSeal,
    name: *const c_char,
    envelope: *const CEnvelope,
    message: *mut c_void,
    room: usize,
    message_bytes: *mut usize,
) -> c_int {
    // SAFETY: by contract.
    let (seal, name, envelope) = unsafe { (seal.as_ref(), text(name), envelope.as_ref()) };
    let (Some(name), Some(envelope)) = (name, envelope) else {
        return bad_argument("name or envelope");
    };
    // SAFETY: by contract.
    let payload = unsafe { bytes_of(envelope.payload.cast(), envelope.payload_bytes) };
    let (Some(payload), false) = (payload, message.is_null() || message_bytes.is_null()) else {
        return bad_argument("payload, message or message_bytes");
    };
    let envelope = Envelope {
        sent: envelope.sent.stamp(),
        act_at: (envelope.acts != 0).then(|| Instant::from_ns(envelope.act_at_ns)),
        payload,
    };
    let written = timeloom_timeline::messages::write(seal.map(|seal| &seal.0), name, &envelope);
    // SAFETY: not NULL, and by contract a place for it.
    unsafe { *message_bytes = written.len() };
    if written.len() > room {
        return fail(
            Code::BadArgument,
            format_args!(
                "there is room for {room} bytes, and {} are needed",
                written.len()
            ),
        );
    }
    // SAFETY: by contract there is room for them, and `written` belongs to this function alone.
    unsafe { core::ptr::copy_nonoverlapping(written.as_ptr(), message.cast(), written.len()) };
    Code::Done as c_int
}

/// Verifies and decodes a sealed message. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_message_open(
    seal: *const CSeal,
    name: *const c_char,
    message: *const c_void,
    message_bytes: usize,
    since: *const CStamp,
    envelope: *mut CEnvelope,
) -> c_int {
    // SAFETY: by contract.
    let (seal, name, since) = unsafe { (seal.as_ref(), text(name), since.as_ref()) };
    // SAFETY: by contract.
    let message = unsafe { bytes_of(message, message_bytes) };
    let (Some(name), Some(message)) = (name, message) else {
        return bad_argument("name or message");
    };
    // SAFETY: by contract.
    let Some(place) = (unsafe { envelope.as_mut() }) else {
        return bad_argument("envelope");
    };
    let since = since.map(CStamp::stamp);
    match timeloom_timeline::messages::open(seal.map(|it| &it.0), name, message, since.as_ref()) {
        Ok(opened) => {
            *place = CEnvelope::from(&opened);
            Code::Done as c_int
        }
        Err(error) => fail_refused(error),
    }
}

fn fail_refused(refused: MessageRefusal) -> c_int {
    let code = match refused {
        MessageRefusal::Unproved(_) => Code::Unproved,
        MessageRefusal::Malformed(_) => Code::Malformed,
    };
    fail(code, refused)
}

impl From<&Envelope<'_>> for CEnvelope {
    fn from(envelope: &Envelope<'_>) -> Self {
        let payload = envelope.payload;
        Self {
            sent: envelope.sent.into(),
            act_at_ns: envelope.act_at.map_or(0, Instant::as_ns),
            acts: u64::from(envelope.act_at.is_some()),
            payload: if payload.is_empty() {
                null()
            } else {
                payload.as_ptr()
            },
            payload_bytes: payload.len(),
        }
    }
}
