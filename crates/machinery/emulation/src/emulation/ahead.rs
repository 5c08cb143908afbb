//! Engines of a network run ahead of a stopped clock, as one.
//!
//! While all threads of the network sleep, the thread that moves the clock runs the engines itself:
//! always the one with the earliest event, up to the earliest event of the others, as one engine
//! would handle the events of the whole network. So no engine has passed the instant at which
//! another has a frame for a program, and the program's answer enters the network in time. A packet
//! for another engine is handed over before that engine runs.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use timeloom_net::World;
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_time::{Duration, Instant, Virtual};
use tracing::trace;

use super::engine_core::Core;
use super::group::EngineGroup;
use super::meeting::Meeting;
use super::{ArrivalCallback, Emulation};
use crate::poll::Alarm;

/// An engine of the group, and the alarm of its thread.
struct Seat {
    core: Weak<Mutex<Core>>,
    alarm: Alarm,
}

impl EngineGroup {
    /// Returns a function with which the owner of a stopped clock lets the network in these engines
    /// run ahead of the clock; any thread may call it. The network runs up to the given instant,
    /// but not past the first instant at which it has a frame for a portal. The callback then
    /// receives the instant reached and moves the clock there before any frame is delivered.
    /// Returns false, without a call of the callback, if an engine does not sleep or none is left.
    pub fn ahead(
        &self,
        engines: &[&Emulation],
    ) -> impl Fn(Instant<Virtual>, ArrivalCallback) -> bool + Send + Sync + use<> {
        let group = self.clone();
        let seats: Vec<Seat> = engines.iter().map(|engine| engine.seat()).collect();
        move |limit, arrive| go_ahead(&group, &seats, limit, arrive)
    }
}

impl Emulation {
    fn seat(&self) -> Seat {
        Seat {
            core: Weak::clone(&self.core),
            alarm: self.remote.alarm.clone(),
        }
    }
}

fn go_ahead(
    group: &EngineGroup,
    seats: &[Seat],
    limit: Instant<Virtual>,
    arrive: ArrivalCallback,
) -> bool {
    // An engine that has died is not there any more.
    let present = seats
        .iter()
        .filter_map(|seat| Some((seat.core.upgrade()?, &seat.alarm)));
    let present: Vec<(Arc<Mutex<Core>>, &Alarm)> = present.collect();
    let mut locked = Vec::new();
    for (core, _) in &present {
        // The lock of an engine that does not sleep may be held for long.
        match core.try_lock() {
            Some(core) => locked.push(core),
            None => return false,
        }
    }
    let mut engines: Vec<&mut Core> = locked.iter_mut().map(|core| &mut **core).collect();
    let is_served = engines.iter().all(|core| core.member.is_some());
    if engines.is_empty() || !is_served || !group.rests() {
        return false;
    }
    let began = (thread_time(), handled(&engines));
    engines.iter_mut().for_each(|core| core.begin_ahead());
    let mut at_work = 0;
    // A fault of the model is one of its engine, whose thread reports it.
    let reached = catch_unwind(AssertUnwindSafe(|| {
        run_together(&mut engines, limit, &mut at_work)
    }));
    let mut is_quiet: Vec<bool> = engines.iter_mut().map(|core| core.end_ahead()).collect();
    share_cpu(&mut engines, began);
    let arrived = match reached {
        Ok(reached) => {
            trace!(
                virtual_ns = reached.as_ns(),
                limit_ns = limit.as_ns(),
                "ran ahead of the clock"
            );
            group.announce();
            arrive(reached);
            true
        }
        Err(fault) => {
            engines[at_work].fault = Some(fault);
            is_quiet[at_work] = false;
            false
        }
    };
    for ((_, alarm), _) in present.iter().zip(&is_quiet).filter(|(_, quiet)| !**quiet) {
        alarm.ring();
    }
    arrived
}

/// Runs the engines up to `limit`, but not past the first instant at which one has a frame for a
/// portal, and returns the instant reached. `at_work` is the number of the engine that runs.
fn run_together(
    engines: &mut [&mut Core],
    limit: Instant<Virtual>,
    at_work: &mut usize,
) -> Instant<Virtual> {
    let mut until = limit;
    let mut left = AHEAD;
    while let Some((index, others)) = first_of(engines, until) {
        *at_work = index;
        let core = &mut *engines[index];
        left = left.saturating_sub(core.run_ahead(until.min(others), left.max(1)));
        let (now, world) = (core.paced.engine.now(), &core.paced.engine.model);
        if left == 0 || has_news(world) {
            // Events that are due at this very instant are handled in all engines.
            until = until.min(now);
        }
        if world.has_crossing() {
            core.hand_over();
            // The receivers on other machines may answer from then on.
            let earliest = core.peers.as_mut().and_then(Meeting::take_earliest);
            until = earliest.map_or(until, |earliest| until.min(earliest));
            for (other, core) in engines.iter_mut().enumerate() {
                *at_work = other;
                core.take_over();
            }
        }
    }
    for (index, core) in engines.iter_mut().enumerate() {
        *at_work = index;
        core.come_to(until);
    }
    let reached = engines.iter().map(|core| core.paced.engine.now()).max();
    reached.unwrap_or(until)
}

/// Returns the engine with the earliest event, if that is due at `until` or earlier, and the
/// earliest event of the others.
fn first_of(engines: &[&mut Core], until: Instant<Virtual>) -> Option<(usize, Instant<Virtual>)> {
    let mut first: Option<(usize, Instant<Virtual>)> = None;
    let mut second = Instant::FAR_FUTURE;
    for (index, core) in engines.iter().enumerate() {
        let Some(next) = core.paced.engine.next_wake() else {
            continue;
        };
        match first {
            Some((_, earliest)) if earliest <= next => second = second.min(next),
            Some((_, earliest)) => {
                second = earliest;
                first = Some((index, next));
            }
            None => first = Some((index, next)),
        }
    }
    let (index, _) = first.filter(|(_, next)| *next <= until)?;
    Some((index, second))
}

/// Returns true if a frame waits for a portal, or the departure of a stamped frame for its card.
fn has_news(world: &World) -> bool {
    world.has_frame() || world.has_departure()
}

/// Returns the number of events that each engine has handled.
fn handled(engines: &[&mut Core]) -> Vec<u64> {
    let engines = engines.iter();
    engines.map(|core| core.paced.engine.handled()).collect()
}

/// Adds the processor time of this thread since `began` to the engines, by their events since then.
fn share_cpu(engines: &mut [&mut Core], (began, before): (Duration, Vec<u64>)) {
    let used_ns = (thread_time() - began).as_ns() as f64;
    let after = handled(engines);
    let events: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let all = events.iter().sum::<u64>().max(1) as f64;
    for (core, own) in engines.iter_mut().zip(events) {
        core.cpu_ahead += Duration::from_ns((used_ns * own as f64 / all) as i64);
    }
}

impl Core {
    /// Prepares the engine, whose thread sleeps, to be run by this thread.
    fn begin_ahead(&mut self) {
        if let Some(peers) = &mut self.peers {
            // What the engine's thread has sent limits the turn of this machine already.
            let _ = peers.take_earliest();
            // Packets between engines need not wake their threads.
            peers.wake();
        }
    }

    /// Ends a run ahead of the clock: from now on, input wakes the engine's thread. Returns false
    /// if that thread already has something to do.
    fn end_ahead(&mut self) -> bool {
        let next = self.paced.engine.next_wake();
        if let Some(member) = &self.member {
            member.refresh(next, self.exchanged());
        }
        let is_quiet = self.peers.as_ref().is_none_or(Meeting::listen);
        is_quiet && !has_news(&self.paced.engine.model)
    }

    /// Handles the events due up to `bound`, independently of the clock, at most `budget` of them,
    /// and none after one with a frame for a portal or a packet for another engine. Returns their
    /// number.
    fn run_ahead(&mut self, bound: Instant<Virtual>, budget: u64) -> u64 {
        let has_output = |world: &World| has_news(world) || world.has_crossing();
        let before = self.paced.engine.handled();
        loop {
            let done = self.paced.engine.handled() - before;
            let next = self.paced.engine.next_wake().filter(|next| *next <= bound);
            let Some(next) = next.filter(|_| done < budget) else {
                return done;
            };
            let sample = self.sampler.as_ref().map(|sampler| sampler.next);
            if sample.is_some_and(|sample| sample < next) {
                self.take_sample();
                continue;
            }
            let part = sample.map_or(bound, |sample| sample.min(bound));
            self.paced.run_ahead(part, budget - done, has_output);
            if has_output(&self.paced.engine.model) {
                return self.paced.engine.handled() - before;
            }
        }
    }

    /// Advances an engine that has no event up to `until` to that instant, and takes the samples
    /// that are due.
    fn come_to(&mut self, until: Instant<Virtual>) {
        if until == Instant::FAR_FUTURE {
            return;
        }
        while self.sampler.as_ref().is_some_and(|it| it.next <= until) {
            self.take_sample();
        }
        self.paced.engine.run_until(until, 1);
    }

    /// Takes the next sample, before which no event is left.
    fn take_sample(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            let engine = &mut self.paced.engine;
            engine.run_until(sampler.next, 1);
            sampler.look(&mut engine.model, self.peers.as_ref());
        }
    }

    /// Sends the packets that have left for other engines.
    fn hand_over(&mut self) {
        // Only sockets fail, and these engines are threads.
        let _ = self.tell_peers();
    }

    /// Receives packets of the other engines.
    fn take_over(&mut self) {
        let _ = self.hear_peers(wall_now());
    }
}

/// Events handled while the clock waits at one instant. They take some milliseconds, so that a
/// pause requested meanwhile does not wait long.
const AHEAD: u64 = 16_384;
