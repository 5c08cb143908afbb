//! Figures that are computed from the samples: ratios, deviations and shifts, each with its bar.

use super::super::BENCH;
use super::super::blocks::{BLOCK, Blocks, deviation};
use crate::figure::Figure;
use crate::stats::median;

const STAY: &str = "kernel's stamp of arrival to kernel's stamp of departure, transparent clock";

pub(super) fn residence(syncs: &Blocks, figure: &mut dyn FnMut(Figure)) {
    let note = |f: Figure| {
        f.with("from_to", STAY)
            .with("unsigned_ns", median(&syncs.all[0]))
            .with("syncs_per_round", BLOCK)
    };
    // All suites count, because their Syncs are the same message.
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

pub(super) fn handling(
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

pub(super) fn starts(starts: &Blocks, figure: &mut dyn FnMut(Figure)) {
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

pub(super) fn offset(
    offsets: &Blocks,
    variant: usize,
    suffix: &str,
    figure: &mut dyn FnMut(Figure),
) {
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
    // The bar applies to shifts in both directions.
    shift.value = shift.value.abs();
    figure(shift);
}

const DEVIATION: &str = "half the distance between the 15.9th and 84.1th percentile: sigma, but for the scheduler's rare milliseconds";
