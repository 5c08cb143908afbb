//! Checks of the signals that devices and records name. Only a running plant knows its signals.

use std::collections::BTreeMap;

use super::{Rules, at};
use crate::error::Report;
use crate::plan::Plan;
use crate::tree::Node;

/// Checks the signals of a plan that is valid otherwise. `known_signals` has the signals of each
/// plant, by the plant's name.
pub(crate) fn check(
    plan: &Plan,
    root: &Node,
    known_signals: &BTreeMap<String, Vec<String>>,
    report: &mut Report,
) {
    let mut rules = Rules {
        plan,
        root,
        report,
        network: None,
    };
    for (name, plant) in &plan.simulation.plants {
        let Some(signals) = known_signals.get(name) else {
            continue;
        };
        for (index, signal) in plant.record.signals.iter().enumerate() {
            let table = ["simulation", "plants", name, "record", "signals"];
            let path = at(&at(&[], table), [&index.to_string()]);
            known(&mut rules, signal, (name, signals), &path);
        }
        for (device, described) in &plan.system.devices {
            for (index, register) in described.registers.iter().enumerate() {
                if register.signal.plant == *name {
                    let index = index.to_string();
                    let path = ["system", "devices", device, "registers", &index, "signal"];
                    let path = at(&[], path);
                    known(&mut rules, &register.signal.signal, (name, signals), &path);
                }
            }
        }
    }
}

fn known(rules: &mut Rules<'_>, signal: &str, (plant, all): (&str, &[String]), path: &[String]) {
    if all.iter().any(|known| known == signal) {
        return;
    }
    let names = all.iter().map(String::as_str);
    let help = rules.hint(signal, "signal of the plant", names);
    let message = format!("the plant `{plant}` has no signal `{signal}`");
    rules.broken(path, message, help);
}
