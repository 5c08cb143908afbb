//! `timeloom clock`: the papers' experiments about clocks.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use timeloom_bench::Options;
use timeloom_lab::{Chronyd, ChronydError, Experiment, chronyd_corrections};

use crate::exit::Failure;

/// Repeat the RVEC paper's experiments about clocks.
#[derive(Args)]
pub(crate) struct Clock {
    #[command(subcommand)]
    experiment: Which,
}

#[derive(Subcommand)]
enum Which {
    Dvfs(Dvfs),
    NtpSteps(NtpSteps),
}

/// The raw cycle counter against RVEC under wraps and changes of frequency, and
/// what each clock costs on this machine.
///
/// The core is simulated: a counter of 32 bits, 400 and 800 MHz. Writes
/// index.html and a picture per chart; prints the tables.
#[derive(Args)]
#[command(
    after_help = "A trace has one stage a line: `2 s 800 MHz`, `50 us to 400 MHz`, `10 ms idle`."
)]
struct Dvfs {
    /// What the core goes through, instead of the paper's experiments
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Do not measure this machine
    #[arg(long)]
    no_machine: bool,
    #[command(flatten)]
    common: Common,
}

/// How large NTP's corrections are by how long it waits between questions.
///
/// Oscillators, network and client are simulated, in virtual time: 600 s
/// between questions take no longer than none. With --chronyd the real one
/// stands beside the model; that needs root.
#[derive(Args)]
struct NtpSteps {
    /// A tenth of the paper's runs; with --chronyd 6 questions instead of 20
    #[arg(long)]
    quick: bool,
    /// Run the real chronyd too, on hosts with such oscillators, in virtual time
    #[arg(long)]
    chronyd: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Where to write
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The same seed gives the same page
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per figure and line
    #[arg(long)]
    json: bool,
}

impl Clock {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.experiment {
            Which::Dvfs(dvfs) => dvfs.run(),
            Which::NtpSteps(steps) => steps.run(),
        }
    }
}

impl Dvfs {
    fn run(self) -> Result<ExitCode, Failure> {
        let trace = self.trace.as_ref().map(|path| {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
            text.parse()
                .map_err(|error| Failure::usage(format!("{shown}: {error}")))
        });
        let trace = trace.transpose()?;
        let mut figures = Vec::new();
        if !self.no_machine {
            let options = Options {
                quick: true,
                only: None,
                worker: Vec::new(),
                remark: |text| eprintln!("timeloom: {text}"),
            };
            timeloom_bench::read_costs(&options, &mut |figure| figures.push(figure))?;
        }
        let experiment = timeloom_lab::dvfs(trace.as_ref(), &figures, self.common.seed);
        self.common.give(&experiment, "runs/clock-dvfs")
    }
}

impl NtpSteps {
    fn run(self) -> Result<ExitCode, Failure> {
        const DEFAULT: &str = "runs/clock-ntp-steps";
        let mut rows = Vec::new();
        if self.chronyd {
            let interrupted = Arc::new(AtomicBool::new(false));
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                signal_hook::flag::register(signal, Arc::clone(&interrupted))
                    .map_err(|error| Failure::run(format!("handling signals: {error}")))?;
            }
            rows = chronyd_corrections(Chronyd {
                directory: self.common.directory(DEFAULT).join("chronyd"),
                seed: self.common.seed,
                questions: if self.quick { 6 } else { 20 },
                interrupted,
                warn: Arc::new(|text| eprintln!("timeloom: {text}")),
            })?;
        }
        let experiment = timeloom_lab::ntp_steps(self.common.seed, self.quick, &rows);
        self.common.give(&experiment, DEFAULT)
    }
}

impl From<ChronydError> for Failure {
    fn from(error: ChronydError) -> Self {
        match error {
            ChronydError::Missing => Self::machine(error),
            ChronydError::Run(error) => error.into(),
            _ => Self::run(error),
        }
    }
}

impl Common {
    fn directory(&self, default: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| default.into())
    }

    fn give(self, experiment: &Experiment, default: &str) -> Result<ExitCode, Failure> {
        give(experiment, &self.directory(default), self.json)
    }
}

/// Writes an experiment's page and prints its tables or rows.
pub(crate) fn give(
    experiment: &Experiment,
    directory: &Path,
    json: bool,
) -> Result<ExitCode, Failure> {
    let written = experiment
        .write(directory)
        .map_err(|error| Failure::run(format!("{}: {error}", directory.display())))?;
    if json {
        experiment.rows.iter().for_each(|row| println!("{row}"));
    } else {
        println!("{}", experiment.text());
    }
    eprintln!("timeloom: {}", written.page.display());
    Ok(ExitCode::SUCCESS)
}
