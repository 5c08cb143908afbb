//! Virtual machines of the hosts. Each is run by an emulator, which is a program of its host.

use std::path::Path;

use timeloom_fabric::{Fabric, FabricError, StationSpec};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::{MachineProfile, Mode, Plan, Program};

use crate::network::interfaces;
use crate::timelines::TimelineDaemon;

const EXACT: Remedy = Remedy::new(
    "Leave out `profile = \"fast\"` and set `time.tsc = \"emulate\"`: the machine's counter is then \
     virtual, and reading it is slower.",
);

/// Connects each virtual machine that has an address of its own to its host's cable.
pub(crate) fn attach(plan: &Plan, fabric: &Fabric) -> Result<(), FabricError> {
    for (name, host) in &plan.system.hosts {
        let own = host.machine.as_ref().and_then(|machine| machine.address);
        if let (Some(_), Some(namespace)) = (own, fabric.station(name)) {
            namespace.attach_machine(&StationSpec {
                name: name.clone(),
                addresses: interfaces(host.address),
                mac: None,
            })?;
        }
    }
    Ok(())
}

/// Returns the emulator of each virtual machine, with the name of its host.
pub(crate) fn programs(plan: &Plan) -> Vec<(String, Program)> {
    let hosts = plan.system.hosts.iter();
    hosts
        .filter_map(|(name, host)| {
            let program = host.machine.as_ref()?.program(name);
            Some((name.clone(), program))
        })
        .collect()
}

/// Prefixes the command of each emulator with `timeloom vm run` if its machine may read timelines
/// of its host. That command is a guest program of the host, so the counter that it shares with the
/// virtual machine is the host's counter.
pub(crate) fn give_timelines(
    plan: &Plan,
    keepers: &[TimelineDaemon],
    timeloom: &Path,
    emulators: &mut [(String, Program)],
) {
    for (host, program) in emulators {
        let machine = plan.system.hosts[host].machine.as_ref();
        let timelines = machine.map_or(&[][..], |machine| &machine.timelines);
        let keeper = keepers.iter().find(|keeper| keeper.host == *host);
        let (Some(keeper), false) = (keeper, timelines.is_empty()) else {
            continue;
        };
        let mut run = vec![timeloom.display().to_string()];
        // The timeline daemon starts at the same time as the machine.
        run.extend(["vm", "run", "--wait", "1 min", "--directory"].map(str::to_owned));
        run.push(keeper.directory.display().to_string());
        for timeline in timelines {
            run.extend(["--timeline".to_owned(), timeline.clone()]);
        }
        run.push("--".to_owned());
        run.append(&mut program.run);
        program.run = run;
    }
}

/// Returns a caveat for each virtual machine that sees real time.
pub(crate) fn leaks(plan: &Plan) -> Vec<Caveat> {
    let hosts = plan.system.hosts.iter();
    hosts
        .filter(|(_, host)| {
            let machine = host.machine.as_ref();
            machine.is_some_and(|machine| machine.profile == MachineProfile::Fast)
                && plan.time.mode != Mode::Real
        })
        .map(|(name, _)| {
            let reason = format!(
                "The time-stamp counter inside the virtual machine of {name} is the machine's own: \
                 it does not stop when the session is paused (profile fast)."
            );
            Caveat::new(reason, EXACT)
        })
        .collect()
}
