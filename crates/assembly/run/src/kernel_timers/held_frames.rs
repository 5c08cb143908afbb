//! Detection of frames that links of the kernel held back in real time, while virtual time did not
//! pass at that pace.

use timeloom_fabric::{Fabric, KernelError, Namespace, NetworkSpec, frames_held_back};
use timeloom_guest::Compute;
use timeloom_results::Caveat;
use timeloom_scenario::Plan;

use super::overtaken::SIMULATED;

/// Namespaces with links of the kernel that have a rate, in a run whose virtual time skips.
#[derive(Default)]
pub(super) struct HeldFrames {
    namespaces: Vec<Namespace>,
    /// True if virtual time passes only by skips, whatever the links hold.
    stands: bool,
}

impl HeldFrames {
    /// Returns the namespaces of a plan; the result is empty if no frame can be overtaken.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(super) fn of(plan: &Plan, spec: &NetworkSpec, fabric: &Fabric) -> std::io::Result<Self> {
        let has_rate = spec.links.iter().any(|link| link.rate_bits_per_s.is_some());
        if !plan.time.skips() || !has_rate {
            return Ok(Self::default());
        }
        let stations = spec.stations.iter();
        let stations = stations.filter_map(|station| fabric.station(&station.name));
        Ok(Self {
            namespaces: stations
                .chain([fabric.fabric_namespace()])
                .map(Namespace::try_clone)
                .collect::<Result<_, _>>()?,
            stands: plan.time.compute == Compute::None,
        })
    }

    /// Returns the reason why the results cannot be trusted, if there is one. `are_awaited` is true
    /// if time did not skip while frames were held back.
    pub(super) fn doubt(&self, are_awaited: bool) -> Option<Caveat> {
        if are_awaited && !self.stands {
            return None;
        }
        let counts = self.namespaces.iter().map(frames_held_back);
        let reason = match counts.sum::<Result<u64, KernelError>>() {
            Ok(0) => return None,
            Ok(count) => format!(
                "Links with a rate have held frames back {count} times, in real time, over which \
                 this run skips, so the results are not to be trusted."
            ),
            Err(error) => format!(
                "It is unknown if links with a rate have held frames back in real time, over which \
                 this run skips: {error}."
            ),
        };
        Some(Caveat::new(reason, SIMULATED))
    }
}
