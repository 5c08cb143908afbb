//! Checks of OpenFlow switches: each must exist, and must be listed only once.

use std::collections::BTreeSet;

use super::{Rules, at};
use crate::plan::Mode;

pub(super) fn check(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let Some(openflow) = &plan.system.openflow else {
        return;
    };
    let here = at(&[], ["system", "openflow"]);
    if plan.time.skips() && rules.was_read(&["time", "mode"]) {
        let message = "time cannot skip while Open vSwitch processes frames";
        let (path, help): (&[&str], _) = match plan.time.mode {
            Mode::Stepped => (&["time", "stepped", "skip"], "leave `skip` out"),
            _ => (&["time", "mode"], "use `mode = \"virtual\"`"),
        };
        rules.broken(path, message, help);
    }
    let switches = at(&here, ["switches"]);
    if openflow.switches.is_empty() && rules.part_was_read(&here, "switches") {
        let help = "name some of `system.switches`, or leave `openflow` out";
        rules.broken(&switches, "no switch speaks OpenFlow", help);
    }
    if !rules.was_read(&["system", "switches"]) {
        return;
    }
    let known = plan.system.switches.iter().map(String::as_str);
    let mut named = BTreeSet::new();
    for (index, name) in openflow.switches.iter().enumerate() {
        let path = at(&switches, [&index.to_string()]);
        if !plan.system.switches.contains(name) {
            let help = rules.hint(name, "switch", known.clone());
            rules.broken(&path, format!("there is no switch `{name}`"), help);
        } else if !named.insert(name) {
            let message = format!("`{name}` is named twice");
            rules.broken(&path, message, "name each switch once");
        }
    }
}
