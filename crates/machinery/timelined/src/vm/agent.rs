//! Guest's side of a link: an agent, to which programs in a guest connect as if it were the daemon.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use timeloom_timeline::protocol::{
    Answer as DaemonAnswer, DaemonMessage, Directory, MOST_BYTES, Reply, Request, RequestKind,
    TimelineName, decode, encode, packet,
};
use timeloom_timeline::shm::{Refusal, Region, RelationWriter};

use crate::vm::channel::Channel;
use crate::vm::frames::{Frames, message};
use crate::vm::link::HostLink;
use crate::vm::measure::{Answer, BEAT, Beat, BeatPace, CounterEstimate, own};
use crate::vm::protocol::{FromGuest, FromHost, VM_VERSION};

/// Agent in a guest. Its threads end when the value is dropped.
#[derive(Debug)]
pub struct GuestAgent {
    shared: Arc<Shared>,
    listeners: Vec<Arc<OwnedFd>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    link: HostLink,
    /// Current channel to the host.
    channel: Mutex<Arc<Channel>>,
    region: Region,
    /// Descriptor of the region that is passed to programs; it is read-only.
    region_fd: OwnedFd,
    /// Clock page of the host, if the host belongs to a session.
    clock: Option<OwnedFd>,
    relation: RelationWriter,
    directory: Directory,
    state: Mutex<State>,
    changed: Condvar,
    /// Number of the connection that a program opened last.
    last: AtomicU64,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Nonce of the latest hello, whether it has been answered or not.
    nonce: u64,
    welcome: bool,
    answer: Option<Answer>,
    measured: CounterEstimate,
    programs: BTreeMap<u64, Arc<OwnedFd>>,
}

impl GuestAgent {
    /// Starts an agent. `link` leads to the host. `region` and `clock` are memory that the host
    /// shares with this machine: the region, and the clock page, if there is one. Programs connect
    /// to sockets in `directory`.
    ///
    /// # Errors
    /// Fails if the region is refused ([`Refusal`] as an [`io::Error`]), if the region requires a
    /// clock page and none is given, if the link has no peer, or if a system call fails.
    pub fn start(
        link: HostLink,
        region: OwnedFd,
        clock: Option<OwnedFd>,
        directory: Directory,
    ) -> io::Result<Self> {
        let refused = |refusal: Refusal| io::Error::other(refusal.to_string());
        let opened = Region::open(&region).map_err(refused)?;
        if opened.has_clock() && clock.is_none() {
            let what = "the clock page that the host's timelines use is missing";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let names: Result<Vec<TimelineName>, _> = opened
            .timelines()
            .iter()
            .map(|entry| entry.name.parse().map_err(io::Error::other))
            .collect();
        let names = names?;
        directory.make()?;
        let channel = Arc::new(Channel::new(link.open()?)?);
        let shared = Arc::new(Shared {
            link,
            channel: Mutex::new(channel),
            relation: RelationWriter::new(opened.incarnation())?,
            region: opened,
            region_fd: region,
            clock,
            directory,
            state: Mutex::default(),
            changed: Condvar::new(),
            // Begins at a value that differs from the connection numbers of another agent.
            last: AtomicU64::new(own()),
            ended: AtomicBool::new(false),
        });
        let mut agent = Self {
            shared: shared.clone(),
            listeners: Vec::new(),
            threads: Vec::new(),
        };
        for name in names {
            let path = shared.directory.socket(&name);
            let listener = Arc::new(packet::listen(&path)?);
            // Any process that may enter the directory may read the time and create bindings.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
            agent.listeners.push(listener.clone());
            let accepting = shared.clone();
            let accept = move || accepting.accept_all(&name, &listener);
            agent.threads.push(std::thread::spawn(accept));
        }
        let hearing = shared.clone();
        agent
            .threads
            .push(std::thread::spawn(move || hearing.hear()));
        agent
            .threads
            .push(std::thread::spawn(move || shared.beat()));
        Ok(agent)
    }

    /// Returns the names of the timelines that programs can open.
    pub fn timelines(&self) -> impl Iterator<Item = &str> {
        let entries = self.shared.region.timelines().iter();
        entries.map(|entry| entry.name.as_str())
    }
}

impl Drop for GuestAgent {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        for entry in self.shared.region.timelines() {
            if let Ok(name) = entry.name.parse() {
                let _ = std::fs::remove_file(self.shared.directory.socket(&name));
            }
        }
        for listener in &self.listeners {
            let _ = rustix::net::shutdown(&**listener, Shutdown::Both);
        }
        self.shared.leave_programs();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.relation.publish(None);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn send(&self, message: &FromGuest) {
        // If sending fails, the message is repeated later, or the program detects that it was lost.
        let channel = self.channel();
        let _ = channel.send(message);
    }

    fn channel(&self) -> Arc<Channel> {
        self.channel.lock().clone()
    }

    /// Handles the end of the channel. A port remains open, and a new peer may open its other end.
    /// Any other link is opened again, and the state of the previous connection is discarded.
    fn reopen(&self) {
        if self.link.stays() {
            return;
        }
        let opened = self.link.open().and_then(Channel::new);
        if let Ok(opened) = opened {
            let mut channel = self.channel.lock();
            *channel = Arc::new(opened);
            drop(channel);
            self.lose_host();
            self.changed.notify_all();
        }
    }

    /// Main loop of a thread: sends hellos until the host answers, and then heartbeats. A heartbeat
    /// is a sign of life, and its answer measures the relation of the counters.
    fn beat(&self) {
        let mut answered = Instant::now();
        let mut pace = BeatPace::default();
        for sequence in 1.. {
            if self.ended.load(Relaxed) {
                return;
            }
            if !self.state().welcome {
                self.hello();
                answered = Instant::now();
                continue;
            }
            match self.measure(sequence) {
                Some(()) => answered = Instant::now(),
                None if answered.elapsed() > crate::vm::session::SILENCE => self.lose_host(),
                None => {}
            }
            let is_close = {
                let (slack, _) = self.region.allowances();
                self.state().measured.is_close(slack)
            };
            self.wait(pace.next(is_close), |state| !state.welcome);
        }
    }

    fn hello(&self) {
        let mut nonce = [0; 8];
        let drawn = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
        // If no random number can be drawn, the counter is used: the value must only differ from
        // earlier ones.
        let nonce = drawn.map_or_else(|_| own(), |_| u64::from_le_bytes(nonce));
        self.state().nonce = nonce;
        let version = VM_VERSION;
        self.send(&FromGuest::Hello { nonce, version });
        self.wait(BEAT, |state| state.welcome);
    }

    fn measure(&self, sequence: u64) -> Option<()> {
        let mut beat = Beat::begin(&self.region);
        self.send(&FromGuest::Beat { sequence });
        let of = |answer: &Answer| answer.sequence == sequence;
        let come = || self.state().answer.filter(of);
        beat.watch(&self.region, || come().is_some());
        let is = move |state: &State| state.answer.filter(of).is_some();
        self.wait(BEAT * 2, is);
        let answer = come()?;
        if let Some(relation) = beat.end(&answer, &self.region) {
            let known = self.state().measured.take(relation);
            self.relation.publish(Some(&known));
        }
        Some(())
    }

    fn wait(&self, most: Duration, until: impl Fn(&State) -> bool) {
        let going = |state: &mut State| !until(state) && !self.ended.load(Relaxed);
        self.changed.wait_while_for(&mut self.state(), going, most);
    }

    /// Handles a host that does not answer: ends all bindings and disconnects the programs.
    fn lose_host(&self) {
        self.state().welcome = false;
        self.leave_programs();
    }

    fn leave_programs(&self) {
        for program in std::mem::take(&mut self.state().programs).values() {
            let _ = rustix::net::shutdown(&**program, Shutdown::Both);
        }
    }

    fn hear(&self) {
        let mut frames = Frames::default();
        let mut buffer = vec![0; 16 * 1024];
        while !self.ended.load(Relaxed) {
            match self.channel().receive(&mut buffer, LOOK) {
                Ok(0) => {}
                Ok(length) => {
                    let came = own();
                    frames.take(&buffer[..length], |frame| {
                        if let Some(said) = frame.and_then(message::<FromHost>) {
                            self.handle(said, came);
                        }
                    });
                }
                // An error means that the link has no peer now.
                Err(_) => {
                    frames.clear();
                    std::thread::sleep(LOOK / 4);
                    self.reopen();
                }
            }
        }
    }

    fn handle(&self, said: FromHost, came: u64) {
        let mut state = self.state();
        match said {
            FromHost::Welcome { nonce, version } => {
                let expected = nonce == state.nonce && version == VM_VERSION;
                if expected && !state.welcome {
                    state.welcome = true;
                    drop(state);
                    // A new session of the host has none of the old session's connections.
                    self.leave_programs();
                }
            }
            _ if !state.welcome => return,
            FromHost::Beat {
                sequence,
                received,
                sent,
            } => {
                state.answer = Some(Answer {
                    sequence,
                    received,
                    sent,
                    came,
                });
            }
            FromHost::Tell {
                connection,
                message,
            } => {
                let program = state.programs.get(&connection).cloned();
                drop(state);
                if let Some(program) = program {
                    self.tell(&program, &message);
                }
            }
            FromHost::Closed { connection } => {
                if let Some(program) = state.programs.remove(&connection) {
                    let _ = rustix::net::shutdown(&*program, Shutdown::Both);
                }
            }
        }
        self.changed.notify_all();
    }

    /// Sends a message to a program. A program that does not receive it is disconnected.
    fn tell(&self, program: &OwnedFd, message: &DaemonMessage) {
        let is_page = matches!(
            message,
            DaemonMessage::Reply(Reply {
                answer: DaemonAnswer::Page(_),
                ..
            })
        );
        let fd = is_page.then(|| self.region_fd.as_fd());
        if packet::send(program, &encode(message), fd, false).is_err() {
            let _ = rustix::net::shutdown(program, Shutdown::Both);
        }
    }

    fn accept_all(self: Arc<Self>, name: &TimelineName, listener: &OwnedFd) {
        loop {
            match packet::accept(listener) {
                Ok(program) => {
                    let (shared, name) = (self.clone(), name.clone());
                    let number = self.last.fetch_add(1, Relaxed) + 1;
                    let program = Arc::new(program);
                    self.state().programs.insert(number, program.clone());
                    std::thread::spawn(move || shared.serve(&name, number, &program));
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                Err(_) if self.ended.load(Relaxed) => return,
                Err(_) => std::thread::sleep(LOOK / 4),
            }
        }
    }

    /// Answers a request for which the host is not needed. Returns the answer with a descriptor.
    fn own_answer(&self, ask: &RequestKind) -> Option<(DaemonAnswer, BorrowedFd<'_>)> {
        match ask {
            RequestKind::Relation => Some((DaemonAnswer::Relation, self.relation.fd())),
            RequestKind::HostClock => {
                let clock = self.clock.as_ref()?;
                Some((DaemonAnswer::HostClock, clock.as_fd()))
            }
            _ => None,
        }
    }

    /// Forwards a program's requests to the host until the program or the agent ends.
    fn serve(&self, name: &TimelineName, number: u64, program: &Arc<OwnedFd>) {
        let mut buffer = vec![0; MOST_BYTES];
        while let Ok(Some((length, _))) = packet::receive(&**program, &mut buffer) {
            let Ok(request) = decode::<Request>(&buffer[..length]) else {
                break;
            };
            if let Some((answer, fd)) = self.own_answer(&request.ask) {
                let id = request.id;
                let reply = DaemonMessage::Reply(Reply { id, answer });
                if packet::send(&**program, &encode(&reply), Some(fd), true).is_err() {
                    break;
                }
                continue;
            }
            // If the host does not answer at present, waits for it.
            self.wait(BEAT * 5, |state| state.welcome);
            self.send(&FromGuest::Ask {
                connection: number,
                timeline: name.clone(),
                request,
            });
        }
        self.state().programs.remove(&number);
        self.send(&FromGuest::Close { connection: number });
    }
}

/// Interval at which threads check whether the agent has ended.
const LOOK: Duration = Duration::from_millis(400);
