//! Faults of a plan's network, with their positions in the tree of the file.

use timeloom_net::{BuildError, ChangeError};

use crate::plan::Plan;

/// Reason why a network cannot be built: a position, a message and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the value that is wrong.
    pub path: Vec<String>,
    /// True if the path leads to a table, false if it leads to a value.
    pub is_table: bool,
    /// Error message.
    pub message: String,
    /// Suggested fix.
    pub help: String,
}

impl Fault {
    /// Creates a fault of an entry of `network.clocks`.
    pub(super) fn clock(name: &str, message: String, help: &str) -> Self {
        Self::entry(["network", "clocks", name], message, help)
    }

    /// Creates a fault of an entry of `network.hosts`.
    pub(super) fn host(name: &str, message: String, help: &str) -> Self {
        Self::entry(["network", "hosts", name], message, help)
    }

    /// Creates a fault of the link that an event changes.
    pub(super) fn event(index: usize, error: &ChangeError) -> Self {
        let help = match error {
            ChangeError::BadValue => "correct the value",
            ChangeError::Red => "choose another `discipline` for this link",
            ChangeError::Fluid => "leave out `model = \"fluid\"` in `network.traffic`",
        };
        Self {
            path: ["event", &index.to_string(), "link"]
                .map(str::to_owned)
                .to_vec(),
            is_table: false,
            message: error.to_string(),
            help: help.to_owned(),
        }
    }

    fn entry(path: [&str; 3], message: String, help: &str) -> Self {
        Self {
            path: path.map(str::to_owned).to_vec(),
            is_table: true,
            message,
            help: help.to_owned(),
        }
    }

    /// Converts a build error to a fault with its position.
    pub(super) fn locate(plan: &Plan, error: &BuildError) -> Self {
        let nodes = error.nodes();
        let help = match error {
            BuildError::AddressConflict(..) => "give each an address of its own",
            BuildError::SplitNetwork(..) => {
                "give each segment a network of its own, or join them by switches only"
            }
            BuildError::MixedPrefixes(..) => {
                "give them addresses of one subnet, or put a router between"
            }
            BuildError::SwitchLoop(..) => "remove a link of the ring, or make one of them a router",
            BuildError::NotConnected(_) => "add a link in `system.links`",
            BuildError::PortUsedTwice(_) => "put a switch between",
            BuildError::DuplicateName(_) => {
                "rename one of them; names of generated topologies and of graphs count, too"
            }
            BuildError::RedWithJitter(..) => "leave out `jitter`, or choose another discipline",
            _ => "see docs/network.md",
        };
        let message = error.to_string();
        let fault = |path: &[&str], is_table| Fault {
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            is_table,
            message: message.clone(),
            help: help.to_owned(),
        };
        if matches!(
            error,
            BuildError::AddressConflict(..)
                | BuildError::MixedPrefixes(..)
                | BuildError::SplitNetwork(..)
        ) && let Some(name) = nodes.iter().rev().find(|name| is_station(plan, name))
        {
            return fault(&["system", table_of(plan, name), name, "address"], false);
        }
        if let [a, b] = nodes[..] {
            let ends = [a.to_owned(), b.to_owned()];
            let links = &plan.system.links;
            if let Some(index) = links.iter().position(|link| link.joins(&ends)) {
                return fault(&["system", "links", &index.to_string()], true);
            }
        }
        if let (BuildError::PortUsedTwice(_), [node]) = (error, &nodes[..]) {
            let mut links = plan.system.links.iter();
            if let Some(index) = links.position(|link| link.between.iter().any(|end| end == node)) {
                return fault(&["system", "links", &index.to_string()], true);
            }
        }
        match nodes.iter().find(|name| is_station(plan, name)) {
            Some(name) => fault(&["system", table_of(plan, name), name], true),
            None => fault(&["network"], true),
        }
    }
}

/// Returns true if `system.hosts` or `system.devices` has this name.
pub(super) fn is_station(plan: &Plan, name: &str) -> bool {
    plan.system.hosts.contains_key(name) || plan.system.devices.contains_key(name)
}

/// Returns the name of the table in `system` that contains the station `name`.
pub(super) fn table_of(plan: &Plan, name: &str) -> &'static str {
    if plan.system.hosts.contains_key(name) {
        "hosts"
    } else {
        "devices"
    }
}
