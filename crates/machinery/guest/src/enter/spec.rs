//! Specification of a program to start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use timeloom_sys::rights::Rights;

use crate::clock::Host;

use super::identity::Identity;
use super::root::ContainerRoot;

/// Program to start in a session, with its environment.
pub struct CommandSpec {
    /// Program and its arguments. A program name without a slash is looked up in `PATH`.
    pub argv: Vec<OsString>,
    /// Environment variables inherited from this process. A program of another user inherits at
    /// most the usual ones, and a program in a container none.
    pub inherits: Variables,
    /// Environment variables to set in addition to the inherited ones.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; `None` for that of this process. For a program in a container, a path in
    /// it.
    pub directory: Option<PathBuf>,
    /// Destination of the program's standard output and error.
    pub output: Output,
    /// Network namespace to enter; `None` for that of this process.
    pub network: Option<OwnedFd>,
    /// Root of the program's container, if any. The program is the first process of its own PID
    /// namespace.
    pub root: Option<Arc<ContainerRoot>>,
    /// Host name and name service files of its host, if the host has its own files and no
    /// container.
    pub identity: Option<Arc<Identity>>,
    /// Privileges of the program; `None` for those of this process.
    pub rights: Option<Rights>,
    /// Host of the program; `None` for the session's own host.
    pub host: Option<Arc<Host>>,
    /// Name that `timeloom ps` shows for the program and all processes that it starts.
    pub name: Option<String>,
}

impl CommandSpec {
    /// Creates a specification that runs `argv` with this process's environment, directory, streams
    /// and network.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            inherits: Variables::All,
            env: BTreeMap::new(),
            directory: None,
            output: Output::Inherit,
            network: None,
            root: None,
            identity: None,
            rights: None,
            host: None,
            name: None,
        }
    }
}

/// Selection of this process's environment variables that a program inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// All variables.
    All,
    /// The variables of user, language and terminal (`timeloom_sys::environment`).
    Usual,
}

/// Destination of a program's standard streams.
#[derive(Debug)]
pub enum Output {
    /// The streams of this process, including standard input. With [`CommandSpec::rights`] the
    /// program leads a kernel session of its own, without a terminal; otherwise it shares the
    /// terminal and inherits all other open descriptors.
    Inherit,
    /// Standard output and error go to this descriptor (a pipe or file), and standard input is
    /// empty. The program leads its own kernel session, without a terminal.
    To(OwnedFd),
    /// The streams are these descriptors. The program leads its own kernel session; standard input
    /// is its terminal if `is_terminal`.
    Streams {
        /// Standard input, output and error.
        streams: [OwnedFd; 3],
        /// True if standard input is a terminal that is the controlling terminal of no other
        /// session.
        is_terminal: bool,
    },
}
