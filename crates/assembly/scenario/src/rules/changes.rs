//! Checks of the events that change the experiment while it runs.

use timeloom_time::Duration;

use super::{Rules, at, events, schedule};
use crate::plan::{AttackAction, Event, LinkName, Medium, Wire, WireChange};
use crate::table::span;

pub(super) fn check(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    for (index, event) in plan.events.iter().enumerate() {
        let path = at(&[], ["event", &index.to_string()]);
        let mut attacks = plan.attacks.iter().filter(|attack| !attack.enabled);
        // An event of a disabled attack does nothing.
        if !attacks.any(|attack| Some(&attack.id) == event.attack.as_ref()) {
            schedule::within(rules, &at(&path, ["at"]), event.at);
        }
        properties(rules, &event.wire, &path);
        let names = [event.attack.is_some(), event.link.is_some()];
        if names == [true, true] {
            let help = "write two events at the same instant";
            rules.misplaced(&path, "this event changes a link and an attack", help);
        } else if event.attack.is_some() || event.action.is_some() {
            of_attack(rules, event, &path);
        } else {
            of_link(rules, event, &path);
        }
    }
}

fn of_attack(rules: &mut Rules<'_>, event: &Event, path: &[String]) {
    let (Some(id), Some(action)) = (&event.attack, event.action) else {
        let both = ["attack", "action"];
        if both.iter().all(|key| rules.part_was_read(path, key)) {
            let help = "write `attack = \"ID\"` and `action = \"start\"` or `\"stop\"`";
            rules.misplaced(
                path,
                "an event of an attack needs `attack` and `action`",
                help,
            );
        }
        return;
    };
    if !event.wire.is_empty() {
        let help = "write a second event for the link";
        rules.misplaced(path, "properties of a link do not change an attack", help);
    }
    if !rules.was_read(&["attack", "*", "id"]) {
        return;
    }
    let plan = rules.plan;
    let at_id = at(path, ["attack"]);
    let Some(attack) = plan.attacks.iter().find(|attack| attack.id == *id) else {
        let known = plan.attacks.iter().map(|attack| attack.id.as_str());
        let help = rules.hint(id, "attack", known);
        return rules.broken(&at_id, format!("there is no attack `{id}`"), help);
    };
    if let (Some(begins), AttackAction::Start) = (attack.at, action) {
        let message = format!("the attack `{id}` begins by itself, at {begins}");
        rules.broken(&at_id, message, "leave out its `at`, or this event");
    }
}

fn of_link(rules: &mut Rules<'_>, event: &Event, path: &[String]) {
    let Some(name) = &event.link else {
        if rules.part_was_read(path, "link") {
            let help = "name a `link`, and its new `delay`, `loss`, `rate` or `state`";
            rules.misplaced(path, "this event changes nothing", help);
        }
        return;
    };
    let keys = ["rate", "delay", "jitter", "loss", "state"];
    if event.wire.is_empty() && keys.iter().all(|key| rules.part_was_read(path, key)) {
        let help = "write its new `rate`, `delay`, `jitter`, `loss` or `state`";
        rules.misplaced(path, format!("the link {name} does not change"), help);
    }
    if rules.was_read(&["system", "links", "*", "between"]) {
        exists(rules, name, &event.wire, &at(path, ["link"]));
    }
}

/// Checks that the link exists, and can change in this way if it consists of kernel objects. For
/// other links, the construction of the network checks this.
fn exists(rules: &mut Rules<'_>, name: &LinkName, change: &WireChange, path: &[String]) {
    let plan = rules.plan;
    if !rules.report.was_read(path) {
        return;
    }
    let Some(link) = plan.link_of(name) else {
        return events::unknown_link(rules, name, path);
    };
    if plan.medium(link) != Medium::Kernel {
        return;
    }
    if change.is_beyond_the_kernel() {
        let message = "a link of kernel parts can change only its `rate` and its `state`";
        let help = "add the table `[network]`, and the network is simulated";
        rules.broken(path, message, help);
    }
    if change
        .rate
        .is_some_and(|rate| rate.as_bits_per_s() < LEAST_RATE)
    {
        let message = format!("the kernel has no rate below {LEAST_RATE} bit/s");
        rules.broken(
            path,
            message,
            "use `state = \"down\"` for a link that passes nothing",
        );
    }
    let [a, b] = link.between.each_ref();
    let agents = [a, b].map(|node| plan.placement.of_node(node));
    if agents[0] != agents[1] {
        let message = format!(
            "the link {name} leads from the agent {} to the agent {}, and cannot change",
            agents[0], agents[1]
        );
        let help = "change a link within one agent, or add the table `[network]`";
        rules.broken(path, message, help);
    }
}

fn properties(rules: &mut Rules<'_>, change: &WireChange, path: &[String]) {
    if change
        .loss
        .is_some_and(|loss| !Wire::LOSSES.contains(&loss))
    {
        let help = format!(
            "a probability must lie in {}; 1 % is 0.01",
            span(&Wire::LOSSES)
        );
        rules.broken(&at(path, ["loss"]), "this is not a probability", help);
    }
    for (key, value) in [("delay", change.delay), ("jitter", change.jitter)] {
        if value.is_some_and(Duration::is_negative) {
            let help = "a packet cannot arrive before it is sent";
            rules.broken(&at(path, [key]), format!("`{key}` is negative"), help);
        }
    }
}

/// Least rate of the kernel's shaper, which computes in whole bytes per second.
const LEAST_RATE: u64 = 8;
