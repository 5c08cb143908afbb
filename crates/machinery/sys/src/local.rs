//! Connections between processes of one machine (UNIX sockets), with bounded waits.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects to the socket at `path`. If the listener's backlog is full, waits for at most
/// `patience`. The same limit applies to each later read and write.
///
/// # Errors
/// Fails with [`io::ErrorKind::WouldBlock`] if the listener accepts no connection in time, and with
/// [`io::ErrorKind::ConnectionRefused`] if there is no listener.
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // For a UNIX socket, this also limits the wait of `connect`.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Process at the other end of a connection: the process that connected, or the one that began to
/// listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// Process identifier when it connected or began to listen; `None` for a process outside our
    /// PID namespace.
    pub pid: Option<i32>,
    /// Effective user number when it connected or began to listen.
    pub uid: u32,
}

/// Returns the process at the other end of a UNIX connection.
///
/// # Errors
/// Fails if the socket is not a UNIX socket.
pub fn peer(socket: impl AsFd) -> io::Result<PeerProcess> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes, which are plain numbers.
    crate::option::done(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    })?;
    Ok(PeerProcess {
        pid: (credentials.pid > 0).then_some(credentials.pid),
        uid: credentials.uid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_waited_for_no_longer_than_said() {
        let path = std::env::temp_dir().join(format!("timeloom-full-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 2).unwrap();
        let mut held = Vec::new();
        let refused = loop {
            match connect(&path, Duration::from_millis(20)) {
                Ok(stream) => held.push(stream),
                Err(error) => break error,
            }
            assert!(held.len() < 100, "no end of the queue");
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
        let me = peer(&held[0]).unwrap();
        assert_eq!(me.pid, Some(std::process::id() as i32));
        assert_eq!(me.uid, rustix::process::geteuid().as_raw());
        drop(listener);
        let refused = connect(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
    }
}
