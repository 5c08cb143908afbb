//! Handle of a running simulated network. The network runs in a thread of its own, the [`worker`].

mod ahead;
mod engine_core;
mod group;
mod meeting;
mod worker;

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use crate::peering::peer::PeerStats;
use crate::peering::{AdjacencyReport, Portal as PeeringPortal};
use timeloom_engine::{Engine, Lateness, Limit, Pace, Paced};
use timeloom_net::{Counters, LARGE, Owner, PortId, World};
use timeloom_time::{Duration, Instant, Virtual, Wall};
use tracing::{debug, error};

use crate::moderation::Moderation;
use crate::poll::{Alarm, Poll};
use crate::{PortReport, PortalError, Portals, Timing};
use engine_core::{Core, Sampler, lock};
pub use group::{EngineGroup, GroupMember, Unrest};
use meeting::Meeting;
use timeloom_sys::wall_now;
use worker::Worker;

/// Function that receives the frames captured on watched links. Its arguments are the model's port
/// at which the link starts, the frame's arrival at the link's end in virtual time and by the
/// machine's clock, and the frame in wire format. It is called in the emulation's thread.
pub type CaptureSink = Box<dyn FnMut(PortId, Instant<Virtual>, Instant<Wall>, &[u8]) + Send>;

/// Callback that receives the instant reached by a network that runs ahead of its clock
/// ([`EngineGroup::ahead`]).
pub type ArrivalCallback = Box<dyn FnOnce(Instant<Virtual>) + Send>;

/// Callback that receives an instant up to which all captured frames have been passed to
/// [`CaptureSink`], whenever that may have changed. Runs in the emulation's thread.
pub type CaptureProgressCallback = Box<dyn Fn(Instant<Virtual>) + Send>;

/// Function that reads the model at a sample instant. The model has been run exactly up to that
/// instant. The last argument lists the exchange with other engines. It is called in the
/// emulation's thread.
pub type SampleCallback = Box<dyn FnMut(Instant<Virtual>, &mut World, &[AdjacencyReport]) + Send>;

/// Settings of an emulation.
pub struct EmulationOptions {
    /// Lateness limit, in virtual time, beyond which the results are not to be trusted.
    pub limit: Limit,
    /// Time before an event during which the thread polls the clock instead of sleeping. Polling
    /// hides the lateness of the machine's timers, and costs that much processor time per event.
    /// Zero by default.
    pub spin: Duration,
    /// Longest interval between two iterations under load in wall time, like the interrupt
    /// moderation of network cards. It saves most of the cost of iterations. A frame is delayed by
    /// up to this interval twice, when it enters and when it leaves. A thread that is busy for less
    /// than a fifth of the time serves each frame at once.
    pub moderation: Duration,
    /// True if frames of a flow that are delivered in one iteration are joined into one train where
    /// possible, as Ethernet drivers do (GRO). No frame is delayed for this. True by default.
    pub join: bool,
    /// True if the thread should run with `SCHED_FIFO` priority, above all ordinary programs of the
    /// machine, if permitted. An engine mostly sleeps, and another program's time slice would make
    /// it milliseconds late. True by default.
    pub first: bool,
    /// True if the machine's processors should be kept from entering idle states while the
    /// emulation runs, if permitted. Waking an idle processor takes tens of µs in a virtual
    /// machine, and a ping contains four such wake-ups. Idle processors then use more power. True
    /// by default.
    pub awake: bool,
    /// Links whose frames are captured.
    pub watch: Vec<PortId>,
    /// Sink of the captured frames.
    pub capture: Option<CaptureSink>,
    /// Receives the progress of the captures.
    pub passed: Option<CaptureProgressCallback>,
    /// Sampling interval in virtual time, and the function that reads the model. The first sample
    /// is at zero. In a quiet network a sample is taken late, when the next event is handled; its
    /// content is the same.
    pub sample: Option<(Duration, SampleCallback)>,
    /// Connection to the other engines of this network. The world must contain only this engine's
    /// part ([`crate::peering::Cut::apply`]).
    pub peers: Option<PeeringPortal>,
    /// Place in the group of engines whose next event is announced to the clock. Engines with peers
    /// must wait for them ([`PeeringPortal::wait_for_others`]).
    pub group: Option<GroupMember>,
    /// Longest wait at the start until all other engines have answered. `None` starts without
    /// waiting.
    pub patience: Option<Duration>,
    /// Engines that are absent, for which the start does not wait.
    pub absent: Vec<Owner>,
    /// Flag that another thread sets to abort the wait at the start, when the engine is not needed
    /// any more.
    pub give_up: Option<Arc<AtomicBool>>,
    /// True if the clock has advanced without this engine, because the engine replaces a lost one.
    /// Its network begins at the present, and frames that arrived earlier are discarded.
    pub late: bool,
    /// Tick length of the kernels behind the portals. It is set if the simulated network keeps the
    /// TCP timers of these kernels ([`World::keep_tcp_timers`]), because virtual time skips
    /// instants at which the kernels' own timers would expire.
    pub tcp_timers: Option<Duration>,
    /// Called with the instant of the model before frames that arrived then are passed to the
    /// portals, for kernels whose TCP follows the model's time.
    pub arriving: Option<FrameArrivalCallback>,
    /// True if computing takes no time and the run must be reproducible: acknowledgements of
    /// retransmissions then wait for the machine's time to pass (`repair.rs`).
    pub reproduces: bool,
    /// Name of the thread; the kernel keeps 15 bytes of it.
    pub name: String,
    /// Function that is called with the panic message if the thread ends because of a fault in the
    /// model.
    pub died: Option<PanicCallback>,
}

/// Callback that receives the instant of arriving frames.
pub type FrameArrivalCallback = Box<dyn Fn(Instant<Virtual>) + Send>;

/// Function that receives the reason why an engine's thread has panicked.
pub type PanicCallback = Box<dyn FnOnce(&str) + Send>;

impl Default for EmulationOptions {
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
            passed: None,
            sample: None,
            peers: None,
            group: None,
            patience: None,
            absent: Vec::new(),
            give_up: None,
            late: false,
            tcp_timers: None,
            arriving: None,
            reproduces: false,
            name: "emulation".to_owned(),
            died: None,
        }
    }
}

/// Statistics of an emulation.
#[derive(Clone, Debug)]
pub struct EmulationReport {
    /// Virtual time that the network has reached.
    pub now: Instant<Virtual>,
    /// Number of events handled.
    pub events: u64,
    /// Lateness of the events.
    pub lateness: Lateness,
    /// Counters of the model.
    pub counters: Counters,
    /// Packets that exist in the model now.
    pub packets_alive: usize,
    /// Reports of the portals.
    pub ports: Vec<PortReport>,
    /// Processor time that the thread has used.
    pub cpu: Duration,
    /// Memory, in bytes, of the network state that only this engine has ([`World::state_bytes`]).
    pub state_bytes: usize,
    /// Number of times that the thread has slept.
    pub sleeps: u64,
    /// True if the thread ran above ordinary programs, as [`EmulationOptions::first`] requests.
    pub first: bool,
    /// True if the processors were kept from entering idle states.
    pub awake: bool,
    /// Statistics of the exchange with the other engines of this network.
    pub adjacencies: Vec<AdjacencyReport>,
}

impl EmulationReport {
    /// Returns true if the results cannot be trusted because the machine was too slow.
    pub fn untrusted(&self) -> bool {
        self.lateness.is_untrusted() || self.dropped_by_machine() > 0
    }

    /// Returns the number of frames that were lost because the machine was too slow, and not
    /// because the simulated network would lose them.
    pub fn dropped_by_machine(&self) -> u64 {
        let before: u64 = self.ports.iter().map(|port| port.dropped_before).sum();
        before + self.counters.not_taken
    }
}

/// Running simulated network with its portals. Dropping the value stops the thread.
#[derive(Debug)]
pub struct Emulation {
    remote: EngineRemote,
    core: Weak<Mutex<Core>>,
    thread: Option<JoinHandle<Arc<Mutex<Core>>>>,
}

/// Access to the engine of a running emulation, for threads that do not own the emulation.
#[derive(Clone, Debug)]
pub struct EngineRemote {
    alarm: Alarm,
    commands: Sender<Command>,
}

impl EngineRemote {
    /// Runs `act` on the engine between two iterations and returns its result; `None` if the thread
    /// has ended.
    pub fn with<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine<World>) -> R + Send + 'static,
    ) -> Option<R> {
        self.ask(|core| act(&mut core.paced.engine))
    }

    fn ask<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, asked) = mpsc::channel();
        self.command(Command::Do(Box::new(move |core| {
            // The caller may be gone; then the answer is not needed.
            let _ = answer.send(act(core));
        })));
        asked.recv().ok()
    }

    fn command(&self, command: Command) {
        // If the thread has ended, the command has no effect.
        let _ = self.commands.send(command);
        self.alarm.ring();
    }
}

enum Command {
    Do(Box<dyn FnOnce(&mut Core) + Send>),
    Grant(Instant<Virtual>),
    Leave,
    Stop,
}

impl Emulation {
    /// Starts `world` and the thread that runs it.
    ///
    /// # Errors
    /// Fails if the kernel refuses the thread or the descriptors that it polls.
    pub fn start(
        mut world: World,
        mut portals: Portals,
        timing: Timing,
        options: EmulationOptions,
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
            // Engines greet one another before the first packet, so that none counts as absent when
            // that packet is sent.
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
        debug!(
            engine = options.name,
            portals = portals.0.len(),
            has_peers = peers.is_some(),
            virtual_ns = from.as_ns(),
            "engine started"
        );
        let pace = match &timing {
            Timing::Follow(clock) => Pace::Clock(clock.map()),
            Timing::Steps => Pace::Granted(Instant::ZERO),
        };
        let (commands, orders) = mpsc::channel();
        let core = Core {
            paced: Paced::new(engine, pace, options.limit),
            timing,
            attachments: portals.0,
            by_node,
            capture: options.capture,
            passed: options.passed,
            arriving: options.arriving,
            reproduces: options.reproduces,
            sampler: options
                .sample
                .map(|(every, look)| Sampler::new(every, look, from)),
            ceiling: Instant::FAR_FUTURE,
            stop: Instant::FAR_FUTURE,
            moderation: Moderation::new(options.moderation),
            first: options.first,
            awake: options.awake,
            buffer,
            scratch: Vec::new(),
            sleeps: 0,
            asleep: false,
            cpu: None,
            cpu_ahead: Duration::ZERO,
            peers: peers.map(Meeting::new),
            member: options.group,
            fault: None,
        };
        let core = Arc::new(Mutex::new(core));
        let weak = Arc::downgrade(&core);
        let worker = Worker {
            core,
            poll,
            alarm: alarm.clone(),
            orders,
        };
        let died = options.died;
        let thread = Builder::new()
            .name(options.name)
            .spawn(move || observed(worker, died))
            .map_err(failed)?;
        Ok(Self {
            remote: EngineRemote { alarm, commands },
            core: weak,
            thread: Some(thread),
        })
    }

    /// Makes the thread read the clock's map again. Must be called after every change of the map.
    pub fn wake(&self) {
        self.remote.alarm.ring();
    }

    /// Returns a function that wakes the thread; any thread may call it.
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        let alarm = self.remote.alarm.clone();
        move || alarm.ring()
    }

    /// Returns access to the engine for other threads.
    pub fn remote(&self) -> EngineRemote {
        self.remote.clone()
    }

    /// Permits the network to run up to the instant `until` ([`Timing::Steps`]).
    pub fn grant(&self, until: Instant<Virtual>) {
        self.remote.command(Command::Grant(until));
    }

    /// Runs `act` on the engine between two iterations and returns its result; `None` if the thread
    /// has ended.
    pub fn with<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine<World>) -> R + Send + 'static,
    ) -> Option<R> {
        self.remote.with(act)
    }

    /// Returns the statistics until now; `None` if the thread has ended.
    pub fn report(&self) -> Option<EmulationReport> {
        self.remote.ask(|core| core.report())
    }

    /// Reports to the engine that the generation of engine `there` that began at `epoch` is dead
    /// ([`PeeringPortal::mark_dead`]).
    pub fn mark_dead(&self, there: Owner, epoch: u64) {
        self.remote.command(Command::Do(Box::new(move |core| {
            core.mark_dead(there, epoch);
        })));
    }

    /// Lets this engine leave the others, which continue. The engine processes the input that has
    /// arrived and sends the resulting output before its farewell. The caller must then call
    /// [`Emulation::stop_with`].
    pub fn leave(&self) {
        self.remote.command(Command::Leave);
    }

    /// Stops the thread and returns the final statistics; `None` if the thread has panicked.
    pub fn stop(self) -> Option<EmulationReport> {
        self.stop_with(|_, _| ()).map(|(report, ())| report)
    }

    /// Stops the thread, calls `act` with the final state, and returns its result with the final
    /// statistics; `None` if the thread has panicked.
    pub fn stop_with<R>(
        mut self,
        act: impl FnOnce(&mut Engine<World>, &EmulationReport) -> R,
    ) -> Option<(EmulationReport, R)> {
        let core = self.end()?;
        let mut core = lock(&core);
        let report = core.report();
        let seen = act(&mut core.paced.engine, &report);
        Some((report, seen))
    }

    fn end(&mut self) -> Option<Arc<Mutex<Core>>> {
        self.remote.command(Command::Stop);
        self.thread.take()?.join().ok()
    }
}

/// Greets the other engines until all of them except the absent ones have answered. A packet to an
/// engine that is not present would be lost.
fn assemble(
    peers: &mut PeeringPortal,
    engine: &mut Engine<World>,
    (absent, patience): (&[Owner], Duration),
    is_over: Option<&AtomicBool>,
) -> Result<(), PortalError> {
    let failed = |error| PortalError::kernel("connect to the other engines", error);
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

/// Advances a network that has not started to the instant `present`. The only events until then are
/// messages that other engines have sent since they were greeted.
fn come_to(present: Instant<Virtual>, engine: &mut Engine<World>) {
    const AT_ONCE: u64 = 1 << 16;
    while engine.run_until(present, AT_ONCE) == AT_ONCE {}
}

/// Runs a worker and calls `died` if it panics.
fn observed(worker: Worker, died: Option<PanicCallback>) -> Arc<Mutex<Core>> {
    // The panic destroys the worker, so that no other code sees its inconsistent state.
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || worker.run()));
    match &ran {
        Ok(core) => {
            let core = lock(core);
            let engine = &core.paced.engine;
            let (virtual_ns, events) = (engine.now().as_ns(), engine.handled());
            debug!(virtual_ns, events, "engine stopped");
        }
        Err(_) => error!("engine panicked"),
    }
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
