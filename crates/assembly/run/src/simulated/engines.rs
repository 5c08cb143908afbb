//! Lines between the engines of a simulated network, and the reaction of the run when an engine
//! dies.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Endpoint, Ring, Socket, Streamed};
use timeloom_emulation::{PanicCallback, TurnStreams};
use timeloom_net::Owner;
use timeloom_scenario::{EngineFailure, EngineMode, Parts};
use timeloom_sys::wall_now;
use timeloom_time::Duration;

use super::engine::{Engine, EngineLinks};
use super::surroundings::Surroundings;
use crate::agreed::of_virtual_time;
use crate::civil::civil_now;
use crate::error::RunError;
use crate::node::EngineLines;
use crate::record::RunRecorder;
use crate::verdict::Reporter;

/// Ends of the lines between engines, by the numbers of the engine and its peer.
pub(super) struct Lines<T>(BTreeMap<(Owner, Owner), T>);

impl<T> Lines<T> {
    /// Creates a line between each pair of engines that share a cut link.
    fn lay(parts: &Parts, mut pair: impl FnMut() -> io::Result<[T; 2]>) -> io::Result<Self> {
        let mut lines = BTreeMap::new();
        for (a, b) in parts.adjacent().into_iter().filter(|(a, b)| a < b) {
            let [one, other] = pair()?;
            lines.insert((a, b), one);
            lines.insert((b, a), other);
        }
        Ok(Self(lines))
    }

    /// Removes and returns the ends of engine `here`, each with the number of the peer.
    pub(super) fn of(&mut self, here: Owner) -> Vec<(Owner, T)> {
        let theirs = self.0.split_off(&(here, 0));
        let (own, others): (Vec<_>, Vec<_>) =
            theirs.into_iter().partition(|((from, _), _)| *from == here);
        self.0.extend(others);
        own.into_iter().map(|((_, to), end)| (to, end)).collect()
    }
}

impl Lines<Ring> {
    /// Creates lines between threads. All engines count as present from then on.
    pub(super) fn of_rings(parts: &Parts) -> io::Result<Self> {
        Self::lay(parts, || {
            let (one, other) = Ring::pair(Ring::PACKETS)?;
            one.greet(wall_now());
            other.greet(wall_now());
            Ok([one, other])
        })
    }
}

impl Lines<UdpSocket> {
    /// Creates lines between processes of this machine.
    pub(super) fn of_sockets(parts: &Parts) -> io::Result<Self> {
        Self::lay(parts, || {
            let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            let (one, other) = (bind()?, bind()?);
            one.connect(other.local_addr()?)?;
            other.connect(one.local_addr()?)?;
            Ok([one, other])
        })
    }
}

/// Returns the settings of an engine that is a thread and exchanges packets with other threads.
pub(super) fn engine_links(ends: Vec<(Owner, Ring)>) -> EngineLinks {
    let config = patient(Duration::from_s(3_600));
    let end = |(to, ring)| (to, Endpoint::Ring(ring), config);
    present(ends.into_iter().map(end).collect())
}

/// Returns the settings of an engine whose peers are present from the start. Their ends need no
/// authentication of their own: they are memory of this process, or authenticated streams.
fn present(ends: Vec<(Owner, Endpoint, PeerConfig)>) -> EngineLinks {
    EngineLinks {
        ends,
        key: Key::new([0; 32]),
        // An engine in a thread is never restarted.
        epoch: 1,
        patience: None,
        absent: Vec::new(),
        give_up: None,
        late: false,
    }
}

/// Returns the settings of an agent's engine, which exchanges packets with the engines of other
/// agents over the machines' network.
pub(super) fn ways_to_agents(
    engine: Engine<'_>,
    parts: &Parts,
    remote: EngineLines,
    around: &Surroundings<'_>,
) -> Result<EngineLinks, RunError> {
    let (mut lines, key) = match remote {
        EngineLines::Sockets(lines, key) => (lines, key),
        EngineLines::Streams(streams, numbers) => {
            return streams_to_agents(engine.here, parts, (&streams, &numbers));
        }
    };
    let encrypts = engine.settings().is_some_and(|settings| settings.encrypt);
    let adjacent = parts.adjacent().into_iter();
    let mut ends = Vec::new();
    for (_, there) in adjacent.filter(|(from, _)| *from == engine.here) {
        let name = &parts.names[usize::from(there)];
        let line = lines.remove(name).ok_or_else(|| {
            RunError::Start(format!(
                "the address of the engine of agent {name} is missing"
            ))
        })?;
        let clocks_apart = of_virtual_time(line.clocks_apart, engine.plan.time.rate());
        let config = PeerConfig {
            clocks_apart,
            ..patient(SILENCE)
        };
        if clocks_apart > Duration::ZERO {
            let text = near_enough(engine, (parts, there), clocks_apart)?;
            around.run_recorder.own_event("network", "clocks", &text);
        }
        let socket = Socket::new(line.socket, line.remote).map_err(|error| {
            RunError::Start(format!("the line to the engine of agent {name}: {error}"))
        })?;
        ends.push((there, Endpoint::Udp(socket), config));
    }
    Ok(EngineLinks {
        ends,
        key: match encrypts {
            true => Key::encrypting(key),
            false => Key::new(key),
        },
        epoch: civil_now().as_ns().unsigned_abs(),
        // The wait is long because each agent creates its hosts first.
        patience: Some(Duration::from_s(300)),
        absent: Vec::new(),
        give_up: Some(Arc::clone(around.interrupted)),
        late: false,
    })
}

/// Returns the settings of the engine of an agent that acts in turns with the others.
fn streams_to_agents(
    here: Owner,
    parts: &Parts,
    (streams, numbers): (&Arc<dyn TurnStreams>, &BTreeMap<String, usize>),
) -> Result<EngineLinks, RunError> {
    let failed =
        |what| RunError::Start(format!("the stream to the engine of another agent: {what}"));
    let adjacent = parts.adjacent().into_iter();
    let mut ends = Vec::new();
    for (_, there) in adjacent.filter(|(from, _)| *from == here) {
        let name = &parts.names[usize::from(there)];
        let number = numbers.get(name).copied();
        let number = number.ok_or_else(|| failed(format!("there is no agent {name}")))?;
        let end = Streamed::new(Arc::clone(streams), number);
        let end = end.map_err(|error| failed(error.to_string()))?;
        // The streams notice an agent that is gone.
        let config = patient(Duration::from_s(ALL_TIME_S));
        ends.push((there, Endpoint::Streamed(end), config));
    }
    Ok(present(ends))
}

/// Checks that packets to another agent's engine can arrive in time although the clocks of the two
/// machines differ by up to `apart`. Returns a description of the result.
fn near_enough(
    engine: Engine<'_>,
    (parts, there): (&Parts, Owner),
    apart: Duration,
) -> Result<String, RunError> {
    let between = |from: Owner, to: Owner| {
        let both = [from, to];
        both == [engine.here, there] || both == [there, engine.here]
    };
    let links = parts.cut().links().iter();
    let links = links.filter(|(_, from, to)| between(*from, *to));
    let delays = links.map(|(port, ..)| engine.simulated.world.least_delay(*port));
    let shortest = delays.min().unwrap_or(Duration::MAX);
    let [here, name] = [engine.here, there].map(|owner| &parts.names[usize::from(owner)]);
    let text = format!(
        "the clocks of the agents {here} and {name} may be {apart} apart, and the shortest cable \
         between their engines takes {shortest}"
    );
    match apart < shortest {
        true => Ok(text),
        false => Err(RunError::Start(format!(
            "{text}, so every packet may come too late: synchronise the machines better (chrony, \
             PTP; `timeloom doctor --agents` reports the errors of their clocks), or make that \
             cable longer"
        ))),
    }
}

/// Returns the settings of a peer whose death its launcher reports. A peer that is silent for less
/// than `silence` counts as waiting for a processor, not as lost. While engines run ahead of the
/// clock, one of them may be at the start of an idle period of any length, and receive a packet of
/// the end.
pub(super) fn patient(silence: Duration) -> PeerConfig {
    PeerConfig {
        silence,
        horizon: Duration::from_s(ALL_TIME_S),
        ..PeerConfig::default()
    }
}

/// A hundred years, longer than any run.
const ALL_TIME_S: i64 = 3_155_760_000;

/// Silence, in wall time, after which the links to an engine in another process are down.
pub(super) const SILENCE: Duration = Duration::from_s(5);

/// Returns the callback that is called when an engine dies.
pub(super) fn died(
    engine: Engine<'_>,
    run_recorder: &RunRecorder,
    reporter: &Reporter,
) -> PanicCallback {
    let culprit = match engine.name() {
        Some(name) => format!("engine {name} of the simulated network"),
        None => "the simulated network".to_owned(),
    };
    let settings = engine.plan.network.as_ref();
    let settings = settings.and_then(|network| network.engines.as_ref());
    let failure = settings.map_or(EngineFailure::Stop, |engines| engines.failure);
    let (run_recorder, reporter) = (run_recorder.clone(), reporter.clone());
    Box::new(move |what| match failure {
        // An engine that may be restarted has then died too often, and ends the run as well.
        EngineFailure::Stop | EngineFailure::Restart => {
            reporter.failed(&culprit, format!("died: {what}"));
        }
        EngineFailure::Continue => {
            let text = format!("{culprit} has died; the run continues without it: {what}");
            run_recorder.own_event("network", "died", &text);
        }
    })
}

/// Returns the maximum time for which a busy engine may delay its work. It is a fraction of the
/// shortest delay of the links to other engines, so that packets arrive there in time. It is zero
/// if other engines wait for this one.
pub(super) fn moderation(
    usual: Duration,
    parts: &Parts,
    mode: EngineMode,
    dilation: f64,
) -> Duration {
    let lookahead = parts.cut().lookahead();
    let of_machine = Duration::from_ns((lookahead.as_ns() as f64 * dilation) as i64);
    match mode {
        EngineMode::Exact => Duration::ZERO,
        EngineMode::Free => usual.min(Duration::from_ns(of_machine.as_ns() / 8)),
    }
}
