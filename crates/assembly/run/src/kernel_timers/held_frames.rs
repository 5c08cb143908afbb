//! Detection of frames that queues of the kernel held back in real time, while virtual time did not
//! pass at that pace.

use timeloom_fabric::{Fabric, KernelError, Namespace, NetworkSpec, frames_held_back};
use timeloom_guest::{Compute, Session};
use timeloom_results::Caveat;
use timeloom_scenario::Plan;

use super::overtaken::SIMULATED;

/// Namespaces of a run whose virtual time skips.
#[derive(Default)]
pub(super) struct HeldFrames {
    namespaces: Vec<Namespace>,
    /// True if virtual time passes only by skips, whatever the links hold.
    stands: bool,
}

impl HeldFrames {
    /// Returns the namespaces of a plan; the result is empty if no frame can be overtaken. Makes
    /// `session` wait for frames in all its namespaces, since programs can add queues to theirs.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(super) fn watch(
        session: &Session,
        plan: &Plan,
        (spec, fabric): (&NetworkSpec, &Fabric),
    ) -> std::io::Result<Self> {
        if !plan.time.skips() {
            return Ok(Self::default());
        }
        let stations = spec.stations.iter();
        let stations = stations.filter_map(|station| fabric.station(&station.name));
        let all: Vec<&Namespace> = stations.chain([fabric.fabric_namespace()]).collect();
        let inodes = all.iter().map(|it| it.inode());
        // The kernel has 32 bits for these numbers.
        let inodes = inodes.collect::<std::io::Result<Vec<_>>>()?;
        session.watch_networks(inodes.into_iter().map(|inode| inode as u32).collect());
        Ok(Self {
            namespaces: all
                .into_iter()
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
                "Queues of the kernel (of links with a rate, or delays that programs added) have held \
                 frames back {count} times, in real time, over which this run skips, so the results are not to be trusted."
            ),
            Err(error) => format!(
                "It is unknown if queues of the kernel have held frames back in real time, over which \
                 this run skips: {error}."
            ),
        };
        Some(Caveat::new(reason, SIMULATED))
    }
}
