//! Thread that runs an engine and serves its portals.
//!
//! An iteration handles the events that are due, delivers the frames that have reached their hosts,
//! reads the portals, executes commands, and sleeps until the next event or frame. All of this is
//! done in one thread, so the path of a packet takes no locks.

use parking_lot::Mutex;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use timeloom_engine::{Awake, Pace, Wake};
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_sys::schedule::{SchedulingPolicy, set_policy, sleep_exactly};
use timeloom_time::Instant;

use super::Command;
use super::engine_core::{Core, lock, rest};
use crate::poll::{Alarm, Poll};

/// State of the thread.
pub(super) struct Worker {
    pub(super) core: Arc<Mutex<Core>>,
    pub(super) poll: Poll,
    pub(super) alarm: Alarm,
    pub(super) orders: Receiver<Command>,
}

impl Worker {
    /// Serves the engine until it is to stop, and returns it.
    pub(super) fn run(mut self) -> Arc<Mutex<Core>> {
        let served = self.serve();
        lock(&self.core).cpu = Some(thread_time());
        // A sleep that fails is a bug of this crate.
        served.expect("epoll on open descriptors");
        self.core
    }

    fn serve(&mut self) -> io::Result<()> {
        sleep_exactly();
        let shared = Arc::clone(&self.core);
        let mut core = lock(&shared);
        core.first = core.first && set_policy(SchedulingPolicy::First(1)).is_ok();
        let awake = core.awake.then(Awake::keep).flatten();
        core.awake = awake.is_some();
        let mut ready = Vec::new();
        // Frames that arrived before the start are found by checking every portal once.
        ready.extend(0..core.attachments.len());
        loop {
            let began = wall_now();
            core.follow();
            core.wake_up(began);
            if let Some(fault) = core.fault.take() {
                resume_unwind(fault);
            }
            if !self.carry_out_orders(&mut core) {
                core.end();
                return Ok(());
            }
            let target = core.paced.pace().limit(began).min(core.stop);
            core.hear_peers(began)?;
            core.catch_up(began);
            if core.stop < target && core.stop <= core.paced.engine.now() {
                core.await_peers(target)?;
                continue;
            }
            let taken_in = core.take_in(&mut ready, &self.poll);
            let wake = core.advance();
            let handed_out = core.hand_out();
            core.tell_peers()?;
            if wake == Wake::Now {
                // Behind schedule: checks the portals without sleeping.
                core.sleeps += 1;
                self.poll
                    .sleep(Some(Instant::ZERO), &self.alarm, &mut ready)?;
                continue;
            }
            let until = match wake {
                Wake::At(at) => Some(at),
                Wake::Now | Wake::OnChange => None,
            };
            if taken_in || handed_out {
                let gap = core.moderation.gap(wall_now(), thread_time);
                rest(began + gap);
            }
            let until = core.fall_asleep(until);
            drop(core);
            let slept = self.poll.sleep(until, &self.alarm, &mut ready);
            core = lock(&shared);
            slept?;
        }
    }

    /// Executes the pending commands; returns false if the thread must end.
    fn carry_out_orders(&self, core: &mut Core) -> bool {
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Do(act) => act(core),
                Command::Grant(until) => core.paced.set_pace(Pace::Granted(until)),
                Command::Leave => {
                    // A failed line accepts nothing more.
                    let _ = core.turn_last(&self.poll);
                    return false;
                }
                Command::Stop => return false,
            }
        }
        true
    }
}
