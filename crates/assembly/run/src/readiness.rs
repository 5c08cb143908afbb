//! When a program counts as ready.

use timeloom_fabric::Namespace;
use timeloom_scenario::Ready;

use crate::outputs::Log;

/// Whether the condition holds now. Looked at from outside: a trial connection
/// would be one that the program sees.
pub(crate) fn is_ready(ready: &Ready, namespace: &Namespace, log: &Log) -> bool {
    match ready {
        Ready::Tcp(port) => namespace.run(|| listens(*port)).unwrap_or(false),
        Ready::Log(text) => log.contains(text),
    }
}

/// Whether some process in this thread's network listens on the port:
/// /proc/net/tcp, state 0A.
fn listens(port: u16) -> bool {
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .iter()
        .any(|path| {
            let table = std::fs::read_to_string(path).unwrap_or_default();
            table.lines().skip(1).any(|line| {
                let mut fields = line.split_ascii_whitespace().skip(1);
                let local = fields.next().and_then(|address| address.rsplit_once(':'));
                let state = fields.nth(1);
                state == Some("0A")
                    && local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port))
            })
        })
}
