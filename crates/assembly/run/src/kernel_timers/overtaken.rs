//! Detection of kernel TCP timers over which virtual time has skipped.
//!
//! On links of the kernel, the kernel retransmits lost segments in real time, while virtual time
//! skips to the next event, so the result matches no real network. A simulated network retransmits
//! by timers of its own, in virtual time, before the kernel's. If a kernel behind a simulated
//! network nevertheless retransmits, an operation took minutes of real time.

use std::collections::BTreeSet;

use timeloom_fabric::{KernelError, Namespace, TcpSettings, TcpState, namespace_traffic};
use timeloom_guest::Process;
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::Plan;

/// Stations of a run whose virtual time skips.
#[derive(Default)]
pub(super) struct Overtaken {
    stations: Vec<Namespace>,
    /// Settings of the same stations at the start of a run with a simulated network.
    settings: Vec<TcpSettings>,
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
            settings: Vec::new(),
            is_simulated: plan.network.is_some(),
        })
    }

    /// Records the settings of the stations, which programs are not to change.
    pub(super) fn note_settings(&mut self) -> Result<(), KernelError> {
        if self.is_simulated {
            let all = self.stations.iter().map(TcpSettings::of);
            self.settings = all.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Returns reasons why the results cannot be trusted. The caller has stopped the clock, and the
    /// programs, which are `processes`, must still be alive.
    pub(super) fn doubts(&self, processes: &[Process]) -> Vec<Caveat> {
        let doubts = self.stations.iter().filter_map(|station| {
            let doubt = match TcpState::of(station) {
                Ok(state) => self.doubt(station.name(), state)?,
                Err(error) => unread(station.name(), &error),
            };
            Some(doubt)
        });
        let altered = self.stations.iter().zip(&self.settings);
        let altered = altered.filter_map(|(station, before)| {
            let changes = match TcpSettings::of(station) {
                Ok(now) => now.changes_since(before),
                Err(error) => return Some(unread(station.name(), &error)),
            };
            (!changes.is_empty()).then(|| {
                let reason = format!(
                    "Programs have changed settings of the TCP of {}, which then measures real time, \
                     over which this run skips, so the results are not to be trusted: {}.",
                    station.name(),
                    changes.join(", ")
                );
                Caveat::new(reason, Remedy::NO_SKIPPING)
            })
        });
        doubts
            .chain(altered)
            .chain(self.elsewhere(processes))
            .collect()
    }

    /// Returns a reason for each network namespace that is none of the run's, and in which programs
    /// of the run use TCP: its kernel timers are in real time, and unobserved.
    fn elsewhere(&self, processes: &[Process]) -> Vec<Caveat> {
        let stations = self.stations.iter().filter_map(|it| it.inode().ok());
        let own = namespace_traffic(std::process::id() as i32).map(|(inode, _)| inode);
        let mut known: BTreeSet<u64> = stations.chain(own).collect();
        if self.stations.is_empty() {
            return Vec::new();
        }
        let of_others = processes.iter().filter_map(|process| {
            let (inode, sent) = namespace_traffic(process.pid)?;
            (sent > 0 && known.insert(inode)).then(|| {
                let reason = format!(
                    "{} has used TCP in a network namespace of its own, whose kernel has timers in real \
                     time, over which this run skips, so the results are not to be trusted.",
                    process.name
                );
                Caveat::new(reason, Remedy::NO_SKIPPING)
            })
        });
        of_others.collect()
    }

    fn doubt(&self, name: &str, state: TcpState) -> Option<Caveat> {
        if self.is_simulated && state.timeouts == 0 && state.delayed > 0 {
            let reason = format!(
                "The kernel of {name} has delayed {} acknowledgements, in real time, over which this \
                 run skips, so the results are not to be trusted.",
                state.delayed
            );
            return Some(Caveat::new(reason, Remedy::NO_SKIPPING));
        }
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
        if state.window_probes > 0 {
            what.push(format!("{} probes of closed windows", state.window_probes));
        }
        if state.delayed > 0 {
            what.push(format!("{} delayed acknowledgements", state.delayed));
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
        "It is unknown whether virtual time has jumped over timers of the TCP of {name}: {error}."
    );
    Caveat::new(reason, Remedy::NO_SKIPPING)
}

pub(super) const SIMULATED: Remedy = Remedy::new(
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
                settings: Vec::new(),
                is_simulated,
            };
            assert_eq!(overtaken.doubt("a", quiet), None);
            let timeouts = TcpState {
                timeouts: 2,
                ..quiet
            };
            let doubt = overtaken.doubt("a", timeouts).unwrap();
            assert!(doubt.contains("time.mode = \"virtual\""), "{doubt}");
            let delayed = TcpState {
                delayed: 1,
                ..quiet
            };
            let doubt = overtaken.doubt("a", delayed).unwrap();
            assert!(doubt.contains("acknowledgements"), "{doubt}");
            let pending = TcpState {
                pending: 1,
                ..quiet
            };
            // Behind a simulated network, the network retransmits pending segments.
            assert_eq!(overtaken.doubt("a", pending).is_some(), !is_simulated);
        }
    }
}
