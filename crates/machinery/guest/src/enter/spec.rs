//! Specification of a program to start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use timeloom_sys::rights::Rights;

use crate::clock::Host;

use super::identity::Identity;
use super::root::Root;

/// Program to run, with its environment.
pub struct CommandSpec {
    /// Program and its arguments. A name without a slash is looked up.
    pub argv: Vec<OsString>,
    /// Variables inherited from this process. A program of another user inherits the usual ones at
    /// most, a program in a container none.
    pub inherits: Variables,
    /// Variables to set in addition to those.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; ours if `None`. In a container it is one of its own.
    pub directory: Option<PathBuf>,
    /// Destination of standard output and error.
    pub output: Output,
    /// Network namespace to enter.
    pub network: Option<OwnedFd>,
    /// Container of the program, which is its first process, in a PID namespace of its own.
    pub root: Option<Arc<Root>>,
    /// Host name and name service files of its host, if the host has its own and no container.
    pub identity: Option<Arc<Identity>>,
    /// Privileges, if they are less than ours.
    pub rights: Option<Rights>,
    /// Host of the program; the session's own host if `None`.
    pub host: Option<Arc<Host>>,
    /// Name in `timeloom ps` of the program and all processes that it starts.
    pub name: Option<String>,
}

impl CommandSpec {
    /// Makes a specification that runs `argv` with our own environment, directory, streams and
    /// network.
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

/// Destination of a program's streams.
#[derive(Debug)]
pub enum Output {
    /// The streams of this process, including standard input. With [`CommandSpec::rights`] the
    /// program leads a kernel session of its own, without a terminal; otherwise it shares the
    /// terminal and inherits all other open descriptors.
    Inherit,
    /// Both to this descriptor (a pipe or file); standard input is empty, and the program leads a
    /// kernel session of its own, without a terminal.
    To(OwnedFd),
    /// Descriptors of standard input, output and error. The program leads a kernel session of its
    /// own, whose terminal is standard input if `is_terminal`.
    Streams {
        /// Streams in the order of their numbers.
        streams: [OwnedFd; 3],
        /// True if standard input is a terminal that controls no other session.
        is_terminal: bool,
    },
}
