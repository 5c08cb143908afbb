//! Search for the script that a command passes to an interpreter.

use std::path::{Path, PathBuf};

/// Returns the script of a command if it does not exist, with its index in the command. `None`
/// means that the script exists, or that the command has none. A relative path is relative to
/// `directory`.
pub(super) fn missing(run: &[String], directory: &Path) -> Option<(usize, PathBuf)> {
    let index = of(run)?;
    let word = &run[index];
    // A shell also searches the PATH for a name without a slash.
    let is_shell = interpreter(&run[0]).is_some_and(|it| it.is_shell);
    let on_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|entry| entry.join(word).is_file())
    };
    if is_shell && !word.contains('/') && on_path() {
        return None;
    }
    let file = directory.join(word);
    // Python also runs a directory or an archive that contains a `__main__`.
    (!file.exists()).then_some((index, file))
}

/// Returns the index of the script in a command; `None` if the command has no script.
fn of(run: &[String]) -> Option<usize> {
    let interpreter = interpreter(run.first()?)?;
    let mut index = 1;
    loop {
        let word = run.get(index)?;
        if !word.starts_with('-') {
            return Some(index);
        }
        let option = word.as_str();
        if interpreter.flags.contains(&option) {
            index += 1;
        } else if interpreter.with_value.contains(&option) {
            index += 2;
        } else {
            // After options such as `-c` and `-m` no script follows. Other options are unknown.
            return None;
        }
    }
}

/// Interpreter, and those of its options that may precede a script.
struct Interpreter {
    flags: &'static [&'static str],
    with_value: &'static [&'static str],
    is_shell: bool,
}

fn interpreter(word: &str) -> Option<&'static Interpreter> {
    let name = word.rsplit('/').next()?;
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    if name.strip_prefix("python").is_some_and(is_version) {
        return Some(&PYTHON);
    }
    match name {
        "sh" | "bash" | "dash" => Some(&SHELL),
        _ => None,
    }
}

const PYTHON: Interpreter = Interpreter {
    flags: &[
        "-b", "-bb", "-B", "-d", "-E", "-i", "-I", "-O", "-OO", "-P", "-q", "-s", "-S", "-u", "-v",
        "-x",
    ],
    with_value: &["-W", "-X"],
    is_shell: false,
};

const SHELL: Interpreter = Interpreter {
    flags: &["-e", "-u", "-x", "-eu", "-ex", "-ux", "-eux", "--"],
    with_value: &["-o"],
    is_shell: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_found_behind_options_and_never_guessed() {
        for (command, index) in [
            ("python3 a.py --fast", Some(1)),
            ("/opt/venv/bin/python3.11 -u -X dev -W error a.py", Some(6)),
            ("python3 -m http.server", None),
            ("python3 -c pass", None),
            ("python3 -", None),
            ("python3", None),
            ("sh -eu -o pipefail a.sh b", Some(4)),
            ("bash -c true", None),
            ("python3-config a.py", None),
            ("cat a.py", None),
        ] {
            let run: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(of(&run), index, "{command}");
        }
    }
}
