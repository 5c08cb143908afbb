//! Runs the seeds of the fuzzers, and variations of them, through every parser of untrusted bytes.
//! `make fuzz` searches in depth; this test covers every parser. TIMELOOM_CHANGES sets the number
//! of variations of each seed, and TIMELOOM_INPUT selects one parser.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use timeloom_engine::Random;
use timeloom_hostile::{INPUTS, Input, remove_directory};

/// Number of variations of each seed if TIMELOOM_CHANGES is not set.
const CHANGES: u64 = 100;

#[test]
fn no_seed_and_nothing_like_one_does_harm() {
    let changes = std::env::var("TIMELOOM_CHANGES");
    let changes = changes.map_or(CHANGES, |text| text.parse().expect("a number"));
    let only = std::env::var("TIMELOOM_INPUT").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, input) in INPUTS.into_iter().filter(|(name, _)| wanted(name)) {
        let seeds = seeds(name);
        assert!(
            !seeds.is_empty(),
            "{name} has no seeds in fuzz/seeds/{name}"
        );
        for (path, seed) in &seeds {
            try_with(name, path, input, seed);
            // Truncate the seed at every byte, or at 100 positions of a long seed.
            for at in (0..seed.len()).step_by(seed.len() / 100 + 1) {
                try_with(name, path, input, &seed[..at]);
            }
            for number in 0..changes {
                let others = &seeds[number as usize % seeds.len()].1;
                try_with(name, path, input, &changed(seed, others, number));
            }
        }
    }
    remove_directory();
}

/// Calls `input` with `bytes`; if it panics, reports the bytes.
fn try_with(name: &str, path: &Path, input: Input, bytes: &[u8]) {
    let done = catch_unwind(AssertUnwindSafe(|| input(bytes)));
    let (place, text) = (path.display(), bytes.escape_ascii());
    assert!(done.is_ok(), "{name}, from {place}, panics at b\"{text}\"");
}

/// Returns a variation of `seed`: a few bytes are changed, removed, duplicated, or copied from
/// `other`.
fn changed(seed: &[u8], other: &[u8], number: u64) -> Vec<u8> {
    let mut random = Random::new(number, seed.len() as u64);
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let end = (at + random.below(9) as usize).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.bits() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let from = at.min(other.len());
                let to = (from + 8).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    let Ok(folder) = fs::read_dir(root.join(name)) else {
        return Vec::new();
    };
    let mut seeds: Vec<_> = folder
        .map(|entry| {
            let path = entry.expect("a folder that is there").path();
            let bytes = fs::read(&path).expect("a seed");
            (path, bytes)
        })
        .collect();
    // The order is fixed, so that a number identifies a variation.
    seeds.sort();
    seeds
}

/// `scripts/fuzz` relies on the names of the folders.
#[test]
fn every_folder_of_seeds_is_of_an_input() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    let folders = fs::read_dir(root).expect("seeds");
    let mut folders: Vec<_> = folders
        .map(|entry| entry.expect("a folder that is there").file_name())
        .collect();
    folders.sort();
    assert!(folders.iter().eq(INPUTS.map(|(name, _)| name).iter()));
}

/// These are findings of the fuzzer, and panics that the product itself catches.
#[test]
fn past_findings_of_the_fuzzer_do_no_harm() {
    let found: &[u8] = include_bytes!("found/parquet-footer");
    timeloom_hostile::input("run_directory")(found);
}
