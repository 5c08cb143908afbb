//! Command `timeloom check`: checks whether a scenario can be run, without running it.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Args;
use timeloom_run::exit::{Failure, note, say};
use timeloom_scenario::{MachineChecks, Plan, ScenarioErrors, load_with_places};

/// Check a scenario: every key and rule, and that its programs exist on this machine
///
/// Shows all mistakes at once, each with its position and its fix. Starts no program of the
/// scenario, unless --ask-plants is given.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom check examples/ieee13/ieee13.toml --set attack.dos.enabled=false"
)]
pub(crate) struct Check {
    /// The scenario file
    scenario: PathBuf,
    /// Change a value of the scenario, as `timeloom run --set` does; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Do not check that directories and programs exist on this machine
    #[arg(long)]
    file_only: bool,
    /// Start each plant to query its signals, and check that devices and records name no others.
    /// Plants run with your rights, or those of their `user`: use this option only with a scenario
    /// that you would run
    #[arg(long, conflicts_with = "file_only")]
    ask_plants: bool,
    /// Print JSON: one object with the summary, or one for each mistake
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let machine = if self.file_only {
            MachineChecks::Ignored
        } else {
            MachineChecks::Checked
        };
        let loaded = load_with_places(&self.scenario, &self.sets, machine);
        let checked = loaded.and_then(|(plan, places)| {
            if self.ask_plants {
                places.check_signals(&plan, &signals(&plan))?;
            }
            Ok(plan)
        });
        match checked {
            Ok(plan) => {
                self.say_good(&plan);
                Ok(ExitCode::SUCCESS)
            }
            Err(errors) => {
                self.say_mistakes(&errors);
                Ok(ExitCode::from(MISTAKE))
            }
        }
    }

    fn say_good(&self, plan: &Plan) {
        if !self.json {
            say!("{}: {}", plan.name, plan.summary());
            for line in plan.cut_report() {
                say!("  {line}");
            }
            return;
        }
        let attacks: Vec<&str> = plan
            .attacks
            .iter()
            .filter(|attack| attack.enabled)
            .map(|attack| attack.id.as_str())
            .collect();
        let object = serde_json::json!({
            "ok": true,
            "name": plan.name,
            "seed": plan.seed,
            "duration_ns": plan.time.duration.as_ns(),
            "hosts": plan.system.hosts.keys().collect::<Vec<_>>(),
            "programs": plan.programs().map(|(_, program)| &program.name).collect::<Vec<_>>(),
            "devices": plan.system.devices.keys().collect::<Vec<_>>(),
            "switches": plan.system.switches,
            "plants": plan.simulation.plants.keys().collect::<Vec<_>>(),
            "attacks": attacks,
            "checks": plan.checks.iter().filter(|check| plan.applies(check)).count(),
            "panels": plan.panels.len(),
            "engines": plan.cut_report(),
        });
        say!("{object}");
    }

    fn say_mistakes(&self, errors: &ScenarioErrors) {
        if !self.json {
            let count = errors.count();
            let rendered = errors.render(std::io::stderr().is_terminal());
            timeloom_run::exit::note_in_colours(&format!("{rendered}\n"));
            note!(
                "timeloom: {}{count} mistake{} in the scenario",
                if errors.is_complete() {
                    ""
                } else {
                    "at least "
                },
                if count == 1 { "" } else { "s" }
            );
            return;
        }
        for mistake in errors.mistakes() {
            let object = serde_json::json!({
                "ok": false,
                "origin": mistake.origin,
                "line": mistake.line,
                "column": mistake.column,
                "message": mistake.message,
                "fix": mistake.help,
            });
            say!("{object}");
        }
    }
}

/// Returns the signals of each plant that answers, by plant. If a plant does not answer, its
/// packages may be missing on this machine, so that is not a mistake in the file.
fn signals(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    // Ctrl-C ends this process, and its child with it.
    let never = AtomicBool::new(false);
    for (name, plant) in &plan.simulation.plants {
        match timeloom_run::signals_of(plan, (name, plant), &never) {
            Ok(signals) => {
                all.insert(name.clone(), signals);
            }
            Err(error) => {
                note!("timeloom: the names of signals of `{name}` were not checked: {error}");
            }
        }
    }
    all
}

/// Exit code for a mistake of the user.
const MISTAKE: u8 = 2;
