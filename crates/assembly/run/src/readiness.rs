//! Detection of the instant at which a program is ready.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use timeloom_fabric::Namespace;
use timeloom_scenario::Ready;

use crate::outputs::Output;

/// Condition under which a program is ready. The condition is observed from outside, because the
/// program would notice a trial connection.
pub(crate) enum Condition {
    /// A process in the program's network namespace listens on this TCP port, according to the
    /// kernel's socket tables.
    Tcp { port: u16, tables: Mutex<Vec<File>> },
    /// The program has printed this text, and the text is still in the part of the log in memory.
    Log { text: String, output: Arc<Output> },
}

impl Condition {
    /// Creates the condition. `namespace` is the program's network, and `output` the program's
    /// output.
    ///
    /// # Errors
    /// Returns an error if the kernel's socket tables cannot be opened.
    pub(crate) fn new(
        ready: &Ready,
        namespace: &Namespace,
        output: &Arc<Output>,
    ) -> io::Result<Self> {
        Ok(match ready {
            Ready::Tcp(port) => Self::Tcp {
                port: *port,
                // A table remains that of the namespace in which it was opened, whichever thread
                // reads it.
                tables: Mutex::new(namespace.run(tables).map_err(io::Error::other)??),
            },
            Ready::Log(text) => Self::Log {
                text: text.clone(),
                output: Arc::clone(output),
            },
        })
    }

    /// Returns true if the condition holds now.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Tcp { port, tables } => {
                let mut tables = tables.lock();
                tables.iter_mut().any(|table| listens(table, *port))
            }
            Self::Log { text, output } => output.contains(text),
        }
    }
}

/// Opens the TCP socket tables of this thread's network namespace. The table for IPv6 is omitted on
/// a machine without IPv6.
fn tables() -> io::Result<Vec<File>> {
    let mut tables = vec![File::open("/proc/thread-self/net/tcp")?];
    tables.extend(File::open("/proc/thread-self/net/tcp6"));
    Ok(tables)
}

/// Returns true if a table has a socket on the port in state 0A (listening).
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
