//! Grandmaster, transparent clock and slave on this machine: what signatures
//! do to the event path, to Follow_Ups and to the slave's offset.
//!
//! Three threads and two links of loopback, with the kernel's stamps. One clock
//! stamps for all, so that the true offset is zero. The variants (plain, and
//! ways to sign) take turns on the same threads and sockets; a round is a block
//! of neighbouring Syncs of each. Who comes after whom matters, since the one
//! before leaves a processor warm or asleep: so there are several runs, one for
//! every order of the variants.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use timeloom_portal::Awake;
use timeloom_ptp::security::Security;
use timeloom_ptp::{OrdinaryClock, OrdinaryConfig, Profile, TransparentClock, TransparentConfig};
use timeloom_time::Duration;
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{MessageType, TimeInterval};

use super::BENCH;
use super::keys::{Keys, clock};
use super::node::{Clock, Event, Node, local, seed};
use super::sockets::Stamped;
use crate::figure::Figure;
use crate::stats::{median, percentile};
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
const LOG_SYNC_INTERVAL: i8 = -5;
/// Neighbouring Syncs in a round of medians. Deviations are compared run by
/// run: of a few dozen samples they are mostly chance.
const BLOCK: usize = 32;

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
    let mut seen = Seen::new(variants.len());
    for places in &orders {
        seen.add(&variants, measure(&variants, places, length)?, options);
    }
    let fifo = seen.fifo;
    if !fifo {
        (options.remark)("SCHED_FIFO is refused here: stamps also tell who else was running");
    }
    let mut figure = |one: Figure| figure(one.with("fifo", fifo));
    let figure = &mut figure;
    let (syncs, follow_ups) = (seen.syncs.ready()?, seen.follow_ups.ready()?);
    residence(syncs, figure);
    // The bars of BLS are for the suite that prepares; the other shows what that is worth.
    for (variant, bars) in [(1, Some((1.6, 1.2))), (2, None), (3, Some((6.0, 2.0)))] {
        handling(follow_ups, variant, variants[variant].name, bars, figure);
    }
    starts(seen.starts.ready()?, figure);
    let offsets = seen.offsets.ready()?;
    offset(offsets, 1, "", figure);
    offset(offsets, 2, "_bls", figure);
    offset(offsets, 3, "_bls_once", figure);
    figure(Figure::new(BENCH, "sync_added_bytes", "bytes", &[seen.added]).bar(0.0));

    let variants = [PLAIN, BLS_WATCH];
    let mut seen = Seen::new(variants.len());
    for places in [[0, 1], [1, 0]] {
        seen.add(&variants, measure(&variants, &places, length)?, options);
    }
    handling(seen.follow_ups.ready()?, 1, BLS_WATCH.name, None, figure);
    Ok(())
}

/// Runs the three nodes for a while and returns what each saw.
/// `places` says which variant comes when within a Sync interval.
fn measure(
    variants: &[Variant],
    places: &[usize],
    length: StdDuration,
) -> Result<[Vec<Event>; 3], BenchError> {
    try_measure(variants, places, length).map_err(BenchError::system("sending over loopback"))
}

fn try_measure(
    variants: &[Variant],
    places: &[usize],
    length: StdDuration,
) -> io::Result<[Vec<Event>; 3]> {
    let keys: Vec<_> = variants.iter().map(|v| v.suite.map(Keys::new)).collect();
    let security = |variant: usize, node: u8| -> Option<Security> {
        let mut security = keys[variant].as_ref()?.security(node, EntryForm::Full);
        security.watch = variants[variant].watch;
        Some(security)
    };
    let securities = [0, 1, 2].map(|node| {
        (0..variants.len())
            .map(|variant| security(variant, node))
            .collect::<Vec<_>>()
    });
    let profile = |variant: usize| Profile {
        domain: variant as u8,
        log_sync_interval: LOG_SYNC_INTERVAL,
        log_announce_interval: -3,
        log_delay_interval: -2,
        ..Profile::POWER_UTILITY
    };
    let jump_bound = TimeInterval::from_ns(50_000_000);
    let start = local();
    let begin = |variant: usize| {
        let interval = profile(0).sync_interval().as_ns();
        start + Duration::from_ns(interval * places[variant] as i64 / places.len() as i64)
    };
    let ordinary = |variant: usize, node: u8| {
        let mut config = OrdinaryConfig::new(clock(node), profile(variant));
        config.slave_only = node != 0;
        config.free_running = true;
        config.software_stamps = true;
        config.jump_bound = jump_bound;
        config.security = securities[usize::from(node)][variant].clone();
        Clock::Ordinary(Box::new(OrdinaryClock::new(config, begin(variant))))
    };
    let transparent = |variant: usize| {
        let mut config = TransparentConfig::new(clock(1), 2, profile(variant));
        config.jump_bound = jump_bound;
        config.security = securities[1][variant].clone();
        Clock::Transparent(Box::new(TransparentClock::new(config, begin(variant))))
    };
    let secrets = |node: usize| {
        let with_keys = securities[node].iter().flatten();
        with_keys.map(|security| security.secret.clone()).collect()
    };
    let variants = 0..variants.len();
    let (grandmaster_end, upstream) = Stamped::pair()?;
    let (downstream, slave_end) = Stamped::pair()?;
    let stop = Arc::new(AtomicBool::new(false));
    let nodes = [
        Node::start(
            variants.clone().map(|v| ordinary(v, 0)).collect(),
            vec![grandmaster_end],
            secrets(0),
            seed(0),
            stop.clone(),
        )?,
        Node::start(
            variants.clone().map(transparent).collect(),
            vec![upstream, downstream],
            secrets(1),
            seed(1),
            stop.clone(),
        )?,
        Node::start(
            variants.map(|v| ordinary(v, 2)).collect(),
            vec![slave_end],
            secrets(2),
            seed(2),
            stop.clone(),
        )?,
    ];
    std::thread::sleep(length);
    stop.store(true, Ordering::Relaxed);
    let [first, second, third] = nodes.map(|node| {
        node.join()
            .unwrap_or_else(|_| Err(io::Error::other("a node's thread died")))
    });
    Ok([first?, second?, third?])
}

/// What all runs saw, by variant.
struct Seen {
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

impl Seen {
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

    fn add(&mut self, variants: &[Variant], events: [Vec<Event>; 3], options: &Options) {
        let [grandmaster, transparent, slave] = &events;
        let failed = events.iter().flatten().filter_map(|event| match event {
            Event::Failure(text) => Some(text),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if let Some(first) = failed.first() {
            let count = failed.len();
            (options.remark)(&format!(
                "{count} alarms while measuring, the first: {first}"
            ));
        }
        let refused = |event: &Event| matches!(event, Event::Scheduled(false));
        self.fifo &= !events.iter().flatten().any(refused);
        let count = variants.len();
        self.syncs
            .add(passages(transparent, MessageType::Sync, count));
        self.follow_ups
            .add(passages(transparent, MessageType::FollowUp, count));
        self.starts.add(beginnings(grandmaster, count));
        self.offsets.add(offsets(slave, variants));
        self.added = self.added.max(added(grandmaster, count));
    }
}

fn passages(events: &[Event], of: MessageType, variants: usize) -> Vec<Vec<f64>> {
    let mut arrived = HashMap::new();
    let mut passed = vec![Vec::new(); variants];
    for event in events {
        let Event::Passed {
            variant,
            kind,
            sequence,
            sent,
            stamp_ns,
            ..
        } = *event
        else {
            continue;
        };
        if kind != of {
            continue;
        }
        if !sent {
            arrived.insert((variant, sequence), stamp_ns);
        } else if let Some(before) = arrived.remove(&(variant, sequence)) {
            passed[variant].push((stamp_ns - before) as f64);
        }
    }
    passed
}

fn beginnings(events: &[Event], variants: usize) -> Vec<Vec<f64>> {
    let mut begun = HashMap::new();
    let mut took = vec![Vec::new(); variants];
    for event in events {
        match *event {
            Event::Begun {
                variant,
                sequence,
                at_ns,
            } => {
                begun.insert((variant, sequence), at_ns);
            }
            Event::Passed {
                variant,
                kind: MessageType::Sync,
                sequence,
                sent: true,
                stamp_ns,
                ..
            } => {
                if let Some(before) = begun.remove(&(variant, sequence)) {
                    took[variant].push((stamp_ns - before) as f64);
                }
            }
            _ => {}
        }
    }
    took
}

fn offsets(events: &[Event], variants: &[Variant]) -> Vec<Vec<f64>> {
    let mut by_variant = vec![Vec::new(); variants.len()];
    for event in events {
        if let Event::Offset {
            variant,
            offset_ns,
            authenticated,
        } = *event
            && authenticated == variants[variant].suite.is_some()
        {
            by_variant[variant].push(offset_ns);
        }
    }
    by_variant
}

/// What a signature adds to the Sync: the longest that was sent.
fn added(events: &[Event], variants: usize) -> f64 {
    let longest = |of: usize| {
        let syncs = events.iter().filter_map(|event| match event {
            Event::Passed {
                variant,
                kind: MessageType::Sync,
                octets,
                ..
            } if *variant == of => Some(*octets),
            _ => None,
        });
        syncs.max().unwrap_or(0) as f64
    };
    (1..variants)
        .map(|v| longest(v) - longest(0))
        .fold(0.0, f64::max)
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
            "grandmaster, transparent clock, slave over loopback; software stamps; true offset 0",
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

/// The deviation of a normal distribution, whatever its tails.
fn deviation(samples: &[f64]) -> f64 {
    (percentile(samples, 84.13) - percentile(samples, 15.87)) / 2.0
}

/// Samples by variant, of which the n-th of each were taken together.
struct Blocks {
    all: Vec<Vec<f64>>,
    /// Where each run ends.
    ends: Vec<usize>,
}

impl Blocks {
    fn new(variants: usize) -> Self {
        Self {
            all: vec![Vec::new(); variants],
            ends: Vec::new(),
        }
    }

    /// Adds whole blocks of one run.
    fn add(&mut self, run: Vec<Vec<f64>>) {
        let shortest = run.iter().map(Vec::len).min().unwrap_or(0);
        // The first Syncs come with cold caches.
        let whole = shortest.saturating_sub(BLOCK / 4) / BLOCK * BLOCK;
        for (samples, run) in self.all.iter_mut().zip(run) {
            samples.extend_from_slice(&run[run.len() - whole..]);
        }
        if whole > 0 {
            self.ends.push(self.all[0].len());
        }
    }

    fn ready(&self) -> Result<&Self, BenchError> {
        if self.all[0].len() < 3 * BLOCK {
            let text = "too few Syncs went through to compare anything".to_owned();
            return Err(BenchError::Worker(text));
        }
        Ok(self)
    }

    fn compared(&self, variant: usize, compare: impl Fn(&[f64], &[f64]) -> f64) -> Vec<f64> {
        let pairs = self.all[variant]
            .chunks(BLOCK)
            .zip(self.all[0].chunks(BLOCK));
        pairs
            .map(|(signed, plain)| compare(signed, plain))
            .collect()
    }

    /// Medians, signed over plain, block by block.
    fn ratios(&self, variant: usize) -> Vec<f64> {
        self.compared(variant, |signed, plain| median(signed) / median(plain))
    }

    /// Deviations, signed over plain, run by run.
    fn deviations(&self, variant: usize) -> Vec<f64> {
        let starts = [0].iter().chain(&self.ends);
        let runs = starts.zip(&self.ends).map(|(start, end)| *start..*end);
        let of = |variant: usize, run| deviation(&self.all[variant][run]);
        runs.map(|run| of(variant, run.clone()) / of(0, run))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_sigma_and_does_not_see_rare_outliers() {
        // The quantiles of a normal distribution with sigma 3: a sum
        // of twelve uniform numbers.
        let mut state = 1u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut samples: Vec<f64> = (0..20_000)
            .map(|_| 3.0 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0))
            .collect();
        assert!(
            (deviation(&samples) - 3.0).abs() < 0.1,
            "{}",
            deviation(&samples)
        );
        samples[..20].fill(4e6);
        assert!((deviation(&samples) - 3.0).abs() < 0.1);
    }

    #[test]
    fn blocks_compare_neighbours_of_the_same_run_only() {
        let mut blocks = Blocks::new(2);
        // Two runs on a machine that was twice as slow in the second; of
        // unequal length, as runs are.
        blocks.add(vec![vec![10.0; 3 * BLOCK + 20], vec![15.0; 2 * BLOCK + 9]]);
        blocks.add(vec![vec![20.0; 2 * BLOCK + 9], vec![30.0; 4 * BLOCK]]);
        assert_eq!(blocks.all[0].len(), 4 * BLOCK);
        assert_eq!(blocks.ratios(1), [1.5; 4]);
        assert!(blocks.ready().is_ok());
        assert!(Blocks::new(2).ready().is_err());
        assert_eq!(blocks.ends, [2 * BLOCK, 4 * BLOCK]);
    }

    #[test]
    fn a_stay_is_from_arrival_to_departure_of_the_same_message() {
        let passed = |variant, sequence, sent, stamp_ns| Event::Passed {
            variant,
            kind: MessageType::Sync,
            sequence,
            octets: 44,
            sent,
            stamp_ns,
        };
        let events = [
            passed(0, 1, false, 100),
            passed(1, 1, false, 130),
            passed(1, 1, true, 190),
            passed(0, 1, true, 140),
            // Of this one the arrival was not seen.
            passed(0, 2, true, 900),
        ];
        assert_eq!(
            passages(&events, MessageType::Sync, 2),
            [vec![40.0], vec![60.0]]
        );
        assert_eq!(
            passages(&events, MessageType::FollowUp, 2),
            [vec![], vec![]] as [Vec<f64>; 2]
        );
    }
}
