//! Requests to a running session: `timeloom ps`, `pause`, `resume`, `dilate`, `step`, `run-until`,
//! `skip`, `register`, `unregister`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use timeloom_guest::{
    ControlError, HostRequest, HostText, ProcessText, Request, RequestedInstant, StatusText,
    connect, list_sessions, parse_factor, parse_instant, parse_span,
};
use timeloom_run::exit::{Failure, note, say};
use timeloom_time::Duration;

/// Session to which a request is sent, and output format of its answer.
#[derive(Args)]
pub(crate) struct Target {
    /// Name of the session; may be omitted if only one is running
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Target {
    pub(crate) fn send(&self, request: &Request) -> Result<ExitCode, Failure> {
        let status = connect(self.name.as_deref(), request)?;
        print(&status, self.json);
        Ok(ExitCode::SUCCESS)
    }
}

/// Hosts to which a request applies.
#[derive(Args)]
struct Recipients {
    /// Only this host of the session, by its own time, while the others continue; separate several
    /// names by commas, or repeat the option
    #[arg(long = "host", value_name = "NAME", value_delimiter = ',')]
    hosts: Vec<String>,
    #[command(flatten)]
    target: Target,
}

impl Recipients {
    /// Sends the request `all` for the whole session, or `hosts` for the named hosts.
    fn send(self, all: &Request, hosts: HostRequest) -> Result<ExitCode, Failure> {
        if self.hosts.is_empty() {
            return self.target.send(all);
        }
        self.target.send(&Request::Host {
            hosts: self.hosts,
            request: hosts,
        })
    }
}

/// Stop the clock and the processes of a running session, or of some of its hosts
///
/// A host that is paused alone falls behind the session. Packets that reach it from the network
/// wait in its kernel.
#[derive(Args)]
#[command(after_help = "Example: timeloom pause --host plc1,plc2")]
pub(crate) struct Pause {
    #[command(flatten)]
    recipients: Recipients,
}

impl Pause {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.recipients.send(&Request::Pause, HostRequest::Pause)
    }
}

/// Resume a paused session, or hosts of it that were paused alone
#[derive(Args)]
#[command(after_help = "Example: timeloom resume --name plc")]
pub(crate) struct Resume {
    #[command(flatten)]
    recipients: Recipients,
}

impl Resume {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.recipients.send(&Request::Resume, HostRequest::Resume)
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
        let all = self.name.is_none();
        let names = match self.name {
            Some(name) => vec![name],
            None => list_sessions().map_err(ControlError::from)?,
        };
        if names.is_empty() && !self.json {
            note!("timeloom: no session is running");
        }
        for name in names {
            let status = match connect(Some(&name), &Request::Query) {
                Ok(status) => status,
                // The session does not answer. The other sessions are listed nevertheless.
                Err(error @ ControlError::Silent { .. }) if all => {
                    print_silent(&name, &error, self.json);
                    continue;
                }
                // The session has ended since it was listed.
                Err(ControlError::NoSession { .. }) if all => continue,
                Err(error) => return Err(error.into()),
            };
            print(&status, self.json);
            if !self.json {
                say_processes(status.processes.as_deref().unwrap_or_default());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Change the number of wall seconds per virtual second
///
/// Programs that wait follow at once: from now on the rest of their wait takes more or less wall
/// time. If the session agrees on its pauses with other machines (agents), the clocks of all change
/// at one virtual instant, in a pause.
#[derive(Args)]
#[command(after_help = "Example: timeloom dilate 10   timeloom dilate 2 --host plc1")]
pub(crate) struct Dilate {
    /// Wall seconds per virtual second: 10 is ten times slower, 0.5 twice as fast. `inf` stops the
    /// clock, like `pause`; with 0, waiting takes no wall time, like `skip on`. For a host: seconds
    /// of the session per second of the host, from 0.001 to 1000, or `inf`
    #[arg(allow_negative_numbers = true, value_parser = parse_factor)]
    factor: f64,
    #[command(flatten)]
    recipients: Recipients,
}

impl Dilate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let hosts = match self.factor {
            f64::INFINITY => HostRequest::Pause,
            // A single host cannot skip: the session refuses zero as an impossible factor.
            factor => HostRequest::Dilate { factor },
        };
        self.recipients.send(&Request::dilate(self.factor), hosts)
    }
}

/// Let a paused session run for an exact span of virtual time, then pause it
///
/// The clock stops at exactly that instant for every program, even for one that waits. The
/// processes are stopped a moment later, and the answer states the delay. The command then returns.
/// A `timeloom pause` in the meantime ends the step early. A host that is paused alone runs for the
/// span by its own time, while the session continues.
///
/// In a session whose time moves by grants (`exec --stepped`, `mode = "stepped"`) the step is a
/// grant, and the answer states when the next program is due.
#[derive(Args)]
#[command(after_help = "Example: timeloom step '10 ms'")]
pub(crate) struct Step {
    /// Span of virtual time, e.g. 10ms or '1.5 s'
    #[arg(value_name = "SPAN", allow_hyphen_values = true, value_parser = parse_span)]
    span: Duration,
    #[command(flatten)]
    recipients: Recipients,
}

impl Step {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let span_ns = self.span.as_ns();
        self.recipients
            .send(&Request::Step { span_ns }, HostRequest::Step { span_ns })
    }
}

/// Let a session run until an instant of its clock, then pause it
///
/// Like `step`, for a session or for one of its hosts, which may be paused or running.
#[derive(Args)]
#[command(after_help = "Example: timeloom run-until '90 s'   timeloom run-until +250ms")]
pub(crate) struct RunUntil {
    /// Virtual time since the session began, e.g. '90 s'; with a + before it, relative to the
    /// present
    #[arg(value_name = "INSTANT", allow_hyphen_values = true, value_parser = parse_instant)]
    instant: RequestedInstant,
    #[command(flatten)]
    recipients: Recipients,
}

impl RunUntil {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let RequestedInstant { at, relative } = self.instant;
        let at_ns = at.as_ns();
        self.recipients.send(
            &Request::RunUntil { at_ns, relative },
            HostRequest::RunUntil { at_ns, relative },
        )
    }
}

/// Let time skip to the next event while every program waits
///
/// Waiting then takes no wall time; computing takes its usual time. The session does not wait for
/// input from outside (a server on the network, a key press): timeouts expire before it arrives.
#[derive(Args)]
#[command(after_help = "Example: timeloom skip on")]
pub(crate) struct Skip {
    /// Switch skipping on or off
    skip: Switch,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Skip {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.target.send(&Request::Skip {
            on: matches!(self.skip, Switch::On),
        })
    }
}

/// Bring a running program into a session
///
/// From now on all its threads have the session's time. The program stays in the session until
/// `timeloom unregister`, or until the session ends, which ends the program. Timers that it has
/// already armed stay in real time, and processes that it has already started stay outside.
#[derive(Args)]
#[command(after_help = "Example: timeloom register $(pidof -s redis-server)")]
pub(crate) struct Register {
    /// Process ID of the program
    pid: i32,
    #[command(flatten)]
    target: Target,
}

impl Register {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.target.send(&Request::Register { pid: self.pid })
    }
}

/// Release a program that was brought in by `register`
///
/// All processes that it has started since are released, too. Their clocks are the machine's again,
/// and the rest of their waits and timers is in real time. They outlive the session.
#[derive(Args)]
#[command(after_help = "Example: timeloom unregister $(pidof -s redis-server)")]
pub(crate) struct Unregister {
    /// Process ID of the program
    pid: i32,
    #[command(flatten)]
    target: Target,
}

impl Unregister {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.target.send(&Request::Unregister { pid: self.pid })
    }
}

/// Prints a table of processes. The columns for host and program are omitted if they would be
/// empty.
fn say_processes(processes: &[ProcessText]) {
    let columns = [
        |one: &ProcessText| one.host.clone().unwrap_or_default(),
        |one: &ProcessText| one.program.clone().unwrap_or_default(),
    ];
    let widths = columns.map(|column| {
        let widths = processes.iter().map(|one| column(one).chars().count());
        widths.max().unwrap_or(0)
    });
    for one in processes {
        let mut line = format!("  {:>8}", one.pid);
        for (column, width) in columns.iter().zip(widths) {
            if width > 0 {
                line += &format!("  {:width$}", column(one));
            }
        }
        say!("{line}  {}", one.name);
    }
}

/// Prints what is known about a session that does not answer.
fn print_silent(name: &str, error: &ControlError, json: bool) {
    match json {
        true => say!(
            "{}",
            serde_json::json!({ "name": name, "error": error.to_string() })
        ),
        false => say!("{error}"),
    }
}

/// Prints a status, on one line or as an object.
pub(crate) fn print(status: &StatusText, json: bool) {
    if json {
        say!(
            "{}",
            serde_json::to_string(status).expect("a status is plain data")
        );
        return;
    }
    let s = |ns: i64| format!("{:.6} s", Duration::from_ns(ns).as_s_f64());
    say!(
        "{}: virtual {}, wall {}, paused {}, dilation {}{}, {}{}",
        status.name,
        s(status.virtual_ns),
        s(status.wall_ns),
        s(status.paused_total_ns),
        status.dilation,
        if status.skipping { " and skipping" } else { "" },
        if status.paused { "standing" } else { "running" },
        match &status.processes {
            Some(all) => format!(", {} processes", all.len()),
            None => String::new(),
        },
    );
    if let Some(standing) = &status.standing {
        let next = match standing.next_deadline_ns {
            _ if standing.ended => "the session has ended".to_owned(),
            Some(ns) => format!("the next deadline is at {}", Duration::from_ns(ns)),
            None => "all programs wait for data".to_owned(),
        };
        say!("  {} grants so far; {next}", standing.grants);
    }
    for host in status.hosts.iter().filter(|host| is_off(host)) {
        let off = Duration::from_ns(host.behind_ns.saturating_abs()).as_s_f64();
        let way = if host.behind_ns < 0 {
            "ahead"
        } else {
            "behind"
        };
        say!(
            "  host {}: {off:.6} s {way}, dilation {}, {}",
            host.name,
            host.dilation,
            if host.paused { "standing" } else { "running" },
        );
    }
    if let Some(after_ns) = status.stopped_after_ns {
        let after_us = after_ns as f64 / 1e3;
        match status.paused {
            true => say!(
                "  the clock stopped at {}; all processes were stopped {after_us:.0} µs later",
                Duration::from_ns(status.virtual_ns),
            ),
            false => say!("  all processes were stopped {after_us:.0} µs after their clock"),
        }
    }
}

/// Returns true if the host's own time differs from the session's.
fn is_off(host: &HostText) -> bool {
    host.paused || host.behind_ns != 0 || host.dilation != 1.0
}
