//! Servers of a simulated network: started at their nodes as the plan says, and their statistics.

use timeloom_net::server::{Service, SimulatedServer, SimulatedServerOptions};
use timeloom_net::{Node, World};
use timeloom_scenario::{Plan, ServiceKind};

use crate::error::RunError;
use crate::hosts::seed_of;

/// Starts the plan's servers at those of `nodes` that are in `world`.
pub(crate) fn start(
    plan: &Plan,
    nodes: &[(String, Node)],
    world: &mut World,
) -> Result<(), RunError> {
    let Some(network) = &plan.network else {
        return Ok(());
    };
    for (name, node) in nodes {
        let host = &network.hosts[name];
        let services = host.services.iter();
        let services = services.map(|service| {
            let what = match service.kind {
                ServiceKind::Echo => Service::Echo,
                ServiceKind::Discard => Service::Discard,
                ServiceKind::Source => Service::Source(service.bytes),
                ServiceKind::Http => Service::Http(service.bytes.unwrap_or(PAGE_BYTES)),
            };
            (service.port, what)
        });
        let options = SimulatedServerOptions {
            services: services.collect(),
            connections: usize::from(host.connections),
            buffer_bytes: usize::try_from(host.buffer).unwrap_or(usize::MAX),
            seed: seed_of(plan.seed, name),
        };
        if !SimulatedServer::attach(world, *node, &options) {
            return Err(RunError::Plan(format!("`{name}` cannot have a server")));
        }
    }
    Ok(())
}

/// Describes the activity of a server for the final report; `None` if `node` has no server.
pub(crate) fn tell(world: &World, name: &str, node: Node) -> Option<String> {
    let services = SimulatedServer::at(world, node)?.services();
    let told = services.iter().map(|(port, what, stats)| {
        let kind = match what {
            Service::Echo => "echo",
            Service::Discard => "discard",
            Service::Source(_) => "source",
            Service::Http(_) => "http",
        };
        let requests = match what {
            Service::Http(_) => format!(", {} requests", stats.requests),
            _ => String::new(),
        };
        format!(
            "{kind} on port {port}: {} connections{requests}, {} bytes came, {} went",
            stats.connections, stats.received, stats.sent
        )
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("{name}: {}", told.join("; ")))
}

/// Default size of a page that a server returns, in bytes.
const PAGE_BYTES: u64 = 1_000;
