//! `timeloom clock`: experiments about clocks from the papers.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Parser, Subcommand};
use timeloom_bench::Options;
use timeloom_bench::lab::{Chronyd, chronyd_corrections};
use timeloom_run::exit::{Failure, note};

fn main() -> ExitCode {
    let done = Clock::parse().run();
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Repeat the RVEC paper's experiments about clocks.
#[derive(Parser)]
#[command(name = "timeloom clock", bin_name = "timeloom clock", version)]
struct Clock {
    #[command(subcommand)]
    experiment: ExperimentCommand,
}

#[derive(Subcommand)]
enum ExperimentCommand {
    Dvfs(Dvfs),
    NtpSteps(NtpSteps),
}

/// Compare the raw cycle counter with RVEC under wraps and changes of frequency, and measure the
/// cost of each clock on this machine.
///
/// The core is simulated: a counter of 32 bits, 400 and 800 MHz. Writes index.html and a picture
/// per chart; prints the tables.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom clock dvfs -o out\n\nA trace has one stage a line: `2 s 800 MHz`, `50 us to 400 MHz`, `10 ms idle`."
)]
struct Dvfs {
    /// Trace of the simulated core, in place of the paper's experiments
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Do not measure this machine
    #[arg(long)]
    no_machine: bool,
    /// Output directory
    #[arg(short, long, value_name = "DIR", default_value = "runs/clock-dvfs")]
    output: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Measure NTP's corrections by the interval between its requests.
///
/// Oscillators, network and client are simulated, in virtual time, so long intervals take no real
/// time. With --chronyd the real one is run in addition to the model; that needs root.
#[derive(Args)]
#[command(after_help = "Example: timeloom clock ntp-steps --quick")]
struct NtpSteps {
    /// A tenth of the paper's runs; with --chronyd 6 requests instead of 20
    #[arg(long)]
    quick: bool,
    /// Run the real chronyd too, on hosts with such oscillators, in virtual time
    #[arg(long)]
    chronyd: bool,
    /// Output directory
    #[arg(
        short,
        long,
        value_name = "DIR",
        default_value = "runs/clock-ntp-steps"
    )]
    output: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Seed of all randomness: equal seeds give equal pages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per figure and line
    #[arg(long)]
    json: bool,
}

impl Clock {
    fn run(self) -> Result<(), Failure> {
        match self.experiment {
            ExperimentCommand::Dvfs(dvfs) => dvfs.run(),
            ExperimentCommand::NtpSteps(steps) => steps.run(),
        }
    }
}

impl Dvfs {
    fn run(self) -> Result<(), Failure> {
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
                guests: Vec::new(),
                worker: Vec::new(),
                remark: |text| note!("timeloom: {text}"),
            };
            timeloom_bench::read_costs(&options, &mut |figure| figures.push(figure))?;
        }
        let experiment = timeloom_bench::lab::dvfs(trace.as_ref(), &figures, self.common.seed);
        experiment.deliver(&self.output, self.common.json)
    }
}

impl NtpSteps {
    fn run(self) -> Result<(), Failure> {
        let mut rows = Vec::new();
        if self.chronyd {
            let interrupted = Arc::new(AtomicBool::new(false));
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                signal_hook::flag::register(signal, Arc::clone(&interrupted))
                    .map_err(|error| Failure::run(format!("handling signals: {error}")))?;
            }
            rows = chronyd_corrections(Chronyd {
                directory: self.output.join("chronyd"),
                seed: self.common.seed,
                questions: if self.quick { 6 } else { 20 },
                interrupted,
                warn: Arc::new(|text| note!("timeloom: {text}")),
            })?;
        }
        let experiment = timeloom_bench::lab::ntp_steps(self.common.seed, self.quick, &rows);
        experiment.deliver(&self.output, self.common.json)
    }
}
