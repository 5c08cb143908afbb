//! Construction of a plan's simulated network, both for the check before a run and for the run
//! itself.

mod fault;
mod naming;
mod parts;

use std::collections::HashMap;

use timeloom_net::topology::{self, Campus};
use timeloom_net::{
    BuildError, Impairment, LinkConfig, NetworkBuilder, Node, PortId, QueueConfig, RedConfig, World,
};
use timeloom_ptp::Role;
use timeloom_sys::plain;
use timeloom_time::{Duration, Instant};

use crate::background::{self, Background};
use crate::plan::{Discipline, Generate, Medium, Network, Plan, Shape, Wire};
use crate::suggest;
use crate::words::Addresses;
pub use fault::Fault;
use fault::{is_station, table_of};
pub use naming::{CUT_SIGNALS, FLOW_SIGNALS, LINK_SIGNALS, NETWORK, NamedCable, NetworkNames};
pub use parts::Parts;

/// Simulated network of a plan, ready to run.
#[derive(Debug)]
pub struct Simulated {
    /// Model of the network.
    pub world: World,
    /// All nodes of the model, by name.
    pub nodes: HashMap<String, Node>,
    /// The two ports of each link of the plan, in the order of the plan; `None` for a link of
    /// kernel objects.
    pub links: Vec<Option<(PortId, PortId)>>,
    /// Nodes at which frames of real switches enter, each with the index of its link.
    pub uplinks: Vec<(usize, Node)>,
    /// Nodes of `network.clocks`, by name. The caller attaches the clocks to them.
    pub clocks: Vec<(String, Node)>,
    /// Nodes of `network.hosts`, by name. The caller attaches the servers to them.
    pub hosts: Vec<(String, Node)>,
    /// Background traffic, in the order of the plan.
    pub traffic: Vec<Background>,
    /// Names of cables and traffic in the results.
    pub names: NetworkNames,
    /// Assignment of the nodes to engines; `None` if there is only one engine.
    pub parts: Option<Parts>,
}

impl Plan {
    /// Builds the simulated network; `None` if the plan has none. If the plan names a topology
    /// file, the file is read.
    ///
    /// # Errors
    /// Returns the fault with its position if the network cannot be built.
    pub fn simulated(&self) -> Option<Result<Simulated, Fault>> {
        let network = self.network.as_ref()?;
        Some(Maker::new(self, network).make())
    }
}

/// Maximum size of a graph file, in bytes. A graph with a million nodes is smaller.
const MOST_GRAPH_BYTES: u64 = 256 << 20;

struct Maker<'a> {
    plan: &'a Plan,
    network: &'a Network,
    builder: NetworkBuilder,
    nodes: HashMap<String, Node>,
}

impl<'a> Maker<'a> {
    fn new(plan: &'a Plan, network: &'a Network) -> Self {
        Self {
            plan,
            network,
            builder: NetworkBuilder::new(plan.seed),
            nodes: HashMap::new(),
        }
    }

    fn make(mut self) -> Result<Simulated, Fault> {
        let system = &self.plan.system;
        let plan = self.plan;
        let modelled = |name: &&String| !plan.is_real(name);
        for name in system.switches.iter().filter(modelled) {
            let node = self.builder.switch(name);
            self.nodes.insert(name.clone(), node);
        }
        for name in &self.network.routers {
            let node = self.builder.router(name);
            self.nodes.insert(name.clone(), node);
        }
        let stations = system.hosts.keys().chain(system.devices.keys());
        for name in stations.filter(modelled) {
            let node = self.builder.host(name);
            self.nodes.insert(name.clone(), node);
        }
        for generate in &self.network.generate {
            self.generate(generate);
        }
        if let Some(file) = &self.network.topology {
            self.topology(file)?;
        }
        let mut names = std::collections::HashSet::new();
        for (name, node) in self.builder.nodes() {
            if !names.insert(name.clone()) {
                // If two nodes had the same name, links would lead to the wrong one.
                return Err(Fault::locate(self.plan, &BuildError::DuplicateName(name)));
            }
            self.nodes.insert(name, node);
        }
        self.clock_hosts()?;
        self.serving_hosts()?;
        let (links, uplinks) = self.links()?;
        for (name, address) in addresses(self.plan) {
            let node = self.nodes[name];
            // A node that has no link is rejected below.
            if let Some(port) = self.builder.port(node, 0) {
                self.give(port, address);
            }
        }
        for (name, clock) in &self.network.clocks {
            if let (Role::Grandmaster | Role::Slave | Role::Monitor, Some(address)) =
                (clock.role, clock.address)
                && let Some(port) = self.builder.port(self.nodes[name], 0)
            {
                self.builder
                    .set_address(port, address.address, address.prefix);
            }
        }
        for (name, host) in &self.network.hosts {
            if let Some(address) = host.address
                && let Some(port) = self.builder.port(self.nodes[name], 0)
            {
                self.give(port, address);
            }
        }
        let built = std::mem::take(&mut self.builder).build();
        let mut world = built.map_err(|error| Fault::locate(self.plan, &error))?;
        self.reach(&world)?;
        let clocks = self.clocks(&world)?;
        let hosts = self.hosts(&world)?;
        let traffic = self.traffic(&mut world)?;
        self.changes(&mut world, &links)?;
        let parts = self.parts(&world, &uplinks)?;
        let names = NetworkNames::new(plan, &world, &links, parts.as_ref());
        Ok(Simulated {
            names,
            parts,
            world,
            nodes: self.nodes,
            links,
            uplinks,
            clocks,
            hosts,
            traffic,
        })
    }

    /// Plans the changes of links.
    fn changes(&self, world: &mut World, links: &Links) -> Result<(), Fault> {
        if self.plan.events.is_empty() {
            return Ok(());
        }
        let names = NetworkNames::new(self.plan, world, links, None);
        for (index, event) in self.plan.events.iter().enumerate() {
            // Events of the kernel's links and of unknown links are checked elsewhere.
            let cable = event.link.as_ref().and_then(|link| names.cable(link));
            for port in cable.iter().flat_map(|cable| [cable.there, cable.back]) {
                let at = Instant::ZERO + event.at;
                let planned = world.plan_change(port, at, event.wire.in_model());
                planned.map_err(|error| Fault::event(index, &error))?;
            }
        }
        Ok(())
    }

    fn give(&mut self, port: PortId, Addresses { v4, v6 }: Addresses) {
        if let Some(own) = v4 {
            self.builder.set_address(port, own.address, own.prefix);
        }
        if let Some(own) = v6 {
            self.builder.set_address(port, own.address, own.prefix);
        }
    }

    /// Adds the hosts that exist only as PTP clocks.
    fn clock_hosts(&mut self) -> Result<(), Fault> {
        for (name, clock) in &self.network.clocks {
            if is_station(self.plan, name) || self.plan.is_real(name) {
                let message = format!("`{name}` is a real host, whose programs provide its clock");
                let help = "let it run ptp4l or `timeloom ptp`, or name a simulated node";
                return Err(Fault::clock(name, message, help));
            }
            if self.nodes.contains_key(name) {
                continue;
            }
            if clock.role == Role::Transparent {
                let known = self.nodes.keys().map(String::as_str);
                let help = suggest::hint(name, "node", known);
                let message = format!("there is no simulated switch `{name}`");
                return Err(Fault::clock(name, message, &help));
            }
            let node = self.builder.host(name);
            self.nodes.insert(name.clone(), node);
        }
        Ok(())
    }

    /// Adds the hosts that exist only as servers.
    fn serving_hosts(&mut self) -> Result<(), Fault> {
        for name in self.network.hosts.keys() {
            if is_station(self.plan, name) || self.plan.is_real(name) {
                let message =
                    format!("`{name}` is a real host, whose programs provide its services");
                let help = "let it run a server, or name a simulated host";
                return Err(Fault::host(name, message, help));
            }
            if !self.nodes.contains_key(name) {
                let node = self.builder.host(name);
                self.nodes.insert(name.clone(), node);
            }
        }
        Ok(())
    }

    /// Returns the nodes of the hosts that serve programs.
    fn hosts(&self, world: &World) -> Result<Vec<(String, Node)>, Fault> {
        let mut all = Vec::new();
        for name in self.network.hosts.keys() {
            let node = self.nodes[name];
            if !world.is_host(node) {
                let message = format!("`{name}` is not a host");
                let help = "name a simulated host, or one that there is not yet";
                return Err(Fault::host(name, message, help));
            }
            all.push((name.clone(), node));
        }
        Ok(all)
    }

    /// Returns the nodes of the PTP clocks. Each must be of the kind that its role requires.
    fn clocks(&self, world: &World) -> Result<Vec<(String, Node)>, Fault> {
        let mut all = Vec::new();
        for (name, clock) in &self.network.clocks {
            let node = self.nodes[name];
            let at_switch = clock.role == Role::Transparent;
            if world.is_switch(node) != at_switch || self.network.routers.contains(name) {
                let message = format!("`{name}` cannot have this clock");
                let help = "transparent clocks are at switches, all others at simulated hosts";
                return Err(Fault::clock(name, message, help));
            }
            all.push((name.clone(), node));
        }
        Ok(all)
    }

    fn generate(&mut self, what: &Generate) {
        let prefix = format!("{}-", what.name);
        let (access, trunk) = (self.link(what.access), self.link(what.trunk));
        let (size, fanout) = (u32::from(what.size), u32::from(what.fanout));
        let network = &mut self.builder;
        match what.shape {
            Shape::Dumbbell => {
                topology::dumbbell(network, &prefix, size, &access, &trunk);
            }
            Shape::Star => {
                topology::star(network, &prefix, size, &access);
            }
            Shape::Tree => {
                topology::tree(network, &prefix, size, fanout, &access);
            }
            Shape::FatTree => {
                topology::fat_tree(network, &prefix, size, &access);
            }
            Shape::Ring => {
                topology::ring(network, &prefix, size, &access, &trunk);
            }
            Shape::Line => {
                topology::line(network, &prefix, size, &access, &trunk);
            }
            Shape::Campus => {
                let shape = Campus {
                    backbone: size,
                    buildings: fanout,
                    lans: fanout,
                    hosts: fanout,
                    trunk,
                    lan: access,
                };
                topology::campus(network, &prefix, &shape);
            }
        }
    }

    fn topology(&mut self, file: &std::path::Path) -> Result<(), Fault> {
        let wrong = |message: String, help: &str| Fault {
            path: vec!["network".to_owned(), "topology".to_owned()],
            is_table: false,
            message,
            help: help.to_owned(),
        };
        let ending = file.extension().and_then(|ending| ending.to_str());
        let read = match ending {
            Some("gml") => topology::gml,
            Some("graphml") => topology::graphml,
            _ => {
                let message = format!("{} is not a graph", file.display());
                return Err(wrong(message, "name a file that ends in .gml or .graphml"));
            }
        };
        let text = plain::read_text(file, MOST_GRAPH_BYTES).map_err(|error| {
            let message = format!("cannot read {}: {error}", file.display());
            wrong(message, "name a file relative to the scenario file")
        })?;
        let link = self.link(Wire::default());
        read(&mut self.builder, &text, &link).map_err(|error| {
            let message = format!("{}:{}: {}", file.display(), error.line, error.message);
            wrong(
                message,
                "correct the file; docs/network.md describes the supported keys",
            )
        })?;
        Ok(())
    }

    fn links(&mut self) -> Result<(Links, Uplinks), Fault> {
        let plan = self.plan;
        let mut ports = Vec::new();
        let mut uplinks = Vec::new();
        for (index, link) in plan.system.links.iter().enumerate() {
            let path = |rest: &[&str]| {
                let index = index.to_string();
                let start = ["system", "links", &index];
                start
                    .iter()
                    .chain(rest)
                    .map(|part| (*part).to_owned())
                    .collect()
            };
            let medium = plan.medium(link);
            if medium == Medium::Kernel {
                ports.push(None);
                continue;
            }
            let mut ends = Vec::new();
            for (side, name) in link.between.iter().enumerate() {
                if let Medium::Uplink { switch, node } = medium
                    && switch == name
                {
                    // The host serves only as an attachment point. No other node can have this
                    // name.
                    let plug = self.builder.host(format!("{switch}.{node}"));
                    uplinks.push((index, plug));
                    ends.push(plug);
                    continue;
                }
                let Some(node) = self.nodes.get(name) else {
                    let known = self.nodes.keys().map(String::as_str);
                    return Err(Fault {
                        path: path(&["between", &side.to_string()]),
                        is_table: false,
                        message: format!("`{name}` is not a switch, router, host or device"),
                        help: suggest::hint(name, "node", known),
                    });
                };
                let is_station =
                    plan.system.hosts.contains_key(name) || plan.system.devices.contains_key(name);
                if is_station && self.builder.port(*node, 0).is_some() {
                    return Err(Fault {
                        path: path(&["between", &side.to_string()]),
                        is_table: false,
                        message: format!("`{name}` has a single interface and is attached already"),
                        help: "put a switch between".to_owned(),
                    });
                }
                ends.push(*node);
            }
            let wire = self.link(link.wire);
            ports.push(Some(self.builder.connect(ends[0], ends[1], wire)));
        }
        Ok((ports, uplinks))
    }

    /// Checks that every host can reach every other host.
    fn reach(&self, world: &World) -> Result<(), Fault> {
        let mut names = addresses(self.plan).map(|(name, _)| name);
        let Some(first) = names.next() else {
            return Ok(());
        };
        for name in names {
            if world
                .check_route(self.nodes[first], self.nodes[name])
                .is_err()
            {
                let kind = table_of(self.plan, name);
                return Err(Fault {
                    path: vec!["system".to_owned(), kind.to_owned(), name.to_owned()],
                    is_table: true,
                    message: format!("there is no route from `{first}` to `{name}`"),
                    help: "link their switches or routers; hosts of different subnets need a router between".to_owned(),
                });
            }
        }
        Ok(())
    }

    fn traffic(&self, world: &mut World) -> Result<Vec<Background>, Fault> {
        if let Some(step) = self.network.fluid_step {
            if !(Duration::from_us(10)..=Duration::from_s(1)).contains(&step) {
                return Err(Fault {
                    path: vec!["network".to_owned(), "fluid_step".to_owned()],
                    is_table: false,
                    message: "a step of fluid must be 10 us to 1 s".to_owned(),
                    help: "leave it out to have it chosen".to_owned(),
                });
            }
            world.set_fluid_step(step);
        }
        let mut all = Vec::new();
        for (index, traffic) in self.network.traffic.iter().enumerate() {
            let fault = |key: &str, message: String, help: String| Fault {
                path: vec![
                    "network".to_owned(),
                    "traffic".to_owned(),
                    index.to_string(),
                    key.to_owned(),
                ],
                is_table: false,
                message,
                help,
            };
            let mut ends = Vec::new();
            for (key, name) in [("from", &traffic.from), ("to", &traffic.to)] {
                let known = self.nodes.keys().map(String::as_str);
                let Some(node) = self.nodes.get(name) else {
                    let help = suggest::hint(name, "node", known);
                    return Err(fault(key, format!("`{name}` is not a node"), help));
                };
                if is_station(self.plan, name) {
                    let message =
                        format!("`{name}` is real, and simulated traffic ends in the model");
                    let help = "name hosts of a generated topology or of the graph";
                    return Err(fault(key, message, help.to_owned()));
                }
                ends.push(*node);
            }
            let added = background::add(traffic, [ends[0], ends[1]], world);
            let added = added.map_err(|(key, message, help)| fault(key, message, help))?;
            all.push(added);
        }
        Ok(all)
    }

    fn link(&self, wire: Wire) -> LinkConfig {
        let wire = wire.or(self.network.link);
        let rate_bps = wire.rate.map_or(1_000_000_000, |rate| rate.as_bits_per_s());
        let packets = wire.queue.map_or(1_000, u32::from);
        let ecn = wire.ecn.unwrap_or(false);
        let queue = match wire.discipline.unwrap_or_default() {
            Discipline::DropTail => QueueConfig::DropTail { packets },
            Discipline::Red => QueueConfig::Red(RedConfig {
                min_threshold: 5.0,
                max_threshold: 15.0,
                max_probability: 0.1,
                weight: 0.002,
                packets,
                ecn,
            }),
            Discipline::Codel => QueueConfig::CoDel {
                target: Duration::from_ms(5),
                interval: Duration::from_ms(100),
                packets,
                ecn,
            },
            Discipline::Priority => QueueConfig::Priority { packets },
            Discipline::Step => {
                // Thresholds in packets, from Alizadeh et al., "Data center TCP", SIGCOMM 2010,
                // section 4.
                let threshold = if rate_bps < 10_000_000_000 { 20 } else { 65 };
                QueueConfig::Red(RedConfig::step(threshold, packets))
            }
        };
        LinkConfig::new(rate_bps, wire.delay.unwrap_or(Duration::ZERO))
            .with_queue(queue)
            .with_mtu(wire.mtu.unwrap_or(u16::MAX))
            .with_impairment(Impairment {
                loss: wire.loss.unwrap_or(0.0),
                jitter: wire.jitter.unwrap_or(Duration::ZERO),
                ..Impairment::default()
            })
    }
}

type Links = Vec<Option<(PortId, PortId)>>;
type Uplinks = Vec<(usize, Node)>;

/// Returns the hosts and devices that join the simulated network, with their addresses.
fn addresses(plan: &Plan) -> impl Iterator<Item = (&str, Addresses)> {
    let hosts = plan.system.hosts.iter();
    let hosts = hosts.map(|(name, host)| (name.as_str(), host.address));
    let devices = plan.system.devices.iter();
    hosts
        .chain(devices.map(|(name, device)| (name.as_str(), device.address)))
        .filter(|(name, _)| !plan.is_real(name))
}
