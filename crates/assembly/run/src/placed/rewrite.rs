//! Adaptation of a plan for an agent. The agent stores received files below one of its directories,
//! at the paths that they had on the machine that sent them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use timeloom_scenario::Plan;
use timeloom_sys::account::Account;

use super::message::Entry;
use super::transfer::normal;

/// Directory with the received files, and the list of these files.
pub(super) struct Mirror<'a> {
    pub(super) root: &'a Path,
    pub(super) files: &'a [Entry],
}

impl Mirror<'_> {
    /// Replaces the paths in a plan's programs and plants by those of the received files.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be created.
    pub(super) fn apply(&self, plan: &mut Plan) -> std::io::Result<()> {
        let hosts = plan.system.hosts.values_mut();
        let own = hosts.flat_map(|host| &mut host.programs);
        let hostile = plan.attacks.iter_mut();
        let hostile = hostile.flat_map(|attack| &mut attack.programs);
        for program in own.chain(hostile) {
            self.command(&mut program.run, &mut program.env, &mut program.directory)?;
        }
        for plant in plan.simulation.plants.values_mut() {
            self.command(&mut plant.run, &mut plant.env, &mut plant.directory)?;
            for value in plant.config.values_mut() {
                self.texts(value);
            }
        }
        Ok(())
    }

    fn command(
        &self,
        run: &mut [String],
        env: &mut BTreeMap<String, String>,
        directory: &mut PathBuf,
    ) -> std::io::Result<()> {
        let (first, rest) = run.split_first_mut().expect("a checked command");
        if first.contains('/') {
            // The program's working directory changes below, so a relative path must be resolved
            // here.
            let path = normal(&directory.join(&*first));
            let path = self.path(&path).unwrap_or(path);
            *first = path.to_string_lossy().into_owned();
        }
        for word in rest {
            *word = match word.split_once('=') {
                Some((name, value)) => format!("{name}={}", self.word(value)),
                None => self.word(word),
            };
        }
        for value in env.values_mut() {
            let words = value.split(':').map(|word| self.word(word));
            *value = words.collect::<Vec<_>>().join(":");
        }
        let there = normal(directory);
        *directory = self.root.join(there.strip_prefix("/").unwrap_or(&there));
        fs::create_dir_all(directory)
    }

    fn texts(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = self.word(text),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            serde_json::Value::Object(table) => {
                table.values_mut().for_each(|item| self.texts(item));
            }
            _ => {}
        }
    }

    fn word(&self, word: &str) -> String {
        let path = match word.starts_with('/') {
            true => self.path(&normal(Path::new(word))),
            false => None,
        };
        path.map_or_else(
            || word.to_owned(),
            |path| path.to_string_lossy().into_owned(),
        )
    }

    /// Returns the path at which a received file, or a directory with received files, is stored.
    /// Returns `None` if nothing was received for `path`.
    fn path(&self, path: &Path) -> Option<PathBuf> {
        let name = path.strip_prefix("/").ok()?;
        let is_sent = |entry: &Entry| Path::new(&entry.name).starts_with(name);
        let known = name.components().next().is_some() && self.files.iter().any(is_sent);
        known.then(|| self.root.join(name))
    }
}

/// Describes a user or a program that the plan needs and this machine lacks; `None` if there is
/// none.
pub(super) fn lacking(plan: &Plan) -> Option<String> {
    let programs = plan.programs().map(|(host, program)| {
        let label = format!("program `{}` of host {host}", program.name);
        let user = program.user.as_ref();
        (label, &program.run, &program.directory, &program.env, user)
    });
    let plants = plan.simulation.plants.iter().map(|(name, plant)| {
        let user = plant.user.as_ref();
        let label = format!("plant `{name}`");
        (label, &plant.run, &plant.directory, &plant.env, user)
    });
    programs
        .chain(plants)
        .find_map(|(label, run, directory, env, user)| {
            let user = user.filter(|user| !matches!(Account::of(&user.0), Ok(Some(_))));
            if let Some(user) = user {
                return Some(format!(
                    "this machine has no user `{user}`, which {label} requires"
                ));
            }
            let is_there = match run[0].contains('/') {
                true => is_executable(Path::new(&run[0])),
                false => {
                    let path = env.get("PATH").map(Into::into);
                    let path = path
                        .or_else(|| std::env::var_os("PATH"))
                        .unwrap_or_default();
                    std::env::split_paths(&path)
                        .any(|entry| is_executable(&directory.join(entry).join(&run[0])))
                }
            };
            (!is_there).then(|| {
                format!(
                    "this machine has no executable `{}`, which {label} runs",
                    run[0]
                )
            })
        })
}

fn is_executable(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_name_sent_files_are_rewritten() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = temporary.path();
        let entry = |name: &str| Entry {
            name: name.to_owned(),
            bytes: 0,
            executable: false,
        };
        let files = [entry("srv/u/case/a.py"), entry("srv/u/python/x.py")];
        let mirror = Mirror {
            root,
            files: &files,
        };
        let text = r#"
            schema = "timeloom/1"
            name = "x"
            time = { duration = "1 s" }
            [system.hosts.a]
            address = "10.0.0.1/24"
            [[system.hosts.a.programs]]
            name = "p"
            directory = "/srv/u/case"
            run = ["../.venv/bin/python", "a.py", "--in=/srv/u/case/a.py", "/srv/u/else"]
            env = { PYTHONPATH = "/srv/u/python:../python:/srv/python" }
            "#;
        let mut plan = timeloom_scenario::parse(text, "x.toml", &[]).expect("a plan");
        mirror.apply(&mut plan).expect("directories");
        let root = root.display();
        let program = &plan.system.hosts["a"].programs[0];
        assert_eq!(program.run[0], "/srv/u/.venv/bin/python");
        assert_eq!(program.run[1], "a.py");
        assert_eq!(program.run[2], format!("--in={root}/srv/u/case/a.py"));
        assert_eq!(program.run[3], "/srv/u/else");
        let path = format!("{root}/srv/u/python:../python:/srv/python");
        assert_eq!(program.env["PYTHONPATH"], path);
        assert_eq!(program.directory, Path::new(&format!("{root}/srv/u/case")));
        let lacks = lacking(&plan).expect("no such Python");
        assert!(lacks.contains("/srv/u/.venv/bin/python"), "{lacks}");
        assert!(lacks.contains("`p` of host a"), "{lacks}");
    }
}
