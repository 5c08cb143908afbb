//! Connections between processes of one machine that never wait without limit.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects to the socket at `path`, and waits for no more than `patience` if too many
/// wait there already; so long, too, may each later read and write take.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when somebody listens and takes no connection;
/// [`io::ErrorKind::ConnectionRefused`] when nobody listens.
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Of a local socket it limits the wait of `connect` too.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Who is at the other end: who connected, or who began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process identifier then; `None` for a process that is in no PID namespace of
    /// ours.
    pub pid: Option<i32>,
    /// Its effective user then.
    pub uid: u32,
}

/// The other end of a local connection.
///
/// # Errors
/// When it is not local.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
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
    Ok(Peer {
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
