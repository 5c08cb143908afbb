//! Sleeping until a frame, a command or an instant comes: epoll.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use timeloom_sys::epoll::Epoll;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};

/// What a thread sleeps on.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: Epoll,
    spin: Duration,
    wake_latency: WakeLatency,
}

/// Ends a sleep from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<OwnedFd>);

/// The number under which an alarm reports itself.
const ALARM: u64 = u64::MAX;
/// The number under which the ways to other engines report themselves.
const PEERS: u64 = u64::MAX - 1;

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    pub(crate) fn ring(&self) {
        // It is refused only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It is refused only when it does not ring.
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

    /// Wakes up for other engines, too; who is woken sees for itself what there is.
    pub(crate) fn add_peers<'a>(
        &mut self,
        peers: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<()> {
        for peer in peers {
            self.epoll.add(peer, PEERS)?;
        }
        Ok(())
    }

    /// Stops listening to a port that is gone.
    pub(crate) fn forget(&self, port: BorrowedFd<'_>) {
        // What the kernel has removed already need not be removed.
        let _ = self.epoll.remove(port);
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

    /// Whether a port can be read, or the alarm has rung, within `nap`.
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

/// By how much the kernel is late at least, three times out of four: a sleeper is
/// woken that much sooner and looks at the clock for the rest. On a virtual machine
/// it is some 30 µs, and each instant at which a packet arrives would be so late.
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
    /// A sleep ended so long after it should have. Steps up and down are as one
    /// to three, so that they balance at the first quartile: a median would be
    /// spent looking at the clock half of the time.
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
        let mut latency = WakeLatency::default();
        // Eight instants of lateness in turns; two of them are below 22 µs.
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
