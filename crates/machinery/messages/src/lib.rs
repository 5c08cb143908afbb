//! Messages between programs that share a timeline. Each carries its time of sending, as an
//! interval, and may state when to act on it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use timeloom_messages::{Channel, Endpoints, Seal};
//! use timeloom_time::Duration;
//! use timeloom_timeline_client::Timeline;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timeline = Arc::new(Timeline::open("cell")?);
//! let peers = vec!["10.0.0.2:7447".parse()?];
//! let endpoints = Endpoints { listen: "0.0.0.0:7447".parse()?, peers };
//! let seal = Seal::new(b"a key of sixteen bytes or more")?;
//! let channel = Channel::open(Arc::clone(&timeline), "run-7", &endpoints, Some(seal))?;
//! channel.subscribe("valve", true, |message| println!("{:?}", message.payload))?;
//! let now = timeline.read()?.interval().ok_or("no time")?;
//! channel.publish("valve", b"open", Some(now.latest() + Duration::from_ms(50)))?;
//! # Ok(()) }
//! ```
//!
//! There are three parts, of which each can be used without the next: an [`Envelope`] is the
//! transmitted form, a [`Seal`] proves its writer and that it is not a replay, and a [`Channel`]
//! transports both in datagrams. A program with a transport of its own (such as Zenoh) uses the
//! first two: [`write()`] and [`open`]. `libtimeloom` exports them to C, and Python uses them from
//! there.
//!
//! Delivery is not reliable. A lost datagram is not repeated, since a command that comes too late
//! is of no use. Nothing is encrypted.
#![forbid(unsafe_code)]

mod agenda;
mod channel;
mod datagram;
mod envelope;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod seal;

pub use channel::{Channel, ChannelError, Counts, Endpoints, Message};
pub use envelope::{Envelope, HEADER_BYTES, Malformed};
pub use seal::{LEAST_KEY_BYTES, Seal, ShortKey, Unproved};

use timeloom_timeline_client::Stamp;

/// Reason why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It does not prove that it is new and from a holder of the key.
    #[error("{0}")]
    Unproved(Unproved),
    /// It is not a message.
    #[error("{0}")]
    Malformed(Malformed),
}

/// Encodes a message sent under `name`, sealed if there is a seal.
pub fn write(seal: Option<&Seal>, name: &str, envelope: &Envelope<'_>) -> Vec<u8> {
    let bytes = envelope.to_bytes();
    match seal {
        Some(seal) => seal.seal(name, &bytes),
        None => bytes,
    }
}

/// Decodes bytes received under `name`. With a seal, they must be sealed with the same key, and
/// new.
///
/// A sender not heard before under this name must have sent them after `since`, if that is given,
/// or at least not certainly before: so a restarted receiver does not accept messages sent to its
/// predecessor. `since` is a reading from before anything could have come.
///
/// # Errors
/// Fails if the bytes are not a message, or do not prove what they must.
pub fn open<'b>(
    seal: Option<&Seal>,
    name: &str,
    bytes: &'b [u8],
    since: Option<&Stamp>,
) -> Result<Envelope<'b>, Refused> {
    let Some(seal) = seal else {
        return Envelope::from_bytes(bytes).map_err(Refused::Malformed);
    };
    let proved = seal.prove(name, bytes).map_err(Refused::Unproved)?;
    let envelope = Envelope::from_bytes(proved.body).map_err(Refused::Malformed)?;
    let is_fresh = |since: &Stamp| seal::may_be_after(&envelope.sent, since);
    if proved.is_first && !since.is_none_or(is_fresh) {
        return Err(Refused::Unproved(Unproved::Old));
    }
    seal.remember(name, &proved).map_err(Refused::Unproved)?;
    Ok(envelope)
}
