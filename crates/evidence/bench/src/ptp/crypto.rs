//! Cost of signing and verifying, for 0 to 16 hops, and lengths of messages.
//!
//! These are Figures 3.1 and 3.2 of the thesis. Time is the processor time of the measuring thread
//! (CLOCK_THREAD_CPUTIME_ID). The operations take milliseconds, and on a shared machine, wall time
//! would mostly show other load. All curves of a round are measured within the round, with suites
//! in turn.

use std::hint::black_box;

use timeloom_sys::clock::thread_time;
use timeloom_wire::tlv::{EntryForm, Suite};

use super::BENCH;
use super::keys::{Chain, HOPS, Keys};
use crate::figure::Figure;
use crate::{BenchError, Options};

/// Measurements of one suite in one round, in ns.
#[derive(Default)]
struct Round {
    /// Time of a scalar multiplication alone.
    scalar: f64,
    /// Time of verifying a single signature.
    single: f64,
    /// By number of preceding hops: time of signing; the item below is the time of the whole
    /// verification.
    sign: Vec<f64>,
    verify: Vec<f64>,
}

/// A signature scheme with the operations to measure.
#[derive(Clone, Copy)]
struct Scheme {
    suite: Suite,
    name: &'static str,
    /// True if as much as possible is precomputed before the clock is read.
    prepared: bool,
    /// True if the verification is reported as a figure; false if another row of the same suite
    /// reports it.
    verified: bool,
}

const SCHEMES: [Scheme; 4] = [
    Scheme {
        suite: Suite::Bls,
        name: "bls",
        prepared: false,
        verified: true,
    },
    Scheme {
        suite: Suite::Ed25519,
        name: "ed25519",
        prepared: false,
        verified: true,
    },
    Scheme {
        suite: Suite::Ed25519,
        name: "ed25519_prepared",
        prepared: true,
        verified: false,
    },
    Scheme {
        suite: Suite::BlsOnce,
        name: "bls_once",
        prepared: true,
        verified: true,
    },
];

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let mut schemes = SCHEMES.map(|scheme| {
        let chain = Chain::new(&Keys::new(scheme.suite), EntryForm::Full);
        (scheme, chain, Vec::new())
    });
    // The first round is not counted, because caches are cold.
    for round in 0..options.pick(21, 101) + 1 {
        for (scheme, chain, rounds) in &mut schemes {
            let measured = measure(*scheme, chain)?;
            if round > 0 {
                rounds.push(measured);
            }
        }
    }
    for (scheme, _, rounds) in &schemes {
        report(*scheme, rounds, figure);
    }
    sizes(figure);
    Ok(())
}

fn measure(scheme: Scheme, chain: &Chain) -> Result<Round, BenchError> {
    let mut round = Round::default();
    let single = chain.single();
    let mut message = Vec::new();
    chain.next_sync();
    for hops in 0..=HOPS {
        if scheme.prepared {
            chain.prepare(hops);
        }
        let (sign, next) = cpu_ns(|| match hops {
            0 => chain.grandmaster(),
            hop => chain.extend(hop, &message),
        });
        message = next;
        let job = chain.job(hops, message.clone());
        let (verify, verdict) = cpu_ns(|| job.run());
        if verdict.result.is_err() {
            return Err(BenchError::Worker("a chain does not verify".to_owned()));
        }
        round.sign.push(sign);
        round.verify.push(verify);
        // These measurements are spread over the round, so that all of them see the same state of
        // the machine.
        if hops % 4 == 0 {
            round.scalar += scalar_multiplication(scheme.suite)? / 5.0;
            let (ns, holds) = cpu_ns(&single);
            if !holds {
                return Err(BenchError::Worker("a signature does not hold".to_owned()));
            }
            round.single += ns / 5.0;
        }
    }
    Ok(round)
}

/// Measures the multiplication of the generator by a secret scalar: in G1 for BLS, whose signatures
/// are there, and on edwards25519.
fn scalar_multiplication(suite: Suite) -> Result<f64, BenchError> {
    let (ns, ()) = match suite {
        Suite::Bls | Suite::BlsOnce => {
            let key = blst::min_pk::SecretKey::key_gen(&[7; 32], &[])
                .map_err(|error| BenchError::Worker(format!("a key: {error:?}")))?;
            cpu_ns(|| {
                black_box(black_box(&key).sk_to_pk());
            })
        }
        Suite::Ed25519 => {
            let scalar = curve25519_dalek::Scalar::from_bytes_mod_order([7; 32]);
            cpu_ns(|| {
                black_box(curve25519_dalek::EdwardsPoint::mul_base(black_box(&scalar)).compress());
            })
        }
    };
    Ok(ns)
}

/// Returns the processor time of `work` on this thread in nanoseconds, and its result.
fn cpu_ns<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = thread_time();
    let outcome = black_box(work());
    ((thread_time() - before).as_ns() as f64, outcome)
}

fn report(scheme: Scheme, rounds: &[Round], figure: &mut dyn FnMut(Figure)) {
    let Scheme { suite, name, .. } = scheme;
    let of = |value: &dyn Fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let clock = |figure: Figure| figure.with("clock", "CPU time of the thread");
    let signers = f64::from(HOPS) + 1.0;
    let mean_sign = |round: &Round| round.sign[1..].iter().sum::<f64>() / f64::from(HOPS);
    figure(
        clock(Figure::new(
            BENCH,
            format!("sign_{name}_over_scalar_mult"),
            "ratio",
            &of(&|round| mean_sign(round) / round.scalar),
        ))
        .with("scalar_mult_ns", crate::median(&of(&|round| round.scalar)))
        .with("sign_ns", crate::median(&of(&mean_sign)))
        .with(
            "counts",
            "a hop's whole work: parse, hash, sign, aggregate, emit",
        ),
    );
    let bar = if suite.is_aggregate() { 0.30 } else { 0.50 };
    let mut curve = |what: &str, pick: fn(&Round) -> &[f64]| {
        for hops in 0..=HOPS {
            let samples = of(&|round| pick(round)[usize::from(hops)]);
            let metric = format!("{what}_{name}_ns");
            figure(clock(Figure::new(BENCH, metric, "ns", &samples)).with("hops", hops));
        }
    };
    curve("sign", |round| &round.sign);
    // An Ed25519 signature is verified in the same way with and without precomputation.
    if !scheme.verified {
        return;
    }
    curve("verify", |round| &round.verify);
    figure(
        clock(Figure::new(
            BENCH,
            format!("verify17_{name}_over_17_single"),
            "ratio",
            &of(&|round| round.verify[usize::from(HOPS)] / (signers * round.single)),
        ))
        .bar(bar)
        .with("single_ns", crate::median(&of(&|round| round.single))),
    );
}

/// Reports the lengths of messages, which are built for this purpose.
fn sizes(figure: &mut dyn FnMut(Figure)) {
    const PLAIN: usize = 44;
    let mut size = |metric: &str, octets: usize, bar: Option<f64>| {
        let mut one = Figure::new(BENCH, metric, "bytes", &[octets as f64]).with("hops", HOPS);
        one.bar = bar;
        figure(one);
    };
    for (suite, form, metric, bar) in [
        (
            Suite::Bls,
            EntryForm::Full,
            "followup_full_bytes",
            Some(354.0),
        ),
        (
            Suite::Bls,
            EntryForm::Compact,
            "followup_compact_bytes",
            Some(194.0),
        ),
        (
            Suite::BlsOnce,
            EntryForm::Full,
            "followup_bls_once_full_bytes",
            Some(354.0),
        ),
        (
            Suite::BlsOnce,
            EntryForm::Compact,
            "followup_bls_once_compact_bytes",
            Some(194.0),
        ),
        (
            Suite::Ed25519,
            EntryForm::Full,
            "followup_ed25519_full_bytes",
            None,
        ),
        (
            Suite::Ed25519,
            EntryForm::Compact,
            "followup_ed25519_compact_bytes",
            None,
        ),
    ] {
        let chain = Chain::new(&Keys::new(suite), form);
        let full = (1..=HOPS).fold(chain.grandmaster(), |m, hop| chain.extend(hop, &m));
        size(metric, full.len() - PLAIN, bar);
    }
    let (origin, hop) = super::keys::statements();
    for (metric, octets) in [
        ("statement_origin_bytes", origin),
        ("statement_hop_bytes", hop),
    ] {
        figure(Figure::new(BENCH, metric, "bytes", &[octets as f64]).with("suite", "ed25519"));
    }
}
