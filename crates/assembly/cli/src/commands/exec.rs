//! Command `timeloom exec`: runs any program under a virtual clock.

use std::ffi::OsString;
use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use clap::Args;
use rustix::process::{Pid, kill_process_group};
use timeloom_guest::{
    ClockOptions, CommandSpec, Compute, FileTimes, GranterCheck, Grants, Guest, Output, ProcFiles,
    Session, SessionOptions, Stepped, SteppedSession, Tsc, end_grants, parse_factor, parse_span,
    serve,
};
use timeloom_run::exit::{Failure, note};
use timeloom_sys::command::{Signal, ignore};
use timeloom_time::{Duration, Instant, Utc};

use super::identity::Identity;
use super::inside;
use super::terminal::Terminal;
use super::words::words_of;

/// Run a program under a virtual clock
///
/// All processes that the program starts are included. Exits with the program's status (128 + the
/// signal's number if it was killed).
///
/// The program needs no changes: its clock reads, sleeps and timeouts follow virtual time. Needs no
/// root. While the program runs, `timeloom pause`, `resume`, `dilate` and `query` act on it. When
/// it ends, its background processes are ended too, because their clock ends with the supervisor.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom exec --dilate 10 -- sleep 1   (takes ten seconds of wall time)"
)]
pub(crate) struct Exec {
    /// Wall seconds per virtual second. As with `timeloom dilate`, 0 makes waiting take no wall
    /// time (--skip), and `inf` stops the clock (--paused)
    #[arg(long, default_value_t = 1.0, value_name = "F", value_parser = parse_factor)]
    dilate: f64,
    /// Civil time shown at the start, e.g. 2019-06-03T00:00:00Z [default: the machine's]
    #[arg(long, value_name = "RFC3339", value_parser = parse_start)]
    start: Option<Instant<Utc>>,
    /// Start with the clock stopped; `timeloom resume` starts it
    #[arg(long)]
    paused: bool,
    /// Skip to the next event while every program waits (`timeloom skip` switches this on and off)
    #[arg(long)]
    skip: bool,
    /// With --skip: virtual time that computing takes: the real time that the machine needs (real),
    /// or none: time is stopped while any program computes
    #[arg(long, requires = "skip", value_enum, default_value_t = Compute::Real, value_parser = words_of::<Compute>(), value_name = "HOW")]
    compute: Compute,
    /// Start stopped, and advance only as far as granted from outside: by `timeloom step` and
    /// `run-until`, or by a simulator over the control socket
    #[arg(long, conflicts_with = "paused")]
    stepped: bool,
    /// With --stepped: maximum wall time without a granter; then the session is ended
    #[arg(long, requires = "stepped", default_value = "60 s", value_name = "SPAN", value_parser = parse_span)]
    patience: Duration,
    /// Time-stamp counter (rdtsc, rdtscp) that programs read: the machine's, which shows real time;
    /// or a virtual one, with which each read traps and clock reads are slower
    #[arg(long, value_enum, default_value_t = Tsc::Native, value_parser = words_of::<Tsc>(), value_name = "HOW")]
    tsc: Tsc,
    /// Contents of /proc/uptime and /proc/stat that programs read: uptime and boot time by their
    /// clock, in a mount namespace of their own (needs root and FUSE); or the machine's, in the
    /// machine's mount namespace
    #[arg(long, value_enum, default_value_t = ProcFiles::Virtual, value_parser = words_of::<ProcFiles>(), value_name = "WHOSE")]
    proc: ProcFiles,
    /// Dates of files that programs see: the machine's; or, for files written in the session, those
    /// of the host's clock, with which each `stat` traps
    #[arg(long, value_enum, default_value_t = FileTimes::Machine, value_parser = words_of::<FileTimes>(), value_name = "WHOSE")]
    file_times: FileTimes,
    #[command(flatten)]
    identity: Identity,
    /// Set a variable of the program or, without a value, pass on the caller's. A program of
    /// another user otherwise inherits only the usual ones (PATH, LANG, LC_*, TZ, TERM). May be
    /// given several times
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<(OsString, OsString)>,
    /// Name of the session, for `timeloom pause --name` and other commands [default: exec-PID]
    #[arg(long)]
    name: Option<String>,
    /// Run the program on this host of the current run, in the host's network and on its clock
    /// (`timeloom shell` opens a shell there). With --name, of the run that has this session name
    #[arg(long = "in", value_name = "HOST", conflicts_with_all = [
        "dilate", "start", "paused", "skip", "compute", "stepped", "patience", "tsc", "proc",
        "file_times", "report_leaks", "allow_leaks", "env",
    ])]
    host: Option<String>,
    /// At the end, list every call that showed real time to the program: call, outcome, count,
    /// first caller
    #[arg(long)]
    report_leaks: bool,
    /// Let programs use features that cannot be virtualised (io_uring); they are performed in real
    /// time and reported, and not refused
    #[arg(long)]
    allow_leaks: bool,
    /// Do not report calls that are not virtualised
    #[arg(long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.host.is_some() {
            return inside::run(
                self.host,
                self.name.as_deref(),
                &self.command,
                &self.identity,
            );
        }
        let quiet = self.quiet;
        let (dilation, skip, paused) = match self.dilate {
            0.0 => (1.0, true, self.paused),
            f64::INFINITY => (1.0, self.skip, true),
            factor => (factor, self.skip, self.paused),
        };
        let tsc = self.tsc;
        let rights = self.identity.rights()?;
        let session = Arc::new(Session::new(SessionOptions {
            name: self
                .name
                .unwrap_or_else(|| format!("exec-{}", std::process::id())),
            clock: ClockOptions {
                up_for: None,
                start: self.start,
                dilation,
                paused: paused || self.stepped,
                tsc,
                proc: self.proc,
                files: self.file_times,
                compute: self.compute,
            },
            warn: Box::new(move |text| {
                if !quiet {
                    note!("timeloom: {text}");
                }
            }),
        })?);
        if self.allow_leaks {
            session.allow_leaks();
        }
        if let Some(reason) = session.machine_files()
            && self.proc == ProcFiles::Virtual
            && !quiet
        {
            note!("timeloom: {reason}");
        }
        session.set_skipping(skip);
        let patience = StdDuration::from_nanos(self.patience.as_ns().unsigned_abs());
        let stepped = self.stepped.then(|| {
            let clock = Arc::clone(session.clock());
            let grants = Arc::new(Grants::new(clock, patience, None));
            Arc::new(SteppedSession::new(Arc::clone(&session), grants))
        });
        match &stepped {
            Some(stepped) => serve(stepped)?,
            None => serve(&session)?,
        }
        // The terminal also sends Ctrl-C to the program, which decides how to react.
        ignore_terminal_signals();
        let interrupted = Arc::new(AtomicBool::new(false));
        if stepped.is_some() {
            // A program that is stopped cannot react to a signal.
            signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))
                .map_err(|error| Failure::run(format!("handling signals: {error}")))?;
        }
        let is_another = rights.is_some();
        let terminal = match is_another && stdin().is_terminal() && stdout().is_terminal() {
            true => Some(Terminal::open().map_err(doing("making a terminal"))?),
            false => None,
        };
        let output = match is_another {
            true => streams(terminal.as_ref()).map_err(doing("duplicating a stream"))?,
            false => Output::Inherit,
        };
        // A program of another user leads a session of its own. If it has no terminal of its own,
        // Ctrl-C that is typed on this process's terminal does not reach the program.
        let forwarded = (is_another && terminal.is_none())
            .then(Forwarded::register)
            .transpose()
            .map_err(doing("handling signals"))?;
        let guest = session.spawn(&CommandSpec {
            rights,
            env: self.env.into_iter().collect(),
            output,
            ..CommandSpec::new(self.command)
        })?;
        let end = || match (stepped, forwarded) {
            (Some(stepped), _) => see_through(&session, &stepped, &guest, &interrupted),
            (None, Some(forwarded)) => Ok(forwarded.wait(&guest)),
            (None, None) => Ok(guest.wait()),
        };
        let status = match terminal {
            Some(terminal) => terminal.relay(end),
            None => end(),
        };
        let why = status.as_ref().ok().copied();
        if let Some(why) = why.and_then(|status| session.explain_end(status)) {
            note!("timeloom: {why}");
        }
        let left = session.processes().unwrap_or_default();
        if !left.is_empty() && !quiet {
            let names: Vec<String> = left
                .iter()
                .map(|process| format!("{} ({})", process.name, process.pid))
                .collect();
            note!("timeloom: ending with the session: {}", names.join(", "));
        }
        if self.report_leaks {
            report_leaks(&session, tsc);
        }
        if let Some(doubt) = session.clock().doubt_of_file_dates() {
            note!("timeloom: {doubt}");
        }
        session.finish_answers();
        // The thread that performs skips must not be the one that drops the session.
        session.set_skipping(false);
        drop(session);
        Ok(ExitCode::from(status? as u8))
    }
}

fn doing(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::run(format!("{what}: {error}"))
}

/// Returns the streams of a program that must not share this process's terminal: those of
/// `terminal`, or this process's streams if they are not a terminal.
fn streams(terminal: Option<&Terminal>) -> io::Result<Output> {
    let ours = (stdin(), stdout(), stderr());
    let is_redirected = !ours.2.is_terminal();
    let chosen = match terminal {
        Some(terminal) => {
            let theirs = terminal.theirs();
            let errors = if is_redirected {
                ours.2.as_fd()
            } else {
                theirs
            };
            [theirs, theirs, errors]
        }
        None => [ours.0.as_fd(), ours.1.as_fd(), ours.2.as_fd()],
    };
    let [input, output, errors] = chosen.map(|stream| stream.try_clone_to_owned());
    Ok(Output::Streams {
        streams: [input?, output?, errors?],
        is_terminal: terminal.is_some(),
    })
}

/// Forwarding of Ctrl-C and Ctrl-\ to a program that leads a session of its own.
struct Forwarded([(Signal, Arc<AtomicBool>); 2]);

impl Forwarded {
    fn register() -> io::Result<Self> {
        let register = |signal: Signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))?;
            Ok::<_, io::Error>((signal, flag))
        };
        Ok(Self([register(Signal::INT)?, register(Signal::QUIT)?]))
    }

    /// Waits for the end of the program, and forwards signals to its process group until then.
    fn wait(&self, guest: &Guest) -> i32 {
        loop {
            if let Some(status) = guest.wait_for(Some(LOOK_EVERY)) {
                return status;
            }
            for (signal, came) in &self.0 {
                if came.swap(false, Ordering::SeqCst)
                    && let Some(leader) = Pid::from_raw(guest.pid())
                {
                    let _ = kill_process_group(leader, *signal);
                }
            }
        }
    }
}

/// Waits for the end of a program whose time is granted. Ends the program if no granter has come in
/// time, or if the user types Ctrl-C while it is stopped.
fn see_through(
    session: &Session,
    stepped: &SteppedSession,
    guest: &Guest,
    interrupted: &AtomicBool,
) -> Result<i32, Failure> {
    let grants = stepped.grants();
    grants.open();
    let give_up = || {
        end_grants(stepped, false);
        session.kill_all();
        guest.wait();
    };
    loop {
        if let Some(status) = guest.wait_for(Some(LOOK_EVERY)) {
            end_grants(stepped, true);
            return Ok(status);
        }
        match grants.look() {
            GranterCheck::Fine => {}
            GranterCheck::Alone(text) => note!("timeloom: {text}"),
            GranterCheck::GaveUp(text) => {
                give_up();
                return Err(Failure::run(format!("granter: {text}")));
            }
        }
        if interrupted.swap(false, Ordering::SeqCst) && session.clock().is_paused() {
            give_up();
            return Ok(128 + libc::SIGINT);
        }
    }
}

/// Polling interval for a program that is stopped.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(200);

fn report_leaks(session: &Session, tsc: Tsc) {
    let leaks = session.unhandled_calls();
    let unseen = match tsc {
        Tsc::Native if cfg!(not(target_arch = "x86_64")) => {
            " (reads of the processor's counter are not seen)"
        }
        Tsc::Native => {
            " (reads of the time-stamp counter are not seen; `--tsc emulate` makes them virtual)"
        }
        Tsc::Emulate => "",
    };
    note!("timeloom: {} real-time paths used{unseen}", leaks.len());
    if let Some(reason) = session.machine_files() {
        note!("  readers of time files: {reason}");
    }
    for leak in leaks {
        note!(
            "  {:<16} {:<16} × {:<8} {:<28} {}",
            leak.program,
            leak.call,
            leak.count,
            leak.outcome,
            leak.site
        );
    }
}

pub(crate) fn parse_start(text: &str) -> Result<Instant<Utc>, Failure> {
    let stamp: jiff::Timestamp = text
        .parse()
        .map_err(|error| Failure::usage(format!("{error}; write it like 2019-06-03T00:00:00Z")))?;
    let ns = i64::try_from(stamp.as_nanosecond())
        .map_err(|_| Failure::usage("the year must lie between 1678 and 2262"))?;
    Ok(Instant::from_ns(ns))
}

/// Parses `NAME=VALUE`, or the name of a variable whose value is that of this process.
fn parse_variable(text: &str) -> Result<(OsString, OsString), Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.into()),
        None => {
            let missing = || {
                Failure::usage(format!(
                    "there is no variable `{text}` to pass on: set it, or write `{text}=VALUE`"
                ))
            };
            (text, std::env::var_os(text).ok_or_else(missing)?)
        }
    };
    match name.is_empty() {
        true => Err(Failure::usage(
            "the variable has no name: write `NAME=VALUE`",
        )),
        false => Ok((name.into(), value)),
    }
}

pub(crate) fn ignore_terminal_signals() {
    for signal in [Signal::INT, Signal::QUIT] {
        ignore(signal);
    }
}
