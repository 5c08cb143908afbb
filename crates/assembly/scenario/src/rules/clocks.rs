//! Checks of the clocks of hosts and PTP nodes: their oscillators must be plausible.

use timeloom_clock::RateError;
use timeloom_guest::Compute;
use timeloom_time::Duration;

use super::{MachineChecks, Rules, at};

pub(super) fn check(rules: &mut Rules<'_>, machine: MachineChecks) {
    let plan = rules.plan;
    let hosts = plan.system.hosts.iter();
    let hosts = hosts.flat_map(|(name, host)| {
        [
            (["system", "hosts", name, "clock"], &host.clock),
            (["system", "hosts", name, "card"], &host.card),
        ]
    });
    let nodes = plan.network.iter().flat_map(|network| &network.clocks);
    let nodes = nodes.map(|(name, node)| (["network", "clocks", name, "clock"], &node.clock));
    check_cards(rules);
    for (path, clock) in hosts.chain(nodes) {
        let Some(clock) = clock else { continue };
        let path = at(&[], path);
        for (key, value) in [
            ("frequency", clock.frequency),
            ("drift_per_day", clock.drift_per_day),
        ] {
            if value.as_ppt().abs() > WORST.as_ppt() {
                let message = format!("no oscillator has an error of {value}");
                let help = format!("give at most {WORST} in either direction");
                rules.broken(&at(&path, [key]), message, help);
            }
        }
        for (key, value) in [("wander", clock.wander), ("jitter", clock.jitter)] {
            if !(0..=WORST.as_ppt()).contains(&value.as_ppt()) {
                let message = format!("`{key}` is a standard deviation, and {value} cannot be one");
                let help = format!("give 0 ppm … {WORST}");
                rules.broken(&at(&path, [key]), message, help);
            }
        }
        if let Some(cycles) = &clock.cycles {
            let path = at(&path, ["cycles"]);
            if path[0] == "network" || path.contains(&"card".to_owned()) {
                let message = "only the clock of a host of `[system.hosts]` counts cycles";
                let help = "a PTP clock of the model, and that of a network card, counts its \
                            oscillator: remove the table";
                rules.misplaced(&path, message, help);
            } else if rules.was_read(&["system", "hosts", "*", "clock"]) {
                if cycles.cpufreq.is_some() && plan.time.compute == Compute::None {
                    let message = "this machine's frequency differs in each run";
                    let help = "leave out `compute = \"none\"`, or take a `trace` or `governor`";
                    rules.broken(&at(&path, ["cpufreq"]), message, help);
                }
                let options = match machine {
                    MachineChecks::Ignored => cycles.check(),
                    _ => cycles.options().map(|_| ()),
                };
                if let Err(fault) = options {
                    let place = at(&path, [fault.key]);
                    if rules.may_exist(&place.iter().map(String::as_str).collect::<Vec<_>>()) {
                        rules.broken(&place, fault.message, fault.help);
                    } else {
                        rules.misplaced(&path, fault.message, fault.help);
                    }
                }
            }
        }
        if let Some(temperature) = &clock.temperature {
            let path = at(&path, ["temperature"]);
            if temperature.period <= Duration::ZERO && rules.part_was_read(&path, "period") {
                let help = "give the length of a cycle, as in `24 h`";
                rules.broken(&at(&path, ["period"]), "`period` must be above 0", help);
            }
            for (key, value) in [
                ("swing_k", temperature.swing_k),
                ("above_turnover_k", temperature.above_turnover_k),
            ] {
                if value.abs() > MOST_KELVIN {
                    let message = format!("{value} K is too much for an oscillator");
                    let help = format!("give at most {MOST_KELVIN} K");
                    rules.broken(&at(&path, [key]), message, help);
                }
            }
        }
    }
}

/// Checks that the hosts with a card are at a simulated network, whose engine runs here.
fn check_cards(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let engines = plan.network.as_ref().and_then(|it| it.engines.as_ref());
    for (name, host) in &plan.system.hosts {
        if host.card.is_none() {
            continue;
        }
        let path = at(&[], ["system", "hosts", name, "card"]);
        if plan.is_real(name) {
            let message = "a card stamps the frames of a simulated network, and this host is at a \
                           network of the kernel";
            let help = "add a table `[network]`, or remove this one";
            rules.misplaced(&path, message, help);
        } else if host.machine.is_some() {
            let message = "a virtual machine has no network card with a clock";
            let help = "remove the table";
            rules.misplaced(&path, message, help);
        } else if engines.is_some_and(|engines| engines.processes) {
            let message = "engines that are processes do not tell a card when frames pass";
            let help = "leave out `processes` under `network.engines`";
            rules.misplaced(&path, message, help);
        }
    }
}

/// Maximum frequency error. It is far beyond that of any oscillator; `adjtimex` can correct 10 %.
const WORST: RateError = RateError::from_ppb(10_000_000);
const MOST_KELVIN: f64 = 100.0;
