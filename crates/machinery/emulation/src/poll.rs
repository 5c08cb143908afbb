//! Sleep until a frame, a command or an instant, with epoll.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use timeloom_sys::epoll::Epoll;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};

/// Event sources on which the worker's thread sleeps.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: Epoll,
    spin: Duration,
    wake_latency: WakeLatency,
}

/// Event with which another thread ends a sleep.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<OwnedFd>);

/// Identifier of the alarm among the events.
const ALARM: u64 = u64::MAX;
/// Identifier of the other engines' descriptors among the events.
const PEERS: u64 = u64::MAX - 1;

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    pub(crate) fn ring(&self) {
        // The write fails only if the counter is full; then the alarm is already set.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        // The read fails only if the alarm is not set.
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

impl Poll {
    pub(crate) fn new(alarm: &Alarm, ports: &[BorrowedFd<'_>], spin: Duration) -> io::Result<Self> {
        let epoll = Epoll::new(ports.len() + 1)?;
        epoll.add(&*alarm.0, ALARM)?;
        for (number, port) in (0..).zip(ports) {
            epoll.add(port, number)?;
        }
        Ok(Self {
            epoll,
            spin,
            wake_latency: WakeLatency::default(),
        })
    }

    /// Adds the descriptors of other engines. They only wake the thread, which then checks all
    /// engines for messages.
    pub(crate) fn add_peers<'a>(
        &mut self,
        peers: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<()> {
        for peer in peers {
            self.epoll.add(peer, PEERS)?;
        }
        Ok(())
    }

    /// Removes the descriptor of a port that is gone.
    pub(crate) fn forget(&self, port: BorrowedFd<'_>) {
        // The kernel may have removed the descriptor already.
        let _ = self.epoll.remove(port);
    }

    /// Sleeps until a port is readable, the alarm rings, or the instant `until` is reached (`None`
    /// is no limit). The numbers of readable ports are appended to `ready`. With [`Instant::ZERO`]
    /// it does not sleep and only checks the ports.
    pub(crate) fn sleep(
        &mut self,
        until: Option<Instant<Wall>>,
        alarm: &Alarm,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        loop {
            let left = until.map(|until| (until - wall_now()).max(Duration::ZERO));
            let early = match left {
                Some(left) if left > SHORT => self.spin + self.wake_latency.estimate,
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
            if self.wait(nap, alarm, ready)? {
                return Ok(());
            }
            if left.is_some_and(|left| left <= LONG) {
                if let Some(planned) = planned.filter(|_| left > Some(SHORT)) {
                    self.wake_latency.learn(wall_now() - planned);
                }
                break;
            }
        }
        let Some(until) = until else { return Ok(()) };
        while wall_now() < until {
            if self.wait(Some(Duration::ZERO), alarm, ready)? {
                break;
            }
        }
        Ok(())
    }

    /// Waits for at most `nap`; returns true if a port is readable or the alarm rings.
    fn wait(
        &mut self,
        nap: Option<Duration>,
        alarm: &Alarm,
        ready: &mut Vec<usize>,
    ) -> io::Result<bool> {
        let numbers = self.epoll.wait(nap)?;
        let any = numbers.len() > 0;
        for number in numbers {
            if number == ALARM {
                alarm.silence();
            } else if number != PEERS {
                ready.push(number as usize);
            }
        }
        Ok(any)
    }
}

/// Estimate of the lateness that the kernel's timers exceed three times out of four. A sleep ends
/// earlier by this time, and the thread polls the clock for the rest. On a virtual machine it is
/// some 30 µs, by which every packet arrival would otherwise be late.
#[derive(Clone, Copy, Debug)]
struct WakeLatency {
    estimate: Duration,
}

impl Default for WakeLatency {
    fn default() -> Self {
        Self {
            estimate: Duration::ZERO,
        }
    }
}

impl WakeLatency {
    /// Updates the estimate after a sleep that ended `late` after its deadline. A step down is
    /// three times as large as a step up, so that they balance at the first quartile. If the
    /// estimate were the median, the thread would poll the clock half of the time.
    fn learn(&mut self, late: Duration) {
        let step = if late > self.estimate {
            STEP
        } else {
            Duration::from_ns(-3 * STEP.as_ns())
        };
        self.estimate = (self.estimate + step).clamp(Duration::ZERO, LATEST);
    }
}

const STEP: Duration = Duration::from_ns(500);
/// Maximum of the estimate. A machine that is usually later than this is overloaded, and polling
/// the clock would not help.
const LATEST: Duration = Duration::from_us(50);
/// Duration below which a sleep is not measured. A processor wakes from such a sleep in some
/// microseconds, and a busy network has no longer ones.
const SHORT: Duration = Duration::from_us(200);

/// Duration above which the end of a sleep is a separate sleep. The kernel may end a sleep late by
/// a thousandth of its duration, to save wake-ups.
const LONG: Duration = Duration::from_ms(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_lateness_is_the_first_quartile_and_bounded() {
        let mut latency = WakeLatency::default();
        // The test uses eight lateness values in turn, two of which are below 22 µs.
        let late = [40, 21, 70, 35, 9, 500, 28, 60].map(Duration::from_us);
        for late in late.iter().cycle().take(8_000) {
            latency.learn(*late);
        }
        let learnt = latency.estimate;
        assert!(learnt > Duration::from_us(15), "{learnt}");
        assert!(learnt < Duration::from_us(35), "{learnt}");
        for _ in 0..1_000 {
            latency.learn(Duration::from_ms(20));
        }
        assert_eq!(latency.estimate, LATEST);
        for _ in 0..1_000 {
            latency.learn(Duration::ZERO);
        }
        assert!(latency.estimate <= STEP, "{}", latency.estimate);
    }
}
