//! Publication and subscription of messages by datagrams.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;
use std::net::SocketAddr;
use std::sync::Arc;

use timeloom_time::Instant;
use timeloom_timeline::messages::{
    Channel, ChannelError, Endpoints, Envelope, ReceivedMessage, Seal,
};

use crate::errors::{Code, bad_argument, fail};
use crate::messages::bytes_of;
use crate::timelines::{CTimeline, text};
use crate::types::{CEnvelope, CMessage, CPlace, CStamp, Context, OnMessage};

/// C type `timeloom_channel`.
#[derive(Debug)]
pub(crate) struct CChannel(Channel);

fn fail_channel(error: &ChannelError) -> c_int {
    let code = match error {
        ChannelError::Key(_) | ChannelError::Long(_) => Code::BadArgument,
        ChannelError::Page(_) => Code::RefusedPage,
        ChannelError::System(_) => Code::System,
    };
    fail(code, error)
}

/// # Safety
/// Pointers in `given` are NULL or as specified in the header.
unsafe fn endpoints_of(given: &CPlace) -> Option<Endpoints> {
    // SAFETY: by contract.
    let address = |place| unsafe { text(place) }?.parse::<SocketAddr>().ok();
    if given.peers.is_null() && given.peer_count > 0 {
        return None;
    }
    // SAFETY: by contract.
    let each = (0..given.peer_count).map(|index| address(unsafe { *given.peers.add(index) }));
    Some(Endpoints {
        listen: address(given.listen)?,
        peers: each.collect::<Option<Vec<_>>>()?,
    })
}

/// Opens a channel for messages by datagrams. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_open(
    timeline: *const CTimeline,
    prefix: *const c_char,
    place: *const CPlace,
    channel: *mut *mut CChannel,
) -> c_int {
    // SAFETY: by contract.
    let (timeline, prefix, place) = unsafe { (timeline.as_ref(), text(prefix), place.as_ref()) };
    let (Some(timeline), Some(prefix), Some(given)) = (timeline, prefix, place) else {
        return bad_argument("timeline, prefix or place");
    };
    // SAFETY: by contract.
    let (endpoints, key) = unsafe { (endpoints_of(given), bytes_of(given.key, given.key_bytes)) };
    let (Some(endpoints), false) = (endpoints, channel.is_null()) else {
        return bad_argument("listen or peers, as in 127.0.0.1:7447; or channel");
    };
    let seal = match key {
        None => return bad_argument("key"),
        Some([]) => None,
        Some(key) => match Seal::new(key) {
            Ok(seal) => Some(seal),
            Err(error) => return fail(Code::BadArgument, error),
        },
    };
    match Channel::open(Arc::clone(&timeline.0), prefix, &endpoints, seal) {
        Ok(opened) => {
            let boxed = Box::into_raw(Box::new(CChannel(opened)));
            // SAFETY: not NULL, and by contract a place for a pointer.
            unsafe { *channel = boxed };
            Code::Done as c_int
        }
        Err(error) => fail_channel(&error),
    }
}

/// Closes a channel. Specified in `timeloom.h`.
///
/// # Safety
/// `channel` is NULL or from [`timeloom_channel_open`], and not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_close(channel: *mut CChannel) {
    if !channel.is_null() {
        // SAFETY: by contract the pointer came from this library and is not used again.
        drop(unsafe { Box::from_raw(channel) });
    }
}

/// Stores the local UDP port of a channel. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_port(
    channel: *const CChannel,
    port: *mut u16,
) -> c_int {
    // SAFETY: by contract.
    let (Some(channel), Some(place)) = (unsafe { (channel.as_ref(), port.as_mut()) }) else {
        return bad_argument("channel or port");
    };
    *place = channel.0.local_address().port();
    Code::Done as c_int
}

/// Stores the counters of a channel. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_counts(
    channel: *const CChannel,
    unproved: *mut u64,
    dropped: *mut u64,
) -> c_int {
    // SAFETY: by contract.
    let Some(channel) = (unsafe { channel.as_ref() }) else {
        return bad_argument("channel");
    };
    let counts = channel.0.counts();
    for (place, count) in [(unproved, counts.unproved), (dropped, counts.dropped)] {
        // SAFETY: by contract.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = count;
        }
    }
    Code::Done as c_int
}

/// Publishes a message on a channel. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_publish(
    channel: *const CChannel,
    key: *const c_char,
    payload: *const c_void,
    payload_bytes: usize,
    act_at_ns: *const i64,
    sent: *mut CStamp,
) -> c_int {
    // SAFETY: by contract.
    let (channel, key, act_at) = unsafe { (channel.as_ref(), text(key), act_at_ns.as_ref()) };
    // SAFETY: by contract.
    let payload = unsafe { bytes_of(payload, payload_bytes) };
    let (Some(channel), Some(key), Some(payload)) = (channel, key, payload) else {
        return bad_argument("channel, key or payload");
    };
    let act_at = act_at.map(|ns| Instant::from_ns(*ns));
    match channel.0.publish(key, payload, act_at) {
        Ok(stamp) => {
            // SAFETY: by contract.
            if let Some(place) = unsafe { sent.as_mut() } {
                *place = stamp.into();
            }
            Code::Done as c_int
        }
        Err(error) => fail_channel(&error),
    }
}

/// Calls `told` for each received message whose key matches. Specified in `timeloom.h`.
///
/// # Safety
/// Pointers are NULL or as specified in the header; `told` may be called from other threads with
/// `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn timeloom_channel_subscribe(
    channel: *const CChannel,
    pattern: *const c_char,
    at_time: c_int,
    told: Option<OnMessage>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: by contract.
    let (channel, pattern) = unsafe { (channel.as_ref(), text(pattern)) };
    let (Some(channel), Some(pattern), Some(told)) = (channel, pattern, told) else {
        return bad_argument("channel, pattern or told");
    };
    let context = Context(context);
    let tell = move |message: &ReceivedMessage| {
        // A key is text without zero bytes; any other key would not have matched.
        let key = CString::new(message.key.as_str()).unwrap_or_default();
        let envelope = Envelope {
            sent: message.sent,
            act_at: message.act_at,
            payload: &message.payload,
        };
        let given = CMessage {
            envelope: CEnvelope::from(&envelope),
            arrived: message.arrived.into(),
            acted: message.acted.into(),
            in_time: u64::from(message.in_time()),
            key: key.as_ptr(),
        };
        // SAFETY: the function belongs to the caller, who promised that it accepts these arguments.
        unsafe { told(&raw const given, context.get()) };
    };
    match channel.0.subscribe(pattern, at_time != 0, tell) {
        Ok(()) => Code::Done as c_int,
        Err(error) => fail_channel(&error),
    }
}
