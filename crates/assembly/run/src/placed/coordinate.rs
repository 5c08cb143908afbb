//! Coordinator of a distributed run, in the process that started it. The coordinator gives each
//! agent its share, receives the agents' progress, and merges their results into one run directory.
//! It runs no share itself.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver as Inbox, RecvTimeoutError};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use data_encoding::HEXLOWER;
use timeloom_results::{Incoming, Manifest, RunDirectory, RunFailure};
use timeloom_scenario::Plan;
use timeloom_sys::seal::draw;
use timeloom_time::{Duration, Instant};
use tracing::debug;

use super::calls::Calls;
use super::error::{AgentError, SpreadError};
use super::merge::{MergeError, merge};
use super::message::{AgentEndpoints, FromAgent, Lengths, Prepare, ShareEnd, ShareResult, ToAgent};
use super::secret::{Secret, read_key};
use super::serve::AgentTimeline;
use super::transfer::{pack, receive, send};
use crate::channel::{Receiver, Sender, Side, greet};
use crate::civil::civil_now;
use crate::error::RunError;
use crate::judgement::{close, judge};
use crate::opening::{note_failure, open};
use crate::options::RunOptions;
use crate::summary::{Progress, Summary};
use crate::verdict::End;
use crate::{inputs, simulated};

/// Runs a plan on its agents and leaves one complete run directory on this machine.
///
/// # Errors
/// Returns an error if the run could not start. Later failures are in the summary and in the
/// results.
pub(crate) fn coordinate(plan: &Plan, options: RunOptions) -> Result<Summary, RunError> {
    let mut plan = plan.clone();
    // The civil time at virtual zero is fixed here, so that all agents show the same.
    plan.time.start.get_or_insert_with(civil_now);
    let (directory, mut manifest) = open(&plan, &options)?;
    manifest.session_start = plan.time.start;
    directory.write_manifest(&manifest)?;
    // From here on, the manifest records how the run ended, even if a later step fails.
    let interrupted = Arc::clone(&options.interrupted);
    let coordinated = prepare_all(&plan, &options, &directory, &mut manifest)
        .map(|(coordinator, incoming)| coordinator.go(options, incoming));
    let (agents, end) = match coordinated {
        Ok(done) => done,
        Err(error) => {
            note_failure(&directory, manifest, &error, &interrupted);
            return Err(error);
        }
    };
    finalize(&plan, &directory, agents, end, manifest)
}

/// Stores the inputs of the run, creates the folders for the agents' results, and prepares all
/// agents. The folders come first, so that an obstacle is reported before any agent prepares.
fn prepare_all<'a>(
    plan: &'a Plan,
    options: &RunOptions,
    directory: &RunDirectory,
    manifest: &mut Manifest,
) -> Result<(Coordinator<'a>, Places), RunError> {
    let names = plan.placement.agents.keys();
    let places: Result<Places, _> = names
        .map(|name| Ok((name.clone(), Arc::new(directory.make_incoming(name)?))))
        .collect();
    let places = places.map_err(RunError::Results)?;
    let prepared = inputs::keep(plan, directory, manifest).and_then(|()| {
        if let Some(topology) = simulated::topology(plan)? {
            directory.write_topology(&topology)?;
        }
        directory.write_manifest(manifest)?;
        Coordinator::gather(plan, options).map_err(|error| RunError::Start(error.to_string()))
    });
    match prepared {
        Ok(coordinator) => Ok((coordinator, places)),
        Err(error) => {
            for place in places.values() {
                let _ = place.remove();
            }
            Err(error)
        }
    }
}

/// Folders for the results of agents, by agent name.
type Places = BTreeMap<String, Arc<Incoming>>;

/// The agents of a run, all of which are prepared.
struct Coordinator<'a> {
    plan: &'a Plan,
    agents: Vec<AgentState>,
}

/// State of one agent.
struct AgentState {
    name: String,
    sender: Sender,
    receiver: Option<Receiver>,
    found: AgentEndpoints,
    timeline: AgentTimeline,
    lengths: Lengths,
    /// Result of the agent; `None` until its share has ended or the agent is lost.
    ended: Option<ShareResult>,
    /// Folder for the agent's results; `None` until the run has begun.
    results: Option<Arc<Incoming>>,
}

/// Message from an agent's thread to the coordinator.
pub(super) enum AgentEvent {
    Message(FromAgent),
    /// The agent has ended, and its results have arrived.
    Ended(ShareResult),
    Gone(String),
}

impl<'a> Coordinator<'a> {
    /// Connects to all agents, gives them their shares, and checks that they share one clock.
    fn gather(plan: &'a Plan, options: &RunOptions) -> Result<Self, SpreadError> {
        let file = plan.placement.key_file.as_deref();
        let secret = read_key(file.ok_or(SpreadError::NoKey)?, Secret::from_hex)?;
        let nonce = HEXLOWER.encode(&draw().map_err(SpreadError::Number)?);
        let agents = Self::prepare_all(plan, &secret, &nonce, options)?;
        if let Some(pair) = agents
            .windows(2)
            .find(|it| it[0].timeline != it[1].timeline)
        {
            let [one, other] = [0, 1].map(|at: usize| pair[at].name.clone());
            return Err(SpreadError::Clocks(one, other));
        }
        Ok(Self { plan, agents })
    }

    /// Prepares all agents concurrently. The first failure, or an interruption, ends the wait for
    /// the others.
    fn prepare_all(
        plan: &Plan,
        secret: &Secret,
        nonce: &str,
        options: &RunOptions,
    ) -> Result<Vec<AgentState>, SpreadError> {
        let calls = Arc::new(Calls::default());
        let (done, inbox) = mpsc::channel();
        let mut waiting = BTreeMap::new();
        let shared = Arc::new(plan.clone());
        for (name, place) in &plan.placement.agents {
            waiting.insert(name.clone(), place.address.clone());
            let (name, address) = (name.clone(), place.address.clone());
            let (secret, nonce) = (secret.clone(), nonce.to_owned());
            let (plan, calls, done) = (Arc::clone(&shared), Arc::clone(&calls), done.clone());
            thread::spawn(move || {
                let prepared = prepare(&plan, (&name, &address), &secret, &nonce, &calls);
                let _ = done.send((name, prepared));
            });
        }
        drop(done);
        let mut notice = Notice::new();
        let mut agents = Vec::new();
        while !waiting.is_empty() {
            let failed = match inbox.recv_timeout(LOOK_EVERY) {
                Ok((name, Ok(agent))) => {
                    waiting.remove(&name);
                    agents.push(agent);
                    None
                }
                Ok((name, Err(why))) => Some((name, why)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    let first = waiting.keys().next();
                    first.map(|name| (name.clone(), AgentError::Panicked))
                }
            };
            if let Some((name, why)) = failed {
                calls.give_up();
                let address = waiting.remove(&name).unwrap_or_default();
                return Err(SpreadError::Agent { name, address, why });
            }
            let missing = || {
                let named = waiting
                    .iter()
                    .map(|(name, at)| format!("agent {name} ({at})"));
                named.collect::<Vec<_>>().join(", ")
            };
            if options.interrupted.load(Ordering::SeqCst) {
                calls.give_up();
                return Err(SpreadError::Interrupted(missing()));
            }
            if !waiting.is_empty() && notice.is_due() {
                (options.warn)(format!("waiting for {} to be prepared", missing()));
            }
        }
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(agents)
    }

    /// Lets all agents begin, and returns when all have ended or are given up.
    fn go(mut self, mut options: RunOptions, places: Places) -> (Vec<AgentState>, End) {
        let members: Vec<AgentEndpoints> = self.agents.iter().map(|it| it.found.clone()).collect();
        let (events, inbox) = mpsc::channel();
        let mut threads = Vec::new();
        for (index, agent) in self.agents.iter_mut().enumerate() {
            let results = Arc::clone(&places[&agent.name]);
            agent.results = Some(Arc::clone(&results));
            let members = members.clone();
            if let Err(error) = agent.sender.say(&ToAgent::Begin { members }) {
                let _ = events.send((index, AgentEvent::Gone(error.to_string())));
            }
            let (receiver, events) = (agent.receiver.take(), events.clone());
            let most = self.plan.results.journal_limit.as_bytes();
            threads.push(thread::spawn(move || {
                let Some(mut receiver) = receiver else { return };
                let tell = |event| events.send((index, event)).is_ok();
                // An agent reports its progress several times a second, so longer silence means
                // that it is lost.
                let gone = receiver.patience(Some(SILENT_FOR));
                let gone = gone.and_then(|()| listen(&mut receiver, &results, most, &tell));
                if let Err(error) = gone {
                    tell(AgentEvent::Gone(error.to_string()));
                }
            }));
        }
        let end = self.listen(&mut options, &inbox);
        for agent in &mut self.agents {
            // Sending may fail, but an agent that is lost needs no message.
            let _ = agent.sender.say(&ToAgent::Done);
            if agent.ended.is_none() {
                // The coordinator has given the agent up, but the agent's thread is still waiting.
                agent.sender.hang_up();
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
        (self.agents, end)
    }

    /// Handles events until all agents have ended or are given up. Returns the first reason why the
    /// run ended.
    fn listen(&mut self, options: &mut RunOptions, inbox: &Inbox<(usize, AgentEvent)>) -> End {
        let mut end: Option<End> = None;
        let mut stopped: Option<StdInstant> = None;
        let mut shown = None;
        let mut notice = Notice::new();
        while self.agents.iter().any(|agent| agent.ended.is_none()) {
            match inbox.recv_timeout(LOOK_EVERY) {
                Ok((index, event)) => {
                    if let Some(cause) = self.handle_event(index, event, options) {
                        end.get_or_insert(cause);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if options.interrupted.load(Ordering::SeqCst) {
                end.get_or_insert(End::Interrupted);
            }
            let slowest = self.slowest();
            if shown != Some(slowest) {
                shown = Some(slowest);
                (options.progress)(&progress(self.plan, slowest));
            }
            // An agent reports wall time once its virtual time has begun.
            let late = |agent: &&AgentState| agent.lengths.wall_ns == 0;
            if stopped.is_none() && self.agents.iter().any(|agent| late(&agent)) && notice.is_due()
            {
                let late = named(self.agents.iter().filter(late));
                (options.warn)(format!("time has not begun: waiting for {late} to connect"));
            } else if stopped.is_some() && notice.is_due() {
                let left = named(self.agents.iter().filter(|agent| agent.ended.is_none()));
                (options.warn)(format!(
                    "waiting for the results of {left}, for {} s at most (Ctrl-C again ends at \
                     once, without them)",
                    STOPPED_WITHIN.as_secs()
                ));
            }
            match stopped {
                None if end.is_some() => {
                    stopped = Some(StdInstant::now());
                    notice = Notice::new();
                    for agent in &mut self.agents {
                        let _ = agent.sender.say(&ToAgent::Stop);
                    }
                }
                Some(since) if since.elapsed() > STOPPED_WITHIN => break,
                _ => {}
            }
        }
        end.unwrap_or(End::Reached)
    }

    /// Handles an event of agent number `index`. Returns the reason if the whole run must end.
    fn handle_event(
        &mut self,
        index: usize,
        event: AgentEvent,
        options: &RunOptions,
    ) -> Option<End> {
        let name = self.agents[index].name.clone();
        let at = Instant::from_ns(self.agents[index].lengths.virtual_ns);
        let failed = |what: String| {
            Some(End::Failed(RunFailure {
                culprit: format!("agent {name}"),
                what,
                at,
                log: Vec::new(),
            }))
        };
        match event {
            AgentEvent::Message(FromAgent::Progress(lengths)) => {
                self.agents[index].lengths = lengths
            }
            AgentEvent::Message(FromAgent::Warning { text }) => {
                (options.warn)(format!("agent {name}: {text}"));
            }
            AgentEvent::Message(FromAgent::Ready { program }) => {
                debug!(agent = name, program, "program is ready");
                for (other, agent) in self.agents.iter_mut().enumerate() {
                    if other != index {
                        let program = program.clone();
                        let _ = agent.sender.say(&ToAgent::Ready { program });
                    }
                }
            }
            AgentEvent::Message(_) => return failed("it sent an unexpected message".to_owned()),
            AgentEvent::Ended(ended) => {
                debug!(agent = name, "results have arrived");
                for call in &ended.unhandled {
                    (options.warn)(format!("agent {name}: not virtualised: {call}"));
                }
                self.agents[index].lengths = ended.lengths;
                let how = ended.how.clone();
                self.agents[index].ended = Some(ended);
                return match how {
                    ShareEnd::Reached => None,
                    ShareEnd::Interrupted => failed("its run was stopped there".to_owned()),
                    ShareEnd::NotBegun(why) => failed(why),
                    ShareEnd::Failed(failure) => Some(End::Failed(RunFailure {
                        culprit: failure.culprit.clone(),
                        what: format!("{} (on agent {name})", failure.what),
                        ..failure
                    })),
                };
            }
            AgentEvent::Gone(why) => {
                debug!(agent = name, why, "connection broke");
                let place = &self.plan.placement.agents[&name].address;
                self.agents[index].ended.get_or_insert(ShareResult {
                    how: ShareEnd::NotBegun(why.clone()),
                    lengths: Lengths::default(),
                    unhandled: Vec::new(),
                    results: Vec::new(),
                });
                return failed(format!("the connection to {place} broke: {why}"));
            }
        }
        None
    }

    /// Returns the progress of the agent whose virtual time has advanced least.
    fn slowest(&self) -> Lengths {
        let all = self.agents.iter().map(|agent| agent.lengths);
        all.min_by_key(|lengths| lengths.virtual_ns)
            .unwrap_or_default()
    }
}

/// Formats the names of agents for a message.
fn named<'a>(agents: impl Iterator<Item = &'a AgentState>) -> String {
    let names = agents.map(|agent| format!("agent {}", agent.name));
    names.collect::<Vec<_>>().join(", ")
}

/// Reports a wait to the user, once, when it has lasted for [`SAID_AFTER`].
struct Notice(Option<StdInstant>);

impl Notice {
    fn new() -> Self {
        Self(Some(StdInstant::now()))
    }

    /// Returns true at the first call after the wait has become long; false otherwise.
    fn is_due(&mut self) -> bool {
        let is_long = |since: &mut StdInstant| since.elapsed() > SAID_AFTER;
        self.0.take_if(is_long).is_some()
    }
}

fn progress(plan: &Plan, lengths: Lengths) -> Progress {
    Progress {
        virtual_time: Duration::from_ns(lengths.virtual_ns),
        planned: plan.time.duration,
        wall: Duration::from_ns(lengths.wall_ns),
        paused: Duration::from_ns(lengths.paused_ns),
    }
}

/// Sends one agent its share with all its files, and waits until the agent is prepared.
fn prepare(
    plan: &Plan,
    (name, address): (&str, &str),
    secret: &Secret,
    nonce: &str,
    calls: &Calls,
) -> Result<AgentState, AgentError> {
    let address: SocketAddr = address.parse().map_err(|_| AgentError::NoAddress)?;
    let files = pack(&plan.part(name).plan, &plan.placement.files)?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    calls.add(&stream)?;
    let (mut sender, mut receiver) = greet(stream, Side::Run, secret, PATIENCE)?;
    let prepare = Prepare {
        agent: name.to_owned(),
        nonce: nonce.to_owned(),
        plan: plan.to_toml(),
        files: files.iter().map(|sent| sent.entry.clone()).collect(),
    };
    // Sending may fail: a busy agent answers that it is busy, and stops reading.
    let sent = sender
        .say(&ToAgent::Prepare(Box::new(prepare)))
        .and_then(|()| send(&mut sender, &files));
    receiver.patience(Some(PREPARED_WITHIN))?;
    let answer = receiver.hear::<FromAgent>();
    let answer = answer.map_err(|error| sent.err().unwrap_or(error))?;
    let at = |port| SocketAddr::new(address.ip(), port);
    match answer {
        FromAgent::Prepared {
            bus,
            tunnels,
            turns,
            engines,
            timeline,
            clock_error_ns,
        } => Ok(AgentState {
            name: name.to_owned(),
            found: AgentEndpoints {
                name: name.to_owned(),
                bus: at(bus),
                tunnels: at(tunnels),
                turns: turns.map(at),
                engines: engines
                    .into_iter()
                    .map(|(of, port)| (of, at(port)))
                    .collect(),
                clock_error_ns,
            },
            timeline,
            sender,
            receiver: Some(receiver),
            lengths: Lengths::default(),
            ended: None,
            results: None,
        }),
        FromAgent::Refused { why } => Err(AgentError::Refused(why)),
        _ => Err(AgentError::OffTopic),
    }
}

/// Passes each message of an agent to `tell` until the agent's share has ended. The files of its
/// results are written to `results`.
pub(super) fn listen<S: Read>(
    receiver: &mut Receiver<S>,
    results: &Incoming,
    most_bytes: u64,
    tell: &dyn Fn(AgentEvent) -> bool,
) -> io::Result<()> {
    loop {
        match receiver.hear::<FromAgent>()? {
            FromAgent::Ended(ended) => {
                receive(receiver, &ended.results, most_bytes, |entry| {
                    results.create(&entry.name).map_err(io::Error::other)
                })?;
                tell(AgentEvent::Ended(*ended));
                return Ok(());
            }
            said => {
                if !tell(AgentEvent::Message(said)) {
                    return Ok(());
                }
            }
        }
    }
}

/// Merges the results of all agents into one run directory, evaluates the checks and closes the
/// manifest.
fn finalize(
    plan: &Plan,
    directory: &RunDirectory,
    agents: Vec<AgentState>,
    mut end: End,
    mut manifest: Manifest,
) -> Result<Summary, RunError> {
    let all = agents.iter();
    let all = all.filter_map(|agent| Some((agent.name.clone(), agent.results.as_deref()?)));
    let (came, empty): (Vec<_>, Vec<_>) = all.partition(|(_, place)| !place.is_empty());
    let in_turns = plan.takes_turns();
    let merged = merge(directory, &came, in_turns);
    // The remaining files are small, so the space that was reserved for them can be released.
    let room = directory.use_room_aside().map_err(MergeError::Whole);
    let merged = merged.and_then(|told| room.map(|()| told));
    // Agents' results that could not be merged are kept in their folders.
    let done = if merged.is_ok() { &came[..] } else { &[] };
    for (_, place) in done.iter().chain(&empty) {
        let _ = place.remove();
    }
    let lengths: BTreeMap<i64, Lengths> = agents
        .iter()
        .map(|agent| (agent.lengths.virtual_ns, agent.lengths))
        .collect();
    let slowest = lengths.values().next().copied().unwrap_or_default();
    let progress = progress(plan, slowest);
    let merged = merged.map_err(|error| error.to_string());
    let judged = merged.and_then(|told| {
        manifest.untrusted = told.untrusted;
        manifest.degraded_modes = told.degraded_modes;
        for one in told.manifests {
            manifest.pauses = match in_turns {
                true => manifest.pauses + one.pauses,
                false => manifest.pauses.max(one.pauses),
            };
            manifest.cut_logs.extend(one.cut_logs);
            manifest.cut_rows.extend(one.cut_rows);
            for program in one.programs {
                if !manifest.programs.contains(&program) {
                    manifest.programs.push(program);
                }
            }
        }
        let checks = judge(plan, directory).map_err(|error| error.to_string())?;
        directory
            .write_checks(&checks)
            .map_err(|error| error.to_string())?;
        Ok(checks)
    });
    let checks = judged.unwrap_or_else(|what| {
        if end == End::Reached {
            end = End::Failed(RunFailure {
                culprit: "results".to_owned(),
                what,
                at: Instant::ZERO + progress.virtual_time,
                log: Vec::new(),
            });
        }
        Vec::new()
    });
    let summary = Summary {
        end,
        checks,
        progress,
        unhandled: Vec::new(),
        untrusted: manifest.untrusted.clone(),
    };
    close(directory, manifest, summary)
}

const LOOK_EVERY: StdDuration = StdDuration::from_millis(200);
/// Wall time for which the start or the results are awaited before missing agents are reported.
const SAID_AFTER: StdDuration = StdDuration::from_secs(5);
/// Timeout of each exchange at the start of a conversation.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
/// Time within which an agent must have stored its files and opened its sockets.
const PREPARED_WITHIN: StdDuration = StdDuration::from_secs(120);
/// Silence after which the coordinator considers an agent lost. (The other agents notice within the
/// scenario's patience that the lost agent's clock and links are gone.)
const SILENT_FOR: StdDuration = StdDuration::from_secs(120);
/// Time within which all results must arrive after the agents were told to stop.
const STOPPED_WITHIN: StdDuration = StdDuration::from_secs(120);
