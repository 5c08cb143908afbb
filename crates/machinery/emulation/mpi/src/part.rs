//! Result of one engine, and the digest of all results.

use timeloom_emulation::peering::exact::Windows;
use timeloom_engine::Engine;
use timeloom_net::{Arrival, FlowId, World};

/// Result of one engine's part of a run.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) windows: u64,
    /// Number of packets sent to other engines.
    pub(crate) left: u64,
    /// Number of packets that reached the end of a link, including those lost on a cut one.
    pub(crate) hops: u64,
    /// Number of TCP payload bytes that this engine delivered.
    pub(crate) delivered: u64,
    /// Record of every arrival: instant, kind, flow and number. The records are only sorted and
    /// hashed.
    arrivals: Vec<[u8; RECORD]>,
}

const RECORD: usize = 17;
const NUMBERS: usize = 6;

impl Part {
    pub(crate) fn of(engine: &mut Engine<World>, windows: Windows, times: (f64, f64)) -> Self {
        let world = &mut engine.model;
        let flows = 0..world.traffic_counts().0 as u32;
        Self {
            wall_s: times.0,
            cpu_s: times.1,
            windows: windows.windows,
            left: windows.left,
            hops: world.counters().hops + world.crossings().lost(),
            delivered: flows
                .map(|flow| world.tcp(FlowId(flow)).delivered_bytes)
                .sum(),
            arrivals: world.arrivals().iter().map(record).collect(),
        }
    }

    /// Encodes the result for a message to another rank of the same program.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.wall_s.to_bits(),
            self.cpu_s.to_bits(),
            self.windows,
            self.left,
            self.hops,
            self.delivered,
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend(self.arrivals.as_flattened());
        bytes
    }

    /// Decodes a result; returns `None` if the bytes are not one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, arrivals) = bytes.split_at_checked(NUMBERS * 8)?;
        let mut numbers = numbers
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes));
        let (arrivals, []) = arrivals.as_chunks() else {
            return None;
        };
        Some(Self {
            wall_s: f64::from_bits(numbers.next()?),
            cpu_s: f64::from_bits(numbers.next()?),
            windows: numbers.next()?,
            left: numbers.next()?,
            hops: numbers.next()?,
            delivered: numbers.next()?,
            arrivals: arrivals.to_vec(),
        })
    }
}

/// Encodes a record in big-endian order, so that sorting records by their bytes sorts them by time.
fn record(arrival: &Arrival) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&arrival.at.as_ns().to_be_bytes());
    record[8] = arrival.kind as u8;
    record[9..13].copy_from_slice(&arrival.flow.to_be_bytes());
    record[13..].copy_from_slice(&arrival.seq.to_be_bytes());
    record
}

/// Result of a whole run.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) wall_s: f64,
    /// Processor time of all engines together, in seconds.
    pub(crate) cpu_s: f64,
    /// Processor time of the busiest engine, in seconds.
    pub(crate) most_cpu_s: f64,
    pub(crate) windows: u64,
    pub(crate) left: u64,
    pub(crate) hops: u64,
    pub(crate) delivered: u64,
    pub(crate) arrivals: usize,
    /// Digest of all arrivals, sorted by instant, and of the counters.
    pub(crate) digest: String,
}

impl Whole {
    pub(crate) fn of(parts: &[Part]) -> Self {
        let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
        let (hops, delivered) = (sum(|part| part.hops), sum(|part| part.delivered));
        let mut arrivals: Vec<_> = parts.iter().flat_map(|part| &part.arrivals).collect();
        arrivals.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for record in &arrivals {
            hasher.update(&record[..]);
        }
        hasher.update(&hops.to_le_bytes());
        hasher.update(&delivered.to_le_bytes());
        Self {
            wall_s: parts.iter().map(|part| part.wall_s).fold(0.0, f64::max),
            cpu_s: parts.iter().map(|part| part.cpu_s).sum(),
            most_cpu_s: parts.iter().map(|part| part.cpu_s).fold(0.0, f64::max),
            windows: parts.iter().map(|part| part.windows).max().unwrap_or(0),
            left: sum(|part| part.left),
            hops,
            delivered,
            arrivals: arrivals.len(),
            digest: hasher.finalize().to_hex().to_string(),
        }
    }
}
