//! `timeloom bench`: measures the performance that the project promises.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use timeloom_bench::{
    Machines, NET_FIGURES, NET_GROUPS, Name, Options, TABLE_HEADER, TCP_LOSSES, net_figures,
    pause_of_machines, worker_main,
};
use timeloom_run::exit::{Failure, note, say};

fn main() -> ExitCode {
    Bench::parse().run().unwrap_or_else(Failure::report)
}

/// Measure this machine: the cost of controlled time, compared with the same work without it
///
/// Figures are medians of interleaved rounds, with their 5th and 95th percentile, and compared with
/// the project's bars.
///
/// Names: clock-read, syscall, pause, skip, exec, plant, net, ptp, timeline, vm; `all` runs every
/// one.
#[derive(Parser)]
#[command(name = "timeloom bench", bin_name = "timeloom bench", version)]
#[command(after_help = "Example: timeloom bench clock-read --quick   timeloom bench all --json")]
struct Bench {
    /// Benchmark to run
    #[arg(required_unless_present = "worker")]
    name: Option<String>,
    /// Few rounds: everything together takes five minutes on two processors
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per figure and line
    #[arg(long)]
    json: bool,
    /// pause: instead, measure pauses agreed between so many machines (agents of this one, over
    /// loopback), as a table; 1,2,4 are those of Figure 7 of Hannon et al., PADS 2019
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..=64))]
    hosts: Vec<u64>,
    /// pause: with --hosts, number of processes on each of them
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "hosts",
          default_values = ["1", "2", "4", "8", "16"],
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    processes: Vec<u64>,
    /// pause: with --hosts, number of pauses of each combination [default: 128, with --quick 16]
    #[arg(long, value_name = "NUMBER", requires = "hosts",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pauses: Option<u64>,
    /// vm: numbers of simultaneous guests, one after another [default: 1,2,4,8, with --quick 1,2]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..=64))]
    guests: Vec<u64>,
    /// ptp: also write the curves as a page with charts into this directory; pause with
    /// --hosts and vm: write table and charts there;
    /// net: measure the paper's figures instead, as tables and plots (half an hour; with
    /// --quick staircases of 0.7 s)
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// net: only this group of figures (scale, dumbbell, fluid, wire, parallel, mpi, errors,
    /// realtime, virtual-time, engines) or, with --figures, only this one (figure-07 to
    /// figure-11, figure-07-wall, not-waiting, batch-size, hold-time, compression,
    /// arrival-errors) or, with --validate, only this loss (0.0001, 0.001, 0.01)
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// net: compare the models of TCP with this machine's kernel instead, as a page with a table
    /// and charts (minutes; needs root and iperf3)
    #[arg(long, value_name = "DIR", conflicts_with = "figures")]
    validate: Option<PathBuf>,
    /// Run as a measured worker process
    #[arg(long, hide = true)]
    worker: Option<String>,
}

impl Bench {
    fn run(self) -> Result<ExitCode, Failure> {
        if let Some(argument) = self.worker {
            return Ok(worker_main(&argument));
        }
        let name = self.name.clone().expect("clap demands it");
        let plots = name == "net" && self.figures.is_some();
        if let Some(only) = self.only.as_deref() {
            let known: &[&str] = match (plots, &self.validate) {
                (true, _) => &NET_FIGURES,
                (false, Some(_)) => &TCP_LOSSES,
                (false, None) => &NET_GROUPS,
            };
            if name != "net" || !known.contains(&only) {
                let known = known.join(", ");
                return Err(Failure::usage(format!(
                    "--only {only}: of `net` there are {known}"
                )));
            }
        }
        if let (Some(directory), true) = (&self.figures, plots) {
            net_figures(directory, self.only.as_deref(), self.quick, |text| {
                note!("timeloom: {text}");
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(directory) = &self.validate {
            return self.validate(&name, directory);
        }
        if !self.hosts.is_empty() {
            return self.machines(&name);
        }
        let names = match name.as_str() {
            "all" => Name::ALL.to_vec(),
            one => vec![
                one.parse()
                    .map_err(|text| Failure::usage(format!("`{one}`: {text}")))?,
            ],
        };
        if !self.guests.is_empty() && name != "vm" {
            return Err(Failure::usage("--guests is of `vm`"));
        }
        let options = self.options()?;
        if !self.json {
            say!("{TABLE_HEADER}");
        }
        let mut all = Vec::new();
        let measured = names.into_iter().try_for_each(|name| {
            timeloom_bench::run(name, &options, &mut |figure| {
                say!(
                    "{}",
                    if self.json {
                        figure.json()
                    } else {
                        figure.row()
                    }
                );
                all.push(figure);
            })
        });
        // After a failure, the measurements before it are drawn nevertheless.
        if let (Some(directory), "vm") = (&self.figures, name.as_str()) {
            let page = timeloom_bench::vm_page(&all);
            let written = page.write(directory);
            let failed = |error| Failure::run(format!("{}: {error}", directory.display()));
            note!("timeloom: {}", written.map_err(failed)?.page.display());
        } else if let Some(directory) = self.figures {
            timeloom_bench::write_ptp_document(&directory, &all).map_err(|error| {
                Failure::usage(format!("writing to {}: {error}", directory.display()))
            })?;
        }
        measured?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Bench {
    fn options(&self) -> Result<Options, Failure> {
        let mut guests: Vec<usize> = self.guests.iter().map(|it| *it as usize).collect();
        guests.sort_unstable();
        guests.dedup();
        let own = std::env::current_exe()
            .map_err(|error| Failure::machine(format!("finding our own program: {error}")))?;
        Ok(Options {
            quick: self.quick,
            only: self.only.clone(),
            guests,
            worker: vec![own.into_os_string(), "--worker".into()],
            remark: |text| note!("timeloom: {text}"),
        })
    }

    fn validate(&self, name: &str, directory: &Path) -> Result<ExitCode, Failure> {
        if name != "net" {
            return Err(Failure::usage("only `net` has models to validate"));
        }
        timeloom_bench::validate_tcp(&self.options()?)?.deliver(directory, self.json)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Measures pauses that several machines agree on (`pause --hosts`).
    fn machines(&self, name: &str) -> Result<ExitCode, Failure> {
        if name != "pause" {
            return Err(Failure::usage("--hosts is of `pause`"));
        }
        let numbers = |of: &[u64]| of.iter().map(|number| *number as usize).collect();
        let machines = Machines {
            hosts: numbers(&self.hosts),
            processes: numbers(&self.processes),
            pauses: self.pauses.unwrap_or(if self.quick { 16 } else { 128 }) as usize,
        };
        let measured = pause_of_machines(&self.options()?, &machines)?;
        match &self.figures {
            Some(directory) => measured.deliver(directory, self.json)?,
            None => measured.print(self.json),
        }
        Ok(ExitCode::SUCCESS)
    }
}
