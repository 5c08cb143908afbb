//! Checks that this machine has the directories, executables and scripts. They take place before a
//! run, so that no run fails half-way because of a missing file.

mod script;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use timeloom_sys::account::Account;

use super::{Rules, at};
use crate::words::User;

pub(super) fn check(rules: &mut Rules<'_>) {
    if rules.plan.placement.is_spread() {
        // Each agent checks the files on its own machine.
        return;
    }
    // Programs in containers are checked by the rules of containers.
    let outside = rules.programs().into_iter().filter(|placed| !placed.inside);
    for placed in outside {
        // A disabled attack needs neither its programs nor its user.
        if placed.runs {
            user(rules, &placed.path, placed.program.user.as_ref());
            let program = placed.program;
            command(
                rules,
                &placed.path,
                &program.run,
                &program.directory,
                &program.env,
            );
        }
    }
    if rules.plan.system.openflow.is_some() && !Path::new(SWITCH_DAEMON).exists() {
        let path = at(&[], ["system", "openflow"]);
        let help = "install it: apt-get install openvswitch-switch";
        rules.misplaced(&path, "Open vSwitch is not on this machine", help);
    }
    for (name, plant) in &rules.plan.simulation.plants {
        let path = at(&[], ["simulation", "plants", name]);
        command(rules, &path, &plant.run, &plant.directory, &plant.env);
        user(rules, &path, plant.user.as_ref());
    }
}

/// Checks that a user exists. A missing user would otherwise cause an error during the run.
fn user(rules: &mut Rules<'_>, path: &[String], user: Option<&User>) {
    let Some(user) = user else {
        return;
    };
    let message = match Account::of(&user.0) {
        Ok(Some(_)) => return,
        Ok(None) => format!("this machine has no user `{user}`"),
        Err(error) => format!("cannot look up the user `{user}`: {error}"),
    };
    let help = "name one that it has, such as `nobody`, or write `UID:GID`";
    rules.broken(&at(path, ["user"]), message, help);
}

fn command(
    rules: &mut Rules<'_>,
    path: &[String],
    run: &[String],
    directory: &Path,
    env: &BTreeMap<String, String>,
) {
    if !rules.part_was_read(path, "directory") {
        return;
    }
    if !directory.is_dir() {
        let message = format!("there is no directory `{}`", directory.display());
        rules.broken(
            &at(path, ["directory"]),
            message,
            "it is relative to the scenario file",
        );
        return;
    }
    let Some(name) = run.first().filter(|name| !name.is_empty()) else {
        return;
    };
    let run_path = at(path, ["run"]);
    if let Some((index, file)) = script::missing(run, directory) {
        let message = format!("there is no file `{}`", file.display());
        let help = "it is relative to the program's `directory`";
        rules.broken(&at(&run_path, [&index.to_string()]), message, help);
    }
    if name.contains('/') {
        let file = directory.join(name);
        if !file.is_file() {
            let message = format!("there is no file `{}`", file.display());
            let help = if Path::new(name).is_absolute() {
                "install it, or give the path at which this machine has it"
            } else {
                "it is relative to the program's `directory`"
            };
            rules.broken(&run_path, message, help);
        } else if !is_executable(&file) {
            let message = format!("`{}` is not executable", file.display());
            rules.broken(
                &run_path,
                message,
                format!("run `chmod +x {}`", file.display()),
            );
        }
        return;
    }
    let search = env
        .get("PATH")
        .map(OsString::from)
        .or_else(|| std::env::var_os("PATH"));
    let found = search.is_some_and(|search| {
        std::env::split_paths(&search).any(|entry| is_executable(&directory.join(entry).join(name)))
    });
    if !found {
        let help = if directory.join(name).is_file() {
            format!("to run the file of that name in its directory, write `./{name}`")
        } else {
            "install it, or give the path of the executable".to_owned()
        };
        rules.broken(
            &run_path,
            format!("`{name}` is not found on the PATH"),
            help,
        );
    }
}

/// Path of the program in Debian's package.
const SWITCH_DAEMON: &str = "/usr/sbin/ovs-vswitchd";

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
