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
use std::process::{Command, Stdio};

use timeloom_results::RunDirectory;
use timeloom_scenario::{Plan, User};
use timeloom_sys::command::restrict;
use timeloom_sys::environment;
use timeloom_sys::rights::Rights;

use crate::error::RunError;
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
///
/// # Errors
/// Returns an error if the run directory cannot be written.
pub(crate) fn provide(plan: &Plan, run: &RunDirectory) -> Result<Plan, RunError> {
    let mut plan = plan.clone();
    let write = || run.write_package(NAME, PACKAGE).map_err(io::Error::other);
    let mut package = Package::new(&write);
    let mut give = |run: &[String],
                    (env, inherit): (&mut BTreeMap<String, String>, &[String]),
                    directory: &Path,
                    user: Option<&User>| {
        let path = package.path_for(run, (env, inherit), directory, user);
        let path = path.map_err(|error| {
            RunError::Start(format!(
                "the package `timeloom` for `{}`: {error}",
                run.join(" ")
            ))
        })?;
        env.extend(path.map(|path| (VARIABLE.to_owned(), path)));
        Ok::<_, RunError>(())
    };
    for plant in plan.simulation.plants.values_mut() {
        let user = plant.user.as_ref();
        let env = (&mut plant.env, &*plant.inherit);
        give(&plant.run, env, &plant.directory, user)?;
    }
    let hosts = plan.system.hosts.values_mut();
    let own = hosts.flat_map(|host| &mut host.programs);
    let hostile = plan.attacks.iter_mut().filter(|attack| attack.enabled);
    let hostile = hostile.flat_map(|attack| &mut attack.programs);
    let openflow = plan.system.openflow.as_mut();
    let controller = openflow.and_then(|openflow| openflow.controller.as_mut());
    for program in own.chain(hostile).chain(controller) {
        let user = program.user.as_ref();
        let env = (&mut program.env, &*program.inherit);
        give(&program.run, env, &program.directory, user)?;
    }
    Ok(plan)
}

/// The Python package, provided to one program for as long as this value lives.
pub struct Lent {
    /// Value of `PYTHONPATH` for the program; `None` if the program does not need the package.
    pub path: Option<String>,
    _place: tempfile::TempDir,
}

impl Lent {
    /// Queries the interpreter of a command. If the command needs the package, writes the package
    /// to a directory that the program's user can read.
    ///
    /// # Errors
    /// Returns an error if the package cannot be written.
    pub fn to(
        run: &[String],
        env: Environment<'_>,
        directory: &Path,
        user: Option<&User>,
    ) -> io::Result<Self> {
        let place = tempfile::Builder::new()
            .prefix("timeloom-python-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()?;
        let write = || write(place.path());
        let path = Package::new(&write).path_for(run, env, directory, user)?;
        Ok(Self {
            path,
            _place: place,
        })
    }
}

/// Variables that a command is given, and names of the variables that it inherits from this
/// process.
type Environment<'a> = (&'a BTreeMap<String, String>, &'a [String]);

/// Properties of a command that determine whether it needs the package.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    interpreter: String,
    directory: PathBuf,
    /// Value of `PYTHONPATH` that the command is given.
    path: Option<String>,
    user: Option<String>,
}

/// The package, which all programs of one run share.
struct Package<'a> {
    /// Writes the package and returns the directory for `PYTHONPATH`.
    write: &'a dyn Fn() -> io::Result<PathBuf>,
    written: Option<PathBuf>,
    /// Answers to earlier questions: true if the interpreter lacks the package.
    asked: BTreeMap<Question, bool>,
}

impl<'a> Package<'a> {
    fn new(write: &'a dyn Fn() -> io::Result<PathBuf>) -> Self {
        Self {
            write,
            written: None,
            asked: BTreeMap::new(),
        }
    }

    /// Returns the value of `PYTHONPATH` for a program that needs the package: the previous value,
    /// then the directory of the package. Returns `None` for all other programs.
    ///
    /// # Errors
    /// Returns an error if the run directory cannot be written.
    fn path_for(
        &mut self,
        run: &[String],
        (env, inherit): Environment<'_>,
        directory: &Path,
        user: Option<&User>,
    ) -> io::Result<Option<String>> {
        let Some(python) = run.first().filter(|word| is_python(word)) else {
            return Ok(None);
        };
        let inherited = || std::env::var(VARIABLE).ok();
        let before = env.get(VARIABLE).cloned().or_else(inherited);
        let question = Question {
            interpreter: python.clone(),
            directory: directory.to_owned(),
            path: before.clone(),
            user: user.map(User::to_string),
        };
        let lacks = match self.asked.get(&question) {
            Some(&lacks) => lacks,
            None => {
                let lacks = lacks(python, (env, inherit), directory, user);
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
/// be queried, returns false: its error is reported when the program is started.
///
/// The interpreter runs with the rights of the program's user, because the interpreter may belong
/// to that user and executes code that it finds during the look-up.
fn lacks(
    python: &str,
    (env, inherit): Environment<'_>,
    directory: &Path,
    user: Option<&User>,
) -> bool {
    let Ok(rights) = rights::of(user, None) else {
        return false; // reported at its start
    };
    let account = rights.as_ref().and_then(Rights::account);
    let mut command = Command::new(python);
    command
        .args(["-c", QUESTION])
        .env_clear()
        .envs(environment::given(account, inherit))
        .envs(std::env::var_os(VARIABLE).map(|path| (VARIABLE, path)))
        .envs(env)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(rights) = rights {
        restrict(&mut command, rights);
    }
    let asked = command.status();
    asked.is_ok_and(|status| status.code() == Some(LACKS))
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
        let mut package = Package::new(&write);
        let run = vec!["/usr/bin/python3".to_owned(), "plant.py".to_owned()];
        let theirs = BTreeMap::from([(VARIABLE.to_owned(), "/nowhere".to_owned())]);
        let path = package
            .path_for(&run, (&theirs, &[]), &scratch, None)
            .expect("written");
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
        let again = package
            .path_for(&run, (&theirs, &[]), &scratch, None)
            .expect("asked");
        assert_eq!(again, None);
        let shell = package.path_for(&["sh".into()], (&BTreeMap::new(), &[]), &scratch, None);
        assert_eq!(shell.expect("not asked"), None);
        fs::remove_dir_all(&scratch).expect("it is ours");
    }
}
