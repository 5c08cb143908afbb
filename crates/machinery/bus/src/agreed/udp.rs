//! Line over UDP. Each host sends a datagram to each peer at every change, and periodically.
//!
//! One thread receives datagrams and handles timeouts, and another receives multicasts. A third
//! thread executes the orders for clock and processes one after the other, since orders may take
//! long and must not delay answers to peers, and a fourth claims the line at agreed stops
//! (`udp/threads.rs`).

mod awaited;
mod halted;
mod threads;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_agreement::{
    Datagram, Halt, HostId, HostOrder, Hosts, Member, MemberAction, Resumption, Settings,
    TimelineReading,
};
use timeloom_time::{Dilation, Duration, Instant, Virtual};
use tracing::debug;

use self::halted::Refusal;
use self::threads::{claim_stops, listen, listen_to_group, obey};
use super::group;
use super::seal::{BusKey, Unopened};
use super::testbed::AgreedTestbed;
use super::timeline::CommonTimeline;
use crate::testbed::TestbedError;
use crate::wire::{
    AgreedWire, AwaitedMachine, Cause, HaltReason, MachineWire, StoppingWire, Wire, wait_or,
};

/// Another host on the line, as configured.
#[derive(Clone, Debug)]
pub struct BusPeer {
    /// Unique name of the host.
    pub name: String,
    /// Address at which the host receives datagrams.
    pub address: SocketAddr,
    /// True if the host joins while the run is under way.
    pub late: bool,
}

/// Socket of a host that receives already, before the agreement begins.
pub struct BoundSocket {
    socket: UdpSocket,
    key: BusKey,
    timeline: Arc<dyn CommonTimeline>,
    settings: Settings,
    group: Option<(UdpSocket, SocketAddr)>,
}

/// This machine's end of a line over UDP. Clones made by [`Self::handle`] are the same end.
pub struct Udp(Arc<Shared>);

struct Shared {
    here: HostId,
    socket: UdpSocket,
    group: Option<SocketAddr>,
    key: BusKey,
    timeline: Arc<dyn CommonTimeline>,
    testbed: Arc<dyn AgreedTestbed>,
    names: Vec<String>,
    addresses: BTreeMap<HostId, SocketAddr>,
    /// Reading of the timeline when this end began to take part.
    began: TimelineReading,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
    refused: AtomicU64,
    /// Number of common resumptions that this machine has carried out.
    resumptions: AtomicU64,
    ended: AtomicBool,
}

struct State {
    member: Member,
    granted: Option<Instant<Virtual>>,
    halted: Option<Halt>,
    /// Last common resumption; `None` before the start.
    resumed: Option<Resumption>,
    /// Number of pauses that have begun with an order and whose end was not carried out yet; the
    /// stop before the start is one.
    pauses: u32,
    /// Error because of which the testbed did not obey an order.
    failed: Option<TestbedError>,
    claims: Claims,
    /// Hosts from which at least one datagram was accepted.
    heard: Hosts,
    /// Reason for the last refusal of a datagram, by host. The entry is removed when a datagram of
    /// the host is accepted.
    refusals: BTreeMap<HostId, Refusal>,
    /// Channel to the thread that executes orders, each with the number of the claim; `None` after
    /// the end of participation.
    orders: Option<Sender<(u64, HostOrder)>>,
}

/// Reasons why this machine claims the line between machines: a hold, a wire that is high, an
/// agreed stop that is reached, or the start of time.
#[derive(Default)]
struct Claims {
    hold: bool,
    wire: bool,
    /// True if the clock has reached the agreed stop, and no pause was granted there yet.
    stop: bool,
    /// True if this machine holds the start of time.
    start: bool,
    /// True if the member has been informed of the claim.
    told: bool,
    /// Number of the present claim, so that a grant for an earlier claim is not used for a later
    /// one.
    number: u64,
    /// True while this machine drives the wire.
    drives: bool,
    /// True if any machine has driven the wire since time last continued.
    driven: bool,
    /// Present if a pause has ended and was not reported yet; true if the wire was driven for that
    /// pause.
    ended: Option<bool>,
}

/// Reason why this end of the line could not be started.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// The socket could not be bound to this address.
    #[error("listening on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The multicast group could not be joined.
    #[error("joining the group {0}: {1}")]
    Group(SocketAddr, io::Error),
    /// The names are invalid: two hosts have this name, or there are more hosts than the line
    /// supports.
    #[error("{0}")]
    Names(String),
    /// A thread could not be started.
    #[error("starting a thread of the pause bus: {0}")]
    Thread(io::Error),
}

impl BoundSocket {
    /// Opens a socket that receives at `address`.
    ///
    /// # Errors
    /// Fails if the socket cannot be bound.
    pub fn listen(
        address: SocketAddr,
        key: BusKey,
        timeline: Arc<dyn CommonTimeline>,
        settings: Settings,
    ) -> Result<Self, UdpError> {
        let socket = UdpSocket::bind(address).map_err(|error| UdpError::Listen(address, error))?;
        Ok(Self {
            socket,
            key,
            timeline,
            settings,
            group: None,
        })
    }

    /// Sends later announcements to all hosts at once through the multicast group `group`, and
    /// receives those of the other hosts there.
    ///
    /// # Errors
    /// Fails if `group` is not an IPv4 multicast address, or if the machine cannot join the group.
    pub fn join(mut self, group: SocketAddr) -> Result<Self, UdpError> {
        let failed = |error| UdpError::Group(group, error);
        let here = self.address().map_err(failed)?;
        self.group = Some((group::join(here, group).map_err(failed)?, group));
        self.settings.to_all = true;
        Ok(self)
    }

    /// Returns the timeline that this host shares with the others.
    pub fn timeline(&self) -> Arc<dyn CommonTimeline> {
        Arc::clone(&self.timeline)
    }

    /// Returns the local address of the socket.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes part under the name `me`, from the start of the run or, if `joins` is true, from the
    /// next resume on. Hosts are numbered in the order of their names, so that all hosts use the
    /// same numbers.
    ///
    /// # Errors
    /// Fails if names are not unique, or if no thread can be started.
    pub fn start(
        self,
        me: &str,
        joins: bool,
        peers: &[BusPeer],
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
            here,
            socket: self.socket,
            group: self.group.as_ref().map(|(_, address)| *address),
            key: self.key,
            timeline: self.timeline,
            began: now,
            patience: self.settings.patience,
            testbed,
            addresses: addresses.collect(),
            names,
            state: Mutex::new(State {
                member,
                granted: None,
                halted: None,
                resumed: None,
                pauses: 1,
                failed: None,
                claims: Claims::default(),
                heard: Hosts::NONE,
                refusals: BTreeMap::new(),
                orders: Some(orders),
            }),
            changed: Condvar::new(),
            refused: AtomicU64::new(0),
            resumptions: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        shared.tell(|_, _| ());
        let its = Arc::clone(&shared);
        spawn("bus-orders", move || obey(&its, &to_do))?;
        let its = Arc::clone(&shared);
        spawn("bus-network", move || listen(&its))?;
        let its = Arc::clone(&shared);
        spawn("bus-stops", move || claim_stops(&its))?;
        if let Some((socket, _)) = self.group {
            let its = Arc::clone(&shared);
            spawn("bus-group", move || listen_to_group(&its, &socket))?;
        }
        Ok(Udp(shared))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), UdpError> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop).map_err(UdpError::Thread)
}

impl Udp {
    /// Returns another handle of the same end.
    pub fn handle(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Returns the names of the present members, including that of this machine.
    pub fn members(&self) -> Vec<String> {
        let members = self.0.lock().member.members();
        members.iter().map(|host| self.0.name(host)).collect()
    }

    /// Returns the number of refused datagrams: those of another run, without a valid seal, or out
    /// of date.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Informs the other hosts that this machine is about to drive the wire, or does so no longer.
    pub(crate) fn will_drive(&self, drives: bool) {
        let mut state = self.0.lock();
        state.claims.drives = drives;
        state.claims.hold |= drives;
        state.member.drives(drives);
    }

    /// Records the level of the wire beside this line. While the wire is high, it counts as a hold.
    pub(crate) fn line_is(&self, high: bool) {
        self.0.claim(|claims| claims.wire = high);
    }

    /// Informs the member that the wire is high although no machine drives it.
    pub(crate) fn line_is_stuck(&self) {
        self.0.tell(Member::line_is_stuck);
    }

    /// Returns two values for the check of the wire. The first is true if other hosts report that
    /// they drive it, and `None` before the start of time. The second is present if a pause has
    /// ended since the last call, and true if the wire was driven for that pause.
    pub(crate) fn of_the_line(&self) -> (Option<bool>, Option<bool>) {
        let mut state = self.0.lock();
        let ended = state.claims.ended.take();
        let others = state.resumed.map(|_| state.member.others_drive());
        (others, ended)
    }
}

impl MachineWire for Udp {
    fn wait_for_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        let shared = &self.0;
        let over = |state: &State| state.resumed.is_some() || state.halted.is_some();
        let state = wait_or(&shared.changed, shared.lock(), over, give_up);
        shared.halted(&state).map_or(Ok(over(&state)), Err)
    }

    fn hold_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        let shared = &self.0;
        shared.claim(|claims| claims.start = true);
        let over = |state: &State| state.granted.is_some() || state.halted.is_some();
        let state = wait_or(&shared.changed, shared.lock(), over, give_up);
        if let Some(reason) = shared.halted(&state) {
            return Err(reason);
        }
        let is_held = over(&state);
        drop(state);
        if !is_held {
            shared.claim(|claims| claims.start = false);
        }
        Ok(is_held)
    }

    fn release_start(&self) {
        self.0.claim(|claims| claims.start = false);
    }

    fn halted(&self) -> Option<HaltReason> {
        self.0.halted(&self.0.lock())
    }

    /// Ends participation. To the other hosts, this host becomes silent.
    fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.lock().orders = None;
        self.0.changed.notify_all();
        self.0.testbed.wake();
    }

    fn awaited(&self) -> Vec<AwaitedMachine> {
        let state = self.0.lock();
        awaited::machines(&state.member, |host| self.0.name(host))
    }
}

impl Wire for Udp {
    fn raise(&self, _: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        self.0.claim(|claims| claims.hold = true);
        let state = self
            .0
            .wait(|state| state.granted.is_some() || state.halted.is_some());
        match (self.0.halted(&state), state.granted) {
            (Some(halted), _) => Err(halted.into()),
            (None, Some(at)) => Ok(at),
            (None, None) => unreachable!("waited for one of both"),
        }
    }

    fn lower(&self, _: Cause<'_>, _: Instant<Virtual>) -> Result<(), TestbedError> {
        self.0.claim(|claims| claims.hold = false);
        Ok(())
    }

    fn stopping(&self) -> Option<&dyn StoppingWire> {
        Some(self)
    }

    fn agreed(&self) -> Option<&dyn AgreedWire> {
        Some(self)
    }
}

impl StoppingWire for Udp {
    fn stop_at(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        let accepted = self.0.tell(|member, _| member.stop_at(at));
        accepted.then_some(()).ok_or_else(|| {
            let halted = self.halted().map(TestbedError::from);
            halted.unwrap_or_else(|| {
                let at = at - Instant::ZERO;
                TestbedError::new(format!(
                    "{at} is in the past, or this machine does not hold"
                ))
            })
        })
    }

    fn postpone_stop(&self, to: Instant<Virtual>) {
        self.0
            .tell(|member, moment| member.postpone_stop(to, moment));
    }
}

impl AgreedWire for Udp {
    fn dilate(&self, dilation: Dilation) -> Result<(), TestbedError> {
        let accepted = self.0.tell(|member, _| member.dilate(dilation));
        accepted.then_some(()).ok_or_else(|| {
            let halted = self.halted().map(TestbedError::from);
            halted.unwrap_or_else(|| TestbedError::new("this machine does not hold the pause"))
        })
    }

    fn wait_for_end_of(
        &self,
        pause: Instant<Virtual>,
        most: StdDuration,
    ) -> Result<Option<Dilation>, TestbedError> {
        let shared = &self.0;
        let after = |state: &State| state.resumed.filter(|resumed| resumed.from >= pause);
        let goes_on = |state: &mut State| after(state).is_none() && state.halted.is_none();
        let mut state = shared.lock();
        shared.changed.wait_while_for(&mut state, goes_on, most);
        match shared.halted(&state) {
            Some(halted) => Err(halted.into()),
            None => Ok(after(&state).map(|resumed| resumed.dilation)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns true if this machine has no further part in the run.
    fn is_over(&self, state: &State) -> bool {
        state.halted.is_some() || self.ended.load(Ordering::SeqCst)
    }

    fn wait(&self, over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| !over(state));
        state
    }

    /// Passes an input to the member, and executes the resulting actions.
    fn tell<T>(&self, something: impl FnOnce(&mut Member, TimelineReading) -> T) -> T {
        self.tell_of(&mut self.lock(), something)
    }

    /// Changes the claims of this machine, and informs the member if the line is now claimed but
    /// was not before, or the reverse.
    fn claim(&self, change: impl FnOnce(&mut Claims)) {
        self.claim_of(&mut self.lock(), change);
    }

    fn claim_of(&self, state: &mut State, change: impl FnOnce(&mut Claims)) {
        let claims = &mut state.claims;
        change(claims);
        let claimed = claims.hold || claims.wire || claims.stop || claims.start;
        if claimed == claims.told {
            // Other hosts may still have to be informed that this machine drives the wire.
            return self.tell_of(state, Member::wake);
        }
        claims.told = claimed;
        claims.number += u64::from(claimed);
        state.granted = None;
        match claimed {
            true => self.tell_of(state, Member::claim),
            false => self.tell_of(state, Member::release),
        }
    }

    fn tell_of<T>(
        &self,
        state: &mut State,
        something: impl FnOnce(&mut Member, TimelineReading) -> T,
    ) -> T {
        let said = something(&mut state.member, self.timeline.read());
        let driven = state.claims.drives || state.member.others_drive();
        state.claims.driven |= driven;
        while let Some(action) = state.member.next_action() {
            match action {
                MemberAction::Send(datagram) => {
                    let address = match datagram.to {
                        Some(to) => self.addresses.get(&to).copied(),
                        None => self.group,
                    };
                    if let Some(address) = address {
                        // A datagram that cannot be sent has the same effect as one that is lost on
                        // the way.
                        let _ = self.socket.send_to(&self.key.seal(&datagram), address);
                    }
                }
                MemberAction::Order(order) => {
                    if let HostOrder::Halt(halt) = order {
                        state.halted = Some(halt);
                        self.changed.notify_all();
                    }
                    state.pauses += u32::from(matches!(order, HostOrder::Close { .. }));
                    if let Some(orders) = &state.orders {
                        let _ = orders.send((state.claims.number, order));
                    }
                }
            }
        }
        said
    }

    /// Processes the bytes of a datagram that was received from `source`.
    fn hear(&self, bytes: &[u8], source: SocketAddr) {
        let taken = match self.key.open(bytes) {
            // The sender of a multicast receives it too.
            Ok(datagram) if datagram.from == self.here => return,
            Ok(datagram) => self.take(&datagram),
            Err(unopened) => {
                let mut peers = self.addresses.iter().filter(|it| *it.1 == source);
                if unopened == Unopened::OtherKey
                    && let Some((&host, _)) = peers.next()
                {
                    self.lock().note(host, Refusal::OtherKey);
                }
                false
            }
        };
        if !taken {
            debug!(%source, "refused a datagram of the pause bus");
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take(&self, datagram: &Datagram) -> bool {
        let mut state = self.lock();
        if let Some(refusal) = self.is_of_another_time(datagram, self.timeline.read()) {
            state.note(datagram.from, refusal);
            return false;
        }
        let taken = self.tell_of(&mut state, |member, now| member.receive(datagram, now));
        if taken {
            state.heard = state.heard.with(datagram.from);
            state.refusals.remove(&datagram.from);
        }
        taken
    }

    /// Returns a reason to refuse a datagram that was sent at another time. A key may be used for
    /// several runs, and an observer of an earlier run may replay its datagrams. The number of a
    /// datagram reveals this only after a newer datagram of that host has arrived, while the time
    /// of sending reveals it from the start. The timeline may have been set back since the earlier
    /// run.
    fn is_of_another_time(&self, datagram: &Datagram, moment: TimelineReading) -> Option<Refusal> {
        let early = self.began.now - datagram.stamp;
        let ahead = datagram.stamp - moment.now;
        if early > self.began.uncertainty + datagram.uncertainty {
            return Some(Refusal::Earlier(early));
        }
        // Clocks that differ by slightly more than their error bounds must not end a run.
        let possible = moment.uncertainty + datagram.uncertainty + self.patience;
        (ahead > possible).then_some(Refusal::Ahead(ahead))
    }

    fn name(&self, host: HostId) -> String {
        let name = self.names.get(usize::from(host.number()));
        name.cloned().unwrap_or_else(|| host.to_string())
    }
}

impl State {
    fn note(&mut self, host: HostId, refusal: Refusal) {
        // After a host's datagram was accepted, a refusal says little: any sender may replay an
        // early datagram of that host, or send bytes without a seal.
        if !self.heard.contains(host) || matches!(refusal, Refusal::Ahead(_)) {
            self.refusals.insert(host, refusal);
        }
    }
}
