//! Processes that inherited a killed supervisor's open descriptors. Such a process is a child that
//! had not executed its program yet. It keeps the control socket open, so that connections succeed
//! but get no answer. It also keeps `/dev/fuse` open, through which the supervisor served
//! `/proc/uptime` and `/proc/stat`, so that readers of these files wait for an answer.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use timeloom_sys::local;

use crate::linux::processes;
use crate::names::{Found, PageName, find};
use crate::time_files::{mounts_of, seen_by};

/// Returns true if a session without a visible supervisor may still have one that is hidden from
/// us.
pub(super) fn may_be_supervised(socket: &Path) -> bool {
    let stream = match find(socket) {
        // A refused connection proves that no process listens. Otherwise an untrusted process may
        // listen.
        Found::Nobody => return !is_refused(socket),
        Found::Full => return true, // and its owner is unknown
        Found::Listener(stream) => stream,
    };
    // The PID is that of the process that created the socket, even if another process holds it now.
    match local::peer(&stream).map(|peer| peer.pid) {
        Ok(Some(pid)) => fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied),
        // The process may be in another container.
        _ => true,
    }
}

fn is_refused(socket: &Path) -> bool {
    let refused = |error: &io::Error| {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(error.kind(), ConnectionRefused | NotFound)
    };
    local::connect(socket, Duration::from_millis(1)).is_err_and(|error| refused(&error))
}

/// Ends the FUSE connections of sessions for whose clock page `is_dead` returns true.
pub(super) fn end_connections(is_dead: impl Fn(&PageName) -> bool) {
    let mut ended = Vec::new();
    for pid in processes::others(|_| true) {
        let Ok(_kept) = mounts_of(pid) else { continue };
        for (page, connection) in seen_by(pid) {
            if !ended.contains(&connection) && is_dead(&page) {
                let _ = connection.abort();
                ended.push(connection);
            }
        }
    }
}

/// Kills the processes that hold the control socket of a session without a supervisor. Returns
/// their identifiers.
pub(super) fn end_holders(socket: &Path) -> Vec<i32> {
    let Some(inode) = inode_of(socket) else {
        return Vec::new();
    };
    let holds = |pid| holds(pid, &inode);
    let mut ended = processes::others(holds);
    ended.retain(|&pid| processes::kill_if(pid, holds));
    ended
}

/// Returns the link text that /proc/PID/fd shows for a socket that listens at this path; `None` if
/// there is no such socket.
fn inode_of(socket: &Path) -> Option<String> {
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let path = socket.to_str()?;
    let inode = sockets.lines().find_map(|line| listener_in(line, path))?;
    Some(format!("socket:[{inode}]"))
}

/// Parses a line of /proc/net/unix: `NUMBER: REFERENCES PROTOCOL FLAGS TYPE STATE INODE PATH`.
/// Returns the inode if a flag marks the socket as listening; connections have the same path.
fn listener_in<'a>(line: &'a str, path: &str) -> Option<&'a str> {
    const LISTENS: &str = "00010000";
    let mut fields = line.split_ascii_whitespace();
    let listens = fields.nth(3)? == LISTENS;
    let inode = fields.nth(2)?;
    (listens && fields.next()? == path).then_some(inode)
}

fn holds(pid: i32, socket: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.into_iter()
        .flatten()
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_its_connections() {
        let line = |flags| format!("00000000: 00000002 00000000 {flags} 0001 01 4711 /run/a.sock");
        assert_eq!(listener_in(&line("00010000"), "/run/a.sock"), Some("4711"));
        assert_eq!(listener_in(&line("00000000"), "/run/a.sock"), None);
        assert_eq!(listener_in(&line("00010000"), "/run/b.sock"), None);
        assert_eq!(listener_in("Num RefCount Protocol", "/run/a.sock"), None);
    }
}
