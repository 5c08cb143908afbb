//! Detection of kernel TCP timers over which virtual time has skipped.
//!
//! On links of the kernel, the kernel retransmits lost segments in real time, while virtual time
//! skips to the next event, so the result matches no real network. A simulated network retransmits
//! by timers of its own, in virtual time, before the kernel's. If a kernel behind a simulated
//! network nevertheless retransmits, an operation took minutes of real time.

use timeloom_fabric::{KernelError, Namespace, TcpState};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::Plan;

/// Stations of a run whose virtual time skips.
#[derive(Default)]
pub(super) struct Overtaken {
    stations: Vec<Namespace>,
    is_simulated: bool,
}

impl Overtaken {
    /// Returns the stations of a plan; the result is empty if the plan's virtual time does not
    /// skip.
    pub(super) fn of<'a>(
        plan: &Plan,
        stations: impl Iterator<Item = &'a Namespace>,
    ) -> std::io::Result<Self> {
        if !plan.time.skips() {
            return Ok(Self::default());
        }
        Ok(Self {
            stations: stations
                .map(Namespace::try_clone)
                .collect::<Result<_, _>>()?,
            is_simulated: plan.network.is_some(),
        })
    }

    /// Returns reasons why the results cannot be trusted. The caller has stopped the clock, and the
    /// programs must still be alive.
    pub(super) fn doubts(&self) -> Vec<Caveat> {
        let doubts = self.stations.iter().filter_map(|station| {
            let doubt = match TcpState::of(station) {
                Ok(state) => self.doubt(station.name(), state)?,
                Err(error) => unread(station.name(), &error),
            };
            Some(doubt)
        });
        doubts.collect()
    }

    fn doubt(&self, name: &str, state: TcpState) -> Option<Caveat> {
        if self.is_simulated {
            return (state.timeouts > 0).then(|| {
                let reason = format!(
                    "The kernel of {name} has sent again by its own timers, in real time \
                     ({} timeouts after two minutes), so the results are not to be trusted.",
                    state.timeouts
                );
                Caveat::new(reason, Remedy::NO_SKIPPING)
            });
        }
        let pending = state.pending;
        let mut what = Vec::new();
        if state.timeouts + state.repaired > 0 {
            let count = state.timeouts + state.repaired;
            what.push(format!("{count} retransmissions by timers"));
        }
        if pending > 0 {
            what.push(format!(
                "{pending} connections with unacknowledged data at the end"
            ));
        }
        (!what.is_empty()).then(|| {
            let reason = format!(
                "Virtual time has jumped over the timers of the TCP of {name}, which run in real \
                 time ({}), so the results are not to be trusted.",
                what.join(", ")
            );
            Caveat::new(reason, SIMULATED)
        })
    }
}

fn unread(name: &str, error: &KernelError) -> Caveat {
    let reason = format!(
        "It is unknown if virtual time has jumped over timers of the TCP of {name}: {error}."
    );
    Caveat::new(reason, Remedy::NO_SKIPPING)
}

const SIMULATED: Remedy = Remedy::new(
    "Run it in real time (`time.mode = \"virtual\"`), or with a simulated network (`[network]`), \
     which has those timers in virtual time.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fired_timers_are_a_doubt() {
        let quiet = TcpState::default();
        for is_simulated in [false, true] {
            let stations = Vec::new();
            let overtaken = Overtaken {
                stations,
                is_simulated,
            };
            assert_eq!(overtaken.doubt("a", quiet), None);
            let timeouts = TcpState {
                timeouts: 2,
                ..quiet
            };
            let doubt = overtaken.doubt("a", timeouts).unwrap();
            assert!(doubt.contains("time.mode = \"virtual\""), "{doubt}");
            let pending = TcpState {
                pending: 1,
                ..quiet
            };
            // Behind a simulated network, the network retransmits pending segments.
            assert_eq!(overtaken.doubt("a", pending).is_some(), !is_simulated);
        }
    }
}
