//! Commands `timeloom bench` and `timeloom clock`: separate programs that this program executes.
//!
//! They measure the product and are not part of it, so an installation for experiments does not
//! need them. As in git and cargo, the first word determines the program. It is searched for in the
//! directory of this program, then on the PATH, and replaces this process. Arguments, environment,
//! signals and exit code are therefore those of the executed program.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use timeloom_run::exit::Failure;

use super::search_path::on_path;

/// Separate program that is executed through `timeloom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sibling {
    /// `timeloom bench`.
    Bench,
    /// `timeloom clock`.
    Clock,
}

/// Arguments of a separate program: every word unchanged, including `--help`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Words {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    words: Vec<OsString>,
}

impl Sibling {
    const ALL: [Self; 2] = [Self::Bench, Self::Clock];

    /// Returns the word after `timeloom` that stands for the program.
    fn subcommand(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Clock => "clock",
        }
    }

    /// Returns the name of the program.
    fn program(self) -> &'static str {
        match self {
            Self::Bench => "timeloom-bench",
            Self::Clock => "timeloom-lab",
        }
    }

    /// Replaces this process with the program. Returns only if that is not possible.
    pub(crate) fn exec(self, words: &Words) -> Result<Infallible, Failure> {
        let program = self.program();
        let Some(path) = find(program) else {
            return Err(Failure::not_built(format!(
                "`timeloom {}` is the program {program}, which is neither beside this one nor on \
                 the PATH; `cargo build --release --locked -p timeloom-bench` in Timeloom's sources \
                 builds it (`make build` builds all)",
                self.subcommand()
            )));
        };
        let error = Command::new(&path).args(&words.words).exec();
        Err(Failure::machine(format!("{}: {error}", path.display())))
    }
}

/// Returns the arguments of this process. `timeloom help bench …` is replaced by
/// `timeloom bench … --help`, because only the separate program knows its options.
pub(crate) fn arguments() -> Vec<OsString> {
    ask_siblings_for_help(std::env::args_os().collect())
}

fn ask_siblings_for_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let named = |word: &OsStr| Sibling::ALL.iter().any(|one| word == one.subcommand());
    if let [_, help, name, ..] = &arguments[..]
        && help == "help"
        && named(name)
    {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

fn find(program: &str) -> Option<PathBuf> {
    // Symbolic links are resolved: the separate programs need not be in the directory of a link.
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.to_path_buf()));
    let beside = beside.map(|directory| directory.join(program));
    beside
        .filter(|file| file.is_file())
        .or_else(|| on_path(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[&str]) -> Vec<OsString> {
        ask_siblings_for_help(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn help_about_a_sibling_is_asked_of_the_sibling() {
        let asked = after(&["timeloom", "help", "clock", "dvfs"]);
        assert_eq!(asked, ["timeloom", "clock", "dvfs", "--help"]);
    }

    #[test]
    fn help_about_our_own_commands_is_ours() {
        let ours = ["timeloom", "help", "run"];
        assert_eq!(after(&ours), ours);
        let words = ["timeloom", "exec", "help", "bench"];
        assert_eq!(after(&words), words);
    }
}
