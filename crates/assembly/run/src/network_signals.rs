//! Recording of a simulated network: its topology, and signals over virtual time. The source `net`
//! has signals for each link, each flow and the traffic between engines.

mod meters;
mod observation;
mod topology;

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread::JoinHandle;

use timeloom_net::Owner;
use timeloom_results::Topology;
use timeloom_scenario::{NETWORK, NamedCable, Plan, Simulated};
use timeloom_time::{Duration, Instant};

use crate::flow_stats::FlowStats;
use crate::record::RunRecorder;
use meters::{CutMeter, FlowMeter, LinkMeter};
pub(crate) use observation::{NetworkObservation, Speaker, View};
use observation::{Word, put_together};

/// Signal recording of a running network.
pub(crate) struct Signals {
    /// Senders through which the engines deliver samples, by engine number.
    pub(crate) speakers: Vec<Speaker>,
    /// Thread that writes the rows; it ends when all `speakers` have been dropped.
    pub(crate) writer: JoinHandle<()>,
}

/// Prepares to record the network. A separate thread writes the rows, so that the disk does not
/// delay the network.
pub(crate) fn start(
    plan: &Plan,
    simulated: &Simulated,
    run_recorder: &RunRecorder,
) -> (Signals, Topology) {
    let recorded = recorded(plan, simulated);
    let cables = chosen(simulated, &recorded);
    let world = &simulated.world;
    let mut links: Vec<LinkMeter> = cables
        .iter()
        .map(|cable| LinkMeter::new(cable, world))
        .collect();
    let flows = simulated.names.flows.iter().zip(&simulated.traffic);
    let mut flows: Vec<FlowMeter> = flows
        .map(|(name, how)| FlowMeter::new(name, *how, world))
        .collect();
    let cuts = simulated.names.cuts.iter();
    let mut cuts: Vec<CutMeter> = cuts.map(|name| CutMeter::new(name)).collect();
    let every = every(plan);
    let engines = simulated
        .parts
        .as_ref()
        .map_or(1, |parts| parts.names.len());
    let (words, written) = mpsc::channel::<Word>();
    let speakers = (0..engines).map(|_| Speaker {
        words: words.clone(),
    });
    let speakers = speakers.collect();
    drop(words);
    let run_recorder = run_recorder.clone();
    let writer = std::thread::spawn(move || {
        let mut rows = Vec::new();
        put_together(written, engines, |at, seen| {
            // The parts of an engine that has died have no observations.
            for (place, link) in links.iter_mut().enumerate() {
                let both = [2 * place, 2 * place + 1].map(|place| seen.links.get(&place));
                if both.iter().any(Option::is_some) {
                    link.measure(at, every, both, &mut rows);
                }
            }
            for (place, flow) in flows.iter_mut().enumerate() {
                let ends = [&seen.senders, &seen.receivers];
                let [sender, receiver] = ends.map(|ends| ends.get(&place).copied());
                if let Some(stats) = FlowStats::known(sender, receiver) {
                    flow.measure(at, every, stats, &mut rows);
                }
            }
            for (place, cut) in cuts.iter_mut().enumerate() {
                if let Some(seen) = seen.cuts.get(&place) {
                    cut.measure(at, every, *seen, &mut rows);
                }
            }
            for (at, name, value, unit) in rows.drain(..) {
                // At virtual zero all counters are zero, so the first sample only starts the
                // meters.
                if at > Instant::ZERO {
                    run_recorder.network_sample(at, &name, value, unit);
                }
            }
        });
    });
    let topology = topology::topology(plan, simulated, &recorded);
    (Signals { speakers, writer }, topology)
}

/// Returns the topology of a network.
pub(crate) fn topology_of(plan: &Plan, simulated: &Simulated) -> Topology {
    topology::topology(plan, simulated, &recorded(plan, simulated))
}

/// Returns the view of engine `here`: the parts that it observes.
pub(crate) fn view(plan: &Plan, simulated: &Simulated, here: Owner) -> View {
    let recorded = recorded(plan, simulated);
    let mut view = View::new(simulated, &chosen(simulated, &recorded), here);
    if plan.placement.is_spread() && !plan.takes_turns() {
        view.is_alone();
    }
    view
}

/// Returns the interval of virtual time between two samples of the model.
pub(crate) fn every(plan: &Plan) -> Duration {
    let part = Duration::from_ns(plan.time.duration.as_ns() / SAMPLES);
    part.clamp(Duration::from_ms(100), Duration::from_s(1))
}

/// Returns the cables for which `recorded` is true.
fn chosen<'a>(simulated: &'a Simulated, recorded: &[bool]) -> Vec<&'a NamedCable> {
    let cables = simulated.names.cables.iter().zip(recorded);
    let cables = cables.filter(|(_, recorded)| **recorded);
    cables.map(|(cable, _)| cable).collect()
}

/// Returns for each cable whether it has signals. The cables of `system.links` always do, and so do
/// those that a check or panel names. Of the others, up to [`MOST_LINKS`] do, and backbones take
/// precedence over the hosts' own cables.
fn recorded(plan: &Plan, simulated: &Simulated) -> Vec<bool> {
    let panels = plan.panels.iter().flat_map(|panel| &panel.signals);
    let named = panels.map(|signal| &signal.name);
    let named = named.chain(plan.checks.iter().map(|check| &check.assert.signal));
    let named: BTreeSet<&str> = named
        .filter(|name| name.plant == NETWORK)
        .filter_map(|name| name.signal.strip_prefix("link.")?.rsplit_once('.'))
        .map(|(link, _)| link)
        .collect();
    let is_host = |name: &String| {
        let node = simulated.nodes.get(name);
        node.is_some_and(|node| simulated.world.is_host(*node))
    };
    let cables = &simulated.names.cables;
    let mut order: Vec<usize> = (0..cables.len()).collect();
    let rank = |index: &usize| {
        let cable = &cables[*index];
        let of_plan = plan
            .system
            .links
            .iter()
            .any(|link| link.between == cable.ends);
        match () {
            () if named.contains(cable.name.as_str()) || of_plan => 0,
            () if cable.ends.iter().any(is_host) => 2,
            () => 1,
        }
    };
    order.sort_by_cached_key(rank);
    let mut recorded = vec![false; cables.len()];
    for (place, index) in order.into_iter().enumerate() {
        recorded[index] = place < MOST_LINKS || rank(&index) == 0;
    }
    recorded
}

/// Maximum number of recorded links. More rows would slow down the run and would not be read.
const MOST_LINKS: usize = 128;

/// Number of samples per signal in a run of ordinary length.
const SAMPLES: i64 = 300;
