//! Messages from the daemon: one reply to each request, and events between the replies.

use serde::{Deserialize, Serialize};
use timeloom_clock::timeline::UnmetRequirement;

use crate::protocol::{BindingEvent, BindingState, StampText, TimelineName, TimelineReport};

/// Message from the daemon to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DaemonMessage {
    /// Reply to a request.
    Reply(Reply),
    /// Event of a subscribed binding.
    Event(BindingEvent),
}

/// Answer with the number of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Number of the request; 0 if the request could not be read.
    pub id: u64,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Answer to a request, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Answer to [`crate::protocol::RequestKind::Open`]. The page's descriptor is in the same packet.
    Page(Page),
    /// Answer to [`crate::protocol::RequestKind::Relation`]. The page's descriptor is in the same packet.
    Relation,
    /// Answer to [`crate::protocol::RequestKind::HostClock`]. The page's descriptor is in the same packet.
    HostClock,
    /// Answer to [`crate::protocol::RequestKind::Bind`].
    Bound {
        /// Number of the new binding. One daemon never uses a number twice.
        binding: u64,
    },
    /// Answer to [`crate::protocol::RequestKind::Bind`] and [`crate::protocol::RequestKind::Set`]: no polling rate can
    /// meet the requirement. If the binding existed before, its old requirement remains in force.
    Impossible {
        /// Best accuracy that the sources and the oscillator allow, in nanoseconds.
        accuracy_ns: i64,
        /// Resolution of the timeline's clock, in nanoseconds.
        resolution_ns: i64,
    },
    /// Answer to [`crate::protocol::RequestKind::Unbind`], [`crate::protocol::RequestKind::Set`] and
    /// [`crate::protocol::RequestKind::Subscribe`].
    Done,
    /// Answer to [`crate::protocol::RequestKind::Get`].
    Binding(BindingState),
    /// Answer to [`crate::protocol::RequestKind::Convert`].
    Stamp(StampText),
    /// Answer to [`crate::protocol::RequestKind::Report`].
    Report(Box<TimelineReport>),
    /// The request was refused.
    Refused {
        /// Machine-readable reason for the refusal.
        code: RefusalCode,
        /// Text that states the reason.
        why: String,
    },
}

/// Machine-readable reason for the refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The packet is not JSON, is too long, has an unknown kind, or has invalid values.
    BadRequest,
    /// This connection has no binding of that number.
    NoSuchBinding,
    /// The daemon has no record of that instant any more.
    TooOld,
    /// The instant is in the future.
    InFuture,
    /// This connection has reached its maximum number of bindings.
    TooMany,
    /// The daemon is ending.
    Ending,
}

/// Description of the timeline's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// [`crate::protocol::VERSION`].
    pub version: u32,
    /// Name of the timeline.
    pub name: TimelineName,
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// Scale of the timeline's nanoseconds.
    pub scale: TimelineScale,
    /// Resolution of the timeline's clock, in nanoseconds.
    pub resolution_ns: i64,
    /// Path of the page's file. A later daemon for this timeline continues to write the same file.
    pub path: String,
    /// TAI minus UTC in seconds, if the timeline is TAI and the offset is known.
    pub tai_offset_s: Option<i16>,
    /// Present in the guest of a virtual machine: the descriptor is that of a region, and this is
    /// the index of the timeline in the region, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Time scale of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TimelineScale {
    // In nanoseconds since 1970-01-01T00:00:00 TAI.
    /// TAI since 1970.
    #[default]
    Tai,
    // The scale is that of this timeline alone; its zero has no meaning for others.
    /// Time that the sources show. It is compared with true civil time.
    Local,
}

impl From<UnmetRequirement> for Answer {
    fn from(impossible: UnmetRequirement) -> Self {
        Self::Impossible {
            accuracy_ns: impossible.accuracy.as_ns(),
            resolution_ns: impossible.resolution.as_ns(),
        }
    }
}
