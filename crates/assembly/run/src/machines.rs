//! The hosts' virtual machines: each an emulator that is a program of its host.

use timeloom_fabric::{Fabric, FabricError, StationSpec};
use timeloom_scenario::{MachineProfile, Mode, Plan, Program};

/// Gives each machine that has an address of its own a card at its host's cable.
pub(crate) fn attach(plan: &Plan, fabric: &Fabric) -> Result<(), FabricError> {
    for (name, host) in &plan.system.hosts {
        let own = host.machine.as_ref().and_then(|machine| machine.address);
        if let (Some(_), Some(namespace)) = (own, fabric.station(name)) {
            namespace.attach_machine(&StationSpec {
                name: name.clone(),
                address: host.address.address,
                prefix_len: host.address.prefix,
                mac: None,
            })?;
        }
    }
    Ok(())
}

/// The emulators, each with its host.
pub(crate) fn programs(plan: &Plan) -> Vec<(String, Program)> {
    let hosts = plan.system.hosts.iter();
    hosts
        .filter_map(|(name, host)| {
            let program = host.machine.as_ref()?.program(name);
            Some((name.clone(), program))
        })
        .collect()
}

/// What of real time the virtual machines see, in words for the manifest.
pub(crate) fn leaks(plan: &Plan) -> Vec<String> {
    let hosts = plan.system.hosts.iter();
    hosts
        .filter(|(_, host)| {
            let machine = host.machine.as_ref();
            machine.is_some_and(|machine| machine.profile == MachineProfile::Fast)
                && plan.time.mode != Mode::Real
        })
        .map(|(name, _)| {
            format!(
                "The time-stamp counter inside the virtual machine of {name} is the machine's own: it does not stand when the session does (profile fast)."
            )
        })
        .collect()
}
