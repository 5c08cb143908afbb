//! Messages of the daemon: one reply to each request, and events between them.

use serde::{Deserialize, Serialize};
use timeloom_clock::timeline::Impossible;

use crate::{Binding, Event, Report, StampText, TimelineName};

/// Message of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Message {
    /// Reply to a request.
    Reply(Reply),
    /// Event of a subscribed binding.
    Event(Event),
}

/// Answer with its request's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Number of the request; 0 if the request could not be read.
    pub id: u64,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Answer of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Answer to [`crate::Ask::Open`]; the descriptor comes in the same packet.
    Page(Page),
    /// Answer to [`crate::Ask::Relation`]; the descriptor comes in the same packet.
    Relation,
    /// Answer to [`crate::Ask::HostClock`]; the descriptor comes in the same packet.
    HostClock,
    /// Answer to [`crate::Ask::Bind`].
    Bound {
        /// Number of the new binding; never used twice by one daemon.
        binding: u64,
    },
    /// Answer to [`crate::Ask::Bind`] and [`crate::Ask::Set`]: no effort can meet the requirement.
    /// An old requirement remains.
    Impossible {
        /// The best accuracy that sources and oscillator allow.
        accuracy_ns: i64,
        /// Resolution of the clock.
        resolution_ns: i64,
    },
    /// Answer to [`crate::Ask::Unbind`], [`crate::Ask::Set`] and [`crate::Ask::Subscribe`].
    Done,
    /// Answer to [`crate::Ask::Get`].
    Binding(Binding),
    /// Answer to [`crate::Ask::Convert`].
    Stamp(StampText),
    /// Answer to [`crate::Ask::Report`].
    Report(Box<Report>),
    /// The request was refused.
    Refused {
        /// Refusal for programs.
        code: RefusalCode,
        /// Reason as text.
        why: String,
    },
}

/// Reason for the refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// Not JSON, too long, unknown, or with invalid values.
    BadRequest,
    /// This connection has no such binding.
    NoSuchBinding,
    /// Nothing is known of that time.
    TooOld,
    /// That time is in the future.
    InFuture,
    /// This connection has reached its limit of bindings.
    TooMany,
    /// The daemon is ending.
    Ending,
}

/// Description of the timeline's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Name of the timeline.
    pub name: TimelineName,
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// Scale of the timeline's nanoseconds.
    pub scale: ScaleName,
    /// Resolution of the clock.
    pub resolution_ns: i64,
    /// The page as a file, which a successor of this daemon continues.
    pub path: String,
    /// TAI minus UTC, if the timeline is TAI and the offset is known.
    pub tai_offset_s: Option<i16>,
    /// In the guest of a virtual machine: the descriptor is of a region, and this is the index of
    /// the timeline in it, from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Scale of a timeline's nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleName {
    /// TAI since 1970-01-01T00:00:00 TAI.
    #[default]
    Tai,
    /// A reference of the timeline's own; its zero has no meaning elsewhere.
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
