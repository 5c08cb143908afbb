//! A simulated network that runs, seen from outside its thread ([`worker`]).

mod meeting;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use timeloom_engine::{Engine, Lateness, Limit, Pace, Paced};
use timeloom_net::{Counters, LARGE, Owner, PortId, World};
use timeloom_peering::peer::PeerStats;
use timeloom_peering::{AdjacencyReport, Portal as PeeringPortal};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::moderation::Moderation;
use crate::poll::{Alarm, Poll};
use crate::{PortReport, PortalError, Portals, Timing};
use meeting::Meeting;
use timeloom_sys::wall_now;
use worker::{Sampler, Worker};

/// Where what was captured on watched links goes: out of which port of the model
/// the link leads, when it arrived at its end in virtual time and on the machine's
/// clock, and the frame as a wire carries it. Runs in the emulation's thread.
pub type Capture = Box<dyn FnMut(PortId, Instant<Virtual>, Instant<Wall>, &[u8]) + Send>;

/// Told how far a network has gone ahead of a clock ([`Emulation::ahead`]).
pub type Arrive = Box<dyn FnOnce(Instant<Virtual>) + Send>;

/// Looks at the model at an instant up to which it has lived, and no further, and at what has
/// been exchanged with other engines. Runs in the emulation's thread.
pub type Sample = Box<dyn FnMut(Instant<Virtual>, &mut World, &[AdjacencyReport]) + Send>;

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
    /// Who looks at the model, and how often in virtual time: at zero first. In a quiet
    /// network a sample is taken when the next event comes, which changes nothing of it.
    pub sample: Option<(Duration, Sample)>,
    /// The way to the other engines of this network, of which the world has one part
    /// ([`timeloom_peering::Cut::apply`]).
    pub peers: Option<PeeringPortal>,
    /// How long to wait for them at the start, until each is here. `None`: not at all.
    pub patience: Option<Duration>,
    /// Those that are away, and are not waited for.
    pub absent: Vec<Owner>,
    /// Set from outside to end that wait: nobody wants the engine any more.
    pub give_up: Option<Arc<AtomicBool>>,
    /// Whether the clock has gone on without this engine, which takes the place of one that is
    /// lost: its network begins at the present, and frames that have come before are thrown
    /// away.
    pub late: bool,
    /// Tick of the kernels behind the portals, if the simulated network keeps their TCP timers
    /// ([`World::keep_tcp_timers`]) because time skips over the kernels' own.
    pub tcp_timers: Option<Duration>,
    /// What the thread is called; of which the kernel keeps 15 bytes.
    pub name: String,
    /// Told when the thread dies of a fault in the model, with what it said.
    pub died: Option<Died>,
}

/// Told that an engine has died, and of what.
pub type Died = Box<dyn FnOnce(&str) + Send>;

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
            sample: None,
            peers: None,
            patience: None,
            absent: Vec::new(),
            give_up: None,
            late: false,
            tcp_timers: None,
            name: "emulation".to_owned(),
            died: None,
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
    /// Bytes of what this engine alone has of the network ([`World::state_bytes`]).
    pub state_bytes: usize,
    /// How often it has slept.
    pub sleeps: u64,
    /// Whether the thread went before ordinary programs.
    pub first: bool,
    /// Whether the processors were kept awake.
    pub awake: bool,
    /// What was exchanged with the other engines of this network.
    pub adjacencies: Vec<AdjacencyReport>,
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
    Leave,
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
        let mut poll = Poll::new(&alarm, &descriptors, options.spin).map_err(failed)?;
        let mut peers = options.peers;
        if let Some(peers) = &peers {
            poll.add_peers(peers.descriptors()).map_err(failed)?;
        }
        for attachment in &mut portals.0 {
            attachment.joins = options.join && attachment.port.takes_trains();
            world.open_frames(attachment.node);
            if let Some(tick) = options.tcp_timers {
                world.keep_tcp_timers(attachment.node, tick);
            }
        }
        for port in &options.watch {
            world.watch(*port);
        }
        let by_node = portals.0.iter().enumerate();
        let by_node = by_node.map(|(index, a)| (a.node, index)).collect();
        let mut engine: Engine<World> = Engine::new(world);
        if let Some(peers) = &mut peers {
            // Who has been greeted is here from the first packet on.
            peers.poll(&mut engine, wall_now()).map_err(failed)?;
            if let Some(patience) = options.patience {
                let is_over = options.give_up.as_deref();
                let others = (&options.absent[..], patience);
                assemble(peers, &mut engine, others, is_over)?;
            }
        }
        let mut buffer = vec![0; LARGE];
        if let (true, Timing::Follow(clock)) = (options.late, &timing) {
            let (map, stop) = clock.map_and_stop();
            come_to(map.at(wall_now()).min(stop), &mut engine);
            for attachment in &mut portals.0 {
                attachment.miss(&mut buffer);
            }
        }
        engine.with(|world, agenda| world.start(agenda));
        let from = engine.now();
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
            sampler: options
                .sample
                .map(|(every, look)| Sampler::new(every, look, from)),
            stop: Instant::FAR_FUTURE,
            moderation: Moderation::new(options.moderation),
            first: options.first,
            awake: options.awake,
            poll,
            alarm: alarm.clone(),
            orders,
            buffer,
            scratch: Vec::new(),
            sleeps: 0,
            cpu: None,
            peers: peers.map(Meeting::new),
        };
        let died = options.died;
        let thread = Builder::new()
            .name(options.name)
            .spawn(move || observed(worker, died))
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

    /// Something by which whoever moves a clock that stands lets the network go ahead of
    /// it, from anywhere: up to an instant, and no further than the first at which it has
    /// a frame for a portal. Before anything goes out, the closure is told how far the
    /// network is, and moves the clock there. False when the thread has ended.
    pub fn ahead(&self) -> impl Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync + use<> {
        let (commands, alarm) = (Mutex::new(self.commands.clone()), self.alarm.clone());
        move |limit, arrive| {
            let (answer, asked) = mpsc::channel();
            let act = move |worker: &mut Worker| {
                arrive(worker.go_ahead(limit));
                // Who asked waits for nothing else.
                let _ = answer.send(());
            };
            let commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = commands.send(Command::Do(Box::new(act)));
            drop(commands);
            alarm.ring();
            asked.recv().is_ok()
        }
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

    /// Tells it that the life of engine `there` which began at `epoch` is over
    /// ([`PeeringPortal::bury`]).
    pub fn bury(&self, there: Owner, epoch: u64) {
        self.command(Command::Do(Box::new(move |worker| {
            worker.bury(there, epoch);
        })));
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

    /// Lets it leave the other engines, which go on: what it has by now is seen to, and what that
    /// leads to goes out before it says farewell. To be followed by [`Emulation::stop_with`].
    pub fn leave(&self) {
        self.command(Command::Leave);
    }

    /// Ends it. `None` when the thread has panicked.
    pub fn stop(self) -> Option<Report> {
        self.stop_with(|_, _| ()).map(|(report, ())| report)
    }

    /// Ends it, and lets `act` look at what is left. `None` when the thread has panicked.
    pub fn stop_with<R>(
        mut self,
        act: impl FnOnce(&mut Engine<World>, &Report) -> R,
    ) -> Option<(Report, R)> {
        let mut worker = self.end()?;
        let report = worker.report();
        let seen = act(&mut worker.paced.engine, &report);
        Some((report, seen))
    }

    fn end(&mut self) -> Option<Worker> {
        self.command(Command::Stop);
        self.thread.take()?.join().ok()
    }
}

/// Greets the engines elsewhere until all have answered but those that are absent: a packet to
/// one that is not here would be lost.
fn assemble(
    peers: &mut PeeringPortal,
    engine: &mut Engine<World>,
    (absent, patience): (&[Owner], Duration),
    is_over: Option<&AtomicBool>,
) -> Result<(), PortalError> {
    let failed = |error| PortalError::kernel("greet the other engines", error);
    let until = wall_now() + patience;
    let is_awaited =
        |(there, is_present, _): (Owner, bool, PeerStats)| !is_present && !absent.contains(&there);
    while peers.peers().any(is_awaited) {
        if wall_now() > until {
            return Err(failed(std::io::ErrorKind::TimedOut.into()));
        }
        if is_over.is_some_and(|it| it.load(Ordering::SeqCst)) {
            return Err(failed(std::io::ErrorKind::Interrupted.into()));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        peers.poll(engine, wall_now()).map_err(failed)?;
    }
    Ok(())
}

/// Brings a network that has not started to the present. All that happens on the way is what
/// other engines have said since they have been greeted.
fn come_to(present: Instant<Virtual>, engine: &mut Engine<World>) {
    const AT_ONCE: u64 = 1 << 16;
    while engine.run_until(present, AT_ONCE) == AT_ONCE {}
}

/// Runs a worker, and tells when it dies.
fn observed(worker: Worker, died: Option<Died>) -> Worker {
    // The worker is gone with the panic: nothing half-done is seen by anybody.
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || worker.run()));
    ran.unwrap_or_else(|panic| {
        if let Some(died) = died {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            died(text.unwrap_or("it panicked"));
        }
        std::panic::resume_unwind(panic)
    })
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}
