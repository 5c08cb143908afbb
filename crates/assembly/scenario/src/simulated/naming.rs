//! Names of the cables and flows of a simulated network in the results, and the names of their
//! recorded signals: `net.link.NAME.loss`, `net.flow.NAME.delay`.

use std::collections::HashSet;

use timeloom_net::{PortId, World};

use super::Parts;
use crate::plan::{LinkName, Plan};
use crate::suggest;

/// Name that stands for the simulated network as the source of signals.
pub const NETWORK: &str = "net";

/// Names of the recorded signals of each link. Each is the worse value of the two directions.
pub const LINK_SIGNALS: [&str; 5] = ["throughput", "load", "loss", "delay", "queue"];

/// Names of the recorded signals of each flow.
pub const FLOW_SIGNALS: [&str; 3] = ["throughput", "loss", "delay"];

/// Names of the recorded signals of each direction in which packets pass from one engine to
/// another.
pub const CUT_SIGNALS: [&str; 3] = ["packets", "late", "lost"];

/// Cable of a simulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCable {
    /// Name of the cable in the results.
    pub name: String,
    /// Names of the two nodes that the cable joins.
    pub ends: [String; 2],
    /// Port at the first node, which leads to the second.
    pub there: PortId,
    /// Port at the second node, which leads to the first.
    pub back: PortId,
}

/// Names of cables and flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkNames {
    /// Cables: first those of `system.links`, in the same order, then all others.
    pub cables: Vec<NamedCable>,
    /// Flows, in the order of `network.traffic`.
    pub flows: Vec<String>,
    /// Names of the directions between engines, in the order of [`Parts::adjacent`].
    pub cuts: Vec<String>,
}

impl NetworkNames {
    pub(super) fn new(
        plan: &Plan,
        world: &World,
        links: &[Option<(PortId, PortId)>],
        parts: Option<&Parts>,
    ) -> Self {
        let mut used = HashSet::new();
        let mut cables = Vec::new();
        let mut of_links = HashSet::new();
        for (link, ports) in plan.system.links.iter().zip(links) {
            let Some((there, back)) = *ports else {
                continue;
            };
            of_links.extend([there, back]);
            let wanted = link.name.clone().unwrap_or_else(|| link.between.join("-"));
            cables.push(NamedCable {
                name: unique(&mut used, &wanted),
                ends: link.between.clone(),
                there,
                back,
            });
        }
        for cable in world.cables() {
            // The list has both directions of a cable; the first one determines the name.
            let back = cable.port.peer();
            if back < cable.port || of_links.contains(&cable.port) {
                continue;
            }
            let ends = [cable.from, cable.to].map(|node| world.name(node).to_owned());
            cables.push(NamedCable {
                name: unique(&mut used, &ends.join("-")),
                ends,
                there: cable.port,
                back,
            });
        }
        let mut used = HashSet::new();
        let traffic = plan.network.iter().flat_map(|network| &network.traffic);
        let flows = traffic.map(|flow| {
            let ends = || format!("{}-{}", flow.from, flow.to);
            unique(&mut used, &flow.name.clone().unwrap_or_else(ends))
        });
        let cuts = parts.into_iter().flat_map(|parts| {
            let pairs = parts.adjacent().into_iter();
            pairs.map(|(from, to)| parts.cut_name(from, to))
        });
        Self {
            flows: flows.collect(),
            cuts: cuts.collect(),
            cables,
        }
    }

    /// Returns the cable of this name; `None` if there is no such cable.
    pub fn cable(&self, link: &LinkName) -> Option<&NamedCable> {
        match link {
            LinkName::Ends(ends) => self.between(ends),
            LinkName::Named(name) => self.cables.iter().find(|cable| cable.name == *name),
        }
    }

    /// Returns the cable that joins these two nodes, in either order.
    pub fn between(&self, ends: &[String; 2]) -> Option<&NamedCable> {
        let [a, b] = ends;
        self.cables.iter().find(|cable| {
            cable.ends == [a.clone(), b.clone()] || cable.ends == [b.clone(), a.clone()]
        })
    }

    /// Returns a message and a fix if the network does not record `signal`, and `None` if it does.
    pub(crate) fn fault(&self, signal: &str) -> Option<(String, String)> {
        let (kind, rest) = signal.split_once('.').unwrap_or((signal, ""));
        let (name, quantity) = rest.rsplit_once('.').unwrap_or((rest, ""));
        let (noun, known, quantities): (_, Vec<&str>, &[&str]) = match kind {
            "link" => {
                let names = self.cables.iter().map(|cable| cable.name.as_str());
                ("link", names.collect(), &LINK_SIGNALS)
            }
            "flow" => {
                let names = self.flows.iter().map(String::as_str);
                ("flow", names.collect(), &FLOW_SIGNALS)
            }
            "cut" => {
                let names = self.cuts.iter().map(String::as_str);
                ("cut", names.collect(), &CUT_SIGNALS)
            }
            _ => {
                let help = "write `net.link.NAME.QUANTITY` or `net.flow.NAME.QUANTITY`";
                let message = format!("`{signal}` of the network is not recorded");
                return Some((message, help.to_owned()));
            }
        };
        if !known.contains(&name) {
            let message = format!("the network has no {noun} `{name}`");
            return Some((message, suggest::hint(name, noun, known)));
        }
        if !quantities.contains(&quantity) {
            let message = format!("`{quantity}` of a {noun} is not recorded");
            let help = suggest::hint(quantity, "quantity", quantities.iter().copied());
            return Some((message, help));
        }
        None
    }
}

/// Returns a unique name that may be part of the name of a signal.
fn unique(used: &mut HashSet<String>, wanted: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    let name: String = (wanted.chars())
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    let free = candidates.find(|candidate| !used.contains(candidate));
    let free = free.expect("there are more numbers than names");
    used.insert(free.clone());
    free
}
