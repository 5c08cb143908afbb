//! Asker: a thread of a guest that is blocked in a system call and waits for the supervisor's
//! answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::clock::Host;
use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::linux::remote::{Alleged, Memory, Plain};
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::timers::{Owner, Timers};

/// Thread that waits for an answer, and the listener on which its request arrived.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) listener: &'a Listener,
    pub(crate) notification: &'a Notification,
}

impl Asker<'_> {
    pub(crate) fn thread(&self) -> i32 {
        self.notification.thread
    }

    pub(crate) fn process(&self) -> i32 {
        processes::process_of(self.thread())
    }

    /// Returns the process identifier of the asker. The identifier is valid while the asker waits.
    ///
    /// # Errors
    /// Fails with EINTR, like [`Self::owner`].
    pub(crate) fn known_process(&self) -> Result<i32, i32> {
        let process = self.process();
        self.still_waits().map(|()| process)
    }

    /// Returns true if the asker has a capability (a bit of `CapEff`) in the session's user
    /// namespace. In a user namespace that a thread has created itself, it has all capabilities;
    /// these give no rights over the session.
    ///
    /// # Errors
    /// Fails with EINTR, like [`Self::owner`].
    pub(crate) fn has_capability(&self, capability: u64) -> Result<bool, i32> {
        let thread = self.thread();
        let has = processes::effective_capabilities(thread) & capability != 0
            && processes::is_in_our_user_namespace(thread);
        self.still_waits().map(|()| has)
    }

    /// Returns the asker's process, as owner of new timers.
    ///
    /// # Errors
    /// Fails with EAGAIN if this process may open no more files. Fails with EINTR, which the guest
    /// does not see, if the thread no longer waits: the process may then be another one with the
    /// same identifier.
    pub(crate) fn owner(&self, timers: &Timers) -> Result<Arc<Owner>, i32> {
        let owner = timers.owner(self.process());
        self.still_waits()?;
        owner.map_err(|_| libc::EAGAIN)
    }

    /// Returns the asker's process if it may have timers; `None` if it has none.
    ///
    /// # Errors
    /// Fails with EINTR, like [`Self::owner`].
    pub(crate) fn known_owner(&self, timers: &Timers) -> Result<Option<Arc<Owner>>, i32> {
        let owner = timers.known_owner(self.process());
        self.still_waits().map(|()| owner)
    }

    /// Returns the host of the asker.
    pub(crate) fn host(&self) -> &Arc<Host> {
        self.listener.host()
    }

    /// Answers [`timeloom_abi::calls::ImageCall::Give`] with a new descriptor in the asker's process, or
    /// an error.
    pub(crate) fn give_gift(&self, gift: usize) -> Answer {
        let give = |file: &std::fs::File| self.give(file.as_fd(), true);
        let given = self.listener.with_gift(gift, give);
        given.unwrap_or(Answer::Error(libc::EINVAL))
    }

    /// Reads a value from the asker's memory.
    ///
    /// # Errors
    /// Fails with EFAULT if the memory is not readable. Fails with EINTR, which the guest does not
    /// see, if the thread no longer waits: the memory may then have been that of another process
    /// with the same identifier.
    pub(crate) fn read<T: Plain>(&self, from: Alleged<T>) -> Result<T, i32> {
        let value = from.read(self.thread()).ok_or(libc::EFAULT)?;
        self.still_waits()?;
        Ok(value)
    }

    /// Writes a value to the asker's memory.
    ///
    /// # Errors
    /// Fails like [`Self::read`].
    pub(crate) fn write<T: Plain>(&self, to: Alleged<T>, value: &T) -> Result<(), i32> {
        let memory = self.memory()?;
        or_fault(memory.write(to, value))
    }

    /// Fills `into` from the asker's memory.
    ///
    /// # Errors
    /// Fails like [`Self::read`].
    pub(crate) fn read_all(&self, from: Alleged<u8>, into: &mut [u8]) -> Result<(), i32> {
        or_fault(from.read_all(self.thread(), into))?;
        self.still_waits()
    }

    /// Writes bytes to the asker's memory.
    ///
    /// # Errors
    /// Fails like [`Self::read`].
    pub(crate) fn write_all(&self, to: Alleged<u8>, from: &[u8]) -> Result<(), i32> {
        let memory = self.memory()?;
        or_fault(memory.write_all(to, from))
    }

    /// Gives the asker's process a duplicate of `source`. The answer is the number of the new
    /// descriptor.
    pub(crate) fn give(&self, source: BorrowedFd<'_>, close_on_exec: bool) -> Answer {
        match self.listener.give(self.notification, source, close_on_exec) {
            Ok(number) => Answer::Value(number.into()),
            Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EMFILE)),
        }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.listener.answer(self.notification, answer);
    }

    /// Opens the memory of the asker's process. The handle always refers to the same process.
    fn memory(&self) -> Result<Memory, i32> {
        let memory = Memory::of(self.thread());
        self.still_waits()?;
        memory.map_err(|_| libc::EFAULT)
    }

    /// Returns a duplicate of a descriptor of the thread. A thread may have a descriptor table of
    /// its own; before Linux 6.9, the table of its process is used.
    ///
    /// # Errors
    /// Fails with EBADF if there is no such descriptor; with EINTR, like [`Self::owner`]; with the
    /// error of the system if this process has no descriptor left.
    pub(crate) fn descriptor(&self, number: i32) -> Result<OwnedFd, i32> {
        let thread = Pidfd::of_thread(self.thread());
        let duplicate = thread
            .or_else(|_| Pidfd::of_process(self.process()))
            .and_then(|owner| owner.duplicate(number));
        self.still_waits()?;
        duplicate.map_err(|error| error.raw_os_error().unwrap_or(libc::EBADF))
    }

    fn still_waits(&self) -> Result<(), i32> {
        let waits = self.listener.is_waiting(self.notification);
        waits.then_some(()).ok_or(libc::EINTR)
    }
}

fn or_fault(done: bool) -> Result<(), i32> {
    done.then_some(()).ok_or(libc::EFAULT)
}
