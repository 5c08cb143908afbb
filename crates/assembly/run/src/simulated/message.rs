//! Messages between a run and the process of an engine.
//!
//! They are sent over a pair of local sockets, in a [channel](crate::channel): messages as JSON,
//! and frequent data (samples, captured frames) as [`Piece`]s of bytes. Descriptors follow
//! [`ToEngine::Start`]: those of the portals, then those of the lines to other engines.

use serde::{Deserialize, Serialize};
use timeloom_net::{Owner, PortId};
use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

use super::engine::Ended;
use crate::network_signals::NetworkObservation;
use crate::numbers::Numbers;
use crate::record::Note;

/// Message to an engine.
#[derive(Serialize, Deserialize)]
pub(super) enum ToEngine {
    /// Definition of the engine. Descriptors follow.
    Start(Box<Start>),
    /// The clock runs according to this map from now on.
    Clock(ClockNow),
    /// The process of another engine that started at this epoch has ended.
    Lost(Owner, u64),
    /// The engine must leave the others, which continue, and end.
    Leave,
    /// The run is over.
    Stop,
}

/// Message from an engine.
#[derive(Serialize, Deserialize)]
pub(super) enum FromEngine {
    /// The engine is joined to all others, and follows the clock.
    Ready,
    /// The engine cannot start as requested, for this reason.
    Refused { why: String },
    /// Data for the results.
    Note(Note),
    /// The engine died of a fault in the model, with this message.
    Died { what: String },
    /// The engine has ended, as requested.
    Ended(Box<Ended>),
}

/// Definition of an engine.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Start {
    /// Number and name.
    pub(super) here: Owner,
    pub(super) name: String,
    /// The whole plan, and the digest on which both sides must agree.
    pub(super) plan: String,
    pub(super) digest: [u8; 32],
    /// Key of the run, for datagrams between engines.
    pub(super) key: [u8; 32],
    pub(super) encrypts: bool,
    /// Start time, ns since 1970: later than that of any earlier process of the engine.
    pub(super) epoch: u64,
    /// True if the other engines have been running without it.
    pub(super) late: bool,
    /// Engines that are away.
    pub(super) absent: Vec<Owner>,
    /// Civil time at virtual zero, ns since 1970.
    pub(super) civil_start_ns: i64,
    /// The clock at the start.
    pub(super) clock: ClockNow,
    /// Names and kinds of its portals; the descriptors follow.
    pub(super) plugs: Vec<(String, Sort)>,
    /// Peers of the sockets that follow the portals.
    pub(super) lines: Vec<Owner>,
}

/// Kind of a portal's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sort {
    Tap,
    Packet,
}

/// Map from the machine's clock to the session's, and the instant at which the session's clock
/// stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClockNow {
    wall_ns: i64,
    virtual_ns: i64,
    /// JSON has no numbers of 128 bits.
    rate: [u64; 2],
    stop_ns: i64,
}

impl ClockNow {
    pub(super) fn of((map, stop): (ClockMap<Wall, Virtual>, Instant<Virtual>)) -> Self {
        let bits = map.rate.to_bits();
        Self {
            wall_ns: map.in0.as_ns(),
            virtual_ns: map.out0.as_ns(),
            rate: [(bits >> 64) as u64, bits as u64],
            stop_ns: stop.as_ns(),
        }
    }

    pub(super) fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        let [high, low] = self.rate.map(u128::from);
        let (at, shows) = (
            Instant::from_ns(self.wall_ns),
            Instant::from_ns(self.virtual_ns),
        );
        let map = ClockMap::new(at, shows, Rate::from_bits(high << 64 | low));
        (map, Instant::from_ns(self.stop_ns))
    }
}

/// A captured frame: the port of the link through which it left, and its arrival by both clocks.
#[derive(Debug, PartialEq)]
pub(super) struct Captured {
    pub(super) port: PortId,
    pub(super) at: Instant<Virtual>,
    pub(super) wall: Instant<Wall>,
    pub(super) frame: Vec<u8>,
}

/// Data that is sent as bytes.
#[derive(Debug)]
pub(super) enum Piece {
    Frame(Captured),
    /// A part of a sample that is followed by another.
    More(Vec<u64>),
    /// The last part of a sample.
    Last(Vec<u64>),
}

impl Piece {
    /// Returns a sample as pieces that fit in frames of a channel.
    pub(super) fn of_sample(at: Instant<Virtual>, seen: &NetworkObservation) -> Vec<Self> {
        let mut row = Vec::new();
        at.put(&mut row);
        seen.put(&mut row);
        let mut pieces: Vec<Self> = row
            .chunks(MOST_NUMBERS)
            .map(|part| Self::More(part.to_vec()))
            .collect();
        if let Some(last) = pieces.last_mut()
            && let Self::More(part) = last
        {
            *last = Self::Last(std::mem::take(part));
        }
        pieces
    }

    /// Assembles a sample from all its pieces; `None` if they form no sample.
    pub(super) fn sample(row: Vec<u64>) -> Option<(Instant<Virtual>, NetworkObservation)> {
        let mut row = row.into_iter();
        let sample = (Numbers::take(&mut row)?, Numbers::take(&mut row)?);
        row.next().is_none().then_some(sample)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = |kind: u8, row: &[u64]| {
            let numbers = row.iter().flat_map(|number| number.to_le_bytes());
            std::iter::once(kind).chain(numbers).collect()
        };
        match self {
            Self::More(row) => numbers(MORE, row),
            Self::Last(row) => numbers(LAST, row),
            Self::Frame(captured) => {
                let mut bytes = vec![FRAME];
                bytes.extend_from_slice(&captured.port.0.to_le_bytes());
                bytes.extend_from_slice(&captured.at.as_ns().to_le_bytes());
                bytes.extend_from_slice(&captured.wall.as_ns().to_le_bytes());
                bytes.extend_from_slice(&captured.frame);
                bytes
            }
        }
    }

    /// Parses a piece; `None` if it is invalid.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let numbers = || {
            let (numbers, left) = rest.as_chunks::<8>();
            let row = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
            left.is_empty().then(|| row.collect())
        };
        match *kind {
            MORE => numbers().map(Self::More),
            LAST => numbers().map(Self::Last),
            FRAME => {
                let (port, rest) = rest.split_first_chunk()?;
                let (at, rest) = rest.split_first_chunk()?;
                let (wall, frame) = rest.split_first_chunk()?;
                Some(Self::Frame(Captured {
                    port: PortId(u32::from_le_bytes(*port)),
                    at: Instant::from_ns(i64::from_le_bytes(*at)),
                    wall: Instant::from_ns(i64::from_le_bytes(*wall)),
                    frame: frame.to_vec(),
                }))
            }
            _ => None,
        }
    }
}

const FRAME: u8 = 0;
const MORE: u8 = 1;
const LAST: u8 = 2;
/// Eight MiB, half of the size limit of a channel's frame.
const MOST_NUMBERS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_and_a_frame_arrive_as_they_were() {
        let rate = Rate::from_bits((3 << 64) + 5);
        let map = ClockMap::new(Instant::from_ns(-7), Instant::from_ns(8), rate);
        let now = ClockNow::of((map, Instant::FAR_FUTURE));
        let text = serde_json::to_string(&now).expect("JSON");
        let now: ClockNow = serde_json::from_str(&text).expect("a clock");
        let (same, stop) = now.map_and_stop();
        assert_eq!((same.in0, same.out0, same.rate), (map.in0, map.out0, rate));
        assert_eq!(stop, Instant::FAR_FUTURE);

        let captured = Captured {
            port: PortId(77),
            at: Instant::from_ns(-1),
            wall: Instant::from_ns(1 << 40),
            frame: vec![1, 2, 3],
        };
        let bytes = Piece::Frame(captured).to_bytes();
        let Some(Piece::Frame(same)) = Piece::of_bytes(&bytes) else {
            panic!("a frame");
        };
        assert_eq!((same.port, same.at.as_ns()), (PortId(77), -1));
        assert_eq!((same.wall.as_ns(), &*same.frame), (1 << 40, &[1, 2, 3][..]));
        for less in 0..21 {
            assert!(Piece::of_bytes(&bytes[..less]).is_none());
        }
    }

    #[test]
    fn a_sample_of_many_pieces_is_one_again() {
        let row: Vec<u64> = (0..10).collect();
        let bytes = Piece::Last(row.clone()).to_bytes();
        assert!(matches!(Piece::of_bytes(&bytes), Some(Piece::Last(same)) if same == row));
        assert!(Piece::of_bytes(&bytes[..bytes.len() - 1]).is_none());
        assert!(Piece::of_bytes(&[9, 0, 0]).is_none());

        let at = Instant::from_ns(5);
        let pieces = Piece::of_sample(at, &NetworkObservation::default());
        let [Piece::Last(row)] = &pieces[..] else {
            panic!("small samples are one piece");
        };
        assert_eq!(Piece::sample(row.clone()).map(|(at, _)| at), Some(at));
        let longer = [&row[..], &[1]].concat();
        assert!(Piece::sample(longer).is_none());
    }
}
