//! Command `timeloom sweep`: runs a scenario with many values and seeds.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use timeloom_run::exit::{Failure, UNTRUSTED, note, say};
use timeloom_run::sweep::{
    Axis, RunEnd, SweepError, SweepPoint, SweepRequest, SweepResult, SweepRow, by_values,
    default_jobs, not_passed, points, processors, sweep,
};
use timeloom_scenario::{Mode, Plan};

use super::interruption::interruption;
use super::table;

/// Run a scenario with every combination of values and many seeds
///
/// Creates a directory with the runs, a table of them (sweep.parquet) and a page with a band over
/// the seeds for every signal (sweep.html).
///
/// Runs are concurrent, each on processors that no other run of the sweep uses. Without --jobs
/// there is one run for every two processors in time mode `skip`, and one for every four in other
/// modes. If the sweep was interrupted, by Ctrl-C or otherwise, the same command continues it.
///
/// Exit code: 0 if all runs passed; 1 if one did not; 2 for a mistake in the scenario with any of
/// the values, in which case nothing is run; 4 if none failed, but this machine was too slow for
/// one of them.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom sweep examples/hello/plant.toml -o sweeps/area \\\n           --set time.mode=skip --set simulation.plants.tank.config.area_m2=1,2,3 --seeds 10"
)]
pub(crate) struct Sweep {
    /// The scenario file
    scenario: PathBuf,
    /// Directory of the sweep [default: sweeps/NAME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Values of a key of the scenario, separated by commas; if repeated, every combination is run
    #[arg(long = "set", value_name = "KEY=VALUE,…", value_parser = Axis::parse)]
    sets: Vec<Axis>,
    /// Run each combination with the seeds 1 to N [default: once, with the scenario's seed]. Each
    /// program and plant gets a seed derived from it in TIMELOOM_SEED; a program that does not use
    /// that for its random numbers behaves the same in every run
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    seeds: u64,
    /// Number of concurrent runs
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Repeat runs of an earlier call that failed or could not be trusted
    #[arg(long)]
    retry_failed: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

impl Sweep {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.seeds > 0 && self.sets.iter().any(|axis| axis.key == "seed") {
            return Err(Failure::usage("give --seeds or --set seed=…, not both"));
        }
        let all = points(&self.sets, self.seeds);
        let plans = self.plans(&all)?;
        let stepped = |plan: &&Plan| plan.time.mode == Mode::Stepped;
        if plans.iter().find(stepped).is_some() {
            return Err(Failure::usage(
                "runs in time mode `stepped` wait for a granter, and cannot be swept; `--set \
                 time.mode=skip` or `virtual` can",
            ));
        }
        let name = plans
            .first()
            .map(|plan| plan.name.clone())
            .unwrap_or_default();
        // The number of jobs depends only on the time mode, so the plan that needs most determines
        // it.
        let jobs = plans
            .iter()
            .map(|plan| default_jobs(plan.time.mode, processors().len()));
        let jobs = self.jobs.map_or(jobs.min().unwrap_or(1), usize::from);
        let most = processors().len();
        if jobs > most {
            note!(
                "timeloom: {jobs} jobs are requested, and there are {most} processors: {most} \
                jobs run at once"
            );
        }
        let interrupted = interruption()?;
        let request = SweepRequest {
            directory: self
                .output
                .unwrap_or_else(|| PathBuf::from("sweeps").join(&name)),
            scenario: self.scenario,
            name,
            points: all,
            jobs: jobs.min(most),
            retry_failed: self.retry_failed,
            timeloom: std::env::current_exe()
                .map_err(|error| Failure::run(format!("finding this program: {error}")))?,
            log_json: super::logging::is_json(),
        };
        let swept = sweep(&request, &interrupted, progress).map_err(failure)?;
        if self.json {
            say!("{}", to_json(&swept));
        } else {
            say!("{}", to_text(&swept));
        }
        if interrupted.load(Ordering::Relaxed) {
            note!("timeloom: stopped; the same command continues from here");
        }
        Ok(ExitCode::from(code(&swept.rows)))
    }

    /// Checks the plans of all points before the first is run.
    fn plans(&self, all: &[SweepPoint]) -> Result<Vec<Plan>, Failure> {
        let colour = std::io::stderr().is_terminal();
        let plan = |point: &SweepPoint| {
            timeloom_scenario::load(&self.scenario, &point.sets()).map_err(|errors| {
                let text = errors.render(colour);
                Failure::usage_in_colours(match point.sets().as_slice() {
                    [] => text,
                    sets => format!("with {}:\n{text}", sets.join(", ")),
                })
            })
        };
        all.iter().map(plan).collect()
    }
}

/// Returns the exit code. A failed run takes precedence over an untrusted one.
fn code(rows: &[SweepRow]) -> u8 {
    let any = |ended| rows.iter().any(|row| row.ended == ended);
    if any(RunEnd::Failed) || any(RunEnd::NotDone) {
        return 1;
    }
    if any(RunEnd::Untrusted) { UNTRUSTED } else { 0 }
}

fn progress(row: &SweepRow, done: usize, total: usize) {
    let wall = row.lasted_s.map(|[_, wall]| format!(" in {wall:.1} s"));
    let why = row.culprit.as_ref().map(|culprit| {
        let line = culprit.lines().next().unwrap_or_default();
        format!(": {line}")
    });
    note!(
        "[{done}/{total}] {} {}{}{}",
        row.point.name,
        row.ended.as_str(),
        wall.unwrap_or_default(),
        why.unwrap_or_default()
    );
}

fn to_text(swept: &SweepResult) -> String {
    let (columns, rows) = by_values(&swept.rows);
    let mut parts = vec![table::text(&columns, &rows)];
    let others: Vec<Vec<String>> = not_passed(&swept.rows)
        .into_iter()
        .map(|cells| {
            cells
                .iter()
                .map(|cell| cell.lines().collect::<Vec<_>>().join("; "))
                .collect()
        })
        .collect();
    if !others.is_empty() {
        parts.push(format!(
            "\ndid not pass:\n{}",
            table::text(&["run", "ended", "why"], &others)
        ));
    }
    if swept.kept > 0 {
        parts.push(format!("{} runs already existed", swept.kept));
    }
    parts.push(format!(
        "table: {}\npage:  {}",
        swept.table.display(),
        swept.page.display()
    ));
    parts.join("\n")
}

fn to_json(swept: &SweepResult) -> serde_json::Value {
    let run = |row: &SweepRow| {
        let values: serde_json::Map<String, serde_json::Value> = row
            .point
            .values
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        serde_json::json!({
            "run": row.point.name,
            "values": values,
            "seed": row.point.seed,
            "ended": row.ended.as_str(),
            "culprit": row.culprit,
            "checks": row.measured,
        })
    };
    serde_json::json!({
        "passed": swept.rows.iter().all(|row| row.ended == RunEnd::Passed),
        "runs": swept.rows.iter().map(run).collect::<Vec<_>>(),
        "kept": swept.kept,
        "table": swept.table,
        "page": swept.page,
    })
}

fn failure(error: SweepError) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error),
        false => Failure::run(error),
    }
}
