//! Checks of simulated hosts that serve real programs.

use std::collections::BTreeSet;

use super::{Rules, at};
use crate::plan::ServingHost;

pub(super) fn check(rules: &mut Rules<'_>) {
    let Some(network) = &rules.plan.network else {
        return;
    };
    for (name, host) in &network.hosts {
        let path = at(&[], ["network", "hosts", name]);
        if network.clocks.contains_key(name) {
            let message = format!("`{name}` is a PTP clock already");
            let help = "give the clock a host of its own";
            rules.misplaced(&path, message, help);
        }
        let usual = ServingHost::default();
        if !ServingHost::CONNECTIONS.contains(&host.connections) {
            let (least, most) = ServingHost::CONNECTIONS.into_inner();
            let message = format!("a simulated host must have {least} to {most} connections");
            let help = format!("leave out `connections` to have {}", usual.connections);
            rules.broken(&at(&path, ["connections"]), message, help);
        }
        if !ServingHost::BUFFERS.contains(&host.buffer) {
            let (least, most) = ServingHost::BUFFERS.into_inner();
            let message = format!("a connection's buffer must have {least} to {most} bytes");
            let help = format!("leave out `buffer` to have {}", usual.buffer);
            rules.broken(&at(&path, ["buffer"]), message, help);
        }
        let mut ports = BTreeSet::new();
        for (index, service) in host.services.iter().enumerate() {
            let path = at(&path, ["services", &index.to_string()]);
            let port = service.port;
            if port == 0 {
                let help = "write 1 … 65535, or leave `port` out";
                rules.broken(&at(&path, ["port"]), "port 0 accepts no connections", help);
            } else if !ports.insert(port) {
                let message = format!("something listens on port {port} of `{name}` already");
                rules.misplaced(&path, message, "give each service a `port` of its own");
            }
            if service.bytes.is_some() && !service.kind.has_bytes() {
                let message = "only `http` and `source` have a length";
                rules.broken(&at(&path, ["bytes"]), message, "leave out `bytes`");
            }
        }
    }
}
