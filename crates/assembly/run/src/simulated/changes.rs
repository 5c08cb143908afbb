//! Links of a simulated network that clients change during the run.

use std::sync::Arc;

use timeloom_emulation::EngineRemote;
use timeloom_emulation::peering::Cut;
use timeloom_net::{LinkChange, PortId, World};
use timeloom_scenario::{LinkName, NamedCable, NetworkNames, Simulated, WireChange};
use timeloom_time::{Duration, Instant, Virtual};

use super::message::ModelChange;
use super::process::EngineConnections;
use crate::link_error::{LinkChangeError, has_name};

/// Returns the shortest delay that a cable between two engines may get while they run; `None` for a
/// cable within one engine. Each engine promises the other to send nothing that arrives within the
/// shortest delay of all cables between the two.
fn bound(world: &World, cut: &Cut, cable: &NamedCable) -> Option<Duration> {
    let is_it = |port: PortId| port == cable.there || port == cable.back;
    let (_, from, to) = *cut.links().iter().find(|(port, ..)| is_it(*port))?;
    let between = cut
        .links()
        .iter()
        .filter(|(_, a, b)| [*a, *b] == [from, to] || [*b, *a] == [from, to]);
    between.map(|(port, ..)| world.least_delay(*port)).min()
}

/// Links of a simulated network, and the engines that have them.
pub(crate) struct ModelLinks {
    names: NetworkNames,
    /// Shortest delays that cables between two engines may get, by the number of the cable.
    bounds: Vec<(usize, Duration)>,
    /// Reason why links of the network cannot change, by the number of the cable.
    fixed: Vec<(usize, String)>,
    engines: ModelEngines,
    /// True if this node records the changes.
    pub(crate) records: bool,
}

/// Engines of a network that a client can change.
pub(super) enum ModelEngines {
    Threads(Vec<EngineRemote>),
    Processes(Arc<EngineConnections>),
    /// Engines on several agents, which are not changed by one of them.
    Spread,
}

/// Cable that a client names.
#[derive(Clone, Copy)]
pub(crate) struct FoundCable<'a> {
    number: usize,
    pub(crate) name: &'a str,
    ports: [PortId; 2],
}

impl ModelLinks {
    pub(super) fn new(simulated: &Simulated, engines: ModelEngines, records: bool) -> Self {
        let world = &simulated.world;
        let cut = simulated.parts.as_ref().map(|parts| parts.cut());
        let mut bounds = Vec::new();
        let mut fixed = Vec::new();
        for (number, cable) in simulated.names.cables.iter().enumerate() {
            bounds.extend(
                cut.and_then(|cut| bound(world, cut, cable))
                    .map(|it| (number, it)),
            );
            if let Err(error) = world.check_change(cable.there, &LinkChange::default()) {
                fixed.push((number, error.to_string()));
            }
        }
        Self {
            names: simulated.names.clone(),
            bounds,
            fixed,
            engines,
            records,
        }
    }

    /// Returns the names of all links.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.cables.iter().map(|cable| cable.name.as_str())
    }

    /// Returns the name of the link that the plan calls `name`.
    pub(crate) fn cable(&self, name: &LinkName) -> Option<&str> {
        self.names.cable(name).map(|cable| cable.name.as_str())
    }

    /// Returns the link that a client names, by its name or by its ends.
    pub(crate) fn named(&self, text: &str) -> Option<FoundCable<'_>> {
        let cables = &self.names.cables;
        let by_name = cables.iter().position(|cable| cable.name == text);
        let by_ends = || cables.iter().position(|cable| has_name(&cable.ends, text));
        let number = by_name.or_else(by_ends)?;
        let cable = &cables[number];
        Some(FoundCable {
            number,
            name: &cable.name,
            ports: [cable.there, cable.back],
        })
    }

    /// Changes a link at the instant `now`, and returns that instant.
    pub(crate) fn change(
        &self,
        cable: FoundCable<'_>,
        change: &WireChange,
        now: Instant<Virtual>,
    ) -> Result<Instant<Virtual>, LinkChangeError> {
        let link = || cable.name.to_owned();
        let is_this = |number: usize| number == cable.number;
        if let Some((_, reason)) = self.fixed.iter().find(|(number, _)| is_this(*number)) {
            let reason = reason.clone();
            return Err(LinkChangeError::Fixed {
                link: link(),
                reason,
            });
        }
        let bound = self.bounds.iter().find(|(number, _)| is_this(*number));
        if let (Some((_, least)), Some(delay)) = (bound, change.delay)
            && delay < *least
        {
            let least = *least;
            return Err(LinkChangeError::Lookahead {
                link: link(),
                least,
            });
        }
        let changes = cable.ports.map(|port| ModelChange::new(port, now, change));
        match &self.engines {
            ModelEngines::Threads(engines) => {
                for engine in engines {
                    // An engine that has ended has failed the run.
                    let _ = engine.with(move |engine| {
                        changes.iter().for_each(|change| change.make(engine));
                    });
                }
            }
            ModelEngines::Processes(engines) => engines.change(&changes),
            ModelEngines::Spread => return Err(LinkChangeError::Spread),
        }
        Ok(now)
    }
}
