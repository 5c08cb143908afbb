//! The line over UDP: one datagram to each peer for each change, and at every beat.
//!
//! Two threads. One receives and keeps the time; one does what was agreed to clock and
//! processes, in order, for that may take its time and must not keep the other from
//! answering.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_accord::{Action, Halt, HostId, Hosts, Member, Moment, Order, Settings, Why};
use timeloom_time::{Instant, Virtual};

use super::seal::{Key, SEALED};
use super::testbed::AgreedTestbed;
use super::timeline::CommonTimeline;
use crate::testbed::TestbedError;
use crate::wire::{Cause, Wire};

/// Another host on the line.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name, which no other has.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// It comes when the run is under way.
    pub late: bool,
}

/// A socket that listens, before anything was agreed.
pub struct Bound {
    socket: UdpSocket,
    key: Key,
    timeline: Arc<dyn CommonTimeline>,
    settings: Settings,
}

/// This machine's end of the line.
pub struct Udp(Arc<Shared>);

struct Shared {
    socket: UdpSocket,
    key: Key,
    timeline: Arc<dyn CommonTimeline>,
    testbed: Arc<dyn AgreedTestbed>,
    names: Vec<String>,
    addresses: BTreeMap<HostId, SocketAddr>,
    state: Mutex<State>,
    changed: Condvar,
    refused: AtomicU64,
    ended: AtomicBool,
}

struct State {
    member: Member,
    granted: Option<Instant<Virtual>>,
    halted: Option<Halt>,
    resumed: bool,
    /// None when it takes part no more.
    orders: Option<Sender<Order>>,
}

/// Why there is no line.
#[derive(Debug)]
pub enum UdpError {
    /// The address could not be listened on.
    Listen(SocketAddr, io::Error),
    /// Two hosts have this name, or there are more than the line can have.
    Names(String),
    /// A thread could not be started.
    Thread(io::Error),
}

impl Bound {
    /// Listens on `address`.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn listen(
        address: SocketAddr,
        key: Key,
        timeline: Arc<dyn CommonTimeline>,
        settings: Settings,
    ) -> Result<Self, UdpError> {
        let socket = UdpSocket::bind(address).map_err(|error| UdpError::Listen(address, error))?;
        Ok(Self {
            socket,
            key,
            timeline,
            settings,
        })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes part as `me`, from the start or (`joins`) from the next resume on. Hosts
    /// are numbered by name, so that all number them alike.
    ///
    /// # Errors
    /// Names that are not different, or no thread.
    pub fn start(
        self,
        me: &str,
        joins: bool,
        peers: &[Peer],
        testbed: Arc<dyn AgreedTestbed>,
    ) -> Result<Udp, UdpError> {
        let mut names: Vec<String> = peers.iter().map(|peer| peer.name.clone()).collect();
        names.push(me.to_owned());
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(UdpError::Names(format!(
                "two hosts are called `{}`",
                pair[0]
            )));
        }
        if names.len() > usize::from(Hosts::MOST) {
            return Err(UdpError::Names(format!("more than {} hosts", Hosts::MOST)));
        }
        let number = |name: &str| {
            let at = names.iter().position(|other| other == name);
            at.and_then(|at| HostId::new(at as u8))
                .expect("one of them")
        };
        let here = number(me);
        let addresses = peers.iter().map(|peer| (number(&peer.name), peer.address));
        let early = peers.iter().filter(|peer| !peer.late);
        let early: Hosts = early.map(|peer| number(&peer.name)).collect();
        let all: Hosts = peers.iter().map(|peer| number(&peer.name)).collect();
        let now = self.timeline.read();
        let member = match joins {
            true => Member::joining(here, all, self.settings, now),
            false => Member::new(here, early, all, self.settings, now),
        };
        let (orders, to_do) = channel();
        let shared = Arc::new(Shared {
            socket: self.socket,
            key: self.key,
            timeline: self.timeline,
            testbed,
            addresses: addresses.collect(),
            names,
            state: Mutex::new(State {
                member,
                granted: None,
                halted: None,
                resumed: false,
                orders: Some(orders),
            }),
            changed: Condvar::new(),
            refused: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        shared.tell(|_, _| ());
        let its = Arc::clone(&shared);
        spawn("bus-orders", move || obey(&its, &to_do))?;
        let its = Arc::clone(&shared);
        spawn("bus-network", move || listen(&its))?;
        Ok(Udp(shared))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), UdpError> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop).map_err(UdpError::Thread)
}

impl Udp {
    /// Another handle of this end.
    pub fn handle(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Waits until all hosts are there and time goes on for the first time.
    ///
    /// # Errors
    /// When the run has stopped before; why, in words.
    pub fn wait_for_start(&self) -> Result<(), String> {
        let shared = &self.0;
        let state = shared.wait(|state| state.resumed || state.halted.is_some());
        match state.halted {
            Some(halt) => Err(shared.words(halt)),
            None => Ok(()),
        }
    }

    /// Why the run has stopped for good, in words, if it has.
    pub fn halted(&self) -> Option<String> {
        let halted = self.0.lock().halted;
        halted.map(|halt| self.0.words(halt))
    }

    /// The names of those that take part now, this machine's too.
    pub fn members(&self) -> Vec<String> {
        let members = self.0.lock().member.members();
        members.iter().map(|host| self.0.name(host)).collect()
    }

    /// How many datagrams were refused: of another run, of nobody, out of date.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Takes part no more. The others find this host silent.
    pub fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.lock().orders = None;
    }
}

impl Wire for Udp {
    fn raise(&self, _: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        self.0.tell(Member::claim);
        let state = self
            .0
            .wait(|state| state.granted.is_some() || state.halted.is_some());
        match (state.halted, state.granted) {
            (None, Some(at)) => Ok(at),
            (halted, _) => {
                let why = halted.map(|halt| self.0.words(halt));
                Err(TestbedError::new(why.unwrap_or_default()))
            }
        }
    }

    fn lower(&self, _: Cause<'_>, _: Instant<Virtual>) -> Result<(), TestbedError> {
        self.0.lock().granted = None;
        self.0.tell(Member::release);
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        self.changed
            .wait_while(state, |state| !over(state))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the member something, and does what comes of it.
    fn tell<T>(&self, something: impl FnOnce(&mut Member, Moment) -> T) -> T {
        let mut state = self.lock();
        let said = something(&mut state.member, self.timeline.read());
        while let Some(action) = state.member.next_action() {
            match action {
                Action::Send(datagram) => {
                    if let Some(address) = self.addresses.get(&datagram.to) {
                        // What cannot be sent is as lost as what is lost on the way.
                        let _ = self.socket.send_to(&self.key.seal(&datagram), address);
                    }
                }
                Action::Order(order) => {
                    if let Order::Halt(halt) = order {
                        state.halted = Some(halt);
                        self.changed.notify_all();
                    }
                    if let Some(orders) = &state.orders {
                        let _ = orders.send(order);
                    }
                }
            }
        }
        said
    }

    fn name(&self, host: HostId) -> String {
        let name = self.names.get(usize::from(host.number()));
        name.cloned().unwrap_or_else(|| host.to_string())
    }

    fn words(&self, halt: Halt) -> String {
        let by = self.name(halt.by);
        match halt.why {
            Why::Silent(host) => {
                let host = self.name(host);
                format!(
                    "{by} hears nothing from {host}: that host has died, \
                     or the link {by}–{host} is broken"
                )
            }
            Why::Link(host) => {
                let host = self.name(host);
                format!("the link {by}–{host} is broken: others hear both")
            }
            Why::Minority => format!("{by} hears no more than half of the hosts"),
            Why::Excluded => {
                format!("the others have gone on without {by}, which they did not hear")
            }
            Why::Restarted(host) => {
                format!("{} began anew in the middle of the run", self.name(host))
            }
            Why::Failed => format!("clock or processes of {by} could not be commanded"),
        }
    }
}

/// Receives, and wakes the member when it is time.
fn listen(shared: &Shared) {
    let mut buffer = [0; SEALED + 1];
    while !shared.ended.load(Ordering::SeqCst) {
        let due = shared.lock().member.next_wake();
        let left = due - shared.timeline.read().now;
        // Other threads may have made it earlier meanwhile: not for long.
        let left = left.as_ns().clamp(50_000, 5_000_000);
        let _ = shared
            .socket
            .set_read_timeout(Some(StdDuration::from_nanos(left as u64)));
        // An error is a peer that is not there yet (ICMP), or nothing to be had.
        if let Ok((bytes, _)) = shared.socket.recv_from(&mut buffer) {
            let taken = match shared.key.open(&buffer[..bytes]) {
                Some(datagram) => shared.tell(|member, moment| member.receive(&datagram, moment)),
                None => false,
            };
            if !taken {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        if shared.timeline.read().now >= due {
            shared.tell(Member::wake);
        }
    }
}

/// Does what was agreed, in order.
fn obey(shared: &Shared, orders: &Receiver<Order>) {
    while let Ok(order) = orders.recv() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        if obey_one(shared, order).is_err() {
            shared.tell(Member::failed);
        }
    }
}

fn obey_one(shared: &Shared, order: Order) -> Result<(), TestbedError> {
    let testbed = &shared.testbed;
    match order {
        Order::HoldAlone => testbed.hold_alone()?,
        Order::Close { at_least } => {
            let lead = shared.lock().member.lead(shared.timeline.read());
            let ceiling = testbed.close(lead, at_least)?;
            shared.tell(|member, moment| member.closed(ceiling, moment));
        }
        Order::Stand { at } => {
            testbed.stand(at)?;
            shared.tell(Member::stood);
        }
        Order::Grant { at } => {
            shared.lock().granted = Some(at);
            shared.changed.notify_all();
        }
        Order::Resume(resumed) => {
            testbed.resume(resumed.from, shared.timeline.wall_at(resumed.at))?;
            shared.lock().resumed = true;
            shared.changed.notify_all();
        }
        Order::Halt(_) => testbed.halt(),
    }
    Ok(())
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address, error) => write!(f, "listening on {address}: {error}"),
            Self::Names(text) => f.write_str(text),
            Self::Thread(error) => write!(f, "starting a thread of the pause bus: {error}"),
        }
    }
}

impl std::error::Error for UdpError {}
