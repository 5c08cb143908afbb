//! Thread that runs an engine and serves its portals.
//!
//! An iteration handles the events that are due, delivers the frames that have reached their hosts,
//! reads the portals, executes commands, and sleeps until the next event or frame. All of this is
//! done in one thread, so the path of a packet takes no locks.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Receiver;

use timeloom_engine::{Awake, Pace, Paced, Wake};
use timeloom_net::{Node, Owner, World};
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_sys::schedule::{Policy, set_policy, sleep_exactly};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use super::meeting::Meeting;
use super::{Arriving, Capture, Command, Report, Sample};
use crate::filter::reports_groups;
use crate::moderation::Moderation;
use crate::poll::{Alarm, Poll};
use crate::portals::Attachment;
use crate::{PortReport, Received, Timing, segments};

/// State of the thread.
pub(super) struct Worker {
    pub(super) paced: Paced<World>,
    pub(super) timing: Timing,
    pub(super) attachments: Vec<Attachment>,
    pub(super) by_node: HashMap<Node, usize>,
    pub(super) capture: Option<Capture>,
    pub(super) arriving: Option<Arriving>,
    pub(super) reproduces: bool,
    pub(super) sampler: Option<Sampler>,
    /// Instant at which the clock that is followed stops by itself.
    pub(super) stop: Instant<Virtual>,
    pub(super) moderation: Moderation,
    pub(super) first: bool,
    pub(super) awake: bool,
    pub(super) poll: Poll,
    pub(super) alarm: Alarm,
    pub(super) orders: Receiver<Command>,
    pub(super) buffer: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    pub(super) sleeps: u64,
    /// Processor time that the thread has used; set when the thread has ended.
    pub(super) cpu: Option<Duration>,
    /// Connection to the engines of the other parts of the network, if there are any.
    pub(super) peers: Option<Meeting>,
}

/// Sampling function, with its interval and the instant of the next sample.
pub(super) struct Sampler {
    every: Duration,
    look: Sample,
    next: Instant<Virtual>,
}

impl Sampler {
    /// Creates a sampler whose first sample is at the first multiple of `every` that is not before
    /// `from`.
    pub(super) fn new(every: Duration, look: Sample, from: Instant<Virtual>) -> Self {
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
    fn look(&mut self, world: &mut World, peers: Option<&Meeting>) {
        let adjacencies = peers.map(Meeting::report).unwrap_or_default();
        (self.look)(self.next, world, &adjacencies);
        self.next += self.every;
    }
}

/// Maximum number of events between two checks of the portals. The next constant is the maximum
/// number of frames read between two checks of the events.
const EVENTS: u64 = 256;
const FRAMES: usize = 64;

/// Maximum number of events handled while the clock waits at one instant. They take some
/// milliseconds, so that a pause that is requested meanwhile is not delayed for long.
const AHEAD: u64 = 16_384;

impl Worker {
    pub(super) fn run(mut self) -> Self {
        let served = self.serve();
        self.cpu = Some(thread_time());
        // A sleep that fails is a bug of this crate.
        served.expect("epoll on open descriptors");
        self
    }

    fn serve(&mut self) -> io::Result<()> {
        sleep_exactly();
        self.first = self.first && set_policy(Policy::First(1)).is_ok();
        let awake = self.awake.then(Awake::keep).flatten();
        self.awake = awake.is_some();
        let mut ready = Vec::new();
        // Every portal is checked once, because frames may have arrived before the start.
        ready.extend(0..self.attachments.len());
        loop {
            if !self.carry_out_orders() {
                if self.sampler.is_some() {
                    self.advance();
                }
                if let Some(peers) = &mut self.peers {
                    peers.close();
                }
                return Ok(());
            }
            let began = wall_now();
            self.follow();
            let target = self.paced.pace().limit(began).min(self.stop);
            self.hear_peers(began)?;
            self.catch_up(began);
            if self.stop < target && self.stop <= self.paced.engine.now() {
                self.await_peers(target)?;
                continue;
            }
            let taken_in = self.take_in(&mut ready);
            let wake = self.advance();
            let handed_out = self.hand_out();
            self.tell_peers()?;
            if wake == Wake::Now {
                // The engine is behind schedule, so the portals are checked without sleeping.
                self.sleep(Some(Instant::ZERO), &mut ready)?;
                continue;
            }
            let until = match wake {
                Wake::At(at) => Some(at),
                Wake::Now | Wake::OnChange => None,
            };
            if taken_in || handed_out {
                let gap = self.moderation.gap(wall_now(), thread_time);
                rest(began + gap);
            }
            if let Timing::Follow(clock) = &self.timing {
                clock.asleep(self.paced.engine.next_wake());
            }
            self.sleep_for_peers(until, &mut ready)?;
            if let Timing::Follow(clock) = &self.timing {
                clock.awake();
            }
        }
    }

    /// Reads the clock's present map.
    fn follow(&mut self) {
        self.stop = Instant::FAR_FUTURE;
        if let Timing::Follow(clock) = &self.timing {
            let (map, stop) = clock.map_and_stop();
            self.stop = stop;
            self.paced.follow(map, stop);
        }
    }

    /// Performs the last iteration before the engine leaves the others: reads all input that has
    /// arrived, handles the events that are due at its start, and sends the output. Later events
    /// are not handled, however long this takes.
    fn turn_last(&mut self) -> io::Result<()> {
        let now = wall_now();
        self.follow();
        let last = self.paced.limit(now);
        // Without a clock there is no limit, and the engine would run forever.
        if last < Instant::FAR_FUTURE {
            self.stop = last;
        }
        self.hear_peers(now)?;
        self.catch_up(now);
        let mut ready: Vec<usize> = (0..self.attachments.len()).collect();
        self.take_in(&mut ready);
        while self.advance() == Wake::Now {}
        if last < Instant::FAR_FUTURE {
            self.paced.engine.run_until(last, 1);
        }
        self.hand_out();
        self.tell_peers()
    }

    /// Receives messages of other engines, and the instant up to which they let this engine run.
    fn hear_peers(&mut self, now: Instant<Wall>) -> io::Result<()> {
        let Some(peers) = &mut self.peers else {
            return Ok(());
        };
        let pace = self.paced.pace();
        let safe = peers.receive(&mut self.paced.engine, pace, now)?;
        self.stop = self.stop.min(safe);
        self.paced.set_stop(self.stop);
        Ok(())
    }

    /// Sends outgoing packets to the other engines.
    fn tell_peers(&mut self) -> io::Result<()> {
        match &mut self.peers {
            Some(peers) => peers.send(&mut self.paced.engine),
            None => Ok(()),
        }
    }

    /// Waits for other engines: the clock has reached `target`, but they may still send packets
    /// that arrive earlier. Before that, announces this engine's progress. The portals are not read
    /// during the wait, because the timestamps of their frames would be too early.
    fn await_peers(&mut self, target: Instant<Virtual>) -> io::Result<()> {
        self.hand_out();
        self.tell_peers()?;
        if let Some(peers) = &self.peers {
            peers.await_others(target);
        }
        Ok(())
    }

    /// Sleeps until `until`, or until an earlier time at which the other engines need this one.
    fn sleep_for_peers(
        &mut self,
        until: Option<Instant<Wall>>,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        let Some(peers) = &self.peers else {
            return self.sleep(until, ready);
        };
        let pace = self.paced.pace();
        let map = match &pace {
            Pace::Clock(map) => Some(map),
            Pace::Free | Pace::Granted(_) => None,
        };
        let soon = peers.doze(self.paced.engine.next_wake(), map);
        let until = until.map_or(soon, |until| until.min(soon));
        let slept = self.sleep(Some(until), ready);
        if let Some(peers) = &self.peers {
            peers.wake();
        }
        slept
    }

    /// Marks the generation of engine `there` that began at `epoch` as dead.
    pub(super) fn bury(&mut self, there: Owner, epoch: u64) {
        if let Some(peers) = &mut self.peers {
            peers.bury(&mut self.paced.engine, there, epoch);
        }
    }

    /// Advances the model to the present, so that frames read now get the present as their
    /// timestamp.
    fn catch_up(&mut self, now: Instant<Wall>) {
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

    /// Handles the events that are due and takes the samples that are due. For each sample, the
    /// model is exactly at the sample's instant.
    fn advance(&mut self) -> Wake {
        let Some(mut sampler) = self.sampler.take() else {
            return self.paced.poll(wall_now, EVENTS);
        };
        let wake = loop {
            let pace = self.paced.pace();
            let limit = pace.limit(wall_now()).min(self.stop);
            // Without a clock there is no present to which a quiet network could be advanced.
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

    /// Reads frames from the portals in `ready`; returns true if there were any. The number of
    /// frames per portal is limited, so that no portal starves another.
    fn take_in(&mut self, ready: &mut Vec<usize>) -> bool {
        let mut any = false;
        for index in ready.drain(..) {
            let attachment = &mut self.attachments[index];
            for _ in 0..FRAMES {
                let received = attachment.port.receive(&mut self.buffer);
                let (used, offload) = match received {
                    Ok(Received::Frame(used, offload)) => (used, offload),
                    Ok(Received::Malformed) => {
                        attachment.report.malformed += 1;
                        continue;
                    }
                    Ok(Received::Nothing) => break,
                    Err(_) => {
                        // The interface was removed. The other portals continue.
                        attachment.report.gone = true;
                        self.poll.forget(attachment.port.descriptor());
                        break;
                    }
                };
                any = true;
                self.moderation.moved(used);
                if reports_groups(&self.buffer[..used]) {
                    // Kernels send reports of multicast groups at arbitrary times, and the model
                    // does not need them.
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
                self.paced.engine.with(|world, agenda| {
                    world.send_frame(node, buffer, used, offload, agenda);
                });
                if self.reproduces {
                    let seen = self.paced.engine.model.tcp_seen(node);
                    attachment.repair.note_sent(seen, wall_now());
                }
            }
        }
        any
    }

    /// Delivers the frames that have reached the portals' hosts; returns true if there were any.
    fn hand_out(&mut self) -> bool {
        let (attachments, by_node) = (&mut self.attachments, &self.by_node);
        let moderation = &mut self.moderation;
        let pace = self.paced.pace();
        let now = self.paced.engine.now();
        let world = &mut self.paced.engine.model;
        let mut any = false;
        while let Some(node) = world.next_frame() {
            if let Some(index) = by_node.get(&node).filter(|_| self.reproduces) {
                let repair = &mut attachments[*index].repair;
                if let Some(until) = repair.not_before(world.tcp_seen(node), wall_now()) {
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
        any
    }

    /// Handles the events up to `limit` independently of the clock, but none after the first
    /// instant at which there is a frame for a portal. The frame is not delivered yet. Returns the
    /// instant reached.
    pub(super) fn go_ahead(&mut self, limit: Instant<Virtual>) -> Instant<Virtual> {
        for _ in 0..AHEAD {
            let Some(sampler) = self.sampler.as_mut().filter(|it| it.next <= limit) else {
                break;
            };
            self.paced.run_ahead(sampler.next, AHEAD, World::has_frame);
            let engine = &mut self.paced.engine;
            let is_due = engine.next_wake().is_some_and(|at| at <= sampler.next);
            if is_due || World::has_frame(&engine.model) {
                return engine.now();
            }
            engine.run_until(sampler.next, 1);
            sampler.look(&mut engine.model, self.peers.as_ref());
        }
        self.paced.run_ahead(limit, AHEAD, World::has_frame)
    }

    fn sleep(&mut self, until: Option<Instant<Wall>>, ready: &mut Vec<usize>) -> io::Result<()> {
        self.sleeps += 1;
        self.poll.sleep(until, &self.alarm, ready)
    }

    /// Executes the pending commands; returns false if the thread must end.
    fn carry_out_orders(&mut self) -> bool {
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Do(act) => act(self),
                Command::Grant(until) => self.paced.set_pace(Pace::Granted(until)),
                Command::Leave => {
                    // A connection that has failed accepts no more output.
                    let _ = self.turn_last();
                    return false;
                }
                Command::Stop => return false,
            }
        }
        true
    }

    pub(super) fn report(&self) -> Report {
        let engine = &self.paced.engine;
        let ports = self.attachments.iter().map(|attachment| PortReport {
            tcp_timers: engine.model.tcp_timer_stats(attachment.node),
            dropped_before: attachment.port.dropped_before(),
            ..attachment.report.clone()
        });
        Report {
            now: engine.now(),
            events: engine.handled(),
            lateness: self.paced.lateness().clone(),
            counters: engine.model.counters(),
            packets_alive: engine.model.packets_alive(),
            ports: ports.collect(),
            cpu: self.cpu.unwrap_or_else(thread_time),
            state_bytes: engine.model.state_bytes(),
            sleeps: self.sleeps,
            first: self.first,
            awake: self.awake,
            adjacencies: self.peers.as_ref().map(Meeting::report).unwrap_or_default(),
        }
    }
}

/// Sleeps until `until`. Nothing interrupts this sleep, not even the alarm.
fn rest(until: Instant<Wall>) {
    let left = until - wall_now();
    if left > Duration::ZERO {
        let left = std::time::Duration::from_nanos(left.as_ns().unsigned_abs());
        std::thread::sleep(left);
    }
}

/// Returns the wall time at which the clock shows `at`.
fn wall_of(pace: &Pace, at: Instant<Virtual>) -> Instant<Wall> {
    match pace {
        Pace::Clock(map) if at > map.out0 => map.first_reaching(at).unwrap_or_else(wall_now),
        _ => wall_now(),
    }
}
