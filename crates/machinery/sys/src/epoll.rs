//! Waits for many descriptors at once, with nanosecond timeouts.
//!
//! `rustix::event::epoll` rounds its timeouts up to milliseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use timeloom_time::Duration;

/// Set of descriptors to wait for, each identified by a number of the caller's choice.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Creates an empty set. One [`Epoll::wait`] returns at most `most` descriptors.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub fn new(most: usize) -> io::Result<Self> {
        Ok(Self {
            fd: epoll::create(CreateFlags::CLOEXEC)?,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; most],
        })
    }

    /// Returns a second handle to the same set, for another waiting thread. One [`Epoll::wait`] on
    /// it returns at most `most` descriptors.
    ///
    /// # Errors
    /// Fails as [`Epoll::new`] does.
    pub fn share(&self, most: usize) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; most],
        })
    }

    /// Adds `descriptor` to the set. [`Epoll::wait`] returns `number` whenever it is readable. A
    /// descriptor that is closed leaves the set.
    ///
    /// # Errors
    /// Fails if the set has the descriptor already, or if it cannot be polled.
    pub fn add(&self, descriptor: impl AsFd, number: u64) -> io::Result<()> {
        let data = EventData::new_u64(number);
        Ok(epoll::add(&self.fd, descriptor, data, EventFlags::IN)?)
    }

    /// Removes a descriptor from the set.
    ///
    /// # Errors
    /// Fails if the descriptor is not in the set.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, descriptor)?)
    }

    /// Waits until a descriptor is readable, for at most `nap` (`None`: without limit), and returns
    /// the numbers of the readable descriptors. If a signal interrupts the wait, returns none.
    ///
    /// # Errors
    /// No cause of failure is known.
    pub fn wait(
        &mut self,
        nap: Option<Duration>,
    ) -> io::Result<impl ExactSizeIterator<Item = u64>> {
        let timeout = nap.map(|nap| libc::timespec {
            tv_sec: nap.as_ns() / 1_000_000_000,
            tv_nsec: nap.as_ns() % 1_000_000_000,
        });
        let timeout = timeout
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the event buffer is ours and has the stated length; the timeout outlives the
        // call; there is no signal mask.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len(),
                timeout,
                core::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        let count = match usize::try_from(answer) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(self.events[..count].iter().map(|event| event.u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall_now;
    use std::io::Write;

    #[test]
    fn readable_descriptors_are_reported_by_their_number() {
        let (one, mut into) = io::pipe().expect("a pipe");
        let (other, _open) = io::pipe().expect("a pipe");
        let mut epoll = Epoll::new(2).expect("epoll");
        epoll.add(&one, 7).expect("added");
        epoll.add(&other, 8).expect("added");
        into.write_all(b"x").expect("written");
        assert_eq!(epoll.wait(None).expect("a wait").collect::<Vec<_>>(), [7]);
        let mut shared = epoll.share(1).expect("a duplicate");
        assert_eq!(shared.wait(None).expect("a wait").collect::<Vec<_>>(), [7]);
        epoll.remove(&one).expect("removed");
        let began = wall_now();
        let nap = Duration::from_us(300);
        assert_eq!(epoll.wait(Some(nap)).expect("a wait").len(), 0);
        assert!(wall_now() - began >= nap);
    }
}
