//! Checks of placement: every part must be on an existing agent, and parts that must stay together
//! must be on the same one.

use std::net::SocketAddr;

use timeloom_time::Duration;

use super::{Rules, at};
use crate::plan::{EngineFailure, EngineMode, Mode, Placement, Plan};

pub(super) fn check(rules: &mut Rules<'_>) {
    if !rules.was_read(&["placement"]) {
        return;
    }
    let placement = &rules.plan.placement;
    if !placement.is_spread() {
        return unspread(rules);
    }
    for (name, agent) in &placement.agents {
        address(rules, name, &agent.address);
        if let Some(pins) = &agent.gpio {
            gpio(rules, name, pins);
        }
    }
    group(rules);
    if placement.key_file.is_none() {
        let help = "add `key_file = \"agents.key\"`, made by `openssl rand -hex 32`, which \
                    the agents were given too";
        rules.misplaced(&path(&[]), "agents need a key", help);
    }
    if placement.patience < LEAST_PATIENCE {
        let help = "the default is `800 ms`";
        rules.broken(
            &path(&["patience"]),
            format!(
                "`patience` must be at least {LEAST_PATIENCE}, the interval between messages \
                of agents"
            ),
            help,
        );
    }
    places(rules);
    alike(rules);
    together(rules);
}

/// Checks that without agents no part is placed on one.
fn unspread(rules: &mut Rules<'_>) {
    let placement = &rules.plan.placement;
    let mut named = vec![(path(&["default"]), &placement.default)];
    for (table, placed) in [("nodes", &placement.nodes), ("plants", &placement.plants)] {
        named.extend(
            placed
                .iter()
                .map(|(name, place)| (path(&[table, name]), place)),
        );
    }
    named.retain(|(_, place)| *place != Placement::LOCAL);
    for (path, place) in named {
        let help = "add `[placement.agents.NAME]` with its `address`, or leave it out";
        rules.broken(&path, format!("there is no agent `{place}`"), help);
    }
}

fn address(rules: &mut Rules<'_>, name: &str, address: &str) {
    let here = path(&["agents", name]);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name == Placement::LOCAL || name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let message = format!("`{name}` cannot be the name of an agent");
        let help = "use letters, digits, `-` and `_`; `local` is this machine";
        rules.misplaced(&here, message, help);
    }
    let parsed = address.parse::<SocketAddr>();
    if !parsed.is_ok_and(|address| address.port() > 0 && !address.ip().is_unspecified())
        && rules.part_was_read(&here, "address")
    {
        let message = format!("`{address}` is not an address of an agent");
        let help = "write an IP address and a port, as in `10.0.0.1:5500`";
        rules.broken(&at(&here, ["address"]), message, help);
    }
}

/// Checks that the pins of an agent are a chip and three of its lines.
fn gpio(rules: &mut Rules<'_>, name: &str, pins: &str) {
    let lines = |lines: &str| -> Option<[u32; 3]> {
        let lines: Result<Vec<u32>, _> = lines.split(',').map(str::parse).collect();
        lines.ok()?.try_into().ok()
    };
    let parsed = pins.rsplit_once(':').and_then(|(chip, text)| {
        let [output, rising, falling] = lines(text)?;
        let differ = output != rising && rising != falling && output != falling;
        (!chip.is_empty() && differ).then_some(())
    });
    if parsed.is_none() {
        let message = format!("`{pins}` does not name a chip and three lines of it");
        let help = "write the output, the input for rising and that for falling edges, as in \
                    `gpiochip0:17,27,22`";
        rules.broken(&path(&["agents", name, "gpio"]), message, help);
    }
}

/// Checks that the group is an IPv4 multicast address with a port, and that every agent has an IPv4
/// address.
fn group(rules: &mut Rules<'_>) {
    let placement = &rules.plan.placement;
    let Some(group) = &placement.group else {
        return;
    };
    let here = path(&["group"]);
    match group.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(address)) if address.ip().is_multicast() && address.port() > 0 => {}
        _ => {
            let message = format!("`{group}` is not a group of IPv4 and a port");
            return rules.broken(&here, message, "write it as in `239.1.2.3:5501`");
        }
    }
    let other = placement.agents.iter().find(|(_, agent)| {
        let address = agent.address.parse::<SocketAddr>();
        address.is_ok_and(|address| address.is_ipv6())
    });
    if let Some((name, _)) = other {
        let message = format!("the agent `{name}` has no address of IPv4");
        rules.broken(&here, message, "leave `group` out, or give it one");
    }
}

/// Checks that the parts that are placed, and their agents, exist.
fn places(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let placement = &plan.placement;
    let agents = || placement.agents.keys().map(String::as_str);
    let nodes: Vec<&str> = nodes(plan).collect();
    let plants: Vec<&str> = plan.simulation.plants.keys().map(String::as_str).collect();
    let tables = [
        ("nodes", "node", &placement.nodes, &nodes),
        ("plants", "plant", &placement.plants, &plants),
    ];
    for (table, noun, placed, known) in tables {
        for (name, place) in placed {
            let path = path(&[table, name]);
            if !known.contains(&name.as_str()) {
                let help = rules.hint(name, noun, known.iter().copied());
                rules.misplaced(&path, format!("there is no {noun} `{name}`"), help);
            } else if !placement.agents.contains_key(place) {
                let help = rules.hint(place, "agent", agents().collect::<Vec<_>>());
                rules.broken(&path, format!("there is no agent `{place}`"), help);
            }
        }
    }
    let node = |name: &&&str| placement.of_node(name) == placement.default;
    let plant = |name: &&&str| placement.of_plant(name) == placement.default;
    let left = nodes
        .iter()
        .find(node)
        .or_else(|| plants.iter().find(plant));
    if let Some(name) = left
        && !placement.agents.contains_key(&placement.default)
    {
        let message = format!("`{name}` is placed on no agent");
        let help = "name one under [placement.nodes] or [placement.plants], or as `default`; \
                    this machine can run an agent too";
        rules.misplaced(&path(&[]), message, help);
    }
    for name in placement.agents.keys() {
        if !nodes.iter().any(|node| placement.of_node(node) == name) {
            let message = format!("the agent `{name}` has nothing to run");
            let help = "place a host, device or switch on it, or leave it out";
            rules.misplaced(&path(&["agents", name]), message, help);
        }
    }
}

/// Checks that a device and its plant are on the same agent, because they exchange no messages over
/// a network.
fn together(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let placement = &plan.placement;
    for (name, device) in &plan.system.devices {
        let apart = device
            .registers
            .iter()
            .map(|register| &register.signal.plant)
            .find(|plant| placement.of_plant(plant) != placement.of_node(name));
        if let Some(plant) = apart {
            let message = format!("the device `{name}` is not where its plant `{plant}` is");
            let help = format!("place both on one agent; the link of `{name}` may lead to another");
            rules.misplaced(&path(&["nodes"]), message, help);
        }
    }
}

/// Reports features that cannot be distributed over agents yet.
fn alike(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let mode = plan.time.mode;
    if mode != Mode::Virtual && rules.was_read(&["time", "mode"]) {
        let help =
            "write `mode = \"virtual\"`, `\"stepped\"` without `skip`, or `compute = \"none\"`";
        match (mode, plan.time.compute) {
            _ if plan.takes_turns() => {}
            (Mode::Stepped, _) if !plan.time.skips() => {}
            (Mode::Skip | Mode::Stepped, _) => {
                let message = "the clocks of agents skip only if computing takes no time";
                rules.broken(&["time", "mode"], message, help);
            }
            _ => {
                let message = "agents share virtual time; real time needs one machine";
                rules.broken(&["time", "mode"], message, help);
            }
        }
    }
    if plan.takes_turns() {
        without_bus(rules);
    }
    network(rules);
    if plan.system.openflow.is_some() {
        let message = "switches that speak OpenFlow are not spread over agents";
        rules.misplaced(&at(&[], ["system", "openflow"]), message, "leave it out");
    }
}

/// Reports settings of the pause bus, which agents that act in turns do not have.
fn without_bus(rules: &mut Rules<'_>) {
    let placement = &rules.plan.placement;
    let pinned = placement.agents.iter().find(|(_, it)| it.gpio.is_some());
    let pins = pinned.map(|(name, _)| path(&["agents", name, "gpio"]));
    let group = placement.group.as_ref().map(|_| path(&["group"]));
    let look_ahead = placement.look_ahead.map(|_| path(&["look_ahead"]));
    for place in [pins, group, look_ahead].into_iter().flatten() {
        let message = "with `compute = \"none\"` agents act in turns, and agree on no pauses";
        rules.broken(&place, message, "leave it out");
    }
}

/// Checks that a simulated network has an engine for each agent.
fn network(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let Some(network) = &plan.network else {
        return;
    };
    let place = at(&[], ["network"]);
    if network.topology.is_some() {
        let message = "a network of a file is not spread over agents";
        let help = "write its nodes and links, or generate them";
        rules.broken(&at(&place, ["topology"]), message, help);
    }
    let agents: Vec<&str> = plan.placement.agents.keys().map(String::as_str).collect();
    let each = agents.join(" = […], ");
    let help = format!("name them as the agents: `[network.engines] parts = {{ {each} = […] }}`");
    let Some(engines) = &network.engines else {
        let message = "a simulated network that is spread has an engine on each agent";
        return rules.misplaced(&place, message, help);
    };
    let path = at(&place, ["engines"]);
    if !rules.part_was_read(&path, "parts") {
        return;
    }
    let names: Vec<&str> = engines.parts.keys().map(String::as_str).collect();
    let missing = agents.iter().find(|agent| !names.contains(agent));
    let strange = names.iter().find(|name| !agents.contains(name));
    let wrong = match (missing, strange) {
        (_, Some(name)) => Some(format!(
            "there is no agent `{name}`, so no engine can run there"
        )),
        (Some(name), None) => Some(format!("the agent `{name}` has no engine")),
        (None, None) => None,
    };
    if let Some(message) = wrong {
        return rules.misplaced(&path, message, help);
    }
    if engines.mode == EngineMode::Exact && !plan.takes_turns() {
        let message = "engines of several machines cannot wait for one another";
        let help = "a datagram may be lost, and a promise with it: choose `mode = \"free\"`, or \
                    `time.mode = \"skip\"` with `compute = \"none\"`";
        rules.broken(&at(&path, ["mode"]), message, help);
    }
    if engines.processes {
        let message = "an agent's engine is a thread of the agent";
        rules.broken(&at(&path, ["processes"]), message, "leave it out");
    }
    if engines.failure != EngineFailure::Stop {
        let message = "an agent that is gone stops the run";
        rules.broken(&at(&path, ["failure"]), message, "leave it out");
    }
}

fn nodes(plan: &Plan) -> impl Iterator<Item = &str> {
    let system = &plan.system;
    let stations = system.hosts.keys().chain(system.devices.keys());
    stations.chain(&system.switches).map(String::as_str)
}

fn path(more: &[&str]) -> Vec<String> {
    let more = more.iter().map(|part| (*part).to_owned());
    std::iter::once("placement".to_owned())
        .chain(more)
        .collect()
}

const LEAST_PATIENCE: Duration = Duration::from_ms(50);
