//! Laboratories with three clocks each, one per variant, which are measured in turn.

use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant};

use timeloom_ptp_io::ProgramOptions;
use timeloom_ptp_io::lab::{LabAuth, LabOptions, NodeKind, Stage};
use timeloom_wire::TimeInterval;
use timeloom_wire::tlv::EntryForm;

use super::super::node::{Node, Record, failed};
use super::{PROFILE, Variant};
use crate::BenchError;
use crate::scratch::Scratch;

/// The laboratories of all variants, built once for all runs.
pub(super) struct Bed {
    variants: Vec<Variant>,
    stages: Vec<Stage>,
    _keys: Scratch,
}

impl Bed {
    pub(super) fn build(variants: &[Variant]) -> Result<Self, BenchError> {
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

    /// Returns the options of the program at `place`, with its keys loaded.
    fn program(&self, variant: usize, place: usize) -> Result<ProgramOptions, BenchError> {
        let mut program = self.stages[variant].program(place).map_err(failed)?;
        program.stamp_general = true;
        if let Some(auth) = &mut program.auth {
            auth.set_watch(self.variants[variant].watch);
        }
        Ok(program)
    }

    /// Runs all programs for some time. Returns the records of grandmaster, transparent clock and
    /// slave of each variant. `places` is the order of the variants within a Sync interval.
    pub(super) fn measure(
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
        // A grandmaster's Syncs keep the phase at which it was opened, so slow operations such as
        // reading keys must come before.
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
        // The slave ends first, because what its master does at the end is not measured.
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
