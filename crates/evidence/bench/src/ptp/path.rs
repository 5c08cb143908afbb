//! Grandmaster, transparent clock and slave on this machine: effects of signatures on the event
//! path, on Follow_Ups and on the slave's offset.
//!
//! The programs of `timeloom ptp` run in laboratories of namespaces with the kernel's timestamps.
//! There is one laboratory per variant (unsigned, and each signature scheme). All timestamps are of
//! one clock, so the true offset is zero. The variants take turns within a Sync interval, and a
//! round is a block of consecutive Syncs of each variant. Their order matters, since each variant
//! leaves the processor warm or asleep for the next one. Therefore there is one run for every order
//! of the variants.

mod bed;
mod figures;

use std::collections::HashMap;
use std::time::Duration as StdDuration;

use timeloom_emulation::Awake;
use timeloom_ptp::Profile;
use timeloom_wire::MessageType;
use timeloom_wire::tlv::Suite;

use super::BENCH;
use super::blocks::Blocks;
use super::node::{Event, Record};
use crate::figure::Figure;
use crate::{BenchError, Options};
use bed::Bed;
use figures::{handling, offset, residence, starts};

/// A way to protect messages. The first variant of those that take turns is the reference.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    suite: Option<Suite>,
    /// True if the transparent clock verifies before it signs.
    watch: bool,
}

const PLAIN: Variant = Variant {
    name: "unsigned",
    suite: None,
    watch: false,
};
const ED25519: Variant = Variant {
    name: "ed25519",
    suite: Some(Suite::Ed25519),
    watch: false,
};
const BLS: Variant = Variant {
    name: "bls",
    suite: Some(Suite::Bls),
    watch: false,
};
const BLS_WATCH: Variant = Variant {
    name: "bls_watch",
    watch: true,
    ..BLS
};
const BLS_ONCE: Variant = Variant {
    name: "bls_once",
    suite: Some(Suite::BlsOnce),
    watch: false,
};
/// Profile with 32 Syncs per second and variant. At this rate, the work of a variant, the
/// verification by the slave and the preparation for the next Sync are finished before another
/// variant's Sync arrives, which would otherwise find the processor busy.
const PROFILE: Profile = Profile {
    log_sync_interval: -5,
    log_announce_interval: -3,
    log_delay_interval: -2,
    ..Profile::POWER_UTILITY
};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let length = StdDuration::from_millis(options.pick(4_000, 12_000));
    // Waking a processor may take longer than all that is measured here, and would favour the
    // variant after one that kept the processor busy.
    let awake = Awake::keep();
    if awake.is_none() {
        (options.remark)("the processors may sleep meanwhile: /dev/cpu_dma_latency is refused");
    }
    let variants = [PLAIN, ED25519, BLS, BLS_ONCE];
    // Sync intervals follow each other, so that only the cyclic order of the variants matters.
    let orders = [
        [0, 1, 2, 3],
        [0, 1, 3, 2],
        [0, 2, 1, 3],
        [0, 2, 3, 1],
        [0, 3, 1, 2],
        [0, 3, 2, 1],
    ];
    let bed = match Bed::build(&variants) {
        Ok(bed) => bed,
        Err(error) => {
            (options.remark)(&format!(
                "{error}: no laboratory of namespaces, so figures of clocks at work are left out"
            ));
            return Ok(());
        }
    };
    let mut samples = Samples::new(variants.len());
    for places in &orders {
        samples.add(&variants, &bed.measure(places, length)?, options);
    }
    let fifo = samples.fifo;
    if !fifo {
        (options.remark)("SCHED_FIFO is refused here: other programs affect the stamps");
    }
    let mut figure = |one: Figure| figure(one.with("fifo", fifo));
    let figure = &mut figure;
    let (syncs, follow_ups) = (samples.syncs.ready()?, samples.follow_ups.ready()?);
    residence(syncs, figure);
    // The bars for BLS apply to the suite that precomputes; the other suite shows the benefit of
    // that.
    for (variant, bars) in [(1, Some((1.6, 1.2))), (2, None), (3, Some((6.0, 2.0)))] {
        handling(follow_ups, variant, variants[variant].name, bars, figure);
    }
    starts(samples.starts.ready()?, figure);
    let offsets = samples.offsets.ready()?;
    offset(offsets, 1, "", figure);
    offset(offsets, 2, "_bls", figure);
    offset(offsets, 3, "_bls_once", figure);
    figure(Figure::new(BENCH, "sync_added_bytes", "bytes", &[samples.added]).bar(0.0));

    drop(bed);

    let variants = [PLAIN, BLS_WATCH];
    let bed = Bed::build(&variants)?;
    let mut samples = Samples::new(variants.len());
    for places in [[0, 1], [1, 0]] {
        samples.add(&variants, &bed.measure(&places, length)?, options);
    }
    handling(samples.follow_ups.ready()?, 1, BLS_WATCH.name, None, figure);
    Ok(())
}

/// Samples of all runs, by variant.
struct Samples {
    /// Time from the kernel's arrival timestamp of a message to that of its departure, in ns.
    syncs: Blocks,
    follow_ups: Blocks,
    /// Time from the start of the grandmaster's event loop iteration to the Sync's departure, in
    /// ns.
    starts: Blocks,
    /// Offsets that the slave measured, in ns.
    offsets: Blocks,
    /// Octets that a signature adds to the longest Sync.
    added: f64,
    fifo: bool,
}

impl Samples {
    fn new(variants: usize) -> Self {
        let blocks = || Blocks::new(variants);
        Self {
            syncs: blocks(),
            follow_ups: blocks(),
            starts: blocks(),
            offsets: blocks(),
            added: 0.0,
            fifo: true,
        }
    }

    fn add(&mut self, variants: &[Variant], records: &[[Record; 3]], options: &Options) {
        for failed in records.iter().flatten() {
            for (reason, count) in &failed.failures {
                (options.remark)(&format!("{count} alarms while measuring: {reason}"));
            }
        }
        self.fifo &= records.iter().flatten().all(|record| record.fifo);
        let hops = || records.iter().map(|[_, hop, _]| hop.events.as_slice());
        self.syncs.add(
            hops()
                .map(|events| passages(events, MessageType::Sync))
                .collect(),
        );
        self.follow_ups.add(
            hops()
                .map(|events| passages(events, MessageType::FollowUp))
                .collect(),
        );
        let leaders = || records.iter().map(|[leader, ..]| leader.events.as_slice());
        self.starts.add(leaders().map(beginnings).collect());
        let slaves = records.iter().map(|[.., slave]| slave.events.as_slice());
        let offsets = slaves
            .zip(variants)
            .map(|(events, variant)| offsets(events, variant));
        self.offsets.add(offsets.collect());
        // Octets that a signature adds to the longest Sync that was sent.
        let longest: Vec<f64> = leaders().map(longest_sync).collect();
        let added = longest[1..].iter().map(|octets| octets - longest[0]);
        self.added = added.fold(self.added, f64::max);
    }
}

/// Returns the time from arrival to departure of each message of type `of`, in ns.
fn passages(events: &[Event], of: MessageType) -> Vec<f64> {
    let mut arrived = HashMap::new();
    let mut passed = Vec::new();
    for event in events {
        match *event {
            Event::Passed {
                kind,
                sequence,
                sent,
                stamp_ns,
                ..
            } if kind == of => {
                if !sent {
                    arrived.insert(sequence, stamp_ns);
                } else if let Some(before) = arrived.remove(&sequence) {
                    passed.push((stamp_ns - before) as f64);
                }
            }
            _ => {}
        }
    }
    passed
}

/// Returns the time from the start of the grandmaster's event loop iteration to the departure, in
/// ns, for each Sync.
fn beginnings(events: &[Event]) -> Vec<f64> {
    let mut begun = HashMap::new();
    let mut took = Vec::new();
    for event in events {
        match *event {
            Event::Begun { sequence, at_ns } => {
                begun.insert(sequence, at_ns);
            }
            Event::Passed {
                kind: MessageType::Sync,
                sequence,
                sent: true,
                stamp_ns,
                ..
            } => {
                if let Some(before) = begun.remove(&sequence) {
                    took.push((stamp_ns - before) as f64);
                }
            }
            _ => {}
        }
    }
    took
}

fn offsets(events: &[Event], variant: &Variant) -> Vec<f64> {
    let of_variant = events.iter().filter_map(|event| match *event {
        Event::Offset {
            offset_ns,
            authenticated,
        } if authenticated == variant.suite.is_some() => Some(offset_ns),
        _ => None,
    });
    of_variant.collect()
}

fn longest_sync(events: &[Event]) -> f64 {
    let syncs = events.iter().filter_map(|event| match event {
        Event::Passed {
            kind: MessageType::Sync,
            octets,
            ..
        } => Some(*octets),
        _ => None,
    });
    syncs.max().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stay_is_from_arrival_to_departure_of_the_same_message() {
        let passed = |sequence, sent, stamp_ns| Event::Passed {
            kind: MessageType::Sync,
            sequence,
            octets: 44,
            sent,
            stamp_ns,
        };
        let events = [
            passed(1, false, 100),
            passed(2, false, 130),
            passed(2, true, 190),
            passed(1, true, 140),
            // The arrival of this message was not recorded.
            passed(3, true, 900),
        ];
        assert_eq!(passages(&events, MessageType::Sync), [60.0, 40.0]);
        assert_eq!(passages(&events, MessageType::FollowUp), [] as [f64; 0]);
    }
}
