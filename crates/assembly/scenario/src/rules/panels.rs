//! Checks of panels: the signals that they draw must be recorded.

use super::{Rules, at, events};
use crate::plan::{Panel, Reference};

pub(super) fn check(rules: &mut Rules<'_>) {
    for (index, panel) in rules.plan.panels.iter().enumerate() {
        let path = at(&[], ["panel", &index.to_string()]);
        if panel.title.trim().is_empty() {
            let help = "describe its content, as in `Voltage at bus 680`";
            rules.broken(&at(&path, ["title"]), "a panel needs a title", help);
        }
        signals(rules, panel, &path);
        references(rules, panel, &path);
    }
}

fn signals(rules: &mut Rules<'_>, panel: &Panel, path: &[String]) {
    let path = at(path, ["signals"]);
    if panel.signals.is_empty() && rules.report.was_read(&path) {
        let help = "name one, as in `signals = [{ name = \"grid.bus.680.v1\" }]`";
        rules.broken(&path, "a panel must draw at least one signal", help);
    }
    for (index, signal) in panel.signals.iter().enumerate() {
        let path = at(&path, [&index.to_string(), "name"]);
        if !rules.report.was_read(&path) {
            continue;
        }
        let earlier = &panel.signals[..index];
        if earlier.iter().any(|other| other.name == signal.name) {
            let message = format!("`{}` is drawn twice in this panel", signal.name);
            rules.broken(&path, message, "remove one of the two");
        } else {
            events::recorded(rules, &signal.name, &path);
        }
    }
}

fn references(rules: &mut Rules<'_>, panel: &Panel, path: &[String]) {
    for (index, reference) in panel.references.iter().enumerate() {
        let path = at(path, ["reference", &index.to_string()]);
        if let Reference::Band { from, to, .. } = reference
            && from >= to
            && rules.report.was_read(&path)
        {
            let message = format!("this range ends at {to}, which is not above {from}");
            rules.broken(&at(&path, ["to"]), message, "exchange `from` and `to`");
        }
    }
}
