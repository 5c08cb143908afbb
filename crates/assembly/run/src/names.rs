//! Host names of the experiment: the name of each host, and the names by which its programs resolve
//! the others.
//!
//! The `/etc/hosts` of every host lists all hosts, devices, nodes of a simulated network, and
//! virtual machines with an address of their own, including those on other agents.
//! `timeloom_guest::Identity` and `ContainerRoot` make the file visible to programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use timeloom_guest::{HostNames, Identity};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::{Host, Plan, Simulated, is_host_name};
use timeloom_sys::plain;

/// UTS and mount namespaces of the hosts, by host name.
pub(crate) type Identities = BTreeMap<String, Arc<Identity>>;

/// Names of an experiment with their addresses.
pub(crate) struct Directory {
    /// Addresses and names, in the order of the lines in `/etc/hosts`.
    entries: Vec<(IpAddr, String)>,
    /// Number of nodes that have names which no resolver accepts.
    unusable: usize,
}

impl Directory {
    /// Collects the names of a whole plan, including the nodes of its simulated network.
    pub(crate) fn of(plan: &Plan, simulated: Option<&Simulated>) -> Self {
        let mut entries = Vec::new();
        for (name, host) in &plan.system.hosts {
            entries.extend(host.address.each().map(|own| (own, name.clone())));
            let machine = host.machine.as_ref().and_then(|machine| machine.address);
            entries.extend(machine.map(|own| (own.address.into(), Host::machine_program(name))));
        }
        for (name, device) in &plan.system.devices {
            entries.extend(device.address.each().map(|own| (own, name.clone())));
        }
        let known: BTreeSet<String> = entries.iter().map(|(_, name)| name.clone()).collect();
        let mut unusable = BTreeSet::new();
        if let Some(Simulated { world, .. }) = simulated {
            for (node, address) in world.addresses() {
                let name = world.name(node);
                if known.contains(name) {
                    continue;
                }
                match is_host_name(name) {
                    true => entries.push((address, name.to_owned())),
                    false => drop(unusable.insert(node.0)),
                }
            }
        }
        Self {
            entries,
            unusable: unusable.len(),
        }
    }

    /// Returns the name of `host` and the text of its `/etc/hosts`, which extends the text `base`.
    pub(crate) fn of_host(&self, host: &str, base: &str) -> HostNames {
        HostNames {
            hostname: host.to_owned(),
            hosts: self.hosts_file(base),
            resolver: RESOLVER.to_owned(),
        }
    }

    /// Adds the experiment's names to the text of an `/etc/hosts`. Entries of `base` stay, except
    /// for names that the experiment uses; those lines become comments.
    fn hosts_file(&self, base: &str) -> String {
        let given: BTreeSet<String> = self.entries.iter().map(|(_, name)| fold(name)).collect();
        let mut text = String::new();
        let mut has_localhost = false;
        for line in base.lines() {
            let mut words = line
                .split('#')
                .next()
                .unwrap_or("")
                .split_ascii_whitespace();
            let address = words.next();
            let (taken, left): (Vec<&str>, Vec<&str>) =
                words.partition(|name| given.contains(&fold(name)));
            has_localhost |= left.contains(&"localhost");
            if taken.is_empty() {
                let _ = writeln!(text, "{line}");
                continue;
            }
            let _ = writeln!(text, "# Replaced by a name below: {line}");
            if let (Some(address), false) = (address, left.is_empty()) {
                let _ = writeln!(text, "{address}\t{}", left.join(" "));
            }
        }
        if !has_localhost {
            text.push_str("127.0.0.1\tlocalhost\n");
        }
        text.push_str("\n# Names of this experiment.\n");
        for (address, name) in &self.entries {
            let _ = writeln!(text, "{address}\t{name}");
        }
        if self.unusable > 0 {
            let _ = writeln!(
                text,
                "# Without a name that can be looked up: {} nodes.",
                self.unusable
            );
        }
        text
    }
}

/// Creates the namespaces of all hosts of a plan. If the kernel refuses, the hosts' programs see
/// the names of this machine, and the caveat gives the reason.
pub(crate) fn identities(plan: &Plan, names: &Directory) -> (Identities, Option<Caveat>) {
    let base = machines_hosts(Path::new("/etc/hosts"));
    let mut all = Identities::new();
    for host in plan.system.hosts.keys() {
        match Identity::new(&names.of_host(host, &base)) {
            Ok(identity) => drop(all.insert(host.clone(), Arc::new(identity))),
            Err(error) => {
                let reason = format!(
                    "Programs see the machine's host name and /etc/hosts instead of those of \
                     their hosts: {error}."
                );
                return (Identities::new(), Some(Caveat::new(reason, NAMESPACES)));
            }
        }
    }
    (all, None)
}

/// Returns the text of an `/etc/hosts`; empty if the file is missing, unreadable or too large.
pub(crate) fn machines_hosts(file: &Path) -> String {
    let bytes = plain::read(file, MOST_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Converts a host name to lower case, because names are compared without regard to case.
fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Remedy if the hosts cannot have names of their own.
const NAMESPACES: Remedy = Remedy::new(
    "Run as root, on a kernel with UTS and mount namespaces (CONFIG_UTS_NS), or name hosts by their \
     addresses.",
);

/// Size limit, in bytes, of an `/etc/hosts` of an image or a machine; longer ones are ignored.
const MOST_BYTES: u64 = 16 << 20;

/// Text of `/etc/resolv.conf`. Without a server, glibc and the resolver of Go query the loopback
/// interface, where nothing listens, and fail at once. musl does not notice the refusal, so its
/// timeout must be shortened.
const RESOLVER: &str = "# No name server: names that /etc/hosts does not have fail at once.\n\
                        options timeout:0 attempts:1\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Directory {
        let entry = |address: &str, name: &str| {
            let address = address.parse().expect("an address");
            (address, name.to_owned())
        };
        Directory {
            entries: vec![
                entry("10.0.0.1", "alice"),
                entry("fd00::1", "alice"),
                entry("10.0.0.2", "bob"),
            ],
            unusable: 0,
        }
    }

    #[test]
    fn entries_of_the_machine_stay_unless_the_experiment_gives_their_names() {
        let base = "127.0.0.1 localhost Bob vm # loopback\n10.1.1.1\tnas\n# alice\n10.9.9.9 alice";
        let text = directory().hosts_file(base);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "# Replaced by a name below: 127.0.0.1 localhost Bob vm # loopback",
                "127.0.0.1\tlocalhost vm",
                "10.1.1.1\tnas",
                "# alice",
                "# Replaced by a name below: 10.9.9.9 alice",
                "",
                "# Names of this experiment.",
                "10.0.0.1\talice",
                "fd00::1\talice",
                "10.0.0.2\tbob",
            ]
        );
    }

    #[test]
    fn localhost_is_always_there() {
        let text = directory().hosts_file("");
        assert!(text.starts_with("127.0.0.1\tlocalhost\n"), "{text}");
    }
}
