//! Laboratory: a chain of network namespaces, each with one of Timeloom's clocks or ptp4l.
//!
//! All namespaces share the one clock of the machine, and no program steers it. The true offset of
//! the slave is therefore zero, and every nanosecond of offset that it reports is error. The
//! laboratory tests sockets, timestamps, corrections and signatures together. Nothing remains after
//! its end: the namespaces have no names, and the programs inside them end with it.

mod attack;
mod capture;
mod chain;
mod desk;
mod nodes;
mod ptp4l;
mod report;
mod stage;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;

use timeloom_ptp::security::VerificationPolicy;
use timeloom_ptp::{DelayMechanism, Profile};
use timeloom_sys::wall_now;
use timeloom_time::Duration;
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{SyncRecord, TimeInterval};

use crate::keys::GroupFile;
use crate::{EvidenceLine, ProgramControl, PtpError, Role, SyncVerdict, Transport};
pub use attack::LabAttack;
use attack::{Attacker, Orders};
use chain::{Chain, UP};
use desk::Desk;
pub use desk::{AttackResult, attack};
use nodes::Running;
pub use report::{LabReport, OffsetSpread};
pub use stage::LabChain;

/// Program that runs at a node of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabNodeKind {
    /// PTP program of Timeloom.
    Ours,
    /// Program `ptp4l` of linuxptp.
    Ptp4l,
}

/// Settings of a laboratory.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Programs of the grandmaster, the hops and the slave, in this order: two to eighteen nodes.
    pub nodes: Vec<LabNodeKind>,
    /// Transport of the messages.
    pub transport: Transport,
    /// PTP profile: the intervals, the delay mechanism and the domain.
    pub profile: Profile,
    /// Maximum duration of the run.
    pub duration: Duration,
    /// Number of measurements of the slave after which the run ends. If there is an `attack` and
    /// the slave is Timeloom's, it is the number of Syncs judged since the attack began. For
    /// [`LabAttack::Pdelay`], which leaves no Syncs to judge, it is the number of attacked
    /// messages.
    pub enough: Option<usize>,
    /// Authentication of Timeloom's programs. The keys are created for the run.
    pub auth: Option<LabAuth>,
    /// Group key of all nodes, including linuxptp's.
    pub group: Option<GroupFile>,
    /// Index of a Timeloom node that has another group key than the rest.
    pub group_stranger: Option<usize>,
    /// Path of ptp4l. A value without `/`, such as `ptp4l`, is looked up in `PATH`.
    pub ptp4l: PathBuf,
    /// Reaction of Timeloom's programs to failed authentication.
    pub policy: VerificationPolicy,
    /// Largest change of a delay that does not count as an attack.
    pub jump_bound: TimeInterval,
    /// Attack, and the index of the node whose outgoing cable is attacked; 0 is the grandmaster.
    /// For [`LabAttack::Lie`], the index is that of the hop that lies.
    pub attack: Option<(LabAttack, usize)>,
    /// Index of the node whose outgoing cable an attacker controls; the attacker waits for requests
    /// by [`attack()`]. It cannot be combined with `attack`.
    pub tap: Option<usize>,
    /// Directory for evidence, keys, logs and the capture.
    pub directory: PathBuf,
}

/// Authentication of the laboratory's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabAuth {
    /// Signature suite of the keys.
    pub suite: Suite,
    /// Form in which the entries of a signature chain name clocks.
    pub form: EntryForm,
    /// True if statements on a second network replace the signatures in Follow_Up.
    pub secondary: bool,
}

impl LabOptions {
    /// Returns settings of a chain without authentication: peer-to-peer delays over layer 2, and 8
    /// Syncs a second.
    pub fn new(nodes: Vec<LabNodeKind>, directory: PathBuf) -> Self {
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
            policy: VerificationPolicy::Strict,
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
                "a chain must be a grandmaster, 0 to 16 hops, and a slave",
            ));
        }
        if let Some((attack, node)) = self.attack {
            let is_hop = (1..count - 1).contains(&node);
            if !(is_hop || (attack != LabAttack::Lie && node == 0)) {
                return Err(PtpError::usage(format!(
                    "there is no place {node} for this attack in the chain"
                )));
            }
        }
        if let Some(node) = self.tap {
            if self.attack.is_some() {
                return Err(PtpError::usage(
                    "an attack already uses that wire: omit the tap, or attack later",
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

/// Builds the chain, runs its programs, removes it, and returns the measurements.
///
/// # Errors
/// Fails if arguments are invalid, if the machine lacks a capability, or if a program fails.
pub fn run(options: &LabOptions, wake: &ProgramControl) -> Result<LabReport, PtpError> {
    options.check()?;
    std::fs::create_dir_all(&options.directory).map_err(PtpError::file(&options.directory))?;
    let attack = options
        .attack
        .filter(|(attack, _)| *attack != LabAttack::Lie);
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
    // A link's length must not change during a run, so this attack is in force from the start.
    let from_start = |attack: &LabAttack| *attack == LabAttack::SymmetricDelay;
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
            // A slave that does not know its neighbour's delay judges no Sync.
            Some((LabAttack::Pdelay, _)) => orders.attacked() as usize,
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
    // The slave ends first, so that the effects of its masters' ends are not measured.
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
        // Each Sync that passes the lying hop contains the false residence time.
        Some((LabAttack::Lie, _)) => ptp4ls.unwrap_or(Tally::get(&tally.judged)) as u64,
        _ => orders.attacked(),
    };
    capture.stop();
    report.lines = lines.take();
    write_out(&options.directory, &report.lines, &report.logs)?;
    Ok(report)
}

/// Number of good Syncs before an attack begins, in which clocks find one another and histories
/// fill. It is a number and not a duration, because on a busy machine a duration could pass without
/// any Sync.
pub const PEACE: usize = 20;

/// Evidence lines of all programs, in the order of arrival.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<EvidenceLine>>>);

impl Lines {
    fn with<R>(&self, look: impl FnOnce(&mut Vec<EvidenceLine>) -> R) -> R {
        look(&mut self.0.lock())
    }

    fn take(&self) -> Vec<EvidenceLine> {
        self.with(std::mem::take)
    }
}

/// Numbers of Syncs that the slave reported, if the slave is a Timeloom program.
#[derive(Default)]
struct Tally {
    /// Number of Syncs with a known offset.
    measured: AtomicUsize,
    accepted: AtomicUsize,
    /// Number of complete Syncs.
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

/// Returns a function that collects evidence lines and counts Syncs. Only the slave reports Syncs.
fn sink(lines: Lines, tally: Arc<Tally>) -> Box<dyn FnMut(EvidenceLine) + Send> {
    Box::new(move |line| {
        if let EvidenceLine::Sync(sync) = &line {
            tally.add(&sync.report.record);
        }
        lines.with(|lines| lines.push(line));
    })
}

fn write_out(
    directory: &Path,
    lines: &[EvidenceLine],
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
