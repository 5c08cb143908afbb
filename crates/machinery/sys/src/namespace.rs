//! Numbers of namespaces that the kernel never reuses, unlike their inode numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::command::into_network;
use crate::option::{self, done};

/// Returns the cookie of a network namespace: a number that a socket in it reports (Linux 5.14).
///
/// # Errors
/// Fails without CAP_SYS_ADMIN, or as the kernel does.
pub fn cookie(network: OwnedFd) -> io::Result<u64> {
    // A thread of its own enters the namespace, since the thread is of no other use afterwards.
    let ask = move || {
        into_network(&network)?;
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut cookie = 0;
        option::get(&socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie)?;
        Ok(cookie)
    };
    let thread = std::thread::Builder::new().spawn(ask)?;
    thread.join().expect("nothing in it panics")
}

/// Returns the unique number of a mount namespace (Linux 6.11).
///
/// # Errors
/// Fails if the kernel is older, or the descriptor is not one of a mount namespace.
pub fn mounts(namespace: impl AsFd) -> io::Result<u64> {
    let mut number = 0_u64;
    // SAFETY: the kernel writes a number of this size.
    done(unsafe {
        libc::ioctl(
            namespace.as_fd().as_raw_fd(),
            libc::NS_GET_MNTNS_ID,
            &raw mut number,
        )
    })?;
    Ok(number)
}

/// SO_NETNS_COOKIE, which the libc crate lacks for some targets.
const SO_NETNS_COOKIE: libc::c_int = 71;

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_number_is_one_namespaces() {
        let mounts_of = |pid: &str| mounts(File::open(format!("/proc/{pid}/ns/mnt"))?);
        if let Ok(own) = mounts_of("self") {
            assert_eq!(mounts_of("thread-self").expect("as before"), own);
        }
        let network = |path: &str| cookie(File::open(path)?.into());
        // Only root may enter namespaces.
        if let Ok(own) = network("/proc/self/ns/net") {
            assert_eq!(network("/proc/thread-self/ns/net").expect("as before"), own);
            let made = std::thread::spawn(|| {
                crate::command::into_new_network()?;
                cookie(File::open("/proc/thread-self/ns/net")?.into())
            });
            let other = made.join().expect("no panic").expect("a namespace more");
            assert_ne!(other, own);
        }
    }
}
