//! Checks of programs and simulators: their commands, and the order in which they start.

use std::collections::{BTreeMap, BTreeSet};

use super::{Placed, Rules, at};
use crate::plan::Host;

pub(super) fn check(rules: &mut Rules<'_>) {
    let programs = rules.programs();
    for placed in &programs {
        command(rules, &placed.path, &placed.program.run);
        environment(rules, &placed.path, &placed.program.env);
    }
    for (name, plant) in &rules.plan.simulation.plants {
        let path = at(&[], ["simulation", "plants", name]);
        command(rules, &path, &plant.run);
        environment(rules, &path, &plant.env);
    }
    // If a list of programs could not be read, the names in it would seem unknown.
    if rules.was_read(&["system", "hosts", "*", "programs", "*", "name"])
        && rules.was_read(&["system", "openflow", "controller", "name"])
        && rules.was_read(&["attack", "*", "programs", "*", "name"])
    {
        waits(rules, &programs);
    }
}

fn command(rules: &mut Rules<'_>, path: &[String], run: &[String]) {
    if run.first().is_none_or(String::is_empty) && rules.part_was_read(path, "run") {
        let help =
            "give the executable and its arguments, as in `run = [\"python3\", \"sensor.py\"]`";
        rules.broken(&at(path, ["run"]), "there is nothing to run", help);
    }
}

fn environment(rules: &mut Rules<'_>, path: &[String], env: &BTreeMap<String, String>) {
    for name in env.keys() {
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            let message = format!("`{name}` cannot be the name of an environment variable");
            let help = "it must not contain `=`";
            rules.broken(&at(path, ["env", name]), message, help);
        }
    }
}

fn waits(rules: &mut Rules<'_>, programs: &[Placed<'_>]) {
    let by_name: BTreeMap<&str, usize> = programs
        .iter()
        .enumerate()
        .map(|(index, placed)| (placed.program.name.as_str(), index))
        .collect();
    // A virtual machine is a program that depends on no other, and so is the process of a bundle.
    let hosts = rules.plan.system.hosts.iter();
    let machines = (hosts.clone().filter(|(_, host)| host.machine.is_some()))
        .map(|(name, _)| Host::machine_program(name));
    let bundles = (hosts.filter(|(_, host)| host.has_bundle()))
        .map(|(name, _)| Host::container_program(name));
    let machines: BTreeSet<String> = machines.chain(bundles).collect();
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); programs.len()];
    for (index, placed) in programs.iter().enumerate() {
        for (number, name) in placed.program.after.iter().enumerate() {
            let path = at(&placed.path, ["after", &number.to_string()]);
            if machines.contains(name) {
                continue;
            }
            let Some(&other) = by_name.get(name.as_str()) else {
                let known = by_name.keys().copied();
                let known = known.chain(machines.iter().map(String::as_str));
                let help = rules.hint(name, "other program", known);
                rules.broken(&path, format!("there is no program `{name}`"), help);
                continue;
            };
            let hostile = programs[other].attack;
            if hostile.is_some() && hostile != placed.attack {
                let message = format!("`{name}` belongs to an attack, which may be disabled");
                let help = "wait only for programs of hosts and of the same attack";
                rules.broken(&path, message, help);
                continue;
            }
            edges[index].push(other);
        }
    }
    // If two programs had the same name, they could seem to depend on themselves.
    if by_name.len() == programs.len() {
        cycles(rules, programs, &edges);
    }
}

/// State of a program in the depth-first search.
#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Open,
    Done,
}

/// Reports cycles of dependencies. The search is depth-first without recursion, because a file may
/// have a chain of any length.
fn cycles(rules: &mut Rules<'_>, programs: &[Placed<'_>], edges: &[Vec<usize>]) {
    let mut visits = vec![Visit::New; programs.len()];
    for start in 0..programs.len() {
        let mut trail = vec![(start, 0)];
        while let Some((index, next)) = trail.pop() {
            if next == 0 {
                if visits[index] != Visit::New {
                    continue;
                }
                visits[index] = Visit::Open;
            }
            let Some(&other) = edges[index].get(next) else {
                visits[index] = Visit::Done;
                continue;
            };
            trail.push((index, next + 1));
            match visits[other] {
                Visit::New => trail.push((other, 0)),
                Visit::Done => {}
                Visit::Open => {
                    let around = trail.iter().map(|(index, _)| *index);
                    let names: Vec<&str> = around
                        .skip_while(|index| *index != other)
                        .chain([other])
                        .map(|index| programs[index].program.name.as_str())
                        .collect();
                    let message = format!("these wait for each other: {}", names.join(" → "));
                    let path = at(&programs[index].path, ["after"]);
                    rules.broken(&path, message, "none would ever start: remove one `after`");
                }
            }
        }
    }
}
