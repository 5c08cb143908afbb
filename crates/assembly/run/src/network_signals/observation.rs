//! Observation of a network at one instant. Each engine observes its own part, and the parts are
//! combined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender};

use timeloom_emulation::peering::AdjacencyReport;
use timeloom_net::{FluidLinkStats, LinkStats, Owner, PortId, World};
use timeloom_scenario::{Background, NamedCable, Parts, Simulated};
use timeloom_time::{Duration, Instant, Virtual};

use crate::flow_stats::FlowStats;
use crate::numbers::numbers;

/// Counters of one direction of a link, and the state of its queue.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkObservation {
    pub(super) stats: LinkStats,
    pub(super) fluid: FluidLinkStats,
    pub(super) backlog: Duration,
    pub(super) waiting: u32,
    /// Present propagation delay and rate, which changes of the link affect.
    pub(super) delay: Duration,
    pub(super) rate_bps: u64,
}

/// Counters of one direction between two engines.
#[derive(Clone, Copy, Default)]
pub(super) struct CutObservation {
    /// Packets that arrived. `late` counts those among them that arrived after the instant at which
    /// they were due.
    pub(super) packets: u64,
    pub(super) late: u64,
    /// Packets that never arrived.
    pub(super) lost: u64,
}

/// Observation of a network. The keys are the numbers of link directions (two for each link), of
/// flows, and of directions between engines. Each engine observes the ends that it owns.
#[derive(Clone, Default)]
pub(crate) struct NetworkObservation {
    pub(super) links: BTreeMap<usize, LinkObservation>,
    /// Statistics of flows as counted at the sender; `receivers` has those counted at the receiver.
    pub(super) senders: BTreeMap<usize, FlowStats>,
    pub(super) receivers: BTreeMap<usize, FlowStats>,
    pub(super) cuts: BTreeMap<usize, CutObservation>,
}

impl LinkObservation {
    /// Adds the counters of an earlier process of the same engine. Queue lengths are not added,
    /// because the queues belong to the current process.
    fn add_earlier(&mut self, earlier: &Self) {
        let (stats, before) = (&mut self.stats, &earlier.stats);
        stats.packets += before.packets;
        stats.bytes += before.bytes;
        stats.dropped += before.dropped;
        stats.marked += before.marked;
        stats.lost += before.lost;
        stats.waited_ns += before.waited_ns;
        self.fluid.arrived_bytes += earlier.fluid.arrived_bytes;
        self.fluid.lost_bytes += earlier.fluid.lost_bytes;
    }
}

numbers!(LinkObservation: stats, fluid, backlog, waiting, delay, rate_bps);
numbers!(CutObservation: packets, late, lost);
numbers!(NetworkObservation: links, senders, receivers, cuts);

impl NetworkObservation {
    /// Adds the counters of earlier processes of the same engine.
    pub(crate) fn add_earlier(&mut self, earlier: &Self) {
        for (place, link) in &mut self.links {
            if let Some(earlier) = earlier.links.get(place) {
                link.add_earlier(earlier);
            }
        }
        for (flows, earlier) in [
            (&mut self.senders, &earlier.senders),
            (&mut self.receivers, &earlier.receivers),
        ] {
            for (place, flow) in flows {
                if let Some(earlier) = earlier.get(place) {
                    flow.add_earlier(earlier);
                }
            }
        }
        for (place, cut) in &mut self.cuts {
            if let Some(earlier) = earlier.cuts.get(place) {
                cut.packets += earlier.packets;
                cut.late += earlier.late;
                cut.lost += earlier.lost;
            }
        }
    }

    /// Returns the statistics of flow number `place`, from whichever ends are observed.
    pub(crate) fn flow(&self, place: usize) -> Option<&FlowStats> {
        let sender = self.senders.get(&place);
        sender.or_else(|| self.receivers.get(&place))
    }

    fn join(&mut self, other: Self) {
        self.links.extend(other.links);
        self.senders.extend(other.senders);
        self.receivers.extend(other.receivers);
        for (place, cut) in other.cuts {
            let sum = self.cuts.entry(place).or_default();
            // The receiving end counts arrivals, and the sending end the packets that it could not
            // send.
            sum.packets += cut.packets;
            sum.late += cut.late;
            sum.lost += cut.lost;
        }
    }
}

/// Parts of the network that one engine observes.
pub(crate) struct View {
    links: Vec<(usize, PortId)>,
    senders: Vec<(usize, Background)>,
    receivers: Vec<(usize, Background)>,
    here: Owner,
    cuts: BTreeMap<(Owner, Owner), usize>,
    is_alone: bool,
}

impl View {
    /// Creates the view of engine `here`, limited to the recorded `cables`.
    pub(super) fn new(simulated: &Simulated, cables: &[&NamedCable], here: Owner) -> Self {
        let parts = simulated.parts.as_ref();
        let owner = |node: timeloom_net::Node| {
            parts.map_or(here, |parts| parts.cut().owners()[node.0 as usize])
        };
        let world = &simulated.world;
        let ports = cables.iter().flat_map(|cable| [cable.there, cable.back]);
        let links = ports.enumerate();
        let links = links.filter(|(_, port)| owner(world.node_of(*port)) == here);
        let ends = |how: &Background| how.ends(world).map(owner);
        let flows = || simulated.traffic.iter().copied().enumerate();
        let senders = flows().filter(|(_, how)| ends(how)[0] == here);
        let receivers = flows().filter(|(_, how)| ends(how)[1] == here);
        let adjacent = parts.map(Parts::adjacent).unwrap_or_default();
        Self {
            links: links.collect(),
            senders: senders.collect(),
            receivers: receivers.collect(),
            here,
            cuts: adjacent.into_iter().zip(0..).collect(),
            is_alone: false,
        }
    }

    /// Limits the view to the signals that this engine records when observations of several engines
    /// are not combined. A link between two engines belongs to the engine at its first end, a
    /// direction between engines to the receiver.
    pub(super) fn is_alone(&mut self) {
        self.is_alone = true;
        let places: BTreeSet<usize> = self.links.iter().map(|(place, _)| *place).collect();
        // The two directions of a link have consecutive numbers, the first of which is even.
        self.links
            .retain(|(place, _)| place % 2 == 0 || places.contains(&(place - 1)));
    }

    pub(crate) fn look(
        &self,
        at: Instant<Virtual>,
        world: &mut World,
        adjacencies: &[AdjacencyReport],
    ) -> NetworkObservation {
        let mut seen = NetworkObservation::default();
        for (place, port) in &self.links {
            let link = LinkObservation {
                stats: world.link(*port),
                fluid: world.fluid_link(*port),
                backlog: world.backlog(*port, at),
                waiting: world.waiting(*port, at),
                delay: world.present_delay(*port),
                rate_bps: world.present_rate_bps(*port),
            };
            seen.links.insert(*place, link);
        }
        let stats = |flows: &[(usize, Background)]| {
            let flows = flows.iter();
            flows
                .map(|(place, how)| (*place, FlowStats::of(world, *how)))
                .collect()
        };
        seen.senders = stats(&self.senders);
        seen.receivers = stats(&self.receivers);
        for report in adjacencies {
            if let Some(place) = self.cuts.get(&(report.there, self.here)) {
                let cut = seen.cuts.entry(*place).or_default();
                (cut.packets, cut.late) = (report.lateness.events(), report.late);
                cut.lost += report.missing();
            }
            let back = self.cuts.get(&(self.here, report.there));
            if let Some(place) = back.filter(|_| !self.is_alone) {
                seen.cuts.entry(*place).or_default().lost += report.lost();
            }
        }
        seen
    }
}

/// Message of an engine about its samples.
pub(crate) enum Word {
    Saw(Instant<Virtual>, NetworkObservation),
    /// The engine sends no more samples.
    Ended,
}

/// Sender through which an engine delivers its samples to the writer.
pub(crate) struct Speaker {
    pub(super) words: Sender<Word>,
}

impl Speaker {
    pub(crate) fn saw(&self, at: Instant<Virtual>, seen: NetworkObservation) {
        // The channel is open: the writer ends after this thread.
        let _ = self.words.send(Word::Saw(at, seen));
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // The channel is open: the writer ends after this thread.
        let _ = self.words.send(Word::Ended);
    }
}

/// Combines the observations of `engines` engines for each sampling instant, and passes each
/// combination to `act` in the order of time. Does not wait for engines that have ended.
pub(super) fn put_together(
    words: Receiver<Word>,
    engines: usize,
    mut act: impl FnMut(Instant<Virtual>, &NetworkObservation),
) {
    let mut parts: BTreeMap<Instant<Virtual>, (usize, NetworkObservation)> = BTreeMap::new();
    let mut living = engines;
    for word in words {
        match word {
            Word::Saw(at, seen) => {
                let (count, whole) = parts.entry(at).or_default();
                *count += 1;
                whole.join(seen);
            }
            Word::Ended => living -= 1,
        }
        // Each engine sends its samples in order. Once all engines have sent the sample of one
        // instant, no engine adds to an older one, even if an engine that was away has skipped it.
        let is_whole = |count: usize| count >= living.max(1);
        let last = parts.iter().rev().find(|(_, (count, _))| is_whole(*count));
        let last = last.map(|(at, _)| *at);
        while let Some(first) = parts.first_entry() {
            if last.is_none_or(|last| *first.key() > last) {
                break;
            }
            let (at, (_, seen)) = first.remove_entry();
            act(at, &seen);
        }
    }
    for (at, (_, seen)) in parts {
        act(at, &seen);
    }
}
