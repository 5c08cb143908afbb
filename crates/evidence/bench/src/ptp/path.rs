//! Grandmaster, transparent clock and slave on this machine: what signatures
//! do to the event path, to Follow_Ups and to the slave's offset.
//!
//! The programs of `timeloom ptp` in laboratories of namespaces, one laboratory per
//! variant (plain, and ways to sign), with the kernel's stamps. One clock stamps for all, so
//! that the true offset is zero. The variants take turns within a Sync interval; a round is a
//! block of neighbouring Syncs of each. Who comes after whom matters, since the one
//! before leaves a processor warm or asleep: so there are several runs, one for
//! every order of the variants.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant};

use timeloom_portal::Awake;
use timeloom_ptp::Profile;
use timeloom_ptp_io::Options as ProgramOptions;
use timeloom_ptp_io::lab::{LabAuth, LabOptions, NodeKind, Stage};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{MessageType, TimeInterval};

use super::BENCH;
use super::blocks::{BLOCK, Blocks, deviation};
use super::node::{Event, Node, Record, failed};
use crate::figure::Figure;
use crate::scratch::Scratch;
use crate::stats::median;
use crate::{BenchError, Options};

/// A way to protect time; the first of those that take turns is compared with.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    suite: Option<Suite>,
    /// The transparent clock verifies before it signs.
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
/// 32 Syncs a second and variant: a variant's work, the slave's verification and
/// what is prepared for the next, is done before another variant's Sync comes,
/// which would else find a processor at it.
const PROFILE: Profile = Profile {
    log_sync_interval: -5,
    log_announce_interval: -3,
    log_delay_interval: -2,
    ..Profile::POWER_UTILITY
};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let length = StdDuration::from_millis(options.pick(4_000, 12_000));
    // To wake a processor may take longer than all that is measured here, and
    // would spare whoever comes after one that kept it busy.
    let awake = Awake::keep();
    if awake.is_none() {
        (options.remark)("the processors may sleep meanwhile: /dev/cpu_dma_latency is refused");
    }
    let variants = [PLAIN, ED25519, BLS, BLS_ONCE];
    // A Sync interval follows another: what counts is the order on a circle.
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
        (options.remark)("SCHED_FIFO is refused here: stamps also tell who else was running");
    }
    let mut figure = |one: Figure| figure(one.with("fifo", fifo));
    let figure = &mut figure;
    let (syncs, follow_ups) = (samples.syncs.ready()?, samples.follow_ups.ready()?);
    residence(syncs, figure);
    // The bars of BLS are for the suite that prepares; the other shows what that is worth.
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

/// A laboratory for each variant, built once for all orders.
struct Bed {
    variants: Vec<Variant>,
    stages: Vec<Stage>,
    _keys: Scratch,
}

impl Bed {
    fn build(variants: &[Variant]) -> Result<Self, BenchError> {
        let keys = Scratch::new()?;
        let stages = variants.iter().map(|variant| {
            let mut options =
                LabOptions::new(vec![NodeKind::Ours; 3], keys.path().join(variant.name));
            options.profile = PROFILE;
            options.jump_bound = TimeInterval::from_ns(50_000_000);
            options.auth = variant.suite.map(|suite| LabAuth {
                suite,
                form: EntryForm::Full,
                secondary: false,
            });
            Stage::build(options).map_err(failed)
        });
        Ok(Self {
            variants: variants.to_vec(),
            stages: stages.collect::<Result<_, _>>()?,
            _keys: keys,
        })
    }

    /// How the program at `place` runs, its keys read.
    fn program(&self, variant: usize, place: usize) -> Result<ProgramOptions, BenchError> {
        let mut program = self.stages[variant].program(place).map_err(failed)?;
        program.stamp_general = true;
        if let Some(auth) = &mut program.auth {
            auth.set_watch(self.variants[variant].watch);
        }
        Ok(program)
    }

    /// Runs all programs for a while and returns what the grandmaster, the transparent clock
    /// and the slave of each variant saw. `places` says which variant comes when within a
    /// Sync interval.
    fn measure(
        &self,
        places: &[usize],
        length: StdDuration,
    ) -> Result<Vec<[Record; 3]>, BenchError> {
        let variants = 0..self.variants.len();
        let start = |variant: usize, place: usize| {
            Node::start(&self.stages[variant], place, self.program(variant, place)?)
        };
        let others: Vec<[Node; 2]> = variants
            .clone()
            .map(|variant| Ok([start(variant, 1)?, start(variant, 2)?]))
            .collect::<Result<_, BenchError>>()?;
        // A grandmaster's Syncs keep the beat that begins when it is opened: what takes
        // time, such as reading keys, comes before.
        let mut ready: Vec<_> = variants
            .map(|variant| Ok((places[variant], variant, self.program(variant, 0)?)))
            .collect::<Result<_, BenchError>>()?;
        ready.sort_by_key(|(place, ..)| *place);
        let interval = StdDuration::from_nanos(PROFILE.sync_interval().as_ns().unsigned_abs());
        let begin = Instant::now() + interval;
        let mut leaders: Vec<Option<Node>> = others.iter().map(|_| None).collect();
        for (place, variant, program) in ready {
            let at = begin + interval * place as u32 / places.len() as u32;
            sleep(at.saturating_duration_since(Instant::now()));
            leaders[variant] = Some(Node::start(&self.stages[variant], 0, program)?);
        }
        sleep(length);
        // The slave first: what its master does when it ends is not measured.
        let records = leaders
            .into_iter()
            .zip(others)
            .map(|(leader, [hop, slave])| {
                let (slave, hop) = (slave.finish()?, hop.finish()?);
                let leader = leader.expect("every variant has a place").finish()?;
                Ok([leader, hop, slave])
            });
        records.collect()
    }
}

/// What all runs saw, by variant.
struct Samples {
    /// From the kernel's stamp of arrival to that of departure, ns.
    syncs: Blocks,
    follow_ups: Blocks,
    /// From the top of the grandmaster's event loop to the Sync's departure, ns.
    starts: Blocks,
    /// At the slave, ns.
    offsets: Blocks,
    /// What a signature adds to the longest Sync, octets.
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
        // What a signature adds to the Sync: the longest that was sent.
        let longest: Vec<f64> = leaders().map(longest_sync).collect();
        let added = longest[1..].iter().map(|octets| octets - longest[0]);
        self.added = added.fold(self.added, f64::max);
    }
}

/// From arrival to departure of each message of this kind, ns.
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

/// From the top of the grandmaster's event loop to the departure of each Sync, ns.
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

const STAY: &str = "kernel's stamp of arrival to kernel's stamp of departure, transparent clock";

fn residence(syncs: &Blocks, figure: &mut dyn FnMut(Figure)) {
    let note = |f: Figure| {
        f.with("from_to", STAY)
            .with("unsigned_ns", median(&syncs.all[0]))
            .with("syncs_per_round", BLOCK)
    };
    // All suites: it is the same message.
    let signed = 1..syncs.all.len();
    let ratios: Vec<f64> = signed.clone().flat_map(|v| syncs.ratios(v)).collect();
    let metric = "sync_residence_signed_over_unsigned";
    figure(note(Figure::new(BENCH, metric, "ratio", &ratios)).bar(1.02));
    let ratios: Vec<f64> = signed.flat_map(|v| syncs.deviations(v)).collect();
    let metric = "sync_residence_deviation_ratio";
    figure(
        note(Figure::new(BENCH, metric, "ratio", &ratios))
            .bar(1.05)
            .with("deviation", DEVIATION),
    );
}

fn handling(
    follow_ups: &Blocks,
    variant: usize,
    name: &str,
    bars: Option<(f64, f64)>,
    figure: &mut dyn FnMut(Figure),
) {
    let note = |f: Figure| {
        f.with("from_to", STAY)
            .with("unsigned_ns", median(&follow_ups.all[0]))
            .with("signed_ns", median(&follow_ups.all[variant]))
    };
    let ratios = follow_ups.ratios(variant);
    let metric = format!("followup_{name}_over_unsigned");
    let mut over = note(Figure::new(BENCH, metric, "ratio", &ratios));
    over.bar = bars.map(|(bar, _)| bar);
    figure(over);
    let ratios = follow_ups.deviations(variant);
    let metric = format!("followup_{name}_deviation_ratio");
    let mut over = note(Figure::new(BENCH, metric, "ratio", &ratios))
        .with("deviation", DEVIATION)
        .with("unsigned_deviation_ns", deviation(&follow_ups.all[0]))
        .with("signed_deviation_ns", deviation(&follow_ups.all[variant]));
    over.bar = bars.map(|(_, bar)| bar);
    figure(over);
}

fn starts(starts: &Blocks, figure: &mut dyn FnMut(Figure)) {
    let note = |f: Figure| {
        f.with(
            "from_to",
            "top of the event loop to the kernel's stamp of departure, grandmaster",
        )
        .with("unsigned_ns", median(&starts.all[0]))
    };
    let ratios = starts.ratios(1);
    let metric = "grandmaster_sync_signed_over_unsigned";
    figure(note(Figure::new(BENCH, metric, "ratio", &ratios)));
    let ratios = starts.deviations(1);
    let metric = "grandmaster_sync_deviation_ratio";
    figure(note(Figure::new(BENCH, metric, "ratio", &ratios)).with("deviation", DEVIATION));
}

fn offset(offsets: &Blocks, variant: usize, suffix: &str, figure: &mut dyn FnMut(Figure)) {
    let note = |f: Figure| {
        f.with(
            "path",
            "grandmaster, transparent clock, slave over veth pairs; software stamps; true offset 0",
        )
        .with("plain_sigma_ns", deviation(&offsets.all[0]))
        .with("plain_median_ns", median(&offsets.all[0]))
    };
    let ratios = offsets.deviations(variant);
    let metric = format!("offset{suffix}_sigma_signed_over_plain");
    figure(
        note(Figure::new(BENCH, metric, "ratio", &ratios))
            .bar(1.05)
            .with("deviation", DEVIATION),
    );
    let shifts = offsets.compared(variant, |signed, plain| median(signed) - median(plain));
    let metric = format!("offset{suffix}_mean_shift_ns");
    let mut shift = note(Figure::new(BENCH, metric, "ns", &shifts)).bar(100.0);
    // The bar is for either direction.
    shift.value = shift.value.abs();
    figure(shift);
}

const DEVIATION: &str = "half the distance between the 15.9th and 84.1th percentile: sigma, but for the scheduler's rare milliseconds";

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
            // Of this one the arrival was not seen.
            passed(3, true, 900),
        ];
        assert_eq!(passages(&events, MessageType::Sync), [60.0, 40.0]);
        assert_eq!(passages(&events, MessageType::FollowUp), [] as [f64; 0]);
    }
}
