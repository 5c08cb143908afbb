//! Checks of attacks, captures, records and checks: the parts that they name must exist.

use std::collections::BTreeSet;

use timeloom_ptp::Role;

use super::{Rules, at};
use crate::plan::{
    CARD_SIGNALS, CLOCK_SIGNALS, Check, Condition, Host, LinkName, PTP_SIGNALS, TIMELINE_SIGNALS,
};
use crate::simulated::NETWORK;
use crate::suggest;
use crate::words::SignalName;

pub(super) fn check(rules: &mut Rules<'_>) {
    attacks(rules);
    captures(rules);
    records(rules);
    for (index, check) in rules.plan.checks.iter().enumerate() {
        statement(rules, check, &at(&[], ["check", &index.to_string()]));
    }
}

fn attacks(rules: &mut Rules<'_>) {
    let hosts = &rules.plan.system.hosts;
    for (index, attack) in rules.plan.attacks.iter().enumerate() {
        let path = at(&[], ["attack", &index.to_string()]);
        if !rules.may_exist(&["system", "hosts", &attack.host]) {
            let help = rules.hint(&attack.host, "host", hosts.keys().map(String::as_str));
            rules.broken(
                &at(&path, ["host"]),
                format!("there is no host `{}`", attack.host),
                help,
            );
        }
        for (number, target) in attack.target.iter().enumerate() {
            let path = at(&path, ["target", &number.to_string()]);
            targeted(rules, target, &path);
        }
        for (number, technique) in attack.technique.iter().enumerate() {
            if !is_technique(technique) {
                let message = format!("`{technique}` is not a technique of ATT&CK for ICS");
                let help = "write `T` and four digits, as in `T0814`";
                rules.broken(
                    &at(&path, ["technique", &number.to_string()]),
                    message,
                    help,
                );
            }
        }
    }
}

/// Checks that the plan contains a target of an attack.
fn targeted(rules: &mut Rules<'_>, target: &str, path: &[String]) {
    let (system, network) = (&rules.plan.system, rules.plan.network.as_ref());
    let known = (system.hosts.keys().chain(system.devices.keys()))
        .chain(&system.switches)
        .chain(rules.plan.simulation.plants.keys())
        .chain(network.into_iter().flat_map(|it| &it.routers))
        .chain(network.into_iter().flat_map(|it| it.hosts.keys()))
        .chain(network.into_iter().flat_map(|it| it.clocks.keys()));
    let known: Vec<&str> = known.map(String::as_str).collect();
    let readable = rules.was_read(&["system"]) && rules.was_read(&["simulation"]);
    // Names of generated nodes are known only after the network has been built.
    let is_generated = network.is_some_and(|it| !it.generate.is_empty() || it.topology.is_some());
    let built = rules.network.as_ref();
    let is_node = || {
        let mut cables = built.into_iter().flat_map(|names| &names.cables);
        cables.any(|cable| cable.ends.iter().any(|end| end == target))
    };
    let unsure = is_generated && (built.is_none() || is_node());
    if !readable || unsure || known.contains(&target) {
        return;
    }
    let help = rules.hint(target, "part of the system", known);
    rules.broken(path, format!("there is no `{target}` to attack"), help);
}

/// Returns true for the identifier of a technique (`T0814`) or sub-technique (`T1059.004`).
fn is_technique(text: &str) -> bool {
    let digits =
        |part: &str, count| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    let Some(number) = text.strip_prefix('T') else {
        return false;
    };
    match number.split_once('.') {
        None => digits(number, 4),
        Some((whole, part)) => digits(whole, 4) && digits(part, 3),
    }
}

fn captures(rules: &mut Rules<'_>) {
    if !rules.was_read(&["system", "links", "*", "between"]) {
        return;
    }
    let plan = rules.plan;
    for (index, capture) in plan.captures.iter().enumerate() {
        let path = at(&[], ["capture", &index.to_string(), "link"]);
        if !rules.report.was_read(&path) {
            continue;
        }
        let Some(link) = plan.link_of(&capture.link) else {
            unknown_link(rules, &capture.link, &path);
            continue;
        };
        if plan.captures[..index]
            .iter()
            .any(|earlier| earlier.link.is(link))
        {
            let [from, to] = &link.between;
            let message = format!("the link between `{from}` and `{to}` is captured already");
            rules.broken(&path, message, "remove one of the two");
        }
    }
}

/// Reports a name that no link of the plan has, unless a link has it that is generated or read from
/// a file.
pub(super) fn unknown_link(rules: &mut Rules<'_>, link: &LinkName, path: &[String]) {
    let help = match link {
        _ if rules.plan.network.is_some() => return generated_cable(rules, link, path),
        LinkName::Ends(_) => "name the two ends of one of `system.links`",
        LinkName::Named(_) => "links of kernel parts have no names: give the two ends",
    };
    rules.broken(path, unknown(link), help);
}

fn unknown(link: &LinkName) -> String {
    match link {
        LinkName::Ends([from, to]) => format!("there is no link between `{from}` and `{to}`"),
        LinkName::Named(name) => format!("there is no link called `{name}`"),
    }
}

/// Checks that a cable exists in a network that is generated or read from a file.
fn generated_cable(rules: &mut Rules<'_>, link: &LinkName, path: &[String]) {
    let Some(names) = &rules.network else {
        return; // faults of the network are reported elsewhere
    };
    if names.cable(link).is_some() {
        return;
    }
    let [from, to] = match link {
        LinkName::Ends(ends) => ends,
        LinkName::Named(name) => {
            let known = names.cables.iter().map(|cable| cable.name.as_str());
            let help = rules.hint(name, "link", known);
            return rules.broken(path, unknown(link), help);
        }
    };
    let at_from = names
        .cables
        .iter()
        .filter(|cable| cable.ends.contains(from));
    let known: Vec<String> = at_from
        .filter_map(|cable| cable.ends.iter().find(|end| *end != from).cloned())
        .collect();
    let help = match known.is_empty() {
        true => {
            let nodes = names.cables.iter().flat_map(|cable| &cable.ends);
            rules.hint(from, "node", nodes.map(String::as_str))
        }
        false => {
            let neighbour = format!("neighbour of `{from}`");
            rules.hint(to, &neighbour, known.iter().map(String::as_str))
        }
    };
    rules.broken(path, unknown(link), help);
}

fn records(rules: &mut Rules<'_>) {
    for (name, plant) in &rules.plan.simulation.plants {
        let signals = &plant.record.signals;
        let mut before = BTreeSet::new();
        for (index, signal) in signals.iter().enumerate() {
            let path = at(
                &[],
                [
                    "simulation",
                    "plants",
                    name,
                    "record",
                    "signals",
                    &index.to_string(),
                ],
            );
            if format!("plant.{signal}").parse::<SignalName>().is_err() {
                let help = "do not use blanks, quotes, commas or parentheses";
                rules.broken(
                    &path,
                    format!("`{signal}` cannot be the name of a signal"),
                    help,
                );
            } else if !before.insert(signal) {
                rules.broken(&path, format!("`{signal}` is recorded twice"), "remove one");
            }
        }
    }
}

/// Checks that a signal of a host's network card is recorded.
fn of_card(rules: &mut Rules<'_>, (name, host): (&str, &Host), signal: &str, path: &[String]) {
    if !CARD_SIGNALS.contains(&signal) {
        let help = rules.hint(signal, "signal of a network card", CARD_SIGNALS);
        rules.broken(
            path,
            format!("`{signal}` of `{name}` is not recorded"),
            help,
        );
    } else if host.card.is_none() && !rules.may_exist(&["system", "hosts", name, "card"]) {
        let message = format!("the network card of `{name}` has no clock");
        let help = format!("add a table `[system.hosts.{name}.card]`; it may be empty");
        rules.broken(path, message, help);
    }
}

/// Checks that the signal named at `path` is recorded.
pub(super) fn recorded(rules: &mut Rules<'_>, name: &SignalName, path: &[String]) {
    let plants = &rules.plan.simulation.plants;
    let SignalName { plant, signal } = name;
    if plant == NETWORK && rules.plan.network.is_some() {
        let fault = rules.network.as_ref().and_then(|names| names.fault(signal));
        if let Some((message, help)) = fault {
            rules.broken(path, message, help);
        }
        return;
    }
    if let Some(host) = rules.plan.system.hosts.get(plant) {
        // Signals of a host are those of its timelines and of its clock.
        if let Some(rest) = signal.strip_prefix("timeline.") {
            return of_timeline(rules, (plant, host), rest, path);
        }
        if signal.starts_with("card.") {
            return of_card(rules, (plant, host), signal, path);
        }
        let clock = host.clock.is_some() || rules.may_exist(&["system", "hosts", plant, "clock"]);
        if !CLOCK_SIGNALS.contains(&signal.as_str()) {
            let help = rules.hint(signal, "signal of a host", CLOCK_SIGNALS);
            rules.broken(
                path,
                format!("`{signal}` of `{plant}` is not recorded"),
                help,
            );
        } else if !clock {
            let message = format!("the clock of `{plant}` is not recorded");
            let help = format!("add a table `[system.hosts.{plant}.clock]`; it may be empty");
            rules.broken(path, message, help);
        }
        return;
    }
    let clocks = rules.plan.network.as_ref().map(|network| &network.clocks);
    if let Some(clock) = clocks.and_then(|clocks| clocks.get(plant)) {
        let measures = matches!(clock.role, Role::Slave | Role::Monitor);
        if !measures || !PTP_SIGNALS.contains(&signal.as_str()) {
            let help = "of slaves and monitors are recorded `ptp.offset`, `clock.offset` and `ptp.violations`";
            let message = format!("`{signal}` of `{plant}` is not recorded");
            rules.broken(path, message, help);
        }
        return;
    }
    match plants.get(plant) {
        None if rules.may_exist(&["simulation", "plants", plant]) => {}
        None => {
            let help = rules.hint(plant, "plant", plants.keys().map(String::as_str));
            rules.broken(path, format!("there is no plant `{plant}`"), help);
        }
        Some(found)
            if !found.record.signals.contains(signal)
                && rules.was_read(&["simulation", "plants", plant, "record", "signals"]) =>
        {
            let recorded = found.record.signals.iter().map(String::as_str);
            let help = match suggest::nearest(signal, recorded) {
                Some(near) => format!("did you mean `{plant}.{near}`?"),
                None => format!("add it to `record.signals` of the plant `{plant}`"),
            };
            let message = format!("`{signal}` of `{plant}` is not recorded");
            rules.broken(path, message, help);
        }
        Some(_) => {}
    }
}

/// Checks that `rest`, of the form TIMELINE.NAME, is a recorded signal of the host.
fn of_timeline(rules: &mut Rules<'_>, (name, host): (&str, &Host), rest: &str, path: &[String]) {
    let (timeline, signal) = rest.rsplit_once('.').unwrap_or((rest, ""));
    let Some(spec) = host.timelines.get(timeline) else {
        if !rules.may_exist(&["system", "hosts", name, "timelines", timeline]) {
            let known = host.timelines.keys().map(String::as_str);
            let help = rules.hint(timeline, "timeline of the host", known);
            rules.broken(
                path,
                format!("`{name}` keeps no timeline `{timeline}`"),
                help,
            );
        }
        return;
    };
    if !TIMELINE_SIGNALS.contains(&signal) {
        let help = rules.hint(signal, "signal of a timeline", TIMELINE_SIGNALS);
        let message = format!("`{signal}` of the timeline `{timeline}` is not recorded");
        rules.broken(path, message, help);
    } else if signal == "violated" && spec.accuracy.is_none() {
        let message = format!("the timeline `{timeline}` of `{name}` requires nothing");
        let help = format!("add `accuracy` to `[system.hosts.{name}.timelines.{timeline}]`");
        rules.broken(path, message, help);
    }
}

fn statement(rules: &mut Rules<'_>, check: &Check, path: &[String]) {
    let plan = rules.plan;
    if rules.part_was_read(path, "assert") {
        recorded(rules, &check.assert.signal, &at(path, ["assert"]));
    }
    if let Some(Condition::With(id) | Condition::Without(id)) = &check.when
        && rules.was_read(&["attack", "*", "id"])
        && !plan.attacks.iter().any(|attack| attack.id == *id)
    {
        let help = rules.hint(
            id,
            "attack",
            plan.attacks.iter().map(|attack| attack.id.as_str()),
        );
        rules.broken(
            &at(path, ["when"]),
            format!("there is no attack `{id}`"),
            help,
        );
    }
}
