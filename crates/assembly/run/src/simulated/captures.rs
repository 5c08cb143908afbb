//! Captures of simulated links. Frames pass from the engines' threads to threads that write files.

mod merge;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use timeloom_emulation::{CaptureProgressCallback, CaptureSink};
use timeloom_net::{Owner, PortId, World};
use timeloom_results::RunDirectory;
use timeloom_scenario::{NamedCable, Plan, Simulated};
use timeloom_time::{Instant, Utc};

use crate::error::RunError;
use crate::record::RunRecorder;
use crate::spoofing::SpoofWatch;
use merge::{CapturedFrame, Merge, Progress};

/// Captures of a plan's simulated links.
#[derive(Default)]
pub(super) struct Captures {
    /// Destination of the frames that leave through a port of the model.
    links: BTreeMap<PortId, mpsc::Sender<CapturedFrame>>,
    /// Progress of the engines that are threads, for captures of links between two of them.
    progress: Option<Progress>,
    /// Writer threads; each ends when the last engine has dropped its senders.
    pub(super) threads: Vec<JoinHandle<()>>,
}

impl Captures {
    pub(super) fn start(
        plan: &Plan,
        (simulated, own): (&Simulated, Option<Owner>),
        directory: &RunDirectory,
        civil_start: Instant<Utc>,
        run_recorder: &RunRecorder,
    ) -> Result<Self, RunError> {
        let addresses = owners(&simulated.world);
        let settings = plan.network.as_ref().and_then(|it| it.engines.as_ref());
        let are_processes = settings.is_some_and(|settings| settings.processes);
        let parts = simulated.parts.as_ref();
        let parts = parts.filter(|_| own.is_none() && !are_processes);
        let mut captures = Self {
            progress: parts.map(|parts| Progress::of(parts.cut().engines())),
            ..Self::default()
        };
        for (capture, cable) in watched(plan, simulated) {
            let Some(name) = file_name(&capture.link.to_string(), cable, simulated, own) else {
                continue;
            };
            let watch = SpoofWatch::new(addresses.iter().copied(), false);
            let merge = Merge::of(cable, simulated, captures.progress.as_ref());
            let (frames, thread) =
                record(&name, directory, civil_start, run_recorder, (watch, merge))?;
            captures.links.insert(cable.there, frames.clone());
            captures.links.insert(cable.back, frames);
            captures.threads.push(thread);
        }
        Ok(captures)
    }

    /// Returns a function that captures frames at the ports of one engine.
    pub(super) fn of_engine(&self) -> Option<CaptureSink> {
        if self.links.is_empty() {
            return None;
        }
        let links = self.links.clone();
        Some(Box::new(move |port, at, wall, frame: &[u8]| {
            if let Some(frames) = links.get(&port) {
                // The recorder ends after this thread, unless its disk is full.
                let _ = frames.send(CapturedFrame {
                    port,
                    at,
                    wall,
                    bytes: frame.to_vec(),
                });
            }
        }))
    }

    /// Returns the function by which engine `here` reports the progress of its captures; `None` if
    /// that is not needed.
    pub(super) fn progress(&self, here: Owner) -> Option<CaptureProgressCallback> {
        let progress = self.progress.as_ref().filter(|_| !self.links.is_empty());
        progress.map(|progress| progress.of_engine(here))
    }
}

/// Returns the interfaces of a model that have addresses: node, IP address and hardware address.
/// Stations, simulated hosts and routers have one for each of their links.
fn owners(world: &World) -> Vec<(&str, IpAddr, [u8; 6])> {
    let all = world.cables().flat_map(|cable| {
        let (name, mac) = (world.name(cable.from), world.mac(cable.port));
        let v4 = Some(world.address(cable.port)).filter(|address| !address.is_unspecified());
        let v6 = world.address_v6(cable.port).map(|(address, _)| address);
        let both = [v4.map(IpAddr::from), v6.map(IpAddr::from)];
        both.into_iter().flatten().map(move |ip| (name, ip, mac))
    });
    all.collect()
}

/// Returns the name of a capture's file, or `None` if the link is not captured here. With `own`,
/// the engine of an agent, a link between other agents is not captured. Of a link to another agent,
/// only the frames that come from there are captured, and the file's name states this agent.
fn file_name(
    link: &str,
    cable: &NamedCable,
    simulated: &Simulated,
    own: Option<Owner>,
) -> Option<String> {
    let Some((own, parts)) = own.zip(simulated.parts.as_ref()) else {
        return Some(link.to_owned());
    };
    let owner = |port| parts.cut().owners()[simulated.world.node_of(port).0 as usize];
    match [cable.there, cable.back].map(|port| owner(port) == own) {
        [true, true] => Some(link.to_owned()),
        [false, false] => None,
        _ => Some(format!("{link}.at-{}", parts.names[usize::from(own)])),
    }
}

/// Returns the captures of simulated links, with their cables. The fabric makes all other captures.
fn watched<'a>(
    plan: &'a Plan,
    simulated: &'a Simulated,
) -> impl Iterator<Item = (&'a timeloom_scenario::Capture, &'a NamedCable)> {
    let captures = plan.captures.iter();
    captures.filter_map(|capture| Some((capture, simulated.names.cable(&capture.link)?)))
}

/// Returns the ports of the links that are captured.
pub(super) fn ports(plan: &Plan, simulated: &Simulated) -> Vec<PortId> {
    let cables = watched(plan, simulated).map(|(_, cable)| [cable.there, cable.back]);
    cables.flatten().collect()
}

/// Starts a thread that writes the frames from a channel to `net/NAME.pcapng`. The network does not
/// wait for the disk.
fn record(
    name: &str,
    directory: &RunDirectory,
    start: Instant<Utc>,
    run_recorder: &RunRecorder,
    (mut watch, merge): (SpoofWatch, Merge),
) -> Result<(mpsc::Sender<CapturedFrame>, JoinHandle<()>), RunError> {
    let mut file = directory.capture(name, start)?;
    let (frames, seen) = mpsc::channel::<CapturedFrame>();
    let (run_recorder, name) = (run_recorder.clone(), name.to_owned());
    let write = move || {
        for frame in merge.in_order(seen) {
            let (at, bytes) = (frame.at, &frame.bytes);
            if let Some(spoofed) = watch.look(at, bytes) {
                run_recorder.spoofed(at, &name, &spoofed);
            }
            if let Err(error) = file.packet(at, frame.wall, bytes, None) {
                return run_recorder.failed(&format!("the capture of {name}: {error}"));
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(write);
    let thread =
        thread.map_err(|error| RunError::Start(format!("no thread for a capture: {error}")))?;
    Ok((frames, thread))
}
