//! Command `timeloom vm`: gives this machine's virtual machines access to its timelines.

use parking_lot::Mutex;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant};

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use timeloom_guest::parse_span;
use timeloom_run::exit::{Failure, note, say};
use timeloom_sys::vsock;
use timeloom_time::Duration;
use timeloom_timeline::protocol::TimelineName;
use timeloom_timeline::shm::{PageCounter, SharedCounter, SharedCounterError};
use timeloom_timelined::vm::{
    GuestAgent, HostLink, Relay, RelayError, VSOCK_PORT, devices, monitor, qemu,
};

use super::timeline::DirectoryArg;

#[derive(Subcommand)]
pub(crate) enum Vm {
    Run(Run),
    Serve(Serve),
    Guest(Guest),
}

impl Vm {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Guest(command) => command.run(),
        }
    }
}

/// Timelines that a virtual machine may read.
#[derive(Args)]
struct TimelineChoice {
    /// Timeline that the virtual machine may read; may be repeated
    #[arg(long = "timeline", value_name = "NAME", required = true)]
    timelines: Vec<TimelineName>,
    #[command(flatten)]
    place: DirectoryArg,
}

impl TimelineChoice {
    /// Opens the relay. Waits up to `patience` for daemons that are still starting.
    fn relay(self, patience: Duration) -> Result<Relay, Failure> {
        let counter = SharedCounter::here().map_err(|error| match error {
            SharedCounterError::Processor(_) => Failure::run(error),
            _ => Failure::usage(error),
        })?;
        let directory = self.place.directory();
        let until = Instant::now() + StdDuration::from_nanos(patience.as_ns().unsigned_abs());
        loop {
            match Relay::start(directory.clone(), self.timelines.clone(), counter) {
                Ok(relay) => {
                    warn_of(&relay, &counter);
                    return Ok(relay);
                }
                Err(RelayError::Daemon(..)) if Instant::now() < until => {
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(error @ RelayError::Counter(_)) => return Err(Failure::usage(error)),
                Err(error) => return Err(Failure::run(error)),
            }
        }
    }
}

/// Warns if a virtual machine in a session does not get its host's clock page.
fn warn_of(relay: &Relay, counter: &SharedCounter) {
    if relay.clock().is_none() && counter.of_pages() == PageCounter::HostRaw {
        note!(
            "timeloom: without CAP_CHECKPOINT_RESTORE, the virtual machine notices a pause or \
             dilation of this host alone some milliseconds late"
        );
    }
}

/// Start a virtual machine that can read timelines of this one
///
/// QEMU is started with its arguments and with the devices for the timelines: memory that the guest
/// can only read, and a port for bindings. In the guest, `timeloom vm guest` serves programs. The
/// exit code is QEMU's. In a session, the timelines are those of the host on which this command
/// runs, and the virtual machine has the session's time. The session must then emulate the
/// time-stamp counter (--tsc emulate).
#[derive(Args)]
#[command(
    after_help = "Example: timeloom vm run --timeline plant -- qemu-system-x86_64 -m 512 -nographic disk.img"
)]
pub(crate) struct Run {
    #[command(flatten)]
    choice: TimelineChoice,
    /// Maximum wait for a timeline's daemon to start [default: no wait]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    wait: Option<Duration>,
    /// QEMU and its own arguments
    #[arg(last = true, required = true, value_name = "QEMU")]
    command: Vec<OsString>,
}

impl Run {
    fn run(self) -> Result<ExitCode, Failure> {
        let failed = |what: &'static str| {
            move |error: std::io::Error| Failure::run(format!("{what}: {error}"))
        };
        let mut relay = self.choice.relay(self.wait.unwrap_or(Duration::ZERO))?;
        let pair = || UnixStream::pair().map_err(failed("making a channel"));
        let ((ours, port), (watched, told)) = (pair()?, pair()?);
        let region = relay.region().try_clone_to_owned();
        let region = region.map_err(failed("passing the region to the emulator"))?;
        let clock = relay.clock().map(|clock| clock.try_clone_to_owned());
        let clock = clock
            .transpose()
            .map_err(failed("passing the clock to the emulator"))?;
        let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(qemu::arguments(
            &path(&region),
            relay.size(),
            clock.as_ref().map(path).as_deref(),
            &format!("socket,fd={}", port.as_raw_fd()),
            &format!("socket,fd={}", told.as_raw_fd()),
        ));
        let descriptors = [region, port.into(), told.into()];
        for descriptor in descriptors.into_iter().chain(clock) {
            timeloom_sys::command::inherit(&mut command, descriptor);
        }
        timeloom_sys::command::die_with_parent(&mut command);
        let mut signals =
            Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed("catching signals"))?;
        let mut child = command.spawn().map_err(|error| {
            Failure::usage(format!("{}: {error}", self.command[0].to_string_lossy()))
        })?;
        // From here on only the emulator has the opposite ends open.
        drop(command);
        relay
            .connect(ours.into())
            .map_err(failed("taking the channel"))?;
        let relay = Arc::new(Mutex::new(relay));
        let watching = relay.clone();
        std::thread::spawn(move || watch(watched, &watching));
        let id = Pid::from_child(&child);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                let _ = kill_process(id, Signal::TERM);
            }
        });
        let status = child.wait().map_err(failed("waiting for QEMU"))?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ok(ExitCode::from(code.map_or(1, |code| code as u8)))
    }
}

/// Keep a region for a virtual machine that another program starts, and print arguments for QEMU
///
/// The arguments are words for a shell, on one line. QEMU must be started while this command runs,
/// by a user that may open the files of this process.
///
/// A guest may also connect by vsock. If the host's kernel has a device for it (vhost-vsock),
/// --vsock names the machine that may connect. A device in user space (vhost-device-vsock) gets the
/// path DIR/vsock, and forwards connections to port 8319 of the host to the socket DIR/vsock_8319.
#[derive(Args)]
#[command(after_help = "Example: timeloom vm serve --timeline plant --sockets /run/vm1 --vsock 42")]
pub(crate) struct Serve {
    #[command(flatten)]
    choice: TimelineChoice,
    /// Directory for the sockets to which QEMU and a vsock device connect; it is created
    #[arg(long, value_name = "DIR")]
    sockets: PathBuf,
    /// Also accept the machine with this number (QEMU's guest-cid) over the kernel's vsock
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(3..))]
    vsock: Option<u32>,
}

impl Serve {
    fn run(self) -> Result<ExitCode, Failure> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
            .map_err(|error| Failure::run(format!("catching signals: {error}")))?;
        let relay = self.choice.relay(Duration::ZERO)?;
        let place = self.sockets;
        let refused = |error| Failure::run(format!("{}: {error}", place.display()));
        std::fs::create_dir_all(&place).map_err(refused)?;
        let listen = |name: &str| {
            let path = place.join(name);
            let _ = std::fs::remove_file(&path);
            UnixListener::bind(&path).map(|listener| (path, listener))
        };
        let (port_path, port) = listen("port").map_err(refused)?;
        let (monitor_path, watched) = listen("monitor").map_err(refused)?;
        let (vsock_path, brought) = listen(&format!("vsock_{VSOCK_PORT}")).map_err(refused)?;
        let by_vsock = self.vsock.map(|machine| {
            let listener = vsock::listen(VSOCK_PORT);
            let what = format!("listening at port {VSOCK_PORT} of vsock");
            let listener = listener.map_err(|error| Failure::run(format!("{what}: {error}")));
            listener.map(|listener| (machine, listener))
        });
        let by_vsock = by_vsock.transpose()?;
        let socket = |path: &PathBuf| {
            let path = path.display().to_string().replace(',', ",,");
            format!("socket,path={path}")
        };
        let path = |fd: BorrowedFd<'_>| {
            let process = std::process::id();
            format!("/proc/{process}/fd/{}", fd.as_raw_fd())
        };
        let words = qemu::arguments(
            &path(relay.region()),
            relay.size(),
            relay.clock().map(path).as_deref(),
            &socket(&port_path),
            &socket(&monitor_path),
        );
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        say!("{}", words.join(" "));
        let relay = Arc::new(Mutex::new(relay));
        let watching = relay.clone();
        for listener in [port, brought] {
            let hearing = relay.clone();
            std::thread::spawn(move || {
                for channel in listener.incoming().flatten() {
                    let _ = lock(&hearing).connect(OwnedFd::from(channel));
                }
            });
        }
        if let Some((machine, listener)) = by_vsock {
            std::thread::spawn(move || take_by_vsock(machine, &listener, &relay));
        }
        std::thread::spawn(move || {
            for stream in watched.incoming().flatten() {
                watch(stream, &watching);
            }
        });
        signals.forever().next();
        for path in [port_path, monitor_path, vsock_path] {
            let _ = std::fs::remove_file(path);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Serve the host's timelines to programs; to be run in a virtual machine
///
/// Measures the relation between the counters of this machine and its host, and takes the place of
/// the daemon for programs, which open and bind timelines as on any machine. Needs the right to map
/// PCI devices.
#[derive(Args)]
#[command(after_help = "Example: timeloom vm guest & timeloom timeline read plant")]
pub(crate) struct Guest {
    /// Reach the host by vsock instead of the port of a virtio-serial device
    #[arg(long)]
    vsock: bool,
    #[command(flatten)]
    place: DirectoryArg,
}

impl Guest {
    fn run(self) -> Result<ExitCode, Failure> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
            .map_err(|error| Failure::run(format!("catching signals: {error}")))?;
        let missing = |error: std::io::Error| Failure::usage(error);
        let region = devices::region().map_err(missing)?;
        let link = if self.vsock {
            HostLink::Vsock
        } else {
            HostLink::Port(devices::port().map_err(missing)?.into())
        };
        let directory = self.place.directory();
        let clock = devices::clock().ok().map(OwnedFd::from);
        let agent = GuestAgent::start(link, region.into(), clock, directory.clone())
            .map_err(|error| Failure::run(format!("serving the host's timelines: {error}")))?;
        for name in agent.timelines() {
            note!(
                "timeloom: {name} of the host is at {}",
                directory.path().display()
            );
        }
        signals.forever().next();
        Ok(ExitCode::SUCCESS)
    }
}

/// Accepts the machine with this number. Its port must be one that only its administrator can use.
fn take_by_vsock(machine: u32, listener: &OwnedFd, relay: &Mutex<Relay>) {
    while let Ok((channel, from)) = vsock::accept(listener) {
        if from.machine == machine && from.port < vsock::FIRST_FREE_PORT {
            let _ = lock(relay).connect(channel);
        }
    }
}

fn watch(stream: UnixStream, relay: &Mutex<Relay>) {
    if let Err(error) = monitor::watch(stream, || lock(relay).displace()) {
        note!("timeloom: the emulator's monitor: {error}");
    }
}

fn lock(relay: &Mutex<Relay>) -> parking_lot::MutexGuard<'_, Relay> {
    relay.lock()
}

/// Polling interval while a daemon is awaited.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(20);
