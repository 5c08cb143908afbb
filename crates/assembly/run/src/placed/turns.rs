//! Agents that act in turns, so that the events of all of them have one order: time mode `skip` or
//! `stepped` with `compute = "none"`.
//!
//! Each pair of agents has one authenticated stream. It carries frames of links, the readiness of
//! programs, and the ends of turns, in the order in which they were sent. What an agent receives
//! takes effect when its next turn begins, sorted by the turns in which it was sent. Results
//! therefore do not depend on the speed of machines and streams.

mod meeting;
mod message;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration as StdDuration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use timeloom_agreement::{EventKey, Turn, TurnOrder};
use timeloom_bus::AwaitedMachine;
use timeloom_emulation::TunnelStreams;
use timeloom_guest::{Clock, SharedOrder};
use timeloom_time::{Duration, Instant, Virtual};

use crate::channel::{Content, Receiver, Sender};
use crate::node::ReadyBoard;
pub(crate) use meeting::{MeetError, Meeting};
use message::{PeerMessage, SentEnd};

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
    /// Sending halves of the streams to the other agents; `None` for this agent.
    peers: OnceLock<Vec<Option<Mutex<Sender>>>>,
    /// Function that tells the tunnels of a turn of this agent.
    ring: OnceLock<Box<dyn Fn() + Send + Sync>>,
    state: Mutex<State>,
    changed: Condvar,
    has_ended: AtomicBool,
}

struct State {
    turns: TurnOrder,
    /// Programs that became ready while another agent had the turn.
    unsaid: Vec<String>,
    /// What each agent has sent in a turn that has not ended.
    open: Vec<Vec<Arrival>>,
    /// What was sent to this agent since its last turn, by the turn in which it was sent.
    arrived: BTreeMap<u64, (usize, Vec<Arrival>)>,
    /// Frames that may be delivered to hosts of this agent, each with the sending agent.
    frames: VecDeque<(usize, Vec<u8>)>,
    /// True once all agents are connected. No agent acts before.
    has_met: bool,
    /// True once this agent's run has ended, so that it acts no more.
    leaves: bool,
    /// Agents that are at the end of the run.
    at_end: Vec<bool>,
    /// Reason why no turn comes any more.
    fault: Option<String>,
}

/// Message of another agent that takes effect in a turn of this one.
enum Arrival {
    Frame(Vec<u8>),
    Ready(String),
}

impl State {
    /// Returns this agent's right to act; `None` while another agent has the turn.
    fn mine(&self) -> Option<Turn> {
        self.turns.mine().filter(|_| self.has_met)
    }
}

impl AgentTurns {
    /// Creates the part of the agent with number `me` of those with these `names`. `ranks` has the
    /// ranks of its hosts, by their numbers in its session.
    pub(crate) fn new(
        me: usize,
        names: Vec<String>,
        ranks: Vec<u32>,
        ready: Arc<ReadyBoard>,
    ) -> Self {
        let count = names.len();
        Self {
            me,
            ranks,
            ready,
            clock: OnceLock::new(),
            peers: OnceLock::new(),
            ring: OnceLock::new(),
            state: Mutex::new(State {
                // Links within the kernel have no delay.
                turns: TurnOrder::new(me, count, Duration::ZERO),
                unsaid: Vec::new(),
                open: (0..count).map(|_| Vec::new()).collect(),
                arrived: BTreeMap::new(),
                frames: VecDeque::new(),
                has_met: false,
                leaves: false,
                at_end: vec![false; count],
                fault: None,
            }),
            names,
            changed: Condvar::new(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Returns the number of the agent with this name.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|it| it == name)
    }

    /// Sets the function that tells the tunnels that a turn of this agent has begun.
    pub(crate) fn ring_by(&self, ring: impl Fn() + Send + Sync + 'static) {
        // Called only once.
        let _ = self.ring.set(Box::new(ring));
    }

    /// Connects to all other agents, and waits until all are connected. From then on, this agent
    /// takes part in the order.
    ///
    /// # Errors
    /// Fails if an agent does not connect in time, or if the run is interrupted.
    pub(crate) fn meet(
        self: &Arc<Self>,
        meeting: Meeting,
        clock: &Arc<Clock>,
        interrupted: &AtomicBool,
    ) -> Result<(), MeetError> {
        let _ = self.clock.set(Arc::clone(clock));
        let patience = meeting.patience;
        let streams = meeting.connect(self.me, &self.names, interrupted)?;
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for stream in streams {
            let (sender, receiver) = stream.map_or((None, None), |(sender, receiver)| {
                (Some(Mutex::new(sender)), Some(receiver))
            });
            senders.push(sender);
            receivers.push(receiver);
        }
        let _ = self.peers.set(senders);
        for (from, receiver) in receivers.into_iter().enumerate() {
            let Some(receiver) = receiver else { continue };
            receiver
                .patience(Some(patience))
                .map_err(MeetError::Stream)?;
            let own = Arc::clone(self);
            let name = format!("from {}", self.names[from]);
            let listen = move || own.listen(from, receiver);
            std::thread::Builder::new()
                .name(name)
                .spawn(listen)
                .map_err(MeetError::Stream)?;
        }
        let own = Arc::clone(self);
        let beat = move || own.beat(patience / 4);
        std::thread::Builder::new()
            .name("beat".to_owned())
            .spawn(beat)
            .map_err(MeetError::Stream)?;
        let mut state = self.lock();
        state.has_met = true;
        self.begin_turn_if_mine(&mut state);
        Ok(())
    }

    /// Tells the other agents that this one acts no more, because its run has ended.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.leaves = true;
        self.tell_all(&PeerMessage::AtEnd);
        if state.mine().is_some() {
            self.end_turn(&mut state, None);
        }
    }

    /// Ends the connections to the other agents.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        for sender in self.peers.get().into_iter().flatten().flatten() {
            sender.lock().hang_up();
        }
    }

    /// Notifies the programs of all agents that wait for this program.
    pub(crate) fn announce(&self, program: &str) {
        let mut state = self.lock();
        match state.mine() {
            Some(_) => self.say_ready(&mut state, program),
            None => state.unsaid.push(program.to_owned()),
        }
    }

    /// Returns the reason why no turn comes any more; `None` while all is well.
    pub(crate) fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Returns the agent whose turn it is, if it is another one.
    pub(crate) fn awaited(&self) -> Vec<AwaitedMachine> {
        let holder = self.lock().turns.holder();
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

    fn now(&self) -> Instant<Virtual> {
        self.clock.get().map_or(Instant::ZERO, |clock| clock.now())
    }

    fn say_ready(&self, state: &mut State, program: &str) {
        let now = self.now();
        for to in (0..self.names.len()).filter(|to| *to != self.me) {
            state.turns.note_sent(to, now);
        }
        let program = program.to_owned();
        self.tell_all(&PeerMessage::Ready { program });
    }

    /// Sends a message to all other agents.
    fn tell_all(&self, message: &PeerMessage) {
        for to in 0..self.names.len() {
            self.tell(to, |sender| sender.say(message));
        }
    }

    /// Sends by the stream to agent `to`. A failure is found by the thread that receives from it.
    fn tell(&self, to: usize, say: impl FnOnce(&mut Sender) -> io::Result<()>) {
        let peers = self.peers.get();
        if let Some(Some(sender)) = peers.and_then(|peers| peers.get(to)) {
            let mut sender = sender.lock();
            if say(&mut sender).is_err() {
                sender.hang_up();
            }
        }
    }

    /// Ends this agent's turn.
    fn end_turn(&self, state: &mut State, next: Option<EventKey>) {
        if let Some(end) = state.turns.hand_over(next, state.leaves) {
            self.tell_all(&PeerMessage::End(SentEnd::from(end)));
            self.begin_turn_if_mine(state);
        }
    }

    /// Begins this agent's turn, if it has come: all that has arrived takes effect.
    fn begin_turn_if_mine(&self, state: &mut State) {
        if state.mine().is_none() {
            return;
        }
        if state.leaves {
            return self.end_turn(state, None);
        }
        for (from, arrivals) in std::mem::take(&mut state.arrived).into_values() {
            for arrival in arrivals {
                match arrival {
                    Arrival::Frame(bytes) => state.frames.push_back((from, bytes)),
                    Arrival::Ready(program) => self.ready.hear(&program),
                }
            }
        }
        for program in std::mem::take(&mut state.unsaid) {
            self.say_ready(state, &program);
        }
        if let Some(ring) = self.ring.get() {
            ring();
        }
        self.changed.notify_all();
    }

    /// Receives from one agent until its stream ends.
    fn listen(&self, from: usize, mut receiver: Receiver) {
        let failed = loop {
            match receiver.any() {
                Ok(content) => {
                    if let Err(fault) = self.heard(from, content) {
                        break fault;
                    }
                }
                Err(error) => break told(&error),
            }
        };
        let mut state = self.lock();
        let is_expected = state.at_end[from] || self.has_ended.load(Ordering::SeqCst);
        if !is_expected {
            let fault = format!("agent {}: {failed}", self.names[from]);
            state.fault.get_or_insert(fault);
        }
    }

    fn heard(&self, from: usize, content: Content) -> Result<(), String> {
        let mut state = self.lock();
        let message = match content {
            Content::Bytes(bytes) => {
                state.open[from].push(Arrival::Frame(bytes));
                return Ok(());
            }
            Content::Message(text) => serde_json::from_slice(&text).map_err(|it| it.to_string())?,
        };
        match message {
            PeerMessage::Hello { .. } => Err("it introduced itself twice".to_owned()),
            PeerMessage::Beat => Ok(()),
            PeerMessage::AtEnd => {
                state.at_end[from] = true;
                Ok(())
            }
            PeerMessage::Ready { program } => {
                state.open[from].push(Arrival::Ready(program));
                Ok(())
            }
            PeerMessage::End(end) => {
                let arrivals = std::mem::take(&mut state.open[from]);
                if !arrivals.is_empty() {
                    state.arrived.insert(end.turn, (from, arrivals));
                }
                let had = state.mine().is_some();
                let heard = state.turns.heard(from, end.into());
                heard.map_err(|fault| fault.to_string())?;
                if !had {
                    self.begin_turn_if_mine(&mut state);
                }
                Ok(())
            }
        }
    }

    /// Sends a sign of life to the other agents regularly.
    fn beat(&self, every: StdDuration) {
        while !self.has_ended.load(Ordering::SeqCst) {
            self.tell_all(&PeerMessage::Beat);
            std::thread::sleep(every);
        }
    }
}

impl SharedOrder for AgentTurns {
    fn turn(&self) -> Option<Turn> {
        self.lock().mine()
    }

    fn rank(&self, host: usize) -> u32 {
        self.ranks.get(host).copied().unwrap_or(u32::MAX - 1)
    }

    fn hand_over(&self, next: Option<EventKey>) {
        let mut state = self.lock();
        self.end_turn(&mut state, next);
    }

    fn await_turn(&self, patience: StdDuration) -> bool {
        let mut state = self.lock();
        if state.mine().is_none() {
            self.changed.wait_for(&mut state, patience);
        }
        state.mine().is_some()
    }
}

impl TunnelStreams for AgentTurns {
    fn has_turn(&self) -> bool {
        self.lock().mine().is_some()
    }

    fn send(&self, to: usize, arrival: Instant<Virtual>, bytes: &[u8]) {
        self.lock().turns.note_sent(to, arrival);
        self.tell(to, |sender| sender.bytes(bytes));
    }

    fn receive(&self) -> Option<(usize, Vec<u8>)> {
        self.lock().frames.pop_front()
    }
}

/// Returns the text of an error of a stream.
fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it has been silent for longer than placement.patience".to_owned()
        }
        io::ErrorKind::UnexpectedEof => "it closed the connection before the end".to_owned(),
        _ => error.to_string(),
    }
}
