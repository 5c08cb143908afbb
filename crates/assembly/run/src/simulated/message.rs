//! Messages between a run and the process of an engine.
//!
//! Messages pass over a pair of local sockets, in a [channel](crate::channel). Most messages are
//! JSON; samples and captured frames, which are frequent, are [`Piece`]s of bytes. File descriptors
//! follow [`ToEngine::Start`]: first those of the portals, then those of the lines to other
//! engines.

use serde::{Deserialize, Serialize};
use timeloom_engine::Engine;
use timeloom_net::{LinkChange, Owner, PortId, World};
use timeloom_scenario::WireChange;
use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

use super::engine::EngineReport;
use crate::network_signals::NetworkObservation;
use crate::numbers::Numbers;
use crate::record::Note;

/// Message from the run to an engine.
#[derive(Serialize, Deserialize)]
pub(super) enum ToEngine {
    /// Defines the engine. File descriptors follow.
    Start(Box<Start>),
    /// Announces the map by which the clock runs from now on.
    Clock(ClockNow),
    /// Announces that the process of another engine has ended; the number is the epoch of that
    /// process.
    Lost(Owner, u64),
    /// Changes links of the network.
    Change(Vec<ModelChange>),
    /// Requests that the engine leave. The other engines continue.
    Leave,
    /// Announces the end of the run.
    Stop,
}

/// Message from an engine to the run.
#[derive(Serialize, Deserialize)]
pub(super) enum FromEngine {
    /// Announces that the engine is connected to all others, and follows the clock.
    Ready,
    /// Announces that the engine cannot start, with the reason.
    Refused { why: String },
    /// Data for the results.
    Note(Note),
    /// Announces that a fault in the model ended the engine, with the message.
    Died { what: String },
    /// Announces that the engine has ended or left as requested, with its final report.
    Ended(Box<EngineReport>),
}

/// Definition of an engine.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Start {
    /// Number of the engine; `name` is its name.
    pub(super) here: Owner,
    pub(super) name: String,
    /// The whole plan as text. `digest` is the network's digest, which the process compares with
    /// its own.
    pub(super) plan: String,
    pub(super) digest: [u8; 32],
    /// Key of the run, which authenticates datagrams between engines.
    pub(super) key: [u8; 32],
    pub(super) encrypts: bool,
    /// Start of the process in ns since 1970. It is later than that of any earlier process of the
    /// engine.
    pub(super) epoch: u64,
    /// True if the other engines are already running.
    pub(super) late: bool,
    /// Numbers of the engines that are away.
    pub(super) absent: Vec<Owner>,
    /// Changes of links by clients so far.
    pub(super) changes: Vec<ModelChange>,
    /// Civil time at virtual zero, ns since 1970.
    pub(super) civil_start_ns: i64,
    /// Map of the clock at the start.
    pub(super) clock: ClockNow,
    /// Names and kinds of the engine's portals, in the order of their descriptors.
    pub(super) plugs: Vec<(String, Sort)>,
    /// Numbers of the peers, in the order of the sockets that follow the portals' descriptors.
    pub(super) lines: Vec<Owner>,
}

/// Change of one direction of a link at an instant, by a client of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelChange {
    port: u32,
    at_ns: i64,
    rate_bps: Option<u64>,
    delay_ns: Option<i64>,
    jitter_ns: Option<i64>,
    /// Bits of the probability, since JSON would round it.
    loss_bits: Option<u64>,
    up: Option<bool>,
}

impl ModelChange {
    pub(super) fn new(port: PortId, at: Instant<Virtual>, change: &WireChange) -> Self {
        let change = change.in_model();
        Self {
            port: port.0,
            at_ns: at.as_ns(),
            rate_bps: change.rate_bps,
            delay_ns: change.delay.map(Duration::as_ns),
            jitter_ns: change.jitter.map(Duration::as_ns),
            loss_bits: change.loss.map(f64::to_bits),
            up: change.up,
        }
    }

    /// Makes the change in an engine. An engine without the sending end of the link ignores it.
    pub(super) fn make(&self, engine: &mut Engine<World>) {
        let (port, at, change) = self.parts();
        engine.with(|world, agenda| {
            // The run has checked the change.
            let _ = world.change_link(port, at, change, agenda);
        });
    }

    /// Adds the change to a network that begins later.
    pub(super) fn plan(&self, world: &mut World) {
        let (port, at, change) = self.parts();
        // The run has checked the change.
        let _ = world.plan_change(port, at, change);
    }

    fn parts(&self) -> (PortId, Instant<Virtual>, LinkChange) {
        let change = LinkChange {
            rate_bps: self.rate_bps,
            delay: self.delay_ns.map(Duration::from_ns),
            jitter: self.jitter_ns.map(Duration::from_ns),
            loss: self.loss_bits.map(f64::from_bits),
            up: self.up,
        };
        (PortId(self.port), Instant::from_ns(self.at_ns), change)
    }
}

/// Kind of the descriptor of a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sort {
    Tap,
    Packet,
}

/// Map from the machine's clock to the session's clock, and the virtual instant at which the
/// session's clock stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClockNow {
    wall_ns: i64,
    virtual_ns: i64,
    /// High and low 64 bits of the rate, because JSON has no numbers of 128 bits.
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

/// A captured frame: the port through which it left a node, and its instants by both clocks.
#[derive(Debug, PartialEq)]
pub(super) struct Captured {
    pub(super) port: PortId,
    pub(super) at: Instant<Virtual>,
    pub(super) wall: Instant<Wall>,
    pub(super) frame: Vec<u8>,
}

/// Data that an engine sends as bytes instead of JSON.
#[derive(Debug)]
pub(super) enum Piece {
    Frame(Captured),
    /// A part of a sample; another part follows.
    More(Vec<u64>),
    /// The last part of a sample.
    Last(Vec<u64>),
}

impl Piece {
    /// Splits a sample into pieces that fit in frames of a channel.
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

    /// Assembles a sample from the numbers of all its pieces. Returns `None` if they are no valid
    /// sample.
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
/// Maximum number of numbers in one piece. They take 8 MiB, half of a channel's limit for a frame.
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
