//! `timeloom bench`: measures what the project promises.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use timeloom_bench::{BenchError, Name, Options, TABLE_HEADER, net_figures, worker_main};

use crate::exit::Failure;

/// Measure this machine: medians of interleaved rounds, with their 5th and
/// 95th percentile, and whether they reach the project's bars.
///
/// Names: clock-read, syscall, pause, exec, plant, net, ptp, timeline; `all` runs
/// every one.
#[derive(Args)]
pub(crate) struct Bench {
    /// What to measure
    #[arg(required_unless_present = "worker")]
    name: Option<String>,
    /// Few rounds: everything together takes less than a minute
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per figure and line
    #[arg(long)]
    json: bool,
    /// ptp: also write the curves as a page with charts into this directory;
    /// net: measure the paper's figures instead, as tables and plots (minutes)
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Be the process that is measured
    #[arg(long, hide = true)]
    worker: Option<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(argument) = self.worker {
            return Ok(worker_main(&argument));
        }
        let name = self.name.expect("clap demands it");
        if let (Some(directory), "net") = (&self.figures, name.as_str()) {
            net_figures(directory, |text| eprintln!("timeloom: {text}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let names = match name.as_str() {
            "all" => Name::ALL.to_vec(),
            one => vec![
                one.parse()
                    .map_err(|text| Failure::usage(format!("`{one}`: {text}")))?,
            ],
        };
        let own = std::env::current_exe()
            .map_err(|error| Failure::machine(format!("finding our own program: {error}")))?;
        let options = Options {
            quick: self.quick,
            worker: vec![own.into_os_string(), "bench".into(), "--worker".into()],
            remark: |text| eprintln!("timeloom: {text}"),
        };
        if !self.json {
            println!("{TABLE_HEADER}");
        }
        let mut all = Vec::new();
        for name in names {
            timeloom_bench::run(name, &options, &mut |figure| {
                println!(
                    "{}",
                    if self.json {
                        figure.json()
                    } else {
                        figure.row()
                    }
                );
                all.push(figure);
            })?;
        }
        if let Some(directory) = self.figures {
            timeloom_bench::write_ptp_document(&directory, &all).map_err(|error| {
                Failure::usage(format!("writing to {}: {error}", directory.display()))
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Guest(error) => error.into(),
            error => Self::run(error),
        }
    }
}
