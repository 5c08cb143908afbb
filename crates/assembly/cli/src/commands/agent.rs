//! Command `timeloom agent`: runs one machine of a testbed that has several.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use clap::{Args, ValueEnum};
use timeloom_guest::{ClockOptions, CommandSpec, Session, SessionOptions, parse_span, serve};
use timeloom_run::agent::{
    AgentTimeline, AgreedControl, AgreedSession, Anchor, BoundSocket, Bus, BusKey, BusPeer,
    CommonTimeline, GpioPins, MachineTimeline, MachineWire, OnSilence, PinNames, Secret, Serve,
    Settings, SystemTimeline, json_lines, prove, read_key, settings,
};
use timeloom_run::exit::{Failure, note};
use timeloom_time::{Duration, Instant, Utc};

use super::interruption::interruption;

mod wire;

/// Run a program on one of several machines that share one virtual time
///
/// Each machine runs an agent, which names all others by --peer. Time begins when all are present.
/// While any machine is held (`timeloom hold`, `timeloom pause`), all are stopped at the same
/// virtual instant. When the last hold is released, all resume from that instant together.
///
/// The clocks agree as well as the machines' own clocks: see --timeline. Datagrams are
/// authenticated with the key, but not encrypted. Exits with the program's status, or with 1 and
/// the reason if the machines had to stop.
///
/// With --gpio the machines are also connected by a wire: pins of a GPIO chip that are joined by
/// OR. The wire carries the level, and the network the instants. Without --listen there is only the
/// wire. Each machine then stops for as long as the wire is high, at the virtual instant at which
/// it sees the edge, which differs from machine to machine.
///
/// With --serve, waits for runs instead. `timeloom run` then gives each agent of [placement] its
/// share of the scenario and the files, and collects the results. A peer that has the key can run
/// programs on this machine, with the rights of the agent.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom agent --host a --listen 10.0.0.1:5500 --peer b=10.0.0.2:5500 \
                  --key-file run.key -- ./controller\n         \
                  timeloom agent --serve --listen 10.0.0.1:5500 --key-file run.key\n         \
                  (a key: `(umask 077; openssl rand -hex 32 > run.key)`)"
)]
pub(crate) struct Agent {
    /// Wait for runs, one after the other, until Ctrl-C
    #[arg(long, conflicts_with_all = ["host", "peers", "late_peers", "join", "look_ahead",
          "on_silence", "patience", "assembly", "start", "log", "command", "group", "gpio"])]
    serve: bool,
    /// With --serve: directory for the files of runs; created if it does not exist
    #[arg(
        long,
        value_name = "DIR",
        requires = "serve",
        default_value = "timeloom-agent"
    )]
    directory: PathBuf,
    /// Name of this machine on the bus
    #[arg(long, value_name = "NAME", required_unless_present = "serve")]
    host: Option<String>,
    /// Address at which this machine listens for the others
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "gpio")]
    listen: Option<SocketAddr>,
    /// IPv4 multicast group for messages to all machines; the same on all machines
    #[arg(long, value_name = "ADDRESS:PORT", requires = "listen")]
    group: Option<SocketAddr>,
    /// GPIO wire to join: output, input for rising and input for falling edges of a chip, as in
    /// gpiochip0:17,27,22
    #[arg(long, value_name = "CHIP:LINE,LINE,LINE")]
    gpio: Option<PinNames>,
    #[command(flatten)]
    patience_of_wire: wire::Patience,
    /// Another machine; may be repeated
    #[arg(long = "peer", value_name = "NAME=ADDRESS:PORT", value_parser = parse_peer,
          requires = "listen")]
    peers: Vec<(String, SocketAddr)>,
    /// A machine that may come later (with --join), and for which the start does not wait
    #[arg(long = "late-peer", value_name = "NAME=ADDRESS:PORT", value_parser = parse_peer,
          requires = "listen")]
    late_peers: Vec<(String, SocketAddr)>,
    /// Join a run in progress; this machine takes part from the end of the next pause on
    #[arg(long, requires = "listen")]
    join: bool,
    /// File with 64 hexadecimal digits: the key of this run, the same on all machines
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "gpio",
        requires = "listen"
    )]
    key_file: Option<PathBuf>,
    /// Clock shared by the machines: the kernel's (machine: for agents in namespaces of one
    /// machine), or civil time (system: kept by chrony or PTP)
    #[arg(long, value_enum, default_value_t = TimelineChoice::System, value_name = "WHICH")]
    timeline: TimelineChoice,
    /// Virtual time from a request to its pause, whatever the network's delay [default: as short as
    /// messages allow]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    look_ahead: Option<Duration>,
    /// Reaction to a silent machine: stop all, or release its holds and continue without it if more
    /// than half of the machines are left
    #[arg(long, value_enum, default_value_t = SilenceChoice::Stop, value_name = "WHAT")]
    on_silence: SilenceChoice,
    /// Maximum silence of a machine, in wall time; with 1 s or less, a dead machine is detected
    /// within 1 s
    #[arg(long, default_value = "800 ms", value_name = "SPAN", value_parser = parse_span)]
    patience: Duration,
    /// Maximum wait for all machines at the start; with the wire alone, time for which this machine
    /// holds the wire at the start
    #[arg(long, default_value = "60 s", value_name = "SPAN", value_parser = parse_span)]
    assembly: Duration,
    /// Civil time shown at the start, e.g. 2019-06-03T00:00:00Z; the same on all machines
    #[arg(long, value_name = "RFC3339", value_parser = super::exec::parse_start)]
    start: Option<Instant<Utc>>,
    /// Write one JSON object for each pause: its instant, how far ahead it was announced, and the
    /// clock's deviation
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Name of the session, for `timeloom hold --name` and other commands [default: the host's]
    #[arg(long)]
    name: Option<String>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "serve",
        trailing_var_arg = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimelineChoice {
    Machine,
    System,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SilenceChoice {
    Stop,
    Release,
}

impl Agent {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Some(host) = self.host.clone() else {
            return self.serve();
        };
        let bound = self.bound()?;
        let pins = self.pins()?;
        let session = Arc::new(Session::new(SessionOptions {
            name: self.name.clone().unwrap_or_else(|| host.clone()),
            clock: ClockOptions {
                start: self.start,
                paused: true,
                ..ClockOptions::default()
            },
            warn: Box::new(|text| note!("timeloom: {text}")),
        })?);
        // The program stands before its first instruction until all machines start.
        let guest = session.spawn(&CommandSpec::new(self.command.clone()))?;
        let testbed = self.testbed(&session)?;
        let line: Arc<dyn MachineWire> = match (bound, pins) {
            (Some(bound), pins) => {
                let udp = bound
                    .start(&host, self.join, &self.peers(), testbed)
                    .map_err(Failure::usage)?;
                match pins {
                    Some(pins) => self.patience_of_wire.beside(udp, pins)?,
                    None => Arc::new(udp),
                }
            }
            (None, Some(pins)) => self.patience_of_wire.alone(pins, testbed, self.assembly)?,
            (None, None) => return Err(Failure::usage("neither --listen nor --gpio is given")),
        };
        let its = Arc::clone(&line);
        let bus = Bus::builder(Arc::new(timeloom_run::PausedTestbed(Arc::clone(&session))))
            .host(host.as_str())
            .wire(move |_, _| its)
            .build();
        let control = AgreedControl::new(Arc::clone(&session), bus, Arc::clone(&line));
        let control = Arc::new(control);
        serve(&control)?;
        self.wait_for_start(&*line)?;
        super::exec::ignore_terminal_signals();
        let status = loop {
            if let Some(status) = guest.wait_for(Some(LOOK_EVERY)) {
                break Ok(ExitCode::from(status as u8));
            }
            if let Some(why) = line.halted() {
                session.kill_all();
                guest.wait();
                // The other machines must also have time to receive the last message.
                std::thread::sleep(LOOK_EVERY * 5);
                break Err(Failure::run(format!("the pause bus: {why}")));
            }
        };
        line.end();
        status
    }

    /// Waits until all machines have joined. Prints the missing ones after [`SAID_AFTER`]. Ctrl-C
    /// ends the wait.
    fn wait_for_start(&self, line: &dyn MachineWire) -> Result<(), Failure> {
        let interrupted = interruption()?;
        let (began, said) = (StdInstant::now(), Cell::new(false));
        let give_up = || {
            if began.elapsed() > SAID_AFTER && !said.replace(true) {
                let others = self.peers.iter().map(|(name, at)| format!("{name} ({at})"));
                let others = match self.peers.is_empty() {
                    true => "the wire".to_owned(),
                    false => others.collect::<Vec<_>>().join(", "),
                };
                note!(
                    "timeloom: time has not begun: waiting for {others}, for {} in all",
                    self.assembly
                );
            }
            interrupted.load(Ordering::SeqCst)
        };
        match line.wait_for_start_or(&give_up).map_err(Failure::run)? {
            true => Ok(()),
            false => Err(Failure::run(
                "interrupted while waiting for the other machines",
            )),
        }
    }

    /// Opens the network socket for the other machines; `None` if the user wants only the wire.
    fn bound(&self) -> Result<Option<BoundSocket>, Failure> {
        let Some(listen) = self.listen else {
            return Ok(None);
        };
        let timeline = self.timeline();
        let uncertainty = timeline.read().uncertainty;
        if uncertainty >= UNSYNCHRONISED {
            note!(
                "timeloom: the kernel states an error of up to {uncertainty} for this machine's \
                 civil time, so each pause begins and ends that much later (run chrony or PTP)"
            );
        }
        let key = self.key_of(BusKey::from_hex)?;
        let bound = BoundSocket::listen(listen, key, timeline, self.settings());
        let bound = bound.map_err(Failure::machine)?;
        match self.group {
            Some(group) => bound.join(group).map(Some).map_err(Failure::machine),
            None => Ok(Some(bound)),
        }
    }

    /// Opens the pins of the wire; `None` if the user names none. Checks, as far as possible, that
    /// the pins are on one line.
    fn pins(&self) -> Result<Option<GpioPins>, Failure> {
        let Some(names) = &self.gpio else {
            return Ok(None);
        };
        let failed = |error| Failure::machine(format!("--gpio {names}: {error}"));
        let pins = GpioPins::open(names).map_err(failed)?;
        // A machine that joins later must not test its pins, because that would stop all others.
        if !self.join && !prove(&pins, self.patience_of_wire.stuck()).map_err(failed)? {
            note!(
                "timeloom: the wire at {names} is already high, so it is unknown whether this \
                 output drives it"
            );
        }
        Ok(Some(pins))
    }

    fn testbed(&self, session: &Arc<Session>) -> Result<Arc<AgreedSession>, Failure> {
        let anchor = match self.listen {
            Some(_) => Anchor::Agreed,
            None => Anchor::OwnEdge,
        };
        let hear = self.log()?.map(|log| json_lines(log, anchor));
        Ok(Arc::new(AgreedSession::new(
            Arc::clone(session),
            self.listen.map(|_| self.timeline()),
            hear,
        )))
    }

    /// Waits for runs and serves them.
    fn serve(self) -> Result<ExitCode, Failure> {
        let stop = interruption()?;
        let listen = self
            .listen
            .ok_or_else(|| Failure::usage("--serve needs --listen"))?;
        let serve = Serve {
            address: listen,
            secret: self.key_of(Secret::from_hex)?,
            directory: self.directory,
            timeline: match self.timeline {
                TimelineChoice::Machine => AgentTimeline::Machine,
                TimelineChoice::System => AgentTimeline::System,
            },
            session: self.name,
            timeloom: std::env::current_exe()
                .map_err(|error| Failure::run(format!("finding this program: {error}")))?,
            log_json: super::logging::is_json(),
            stop,
            say: Arc::new(|text| note!("timeloom agent: {text}")),
        };
        serve
            .run()
            .map_err(|error| Failure::machine(format!("serving at {listen}: {error}")))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Reads the key file; `read` parses its content.
    fn key_of<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Failure> {
        let file = self.key_file.as_ref().ok_or_else(|| {
            Failure::usage("--listen needs --key-file: datagrams without that key are ignored")
        })?;
        read_key(file, read).map_err(Failure::usage)
    }

    fn timeline(&self) -> Arc<dyn CommonTimeline> {
        match self.timeline {
            TimelineChoice::Machine => Arc::new(MachineTimeline),
            TimelineChoice::System => Arc::new(SystemTimeline),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            on_silence: match self.on_silence {
                SilenceChoice::Stop => OnSilence::Stop,
                SilenceChoice::Release => OnSilence::Release,
            },
            assembly: self.assembly,
            ..settings(self.look_ahead, self.patience)
        }
    }

    fn peers(&self) -> Vec<BusPeer> {
        let early = self.peers.iter().map(|peer| (peer, false));
        let late = self.late_peers.iter().map(|peer| (peer, true));
        early
            .chain(late)
            .map(|((name, address), late)| BusPeer {
                name: name.clone(),
                address: *address,
                late,
            })
            .collect()
    }

    fn log(&self) -> Result<Option<Box<dyn Write + Send>>, Failure> {
        let Some(path) = &self.log else {
            return Ok(None);
        };
        let file = File::create(path)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        Ok(Some(Box::new(file)))
    }
}

fn parse_peer(text: &str) -> Result<(String, SocketAddr), Failure> {
    const LIKE: &str = "write it like b=10.0.0.2:5500";
    let (name, address) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(LIKE))?;
    let address = address
        .parse()
        .map_err(|error| Failure::usage(format!("{address}: {error}; {LIKE}")))?;
    Ok((name.to_owned(), address))
}

/// Clock error above which the user is warned. The kernel reports it for a clock that has not been
/// steered for half an hour.
const UNSYNCHRONISED: Duration = Duration::from_s(1);

/// Wall time of waiting after which the missing machines are printed.
const SAID_AFTER: StdDuration = StdDuration::from_secs(5);

/// Polling interval for the end of the program.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(100);
