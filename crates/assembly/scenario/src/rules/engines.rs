//! Checks of several engines for a simulated network.

use timeloom_time::Duration;

use super::{Rules, at};
use crate::plan::{EngineFailure, EngineMode, Engines, Mode};
use crate::table::span;

pub(super) fn check(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let Some(engines) = plan.network.as_ref().and_then(|it| it.engines.as_ref()) else {
        return;
    };
    let path = at(&[], ["network", "engines"]);
    let announces = plan.time.mode == Mode::Stepped || plan.time.skips();
    if announces && engines.mode == EngineMode::Free && rules.part_was_read(&path, "mode") {
        let message = "engines of mode `free` cannot run where time skips or is granted";
        let help = match engines.processes {
            false => {
                "the clock moves to the next event of all engines, which is known only if they wait \
                 for one another: write `mode = \"exact\"` under `network.engines`"
            }
            true => {
                "the clock moves to the next event of all engines, which is known only of threads \
                 that wait for one another: write `mode = \"exact\"` under `network.engines`, and \
                 leave out `processes`"
            }
        };
        return rules.misplaced(&path, message, help);
    }
    let was_read = rules.part_was_read(&path, "count") && rules.part_was_read(&path, "parts");
    if was_read && engines.count.is_some() != engines.parts.is_empty() {
        let message = "either `count` or `parts` defines the engines";
        let help = "write `count = 2`, or name the nodes of each: \
                    `parts = { west = [\"r1\"], east = [\"r2\"] }`";
        return rules.misplaced(&path, message, help);
    }
    let count = engines.names().len();
    if was_read && !(1..=usize::from(Engines::MOST)).contains(&count) {
        let message = format!("a network must have 1 to {} engines", Engines::MOST);
        let help = "more engines than processors do not make it faster";
        rules.misplaced(&path, message, help);
    }
    if engines.processes && engines.mode == EngineMode::Exact {
        let message = "engines that are processes cannot wait for one another";
        let help = "a datagram may be lost, and a promise with it: choose `mode = \"free\"`, or \
                    leave out `processes`";
        rules.broken(&at(&path, ["processes"]), message, help);
    }
    let is_spread = plan.placement.is_spread();
    if engines.failure == EngineFailure::Restart && !engines.processes && !is_spread {
        let message = "an engine that is a thread cannot be restarted";
        let help = match engines.mode {
            EngineMode::Free => {
                "a thread that dies may have damaged its process: write `processes = true` beside \
                 it, or another `failure`"
            }
            EngineMode::Exact => {
                "engines that wait for one another are threads, and the promises of a dead one are \
                 lost: write another `failure`, or `mode = \"free\"` and `processes = true`"
            }
        };
        rules.broken(&at(&path, ["failure"]), message, help);
    }
    if engines.encrypt && !engines.processes && !is_spread {
        let message = "between threads there is nothing to encrypt";
        let help = "write `processes = true` beside it, or leave it out";
        rules.broken(&at(&path, ["encrypt"]), message, help);
    }
    for name in engines.parts.keys() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            let message = format!("`{name}` is not a name of an engine");
            let help = "write letters, digits and `_`: it stands in the names of signals";
            rules.broken(&at(&path, ["parts", name]), message, help);
        }
    }
    if !Engines::LATE_SHARES.contains(&engines.late_share) {
        let bounds = span(&Engines::LATE_SHARES);
        let help = format!("a share must lie in {bounds}; 0.1 % is 0.001");
        rules.broken(&at(&path, ["late_share"]), "this is not a share", help);
    }
    if engines.late_after <= Duration::ZERO {
        let message = "`late_after` must be positive";
        let help = format!("leave it out to have {}", Engines::default().late_after);
        rules.broken(&at(&path, ["late_after"]), message, help);
    }
}
