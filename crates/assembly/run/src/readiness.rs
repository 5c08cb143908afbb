//! Readiness of programs.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::{Arc, Mutex, PoisonError};

use timeloom_fabric::Namespace;
use timeloom_scenario::Ready;

use crate::outputs::Output;

/// Condition for the readiness of a program. Observed from outside: a trial connection would be
/// visible to the program.
pub(crate) enum Condition {
    /// A process in the program's network listens on this port, according to the kernel's socket
    /// tables.
    Tcp { port: u16, tables: Mutex<Vec<File>> },
    /// The program has printed this text recently.
    Log { text: String, output: Arc<Output> },
}

impl Condition {
    /// Creates the condition. `namespace` is the program's network, `output` its output.
    ///
    /// # Errors
    /// Returns an error if the network's tables cannot be opened.
    pub(crate) fn new(
        ready: &Ready,
        namespace: &Namespace,
        output: &Arc<Output>,
    ) -> io::Result<Self> {
        Ok(match ready {
            Ready::Tcp(port) => Self::Tcp {
                port: *port,
                // An open table remains that of the network in which it was opened.
                tables: Mutex::new(namespace.run(tables).map_err(io::Error::other)??),
            },
            Ready::Log(text) => Self::Log {
                text: text.clone(),
                output: Arc::clone(output),
            },
        })
    }

    /// True if the condition holds now.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Tcp { port, tables } => {
                let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
                tables.iter_mut().any(|table| listens(table, *port))
            }
            Self::Log { text, output } => output.contains(text),
        }
    }
}

/// Opens the tables of this thread's network; a machine without IPv6 lacks the second.
fn tables() -> io::Result<Vec<File>> {
    let mut tables = vec![File::open("/proc/thread-self/net/tcp")?];
    tables.extend(File::open("/proc/thread-self/net/tcp6"));
    Ok(tables)
}

/// True if a table has a socket in state 0A (listening) on the port.
fn listens(table: &mut File, port: u16) -> bool {
    let mut text = String::new();
    let read = table
        .rewind()
        .and_then(|()| table.read_to_string(&mut text));
    read.is_ok()
        && text.lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let local = fields.next().and_then(|address| address.rsplit_once(':'));
            let state = fields.nth(1);
            state == Some("0A")
                && local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port))
        })
}
