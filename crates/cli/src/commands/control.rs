//! `timeloom ps`, `pause`, `resume`, `dilate`, `query`, `register`: requests to
//! a running session.

use std::process::ExitCode;

use clap::Args;
use timeloom_guest::{Request, StatusText, connect, list_sessions};
use timeloom_time::Duration;

use crate::exit::Failure;

/// Which session, and how to print its answer.
#[derive(Args)]
pub(crate) struct Target {
    /// The session; may be left out when only one runs
    #[arg(long)]
    name: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Target {
    pub(crate) fn send(&self, request: &Request) -> Result<ExitCode, Failure> {
        let status = connect(self.name.as_deref(), request)?;
        print(&status, self.json);
        Ok(ExitCode::SUCCESS)
    }
}

/// List running sessions and their processes.
#[derive(Args)]
pub(crate) struct Ps {
    /// Only this session
    #[arg(long)]
    name: Option<String>,
    /// Print one JSON object per session and line
    #[arg(long)]
    json: bool,
}

impl Ps {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let names = match self.name {
            Some(name) => vec![name],
            None => list_sessions(),
        };
        if names.is_empty() && !self.json {
            eprintln!("timeloom: no session is running");
        }
        for name in names {
            let status = connect(Some(&name), &Request::Query)?;
            print(&status, self.json);
            if !self.json {
                for process in &status.processes {
                    println!("  {:>8}  {}", process.pid, process.name);
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Change how many wall seconds a virtual second takes
///
/// Programs that wait already follow: what is left of their wait takes more or
/// less wall time from now on.
#[derive(Args)]
pub(crate) struct Dilate {
    /// Wall seconds per virtual second: 10 is ten times slower, 0.5 twice as fast
    factor: f64,
    #[command(flatten)]
    target: Target,
}

impl Dilate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.target.send(&Request::Dilate {
            factor: self.factor,
        })
    }
}

/// Bring a running program into a session
///
/// With all its threads; its clocks show the session's time from then on. It
/// stays in until the session ends, and is ended with it. Timers that it has
/// armed already stay in real time, and processes that it has started already
/// stay outside.
#[derive(Args)]
pub(crate) struct Register {
    /// The program's process identifier
    pid: i32,
    #[command(flatten)]
    target: Target,
}

impl Register {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.target.send(&Request::Register { pid: self.pid })
    }
}

fn print(status: &StatusText, json: bool) {
    if json {
        println!(
            "{}",
            serde_json::to_string(status).expect("a status is plain data")
        );
        return;
    }
    let s = |ns: i64| format!("{:.6} s", Duration::from_ns(ns).as_s_f64());
    println!(
        "{}: virtual {}, wall {}, paused {}, dilation {}, {}, {} processes",
        status.name,
        s(status.virtual_ns),
        s(status.wall_ns),
        s(status.paused_total_ns),
        status.dilation,
        if status.paused { "standing" } else { "running" },
        status.processes.len(),
    );
}
