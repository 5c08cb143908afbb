//! Installation of the Python package `timeloom` for plants and programs whose Python lacks it.
//!
//! The modules are embedded in this library, so that a run has the modules of its own version
//! wherever Timeloom was installed. If a program needs them, they are written to `python/` in the
//! run directory. A program needs them if its command begins with a Python interpreter, and that
//! interpreter finds no `timeloom` with the program's variables and in its directory. (The
//! extension behind `timeloom.timeline` is compiled for one Python version, and is not embedded.)

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use timeloom_results::RunDirectory;
use timeloom_scenario::{Plan, Plant, Program, User};
use timeloom_sys::environment;
use timeloom_sys::rights::Rights;

use crate::error::RunError;
use crate::inquiry::{Limits, NoAnswer, ask};
use crate::rights;

/// Expands file names of modules to pairs of file name and source text.
macro_rules! modules {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../python/timeloom/", $name)))),*]
    };
}

/// All modules, as pairs of file name and source text.
const PACKAGE: &[(&str, &str)] = modules![
    "__init__.py"
    "bridge.py"
    "bridge_helics.py"
    "bridge_mosaik.py"
    "captures.py"
    "client.py"
    "control.py"
    "exchange.py"
    "federate.py"
    "fmu.py"
    "gym.py"
    "gym_agent.py"
    "helics.py"
    "messages.py"
    "modbus.py"
    "opendss.py"
    "opendss_set_points.py"
    "plant.py"
    "profiles.py"
    "pytest_plugin.py"
    "read_cost.py"
    "remote.py"
    "results.py"
    "run_directory.py"
    "run_files.py"
    "run_tables.py"
    "timeline.py"
    "wire.py"
];

/// Returns the plan with the package added to each plant and program that needs it. The package is
/// written below `run`. Call before any clock runs, because querying an interpreter takes time.
/// Programs in containers are left out: neither the machine's interpreters nor the run directory
/// are in their root directory.
///
/// # Errors
/// Returns an error if the run directory cannot be written, or if an interpreter does not answer in
/// time or before `interrupted` is set.
pub(crate) fn provide(
    plan: &Plan,
    run: &RunDirectory,
    interrupted: &AtomicBool,
) -> Result<Plan, RunError> {
    let mut plan = plan.clone();
    let write = || run.write_package(NAME, PACKAGE).map_err(io::Error::other);
    let mut package = Package::new(&write, interrupted);
    let mut variable = |command: PythonCommand<'_>| {
        let path = package.path_for(command).map_err(|error| {
            RunError::Start(format!(
                "the package `timeloom` for `{}`: {error}",
                command.run.join(" ")
            ))
        })?;
        Ok::<_, RunError>(path.map(|path| (VARIABLE.to_owned(), path)))
    };
    for plant in plan.simulation.plants.values_mut() {
        let added = variable(PythonCommand::of_plant(plant))?;
        plant.env.extend(added);
    }
    let hosts = plan.system.hosts.values_mut();
    let outside = hosts.filter(|host| host.container.is_none());
    let own = outside.flat_map(|host| &mut host.programs);
    let hostile = plan.attacks.iter_mut().filter(|attack| attack.enabled);
    let hostile = hostile.flat_map(|attack| &mut attack.programs);
    let openflow = plan.system.openflow.as_mut();
    let controller = openflow.and_then(|openflow| openflow.controller.as_mut());
    for program in own.chain(hostile).chain(controller) {
        let added = variable(PythonCommand::of_program(program))?;
        program.env.extend(added);
    }
    Ok(plan)
}

/// The Python package, provided to one program for as long as this value lives.
pub struct ProvidedPackage {
    /// Value of `PYTHONPATH` for the program; `None` if the program does not need the package.
    pub path: Option<String>,
    _place: tempfile::TempDir,
}

impl ProvidedPackage {
    /// Queries the interpreter of a command. If the command needs the package, writes the package
    /// to a directory that the program's user can read.
    ///
    /// # Errors
    /// Returns an error if the package cannot be written, or if the interpreter does not answer in
    /// time or before `interrupted` is set.
    pub fn to(command: PythonCommand<'_>, interrupted: &AtomicBool) -> io::Result<Self> {
        let place = tempfile::Builder::new()
            .prefix("timeloom-python-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()?;
        let write = || write(place.path());
        let path = Package::new(&write, interrupted).path_for(command)?;
        Ok(Self {
            path,
            _place: place,
        })
    }
}

/// Command that may need the package, with its environment and rights.
#[derive(Clone, Copy)]
pub struct PythonCommand<'a> {
    /// Program and its arguments.
    pub run: &'a [String],
    /// Variables that the command is given.
    pub env: &'a BTreeMap<String, String>,
    /// Names of the variables that the command inherits from this process, besides the usual ones.
    pub inherit: &'a [String],
    /// Working directory.
    pub directory: &'a Path,
    /// User of the command; `None` for this process's user.
    pub user: Option<&'a User>,
    /// True if the command has fewer capabilities than this process.
    pub is_limited: bool,
}

impl<'a> PythonCommand<'a> {
    /// Returns the command of a plant.
    pub(crate) fn of_plant(plant: &'a Plant) -> Self {
        Self {
            run: &plant.run,
            env: &plant.env,
            inherit: &plant.inherit,
            directory: &plant.directory,
            user: plant.user.as_ref(),
            is_limited: plant.user.is_some() || plant.capabilities.is_some(),
        }
    }

    fn of_program(program: &'a Program) -> Self {
        Self {
            run: &program.run,
            env: &program.env,
            inherit: &program.inherit,
            directory: &program.directory,
            user: program.user.as_ref(),
            is_limited: program.user.is_some() || program.capabilities.is_some(),
        }
    }
}

/// Properties of a command that determine whether it needs the package.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    interpreter: String,
    directory: PathBuf,
    /// Value of `PYTHONPATH` that the command is given.
    path: Option<String>,
    user: Option<String>,
    is_limited: bool,
}

/// The package, which all programs of one run share.
struct Package<'a> {
    /// Writes the package and returns the directory for `PYTHONPATH`.
    write: &'a dyn Fn() -> io::Result<PathBuf>,
    written: Option<PathBuf>,
    /// Answers to earlier questions: true if the interpreter lacks the package.
    asked: BTreeMap<Question, bool>,
    limits: Limits<'a>,
}

impl<'a> Package<'a> {
    fn new(write: &'a dyn Fn() -> io::Result<PathBuf>, interrupted: &'a AtomicBool) -> Self {
        Self {
            write,
            written: None,
            asked: BTreeMap::new(),
            limits: Limits {
                patience: PATIENCE,
                interrupted,
            },
        }
    }

    /// Returns the value of `PYTHONPATH` for a program that needs the package: the previous value,
    /// then the directory of the package. Returns `None` for all other programs.
    ///
    /// # Errors
    /// Returns an error if the run directory cannot be written, or if the interpreter does not
    /// answer within the limits.
    fn path_for(&mut self, command: PythonCommand<'_>) -> io::Result<Option<String>> {
        let Some(python) = command.run.first().filter(|word| is_python(word)) else {
            return Ok(None);
        };
        let inherited = || std::env::var(VARIABLE).ok();
        let before = command.env.get(VARIABLE).cloned().or_else(inherited);
        let question = Question {
            interpreter: python.clone(),
            directory: command.directory.to_owned(),
            path: before.clone(),
            user: command.user.map(User::to_string),
            is_limited: command.is_limited,
        };
        let lacks = match self.asked.get(&question) {
            Some(&lacks) => lacks,
            None => {
                let lacks = lacks(python, command, self.limits)?;
                self.asked.insert(question, lacks);
                lacks
            }
        };
        if !lacks {
            return Ok(None);
        }
        let place = match self.written.take() {
            Some(place) => place,
            None => (self.write)()?,
        };
        let place = &*self.written.insert(place);
        let ours = place.to_string_lossy();
        Ok(Some(match before.filter(|before| !before.is_empty()) {
            Some(before) => format!("{before}:{ours}"),
            None => ours.into_owned(),
        }))
    }
}

/// Returns true for names such as `python3`, `/usr/bin/python3.11` and `.venv/bin/python`.
fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.strip_prefix("python")
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Returns true if the interpreter `python` finds no package `timeloom`. If the interpreter cannot
/// be started, returns false: its error is reported when the program is started.
///
/// The interpreter may belong to the program's user, and executes code that it finds during the
/// look-up. It therefore runs as that user, without the capabilities of the program: here these
/// would apply to the whole machine, not to the program's host.
///
/// # Errors
/// Returns an error if the interpreter does not answer within the limits.
fn lacks(python: &str, asked: PythonCommand<'_>, limits: Limits<'_>) -> io::Result<bool> {
    let none = asked.is_limited.then_some(&[][..]);
    let Ok(rights) = rights::of(asked.user, none) else {
        return Ok(false); // reported at its start
    };
    let account = rights.as_ref().and_then(Rights::account);
    // The start of a process returns after its exec, which a file system of the program's user may
    // delay for ever. The shell is not on such a file system.
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "cd -- \"$0\" && exec \"$@\""])
        .arg(asked.directory)
        .args([python, "-c", QUESTION])
        .env_clear()
        .envs(environment::given(account, asked.inherit))
        .envs(std::env::var_os(VARIABLE).map(|path| (VARIABLE, path)))
        .envs(asked.env)
        .current_dir("/");
    let refused = |kind, why: NoAnswer| {
        let what = format!("asking the interpreter whether it has the package: {why}");
        Err(io::Error::new(kind, what))
    };
    match ask(&mut command, rights, limits) {
        Ok(status) => Ok(status.code() == Some(LACKS)),
        Err(NoAnswer::Start(_)) => Ok(false),
        Err(why @ NoAnswer::Observe(_)) => refused(io::ErrorKind::Other, why),
        Err(why @ NoAnswer::TimedOut(_)) => refused(io::ErrorKind::TimedOut, why),
        Err(why @ NoAnswer::Interrupted) => refused(io::ErrorKind::Interrupted, why),
    }
}

/// Writes the package to a new directory below `place` that belongs to this process.
fn write(place: &Path) -> io::Result<PathBuf> {
    let package = place.join(NAME);
    fs::create_dir(&package)?;
    for (name, text) in PACKAGE {
        fs::write(package.join(name), text)?;
    }
    Ok(place.to_owned())
}

/// Name under which programs import the package.
const NAME: &str = "timeloom";

pub(crate) const VARIABLE: &str = "PYTHONPATH";

/// Script that exits with [`LACKS`] if Python lacks the package. A mere directory of that name is a
/// namespace package without a file of its own, and does not count.
const QUESTION: &str = "\
import importlib.util, sys
found = importlib.util.find_spec('timeloom')
sys.exit(0 if found and found.origin else 3)";

/// Exit status of an interpreter without the package.
const LACKS: i32 = 3;

/// Maximum duration of a query. An interpreter on a slow network file system takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_of_the_package_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../python/timeloom");
        let entries = fs::read_dir(folder).expect("the package");
        let names = entries.map(|entry| entry.expect("its entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let mut modules: Vec<_> = names.filter(|name| name.ends_with(".py")).collect();
        modules.sort();
        let listed: Vec<_> = PACKAGE.iter().map(|(name, _)| *name).collect();
        assert_eq!(modules, listed);
    }

    #[test]
    fn a_python_is_known_by_its_name() {
        for word in [
            "python",
            "python3",
            "/usr/bin/python3.11",
            ".venv/bin/python",
        ] {
            assert!(is_python(word), "{word}");
        }
        for word in ["pythonic", "python3-config", "bash", "./plant.py", ""] {
            assert!(!is_python(word), "{word}");
        }
    }

    /// The package's directory comes after the program's own `PYTHONPATH`, and only if it is
    /// needed.
    #[test]
    fn a_python_gets_the_package_if_it_lacks_it() {
        let scratch = std::env::temp_dir().join(format!("timeloom-python-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("a writable temporary directory");
        let write = || write(&scratch);
        let never = AtomicBool::new(false);
        let mut package = Package::new(&write, &never);
        let run = vec!["/usr/bin/python3".to_owned(), "plant.py".to_owned()];
        let command = |run, env| PythonCommand {
            run,
            env,
            inherit: &[],
            directory: &scratch,
            user: None,
            is_limited: false,
        };
        let theirs = BTreeMap::from([(VARIABLE.to_owned(), "/nowhere".to_owned())]);
        let path = package.path_for(command(&run, &theirs)).expect("written");
        let path = path.expect("the system's Python has no such package");
        assert!(path.starts_with("/nowhere:"), "{path}");
        let imported = Command::new(&run[0])
            .args(["-c", "import timeloom.plant as p; print(p.__file__)"])
            .env(VARIABLE, &path)
            .output()
            .expect("Python runs");
        let text = String::from_utf8_lossy(&imported.stdout);
        assert!(
            text.starts_with(&*scratch.to_string_lossy()),
            "{text}{imported:?}"
        );
        // With this variable, the interpreter has the package.
        let theirs = BTreeMap::from([(VARIABLE.to_owned(), path)]);
        let again = package.path_for(command(&run, &theirs)).expect("asked");
        assert_eq!(again, None);
        let (shell, nothing) = (["sh".to_owned()], BTreeMap::new());
        let shell = package.path_for(command(&shell, &nothing));
        assert_eq!(shell.expect("not asked"), None);
        fs::remove_dir_all(&scratch).expect("it is ours");
    }
}
