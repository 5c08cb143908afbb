//! A laboratory: a chain of network namespaces, each a clock of ours or ptp4l.
//!
//! All namespaces share the machine's one clock, and nobody steers it: the true
//! offset of the slave is zero, and every nanosecond it reports is error. That
//! makes the laboratory a test of everything at once: sockets, stamps,
//! corrections, signatures. Nothing outlives it: namespaces are anonymous, and
//! programs inside end with it.

mod attack;
mod capture;
mod chain;
mod desk;
mod nodes;
mod ptp4l;
mod report;
mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;

use timeloom_ptp::security::Policy;
use timeloom_ptp::{DelayMechanism, Profile};
use timeloom_sys::wall_now;
use timeloom_time::Duration;
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{SyncRecord, TimeInterval};

use crate::keys::GroupFile;
use crate::{Line, PtpError, Role, SyncVerdict, Transport, Wake};
pub use attack::Attack;
use attack::{Attacker, Orders};
use chain::{Chain, UP};
use desk::Desk;
pub use desk::{Attacked, attack};
use nodes::Running;
pub use report::{LabReport, Spread};
pub use stage::Stage;

/// Who stands at a place of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A program of this project.
    Ours,
    /// linuxptp's.
    Ptp4l,
}

/// What is to be built.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Grandmaster, hops, slave: two to eighteen.
    pub nodes: Vec<NodeKind>,
    /// How messages travel.
    pub transport: Transport,
    /// Intervals, delay mechanism, domain.
    pub profile: Profile,
    /// For how long, at most.
    pub duration: Duration,
    /// End as soon as the slave has measured so often. With `attack` (and a slave of ours):
    /// as soon as it has judged so many Syncs since the attack began; with
    /// [`Attack::Pdelay`], which leaves none, when so many messages were attacked.
    pub enough: Option<usize>,
    /// How our programs are authenticated; keys are made for the occasion.
    pub auth: Option<LabAuth>,
    /// The key of a group that all nodes have, linuxptp's among them.
    pub group: Option<GroupFile>,
    /// This node of ours has another key, all the same.
    pub group_stranger: Option<usize>,
    /// Which ptp4l is run; looked up on the PATH, as `ptp4l` is, without a `/`.
    pub ptp4l: PathBuf,
    /// What our programs do about failures.
    pub policy: Policy,
    /// How far delay may jump before that counts as an attack.
    pub jump_bound: TimeInterval,
    /// What the wire behind a node does, by number: 0 is the grandmaster. For
    /// [`Attack::Lie`], what that hop does.
    pub attack: Option<(Attack, usize)>,
    /// The wire behind this node is the attacker's, who waits for [`attack()`].
    /// Not beside `attack`.
    pub tap: Option<usize>,
    /// Where evidence, keys, logs and the capture go.
    pub directory: PathBuf,
}

/// How the laboratory's programs are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabAuth {
    /// Kind of keys.
    pub suite: Suite,
    /// How entries name clocks.
    pub form: EntryForm,
    /// Statements on a second network in place of signatures in Follow_Up.
    pub secondary: bool,
}

impl LabOptions {
    /// A fast, plain chain: peer to peer over layer 2, 8 Syncs a second.
    pub fn new(nodes: Vec<NodeKind>, directory: PathBuf) -> Self {
        let profile = Profile {
            log_sync_interval: -3,
            log_delay_interval: -2,
            log_announce_interval: -2,
            ..Profile::DEFAULT_PEER_TO_PEER
        };
        Self {
            nodes,
            transport: Transport::Layer2,
            profile,
            duration: Duration::from_s(10),
            enough: None,
            auth: None,
            group: None,
            group_stranger: None,
            ptp4l: "ptp4l".into(),
            policy: Policy::Strict,
            jump_bound: TimeInterval::from_ns(1_000_000),
            attack: None,
            tap: None,
            directory,
        }
    }

    fn check(&self) -> Result<(), PtpError> {
        let count = self.nodes.len();
        if !(2..=18).contains(&count) {
            return Err(PtpError::usage(
                "a chain has a grandmaster, 0 to 16 hops, and a slave",
            ));
        }
        if let Some((attack, node)) = self.attack {
            let is_hop = (1..count - 1).contains(&node);
            if !(is_hop || (attack != Attack::Lie && node == 0)) {
                return Err(PtpError::usage(format!(
                    "there is no place {node} for this attack in the chain"
                )));
            }
        }
        if let Some(node) = self.tap {
            if self.attack.is_some() {
                return Err(PtpError::usage(
                    "an attack has its wire already: leave the tap away, or attack later",
                ));
            }
            if node + 1 >= count {
                return Err(PtpError::usage(format!(
                    "there is no wire behind place {node}; 0 is the grandmaster"
                )));
            }
        }
        if self.auth.is_some() && self.profile.delay == DelayMechanism::EndToEnd {
            return Err(PtpError::usage("authentication needs peer delay"));
        }
        Ok(())
    }

    fn role(&self, node: usize) -> Role {
        match node {
            0 => Role::Grandmaster,
            _ if node + 1 == self.nodes.len() => Role::Slave,
            _ => Role::Transparent,
        }
    }
}

/// Builds the chain, lets it run, takes it down, and says what was measured.
///
/// # Errors
/// Arguments that do not fit, a machine that cannot, a program that failed.
pub fn run(options: &LabOptions, wake: &Wake) -> Result<LabReport, PtpError> {
    options.check()?;
    std::fs::create_dir_all(&options.directory).map_err(PtpError::file(&options.directory))?;
    let attack = options.attack.filter(|(attack, _)| *attack != Attack::Lie);
    let tapped = attack.map(|(_, node)| node).or(options.tap);
    let second = options.auth.is_some_and(|auth| auth.secondary);
    let chain = Chain::build(options.nodes.len(), tapped, second).map_err(kernel)?;
    if options.auth.is_some() {
        nodes::make_keys(options, &chain)?;
    }
    let capture_path = options.directory.join("slave.pcapng");
    let slave = chain.sites.last().expect("a chain has a slave");
    let capture = capture::record(&slave.namespace, UP, &capture_path)?;
    let orders = Orders::default();
    let attacker = chain
        .wire
        .as_ref()
        .map(|wire| Attacker::start(orders.clone(), options.transport, wire))
        .transpose()?;
    // A link is as long as it is from the start.
    let from_start = |attack: &Attack| *attack == Attack::SymmetricDelay;
    let mut waiting = attack.map(|(attack, _)| attack);
    if let Some(attack) = waiting.take_if(|attack| from_start(attack)) {
        orders.attack(attack)?;
    }
    let lines = Lines::default();
    let desk = options
        .tap
        .map(|_| Desk::open(&options.directory, orders.clone(), lines.clone()))
        .transpose()?;
    let tally = Arc::new(Tally::default());
    let mut running = Vec::new();
    for node in 0..chain.sites.len() {
        let sink = sink(lines.clone(), Arc::clone(&tally));
        running.push((
            chain.sites[node].name.clone(),
            nodes::start(options, node, &chain, sink)?,
        ));
    }
    let end = wall_now() + options.duration;
    let ptp4ls = || match &running.last().expect("a chain has a slave").1 {
        Running::Ptp4l(ptp4l) => Some(ptp4l.measured()),
        Running::Ours { .. } => None,
    };
    let mut judged_in_peace = 0;
    while wall_now() < end && !wake.is_stopped() {
        let peaceful = match options.auth {
            Some(_) => Tally::get(&tally.accepted),
            None => Tally::get(&tally.measured),
        };
        if ptp4ls().unwrap_or(peaceful) >= PEACE
            && let Some(attack) = waiting.take()
        {
            orders.attack(attack)?;
            judged_in_peace = Tally::get(&tally.judged);
        }
        let done = ptp4ls().unwrap_or_else(|| match options.attack {
            // No Sync is left to be judged where a neighbour's delay is not known.
            Some((Attack::Pdelay, _)) => orders.attacked() as usize,
            Some(_) => Tally::get(&tally.judged) - judged_in_peace,
            None => Tally::get(&tally.measured),
        });
        if waiting.is_none() && options.enough.is_some_and(|enough| done >= enough) {
            break;
        }
        sleep(std::time::Duration::from_millis(20));
    }
    let ptp4ls = ptp4ls();
    let mut report = LabReport::new(capture_path);
    // The slave first: what its masters do when they end is not measured.
    for (name, node) in running.into_iter().rev() {
        match node {
            Running::Ptp4l(ptp4l) => {
                report.logs.insert(name, ptp4l.finish());
            }
            Running::Ours { wake, thread } => {
                wake.stop();
                let counted = thread.join().expect("a program does not panic")?;
                report.counters.insert(name, counted);
            }
        }
    }
    drop(desk);
    drop(attacker);
    report.attacked = match options.attack {
        // Each Sync that passes the lying hop carries the lie.
        Some((Attack::Lie, _)) => ptp4ls.unwrap_or(Tally::get(&tally.judged)) as u64,
        _ => orders.attacked(),
    };
    capture.stop();
    report.lines = lines.take();
    write_out(&options.directory, &report.lines, &report.logs)?;
    Ok(report)
}

/// Good Syncs before an attack: clocks find one another, histories fill. Not a time, which
/// would pass on a busy machine before anything has happened.
pub const PEACE: usize = 20;

/// Evidence of all programs, in the order in which it came.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    fn with<R>(&self, look: impl FnOnce(&mut Vec<Line>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> Vec<Line> {
        self.with(std::mem::take)
    }
}

/// What became of the Syncs of the slave, if it is ours.
#[derive(Default)]
struct Tally {
    /// It knew an offset.
    measured: AtomicUsize,
    accepted: AtomicUsize,
    /// Nothing of them was missing.
    judged: AtomicUsize,
}

impl Tally {
    fn get(count: &AtomicUsize) -> usize {
        count.load(Ordering::Relaxed)
    }

    fn add(&self, record: &SyncRecord) {
        let add = |count: &AtomicUsize, is: bool| count.fetch_add(is.into(), Ordering::Relaxed);
        add(&self.measured, record.offset.is_some());
        add(&self.accepted, record.verdict == SyncVerdict::Accepted);
        add(&self.judged, record.verdict != SyncVerdict::Incomplete);
    }
}

/// Collects lines, and counts Syncs, of which only the slave tells.
fn sink(lines: Lines, tally: Arc<Tally>) -> Box<dyn FnMut(Line) + Send> {
    Box::new(move |line| {
        if let Line::Sync(sync) = &line {
            tally.add(&sync.report.record);
        }
        lines.with(|lines| lines.push(line));
    })
}

fn write_out(
    directory: &Path,
    lines: &[Line],
    logs: &BTreeMap<String, String>,
) -> Result<(), PtpError> {
    let path = directory.join("evidence.jsonl");
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).expect("lines are plain data"));
        text.push('\n');
    }
    std::fs::write(&path, text).map_err(PtpError::file(&path))?;
    for (name, log) in logs {
        let path = directory.join(format!("{name}.log"));
        std::fs::write(&path, log).map_err(PtpError::file(&path))?;
    }
    Ok(())
}

fn kernel(error: timeloom_fabric::FabricError) -> PtpError {
    match error {
        timeloom_fabric::FabricError::Kernel(error) => error.into(),
        other => PtpError::System {
            action: "build the laboratory".to_owned(),
            error: std::io::Error::other(other),
        },
    }
}
