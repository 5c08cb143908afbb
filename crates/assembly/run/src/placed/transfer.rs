//! Transfer of files. Selects the files that an agent needs for its share of a plan, and stores
//! received files below one directory.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use timeloom_scenario::Plan;

use super::message::Entry;
use crate::channel::{Receiver, Sender};
use crate::inputs;

/// File to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) path: PathBuf,
    pub(super) entry: Entry,
}

/// Error that prevents files from being sent to an agent.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A file cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Unreadable(PathBuf, io::Error),
    /// A file is not readable for all users, and the channel to an agent is not encrypted.
    #[error(
        "cannot send {path} to an agent: the file is not readable for all users, and the \
         connection is not encrypted (put it on the agent under an absolute path outside of the \
         scenario's directory, or `chmod a+r` it)",
        path = .0.display()
    )]
    Private(PathBuf),
    /// A path is not UTF-8, and messages are text.
    #[error("the path {} is not UTF-8", .0.display())]
    NoText(PathBuf),
    /// There are too many files.
    #[error("an agent would get more than {MOST_FILES} files")]
    TooMany,
    /// The files are too large.
    #[error("the files for an agent have more than {} MiB in all", MOST_BYTES_IN_ALL >> 20)]
    TooLong,
}

/// Returns the files that an agent needs: those named by the programs and plants of a plan, the
/// Python modules on their `PYTHONPATH`, and those in `more`. A directory stands for its whole
/// content.
///
/// # Errors
/// Returns an error if a file may not be sent or cannot be read.
pub(super) fn pack(plan: &Plan, more: &[PathBuf]) -> Result<Vec<Sent>, TransferError> {
    let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
    for path in inputs::find(plan) {
        paths.insert(normal(&path));
    }
    let programs = plan.programs().map(|(_, program)| program);
    let programs = programs.map(|it| (&it.run, &it.directory, &it.env));
    let plants = plan.simulation.plants.values();
    let plants = plants.map(|it| (&it.run, &it.directory, &it.env));
    for (run, directory, env) in programs.chain(plants) {
        let executable = normal(&directory.join(&run[0]));
        if run[0].contains('/') && executable.is_file() && !is_installed(&executable) {
            paths.insert(executable);
        }
        let modules = env.get("PYTHONPATH").map_or("", String::as_str);
        for place in modules.split(':').filter(|place| !place.is_empty()) {
            let place = normal(&directory.join(place));
            if place.is_dir() && !is_installed(&place) {
                gather(&place, &mut paths, &|path| {
                    path.extension().is_some_and(|end| end == "py")
                })?;
            }
        }
    }
    for path in more {
        gather(&normal(path), &mut paths, &|_| true)?;
    }
    let mut left = MOST_BYTES_IN_ALL;
    let mut files = Vec::new();
    for path in paths {
        let sent = entry_of(path)?;
        left = left
            .checked_sub(sent.entry.bytes)
            .ok_or(TransferError::TooLong)?;
        files.push(sent);
    }
    match files.len() <= MOST_FILES {
        true => Ok(files),
        false => Err(TransferError::TooMany),
    }
}

fn entry_of(path: PathBuf) -> Result<Sent, TransferError> {
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) => return Err(TransferError::Unreadable(path, error)),
    };
    let mode = metadata.permissions().mode();
    if mode & 0o004 == 0 {
        return Err(TransferError::Private(path));
    }
    let name = path.strip_prefix("/").unwrap_or(&path).to_str();
    let name = name.ok_or_else(|| TransferError::NoText(path.clone()))?;
    let entry = Entry {
        name: name.to_owned(),
        bytes: metadata.len(),
        executable: mode & 0o100 != 0,
    };
    Ok(Sent { path, entry })
}

/// Adds the wanted files of a directory and of its subdirectories. Symbolic links are not followed.
fn gather(
    path: &Path,
    paths: &mut BTreeSet<PathBuf>,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<(), TransferError> {
    let failed = |error| TransferError::Unreadable(path.to_owned(), error);
    let kind = fs::symlink_metadata(path).map_err(failed)?.file_type();
    if kind.is_file() && wanted(path) {
        paths.insert(path.to_owned());
    } else if kind.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            if paths.len() > MOST_FILES {
                return Err(TransferError::TooMany);
            }
            gather(&entry.map_err(failed)?.path(), paths, wanted)?;
        }
    }
    Ok(())
}

/// Returns true for paths whose files belong to this machine: the system's directories, and
/// Python's virtual environments, which are useless on another machine.
pub(super) fn is_installed(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let places = [
        "/usr", "/bin", "/sbin", "/lib", "/opt", "/proc", "/dev", "/nix",
    ];
    let is_of_system = places.iter().any(|place| real.starts_with(place));
    let environment = path.parent().and_then(Path::parent);
    is_of_system || environment.is_some_and(|root| root.join("pyvenv.cfg").is_file())
}

/// Removes `.` and `..` from a path, without access to the file system.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Sends the content of each file, in order.
pub(super) fn send(sender: &mut Sender, files: &[Sent]) -> io::Result<()> {
    for sent in files {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", sent.path.display()))
        };
        let mut file = File::open(&sent.path).map_err(named)?;
        sender.content(&mut file, sent.entry.bytes).map_err(named)?;
    }
    Ok(())
}

/// Receives the content of `entries` into the files that `create` returns. The conversation ends
/// before any file is created if there are too many entries, or if they announce more than
/// `most_bytes` in all.
pub(super) fn receive<S: Read>(
    receiver: &mut Receiver<S>,
    entries: &[Entry],
    most_bytes: u64,
    mut create: impl FnMut(&Entry) -> io::Result<File>,
) -> io::Result<()> {
    let all = entries
        .iter()
        .try_fold(0_u64, |sum, entry| sum.checked_add(entry.bytes));
    let in_names: usize = entries.iter().map(|entry| entry.name.len()).sum();
    let too_many = entries.len() > MOST_FILES || in_names > MOST_BYTES_OF_NAMES;
    if too_many || all.is_none_or(|all| all > most_bytes) {
        return Err(bad(format!(
            "the {} announced files exceed the limit ({} files, {} MiB)",
            entries.len(),
            MOST_FILES,
            most_bytes >> 20
        )));
    }
    for entry in entries {
        let mut file = create(entry)?;
        receiver.content(&mut file, entry.bytes)?;
    }
    Ok(())
}

/// Creates the new file of an entry below `root`, which exists and belongs to this process.
pub(super) fn new_below(root: &Path, entry: &Entry) -> io::Result<File> {
    if !is_beneath(&entry.name) {
        return Err(bad(format!(
            "the agent does not accept a file named {:?}",
            entry.name
        )));
    }
    let path = root.join(&entry.name);
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o755).create(folder)?;
    }
    OpenOptions::new()
        .write(true)
        // Fails if the name exists already, even as a symbolic link.
        .create_new(true)
        .mode(if entry.executable { 0o755 } else { 0o644 })
        .open(&path)
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns true if a name can only denote a path below a root: its components are separated by
/// slashes, and none is `.` or `..`. (No link can lead out of the root, because only files and
/// directories are created there.)
fn is_beneath(name: &str) -> bool {
    let plain = |word: &str| {
        !word.is_empty() && word != "." && word != ".." && word.len() <= 255 && !word.contains('\0')
    };
    name.len() <= 4_000 && name.split('/').count() <= MOST_FOLDERS && name.split('/').all(plain)
}

const MOST_FILES: usize = 10_000;
/// Limit for the total length of the file names that one message announces, in bytes.
const MOST_BYTES_OF_NAMES: usize = 4 << 20;
/// Maximum number of directories in one path, each of which has to be created.
const MOST_FOLDERS: usize = 64;
/// Size limit of all files for one agent together, in bytes.
pub(super) const MOST_BYTES_IN_ALL: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["a", "home/user/case.py", "..a/b..", "a b/ü"] {
            assert!(is_beneath(name), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "..",
            "a/../../b",
            "a//b",
            "a/",
            "./a",
            "a\0b",
        ] {
            assert!(!is_beneath(name), "{name:?}");
        }
        assert!(!is_beneath(&"a".repeat(300)));
        assert!(!is_beneath(&"a/".repeat(100)));
    }

    /// An agent with the key could announce any number of files, of any size.
    #[test]
    fn too_many_files_or_bytes_are_refused_before_any_file_is_created() {
        let entry = |name: String, bytes| Entry {
            name,
            bytes,
            executable: false,
        };
        let small = |count: usize| (0..count).map(|at| entry(at.to_string(), 0)).collect();
        let long = |count: usize| {
            let name = |at: usize| format!("{at:07}{}", "a".repeat(4 << 10));
            (0..count).map(|at| entry(name(at), 0)).collect()
        };
        let sized = |sizes: &[u64]| {
            let all = sizes.iter().zip(0_u8..);
            all.map(|(bytes, at)| entry(at.to_string(), *bytes))
                .collect()
        };
        let most = 3 << 20;
        let mut created = 0;
        let mut refused = |entries: Vec<Entry>| {
            // Nothing arrives, so an announcement that is accepted ends with the stream.
            let mut receiver =
                Receiver::with_key(io::empty(), timeloom_sys::seal::SealKey::new([0; 32]));
            let received = receive(&mut receiver, &entries, most, |_| {
                created += 1;
                tempfile::tempfile()
            });
            received.err().map(|error| error.to_string())
        };
        let too_much: [Vec<Entry>; 5] = [
            small(MOST_FILES + 1),
            long(MOST_BYTES_OF_NAMES / (4 << 10)),
            sized(&[most + 1]),
            sized(&[most, 1]),
            // The sum would overflow to 1.
            sized(&[u64::MAX, 2]),
        ];
        for entries in too_much {
            let count = entries.len();
            let error = refused(entries).expect("it is too much");
            let limit =
                format!("the {count} announced files exceed the limit (10000 files, 3 MiB)");
            assert_eq!(error, limit);
        }
        assert_eq!(refused(small(MOST_FILES)), None);
        let error = refused(sized(&[most])).expect("the content is missing");
        assert!(!error.contains("limit"), "{error}");
        assert_eq!(created, MOST_FILES + 1);
    }

    #[test]
    fn a_path_is_told_by_its_words() {
        let normal = |path| normal(Path::new(path)).display().to_string();
        assert_eq!(normal("/a/b/../../c/./d"), "/c/d");
        assert_eq!(normal("/.."), "/");
    }

    /// An executable of the scenario is sent; an executable of the machine is not. A directory is
    /// sent with its whole content.
    #[test]
    fn files_missing_on_an_agent_are_packed() {
        let temporary = tempfile::tempdir().expect("a directory");
        let folder = temporary.path().join("case");
        fs::create_dir_all(folder.join("data/deep")).expect("directories");
        fs::create_dir_all(folder.join("lib/part")).expect("directories");
        for name in [
            "plc",
            "data/one",
            "data/deep/two",
            "lib/part/m.py",
            "lib/part/m.pyc",
        ] {
            fs::write(folder.join(name), name).expect("a file");
        }
        let text = format!(
            r#"
            schema = "timeloom/1"
            name = "x"
            time = {{ duration = "1 s" }}
            [system.hosts.a]
            address = "10.0.0.1/24"
            [[system.hosts.a.programs]]
            name = "p"
            directory = "{0}"
            run = ["./plc"]
            env = {{ PYTHONPATH = "lib" }}
            [[system.hosts.a.programs]]
            name = "q"
            directory = "{0}"
            run = ["/bin/sh", "-c", "true"]
            "#,
            folder.display()
        );
        let plan = timeloom_scenario::parse(&text, "x.toml", &[]).expect("a plan");
        let names = |more: &[PathBuf]| -> Vec<String> {
            let files = pack(&plan, more).expect("the files are sent");
            let name = |sent: &Sent| {
                let path = sent.path.strip_prefix(&folder).expect("in the folder");
                path.display().to_string()
            };
            files.iter().map(name).collect()
        };
        assert_eq!(names(&[]), ["lib/part/m.py", "plc"]);
        let more = [folder.join("data")];
        let all = ["data/deep/two", "data/one", "lib/part/m.py", "plc"];
        assert_eq!(names(&more), all);
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("data/one"), private).expect("ours");
        let refused = pack(&plan, &more).expect_err("it is private");
        let private = |path: &Path| path == folder.join("data/one");
        assert!(matches!(refused, TransferError::Private(path) if private(&path)));
    }
}
