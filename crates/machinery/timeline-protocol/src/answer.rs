//! What the daemon sends: one reply to each request, and events between them.

use serde::{Deserialize, Serialize};
use timeloom_clock::timeline::Impossible;

use crate::{Binding, Event, Report, StampText, TimelineName};

/// What the daemon sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Message {
    /// To a request.
    Reply(Reply),
    /// For a subscribed binding.
    Event(Event),
}

/// An answer with its request's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's; 0 when the request could not be read.
    pub id: u64,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// What the daemon may answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`crate::Ask::Open`]; the descriptor comes in the same packet.
    Page(Page),
    /// To [`crate::Ask::Relation`]; the descriptor comes in the same packet.
    Relation,
    /// To [`crate::Ask::HostClock`]; the descriptor comes in the same packet.
    HostClock,
    /// To [`crate::Ask::Bind`].
    Bound {
        /// Number of the new binding; never used twice by one daemon.
        binding: u64,
    },
    /// To [`crate::Ask::Bind`] and [`crate::Ask::Set`]: no effort can meet that. An old
    /// requirement stays.
    Impossible {
        /// The best accuracy that sources and oscillator allow.
        accuracy_ns: i64,
        /// The clock's step.
        resolution_ns: i64,
    },
    /// To [`crate::Ask::Unbind`], [`crate::Ask::Set`] and [`crate::Ask::Subscribe`].
    Done,
    /// To [`crate::Ask::Get`].
    Binding(Binding),
    /// To [`crate::Ask::Convert`].
    Stamp(StampText),
    /// To [`crate::Ask::Report`].
    Report(Box<Report>),
    /// The request was refused.
    Refused {
        /// For programs.
        code: RefusalCode,
        /// For people.
        why: String,
    },
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// Not JSON, too long, unknown, or with values that make no sense.
    BadRequest,
    /// This connection has no such binding.
    NoSuchBinding,
    /// Nothing is known of that time.
    TooOld,
    /// That time has not come.
    InFuture,
    /// This connection has as many bindings as one may have.
    TooMany,
    /// The daemon is ending.
    Ending,
}

/// Where and how the timeline can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The timeline's name.
    pub name: TimelineName,
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// What the timeline's nanoseconds count.
    pub scale: ScaleName,
    /// The clock's step.
    pub resolution_ns: i64,
    /// The page as a file, which a successor of this daemon goes on with.
    pub path: String,
    /// How far TAI is ahead of UTC, when the timeline is TAI and it is known.
    pub tai_offset_s: Option<i16>,
    /// In the guest of a virtual machine: the descriptor is of a region, and the timeline
    /// is the one of this index in it, from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// What a timeline's nanoseconds count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleName {
    /// TAI since 1970-01-01T00:00:00 TAI.
    #[default]
    Tai,
    /// A reference of the timeline's own; its zero means nothing elsewhere.
    Local,
}

impl From<Impossible> for Answer {
    fn from(impossible: Impossible) -> Self {
        Self::Impossible {
            accuracy_ns: impossible.accuracy.as_ns(),
            resolution_ns: impossible.resolution.as_ns(),
        }
    }
}
