//! Checks of simulated hosts that serve real programs.

use std::collections::BTreeSet;

use super::{Rules, at};

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
        if !(1..=1024).contains(&host.connections) {
            let message = "a simulated host must have 1 to 1024 connections";
            let help = "leave out `connections` to have 64";
            rules.broken(&at(&path, ["connections"]), message, help);
        }
        if !(2_048..=4 << 20).contains(&host.buffer) {
            let message = "a connection's buffer must have 2048 to 4194304 bytes";
            let help = "leave out `buffer` to have 262144";
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
