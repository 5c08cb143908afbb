//! Subcommands of `timeloom`, one in each file.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use timeloom_run::exit::Failure;

mod agent;
mod attack;
mod bridge;
mod check;
mod clean;
mod compare;
mod control;
mod doctor;
mod engine;
mod exec;
mod gdb;
mod hold;
mod identity;
mod inside;
mod interruption;
mod link;
mod logging;
mod logs;
mod manual;
mod new;
mod ptp;
mod query;
mod report;
mod run;
mod schema;
mod search_path;
mod serve;
mod sibling;
mod sweep;
mod table;
mod terminal;
mod timeline;
mod vm;
mod why;
mod words;

use sibling::{Sibling, Words};

/// Real programs, simulated networks and simulated physics in one fabric of time.
#[derive(Parser)]
#[command(
    name = "timeloom",
    version,
    arg_required_else_help = true,
    after_help = "To begin:  timeloom doctor                      # what this machine can do\n           timeloom exec --dilate 3 -- sleep 1  # one program on a clock of its own\n           timeloom new tank plant; timeloom run plant/experiment.toml"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log as one JSON object per line, to stderr; the variable TIMELOOM_LOG is the filter, by
    /// default `info`
    #[arg(long, global = true)]
    log_json: bool,
}

// A comment on a variant would replace the command's own text in `--help`. Only variants whose
// arguments are shared with other commands have one.
#[derive(Subcommand)]
enum Command {
    Exec(exec::Exec),
    Shell(inside::Shell),
    Gdb(gdb::Gdb),
    /// List running sessions and their processes
    Ps(control::Ps),
    Pause(control::Pause),
    Resume(control::Resume),
    Hold(hold::HoldCommand),
    Dilate(control::Dilate),
    Step(control::Step),
    RunUntil(control::RunUntil),
    Skip(control::Skip),
    Query(query::Query),
    Register(control::Register),
    Unregister(control::Unregister),
    Leave(engine::Leave),
    Join(engine::Join),
    Link(link::Link),
    #[command(subcommand)]
    Attack(attack::Attack),
    New(new::New),
    Run(run::Run),
    Logs(logs::Logs),
    Serve(serve::Serve),
    Agent(agent::Agent),
    Engine(engine::Engine),
    #[command(subcommand)]
    Bridge(bridge::Bridge),
    Check(check::Check),
    Schema(schema::Schema),
    Report(report::ReportCommand),
    Compare(compare::Compare),
    Sweep(sweep::Sweep),
    Doctor(doctor::Doctor),
    Clean(clean::Clean),
    /// Repeat the RVEC paper's experiments about clocks
    Clock(Words),
    /// Keep clocks with a known error, and show them
    #[command(subcommand)]
    Timeline(timeline::Timeline),
    /// Give virtual machines the timelines of this machine
    #[command(subcommand)]
    Vm(vm::Vm),
    /// Measure this machine: the cost of time under control, compared with the same without it
    Bench(Words),
    Ptp(ptp::Ptp),
    Completions(manual::Completions),
    Man(manual::Man),
}

impl Arguments {
    /// Parses the arguments of this process. Ends the process if they are wrong.
    pub(crate) fn of_process() -> Self {
        Self::parse_from(sibling::arguments())
    }
}

/// Executes the command. The exit code is 0, or that of the program that `exec` has run.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    logging::install(arguments.log_json)?;
    if matches!(
        arguments.command,
        Command::Exec(_)
            | Command::Run(_)
            | Command::Agent(_)
            | Command::Engine(_)
            | Command::Serve(_)
            | Command::Timeline(_)
            | Command::Vm(_)
    ) {
        // Each host and each client needs descriptors. If the kernel refuses, the limit stays as it
        // was.
        let _ = timeloom_sys::limit::raise_descriptors();
    }
    match arguments.command {
        Command::Exec(command) => command.run(),
        Command::Shell(command) => command.run(),
        Command::Gdb(command) => command.run(),
        Command::New(command) => command.run(),
        Command::Logs(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Completions(command) => command.run(Arguments::command()),
        Command::Man(command) => command.run(Arguments::command()),
        Command::Ps(command) => command.run(),
        Command::Pause(command) => command.run(),
        Command::Resume(command) => command.run(),
        Command::Hold(command) => command.run(),
        Command::Dilate(command) => command.run(),
        Command::Step(command) => command.run(),
        Command::RunUntil(command) => command.run(),
        Command::Skip(command) => command.run(),
        Command::Query(command) => command.run(),
        Command::Register(command) => command.run(),
        Command::Unregister(command) => command.run(),
        Command::Leave(command) => command.run(),
        Command::Join(command) => command.run(),
        Command::Link(command) => command.run(),
        Command::Attack(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Agent(command) => command.run(),
        Command::Engine(command) => command.run(),
        Command::Bridge(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Schema(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Sweep(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Clean(command) => command.run(),
        Command::Clock(words) => match Sibling::Clock.exec(&words)? {},
        Command::Timeline(command) => command.run(),
        Command::Vm(command) => command.run(),
        Command::Bench(words) => match Sibling::Bench.exec(&words)? {},
        Command::Ptp(command) => command.run(),
    }
}
