//! The thread that runs the engine and serves its portals.
//!
//! One turn: handle the events that are due, hand out the frames that have
//! arrived, take in what the portals have, carry out commands, sleep until the
//! next event or frame. Nothing else runs in this thread, so that there are no
//! locks on the way of a packet.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use timeloom_engine::{Awake, Engine, Lateness, Limit, Pace, Paced, Wake};
use timeloom_net::{Counters, LARGE, Node, PortId, World};
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_sys::schedule::{Policy, set_policy, sleep_exactly};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::moderation::Moderation;
use crate::poll::{Alarm, Poll};
use crate::portals::Attachment;
use crate::{PortReport, PortalError, Portals, Received, Timing, segments};

/// Where what was captured on watched links goes: out of which port of the model
/// the link leads, when it arrived at its end in virtual time and on the machine's
/// clock, and the frame as a wire carries it. Runs in the emulation's thread.
pub type Capture = Box<dyn FnMut(PortId, Instant<Virtual>, Instant<Wall>, &[u8]) + Send>;

/// How an emulation runs.
pub struct Options {
    /// Past what its results are not to be trusted. In virtual time.
    pub limit: Limit,
    /// How long before an event the thread stops sleeping and looks at the
    /// clock instead. Costs that much of a core per event, and saves what the
    /// machine's timers are late; zero by default.
    pub spin: Duration,
    /// The longest time between two turns under load, as network cards have it
    /// between two interrupts: it saves most of the cost of a turn and delays a
    /// frame by up to this, twice. A thread that is at work for less than a fifth
    /// of the time serves each frame at once. In wall time.
    pub moderation: Duration,
    /// Whether frames of a flow that one turn hands out go out as one train where
    /// they can, as Ethernet drivers do (GRO). Nothing waits for it. True by default.
    pub join: bool,
    /// Whether the thread goes before all ordinary programs of the machine
    /// (`SCHED_FIFO`), where that is allowed: an engine mostly sleeps, and
    /// another program's time slice would make it milliseconds late. True by
    /// default.
    pub first: bool,
    /// Whether the machine's processors are kept from sleeping meanwhile, where
    /// that is allowed: to wake one takes tens of µs in a virtual machine, and a
    /// ping has four who wait for that. Idle processors then use power. True
    /// by default.
    pub awake: bool,
    /// What is seen on these links goes to the capture.
    pub watch: Vec<PortId>,
    /// Where it goes.
    pub capture: Option<Capture>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit: Limit::default(),
            spin: Duration::ZERO,
            moderation: Duration::from_us(200),
            join: true,
            first: true,
            awake: true,
            watch: Vec::new(),
            capture: None,
        }
    }
}

/// What an emulation has done.
#[derive(Clone, Debug)]
pub struct Report {
    /// How far its virtual time is.
    pub now: Instant<Virtual>,
    /// Events handled.
    pub events: u64,
    /// How late they were.
    pub lateness: Lateness,
    /// What happened in the model.
    pub counters: Counters,
    /// Packets that exist in the model now.
    pub packets_alive: usize,
    /// The portals.
    pub ports: Vec<PortReport>,
    /// Processor time of the thread.
    pub cpu: Duration,
    /// How often it has slept.
    pub sleeps: u64,
    /// Whether the thread went before ordinary programs.
    pub first: bool,
    /// Whether the processors were kept awake.
    pub awake: bool,
}

impl Report {
    /// Whether the machine was too slow for the results to be trusted.
    pub fn untrusted(&self) -> bool {
        self.lateness.is_untrusted() || self.dropped_by_machine() > 0
    }

    /// Frames lost because the machine was too slow, not because the network
    /// would have lost them.
    pub fn dropped_by_machine(&self) -> u64 {
        let before: u64 = self.ports.iter().map(|port| port.dropped_before).sum();
        before + self.counters.not_taken
    }
}

/// A simulated network that runs, with its portals. Dropping it ends it.
#[derive(Debug)]
pub struct Emulation {
    alarm: Alarm,
    commands: Sender<Command>,
    thread: Option<JoinHandle<Worker>>,
}

enum Command {
    Do(Box<dyn FnOnce(&mut Worker) + Send>),
    Grant(Instant<Virtual>),
    Stop,
}

impl Emulation {
    /// Starts `world` and the thread that serves it.
    ///
    /// # Errors
    /// When the kernel refuses a thread or what it sleeps on.
    pub fn start(
        mut world: World,
        mut portals: Portals,
        timing: Timing,
        options: Options,
    ) -> Result<Self, PortalError> {
        let failed = |error| PortalError::kernel("start the emulation", error);
        let alarm = Alarm::new().map_err(failed)?;
        let descriptors: Vec<_> = portals.0.iter().map(|a| a.port.descriptor()).collect();
        let poll = Poll::new(&alarm, &descriptors, options.spin).map_err(failed)?;
        for attachment in &mut portals.0 {
            attachment.joins = options.join && attachment.port.takes_trains();
            world.open_frames(attachment.node);
        }
        for port in &options.watch {
            world.watch(*port);
        }
        let by_node = portals.0.iter().enumerate();
        let by_node = by_node.map(|(index, a)| (a.node, index)).collect();
        let mut engine: Engine<World> = Engine::new(world);
        engine.with(|world, agenda| world.start(agenda));
        let pace = match &timing {
            Timing::Follow(clock) => Pace::Clock(clock.map()),
            Timing::Steps => Pace::Granted(Instant::ZERO),
        };
        let (commands, orders) = mpsc::channel();
        let worker = Worker {
            paced: Paced::new(engine, pace, options.limit),
            timing,
            attachments: portals.0,
            by_node,
            capture: options.capture,
            moderation: Moderation::new(options.moderation),
            first: options.first,
            awake: options.awake,
            poll,
            alarm: alarm.clone(),
            orders,
            buffer: vec![0; LARGE],
            scratch: Vec::new(),
            sleeps: 0,
            cpu: None,
        };
        let thread = Builder::new()
            .name("emulation".to_owned())
            .spawn(move || worker.run())
            .map_err(failed)?;
        Ok(Self {
            alarm,
            commands,
            thread: Some(thread),
        })
    }

    /// Tells the thread to look at its clock again: its map has changed.
    pub fn wake(&self) {
        self.alarm.ring();
    }

    /// Something that wakes the thread from anywhere.
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        let alarm = self.alarm.clone();
        move || alarm.ring()
    }

    /// Grants all instants up to this one ([`Timing::Steps`]).
    pub fn grant(&self, until: Instant<Virtual>) {
        self.command(Command::Grant(until));
    }

    /// Lets `act` look at the network, or change it, between two turns. `None`
    /// when the thread has ended.
    pub fn with<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine<World>) -> R + Send + 'static,
    ) -> Option<R> {
        self.ask(|worker| act(&mut worker.paced.engine))
    }

    /// What has happened so far. `None` when the thread has ended.
    pub fn report(&self) -> Option<Report> {
        self.ask(|worker| worker.report())
    }

    fn ask<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, asked) = mpsc::channel();
        self.command(Command::Do(Box::new(move |worker| {
            // Who asked may have lost interest.
            let _ = answer.send(act(worker));
        })));
        asked.recv().ok()
    }

    fn command(&self, command: Command) {
        // A thread that has ended needs no command.
        let _ = self.commands.send(command);
        self.alarm.ring();
    }

    /// Ends it. `None` when the thread has panicked.
    pub fn stop(mut self) -> Option<Report> {
        let worker = self.end()?;
        Some(worker.report())
    }

    fn end(&mut self) -> Option<Worker> {
        self.command(Command::Stop);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

/// What the thread owns.
struct Worker {
    paced: Paced<World>,
    timing: Timing,
    attachments: Vec<Attachment>,
    by_node: std::collections::HashMap<Node, usize>,
    capture: Option<Capture>,
    moderation: Moderation,
    first: bool,
    awake: bool,
    poll: Poll,
    alarm: Alarm,
    orders: Receiver<Command>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    sleeps: u64,
    /// What it took in all, once it has ended.
    cpu: Option<Duration>,
}

/// Events between two looks at the portals, and frames between two looks at
/// the events.
const EVENTS: u64 = 256;
const FRAMES: usize = 64;

impl Worker {
    fn run(mut self) -> Self {
        let served = self.serve();
        self.cpu = Some(thread_time());
        // A loop that cannot sleep any more is our own bug.
        served.expect("epoll on open descriptors");
        self
    }

    fn serve(&mut self) -> io::Result<()> {
        sleep_exactly();
        self.first = self.first && set_policy(Policy::First(1)).is_ok();
        let awake = self.awake.then(Awake::keep).flatten();
        self.awake = awake.is_some();
        let mut ready = Vec::new();
        // Whatever came before the start is found by looking at all.
        ready.extend(0..self.attachments.len());
        loop {
            if !self.carry_out_orders() {
                return Ok(());
            }
            let began = wall_now();
            if let Timing::Follow(clock) = &self.timing {
                let (map, stop) = clock.map_and_stop();
                self.paced.follow(map, stop);
            }
            self.catch_up(began);
            let taken_in = self.take_in(&mut ready);
            let wake = self.paced.poll(wall_now, EVENTS);
            let handed_out = self.hand_out();
            if wake == Wake::Now {
                // Behind; see what the portals have, without sleeping.
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
            self.sleep(until, &mut ready)?;
            if let Timing::Follow(clock) = &self.timing {
                clock.awake();
            }
        }
    }

    /// Brings the model to the present, so that what is taken in now is
    /// stamped with it.
    fn catch_up(&mut self, now: Instant<Wall>) {
        let limit = self.paced.limit(now);
        if limit == Instant::FAR_FUTURE {
            return;
        }
        if self.paced.poll(wall_now, EVENTS) != Wake::Now {
            let engine = &mut self.paced.engine;
            if engine.next_wake().is_none_or(|next| next > limit) {
                engine.run_until(limit, 1);
            }
        }
    }

    /// Takes frames from the portals that have some; says whether there were
    /// any. Each portal has its turn, however much another has.
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
                        // Its interface is gone; the rest goes on.
                        attachment.report.gone = true;
                        self.poll.forget(attachment.port.descriptor());
                        break;
                    }
                };
                any = true;
                self.moderation.moved(used);
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
            }
        }
        any
    }

    /// Gives the portals what has arrived at their hosts; says whether there was
    /// anything.
    fn hand_out(&mut self) -> bool {
        let (attachments, by_node) = (&mut self.attachments, &self.by_node);
        let moderation = &mut self.moderation;
        let pace = self.paced.pace();
        let world = &mut self.paced.engine.model;
        let mut any = false;
        while world
            .take_frame(|node, frame| {
                let Some(index) = by_node.get(&node) else {
                    return;
                };
                moderation.moved(frame.head.len() + frame.rest.len());
                attachments[*index].give(&frame);
            })
            .is_some()
        {
            any = true;
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

    fn sleep(&mut self, until: Option<Instant<Wall>>, ready: &mut Vec<usize>) -> io::Result<()> {
        self.sleeps += 1;
        self.poll.sleep(until, &self.alarm, ready)
    }

    /// Carries out what was commanded; false means to end.
    fn carry_out_orders(&mut self) -> bool {
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Do(act) => act(self),
                Command::Grant(until) => self.paced.set_pace(Pace::Granted(until)),
                Command::Stop => return false,
            }
        }
        true
    }

    fn report(&self) -> Report {
        let engine = &self.paced.engine;
        let ports = self.attachments.iter().map(|attachment| PortReport {
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
            sleeps: self.sleeps,
            first: self.first,
            awake: self.awake,
        }
    }
}

/// Sleeps, whatever comes.
fn rest(until: Instant<Wall>) {
    let left = until - wall_now();
    if left > Duration::ZERO {
        let left = std::time::Duration::from_nanos(left.as_ns().unsigned_abs());
        std::thread::sleep(left);
    }
}

/// When a clock showed `at`.
fn wall_of(pace: &Pace, at: Instant<Virtual>) -> Instant<Wall> {
    match pace {
        Pace::Clock(map) if at > map.out0 => map.first_reaching(at).unwrap_or_else(wall_now),
        _ => wall_now(),
    }
}
