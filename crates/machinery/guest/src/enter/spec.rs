//! What is to be started, and how.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use timeloom_sys::rights::Rights;

use crate::clock::Host;

use super::identity::Identity;
use super::root::Root;

/// A program to run, and where.
pub struct CommandSpec {
    /// The program and its arguments. A name without a slash is looked up.
    pub argv: Vec<OsString>,
    /// Variables inherited from this process. A program of another user inherits the usual ones at
    /// most, a program in a container none.
    pub inherits: Variables,
    /// Variables to set in addition to those.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; ours if none. In a container it is one of its own.
    pub directory: Option<PathBuf>,
    /// Where standard output and error go.
    pub output: Output,
    /// Network namespace to enter.
    pub network: Option<OwnedFd>,
    /// The container that it is the first process of, with process numbers of its own.
    pub root: Option<Arc<Root>>,
    /// Host name and name service files of its host, if the host has its own and no container.
    pub identity: Option<Arc<Identity>>,
    /// What it may do, when that is less than we may.
    pub rights: Option<Rights>,
    /// Whose clock it lives by; the session's own host if none.
    pub host: Option<Arc<Host>>,
    /// What `timeloom ps` calls it and all that it starts.
    pub name: Option<String>,
}

impl CommandSpec {
    /// Runs `argv` with our own environment, directory, streams and network.
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
    /// All.
    All,
    /// The variables of user, language and terminal (`timeloom_sys::environment`).
    Usual,
}

/// Where a program's streams go.
#[derive(Debug)]
pub enum Output {
    /// The streams of this process, including standard input. With [`CommandSpec::rights`] the
    /// program leads a kernel session of its own, without a terminal; otherwise it shares the
    /// terminal and inherits all other open descriptors.
    Inherit,
    /// Both to this descriptor (a pipe or file); standard input is empty, and
    /// the program leads a session of the kernel's of its own, without a terminal.
    To(OwnedFd),
    /// Standard input, output and error are these. The program leads a session of the
    /// kernel's of its own, whose terminal is standard input, if that is said to be one.
    Streams {
        /// In the order of their numbers.
        streams: [OwnedFd; 3],
        /// Whether standard input is a terminal that nobody else controls.
        is_terminal: bool,
    },
}
