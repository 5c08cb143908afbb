//! Ways to run one network: in one engine, in threads or ranks that wait for one another, and in
//! threads that share no more than a clock.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::exact::{self, Shared, WindowExchange, Windows};
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Endpoint, Pause, Portal, run};
use timeloom_engine::{Engine, Limit, Pace, Paced};
use timeloom_net::{Owner, World};
use timeloom_sys::clock::{thread_time, wall_now};
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};
use timeloom_time::{ClockMap, Duration, Instant, Rate};

use crate::exchange::{Ranks, receive};
use crate::network::Model;
use crate::part::{Part, Whole};

fn started(mut world: World, note: bool) -> Engine<World> {
    if note {
        world.note_arrivals();
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine
}

/// Measures wall time and processor time since its creation, in seconds. While it exists, its
/// thread runs above all ordinary threads if permitted, because the benchmark measures the engines
/// and not other programs on the machine.
struct Watch(time::Instant, f64);

impl Watch {
    fn start() -> Self {
        // Without permission, the thread keeps its usual priority.
        let _ = set_policy(SchedulingPolicy::First(1));
        Self(time::Instant::now(), thread_cpu_s())
    }

    fn read(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), thread_cpu_s() - self.1)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = set_policy(SchedulingPolicy::Ordinary);
    }
}

fn thread_cpu_s() -> f64 {
    thread_time().as_ns() as f64 * 1e-9
}

/// Runs the network in one engine.
pub(crate) fn single(model: &Model, note: bool) -> Result<Whole, String> {
    let mut engine = started(model.build()?, note);
    let watch = Watch::start();
    engine.run_until(model.end(), u64::MAX);
    let times = watch.read();
    Ok(Whole::of(&[Part::of(
        &mut engine,
        Windows::default(),
        times,
    )]))
}

/// Runs one of the engines that wait for one another.
fn waiting<E: WindowExchange>(
    model: &Model,
    (here, parts): (Owner, Owner),
    note: bool,
    transport: impl FnOnce(&World) -> E,
    together: impl FnOnce(),
) -> Result<Part, String> {
    let mut world = model.build()?;
    let cut = model.cut(&world, parts)?;
    cut.apply(&mut world, here);
    let mut transport = transport(&world);
    let mut engine = started(world, note);
    together();
    let watch = Watch::start();
    let windows = exact::run(&mut engine, &cut, &mut transport, model.end());
    let times = watch.read();
    let windows = windows.map_err(|gone| gone.to_string())?;
    Ok(Part::of(&mut engine, windows, times))
}

/// Runs one engine per rank. All ranks must call this function, and rank 0 gets the result.
pub(crate) fn ranks(
    model: &Model,
    ranks: &SimpleCommunicator,
    note: bool,
) -> Result<Option<Whole>, String> {
    let (here, parts) = (ranks.rank() as Owner, ranks.size() as Owner);
    agree(ranks, true);
    let transport = |world: &World| Ranks::new(ranks, world);
    let part = waiting(model, (here, parts), note, transport, || ranks.barrier())?;
    if here != 0 {
        ranks.process_at_rank(0).send(&part.to_bytes()[..]);
        return Ok(None);
    }
    let mut all = vec![part];
    for from in 1..usize::from(parts) {
        let mut bytes = Vec::new();
        receive(ranks, from, &mut bytes);
        all.push(Part::from_bytes(&bytes).ok_or("a part that cannot be read")?);
    }
    Ok(Some(Whole::of(&all)))
}

/// Sends the decision of rank 0 to all ranks. The other ranks wait for rank 0, which has more work.
/// A broadcast is not used, because MPI would busy-wait in it.
pub(crate) fn agree(ranks: &SimpleCommunicator, said: bool) -> bool {
    if ranks.rank() == 0 {
        for to in 1..ranks.size() {
            ranks.process_at_rank(to).send(&u8::from(said));
        }
        return said;
    }
    while ranks.process_at_rank(0).immediate_probe().is_none() {
        std::thread::sleep(time::Duration::from_millis(2));
    }
    let mut bytes = Vec::new();
    receive(ranks, 0, &mut bytes);
    bytes == [1]
}

/// Runs the engines in threads that wait for one another.
pub(crate) fn threads(model: &Model, parts: Owner, note: bool) -> Result<Whole, String> {
    let together = Barrier::new(parts.into());
    let all = on_threads(Shared::new(parts), |here, shared| {
        let meet = || {
            together.wait();
        };
        waiting(model, (here, parts), note, |_| shared, meet)
    })?;
    Ok(Whole::of(&all))
}

/// Result of engines that share no more than a clock.
#[derive(Debug)]
pub(crate) struct Free {
    pub(crate) whole: Whole,
    /// Fraction of events handled more than 1 ms after their instant.
    pub(crate) behind: f64,
    /// Fraction of packets from other engines that arrived after their instant.
    pub(crate) late: f64,
}

/// Transport of packets between threads that do not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Udp,
    SharedMemory,
}

/// Runs the engines in threads that do not wait, at `rate` times real time. The run lasts at least
/// the model's duration in wall time.
pub(crate) fn free(
    model: &Model,
    parts: Owner,
    rate: f64,
    carrier: Carrier,
) -> Result<Free, String> {
    let model = &model.lengthened(rate);
    let rate = Rate::from_f64(rate).ok_or("a rate is above 0")?;
    let (together, origin) = (Barrier::new(parts.into()), AtomicI64::new(0));
    let all = on_threads(mesh(parts, carrier)?, |here, endpoints| {
        let mut world = model.build()?;
        let cut = model.cut(&world, parts)?;
        cut.apply(&mut world, here);
        let epoch = 1 + u64::from(here);
        let key = Key::new([1; 32]);
        let mut portal = Portal::new(&world, cut, here, key, epoch, Limit::default());
        for (there, endpoint) in endpoints {
            let config = PeerConfig {
                // An engine that gets no processor time must not count as away.
                silence: Duration::from_s(10),
                ..PeerConfig::default()
            };
            portal.add(&mut world, there, endpoint, config);
        }
        let mut engine = started(world, false);
        let asked = time::Instant::now();
        let mut polled = Ok(());
        while polled.is_ok()
            && !portal.is_complete()
            && asked.elapsed() < time::Duration::from_secs(10)
        {
            polled = portal.poll(&mut engine, wall_now());
            std::thread::yield_now();
        }
        let complete = portal.is_complete();
        // This is done after an error too, because the other threads wait at this barrier.
        together.wait();
        if here == 0 {
            let start = wall_now() + Duration::from_ms(2);
            origin.store(start.as_ns(), Ordering::SeqCst);
        }
        together.wait();
        polled.map_err(|error| error.to_string())?;
        if !complete {
            return Err("another engine did not come".to_owned());
        }
        let start = Instant::from_ns(origin.load(Ordering::SeqCst));
        let pace = Pace::Clock(ClockMap::new(start, Instant::ZERO, rate));
        let mut paced = Paced::new(engine, pace, Limit::default());
        let watch = Watch::start();
        let pause = Pause::default();
        let ran = run(&mut paced, &mut portal, model.end(), pause, || false);
        ran.map_err(|error| error.to_string())?;
        // The measured time excludes the delay before the start.
        let times = ((wall_now() - start).as_s_f64(), watch.read().1);
        let behind = paced.lateness().late_fraction();
        let part = Part::of(&mut paced.engine, Windows::default(), times);
        Ok((part, behind, portal.stats()))
    })?;
    let (late, taken) = all.iter().fold((0, 0), |(late, taken), (_, _, stats)| {
        (late + stats.late, taken + stats.taken)
    });
    let behind = all.iter().map(|(_, behind, _)| *behind).fold(0.0, f64::max);
    let parts: Vec<Part> = all.into_iter().map(|(part, _, _)| part).collect();
    Ok(Free {
        whole: Whole::of(&parts),
        behind,
        late: late as f64 / taken.max(1) as f64,
    })
}

/// Returns, for each engine, an endpoint to every other engine.
fn mesh(parts: Owner, carrier: Carrier) -> Result<Vec<Vec<(Owner, Endpoint)>>, String> {
    let mut all: Vec<Vec<(Owner, Endpoint)>> = (0..parts).map(|_| Vec::new()).collect();
    for a in 0..parts {
        for b in a + 1..parts {
            let [one, other] = match carrier {
                Carrier::Udp => Endpoint::udp_pair(),
                Carrier::SharedMemory => Endpoint::ring_pair(),
            }
            .map_err(|error| format!("what lies between two engines: {error}"))?;
            all[usize::from(a)].push((b, one));
            all[usize::from(b)].push((a, other));
        }
    }
    Ok(all)
}

/// Runs `part` on one thread for each element of `tools`.
fn on_threads<T: Send, R: Send>(
    tools: Vec<T>,
    part: impl Fn(Owner, T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..)
            .zip(tools)
            .map(|(here, tool)| scope.spawn(move || part(here, tool)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.unwrap_or_else(|_| Err("an engine panicked".to_owned())))
            .collect()
    })
}
