//! `timeloom exec`: any program under a virtual clock.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use timeloom_guest::{ClockOptions, CommandSpec, Session, SessionOptions, Tsc, serve};
use timeloom_time::{Instant, Utc};

use crate::exit::Failure;

/// Run a program under a virtual clock
///
/// The program, and everything it starts. Exits with its status (128 + the
/// signal's number when it was killed).
///
/// The program need not know: clock reads, sleeps and timeouts follow virtual
/// time. Needs no root. While it runs, `timeloom pause`, `resume`, `dilate` and
/// `query` act on it. When the program ends, what it left in the background is
/// ended too, for without a supervisor there is no clock.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom exec --dilate 10 -- sleep 1   (takes ten seconds of wall time)"
)]
pub(crate) struct Exec {
    /// Wall seconds per virtual second
    #[arg(long, default_value_t = 1.0, value_name = "F")]
    dilate: f64,
    /// What the clock shows at the start, e.g. 2019-06-03T00:00:00Z [default: the machine's time]
    #[arg(long, value_name = "RFC3339", value_parser = parse_start)]
    start: Option<Instant<Utc>>,
    /// Start with the clock standing; `timeloom resume` lets it go
    #[arg(long)]
    paused: bool,
    /// While every program waits, skip to the next thing that happens
    /// (`timeloom skip` switches that on and off)
    #[arg(long)]
    skip: bool,
    /// What programs see of the processor's time-stamp counter (rdtsc, rdtscp):
    /// the machine's own, which is real time; or a virtual one, at the cost of a
    /// trap per read and slower clock reads
    #[arg(long, value_enum, default_value_t = TscChoice::Native, value_name = "HOW")]
    tsc: TscChoice,
    /// Name of the session, for `timeloom pause --name` and others [default: exec-PID]
    #[arg(long)]
    name: Option<String>,
    /// At the end list every real-time path that the program used: call,
    /// outcome, count, first site
    #[arg(long)]
    report_leaks: bool,
    /// Let programs use what cannot be virtualised (io_uring): done in real
    /// time and reported, instead of refused
    #[arg(long)]
    allow_leaks: bool,
    /// Do not say which calls are not virtualised
    #[arg(long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// [`Tsc`] as an argument.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TscChoice {
    Native,
    Emulate,
}

impl Exec {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let quiet = self.quiet;
        let tsc = match self.tsc {
            TscChoice::Native => Tsc::Native,
            TscChoice::Emulate => Tsc::Emulate,
        };
        let session = Arc::new(Session::new(SessionOptions {
            name: self
                .name
                .unwrap_or_else(|| format!("exec-{}", std::process::id())),
            clock: ClockOptions {
                start: self.start,
                dilation: self.dilate,
                paused: self.paused,
                tsc,
            },
            warn: Box::new(move |text| {
                if !quiet {
                    eprintln!("timeloom: {text}");
                }
            }),
        })?);
        if self.allow_leaks {
            session.allow_leaks();
        }
        session.set_skipping(self.skip);
        serve(&session)?;
        // The terminal sends Ctrl-C to the program as well; it decides.
        ignore_terminal_signals();
        let guest = session.spawn(&CommandSpec::new(self.command))?;
        let status = guest.wait();
        let left = session.status().processes;
        if !left.is_empty() && !quiet {
            let names: Vec<String> = left
                .iter()
                .map(|(pid, name)| format!("{name} ({pid})"))
                .collect();
            eprintln!("timeloom: ending with the session: {}", names.join(", "));
        }
        if self.report_leaks {
            report_leaks(&session, tsc);
        }
        // The thread that skips must not be the one that the session ends in.
        session.set_skipping(false);
        drop(session);
        Ok(ExitCode::from(status as u8))
    }
}

fn report_leaks(session: &Session, tsc: Tsc) {
    let leaks = session.unhandled_calls();
    let unseen = match tsc {
        Tsc::Native => {
            " (reads of the time-stamp counter are not seen; `--tsc emulate` makes them virtual)"
        }
        Tsc::Emulate => "",
    };
    eprintln!("timeloom: {} real-time paths used{unseen}", leaks.len());
    for leak in leaks {
        eprintln!(
            "  {:<16} {:<16} × {:<8} {:<28} {}",
            leak.program, leak.call, leak.count, leak.outcome, leak.site
        );
    }
}

fn parse_start(text: &str) -> Result<Instant<Utc>, String> {
    let stamp: jiff::Timestamp = text
        .parse()
        .map_err(|error| format!("{error}; write it like 2019-06-03T00:00:00Z"))?;
    let ns = i64::try_from(stamp.as_nanosecond())
        .map_err(|_| "the year must lie between 1678 and 2262".to_owned())?;
    Ok(Instant::from_ns(ns))
}

fn ignore_terminal_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: no handler is installed, only the disposition changes.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
