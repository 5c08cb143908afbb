//! One simulated network in several engines of this process: the lines between them, and what
//! becomes of the run when one dies.

use std::collections::BTreeMap;

use timeloom_engine::Limit;
use timeloom_net::{Owner, World};
use timeloom_peering::datagram::Key;
use timeloom_peering::peer::PeerConfig;
use timeloom_peering::{Endpoint, Portal, Ring};
use timeloom_portal::Died;
use timeloom_scenario::{EngineFailure, EngineMode, Engines, Parts};
use timeloom_sys::wall_now;
use timeloom_time::Duration;

use crate::record::Scribe;
use crate::verdict::Reporter;

/// The ends of the lines between engines, by engine and by who is at the other end.
pub(super) struct Lines(BTreeMap<(Owner, Owner), Ring>);

impl Lines {
    /// A line between each two engines that have a cut link between them. All count as here
    /// from now on.
    pub(super) fn lay(parts: &Parts) -> std::io::Result<Self> {
        let mut lines = BTreeMap::new();
        for (a, b) in parts.adjacent().into_iter().filter(|(a, b)| a < b) {
            let (one, other) = Ring::pair(Ring::PACKETS)?;
            one.greet(wall_now());
            other.greet(wall_now());
            lines.insert((a, b), one);
            lines.insert((b, a), other);
        }
        Ok(Self(lines))
    }

    /// The way of engine `here`, of which `world` has the part, to all others.
    pub(super) fn portal(
        &mut self,
        world: &mut World,
        parts: &Parts,
        engines: &Engines,
        here: Owner,
    ) -> Portal {
        let limit = Limit {
            late_after: engines.late_after,
            late_ppm: engines.late_ppm(),
            ..Limit::default()
        };
        // Between threads nothing is sealed, and no earlier life of an engine is around.
        let key = Key::new([0; 32]);
        let mut portal = Portal::new(world, parts.cut().clone(), here, key, 1, limit);
        if engines.mode == EngineMode::Exact {
            portal.wait_for_others();
        }
        for there in 0..parts.cut().engines() {
            if let Some(ring) = self.0.remove(&(here, there)) {
                portal.add(world, there, Endpoint::Ring(ring), patient());
            }
        }
        portal
    }
}

/// A thread that dies says so at once. One that says nothing for long has no processor, and is
/// not gone.
fn patient() -> PeerConfig {
    PeerConfig {
        silence: Duration::from_s(3_600),
        horizon: Duration::from_s(3_600),
        ..PeerConfig::default()
    }
}

/// What to do when the engine that is called `name` dies; without a name it is the only one.
pub(super) fn died(
    engines: Option<&Engines>,
    name: Option<&str>,
    scribe: &Scribe,
    reporter: &Reporter,
) -> Died {
    let who = match name {
        Some(name) => format!("engine {name} of the simulated network"),
        None => "the simulated network".to_owned(),
    };
    let failure = engines.map_or(EngineFailure::Stop, |engines| engines.failure);
    let (scribe, reporter) = (scribe.clone(), reporter.clone());
    Box::new(move |what| match failure {
        EngineFailure::Stop => reporter.failed(&who, format!("died: {what}")),
        EngineFailure::Continue => {
            let text = format!("{who} has died; the rest goes on without it: {what}");
            scribe.event("local", "network", "died", &text);
        }
    })
}

/// How long a turn of an engine may be put off under load: not so long that packets for others
/// come too late, and not at all where others wait.
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
