//! Messages between programs that share a timeline. Each message states its time of sending as an
//! interval, and may state the instant at which receivers are to act on it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use timeloom_timeline::messages::{Channel, Endpoints, Seal};
//! use timeloom_time::Duration;
//! use timeloom_timeline::Timeline;
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
//! There are three parts, each of which can be used without the next one. An [`Envelope`] is the
//! transmitted form of a message. A [`Seal`] proves that a holder of the key wrote the message and
//! that it is not a replay. A [`Channel`] sends sealed messages in datagrams. A program with a
//! transport of its own (such as Zenoh) uses the first two, by [`write()`] and [`open`].
//! `libtimeloom` exports these functions to C, and Python uses them from there.
//!
//! Delivery is not reliable: a lost datagram is not sent again, because a command that comes too
//! late is of no use. Nothing is encrypted.

mod agenda;
mod channel;
mod datagram;
mod envelope;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod seal;

pub use crate::shared_key::{LEAST_KEY_BYTES, ShortKey};
pub use channel::{Channel, ChannelError, Counts, Endpoints, ReceivedMessage};
pub use envelope::{Envelope, HEADER_BYTES, MalformedEnvelope};
pub use seal::{AuthenticityError, Seal};

use crate::Stamp;

/// Reason why received bytes were not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRefusal {
    /// The bytes do not prove that they are new and from a holder of the key.
    #[error("{0}")]
    Unproved(AuthenticityError),
    /// The bytes are not a message.
    #[error("{0}")]
    Malformed(MalformedEnvelope),
}

/// Encodes a message that is sent under `name`. The result is sealed if `seal` is given.
pub fn write(seal: Option<&Seal>, name: &str, envelope: &Envelope<'_>) -> Vec<u8> {
    let bytes = envelope.to_bytes();
    match seal {
        Some(seal) => seal.seal(name, &bytes),
        None => bytes,
    }
}

/// Decodes bytes received under `name`. If `seal` is given, the bytes must be sealed with the same
/// key and must not have been received before.
///
/// If `since` is given, the first message of a sender under this name is refused if it was
/// certainly sent before `since`, or if its time of sending or `since` has no interval. A restarted
/// receiver then does not accept messages that were sent to its predecessor. `since` must be a
/// reading from before any message could arrive.
///
/// # Errors
/// Fails if the bytes are not a message, or if they lack one of these proofs.
pub fn open<'b>(
    seal: Option<&Seal>,
    name: &str,
    bytes: &'b [u8],
    since: Option<&Stamp>,
) -> Result<Envelope<'b>, MessageRefusal> {
    let Some(seal) = seal else {
        return Envelope::from_bytes(bytes).map_err(MessageRefusal::Malformed);
    };
    let proved = seal.prove(name, bytes).map_err(MessageRefusal::Unproved)?;
    let envelope = Envelope::from_bytes(proved.body).map_err(MessageRefusal::Malformed)?;
    let is_fresh = |since: &Stamp| seal::may_be_after(&envelope.sent, since);
    if proved.is_first && !since.is_none_or(is_fresh) {
        return Err(MessageRefusal::Unproved(AuthenticityError::Old));
    }
    seal.remember(name, &proved)
        .map_err(MessageRefusal::Unproved)?;
    Ok(envelope)
}
