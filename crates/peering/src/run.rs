//! An engine in real time with its portal, on the thread that calls.

use std::io;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Paced, Wake};
use timeloom_net::World;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::Portal;

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
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            spin: Duration::from_us(60),
            hold: Duration::ZERO,
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
    portal: &mut Portal,
    end: Instant<Virtual>,
    pause: Pause,
    mut stop: impl FnMut() -> bool,
) -> io::Result<()> {
    let mut looked = Instant::ZERO;
    while paced.engine.now() < end && !stop() {
        let now = wall_now();
        if now - looked >= pause.hold {
            portal.receive(&mut paced.engine, now)?;
            looked = now;
        }
        let wake = paced.poll(wall_now, EVENTS);
        let now = wall_now();
        portal.send(&mut paced.engine, now)?;
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
        until = until.min(portal.next_wake()).min(now + LONGEST);
        if pause.hold > Duration::ZERO {
            until = until.min(looked + pause.hold);
        }
        wait(portal, until, pause);
    }
    portal.send(&mut paced.engine, wall_now())
}

/// Sleeps, then looks at the clock, until `until` or until something comes in.
fn wait(portal: &Portal, until: Instant<Wall>, pause: Pause) {
    let sleep = until - wall_now() - pause.spin;
    if sleep > Duration::ZERO {
        let mut descriptors: Vec<libc::pollfd> = portal
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
