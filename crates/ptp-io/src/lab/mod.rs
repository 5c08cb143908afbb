//! A laboratory: a chain of network namespaces, each a clock of ours or ptp4l.
//!
//! All namespaces share the machine's one clock, and nobody steers it: the true
//! offset of the slave is zero, and every nanosecond it reports is error. That
//! makes the laboratory a test of everything at once: sockets, stamps,
//! corrections, signatures. Nothing outlives it: namespaces are anonymous, and
//! programs inside end with it.

mod capture;
mod chain;
mod ptp4l;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep, spawn};

use timeloom_ptp::Profile;
use timeloom_time::Duration;

use crate::clocks::wall_now;
use crate::{Counters, Evidence, Line, Names, Options, Program, PtpError, Role, Transport, Wake};
use chain::{Chain, Site, UP};
use ptp4l::Ptp4l;
pub use report::{LabReport, Spread};

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
    /// End as soon as the slave has measured so often.
    pub enough: Option<usize>,
    /// Where evidence, logs and the capture go.
    pub directory: PathBuf,
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
            directory,
        }
    }

    fn check(&self) -> Result<(), PtpError> {
        if !(2..=18).contains(&self.nodes.len()) {
            return Err(PtpError::usage(
                "a chain has a grandmaster, 0 to 16 hops, and a slave",
            ));
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

enum Running {
    Ours {
        wake: Wake,
        thread: JoinHandle<Result<Counters, PtpError>>,
    },
    Ptp4l(Ptp4l),
}

/// Builds the chain, lets it run, takes it down, and says what was measured.
///
/// # Errors
/// Arguments that do not fit, a machine that cannot, a program that failed.
pub fn run(options: &LabOptions, wake: &Wake) -> Result<LabReport, PtpError> {
    options.check()?;
    std::fs::create_dir_all(&options.directory).map_err(PtpError::file(&options.directory))?;
    let chain = Chain::build(options.nodes.len(), None, false).map_err(kernel)?;
    let capture_path = options.directory.join("slave.pcapng");
    let slave = chain.sites.last().expect("a chain has a slave");
    let capture = capture::record(&slave.namespace, UP, &capture_path)?;
    let (lines, collected) = channel();
    let names = Names(
        chain
            .sites
            .iter()
            .map(|site| (site.clock, site.name.clone()))
            .collect(),
    );
    let offsets = Arc::new(AtomicUsize::new(0));
    let mut running = Vec::new();
    for (node, site) in chain.sites.iter().enumerate() {
        let started = match options.nodes[node] {
            NodeKind::Ptp4l => Running::Ptp4l(Ptp4l::start(
                &site.name,
                &site.namespace,
                &site.interfaces,
                options.role(node),
                &options.profile,
                options.transport,
                &options.directory,
            )?),
            NodeKind::Ours => {
                let (lines, offsets) = (lines.clone(), offsets.clone());
                let sink = Box::new(move |line| {
                    let is_offset = matches!(&line, Line::Sync(sync) if sync.offset_ns.is_some());
                    offsets.fetch_add(usize::from(is_offset), Ordering::Relaxed);
                    drop(lines.send(line));
                });
                let evidence = Evidence::new(
                    &site.name,
                    options.profile.domain,
                    names.clone(),
                    None,
                    sink,
                );
                ours(options, node, site, evidence)?
            }
        };
        running.push((site.name.clone(), started));
    }
    drop(lines);
    let end = wall_now() + options.duration;
    let measured = || match &running.last().expect("a chain has a slave").1 {
        Running::Ptp4l(ptp4l) => ptp4l.measured(),
        Running::Ours { .. } => offsets.load(Ordering::Relaxed),
    };
    while wall_now() < end
        && !wake.is_stopped()
        && options.enough.is_none_or(|enough| measured() < enough)
    {
        sleep(std::time::Duration::from_millis(20));
    }
    let mut counters = BTreeMap::new();
    let mut logs = BTreeMap::new();
    let mut failed = None;
    // The slave first: what its masters do when they end is not measured.
    for (name, node) in running.into_iter().rev() {
        match node {
            Running::Ptp4l(ptp4l) => {
                logs.insert(name, ptp4l.finish());
            }
            Running::Ours { wake, thread } => {
                wake.stop();
                match thread.join().expect("a program does not panic") {
                    Ok(counted) => drop(counters.insert(name, counted)),
                    Err(error) => failed = Some(error),
                }
            }
        }
    }
    capture.stop();
    if let Some(error) = failed {
        return Err(error);
    }
    let lines: Vec<Line> = collected.into_iter().collect();
    write_out(&options.directory, &lines, &logs)?;
    Ok(LabReport::new(lines, counters, logs, capture_path))
}

fn ours(
    options: &LabOptions,
    node: usize,
    site: &Site,
    evidence: Evidence,
) -> Result<Running, PtpError> {
    let interfaces = site
        .interfaces
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let mut program = Options::new(options.role(node), interfaces);
    program.transport = options.transport;
    program.profile = options.profile;
    program.profile.priority.0 = if node == 0 { 100 } else { 200 };
    let wake = Wake::new().map_err(PtpError::doing("open a socket pair"))?;
    let told = wake.clone();
    // Sockets belong to the namespace they were opened in, wherever they are used.
    let program = site
        .namespace
        .run(move || Program::open(program, told, Box::new(evidence)))??;
    let thread = spawn(move || program.run());
    Ok(Running::Ours { wake, thread })
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
            source: std::io::Error::other(other),
        },
    }
}
