//! An engine in real time with its portal, on the thread that calls.

use std::io;
use std::os::fd::RawFd;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Paced, Wake};
use timeloom_net::World;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::Portal;

/// What an engine that waits for nobody meets others through: a [`Portal`], or
/// something that is to be compared with one.
pub trait Door {
    /// Takes in what has come.
    ///
    /// # Errors
    ///
    /// When the door is of no use any more.
    fn receive<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()>;

    /// Sends what has left the engine, and what is due.
    ///
    /// # Errors
    ///
    /// When the door is of no use any more.
    fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()>;

    /// When there is something to do even if nothing comes in.
    fn next_wake(&self) -> Instant<Wall>;

    /// The descriptors on which something may come in.
    fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_;
}

impl Door for Portal {
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

    fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        Portal::descriptors(self)
    }
}

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The last part of a wait is spent looking at the clock: the kernel wakes
    /// sleepers some 50 µs late. A thread that looks for a whole wait takes a
    /// core and answers soonest.
    pub spin: Duration,
    /// How long what has come in may stay in the kernel, to be taken in
    /// together; zero looks whenever something comes.
    pub hold: Duration,
    /// Whether the thread goes before all ordinary programs of the machine
    /// (`SCHED_FIFO`) while it runs the engine, where that is allowed: another
    /// program's time slice would make packets milliseconds late. True by
    /// default. The engine takes the time that it needs, so it wants a core.
    pub first: bool,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            spin: Duration::from_us(60),
            hold: Duration::ZERO,
            first: true,
        }
    }
}

/// Events between two looks at the sockets.
const EVENTS: u64 = 128;
/// No wait is longer: whoever stops the clock or ends the run is seen.
const LONGEST: Duration = Duration::from_ms(20);

/// CLOCK_MONOTONIC, which all engines of one machine share.
pub fn wall_now() -> Instant<Wall> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Instant::from_ns(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Runs until the engine has lived up to `end`, or `stop` says so.
///
/// # Errors
///
/// When a socket is of no use any more.
pub fn run<Q: EventQueue>(
    paced: &mut Paced<World, Q>,
    door: &mut impl Door,
    end: Instant<Virtual>,
    pause: Pause,
    mut stop: impl FnMut() -> bool,
) -> io::Result<()> {
    let _first = pause.first.then(First::go).flatten();
    let mut looked = Instant::ZERO;
    while paced.engine.now() < end && !stop() {
        let now = wall_now();
        if now - looked >= pause.hold {
            door.receive(&mut paced.engine, now)?;
            looked = now;
        }
        let wake = paced.poll(wall_now, EVENTS);
        let now = wall_now();
        door.send(&mut paced.engine, now)?;
        let mut until = match wake {
            Wake::Now => continue,
            Wake::At(at) => at,
            Wake::OnChange => now + LONGEST,
        };
        // Standing at an instant is living up to it.
        let limit = paced.pace().limit(now);
        if paced.engine.next_wake().is_none_or(|next| next > limit) {
            paced.engine.run_until(limit.min(end), 1);
            if limit >= end {
                break;
            }
        }
        until = until.min(door.next_wake()).min(now + LONGEST);
        if pause.hold > Duration::ZERO {
            until = until.min(looked + pause.hold);
        }
        wait(door, until, pause);
    }
    door.send(&mut paced.engine, wall_now())
}

/// Sleeps, then looks at the clock, until `until` or until something comes in.
fn wait(door: &impl Door, until: Instant<Wall>, pause: Pause) {
    let sleep = until - wall_now() - pause.spin;
    if sleep > Duration::ZERO {
        let mut descriptors: Vec<libc::pollfd> = door
            .descriptors()
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        if pause.hold > Duration::ZERO {
            descriptors.clear();
        }
        let time = libc::timespec {
            tv_sec: sleep.as_ns() / 1_000_000_000,
            tv_nsec: sleep.as_ns() % 1_000_000_000,
        };
        // SAFETY: the descriptors are as many as is said; the kernel reads
        // `time` and writes only `revents`.
        let ready = unsafe {
            libc::ppoll(
                descriptors.as_mut_ptr(),
                descriptors.len() as libc::nfds_t,
                &raw const time,
                core::ptr::null(),
            )
        };
        if ready > 0 {
            return;
        }
    }
    // One look at the sockets per turn of the caller: it comes back at once.
    if pause.spin >= LONGEST {
        return;
    }
    while wall_now() < until {
        core::hint::spin_loop();
    }
}

/// Puts the calling thread before ordinary ones for as long as it lives.
struct First {
    before: libc::c_int,
    parameters: libc::sched_param,
}

impl First {
    fn go() -> Option<Self> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call takes a number; 0 is the calling thread.
        let before = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: the kernel writes to the parameters, which live until it returns.
        let known = unsafe { libc::sched_getparam(0, &raw mut parameters) } == 0;
        // Who has chosen a policy for this thread knows why.
        if before != libc::SCHED_OTHER || !known {
            return None;
        }
        set_policy(libc::SCHED_FIFO, libc::sched_param { sched_priority: 1 })
            .then_some(Self { before, parameters })
    }
}

impl Drop for First {
    fn drop(&mut self) {
        set_policy(self.before, self.parameters);
    }
}

/// Whether the calling thread now has this policy.
fn set_policy(policy: libc::c_int, parameters: libc::sched_param) -> bool {
    // SAFETY: the kernel reads the parameters, which live until it returns.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}
