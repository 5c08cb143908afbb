//! Agents that act in turns, so that the events of all of them have one order: time mode `skip` or
//! `stepped`, with `compute = "none"`.
//!
//! Each pair of agents has one authenticated stream. It carries frames of links, packets between
//! engines, the readiness of programs, and the ends of turns, in the order in which they were sent.
//! Messages take effect when the next turn of their receiver begins, sorted by the turns in which
//! they were sent. Results therefore do not depend on the speed of machines and streams.

mod arrivals;
mod fuzzing;
mod meeting;
mod message;
mod outbox;
mod receiving;
mod user_holds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration as StdDuration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use timeloom_agreement::{EventKey, Turn, TurnOrder};
use timeloom_bus::{AwaitedMachine, Bus};
use timeloom_emulation::TurnStreams;
use timeloom_guest::{Clock, SharedOrder};
use timeloom_time::{Duration, Instant, Virtual};

use crate::node::{ReadyBoard, Sample, SampleCallback, SampleChannel, UserPauses};
use arrivals::{Arrival, Arrivals};
pub(super) use fuzzing::hear_peer;
pub(crate) use meeting::{MeetError, Meeting};
use message::{PeerMessage, SentEnd};
use outbox::Outbox;
use user_holds::UserHolds;

/// This agent's part in the order of events that all agents of a run share.
pub(crate) struct AgentTurns {
    /// Number of this agent. The agents are numbered in the order of their names.
    me: usize,
    names: Vec<String>,
    /// Ranks of the hosts of this agent's session, by the number of the host.
    ranks: Vec<u32>,
    /// Programs that are ready; the board of this agent's run.
    ready: Arc<ReadyBoard>,
    clock: OnceLock<Arc<Clock>>,
    /// Streams to the other agents; `None` for this agent.
    peers: OnceLock<Vec<Option<Outbox>>>,
    /// Functions that tell tunnels and engine of a turn of this agent.
    rings: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Callback for the samples of the other agents' engines.
    samples: Mutex<Option<SampleCallback>>,
    /// Holds of this agent for users of the others.
    user_holds: UserHolds,
    state: Mutex<State>,
    changed: Condvar,
    /// True from [`Self::leave`] on, like [`State::leaves`].
    has_left: AtomicBool,
    /// True from [`Self::end`] on.
    has_ended: AtomicBool,
    /// This value, for threads that may outlive the run.
    own: Weak<Self>,
}

struct State {
    turns: TurnOrder,
    /// Programs of this agent that are not ready yet, and for which programs of other agents wait.
    awaited: BTreeSet<String>,
    /// Programs that became ready while another agent had the turn.
    ready_later: Vec<String>,
    arrivals: Arrivals,
    /// Frames of links, or packets of engines, that have taken effect, by the sending agent.
    frames: Vec<VecDeque<Vec<u8>>>,
    /// Instants at which users let all agents stop, by the agent of the user.
    stops: BTreeMap<usize, Instant<Virtual>>,
    /// Frames and packets that were sent while another agent had the turn: receiver, arrival and
    /// content.
    unsent: Vec<(usize, Instant<Virtual>, Vec<u8>)>,
    /// Agents that have asked for a turn, and have had none since.
    asking: BTreeSet<usize>,
    /// True once all agents are connected. No agent acts before.
    has_met: bool,
    /// True once this agent's run has ended, so that it acts no more.
    leaves: bool,
    /// Reason why no turn comes any more.
    fault: Option<String>,
}

/// Facts about the agents of a run, from the plan.
pub(crate) struct Agents {
    /// Names, in the order of the agents' numbers.
    pub(crate) names: Vec<String>,
    /// Ranks of this agent's hosts, by their numbers in its session.
    pub(crate) ranks: Vec<u32>,
    /// Programs of each agent for which programs of others wait.
    pub(crate) awaited: Vec<BTreeSet<String>>,
    /// Time that packets take at least from one agent to another.
    pub(crate) lookahead: Duration,
}

impl State {
    /// Returns this agent's right to act; `None` while another agent has the turn.
    fn mine(&self) -> Option<Turn> {
        self.turns.mine().filter(|_| self.has_met && !self.leaves)
    }
}

impl State {
    /// Lets an agent have the next turn, as if a message arrived there now.
    fn give_turn(&mut self, agent: usize) {
        let since = self.turns.since();
        self.turns.note_sent(agent, since);
    }
}

impl AgentTurns {
    /// Creates the part of the agent with number `me` of those in `agents`. `ready` is the board of
    /// its run.
    pub(crate) fn new(me: usize, agents: Agents, ready: Arc<ReadyBoard>) -> Arc<Self> {
        let Agents {
            names,
            ranks,
            mut awaited,
            lookahead,
        } = agents;
        let count = names.len();
        let unsettled = awaited.iter().enumerate();
        let unsettled = unsettled.filter(|(_, programs)| !programs.is_empty());
        let unsettled: Vec<usize> = unsettled.map(|(number, _)| number).collect();
        Arc::new_cyclic(|own| Self {
            me,
            ranks,
            ready,
            clock: OnceLock::new(),
            peers: OnceLock::new(),
            rings: Mutex::default(),
            samples: Mutex::new(None),
            user_holds: UserHolds::default(),
            state: Mutex::new(State {
                turns: TurnOrder::new(me, count, lookahead).with_unsettled(unsettled),
                awaited: std::mem::take(&mut awaited[me]),
                ready_later: Vec::new(),
                arrivals: Arrivals::of(count),
                frames: vec![VecDeque::new(); count],
                stops: BTreeMap::new(),
                unsent: Vec::new(),
                asking: BTreeSet::new(),
                has_met: false,
                leaves: false,
                fault: None,
            }),
            names,
            changed: Condvar::new(),
            has_left: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            own: Weak::clone(own),
        })
    }

    /// Returns true for the first of the agents.
    pub(crate) fn is_first(&self) -> bool {
        self.me == FIRST
    }

    /// Returns the numbers of all agents, by name.
    pub(crate) fn numbers(&self) -> BTreeMap<String, usize> {
        self.names.iter().cloned().zip(0..).collect()
    }

    /// Adds a function that is called whenever a turn of this agent begins.
    pub(crate) fn ring_by(&self, ring: Box<dyn Fn() + Send + Sync>) {
        self.rings.lock().push(ring);
    }

    /// Connects to all other agents, and waits until all are connected. From then on, this agent
    /// takes part in the order.
    ///
    /// # Errors
    /// Fails if an agent does not connect in time, or if the run is interrupted.
    pub(crate) fn meet(
        &self,
        meeting: &Meeting,
        clock: &Arc<Clock>,
        interrupted: &AtomicBool,
    ) -> Result<(), MeetError> {
        let _ = self.clock.set(Arc::clone(clock));
        let patience = meeting.patience;
        let streams = meeting.connect(self.me, &self.names, interrupted)?;
        let (mut outboxes, mut receivers) = (Vec::new(), Vec::new());
        for (to, stream) in streams.into_iter().enumerate() {
            let Some((sender, receiver)) = stream else {
                outboxes.push(None);
                continue;
            };
            let handle = receiver.hang_up().map_err(MeetError::Stream)?;
            handle
                .set_write_timeout(Some(patience))
                .map_err(MeetError::Stream)?;
            let own = Weak::clone(&self.own);
            let failed = move |error: io::Error| {
                if let Some(own) = own.upgrade() {
                    own.lost(to, &format!("nothing can be sent to it: {error}"));
                }
            };
            let outbox = Outbox::start(sender, handle, patience / 4, failed);
            outboxes.push(Some(outbox.map_err(MeetError::Stream)?));
            receivers.push((to, receiver));
        }
        let _ = self.peers.set(outboxes);
        for (from, receiver) in receivers {
            let own = Weak::clone(&self.own);
            let listen = move || receiving::listen(&own, from, receiver, patience);
            std::thread::Builder::new()
                .name("from an agent".to_owned())
                .spawn(listen)
                .map_err(MeetError::Stream)?;
        }
        let mut state = self.lock();
        state.has_met = true;
        self.begin_turn_if_mine(&mut state);
        Ok(())
    }

    /// Tells the other agents that this one acts no more: its run has ended, and its programs are
    /// about to be removed.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::SeqCst);
        self.user_holds.end();
        let mut state = self.lock();
        state.leaves = true;
        state.turns.stop_at(None);
        self.begin_turn_if_mine(&mut state);
    }

    /// Releases what belongs to this agent's run, which has ended or failed.
    pub(crate) fn forget_run(&self) {
        self.has_left.store(true, Ordering::SeqCst);
        self.user_holds.end();
        *self.samples.lock() = None;
        self.rings.lock().clear();
    }

    /// Ends the connections to the other agents.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.forget_run();
        for outbox in self.peers.get().into_iter().flatten().flatten() {
            outbox.hang_up();
        }
    }

    /// Notifies the programs of all agents that wait for this program.
    pub(crate) fn announce(&self, program: &str) {
        let mut state = self.lock();
        match state.mine() {
            Some(_) => self.say_ready(&mut state, program),
            None => state.ready_later.push(program.to_owned()),
        }
    }

    /// Returns the reason why no turn comes any more; `None` while all is well.
    pub(crate) fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Returns the agent whose turn it is, if it is another one.
    pub(crate) fn awaited(&self) -> Vec<AwaitedMachine> {
        let state = self.lock();
        let holder = state.turns.holder().filter(|_| state.has_met);
        let other = holder.filter(|holder| *holder != self.me);
        let told = other.map(|holder| AwaitedMachine {
            name: self.names[holder].clone(),
            state: "has the earliest event, and acts before this agent",
        });
        told.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn say_ready(&self, state: &mut State, program: &str) {
        // No other agent waits for the program otherwise.
        if !state.awaited.remove(program) {
            return;
        }
        let now = self.clock.get().map_or(Instant::ZERO, |clock| clock.now());
        let at = now.max(state.turns.since());
        for to in (0..self.names.len()).filter(|to| *to != self.me) {
            state.turns.note_sent(to, at);
        }
        if state.awaited.is_empty() {
            state.turns.settle();
        }
        self.tell_all(|| PeerMessage::Ready {
            program: program.to_owned(),
            at_ns: at.as_ns(),
        });
    }

    /// Queues a message to all other agents.
    fn tell_all(&self, message: impl Fn() -> PeerMessage) {
        for outbox in self.peers.get().into_iter().flatten().flatten() {
            outbox.say(message());
        }
    }

    fn send_now(&self, state: &mut State, to: usize, arrival: Instant<Virtual>, bytes: &[u8]) {
        state.turns.note_sent(to, arrival);
        // The end of the turn must follow in the stream.
        if let Some(outbox) = self.outbox(to) {
            outbox.bytes(bytes);
        }
    }

    fn outbox(&self, to: usize) -> Option<&Outbox> {
        self.peers.get()?.get(to)?.as_ref()
    }

    /// Ends this agent's turn.
    fn end_turn(&self, state: &mut State, next: Option<EventKey>) {
        if let Some(end) = state.turns.hand_over(next, state.leaves) {
            self.tell_all(|| PeerMessage::End(SentEnd::from(end.clone())));
            self.begin_turn_if_mine(state);
        }
    }

    /// Begins this agent's turn, if it has come: all that has arrived takes effect. An agent that
    /// leaves ends its turn at once.
    fn begin_turn_if_mine(&self, state: &mut State) {
        if !state.has_met || state.turns.mine().is_none() {
            return;
        }
        if state.leaves {
            return self.end_turn(state, None);
        }
        for (from, arrival) in state.arrivals.take() {
            match arrival {
                Arrival::Frame(bytes) => state.frames[from].push_back(bytes),
                Arrival::Ready(program, at) => self.ready_at(state, program, at),
            }
        }
        for program in std::mem::take(&mut state.ready_later) {
            self.say_ready(state, &program);
        }
        for (to, arrival, bytes) in std::mem::take(&mut state.unsent) {
            self.send_now(state, to, arrival, &bytes);
        }
        for agent in state.asking.clone() {
            state.give_turn(agent);
        }
        self.rings.lock().iter().for_each(|ring| ring());
        self.changed.notify_all();
    }

    /// Records that a program of another agent is ready, once the clock shows `at`.
    fn ready_at(&self, state: &mut State, program: String, at: Instant<Virtual>) {
        let Some(clock) = self.clock.get().map(Arc::clone) else {
            return;
        };
        // The clock does not pass the instant before the thread has acted.
        let mark = clock.mark(at);
        let (own, ready) = (Weak::clone(&self.own), Arc::clone(&self.ready));
        let act = move || {
            // The clock's lock is held meanwhile, so that of the state must not be taken.
            let has_left = |own: Arc<Self>| own.has_left.load(Ordering::SeqCst);
            let is_over = || own.upgrade().is_none_or(has_left);
            if clock.wait_until(at, is_over) {
                ready.hear(&program);
            }
            drop(mark);
        };
        let thread = std::thread::Builder::new().name("ready".to_owned());
        if let Err(error) = thread.spawn(act) {
            let fault = format!("no thread for a program that is ready: {error}");
            state.fault.get_or_insert(fault);
        }
    }

    fn stop_here(&self, from: usize, at: Option<Instant<Virtual>>) {
        let mut state = self.lock();
        match at {
            Some(at) => _ = state.stops.insert(from, at),
            None => _ = state.stops.remove(&from),
        }
        self.stop_at_first(&mut state);
    }

    /// Makes the first of all stops the one in force. If there is none any more, this agent may
    /// have the turn at which it stood.
    fn stop_at_first(&self, state: &mut State) {
        let had = state.turns.mine().is_some();
        state.turns.stop_at(state.stops.values().min().copied());
        if !had {
            self.begin_turn_if_mine(state);
        }
    }

    fn sampled(&self, from: usize, sample: Option<Sample>) {
        if let Some(callback) = &mut *self.samples.lock() {
            callback(from, sample);
        }
    }
}

impl SharedOrder for AgentTurns {
    fn turn(&self) -> Option<Turn> {
        self.lock().mine()
    }

    fn idle_until(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        state.turns.idle_until().filter(|_| state.has_met)
    }

    fn next_of_others(&self) -> Option<Instant<Virtual>> {
        self.lock().turns.next_of_others()
    }

    fn rank(&self, host: usize) -> u32 {
        self.ranks.get(host).copied().unwrap_or(u32::MAX - 1)
    }

    fn hand_over(&self, next: Option<EventKey>) {
        let mut state = self.lock();
        self.end_turn(&mut state, next);
    }

    fn ask_for_turn(&self) {
        let state = self.lock();
        if state.has_met && !state.leaves && state.turns.mine().is_none() {
            self.tell_all(|| PeerMessage::Ask);
        }
    }

    fn await_turn(&self, patience: StdDuration) -> bool {
        let mut state = self.lock();
        if state.mine().is_none() {
            self.changed.wait_for(&mut state, patience);
        }
        state.mine().is_some()
    }
}

impl UserPauses for AgentTurns {
    fn hold(&self, number: u64, reason: &str) {
        self.tell_all(|| PeerMessage::Hold {
            number,
            reason: reason.to_owned(),
        });
    }

    fn release(&self, number: u64) {
        self.tell_all(|| PeerMessage::Release { number });
    }

    fn stop_at(&self, at: Option<Instant<Virtual>>) {
        self.stop_here(self.me, at);
        self.tell_all(|| PeerMessage::StopAt {
            at_ns: at.map(Instant::as_ns),
        });
    }

    fn begin(&self, bus: Bus) {
        self.user_holds.begin(bus);
    }
}

impl SampleChannel for AgentTurns {
    fn collects(&self) -> bool {
        self.is_first()
    }

    fn is_open(&self) -> bool {
        self.peers.get().is_some() && !self.has_ended.load(Ordering::SeqCst)
    }

    fn close(&self) {
        *self.samples.lock() = None;
    }

    fn send(&self, sample: Sample) {
        if let Some(outbox) = self.outbox(FIRST) {
            outbox.say(PeerMessage::Sample(sample));
        }
    }

    fn receive(&self, callback: SampleCallback) {
        *self.samples.lock() = Some(callback);
    }
}

impl TurnStreams for AgentTurns {
    fn has_turn(&self) -> bool {
        self.lock().mine().is_some()
    }

    fn send(&self, to: usize, arrival: Instant<Virtual>, bytes: &[u8]) {
        let mut state = self.lock();
        // Programs that are removed after the end still send.
        if state.leaves {
            return;
        }
        match state.mine() {
            Some(_) => self.send_now(&mut state, to, arrival, bytes),
            // Input from outside, such as that of a program that a user has started.
            None if state.unsent.len() < MOST_UNSENT => {
                state.unsent.push((to, arrival, bytes.to_vec()));
            }
            None => {
                let fault = "too much was sent to other agents while another agent had the turn";
                state.fault.get_or_insert_with(|| fault.to_owned());
            }
        }
    }

    fn receive(&self, from: usize) -> Option<Vec<u8>> {
        self.lock().frames.get_mut(from)?.pop_front()
    }

    fn has_arrived(&self, from: usize) -> bool {
        let state = self.lock();
        let frames = state.frames.get(from);
        frames.is_some_and(|frames| !frames.is_empty())
    }
}

/// Maximum number of frames and packets that wait for a turn of this agent.
const MOST_UNSENT: usize = 1 << 16;

/// Number of the agent that records the samples of all engines, and is granted time.
const FIRST: usize = 0;
