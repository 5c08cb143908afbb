//! The daemon: it starts timelines, creates their sockets and serves clients.

use core::fmt;
use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;

use rustix::net::Shutdown;
use timeloom_clock::timeline::{BindingId, Disturbance, HistoryError};
use timeloom_time::Duration;
use timeloom_timeline::shm::{PageReader, WriterError};

use crate::clients::{Admitted, Clients};
use crate::config::{BadConfig, DaemonConfig, SourceConfig, TimelineConfig};
use crate::handle::KeepError;
use crate::source::peer;
use crate::worker::Worker;
use crate::{LocalClock, TimelineHandle, outputs, step_watch};
use timeloom_timeline::protocol::{
    Answer, DaemonMessage, Directory, MOST_BYTES, PlainRequirement, RefusalCode, Reply, Request,
    RequestKind, TimelineName, decode, encode, packet,
};

/// Running daemon; dropping this value ends it.
#[derive(Debug)]
pub struct Daemon {
    directory: Directory,
    timelines: Vec<ServedTimeline>,
    /// Flag that ends the threads that watch for disturbances and answer peers.
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct ServedTimeline {
    timeline: TimelineHandle,
    worker: Option<JoinHandle<()>>,
    listener: Arc<OwnedFd>,
    clients: Clients,
}

/// Reason why a daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(BadConfig),
    /// Another daemon keeps this timeline in this directory.
    #[error("another daemon maintains the timeline {name} in {directory}")]
    Taken {
        /// Name of the timeline.
        name: TimelineName,
        /// Directory in which that daemon publishes.
        directory: std::path::PathBuf,
    },
    /// This operation failed with the system's error.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// Starts all timelines of `config`, and threads that serve their sockets.
///
/// # Errors
/// Fails with [`DaemonError`]; in that case no thread is left running.
pub fn serve(config: &DaemonConfig) -> Result<Daemon, DaemonError> {
    config.check().map_err(DaemonError::Config)?;
    let directory = config
        .directory
        .clone()
        .map_or_else(Directory::usual, Directory::new);
    let what = || format!("making {}", directory.path().display());
    directory
        .make()
        .map_err(|error| DaemonError::System(what(), error))?;
    let clock = LocalClock::here().map_err(|refusal| {
        DaemonError::System(
            "looking for a counter".into(),
            io::Error::other(refusal.to_string()),
        )
    })?;
    let clock = Arc::new(clock);
    let mut daemon = Daemon {
        directory: directory.clone(),
        timelines: Vec::new(),
        ended: Arc::default(),
    };
    for timeline_config in &config.timelines {
        let name = &timeline_config.name;
        let started = TimelineHandle::start(timeline_config, &directory, &clock);
        let (timeline, worker) = started.map_err(|error| match error {
            KeepError::Page(WriterError::Taken) => DaemonError::Taken {
                name: name.clone(),
                directory: directory.path().to_owned(),
            },
            KeepError::Page(WriterError::Io(error)) => {
                DaemonError::System(format!("making the page of {name}"), error)
            }
            KeepError::Page(error) => DaemonError::System(
                format!("making the page of {name}"),
                io::Error::other(error.to_string()),
            ),
            KeepError::Output(why) => {
                DaemonError::Config(BadConfig(format!("timeline {name}: {why}")))
            }
            KeepError::Journal(path, error) => DaemonError::Config(BadConfig(format!(
                "timeline {name}: opening the journal {}: {error} (name another file as `journal`)",
                path.display()
            ))),
            KeepError::Accuracy(impossible) => DaemonError::Config(BadConfig(format!(
                "timeline {name}: accuracy: {impossible}"
            ))),
            KeepError::Source(untold) => {
                DaemonError::Config(BadConfig(format!("timeline {name}: {untold}")))
            }
        })?;
        let path = directory.socket(name);
        let listener = packet::listen(&path).and_then(|listener| {
            // Every user that may enter the directory may read the time and bind.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
            Ok(Arc::new(listener))
        });
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                timeline.end();
                return Err(DaemonError::System(
                    format!("listening at {}", path.display()),
                    error,
                ));
            }
        };
        let clients = Clients::new(config.timelines.len());
        let idle_for = timeline_config.idle_for;
        let served = ServedTimeline {
            timeline: timeline.clone(),
            worker: Some(worker),
            listener: listener.clone(),
            clients: clients.clone(),
        };
        daemon.timelines.push(served);
        if let Some(address) = &timeline_config.listen {
            answer_peers(timeline_config, address, &timeline, &daemon.ended)?;
        }
        std::thread::spawn(move || accept_all(&timeline, &listener, &clients, idle_for));
    }
    let hangs = config
        .timelines
        .iter()
        .zip(daemon.timelines())
        .filter(|(config, _)| {
            config
                .sources
                .iter()
                .any(SourceConfig::hangs_on_system_clock)
                || outputs::hang_on_system_clock(config)
        });
    let hangs: Vec<TimelineHandle> = hangs.map(|(_, timeline)| timeline.clone()).collect();
    if !hangs.is_empty() {
        let ended = Arc::downgrade(&daemon.ended);
        std::thread::spawn(move || {
            step_watch::watch(&clock, &ended, || {
                for timeline in &hangs {
                    timeline.disturb(Disturbance::SystemClockSet);
                }
            });
        });
    }
    Ok(daemon)
}

/// Starts a thread that answers requests of the timeline's peers on other hosts.
fn answer_peers(
    config: &TimelineConfig,
    address: &str,
    timeline: &TimelineHandle,
    ended: &Arc<AtomicBool>,
) -> Result<(), DaemonError> {
    let failed = |error| DaemonError::System(format!("listening at {address}"), error);
    let key = config
        .key()
        .map_err(|error| DaemonError::Config(BadConfig(error.to_string())))?;
    let socket = UdpSocket::bind(address).map_err(failed)?;
    let patience = core::time::Duration::from_millis(200);
    socket.set_read_timeout(Some(patience)).map_err(failed)?;
    let reader = PageReader::open(timeline.page())
        .map_err(|refusal| failed(io::Error::other(refusal.to_string())))?;
    let ended = ended.clone();
    std::thread::spawn(move || peer::answer_all(&socket, &reader, key.as_ref(), &ended));
    Ok(())
}

impl Daemon {
    /// Returns the timelines in the order of the configuration.
    pub fn timelines(&self) -> impl Iterator<Item = &TimelineHandle> {
        self.timelines.iter().map(|served| &served.timeline)
    }

    /// Returns the directory in which programs find the daemon.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        for served in &mut self.timelines {
            // The socket's file is removed first, so that no client connects to a listener that is
            // ending.
            let _ = std::fs::remove_file(self.directory.socket(served.timeline.name()));
            let _ = rustix::net::shutdown(&*served.listener, Shutdown::Both);
            served.timeline.end();
            served.clients.end();
            if let Some(worker) = served.worker.take() {
                let _ = worker.join();
            }
        }
    }
}

fn accept_all(
    timeline: &TimelineHandle,
    listener: &OwnedFd,
    clients: &Clients,
    idle_for: Duration,
) {
    loop {
        match packet::accept(listener) {
            Ok(socket) => {
                // A connection that is not admitted, or cannot be served, is closed at once.
                if let Some(admitted) = clients.admit(socket) {
                    let timeline = timeline.clone();
                    let serve = move || Client::new(timeline, admitted).serve(idle_for);
                    let _ = std::thread::Builder::new().spawn(serve);
                }
            }
            // The listener was shut down because the daemon ends.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // The process is out of descriptors or memory, for example. Other threads may release
            // some.
            Err(_) => std::thread::sleep(core::time::Duration::from_millis(100)),
        }
    }
}

/// Maximum number of bindings of one connection.
const MOST_BINDINGS: usize = 1024;

/// Connection of a client.
struct Client {
    timeline: TimelineHandle,
    socket: Arc<OwnedFd>,
    bound: Arc<AtomicBool>,
    bindings: BTreeSet<u64>,
}

impl Client {
    fn new(timeline: TimelineHandle, admitted: Admitted) -> Self {
        Self {
            timeline,
            socket: admitted.socket,
            bound: admitted.bound,
            bindings: BTreeSet::new(),
        }
    }

    /// Serves the connection until the client closes it, sends nothing for `idle_for` while it has
    /// no binding, or does not read an answer for that long.
    fn serve(mut self, idle_for: Duration) {
        let patience = core::time::Duration::from_nanos(idle_for.as_ns().max(1) as u64);
        let mut buffer = vec![0; MOST_BYTES];
        loop {
            match packet::is_there(&*self.socket, patience) {
                Ok(true) => {}
                Ok(false) if !self.bindings.is_empty() => continue,
                Ok(false) | Err(_) => break,
            }
            let request = match packet::receive(&*self.socket, &mut buffer) {
                Ok(Some((length, _))) => decode::<Request>(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Err(timeloom_timeline::protocol::NoMessage(error.to_string()))
                }
                Ok(None) | Err(_) => break,
            };
            let (id, answer) = match request {
                Ok(Request { id, ask }) => {
                    // The flag must be set before the client learns that it has a binding.
                    let answer = self.answer(ask);
                    self.bound.store(!self.bindings.is_empty(), SeqCst);
                    (id, answer)
                }
                Err(bad) => (0, refuse(RefusalCode::BadRequest, bad)),
            };
            let fd = matches!(answer, Answer::Page(_)).then(|| self.timeline.page());
            let packet = encode(&DaemonMessage::Reply(Reply { id, answer }));
            if packet::send_within(&*self.socket, &packet, fd, patience).is_err() {
                break;
            }
        }
        for binding in std::mem::take(&mut self.bindings) {
            self.timeline
                .call(move |worker| worker.unbind(BindingId(binding)));
        }
    }

    fn answer(&mut self, ask: RequestKind) -> Answer {
        let ending = || refuse(RefusalCode::Ending, "the daemon is ending");
        let answer = match ask {
            RequestKind::Open => Some(Answer::Page(self.timeline.describe())),
            RequestKind::Bind(need) => self.bind(need),
            RequestKind::Unbind { binding } => self.with(binding, Worker::unbind_for),
            RequestKind::Set { binding, need } => match need.requirement() {
                None => Some(nonsense()),
                Some(requirement) => self.with(binding, move |worker, id| {
                    match worker.set(id, requirement) {
                        Ok(_) => Answer::Done,
                        Err(impossible) => impossible.into(),
                    }
                }),
            },
            RequestKind::Get { binding } => self.with(binding, |worker, id| {
                worker
                    .get(id)
                    .map_or_else(|| no_binding(id.0), Answer::Binding)
            }),
            RequestKind::Subscribe { binding } => self.with(binding, |worker, id| {
                worker.subscribe(id);
                Answer::Done
            }),
            RequestKind::Convert { ticks } => {
                self.timeline
                    .call(move |worker| match worker.convert(ticks) {
                        Ok(stamp) => Answer::Stamp(stamp.into()),
                        Err(error @ HistoryError::TooOld { .. }) => {
                            refuse(RefusalCode::TooOld, error)
                        }
                        Err(error @ HistoryError::InFuture) => refuse(RefusalCode::InFuture, error),
                    })
            }
            RequestKind::Relation | RequestKind::HostClock => {
                let why = "this machine is not a guest of a relay: read the page itself";
                Some(refuse(RefusalCode::BadRequest, why))
            }
            RequestKind::Report => self
                .timeline
                .report()
                .map(|report| Answer::Report(Box::new(report))),
        };
        if let RequestKind::Unbind { binding } = ask {
            self.bindings.remove(&binding);
        }
        answer.unwrap_or_else(ending)
    }

    fn bind(&mut self, need: PlainRequirement) -> Option<Answer> {
        let Some(requirement) = need.requirement() else {
            return Some(nonsense());
        };
        if self.bindings.len() >= MOST_BINDINGS {
            let why = format!("a connection may have {MOST_BINDINGS} bindings");
            return Some(refuse(RefusalCode::TooMany, why));
        }
        let client = self.socket.clone();
        Some(
            match self
                .timeline
                .call(move |worker| worker.bind(requirement, client))?
            {
                Ok(BindingId(binding)) => {
                    self.bindings.insert(binding);
                    Answer::Bound { binding }
                }
                Err(impossible) => impossible.into(),
            },
        )
    }

    /// Calls a function with a binding of this connection; refuses the request if there is no such
    /// binding.
    fn with(
        &self,
        binding: u64,
        what: impl FnOnce(&mut Worker, BindingId) -> Answer + Send + 'static,
    ) -> Option<Answer> {
        if !self.bindings.contains(&binding) {
            return Some(no_binding(binding));
        }
        self.timeline
            .call(move |worker| what(worker, BindingId(binding)))
    }
}

impl Worker {
    fn unbind_for(&mut self, binding: BindingId) -> Answer {
        self.unbind(binding);
        Answer::Done
    }
}

fn refuse(code: RefusalCode, why: impl fmt::Display) -> Answer {
    let why = why.to_string();
    Answer::Refused { code, why }
}

fn no_binding(binding: u64) -> Answer {
    let why = format!("this connection has no binding {binding}");
    refuse(RefusalCode::NoSuchBinding, why)
}

fn nonsense() -> Answer {
    let why = "a requirement's lengths must not be negative, and its resolution must be positive";
    refuse(RefusalCode::BadRequest, why)
}
