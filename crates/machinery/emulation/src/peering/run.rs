//! Run of an engine and its portal in real time, on the calling thread.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Awake, Engine, Pace, Paced, Wake};
use timeloom_net::World;
use timeloom_sys::schedule::{PriorityGuard, TimerSlackGuard};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::peering::Portal;

/// Connection to other engines for an engine that does not wait for them: a [`Portal`], or an
/// alternative for comparison.
pub trait Gateway {
    /// Receives the packets that have arrived.
    ///
    /// # Errors
    ///
    /// Fails if the gateway is unusable.
    fn receive<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()>;

    /// Sends the engine's outgoing packets, and the datagrams that are due.
    ///
    /// # Errors
    ///
    /// Fails if the gateway is unusable.
    fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()>;

    /// Returns the time at which the gateway must be polled even if no input arrives.
    fn next_wake(&self) -> Instant<Wall>;

    /// Returns the descriptors that become readable when input arrives.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>>;

    /// Sets the pace of the engine. The run calls this function at its start and whenever the pace
    /// changes.
    fn follow(&mut self, _pace: Pace) {}

    /// Prepares a sleep of the thread on the descriptors. Returns false if input has arrived that
    /// the descriptors do not show; the thread must then not sleep.
    fn doze(&self) -> bool {
        true
    }

    /// Ends what [`Gateway::doze`] prepared, even if the thread did not sleep.
    fn wake(&self) {}
}

impl Gateway for Portal {
    fn receive<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        Portal::receive(self, engine, now)
    }

    fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        Portal::send(self, engine, now)
    }

    fn next_wake(&self) -> Instant<Wall> {
        Portal::next_wake(self)
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        Portal::descriptors(self)
    }

    fn follow(&mut self, pace: Pace) {
        Portal::follow(self, pace);
    }

    fn doze(&self) -> bool {
        Portal::doze(self)
    }

    fn wake(&self) {
        Portal::wake(self);
    }
}

/// Way in which the thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Maximum duration of the final part of a wait in which the thread polls the clock, since the
    /// kernel wakes sleeping threads late. The actual duration is the usual lateness. A thread that
    /// polls all the time takes a core. The kernel then withholds that core for 50 ms of each
    /// second if ordinary threads, those of this process among them, wait for it. With 20 ms or
    /// more the thread never sleeps.
    pub spin: Duration,
    /// Time for which received packets may stay in the kernel, so that they are received in
    /// batches. With zero they are received as they arrive.
    pub hold: Duration,
    /// True if the thread should run with `SCHED_FIFO` priority, above all ordinary programs of the
    /// machine, if permitted; true by default. Otherwise another program's time slice would make
    /// packets milliseconds late. The engine takes the processor time that it needs, so it should
    /// have a core.
    pub first: bool,
    /// True if the machine's processors should be kept from entering idle states, if permitted;
    /// true by default. A processor that has to wake up makes packets late.
    pub awake: bool,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            spin: Duration::from_us(60),
            hold: Duration::ZERO,
            first: true,
            awake: true,
        }
    }
}

/// Number of events between two checks of the sockets.
const EVENTS: u64 = 128;
/// Longest wait. It ensures that a stopped clock or the end of the run is noticed.
const LONGEST: Duration = Duration::from_ms(20);
/// Interval at which a thread that polls the clock also polls the gateway. Input may be due before
/// anything else is.
const LOOK: Duration = Duration::from_us(2);

/// Runs until the engine has reached `end`, or until `stop` is set.
///
/// # Errors
///
/// Fails if a socket is unusable.
pub fn run<Q: EventQueue>(
    paced: &mut Paced<World, Q>,
    gateway: &mut impl Gateway,
    end: Instant<Virtual>,
    pause: Pause,
    mut stop: impl FnMut() -> bool,
) -> io::Result<()> {
    let _first = pause.first.then(PriorityGuard::go).flatten();
    let _exact = TimerSlackGuard::go();
    let _awake = pause.awake.then(Awake::keep).flatten();
    let mut sleeper = Sleeper::new(pause.spin);
    let mut looked = Instant::ZERO;
    let mut told = None;
    while paced.engine.now() < end && !stop() {
        if told != Some(paced.pace()) {
            told = Some(paced.pace());
            gateway.follow(paced.pace());
        }
        let now = wall_now();
        if now - looked >= pause.hold {
            gateway.receive(&mut paced.engine, now)?;
            looked = now;
        }
        let wake = paced.poll(wall_now, EVENTS);
        let now = wall_now();
        gateway.send(&mut paced.engine, now)?;
        let mut until = match wake {
            Wake::Now => continue,
            Wake::At(at) => at,
            Wake::OnChange => now + LONGEST,
        };
        // An engine whose clock stands still at an instant has reached that instant.
        let limit = paced.pace().limit(now);
        if paced.engine.next_wake().is_none_or(|next| next > limit) {
            paced.engine.run_until(limit.min(end), 1);
            if limit >= end {
                break;
            }
        }
        until = until.min(gateway.next_wake()).min(now + LONGEST);
        if pause.hold > Duration::ZERO {
            until = until.min(looked + pause.hold);
        }
        sleeper.wait(gateway, until, pause);
    }
    gateway.send(&mut paced.engine, wall_now())
}

/// Estimate of how late the kernel wakes the thread.
struct Sleeper {
    /// Time by which a sleep ends before the instant that is waited for, so that 19 of 20 sleeps
    /// end in time.
    early: Duration,
}

/// Change of `early` per sleep.
const STEP: Duration = Duration::from_ns(200);
/// Minimum of the estimate [`Sleeper::early`].
const PUNCTUAL: Duration = Duration::from_us(2);

impl Sleeper {
    fn new(spin: Duration) -> Self {
        Self { early: spin }
    }

    /// Sleeps until shortly before `until` or until input arrives, and then polls the clock.
    /// Returns early enough for the caller to poll the gateway.
    fn wait(&mut self, gateway: &impl Gateway, until: Instant<Wall>, pause: Pause) {
        let now = wall_now();
        let sleep = until - now - self.early;
        if sleep > Duration::ZERO {
            if gateway.doze() && !doze(gateway, sleep, pause) {
                self.learn(wall_now() - (now + sleep), pause.spin);
            }
            gateway.wake();
            return;
        }
        let until = until.min(now + LOOK);
        while wall_now() < until {
            core::hint::spin_loop();
        }
    }

    /// Updates the estimate after a sleep that ended `late` after its deadline. A step up is 19
    /// times as large as a step down, so that they balance when one sleep in twenty is later.
    fn learn(&mut self, late: Duration, most: Duration) {
        if most >= LONGEST {
            return;
        }
        let step = if late > self.early {
            Duration::from_ns(19 * STEP.as_ns())
        } else {
            Duration::ZERO - STEP
        };
        self.early = (self.early + step).max(PUNCTUAL).min(most);
    }
}

/// Sleeps for `sleep` at most; returns true if input has arrived.
fn doze(gateway: &impl Gateway, sleep: Duration, pause: Pause) -> bool {
    let descriptors = gateway.descriptors();
    let mut descriptors: Vec<PollFd<'_>> = descriptors
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    if pause.hold > Duration::ZERO {
        descriptors.clear();
    }
    let time = Timespec {
        tv_sec: sleep.as_ns() / 1_000_000_000,
        tv_nsec: sleep.as_ns() % 1_000_000_000,
    };
    poll(&mut descriptors, Some(&time)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_estimates_the_lateness_of_the_kernel() {
        let most = Duration::from_us(60);
        let mut sleeper = Sleeper::new(most);
        // In this test, one sleep in fifty is late by 3 ms, and one in ten by more than 5 µs.
        let late = |turn: u32| match turn % 50 {
            0 => Duration::from_ms(3),
            1..=5 => Duration::from_us(10),
            _ => Duration::from_us(5),
        };
        for turn in 0..5_000 {
            sleeper.learn(late(turn), most);
        }
        let early = sleeper.early;
        assert!(
            (Duration::from_us(8)..Duration::from_us(20)).contains(&early),
            "{early}"
        );
        for _ in 0..1_000 {
            sleeper.learn(Duration::from_ms(1), most);
        }
        assert_eq!(sleeper.early, most);
        for _ in 0..1_000 {
            sleeper.learn(Duration::ZERO, most);
        }
        assert_eq!(sleeper.early, PUNCTUAL);
        let mut awake = Sleeper::new(LONGEST);
        awake.learn(Duration::ZERO, LONGEST);
        assert_eq!(awake.early, LONGEST, "it never sleeps");
    }
}
