//! Inputs of a run besides the scenario: scripts, models and data for its programs and plants. Each
//! is hashed, and copied into the run directory unless it is large or private.
//!
//! A file is found if its name occurs in one of these places: an argument of a program, a text in a
//! plant's `config`, the scenario itself, or another found file in the same directory. (An OpenDSS
//! model names its data, and a script its modules.) Files that a program opens without being named
//! in this way are not found.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use timeloom_results::{InputFile, Manifest, RunDirectory, sha256_file};
use timeloom_scenario::Plan;

use crate::containers::is_inside;
use crate::error::RunError;
use crate::machines;

/// Hashes and keeps the inputs of a plan; the manifest lists them.
///
/// # Errors
/// Returns an error if a copy cannot be written.
pub(crate) fn keep(
    plan: &Plan,
    directory: &RunDirectory,
    manifest: &mut Manifest,
) -> Result<(), RunError> {
    let mut left = MOST_BYTES_IN_ALL;
    for path in find(plan) {
        let Ok(metadata) = fs::metadata(&path) else {
            continue; // gone since it was found
        };
        let sha256 = sha256_file(&path).unwrap_or_else(|error| format!("unreadable: {error}"));
        let bytes = metadata.len();
        // Private files may hold keys or passwords, which must not be in the results.
        let is_private = metadata.permissions().mode() & 0o004 == 0;
        let fits = bytes <= MOST_BYTES.min(left);
        // Files that are not copied are not read into memory.
        let content = (fits && !is_private).then(|| fs::read(&path).ok());
        let kept = match content.flatten() {
            Some(content) => {
                left -= bytes;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Some(directory.keep_input(&name, &content)?)
            }
            None => None,
        };
        manifest.inputs.push(InputFile {
            path: without_detours(&path).display().to_string(),
            sha256,
            bytes,
            kept,
        });
    }
    Ok(())
}

/// Returns the paths of the input files, in an order that depends on the plan alone.
pub(crate) fn find(plan: &Plan) -> Vec<PathBuf> {
    let mut found = Found::default();
    // Files that a container's program names are in the container's image, which is not copied.
    let outside = plan.programs();
    let outside = outside.filter(|(host, program)| !is_inside(plan, host, &program.name));
    for (_, program) in outside {
        found.words(&program.directory, &program.run, &program.env);
    }
    for (_, machine) in machines::programs(plan) {
        found.words(&machine.directory, &machine.run, &machine.env);
    }
    for host in plan.system.hosts.values() {
        let bundle = host.container.as_ref().and_then(|it| it.bundle.as_ref());
        if let Some(bundle) = bundle {
            found.add(bundle.join("config.json"));
        }
    }
    for plant in plan.simulation.plants.values() {
        found.words(&plant.directory, &plant.run, &plant.env);
        let config = serde_json::Value::Object(plant.config.clone());
        found.texts(&plant.directory, &config);
    }
    if let Some(file) = plan
        .network
        .as_ref()
        .and_then(|network| network.topology.as_ref())
    {
        found.add(file.clone());
    }
    let mut next = 0;
    while next < found.files.len() {
        found.follow(next);
        next += 1;
    }
    found.files
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    known: BTreeSet<PathBuf>,
}

impl Found {
    fn add(&mut self, path: PathBuf) {
        let system = ["/proc", "/sys", "/dev"];
        let is_system = system.iter().any(|root| path.starts_with(root));
        if self.files.len() < MOST_FILES && !is_system && path.is_file() {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if self.known.insert(real) {
                self.files.push(path);
            }
        }
    }

    /// Adds the program itself if it is a script, and every file that a word of the command names.
    fn words(
        &mut self,
        directory: &Path,
        run: &[String],
        env: &std::collections::BTreeMap<String, String>,
    ) {
        let script = directory.join(&run[0]);
        if run[0].contains('/') && is_script(&script) {
            self.add(script);
        }
        for (index, word) in run.iter().enumerate().skip(1) {
            self.add(directory.join(word));
            if let Some((_, value)) = word.split_once('=') {
                self.add(directory.join(value));
            }
            if run[index - 1] == "-m" {
                self.module(directory, &run[0], word, env);
            }
        }
    }

    /// Returns the file of a Python module. The interpreter's search path is used, so that the
    /// result is the file that the program will import.
    fn module(
        &mut self,
        directory: &Path,
        interpreter: &str,
        module: &str,
        env: &std::collections::BTreeMap<String, String>,
    ) {
        let own = std::env::var("PYTHONPATH").ok();
        let path = env.get("PYTHONPATH").cloned().or(own).unwrap_or_default();
        let listed = std::env::split_paths(&path).map(|entry| directory.join(entry));
        let mut roots: Vec<PathBuf> = listed.chain([directory.to_owned()]).collect();
        if interpreter.contains('/') {
            roots.extend(site_packages(&directory.join(interpreter)));
        }
        let place = module.replace('.', "/");
        for root in roots {
            let file = root.join(format!("{place}.py"));
            let package = root.join(&place).join("__main__.py");
            if let Some(file) = [file, package].into_iter().find(|file| file.is_file()) {
                return self.add(file);
            }
        }
    }

    fn texts(&mut self, directory: &Path, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) if !text.is_empty() && text.len() < 4096 => {
                self.add(directory.join(text));
            }
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| self.texts(directory, item));
            }
            serde_json::Value::Object(table) => {
                table.values().for_each(|item| self.texts(directory, item));
            }
            _ => {}
        }
    }

    /// Adds the files that a text file names and that are in the same directory or below.
    fn follow(&mut self, index: usize) {
        let path = self.files[index].clone();
        let extension = path
            .extension()
            .and_then(|it| it.to_str())
            .unwrap_or_default();
        let is_short = fs::metadata(&path).is_ok_and(|it| it.len() <= MOST_BYTES_FOLLOWED);
        if !FOLLOWED.contains(&extension) || !is_short {
            return;
        }
        let (Ok(text), Some(folder)) = (fs::read_to_string(&path), path.parent()) else {
            return;
        };
        let word = |c: char| !(c.is_alphanumeric() || "_-./".contains(c));
        for token in text.split(word).filter(|token| !token.is_empty()) {
            let token = token.trim_matches('.');
            if token.starts_with('/') || token.contains("..") {
                continue; // not beside it
            }
            self.add(folder.join(token));
            if extension == "py" {
                self.add(folder.join(format!("{token}.py")));
            }
        }
    }
}

/// Removes `.` from a path and, where no symbolic link precedes it, `..`, so that the path is
/// easier to read. Symbolic links are not resolved, because the interpreter of a virtual
/// environment is one.
pub(crate) fn without_detours(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() && !plain.is_symlink() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the package directories of the interpreter of a virtual environment.
fn site_packages(interpreter: &Path) -> Vec<PathBuf> {
    let root = interpreter.parent().and_then(Path::parent);
    let Some(libraries) = root.map(|root| root.join("lib")) else {
        return Vec::new();
    };
    let mut roots = Vec::new();
    for entry in fs::read_dir(libraries).into_iter().flatten().flatten() {
        let packages = entry.path().join("site-packages");
        let files = fs::read_dir(&packages).into_iter().flatten().flatten();
        let links = files.filter(|it| it.path().extension().is_some_and(|it| it == "pth"));
        for link in links {
            let text = fs::read_to_string(link.path()).unwrap_or_default();
            let folders = text.lines().map(|line| packages.join(line.trim()));
            roots.extend(folders.filter(|folder| folder.is_dir()));
        }
        roots.push(packages);
    }
    roots.sort();
    roots
}

fn is_script(path: &Path) -> bool {
    let mut begin = [0; 2];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"#!"
}

/// Extensions of text files that may name other files in the same directory.
const FOLLOWED: [&str; 4] = ["dss", "py", "sh", "toml"];
const MOST_FILES: usize = 200;
const MOST_BYTES_FOLLOWED: u64 = 1 << 20;
/// Size above which a file is hashed but not copied, in bytes. The same applies to all further
/// files once the copies together reach [`MOST_BYTES_IN_ALL`].
const MOST_BYTES: u64 = 4 << 20;
const MOST_BYTES_IN_ALL: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_in(folder: &Path) -> Plan {
        let text = format!(
            r#"
            schema = "timeloom/1"
            name = "inputs"
            time = {{ duration = "1 s" }}
            [system]
            [system.hosts.a]
            address = "10.0.0.1/24"
            [[system.hosts.a.programs]]
            name = "p"
            directory = "{folder}"
            run = ["/usr/bin/env", "main.py", "--table=data.csv", "absent.txt"]
            [simulation.plants.world]
            directory = "{folder}"
            run = ["/usr/bin/env", "plant.py"]
            step = "10 ms"
            config = {{ model = "grid.dss", nested = [{{ key = "secret.pem" }}] }}
            "#,
            folder = folder.display()
        );
        timeloom_scenario::parse(&text, "x.toml", &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_path_for_people_leads_to_the_same_file() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("far/below")).unwrap();
        fs::create_dir(root.join("near")).unwrap();
        fs::write(root.join("far/file"), "").unwrap();
        let link = root.join("near/link");
        std::os::unix::fs::symlink(root.join("far/below"), &link).unwrap();

        let direct = root.join("near/./../far/below/../file");
        assert_eq!(without_detours(&direct), root.join("far/file"));
        let over_a_link = link.join("../file");
        assert_eq!(without_detours(&over_a_link), over_a_link);
        assert!(over_a_link.is_file());
    }

    #[test]
    fn scripts_models_and_their_files_are_hashed_and_kept_but_no_secrets() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("case");
        fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("main.py", "import helper\n");
        write("helper.py", "pass\n");
        write("data.csv", "1\n");
        write("plant.py", "pass\n");
        write("grid.dss", "New Loadshape.a csvfile=(load.csv)\n");
        write("load.csv", "2\n");
        write("unused.csv", "3\n");
        write("secret.pem", "private\n");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("secret.pem"), private).unwrap();

        let directory = RunDirectory::create(temporary.path().join("run")).unwrap();
        let start = timeloom_time::Instant::ZERO;
        let mut manifest = Manifest::begin("inputs", 0, start, b"");
        keep(&plan_in(&folder), &directory, &mut manifest).unwrap();

        let name = |input: &InputFile| input.path.rsplit('/').next().unwrap().to_owned();
        let mut names: Vec<String> = manifest.inputs.iter().map(name).collect();
        names.sort();
        let expected = [
            "data.csv",
            "grid.dss",
            "helper.py",
            "load.csv",
            "main.py",
            "plant.py",
            "secret.pem",
        ];
        assert_eq!(names, expected);
        for input in &manifest.inputs {
            assert_eq!(input.sha256, sha256_file(Path::new(&input.path)).unwrap());
            let copy = input
                .kept
                .as_ref()
                .map(|kept| fs::read(temporary.path().join("run").join(kept)));
            match copy {
                Some(copy) => assert_eq!(copy.unwrap(), fs::read(&input.path).unwrap()),
                None => assert_eq!(name(input), "secret.pem"),
            }
        }
    }
}
