//! Merge of the agents' run directories into one, by virtual time.
//!
//! Rows of all agents are sorted by their virtual instants. Wall clocks of different machines
//! cannot be compared, so the wall instants of each agent are shifted until the common start is the
//! same for all agents. The edges of agreed pauses are recorded by every agent, at the same virtual
//! instants, so only one agent's records of them are kept.

use timeloom_results::{
    Caveat, ClockAction, ClockRow, EventRow, Incoming, LabelRow, Manifest, ResultsError, Row,
    RunDirectory, SignalRow,
};
use timeloom_time::{Duration, Instant, Virtual, Wall};

/// Error that prevents the merge.
#[derive(Debug, thiserror::Error)]
pub(super) enum MergeError {
    #[error("the results of agent {0}: {1}")]
    Agent(String, ResultsError),
    /// The merged results cannot be written.
    #[error(transparent)]
    Whole(#[from] ResultsError),
}

/// Combined content of the agents' manifests.
#[derive(Debug, Default)]
pub(super) struct MergedManifests {
    pub(super) untrusted: Vec<Caveat>,
    pub(super) degraded_modes: Vec<Caveat>,
    pub(super) manifests: Vec<Manifest>,
}

/// Results of one agent that are to be merged.
struct Share {
    name: String,
    run: RunDirectory,
    /// Duration that is added to the wall instants of the agent's rows.
    moved: Duration,
}

/// Merges the results of `agents`, each a name and a folder, into the run directory `whole`. If the
/// agents act in turns, each of their pauses is one of a single agent.
///
/// # Errors
/// Returns an error, with the agent's name, if results cannot be read or written.
pub(super) fn merge(
    whole: &RunDirectory,
    agents: &[(String, &Incoming)],
    in_turns: bool,
) -> Result<MergedManifests, MergeError> {
    let mut told = MergedManifests::default();
    let mut shares = Vec::new();
    let mut first: Option<Instant<Wall>> = None;
    for (name, incoming) in agents {
        let named = |error| MergeError::Agent(name.clone(), error);
        let run = incoming.open().map_err(named)?;
        let manifest = run.manifest().map_err(named)?;
        let from = |caveat: &Caveat| caveat.within(format_args!("On agent {name}"));
        told.untrusted.extend(manifest.untrusted.iter().map(from));
        told.degraded_modes
            .extend(manifest.degraded_modes.iter().map(from));
        told.manifests.push(manifest);
        let mut start = None;
        let found = run.for_each(|row: ClockRow| {
            if row.action == ClockAction::Start {
                start = start.or(Some(row.t_wall));
            }
            Ok(())
        });
        found.map_err(named)?;
        first = first.or(start);
        let moved = match (first, start) {
            (Some(first), Some(start)) => first - start,
            _ => Duration::ZERO,
        };
        shares.push(Share {
            name: name.clone(),
            run,
            moved,
        });
    }
    let recorder = whole.recorder()?;
    for row in rows(&shares, |row: &mut SignalRow, by| {
        row.t_wall += by;
        Some(row.t_virtual)
    })? {
        recorder.signal(&row)?;
    }
    for row in rows(&shares, |row: &mut EventRow, by| {
        row.t_wall += by;
        Some(row.t_virtual)
    })? {
        recorder.event(&row)?;
    }
    for row in rows(&shares, |row: &mut LabelRow, _| Some(row.start))? {
        recorder.label(&row)?;
    }
    let leader = shares.first().map(|share| share.name.clone());
    let clock = rows(&shares, |row: &mut ClockRow, by| {
        row.t_wall += by;
        let is_common = match &row.action {
            ClockAction::Start | ClockAction::End => true,
            ClockAction::Other(edge) => !in_turns && matches!(&**edge, "stop" | "go"),
            _ => false,
        };
        let counts = !is_common || leader.as_deref() == Some(&*row.host);
        counts.then_some(row.t_virtual)
    })?;
    for (seq, mut row) in (0..).zip(clock) {
        row.seq = seq;
        recorder.clock(&row)?;
    }
    recorder.finish()?;
    for share in &shares {
        // Logs and captures need no merging: each program or link belongs to one agent.
        let taken = whole.take_over_files(&share.run);
        taken.map_err(|error| MergeError::Agent(share.name.clone(), error))?;
    }
    Ok(told)
}

/// Returns the rows of all agents, sorted by virtual instant. Rows of the same instant are in the
/// order of the agents; rows of one agent stay in their own order. `see` returns the instant of a
/// row, and may change the row. Rows for which it returns `None` are left out.
fn rows<R: Row>(
    shares: &[Share],
    see: impl Fn(&mut R, Duration) -> Option<Instant<Virtual>>,
) -> Result<Vec<R>, MergeError> {
    let mut all: Vec<(Instant<Virtual>, R)> = Vec::new();
    for share in shares {
        let read = share.run.for_each(|mut row: R| {
            if let Some(at) = see(&mut row, share.moved) {
                all.push((at, row));
            }
            Ok(())
        });
        read.map_err(|error| MergeError::Agent(share.name.clone(), error))?;
    }
    // The sort is stable.
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, row)| row).collect())
}
