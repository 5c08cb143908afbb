//! Rules that concern several values. Each file has the rules of one subject. All rules are
//! applied, so that a single pass reports all mistakes.

mod capacity;
mod changes;
mod clocks;
mod containers;
mod devices;
mod engines;
mod events;
mod islands;
mod machine;
mod machines;
mod names;
mod network;
mod openflow;
mod panels;
mod placement;
pub(crate) mod plants;
mod programs;
mod ptp;
mod schedule;
mod served;
mod timelines;

use crate::MachineChecks;
use crate::error::Report;
use crate::plan::{Plan, Program};
use crate::simulated::NetworkNames;
use crate::suggest;
use crate::tree::Node;

/// Checks the plan against all rules. `root` provides positions for messages.
pub(crate) fn check(plan: &Plan, root: &Node, machine: MachineChecks, report: &mut Report) {
    let mut rules = Rules {
        plan,
        root,
        report,
        network: None,
    };
    names::check(&mut rules);
    served::check(&mut rules);
    islands::check(&mut rules);
    engines::check(&mut rules);
    network::check(&mut rules, machine);
    openflow::check(&mut rules);
    clocks::check(&mut rules, machine);
    timelines::check(&mut rules);
    machines::check(&mut rules);
    containers::check(&mut rules);
    ptp::check(&mut rules);
    devices::check(&mut rules);
    schedule::check(&mut rules);
    programs::check(&mut rules);
    events::check(&mut rules);
    changes::check(&mut rules);
    panels::check(&mut rules);
    placement::check(&mut rules);
    if machine == MachineChecks::Checked {
        machine::check(&mut rules);
        machines::files(&mut rules);
        containers::files(&mut rules);
        capacity::check(&mut rules);
    }
}

/// Context in which rules are applied.
struct Rules<'a> {
    plan: &'a Plan,
    root: &'a Node,
    report: &'a mut Report,
    /// Names of the simulated network's cables and flows; `None` until the network has been built.
    network: Option<NetworkNames>,
}

impl<'a> Rules<'a> {
    /// Records that the value at this path breaks a rule.
    fn broken<S: AsRef<str>>(
        &mut self,
        path: &[S],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.report.broken(self.root, path, message, help);
    }

    /// Records that the name or the role of the table at this path breaks a rule.
    fn misplaced(&mut self, path: &[String], message: impl Into<String>, help: impl Into<String>) {
        self.report.misplaced(self.root, path, message, help);
    }

    /// Returns the fix for a word that is not among `known`. The search for the nearest of
    /// thousands of words takes long, so it is omitted once no more mistakes are collected.
    fn hint<'k>(
        &self,
        word: &str,
        noun: &str,
        known: impl IntoIterator<Item = &'k str> + Clone,
    ) -> String {
        match self.report.is_full() {
            true => String::new(),
            false => suggest::hint(word, noun, known),
        }
    }

    /// Returns true if the file has, or may have, a value at this path.
    fn may_exist(&self, path: &[&str]) -> bool {
        self.report.may_exist(self.root, path)
    }

    /// Returns true if all values at this path could be read. `*` in the path matches any key.
    fn was_read(&self, path: &[&str]) -> bool {
        self.report.was_read(path)
    }

    /// Returns true if the value `part` below this path could be read.
    fn part_was_read(&self, path: &[String], part: &str) -> bool {
        self.report.was_read(&at(path, [part]))
    }

    /// Returns every program with its position in the file, including the programs of disabled
    /// attacks.
    fn programs(&self) -> Vec<Placed<'a>> {
        let plan = self.plan;
        let mut all = Vec::new();
        for (host, described) in &plan.system.hosts {
            for (index, program) in described.programs.iter().enumerate() {
                let index = index.to_string();
                let path = at(&[], ["system", "hosts", host, "programs", &index]);
                all.push(Placed {
                    program,
                    path,
                    attack: None,
                    runs: true,
                    inside: described.container.is_some(),
                });
            }
        }
        let controller = plan.system.openflow.as_ref();
        if let Some(program) = controller.and_then(|openflow| openflow.controller.as_ref()) {
            all.push(Placed {
                program,
                path: at(&[], ["system", "openflow", "controller"]),
                attack: None,
                runs: true,
                inside: false,
            });
        }
        for (number, attack) in plan.attacks.iter().enumerate() {
            for (index, program) in attack.programs.iter().enumerate() {
                let path = at(
                    &[],
                    [
                        "attack",
                        &number.to_string(),
                        "programs",
                        &index.to_string(),
                    ],
                );
                all.push(Placed {
                    program,
                    path,
                    attack: Some(number),
                    runs: attack.enabled,
                    inside: false,
                });
            }
        }
        all
    }
}

/// Program with its position in the file.
struct Placed<'a> {
    program: &'a Program,
    path: Vec<String>,
    /// Index of the attack to which the program belongs; `None` for other programs.
    attack: Option<usize>,
    /// True if the program will be started.
    runs: bool,
    /// True if the program runs in a container.
    inside: bool,
}

/// Returns `path`, extended by the components `more`.
fn at<const N: usize>(path: &[String], more: [&str; N]) -> Vec<String> {
    path.iter()
        .cloned()
        .chain(more.into_iter().map(str::to_owned))
        .collect()
}
