//! Tests of the tools that the examples use in addition to Timeloom.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Finding, Need, State};
use crate::commands::search_path::on_path;

pub(super) fn examine() -> Vec<Finding> {
    vec![
        environment(),
        tool(
            "python3",
            "the programs of examples/hello do not run",
            "apt-get install python3",
        ),
        tool(
            "arpspoof",
            "the attack of examples/ieee13 cannot run; without it: `--set attack.dos.enabled=false`",
            "apt-get install dsniff",
        ),
    ]
}

/// Tests the Python environment that the Makefile creates at the root of the source tree.
fn environment() -> Finding {
    let name = "Python environment";
    let missing = |detail: String| {
        Finding::bad(State::Missing, Need::Examples, name, detail).so(
            "plants in OpenDSS and the programs of examples/ieee13 do not run",
            "`make build` in the source tree, or see python/README.md",
        )
    };
    let Some(python) = find_environment() else {
        return missing("there is no .venv here or above".to_owned());
    };
    let shown = python.display();
    let output = Command::new(&python)
        .args(["-c", "import dss, pymodbus, timeloom"])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Finding::good(Need::Examples, name, shown.to_string())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let reason = said.lines().last().unwrap_or("it fails").to_owned();
            missing(format!("{shown}: {reason}"))
        }
        Err(error) => missing(format!("{shown}: {error}")),
    }
}

/// Returns the path of that environment. The user may start the program from any directory, so the
/// search begins in the working directory and in the program's directory (target/…), and goes
/// upwards.
fn find_environment() -> Option<PathBuf> {
    let above = |from: &Path| {
        from.ancestors()
            .map(|directory| directory.join(".venv/bin/python"))
            .find(|python| python.exists())
    };
    let here = std::env::current_dir().ok().and_then(|here| above(&here));
    here.or_else(|| above(&std::env::current_exe().ok()?))
}

fn tool(name: &str, consequence: &str, fix: &str) -> Finding {
    match on_path(name) {
        Some(file) => Finding::good(Need::Examples, name, file.display().to_string()),
        None => Finding::bad(State::Missing, Need::Examples, name, "not on the PATH")
            .so(consequence, fix),
    }
}
