//! Sleeping until a frame, a command or an instant comes: epoll.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Wall};

use crate::port::outcome;
use crate::timing::wall_now;

/// What a thread sleeps on.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    spin: Duration,
}

/// Ends a sleep from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<OwnedFd>);

/// The number under which an alarm reports itself.
const ALARM: u64 = u64::MAX;

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        outcome(fd as isize)?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the kernel reads eight bytes that are there. It refuses only
        // a counter that is full, and then it rings already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn silence(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the kernel writes eight bytes that are ours.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Poll {
    pub(crate) fn new(alarm: &Alarm, ports: &[RawFd], spin: Duration) -> io::Result<Self> {
        // SAFETY: the call takes a number.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        outcome(fd as isize)?;
        // SAFETY: the descriptor is new and nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut poll = Self {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; ports.len() + 1],
            spin,
        };
        poll.add(alarm.0.as_raw_fd(), ALARM)?;
        for (index, port) in ports.iter().enumerate() {
            poll.add(*port, index as u64)?;
        }
        Ok(poll)
    }

    fn add(&mut self, fd: RawFd, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number,
        };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the kernel reads the event, which lives until the call
        // returns.
        outcome(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) } as isize)
            .map(drop)
    }

    /// Stops listening to a port that is gone.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: as in `add`.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, &raw mut event) };
    }

    /// Sleeps until `until` at the latest (for ever without), or until a port
    /// can be read or the alarm rings; `ready` gets the ports' numbers. With
    /// [`Instant::ZERO`] it only looks.
    pub(crate) fn sleep(
        &mut self,
        until: Option<Instant<Wall>>,
        alarm: &Alarm,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        loop {
            let left = until.map(|until| (until - wall_now()).max(Duration::ZERO));
            // The kernel may be late by a thousandth of a sleep, to save
            // wake-ups. Of a long sleep the end is slept separately.
            let nap = left.map(|left| {
                if left > LONG {
                    left - Duration::from_ns(left.as_ns() / 500)
                } else {
                    (left - self.spin).max(Duration::ZERO)
                }
            });
            let count = self.wait(nap)?;
            if count > 0 {
                self.report(count, alarm, ready);
                return Ok(());
            }
            if left.is_some_and(|left| left <= LONG) {
                break;
            }
        }
        let Some(until) = until else { return Ok(()) };
        while self.spin > Duration::ZERO && wall_now() < until {
            let count = self.wait(Some(Duration::ZERO))?;
            if count > 0 {
                self.report(count, alarm, ready);
                break;
            }
        }
        Ok(())
    }

    fn wait(&mut self, nap: Option<Duration>) -> io::Result<usize> {
        let timeout = nap.map(|nap| libc::timespec {
            tv_sec: nap.as_ns() / 1_000_000_000,
            tv_nsec: nap.as_ns() % 1_000_000_000,
        });
        let timeout = timeout
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the events are ours and as many as said; the timeout lives
        // until the call returns; there is no signal mask.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len(),
                timeout,
                core::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match outcome(answer as isize) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(0),
            answer => answer,
        }
    }

    fn report(&self, count: usize, alarm: &Alarm, ready: &mut Vec<usize>) {
        for event in &self.events[..count] {
            let number = event.u64;
            if number == ALARM {
                alarm.silence();
            } else {
                ready.push(number as usize);
            }
        }
    }
}

/// Longer sleeps are slept in two.
const LONG: Duration = Duration::from_ms(1);
