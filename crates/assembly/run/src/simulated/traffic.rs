//! Final report of a network's background traffic. For each flow, the statistics of the engines at
//! both ends are combined.

use std::collections::BTreeMap;

use timeloom_net::{Node, Owner};
use timeloom_scenario::{Plan, Simulated};

use super::engine::EngineReport;
use super::history::Known;
use crate::flow_stats::FlowStats;
use crate::record::RunRecorder;

/// A flow, and the numbers of the engines at its two ends.
pub(super) struct Flow {
    name: String,
    ends: [Owner; 2],
}

impl Flow {
    /// Returns the flows of a plan.
    pub(super) fn all(plan: &Plan, simulated: &Simulated) -> Vec<Self> {
        let owner = |node: Node| {
            let parts = simulated.parts.as_ref();
            parts.map_or(0, |parts| parts.cut().owners()[node.0 as usize])
        };
        let traffic = plan.network.as_ref().map_or(&[][..], |n| &n.traffic);
        let traffic = traffic.iter().zip(&simulated.traffic);
        traffic
            .map(|(what, how)| Self {
                name: format!("{} to {}", what.from, what.to),
                ends: how.ends(&simulated.world).map(owner),
            })
            .collect()
    }
}

/// Records the statistics of each flow, from the final reports of the engines at its ends.
pub(super) fn tell(
    flows: &[Flow],
    ended: &[(Owner, (EngineReport, Known))],
    run_recorder: &RunRecorder,
) {
    let ended = ended.iter();
    let known: BTreeMap<Owner, Vec<Option<FlowStats>>> = ended
        .map(|(here, (ended, known))| (*here, by_place(ended, known, flows.len())))
        .collect();
    for (place, flow) in flows.iter().enumerate() {
        // Of a flow to another agent, this agent knows only one end.
        let [from, to] = flow.ends.map(|end| *known.get(&end)?.get(place)?);
        if let Some(stats) = FlowStats::known(from, to) {
            run_recorder.own_event("network", "traffic", &stats.tell(&flow.name));
        }
    }
}

/// Returns an engine's statistics of `count` flows, over all processes of that engine.
fn by_place(ended: &EngineReport, known: &Known, count: usize) -> Vec<Option<FlowStats>> {
    let earlier = (0..count).map(|place| known.counted.flow(place).copied());
    if known.is_away {
        return earlier.collect();
    }
    let last = ended.flows(count).into_iter().zip(earlier);
    last.map(|(mut flow, earlier)| {
        if let Some(earlier) = earlier {
            flow.add_earlier(&earlier);
        }
        Some(flow)
    })
    .collect()
}
