//! A dumbbell in two free-running engines, which share only a clock.
//!
//! The engines exchange packets through peering portals, or through emulation portals as in the
//! second arrangement of the paper's Figure 8 (`frames`).

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time;

use timeloom_emulation::Port;
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::{BatchingPolicy, PeerConfig, PeerStats};
use timeloom_emulation::peering::{Cut, Endpoint, Gateway, Pause, Portal, run};
use timeloom_engine::{Engine, Limit, Pace, Paced};
use timeloom_net::{Owner, World};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Rate};

use super::frames::{Cable, Frames};
use super::model::{own_core, thread_cpu_s};
use super::pair::{Model, Outcome, Part, build, join, on_threads, started};
use super::staircase::Sample;
use crate::error::BenchError;

/// Transport of packets between the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// UDP on loopback, as used between processes and machines.
    Udp,
    /// Shared memory, as used between threads of one process.
    Ring,
}

/// Options of two free-running engines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub(super) carrier: Carrier,
    /// Simulated time per wall time.
    pub(super) rate: f64,
    /// Maximum time for which the sender holds bulk packets to send them together.
    pub(super) hold: Duration,
    /// Maximum size of datagrams, in bytes.
    pub(super) bytes: usize,
    /// Maximum time for which received packets may wait at the receiver.
    pub(super) receiver_hold: Duration,
    /// True if all arrivals are recorded.
    pub(super) note: bool,
}

impl Default for Free {
    fn default() -> Self {
        let policy = PeerConfig::default().bulk;
        Self {
            carrier: Carrier::Udp,
            rate: 1.0,
            hold: policy.hold,
            bytes: policy.bytes,
            receiver_hold: Duration::ZERO,
            note: false,
        }
    }
}

/// Results of a free run, in addition to the common ones.
#[derive(Debug, Default)]
pub(super) struct FreeOutcome {
    pub(super) common: Outcome,
    /// Number of packets from the other engine; the item below is the number that came after their
    /// due time.
    pub(super) taken: u64,
    pub(super) late: u64,
    /// 99th percentile of the lateness of these packets, in ns.
    pub(super) late_p99_ns: f64,
    /// Fraction of events that were handled more than 1 ms after their due time.
    pub(super) behind: f64,
    /// Counters of the peering portals.
    pub(super) peers: Vec<PeerStats>,
}

impl FreeOutcome {
    pub(super) fn late_fraction(&self) -> f64 {
        self.late as f64 / self.taken.max(1) as f64
    }
}

/// Number of packets that a gateway has received, and their lateness.
pub(super) struct Came {
    pub(super) taken: u64,
    pub(super) late: u64,
    pub(super) late_p99: Duration,
    pub(super) peer: Option<PeerStats>,
}

/// Gateway that counts received packets.
pub(super) trait Counted: Gateway {
    fn is_open(&self) -> bool;
    fn came(&self) -> Came;
}

impl Counted for Portal {
    fn is_open(&self) -> bool {
        self.is_complete()
    }

    fn came(&self) -> Came {
        let stats = self.stats();
        Came {
            taken: stats.taken,
            late: stats.late,
            late_p99: self.lateness().quantile(0.99),
            peer: self.peers().next().map(|(_, _, stats)| stats),
        }
    }
}

/// Runs two engines that exchange packets through peering portals.
pub(super) fn free(
    model: &Model,
    simulated: Duration,
    how: &Free,
) -> Result<FreeOutcome, BenchError> {
    let failed = || BenchError::system("the sockets of two engines");
    let endpoints = match how.carrier {
        Carrier::Udp => Endpoint::udp_pair(),
        Carrier::Ring => Endpoint::ring_pair(),
    };
    let endpoints = endpoints.map_err(failed())?.into();
    let open = |world: &mut World, cut: Cut, here: Owner, endpoint| {
        let key = Key::new([1; 32]);
        let epoch = 1 + u64::from(here);
        let mut portal = Portal::new(world, cut, here, key, epoch, Limit::default());
        let bulk = BatchingPolicy {
            hold: how.hold,
            bytes: how.bytes,
            compress: true,
        };
        let config = PeerConfig {
            bulk,
            // Only a crashed engine may count as silent; a benchmark leaves engines without
            // processor time at times.
            silence: Duration::from_s(10),
            ..PeerConfig::default()
        };
        portal.add(world, 1 - here, endpoint, config);
        portal
    };
    through(model, simulated, how, endpoints, open)
}

/// Runs two engines that exchange packets through emulation portals: whole frames on a cable, by
/// raw sockets.
pub(super) fn by_frames(model: &Model, simulated: Duration) -> Result<FreeOutcome, BenchError> {
    on_cable(model, simulated, Cable::sockets)
}

/// Runs two engines that exchange packets through emulation portals: whole frames on a cable, by
/// libpcap.
pub(super) fn by_libpcap(model: &Model, simulated: Duration) -> Result<FreeOutcome, BenchError> {
    on_cable(model, simulated, Cable::captures)
}

fn on_cable<P: Port>(
    model: &Model,
    simulated: Duration,
    ports: fn(&Cable) -> Result<Vec<P>, BenchError>,
) -> Result<FreeOutcome, BenchError> {
    let cable = Cable::new()?;
    let open = |world: &mut World, _: Cut, _: Owner, port| Frames::new(world, port);
    through(model, simulated, &Free::default(), ports(&cable)?, open)
}

fn through<T: Send, D: Counted>(
    model: &Model,
    simulated: Duration,
    how: &Free,
    tools: Vec<T>,
    open: impl Fn(&mut World, Cut, Owner, T) -> D + Sync,
) -> Result<FreeOutcome, BenchError> {
    let failed = || BenchError::system("the gateway between two engines");
    let rate = Rate::from_f64(how.rate)
        .ok_or_else(|| BenchError::Worker("a rate is above 0".to_owned()))?;
    let (begin, origin) = (Barrier::new(2), AtomicI64::new(0));
    let parts = on_threads(
        2,
        |here, tool: Option<T>| {
            let tool = tool.expect("one for each");
            own_core(here.into());
            let (mut world, cut) = build(model)?;
            cut.apply(&mut world, here);
            let mut gateway = open(&mut world, cut, here, tool);
            let mut engine = started(world, how.note);
            let opened = wait_for(&mut gateway, &mut engine);
            begin.wait();
            if here == 0 {
                // The start is slightly in the future, so that neither engine starts late.
                let start = wall_now() + Duration::from_ms(2);
                origin.store(start.as_ns(), Ordering::SeqCst);
            }
            begin.wait();
            opened?;
            let start = Instant::from_ns(origin.load(Ordering::SeqCst));
            let pace = Pace::Clock(ClockMap::new(start, Instant::ZERO, rate));
            let mut paced = Paced::new(engine, pace, Limit::default());
            let cpu = thread_cpu_s();
            let pause = Pause {
                hold: how.receiver_hold,
                ..Pause::default()
            };
            let mut samples = Vec::new();
            for mark in model.marks(simulated) {
                run(&mut paced, &mut gateway, mark, pause, || false).map_err(failed())?;
                let wall_s = (wall_now() - start).as_s_f64();
                samples.push(Sample::of(&paced.engine.model, wall_s));
            }
            let behind = paced.lateness().late_fraction();
            let part = Part {
                engine: paced.engine,
                wall_s: (wall_now() - start).as_s_f64(),
                cpu_s: thread_cpu_s() - cpu,
                samples,
            };
            Ok((part, behind, gateway.came()))
        },
        tools,
    )?;
    let mut outcome = FreeOutcome::default();
    let mut engines = Vec::new();
    for (part, behind, came) in parts {
        outcome.taken += came.taken;
        outcome.late += came.late;
        outcome.late_p99_ns = outcome.late_p99_ns.max(came.late_p99.as_ns() as f64);
        outcome.behind = outcome.behind.max(behind);
        outcome.peers.extend(came.peer);
        engines.push(part);
    }
    outcome.common = join(engines);
    Ok(outcome)
}

/// Waits until the other engine is connected.
fn wait_for(gateway: &mut impl Counted, engine: &mut Engine<World>) -> Result<(), BenchError> {
    let failed = || BenchError::system("the gateway between two engines");
    let asked = time::Instant::now();
    while !gateway.is_open() {
        gateway.receive(engine, wall_now()).map_err(failed())?;
        gateway.send(engine, wall_now()).map_err(failed())?;
        std::thread::yield_now();
        if asked.elapsed() > time::Duration::from_secs(10) {
            return Err(BenchError::Worker(
                "the other engine did not come".to_owned(),
            ));
        }
    }
    Ok(())
}
