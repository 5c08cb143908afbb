//! Checks of names: their syntax, and their uniqueness.

use std::collections::BTreeMap;

use timeloom_ptp::Role;

use super::{Rules, at};
use crate::plan::{Host, OpenFlow, SCHEMA};
use crate::simulated::NETWORK;
use crate::words::reads_as_address;

/// Maximum length of a node's name, in bytes. A node's interface on the host is named after it. The
/// kernel permits 15 bytes, four of which are used for a prefix.
const LONGEST_NODE: usize = 11;
/// Maximum length of the name of any other part, after which log files and result columns are
/// named.
const LONGEST: usize = 64;

pub(super) fn check(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    if plan.schema != SCHEMA {
        let message = format!("this version of Timeloom does not read `{}`", plan.schema);
        rules.broken(
            &["schema"],
            message,
            format!("write `schema = \"{SCHEMA}\"`"),
        );
    }
    label(rules, &at(&[], ["name"]), &plan.name, "a scenario's name");
    parts(rules);

    let mut programs = Unique::new("program");
    let keepers: Vec<(Vec<String>, String)> = (plan.system.hosts.iter())
        .filter(|(_, host)| !host.timelines.is_empty())
        .map(|(name, _)| {
            let path = at(&[], ["system", "hosts", name, "timelines"]);
            (path, Host::timeline_program(name))
        })
        .collect();
    let machines: Vec<(Vec<String>, String)> = (plan.system.hosts.iter())
        .filter(|(_, host)| host.machine.is_some())
        .map(|(name, _)| {
            let path = at(&[], ["system", "hosts", name, "machine"]);
            (path, Host::machine_program(name))
        })
        .collect();
    let bundles: Vec<(Vec<String>, String)> = (plan.system.hosts.iter())
        .filter(|(_, host)| host.has_bundle())
        .map(|(name, _)| {
            let path = at(&[], ["system", "hosts", name, "container"]);
            (path, Host::container_program(name))
        })
        .collect();
    for (path, name) in keepers.iter().chain(&machines).chain(&bundles) {
        programs.add(rules, path.clone(), name);
    }
    for placed in rules.programs() {
        let path = at(&placed.path, ["name"]);
        label(rules, &path, &placed.program.name, "a program's name");
        programs.add(rules, path, &placed.program.name);
    }
    let mut attacks = Unique::new("attack");
    for (index, attack) in plan.attacks.iter().enumerate() {
        let path = at(&[], ["attack", &index.to_string(), "id"]);
        label(rules, &path, &attack.id, "an attack's id");
        attacks.add(rules, path, &attack.id);
    }
    let mut checks = Unique::new("check");
    for (index, check) in plan.checks.iter().enumerate() {
        let path = at(&[], ["check", &index.to_string(), "name"]);
        label(rules, &path, &check.name, "a check's name");
        checks.add(rules, path, &check.name);
    }
}

/// Checks that switches, hosts, devices and plants all have different names, because results and
/// messages contain their names without their kind.
fn parts(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let mut unique = Unique::new("part of the system");
    if plan.network.is_some() {
        reserved(rules);
    }
    for (index, name) in plan.system.switches.iter().enumerate() {
        let path = at(&[], ["system", "switches", &index.to_string()]);
        node(rules, &path, name);
        unique.add(rules, path, name);
    }
    let hosts = plan.system.hosts.keys().map(|name| ("hosts", name));
    let devices = plan.system.devices.keys().map(|name| ("devices", name));
    for (table, name) in hosts.chain(devices) {
        let path = at(&[], ["system", table, name]);
        node(rules, &path, name);
        host_name(rules, &path, name);
        unique.add(rules, path, name);
    }
    for (name, clock) in plan.network.iter().flat_map(|network| &network.clocks) {
        // A transparent clock is a switch and has the switch's name.
        if clock.role != Role::Transparent {
            let path = at(&[], ["network", "clocks", name]);
            unique.add(rules, path, name);
        }
    }
    for name in plan.network.iter().flat_map(|network| network.hosts.keys()) {
        let clocks = plan.network.as_ref().map(|network| &network.clocks);
        // Another rule reports the mistakes of a host that is a clock.
        if clocks.is_some_and(|clocks| !clocks.contains_key(name)) {
            unique.add(rules, at(&[], ["network", "hosts", name]), name);
        }
    }
    if plan.system.openflow.is_some() {
        unique.add(rules, at(&[], ["system", "openflow"]), OpenFlow::HOST);
    }
    for name in plan.simulation.plants.keys() {
        let path = at(&[], ["simulation", "plants", name]);
        if name.contains('.') {
            let message = format!("a plant's name has no dot, and `{name}` has");
            rules.broken(
                &path,
                message,
                "the first dot of PLANT.SIGNAL ends the plant's name",
            );
        }
        label(rules, &path, name, "a plant's name");
        unique.add(rules, path, name);
    }
}

/// Checks that no part has the name `net`, which stands for the simulated network in results.
fn reserved(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let tables = [
        (["system", "hosts"], plan.system.hosts.contains_key(NETWORK)),
        (
            ["simulation", "plants"],
            plan.simulation.plants.contains_key(NETWORK),
        ),
    ];
    for ([table, part], _) in tables.into_iter().filter(|(_, taken)| *taken) {
        let message = format!("`{NETWORK}` is the simulated network itself in the results");
        rules.misplaced(
            &at(&[], [table, part, NETWORK]),
            message,
            "choose another name",
        );
    }
}

fn node(rules: &mut Rules<'_>, path: &[String], name: &str) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends_well = !name.starts_with('-') && !name.ends_with('-');
    if name.is_empty() || name.len() > LONGEST_NODE || !name.chars().all(plain) || !ends_well {
        let message = format!("`{name}` cannot be the name of a node");
        let help = format!(
            "use 1 to {LONGEST_NODE} of a-z, 0-9 and, not at the ends, `-`, so that network interfaces can be called after it"
        );
        rules.misplaced(path, message, help);
    }
}

/// Checks a name by which programs are to resolve a host or device.
fn host_name(rules: &mut Rules<'_>, path: &[String], name: &str) {
    let message = if name == "localhost" {
        "`localhost` is every host's name for itself".to_owned()
    } else if reads_as_address(name) {
        format!("programs that look up `{name}` would take it for an IPv4 address")
    } else {
        return;
    };
    let help = "choose another name, one that begins with a letter, as in `plc1`";
    rules.misplaced(path, message, help);
}

fn label(rules: &mut Rules<'_>, path: &[String], name: &str, what: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name.len() > LONGEST || !name.chars().all(plain) || !begins_well {
        let help = format!(
            "use up to {LONGEST} letters, digits, `.`, `_` and `-`, beginning with a letter or digit: files are called after it"
        );
        rules.misplaced(path, format!("`{name}` cannot be {what}"), help);
    }
}

/// Names that are in use, each with the part that uses it.
struct Unique<'a> {
    what: &'static str,
    used: BTreeMap<&'a str, Vec<String>>,
}

impl<'a> Unique<'a> {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            used: BTreeMap::new(),
        }
    }

    fn add(&mut self, rules: &mut Rules<'_>, path: Vec<String>, name: &'a str) {
        if !rules.report.stands(&path) {
            return;
        }
        if let Some(other) = self.used.get(name) {
            let message = format!("a second {} is called `{name}`", self.what);
            rules.misplaced(&path, message, format!("the first is {}", other.join(".")));
        } else {
            self.used.insert(name, path);
        }
    }
}
