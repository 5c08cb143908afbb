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
    usual: Usual,
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
            usual: Usual::default(),
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
            let early = match left {
                Some(left) if left > SHORT => self.spin + self.usual.late,
                _ => self.spin,
            };
            let nap = left.map(|left| {
                if left > LONG {
                    left - Duration::from_ns(left.as_ns() / 500)
                } else {
                    (left - early).max(Duration::ZERO)
                }
            });
            let planned = nap.map(|nap| wall_now() + nap);
            let count = self.wait(nap)?;
            if count > 0 {
                self.report(count, alarm, ready);
                return Ok(());
            }
            if left.is_some_and(|left| left <= LONG) {
                if let Some(planned) = planned.filter(|_| left > Some(SHORT)) {
                    self.usual.learn(wall_now() - planned);
                }
                break;
            }
        }
        let Some(until) = until else { return Ok(()) };
        while wall_now() < until {
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

/// By how much the kernel is late at least, three times out of four: a sleeper is
/// woken that much sooner and looks at the clock for the rest. On a virtual machine
/// it is some 30 µs, and each instant at which a packet arrives would be so late.
#[derive(Clone, Copy, Debug)]
struct Usual {
    late: Duration,
}

impl Default for Usual {
    fn default() -> Self {
        Self {
            late: Duration::ZERO,
        }
    }
}

impl Usual {
    /// A sleep ended so long after it should have. Steps up and down are as one
    /// to three, so that they balance at the first quartile: a median would be
    /// spent looking at the clock half of the time.
    fn learn(&mut self, late: Duration) {
        let step = if late > self.late {
            STEP
        } else {
            Duration::from_ns(-3 * STEP.as_ns())
        };
        self.late = (self.late + step).clamp(Duration::ZERO, LATEST);
    }
}

const STEP: Duration = Duration::from_ns(500);
/// A machine that is later than this by rule is overloaded, and looking at the
/// clock would not help it.
const LATEST: Duration = Duration::from_us(50);
/// From shorter sleeps a processor wakes in some microseconds, and a network that
/// carries much has nothing but short ones.
const SHORT: Duration = Duration::from_us(200);

/// The kernel may be late by a thousandth of a sleep, to save wake-ups: of longer
/// sleeps the end is slept separately.
const LONG: Duration = Duration::from_ms(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_lateness_is_the_first_quartile_and_bounded() {
        let mut usual = Usual::default();
        // Eight instants of lateness in turns; two of them are below 22 µs.
        let late = [40, 21, 70, 35, 9, 500, 28, 60].map(Duration::from_us);
        for late in late.iter().cycle().take(8_000) {
            usual.learn(*late);
        }
        let learnt = usual.late;
        assert!(learnt > Duration::from_us(15), "{learnt}");
        assert!(learnt < Duration::from_us(35), "{learnt}");
        for _ in 0..1_000 {
            usual.learn(Duration::from_ms(20));
        }
        assert_eq!(usual.late, LATEST);
        for _ in 0..1_000 {
            usual.learn(Duration::ZERO);
        }
        assert!(usual.late <= STEP, "{}", usual.late);
    }
}
