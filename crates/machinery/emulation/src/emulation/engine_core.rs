//! Engine with its portals, and the steps of which an iteration consists.
//!
//! The engine's thread ([`super::worker`]) holds the lock of this state while it is awake. While
//! all threads of a network sleep, the owner of a stopped clock may run the engines ahead of it
//! ([`super::ahead`]).

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::HashMap;
use std::io;

use timeloom_engine::{Pace, Paced, Wake};
use timeloom_net::{Node, Owner, World};
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_time::{Duration, Instant, Virtual, Wall};
use tracing::trace;

use super::group::{Exchanged, GroupMember};
use super::meeting::Meeting;
use super::{
    CaptureProgressCallback, CaptureSink, EmulationReport, FrameArrivalCallback, SampleCallback,
};
use crate::filter::reports_groups;
use crate::moderation::Moderation;
use crate::poll::Poll;
use crate::portals::Attachment;
use crate::{PortReport, ReceiveResult, Timing, segments};

/// Engine with its portals.
pub(super) struct Core {
    pub(super) paced: Paced<World>,
    pub(super) timing: Timing,
    pub(super) attachments: Vec<Attachment>,
    pub(super) by_node: HashMap<Node, usize>,
    pub(super) arriving: Option<FrameArrivalCallback>,
    pub(super) reproduces: bool,
    pub(super) capture: Option<CaptureSink>,
    pub(super) passed: Option<CaptureProgressCallback>,
    pub(super) sampler: Option<Sampler>,
    /// Instant at which the followed clock stops by itself.
    pub(super) ceiling: Instant<Virtual>,
    /// Instant up to which this engine may run: `ceiling`, or an earlier limit set by other
    /// engines.
    pub(super) stop: Instant<Virtual>,
    pub(super) moderation: Moderation,
    pub(super) first: bool,
    pub(super) awake: bool,
    pub(super) buffer: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    pub(super) sleeps: u64,
    /// True from [`Core::fall_asleep`] to [`Core::wake_up`].
    pub(super) asleep: bool,
    /// Total processor time of the engine's thread, once it has ended.
    pub(super) cpu: Option<Duration>,
    /// Processor time of other threads that have run the engine ahead of its clock.
    pub(super) cpu_ahead: Duration,
    /// Connection to the engines of the other parts of the network.
    pub(super) peers: Option<Meeting>,
    /// Place in the group of engines whose next event must be known.
    pub(super) member: Option<GroupMember>,
    /// Panic of the model while another thread ran it; the engine's thread dies of it.
    pub(super) fault: Option<Box<dyn Any + Send>>,
}

/// Sampling callback with its interval and the next sample instant.
pub(super) struct Sampler {
    every: Duration,
    look: SampleCallback,
    pub(super) next: Instant<Virtual>,
}

impl Sampler {
    /// Creates a sampler that starts at the first multiple of `every` not before `from`.
    pub(super) fn new(every: Duration, look: SampleCallback, from: Instant<Virtual>) -> Self {
        let every = every.max(Duration::from_ns(1));
        let passed_ns = (from - Instant::ZERO).as_ns().max(0);
        let count = passed_ns
            .unsigned_abs()
            .div_ceil(every.as_ns().unsigned_abs());
        Self {
            every,
            look,
            next: Instant::from_ns(count.cast_signed() * every.as_ns()),
        }
    }

    /// Takes the sample that is due.
    pub(super) fn look(&mut self, world: &mut World, peers: Option<&Meeting>) {
        let adjacencies = peers.map(Meeting::report).unwrap_or_default();
        (self.look)(self.next, world, &adjacencies);
        self.next += self.every;
    }
}

/// Number of events between two checks of the portals.
const EVENTS: u64 = 256;
/// Number of frames between two checks of the events.
const FRAMES: usize = 64;

impl Core {
    /// Reads the clock's current map.
    pub(super) fn follow(&mut self) {
        self.ceiling = Instant::FAR_FUTURE;
        if let Timing::Follow(clock) = &self.timing {
            let (map, stop) = clock.map_and_stop();
            self.ceiling = stop;
            self.paced.follow(map, stop);
        }
        self.stop = self.ceiling;
    }

    /// Last iteration before the engine leaves the others: reads all input that has arrived,
    /// handles the due events and sends the output. Nothing later is handled, however long this
    /// takes.
    pub(super) fn turn_last(&mut self, poll: &Poll) -> io::Result<()> {
        let now = wall_now();
        self.follow();
        let last = self.paced.limit(now);
        // A worker without a clock has no limit and would run forever.
        if last < Instant::FAR_FUTURE {
            self.stop = last;
        }
        self.hear_peers(now)?;
        self.catch_up(now);
        let mut ready: Vec<usize> = (0..self.attachments.len()).collect();
        self.take_in(&mut ready, poll);
        while self.advance() == Wake::Now {}
        if last < Instant::FAR_FUTURE {
            self.paced.engine.run_until(last, 1);
        }
        self.hand_out();
        self.tell_peers()
    }

    /// Receives messages of other engines and the limit up to which they let this one run.
    pub(super) fn hear_peers(&mut self, now: Instant<Wall>) -> io::Result<()> {
        let Some(peers) = &mut self.peers else {
            return Ok(());
        };
        let pace = self.paced.pace();
        let floor = self.member.as_ref().map(GroupMember::floor);
        let safe = peers.receive(&mut self.paced.engine, pace, now, floor)?;
        self.stop = self.stop.min(safe);
        self.paced.set_stop(self.stop);
        Ok(())
    }

    /// Sends outgoing packets to the other engines.
    pub(super) fn tell_peers(&mut self) -> io::Result<()> {
        match &mut self.peers {
            Some(peers) => peers.send(&mut self.paced.engine),
            None => Ok(()),
        }
    }

    /// Waits for other engines: the clock is at `target`, but they may still send packets that
    /// arrive earlier. First announces this engine's progress. Frames of the portals wait as well,
    /// because their time stamps would be too early.
    pub(super) fn await_peers(&mut self, target: Instant<Virtual>) -> io::Result<()> {
        self.hand_out();
        self.tell_peers()?;
        trace!(
            virtual_ns = self.paced.engine.now().as_ns(),
            clock_ns = target.as_ns(),
            "waits for other engines"
        );
        if let Some(peers) = &self.peers {
            peers.await_others(target);
        }
        Ok(())
    }

    /// Prepares a sleep until `until`; returns the time at which it must end, which other engines
    /// may need to be earlier. Must be followed by [`Core::wake_up`].
    pub(super) fn fall_asleep(&mut self, until: Option<Instant<Wall>>) -> Option<Instant<Wall>> {
        self.sleeps += 1;
        let undecided = self.attachments.iter_mut().map(Attachment::is_undecided);
        if undecided.filter(|it| *it).count() > 0 {
            if let Some(member) = &self.member {
                let connections = self.attachments.iter().flat_map(Attachment::undecided);
                member.undecided(connections);
            }
            trace!("a kernel has not decided about losses");
            // Without an announcement, time does not skip.
            let soon = wall_now() + LOOK_AGAIN;
            return Some(until.map_or(soon, |until| until.min(soon)));
        }
        self.asleep = true;
        let next = self.paced.engine.next_wake();
        if let Some(member) = &self.member {
            member.asleep(next, self.exchanged());
        }
        let Some(peers) = &self.peers else {
            return until;
        };
        let pace = self.paced.pace();
        let map = match &pace {
            Pace::Clock(map) => Some(map),
            Pace::Free | Pace::Granted(_) => None,
        };
        if self.member.is_none() {
            let soon = peers.doze(next, map);
            return Some(until.map_or(soon, |until| until.min(soon)));
        }
        // In a group the next event needs no promise of engines that rest until then.
        let soon = peers.doze(None, map);
        let due = next.filter(|next| *next <= self.ceiling);
        let due = due.and_then(|next| map?.first_reaching(next));
        Some(due.map_or(soon, |due| due.min(soon)))
    }

    /// Returns the numbers of packets exchanged with other engines.
    pub(super) fn exchanged(&self) -> impl Iterator<Item = Exchanged> {
        self.peers.iter().flat_map(Meeting::exchanged)
    }

    /// Ends a sleep, if the engine was asleep, at wall time `now`.
    pub(super) fn wake_up(&mut self, now: Instant<Wall>) {
        if !std::mem::take(&mut self.asleep) {
            return;
        }
        if let Some(peers) = &self.peers {
            peers.wake();
        }
        if let Some(member) = &self.member {
            member.awake(self.paced.limit(now));
        }
    }

    /// Takes the last sample and leaves the other engines.
    pub(super) fn end(&mut self) {
        if self.sampler.is_some() {
            if self.member.is_some() {
                // Time may have moved since the last iteration.
                self.follow();
                // A line that has failed sends nothing.
                let _ = self.hear_peers(wall_now());
            }
            self.advance();
        }
        if let Some(peers) = &mut self.peers {
            peers.close();
        }
        self.member = None;
        for card in self.attachments.iter().filter_map(|it| it.card.as_ref()) {
            card.end();
        }
    }

    /// Marks a generation of another engine as dead.
    pub(super) fn mark_dead(&mut self, there: Owner, epoch: u64) {
        if let Some(peers) = &mut self.peers {
            peers.mark_dead(&mut self.paced.engine, there, epoch);
        }
    }

    /// Advances the model to the present, so that frames read now get the present as time stamp.
    pub(super) fn catch_up(&mut self, now: Instant<Wall>) {
        let limit = self.paced.limit(now);
        if limit == Instant::FAR_FUTURE {
            return;
        }
        if self.advance() != Wake::Now {
            let engine = &mut self.paced.engine;
            if engine.next_wake().is_none_or(|next| next > limit) {
                engine.run_until(limit, 1);
            }
        }
    }

    /// Handles due events and takes due samples; for each sample the model is exactly at the
    /// sample's instant.
    pub(super) fn advance(&mut self) -> Wake {
        let Some(mut sampler) = self.sampler.take() else {
            return self.paced.poll(wall_now, EVENTS);
        };
        let wake = loop {
            let pace = self.paced.pace();
            let limit = pace.limit(wall_now()).min(self.stop);
            // Without a pace there is no present to which a quiet network could be advanced.
            if sampler.next > limit || limit == Instant::FAR_FUTURE {
                break self.paced.poll(wall_now, EVENTS);
            }
            self.paced.set_stop(sampler.next);
            let behind = self.paced.poll(wall_now, EVENTS) == Wake::Now;
            self.paced.set_stop(self.stop);
            if behind {
                break Wake::Now;
            }
            let engine = &mut self.paced.engine;
            engine.run_until(sampler.next, 1);
            sampler.look(&mut engine.model, self.peers.as_ref());
        };
        self.sampler = Some(sampler);
        wake
    }

    /// Reads frames from the ready portals; returns true if there were any. The number of frames
    /// per portal is bounded, so that no portal starves another.
    pub(super) fn take_in(&mut self, ready: &mut Vec<usize>, poll: &Poll) -> bool {
        let mut any = false;
        for index in ready.drain(..) {
            let attachment = &mut self.attachments[index];
            for _ in 0..FRAMES {
                let received = attachment.port.receive(&mut self.buffer);
                let (used, offload) = match received {
                    Ok(ReceiveResult::Frame(used, offload)) => (used, offload),
                    Ok(ReceiveResult::Malformed) => {
                        attachment.report.malformed += 1;
                        continue;
                    }
                    Ok(ReceiveResult::Nothing) => {
                        if let Some(card) = &attachment.card {
                            card.note_drained();
                        }
                        break;
                    }
                    Err(_) => {
                        // The interface is gone; the other portals continue.
                        attachment.report.gone = true;
                        poll.forget(attachment.port.descriptor());
                        break;
                    }
                };
                any = true;
                self.moderation.moved(used);
                if reports_groups(&self.buffer[..used]) {
                    // Kernels send group reports at arbitrary times, and the model has no use for
                    // them.
                    continue;
                }
                if !attachment.inward.is_empty() && !attachment.inward.passes(&self.buffer[..used])
                {
                    attachment.report.filtered += 1;
                    continue;
                }
                attachment.report.received += 1;
                attachment.report.received_bytes += used as u64;
                let (node, buffer) = (attachment.node, &mut self.buffer);
                let card = attachment.card.as_ref();
                let tag = card.and_then(|card| card.note_read(&buffer[..used]));
                self.paced.engine.with(|world, agenda| match tag {
                    None => world.send_frame(node, buffer, used, offload, agenda),
                    Some(tag) => {
                        world.send_stamped_frame(node, (buffer, used), offload, tag, agenda);
                    }
                });
                if self.reproduces {
                    let sent = self.paced.engine.model.take_sent_segment(node);
                    if let Some(segment) = sent {
                        attachment.note_sent(&segment);
                    }
                }
            }
        }
        any
    }

    /// Reports the departures of stamped frames to the network cards.
    fn report_departures(&mut self) {
        while let Some((node, tag, at)) = self.paced.engine.model.take_departure() {
            let index = self.by_node.get(&node);
            let card = index.and_then(|index| self.attachments[*index].card.as_ref());
            if let Some(card) = card {
                card.note_departure(tag, at);
            }
        }
    }

    /// Delivers frames that have arrived at the portals' hosts; returns true if there were any.
    pub(super) fn hand_out(&mut self) -> bool {
        self.report_departures();
        let (attachments, by_node) = (&mut self.attachments, &self.by_node);
        let moderation = &mut self.moderation;
        let pace = self.paced.pace();
        let now = self.paced.engine.now();
        let world = &mut self.paced.engine.model;
        let mut any = false;
        while let Some(node) = world.next_frame() {
            let after_gap = world.next_frame_after_gap();
            let waits = by_node.get(&node).filter(|_| self.reproduces);
            if let Some((acknowledgement, index)) = after_gap.zip(waits) {
                let attachment = &mut attachments[*index];
                if let Some(until) = attachment.not_before(&acknowledgement) {
                    rest(until);
                }
            }
            any = true;
            world.take_frame(|node, frame| {
                let Some(index) = by_node.get(&node) else {
                    return;
                };
                moderation.moved(frame.head.len() + frame.rest.len());
                if let Some(arriving) = &self.arriving {
                    arriving(now);
                }
                attachments[*index].give(&frame);
            });
            if let Some((acknowledgement, index)) = after_gap.zip(by_node.get(&node)) {
                let attachment = &mut attachments[*index];
                attachment.flush();
                attachment.note_gap(acknowledgement.ends);
                // The next frame must not come before the decision in one run, and after it in
                // another.
                while self.reproduces && attachment.is_undecided() {
                    if let Some(member) = &self.member {
                        member.undecided(attachment.undecided());
                    }
                    rest(wall_now() + LOOK_AGAIN);
                }
                if let Some(member) = &self.member {
                    member.undecided(std::iter::empty());
                }
            }
        }
        if any {
            for attachment in attachments {
                attachment.flush();
            }
        }
        let Some(capture) = &mut self.capture else {
            return any;
        };
        let scratch = &mut self.scratch;
        while world
            .take_captured(|port, frame| {
                let wall = wall_of(&pace, frame.at);
                segments(&frame, scratch, |bytes| {
                    capture(port, frame.at, wall, bytes)
                });
            })
            .is_some()
        {}
        if let Some(passed) = &self.passed {
            // More frames may pass at this very instant.
            passed(self.paced.engine.now() - Duration::from_ns(1));
        }
        any
    }

    pub(super) fn report(&self) -> EmulationReport {
        let engine = &self.paced.engine;
        let ports = self.attachments.iter().map(|attachment| PortReport {
            tcp_timers: engine.model.tcp_timer_stats(attachment.node, engine.now()),
            dropped_before: attachment.port.dropped_before(),
            ..attachment.report.clone()
        });
        EmulationReport {
            now: engine.now(),
            events: engine.handled(),
            lateness: self.paced.lateness().clone(),
            counters: engine.model.counters(),
            packets_alive: engine.model.packets_alive(),
            ports: ports.collect(),
            cpu: self.cpu.unwrap_or_else(thread_time) + self.cpu_ahead,
            state_bytes: engine.model.state_bytes(),
            sleeps: self.sleeps,
            first: self.first,
            awake: self.awake,
            adjacencies: self.peers.as_ref().map(Meeting::report).unwrap_or_default(),
        }
    }
}

/// Interval in which a kernel that decides about losses is asked.
const LOOK_AGAIN: Duration = Duration::from_us(500);

/// Locks an engine. Another thread that held the lock has left a whole state.
pub(super) fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock()
}

/// Sleeps until `until`; nothing interrupts this sleep.
pub(super) fn rest(until: Instant<Wall>) {
    let left = until - wall_now();
    if left > Duration::ZERO {
        let left = std::time::Duration::from_nanos(left.as_ns().unsigned_abs());
        std::thread::sleep(left);
    }
}

/// Returns the wall time at which the clock showed `at`.
fn wall_of(pace: &Pace, at: Instant<Virtual>) -> Instant<Wall> {
    match pace {
        Pace::Clock(map) if at > map.out0 => map.first_reaching(at).unwrap_or_else(wall_now),
        _ => wall_now(),
    }
}
