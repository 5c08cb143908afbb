//! Commands `timeloom completions` and `timeloom man`: generate, from the program's own arguments,
//! files that packages install with the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use timeloom_run::exit::{Failure, say};

/// Print the completion script of a shell
#[derive(Args)]
#[command(after_help = "Example: . <(timeloom completions bash)")]
pub(crate) struct Completions {
    /// Name of the shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut program: Command) -> Result<ExitCode, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "timeloom", &mut text);
        say!("{}", String::from_utf8_lossy(&text).trim_end());
        Ok(ExitCode::SUCCESS)
    }
}

/// Write the manual pages, one for each command
#[derive(Args)]
#[command(after_help = "Example: timeloom man man1; man man1/timeloom-run.1")]
pub(crate) struct Man {
    /// Directory for the pages; created if it does not exist
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self, mut program: Command) -> Result<ExitCode, Failure> {
        let failed = |error| Failure::run(format!("{}: {error}", self.directory.display()));
        fs::create_dir_all(&self.directory).map_err(failed)?;
        // Sets the full names of all subcommands.
        program.build();
        let count = write(&program, "timeloom", &self.directory).map_err(failed)?;
        say!("{count} manual pages in {}", self.directory.display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the pages of a command and of all its subcommands. Returns the number of pages.
fn write(command: &Command, name: &str, directory: &Path) -> io::Result<usize> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name)
        .render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    let mut count = 1;
    let below = command.get_subcommands();
    for one in below.filter(|one| one.get_name() != "help") {
        count += write(one, &format!("{name}-{}", one.get_name()), directory)?;
    }
    Ok(count)
}
