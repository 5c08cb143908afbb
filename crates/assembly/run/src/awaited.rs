//! Components of a run that its time may wait for, for `timeloom query --why`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use timeloom_bus::AwaitedMachine;
use timeloom_emulation::{EngineGroup, Unrest};
use timeloom_guest::ComponentText;
use timeloom_net::Owner;
use timeloom_plant::PausedPlant;
use timeloom_time::Duration;
use tracing::debug;

use crate::quiescence::Quiescence;

/// Components of a run. They are added while the run is prepared.
#[derive(Default)]
pub(crate) struct Components {
    /// Present phase of the preparation; `None` once time has begun.
    phase: Mutex<Option<&'static str>>,
    plants: OnceLock<Vec<(String, Weak<PausedPlant>)>>,
    engines: OnceLock<Engines>,
    quiescence: OnceLock<Quiescence>,
    peers: OnceLock<AwaitedPeers>,
}

/// Function that lists the other nodes for which a pause waits.
pub(crate) type AwaitedPeers = Box<dyn Fn() -> Vec<AwaitedMachine> + Send + Sync>;

/// Engines of a simulated network that announce their next event.
pub(crate) struct Engines {
    pub(crate) group: EngineGroup,
    /// Names of the engines; empty if there is only one.
    pub(crate) names: Vec<String>,
}

impl Components {
    /// Records the phase of the preparation that begins; `None` once time has begun.
    pub(crate) fn enter(&self, phase: Option<&'static str>) {
        debug!(phase = phase.unwrap_or("running"), "phase of the run");
        *self.phase.lock() = phase;
    }

    // Each of the following is called at most once in a run.

    pub(crate) fn have_plants(&self, plants: &BTreeMap<String, Arc<PausedPlant>>) {
        let plants = plants.iter();
        let plants = plants.map(|(name, plant)| (name.clone(), Arc::downgrade(plant)));
        let _ = self.plants.set(plants.collect());
    }

    pub(crate) fn have_engines(&self, engines: Engines) {
        let _ = self.engines.set(engines);
    }

    pub(crate) fn have_quiescence(&self, quiescence: Quiescence) {
        let _ = self.quiescence.set(quiescence);
    }

    pub(crate) fn have_peers(&self, peers: AwaitedPeers) {
        let _ = self.peers.set(peers);
    }

    /// Returns the components that are awaited. Time waits for those of the run itself only if it
    /// skips.
    pub(crate) fn awaited(&self, skips: bool) -> Vec<ComponentText> {
        let mut awaited = Vec::new();
        let phase = *self.phase.lock();
        awaited.extend(phase.map(|phase| ComponentText {
            component: "the run".to_owned(),
            state: format!("is getting ready: {phase}"),
            since_ns: None,
        }));
        for (name, plant) in self.plants.get().into_iter().flatten() {
            let busy_for = plant.upgrade().and_then(|plant| plant.busy_for());
            awaited.extend(busy_for.map(|busy_for| plant_computes(name, busy_for)));
        }
        let peers = self.peers.get().map(|peers| peers());
        awaited.extend(peers.into_iter().flatten().map(agent));
        if skips {
            let quiescence = self.quiescence.get().map(Quiescence::awaited);
            awaited.extend(quiescence.into_iter().flatten());
            let engines = self.engines.get().map(Engines::awaited);
            awaited.extend(engines.into_iter().flatten());
        }
        awaited
    }
}

impl Engines {
    fn awaited(&self) -> Vec<ComponentText> {
        let unrest = self.group.unrest().into_iter();
        let described = unrest.map(|reason| describe(reason, &self.names));
        described.collect()
    }
}

fn describe(reason: Unrest, names: &[String]) -> ComponentText {
    let engine = |number: Owner| match names.get(usize::from(number)) {
        Some(name) => format!("engine `{name}`"),
        None => "the simulated network".to_owned(),
    };
    let (component, state) = match reason {
        Unrest::Awake(number) => (engine(number), "handles events or frames".to_owned()),
        Unrest::Undecided(number, [local, remote]) => (
            engine(number),
            format!(
                "waits for the kernel of {local} to decide which segments of the connection to \
                 {remote} are lost"
            ),
        ),
        Unrest::Crossing(from, to) => (
            engine(from),
            format!("has sent a packet that {} has not received", engine(to)),
        ),
    };
    ComponentText {
        component,
        state,
        since_ns: None,
    }
}

fn plant_computes(name: &str, busy_for: Duration) -> ComponentText {
    ComponentText {
        component: format!("plant `{name}`"),
        state: "answers a request".to_owned(),
        since_ns: Some(busy_for.as_ns()),
    }
}

/// Returns the text of a machine that a pause waits for.
pub(crate) fn agent(machine: AwaitedMachine) -> ComponentText {
    ComponentText {
        component: format!("agent `{}`", machine.name),
        state: machine.state.to_owned(),
        since_ns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reason: Unrest, names: &[String]) -> String {
        let described = describe(reason, names);
        format!("{} {}", described.component, described.state)
    }

    #[test]
    fn engines_are_named_if_there_are_several() {
        let names = ["east".to_owned(), "west".to_owned()];
        assert_eq!(
            text(Unrest::Awake(1), &names),
            "engine `west` handles events or frames"
        );
        assert_eq!(
            text(Unrest::Crossing(0, 1), &names),
            "engine `east` has sent a packet that engine `west` has not received"
        );
        let ends = ["10.0.0.1:80", "10.0.0.2:5201"].map(|end| end.parse().expect("an address"));
        assert_eq!(
            text(Unrest::Undecided(0, ends), &[]),
            "the simulated network waits for the kernel of 10.0.0.1:80 to decide which segments \
             of the connection to 10.0.0.2:5201 are lost"
        );
    }

    #[test]
    fn a_run_that_gets_ready_names_its_phase_until_time_begins() {
        let components = Components::default();
        components.enter(Some("starting the plants"));
        let awaited = components.awaited(false);
        assert_eq!(awaited.len(), 1);
        assert_eq!(awaited[0].state, "is getting ready: starting the plants");
        components.enter(None);
        assert_eq!(components.awaited(true), []);
    }

    #[test]
    fn an_agent_is_named_with_its_state() {
        let machine = AwaitedMachine {
            name: "b".to_owned(),
            state: "has not stopped yet",
        };
        let agent = agent(machine);
        assert_eq!(agent.component, "agent `b`");
        assert_eq!(agent.state, "has not stopped yet");
    }
}
