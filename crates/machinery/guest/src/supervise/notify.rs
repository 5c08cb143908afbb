//! The kernel's interface for answering system calls of other processes
//! (`SECCOMP_RET_USER_NOTIF`, seccomp_unotify(2)).

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::clock::Host;
use crate::error::GuestError;
use crate::linux::descriptor::is_readable;

/// Descriptor on which the notifications of a filter arrive.
pub(crate) struct Listener {
    fd: OwnedFd,
    /// Host of the processes with this filter. They all have the same host, since they inherit the
    /// filter.
    host: Arc<Host>,
    /// Data for the release of an attached program; `None` for a launched one.
    leave: Option<Leave>,
}

struct Leave {
    /// Copy of the image for the program and its children, which are found by its name.
    image: File,
    /// Eventfd that is raised to end the listening.
    stop: File,
    /// Files that a program can request by [`timeloom_abi::calls::ImageCall::Give`].
    gifts: Mutex<Vec<File>>,
}

/// Notification: a thread is blocked in a system call and waits for the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    id: u64,
    /// Identifier of the thread in our PID namespace.
    pub(crate) thread: i32,
    /// Number of the system call.
    pub(crate) call: i64,
    /// Arguments of the call. [`super::question`] decodes them.
    args: [u64; 6],
    /// Address of the instruction after the call.
    pub(crate) instruction: u64,
}

impl Notification {
    /// Decodes the call by `decode`, to which it passes the call's number and arguments. There is
    /// no other access to the arguments.
    pub(crate) fn decode<T>(&self, decode: impl FnOnce(i64, [u64; 6]) -> T) -> T {
        decode(self.call, self.args)
    }
}

/// Answer to a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel executes the call as if there were no filter.
    Continue,
    /// The call returns this value.
    Value(i64),
    /// The call fails with this (positive) error number.
    Error(i32),
}

impl From<Result<i64, i32>> for Answer {
    fn from(outcome: Result<i64, i32>) -> Self {
        outcome.map_or_else(Self::Error, Self::Value)
    }
}

impl Listener {
    /// Creates the listener of a launched program.
    pub(crate) fn new(fd: OwnedFd, host: Arc<Host>) -> Self {
        // With this flag (Linux 6.6) the answered process runs at once on this processor, which
        // shortens the round trip from 4–22 µs to about 4. Older kernels refuse the flag, which
        // does no harm.
        let sync_wake_up = 1u64;
        // SAFETY: the argument is passed by value.
        unsafe { libc::ioctl(fd.as_raw_fd(), SET_FLAGS, sync_wake_up) };
        Self {
            fd,
            host,
            leave: None,
        }
    }

    /// Creates the listener of an attached program, whose image is `image`.
    ///
    /// # Errors
    /// Fails if this process may open no more files.
    pub(crate) fn registered(
        fd: OwnedFd,
        host: Arc<Host>,
        image: File,
    ) -> Result<Self, GuestError> {
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(GuestError::system("making an eventfd"))?;
        let leave = Leave {
            image,
            stop: stop.into(),
            gifts: Mutex::default(),
        };
        Ok(Self {
            leave: Some(leave),
            ..Self::new(fd, host)
        })
    }

    /// Returns another listener for the same notifications, for a process that outlives this one.
    pub(crate) fn for_another(&self) -> Result<Self, GuestError> {
        let fd = self.fd.try_clone();
        let fd = fd.map_err(GuestError::system("duplicating a filter's listener"))?;
        Ok(Self::new(fd, Arc::clone(&self.host)))
    }

    /// Returns the copy of the image that the processes with this filter map; `None` if they map
    /// the session's.
    pub(crate) fn image(&self) -> Option<&File> {
        self.leave.as_ref().map(|leave| &leave.image)
    }

    /// Ends [`Self::receive`] for an attached program, so that another process may listen.
    pub(crate) fn stop(&self) {
        if let Some(leave) = &self.leave {
            let _ = { &leave.stop }.write(&1u64.to_ne_bytes());
        }
    }

    /// Returns true if [`Self::stop`] was called.
    pub(crate) fn is_stopped(&self) -> bool {
        let leave = self.leave.as_ref();
        leave.is_some_and(|leave| is_readable(&leave.stop))
    }

    /// Sets the files that [`timeloom_abi::calls::ImageCall::Give`] requests, by their index.
    pub(crate) fn set_gifts(&self, files: Vec<File>) {
        if let Some(leave) = &self.leave {
            *leave.gifts.lock() = files;
        }
    }

    /// Calls `give` with the file of this index, for a program that is being released. Returns
    /// `None` if there is no such file.
    pub(crate) fn with_gift<T>(&self, gift: usize, give: impl FnOnce(&File) -> T) -> Option<T> {
        let gifts = &self.leave.as_ref()?.gifts;
        let gifts = gifts.lock();
        gifts.get(gift).map(give)
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Waits for the next notification. Returns `None` if no process with this filter is left, or
    /// after [`Self::stop`].
    pub(crate) fn receive(&self) -> Option<Notification> {
        loop {
            let wanted = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let stop = self.leave.as_ref().map(|leave| leave.stop.as_fd());
            let mut both = [wanted(self.as_fd()), wanted(stop.unwrap_or(self.as_fd()))];
            let count = 1 + usize::from(stop.is_some());
            let _ = poll(&mut both[..count], None);
            let [ready, stop] = both.map(|one| one.revents());
            if count == 2 && !stop.is_empty() {
                return None;
            }
            if ready.contains(PollFlags::HUP) && !ready.contains(PollFlags::IN) {
                return None;
            }
            // SAFETY: zero is a valid, and the required, initial value of all fields.
            let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the structure has the size that the ioctl's number contains.
            if unsafe { libc::ioctl(self.fd.as_raw_fd(), RECEIVE, &raw mut raw) } == 0 {
                return Some(Notification {
                    id: raw.id,
                    thread: raw.pid as i32,
                    call: raw.data.nr.into(),
                    args: raw.data.args,
                    instruction: raw.data.instruction_pointer,
                });
            }
            // The asker has ended between poll and ioctl (ENOENT), or a signal has interrupted the
            // call.
            if ready.intersects(PollFlags::ERR | PollFlags::NVAL) {
                return None;
            }
        }
    }

    /// Sends an answer. Ignores errors: an asker that has ended meanwhile needs no answer.
    pub(crate) fn answer(&self, to: &Notification, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::Continue => (0, 0, CONTINUE_FLAG),
            Answer::Value(value) => (value, 0, 0),
            Answer::Error(number) => (0, -number, 0),
        };
        let mut response = libc::seccomp_notif_resp {
            id: to.id,
            val,
            error,
            flags,
        };
        // SAFETY: the structure has the size that the ioctl's number contains.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), SEND, &raw mut response) };
    }

    /// Returns true if the asker still waits. Memory that was read before this call was then the
    /// asker's, and not that of another process with the same identifier.
    pub(crate) fn is_waiting(&self, asker: &Notification) -> bool {
        let id = asker.id;
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), ID_VALID, &raw const id) == 0 }
    }

    /// Gives the asker's process a duplicate of `source`. Returns the number of the new descriptor.
    pub(crate) fn give(
        &self,
        asker: &Notification,
        source: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<i32> {
        let mut request = libc::seccomp_notif_addfd {
            id: asker.id,
            flags: 0,
            srcfd: source.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: the structure has the size that the ioctl's number contains.
        let number = unsafe { libc::ioctl(self.fd.as_raw_fd(), ADD_FD, &raw mut request) };
        if number < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(number)
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

// Constants of <linux/seccomp.h>; the type character is '!'.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ID_VALID: libc::c_ulong = 0x4008_2102;
const ADD_FD: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const CONTINUE_FLAG: u32 = 1;

const _: () = assert!(size_of::<libc::seccomp_notif>() == 0x50);
const _: () = assert!(size_of::<libc::seccomp_notif_resp>() == 0x18);
const _: () = assert!(size_of::<libc::seccomp_notif_addfd>() == 0x18);
