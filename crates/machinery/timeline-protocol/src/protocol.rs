//! What programs and the daemon say to each other.
//!
//! A `SOCK_SEQPACKET` Unix socket per timeline; every packet is one JSON object
//! of at most [`MOST_BYTES`]. A client sends [`Request`]s, each with a number of
//! its own; the daemon sends one [`Reply`] with that number for each, and
//! [`Event`]s for bindings that were subscribed. When the connection ends, by
//! whatever cause, the client's bindings end with it. `docs/timeline-protocol.md`
//! is this file in prose.
//!
//! Only types and their encoding are here; see [`crate::Connection`].

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::{Requirement, Shortfall, Stamp, Status};
use timeloom_clock::timeline::Impossible;
use timeloom_time::{Duration, Instant};

use crate::TimelineName;

/// Raised when an old client would misunderstand.
pub const VERSION: u32 = 1;

/// No packet is longer.
pub const MOST_BYTES: usize = 16 * 1024;

/// A question with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the client; comes back in the reply.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// The timeline's page, as a descriptor beside the reply.
    Open,
    /// A binding with this requirement.
    Bind(Need),
    /// Ends a binding of this connection.
    Unbind {
        /// Which.
        binding: u64,
    },
    /// Changes what a binding of this connection requires.
    Set {
        /// Which.
        binding: u64,
        /// The new requirement.
        #[serde(flatten)]
        need: Need,
    },
    /// What a binding of this connection requires and whether it has it.
    Get {
        /// Which.
        binding: u64,
    },
    /// Events for a binding of this connection from now on; the first, which
    /// tells how things are, at once.
    Subscribe {
        /// Which.
        binding: u64,
    },
    /// The timeline at a past reading of the page's counter.
    Convert {
        /// The counter.
        ticks: u64,
    },
    /// How the timeline is doing.
    Report,
}

/// A requirement in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Most that true time may lie before the estimate.
    pub below_ns: i64,
    /// Most that true time may lie after the estimate.
    pub above_ns: i64,
    /// Coarsest step of the clock that will do.
    pub resolution_ns: i64,
}

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
    /// To [`Ask::Open`]; the descriptor comes in the same packet.
    Page(Page),
    /// To [`Ask::Bind`].
    Bound {
        /// Number of the new binding; never used twice by one daemon.
        binding: u64,
    },
    /// To [`Ask::Bind`] and [`Ask::Set`]: no effort can meet that. An old
    /// requirement stays.
    Impossible {
        /// The best accuracy that sources and oscillator allow.
        accuracy_ns: i64,
        /// The clock's step.
        resolution_ns: i64,
    },
    /// To [`Ask::Unbind`], [`Ask::Set`] and [`Ask::Subscribe`].
    Done,
    /// To [`Ask::Get`].
    Binding(Binding),
    /// To [`Ask::Convert`].
    Stamp(StampText),
    /// To [`Ask::Report`].
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
    /// [`VERSION`].
    pub version: u32,
    /// The timeline's name.
    pub name: TimelineName,
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// What the timeline's nanoseconds count.
    pub scale: ScaleName,
    /// The clock's step.
    pub resolution_ns: i64,
    /// The same page as a file, which a successor of this daemon goes on with.
    pub path: String,
    /// How far TAI is ahead of UTC, when the timeline is TAI and it is known.
    pub tai_offset_s: Option<i16>,
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

/// A binding as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Which.
    pub binding: u64,
    /// What it requires.
    #[serde(flatten)]
    pub need: Need,
    /// Why it is not met now; absent when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<ShortfallText>,
}

/// A requirement has ceased or begun to be met. Edges only, after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It is not met any more (or not yet).
    Violated {
        /// Whose.
        binding: u64,
        /// In what way.
        #[serde(flatten)]
        shortfall: ShortfallText,
    },
    /// It is met again (or at first).
    Restored {
        /// Whose.
        binding: u64,
    },
}

/// How a reading falls short of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortfallText {
    /// The timeline's status then. When it is not `ok`, it is the reason.
    pub status: StatusName,
    /// How far true time may lie before the estimate; absent without interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_ns: Option<i64>,
    /// How far true time may lie after the estimate; absent without interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ns: Option<i64>,
    /// The same for people.
    pub why: String,
}

/// A reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampText {
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// How far it can be trusted.
    pub status: StatusName,
    /// The interval; absent when nothing can be said.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalText>,
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalText {
    /// True time is not before this.
    pub earliest_ns: i64,
    /// The best single value.
    pub estimate_ns: i64,
    /// True time is not after this.
    pub latest_ns: i64,
}

/// [`Status`] as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are those of `Status`")]
pub enum StatusName {
    NeverSynchronised,
    Ok,
    SourceLost,
    DaemonDead,
    Disrupted,
    Unauthenticated,
}

/// How a timeline is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The timeline's name.
    pub name: TimelineName,
    /// What its nanoseconds count.
    pub scale: ScaleName,
    /// A reading.
    #[serde(flatten)]
    pub stamp: StampText,
    /// How many bindings there are.
    pub bindings: usize,
    /// Time between two questions to a source at present.
    pub poll_interval_ns: i64,
    /// Rate of the timeline against the local counter's nominal rate, less one.
    pub frequency_ppb: f64,
    /// How fast the interval grows to the worse side.
    pub growth_ppb: f64,
    /// Segments published since the daemon began.
    pub published: u64,
    /// Disturbances since the daemon began.
    pub disturbances: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_disturbance: Option<String>,
    /// With a probability of 0.999999 the estimate is within this of the middle
    /// of the bounds, judged by the last offsets alone. No asymmetry is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistical_ns: Option<i64>,
    /// The sources in the configuration's order.
    pub sources: Vec<SourceReport>,
    /// The daemon.
    pub pid: u32,
}

/// How a source is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// What it is, as in the configuration.
    pub source: String,
    /// Questions sent.
    pub asked: u64,
    /// Answers taken in.
    pub answered: u64,
    /// Answers that told nothing, and questions without answer.
    pub refused: u64,
    /// Why the last one told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// How long ago the last answer was taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ago_ns: Option<i64>,
    /// Width of what the last answer alone said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_ns: Option<i64>,
}

/// A packet that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMessage(pub String);

impl core::fmt::Display for NoMessage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "not a message of this protocol: {}", self.0)
    }
}

impl std::error::Error for NoMessage {}

/// A message as a packet.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are plain data with text keys")
}

/// A packet as a message.
///
/// # Errors
/// When it is too long, no JSON, or no message.
pub fn decode<'a, T: Deserialize<'a>>(packet: &'a [u8]) -> Result<T, NoMessage> {
    if packet.len() > MOST_BYTES {
        return Err(NoMessage(format!("{} bytes", packet.len())));
    }
    serde_json::from_slice(packet).map_err(|error| NoMessage(error.to_string()))
}

impl Need {
    /// As a requirement; `None` when a length is negative or the step is none.
    pub fn requirement(&self) -> Option<Requirement> {
        let sane = self.below_ns >= 0 && self.above_ns >= 0 && self.resolution_ns > 0;
        sane.then(|| Requirement {
            below: Duration::from_ns(self.below_ns),
            above: Duration::from_ns(self.above_ns),
            resolution: Duration::from_ns(self.resolution_ns),
        })
    }
}

impl From<Requirement> for Need {
    fn from(requirement: Requirement) -> Self {
        Self {
            below_ns: requirement.below.as_ns(),
            above_ns: requirement.above.as_ns(),
            resolution_ns: requirement.resolution.as_ns(),
        }
    }
}

impl From<Impossible> for Answer {
    fn from(impossible: Impossible) -> Self {
        Self::Impossible {
            accuracy_ns: impossible.accuracy.as_ns(),
            resolution_ns: impossible.resolution.as_ns(),
        }
    }
}

impl From<Shortfall> for ShortfallText {
    fn from(shortfall: Shortfall) -> Self {
        let why = shortfall.to_string();
        let (status, sides) = match shortfall {
            Shortfall::Void(status) => (status, None),
            Shortfall::TooWide {
                status,
                below,
                above,
            } => (status, Some((below.as_ns(), above.as_ns()))),
        };
        Self {
            status: status.into(),
            below_ns: sides.map(|(below, _)| below),
            above_ns: sides.map(|(_, above)| above),
            why,
        }
    }
}

impl From<Stamp> for StampText {
    fn from(stamp: Stamp) -> Self {
        let ns = |at: Instant<timeloom_clock::Timeline>| at.as_ns();
        Self {
            timeline: format!("{:032x}", stamp.timeline().0),
            status: stamp.status().into(),
            interval: stamp.interval().map(|interval| IntervalText {
                earliest_ns: ns(interval.earliest()),
                estimate_ns: ns(interval.estimate()),
                latest_ns: ns(interval.latest()),
            }),
        }
    }
}

impl From<Status> for StatusName {
    fn from(status: Status) -> Self {
        match status {
            Status::NeverSynchronised => Self::NeverSynchronised,
            Status::Ok => Self::Ok,
            Status::SourceLost => Self::SourceLost,
            Status::DaemonDead => Self::DaemonDead,
            Status::Disrupted => Self::Disrupted,
            Status::Unauthenticated => Self::Unauthenticated,
        }
    }
}

impl core::fmt::Display for StatusName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Status::from(*self).fmt(f)
    }
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::NeverSynchronised => Self::NeverSynchronised,
            StatusName::Ok => Self::Ok,
            StatusName::SourceLost => Self::SourceLost,
            StatusName::DaemonDead => Self::DaemonDead,
            StatusName::Disrupted => Self::Disrupted,
            StatusName::Unauthenticated => Self::Unauthenticated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json<T: Serialize>(message: &T) -> String {
        String::from_utf8(encode(message)).unwrap()
    }

    #[test]
    fn messages_look_as_documented() {
        let need = Need {
            below_ns: 1000,
            above_ns: 2000,
            resolution_ns: 1,
        };
        let bind = Request {
            id: 7,
            ask: Ask::Bind(need),
        };
        assert_eq!(
            json(&bind),
            r#"{"id":7,"ask":"bind","below_ns":1000,"above_ns":2000,"resolution_ns":1}"#
        );
        assert_eq!(decode::<Request>(json(&bind).as_bytes()), Ok(bind));
        let open = r#"{"ask":"open","id":18446744073709551615}"#;
        let open = decode::<Request>(open.as_bytes()).unwrap();
        assert_eq!((open.id, open.ask), (u64::MAX, Ask::Open));
        let violated = Message::Event(Event::Violated {
            binding: 3,
            shortfall: Shortfall::Void(Status::SourceLost).into(),
        });
        assert_eq!(
            json(&violated),
            r#"{"event":"violated","binding":3,"status":"source_lost","why":"no interval: source lost"}"#
        );
        assert_eq!(decode::<Message>(json(&violated).as_bytes()), Ok(violated));
        let stamp = Message::Reply(Reply {
            id: 1,
            answer: Answer::Stamp(StampText {
                timeline: "0".repeat(32),
                status: StatusName::Disrupted,
                interval: None,
            }),
        });
        assert_eq!(decode::<Message>(json(&stamp).as_bytes()), Ok(stamp));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = vec![b' '; MOST_BYTES + 1];
        let none: [&[u8]; 6] = [
            b"",
            b"{}",
            b"[1]",
            b"{\"id\":1,\"ask\":\"reboot\"}",
            b"\xff",
            &long,
        ];
        for packet in none {
            assert!(decode::<Request>(packet).is_err());
        }
        let need = Need {
            below_ns: -1,
            above_ns: 1,
            resolution_ns: 1,
        };
        assert_eq!(need.requirement(), None);
    }
}
