//! Anonymous network namespaces.

use std::fs::File;
use std::io;
use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use timeloom_sys::command::{enter_network, into_network, into_new_network};

use rustix::io::Errno;

use crate::KernelError;

/// Network namespace that is referenced only by a file descriptor.
///
/// The namespace exists as long as this value, a program inside, or a socket that was opened in it;
/// a [`crate::PacketCapture`] has such a socket. The kernel removes the namespace with all its
/// interfaces a few milliseconds after the last reference was dropped.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    name: String,
}

impl Namespace {
    /// Creates a namespace that has only a loopback interface, which is down. `name` appears in
    /// messages only; the kernel does not know it.
    ///
    /// # Errors
    /// Fails without CAP_SYS_ADMIN or on a kernel without network namespaces.
    pub fn create(name: impl Into<String>) -> Result<Self, KernelError> {
        Self::create_and(name, || Ok(())).map(|(namespace, ())| namespace)
    }

    /// Creates a namespace and runs `work` in it, on the thread that created it. This saves
    /// entering the namespace again.
    pub(crate) fn create_and<T: Send>(
        name: impl Into<String>,
        work: impl FnOnce() -> Result<T, KernelError> + Send,
    ) -> Result<(Self, T), KernelError> {
        let name = name.into();
        // unshare moves the calling thread permanently, so it is called on a thread that ends right
        // afterwards.
        let (fd, done) = on_thread(|| {
            into_new_network().map_err(|errno| {
                KernelError::new(
                    format!("create the network namespace of `{name}`"),
                    errno.into(),
                )
                .missing_if(
                    &[Errno::INVAL, Errno::NOSYS],
                    "network namespaces in the kernel (CONFIG_NET_NS)",
                )
                .missing_if(
                    &[Errno::NOSPC, Errno::USERS],
                    "a higher limit in /proc/sys/user/max_net_namespaces",
                )
            })?;
            let fd = File::open("/proc/thread-self/ns/net").map_err(|error| {
                KernelError::new("open /proc/thread-self/ns/net", error)
                    .missing_if(&[Errno::NOENT], "/proc to be mounted")
            })?;
            Ok::<_, KernelError>((OwnedFd::from(fd), work()?))
        })?;
        Ok((Self { fd, name }, done))
    }

    /// Returns another reference to the same namespace.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be duplicated.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            name: self.name.clone(),
        })
    }

    /// Returns the name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel's number of this namespace, which is the number in the link
    /// `/proc/PID/ns/net`, such as `net:[4026532008]`.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be examined, which is not expected.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.fd.try_clone()?).metadata()?.ino())
    }

    /// Runs `work` on a new thread inside this namespace and waits for it. A socket that `work`
    /// opens belongs to this namespace, whichever thread uses the socket later. Threads that `work`
    /// starts are inside this namespace as well.
    ///
    /// # Errors
    /// Fails without CAP_SYS_ADMIN.
    ///
    /// # Panics
    /// Panics if `work` panics, with the same payload.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Moves the calling thread permanently into the namespace.
    pub(crate) fn enter(&self) -> Result<(), KernelError> {
        into_network(&self.fd).map_err(|errno| {
            KernelError::new(
                format!("enter the network namespace of `{}`", self.name),
                errno.into(),
            )
        })
    }

    /// Makes the programs that `command` starts run inside this namespace. The command references
    /// the namespace too, until it is dropped.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be duplicated. A failure to enter the namespace is reported
    /// by `spawn`.
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
        enter_network(command, self.fd.try_clone()?);
        Ok(())
    }

    /// Creates a TCP listener inside this namespace.
    ///
    /// # Errors
    /// Fails as [`TcpListener::bind`] does, or if the namespace cannot be entered.
    pub fn tcp_listener(&self, address: impl ToSocketAddrs + Send) -> io::Result<TcpListener> {
        self.run(|| TcpListener::bind(address))
            .map_err(io::Error::other)?
    }

    /// Creates a UDP socket inside this namespace.
    ///
    /// # Errors
    /// Fails as [`UdpSocket::bind`] does, or if the namespace cannot be entered.
    pub fn udp_socket(&self, address: impl ToSocketAddrs + Send) -> io::Result<UdpSocket> {
        self.run(|| UdpSocket::bind(address))
            .map_err(io::Error::other)?
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Namespace {
    /// Returns the descriptor, for a `setns` call in a child process. It is closed on exec.
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Runs `work` on a new thread, and waits for it.
pub(crate) fn on_thread<T: Send>(
    work: impl FnOnce() -> Result<T, KernelError> + Send,
) -> Result<T, KernelError> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("in-namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|error| KernelError::new("start a thread", error))?
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}
