//! Switches that are Open vSwitch bridges.
//!
//! An `ovsdb-server` and an `ovs-vswitchd` in the fabric namespace serve the switches. If the
//! kernel has a datapath for Open vSwitch, one pair of these daemons serves all such switches of a
//! network; otherwise each pair serves up to eight ([`Datapath`]). The ports are the cable ends
//! that a kernel bridge would have, so that rates and captures work in the same way.
//!
//! This module does not implement OpenFlow. A controller that the user chooses connects to the
//! switches. It listens in the fabric namespace at [`CONTROLLER`].
//!
//! **Nothing outlives the run.** The daemons die with the thread that started them (PDEATHSIG).
//! Their directory is removed as soon as they have connected to each other, because from then on
//! they need only their open files and sockets.

mod daemons;
mod datapath;
mod patience;

use parking_lot::Mutex;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Child;
use std::thread::JoinHandle;

pub use datapath::Datapath;

use crate::{KernelError, Namespace};
use daemons::{Daemons, Directory};

/// Address of the controller in the fabric namespace. The switches connect to it.
pub const CONTROLLER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6653);

/// Selection of the switches that speak OpenFlow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFlowSpec {
    /// Names of the switches, all of which are in [`crate::NetworkSpec::switches`]. The first has
    /// the datapath identifier 1, the next one 2.
    pub switches: Vec<String>,
    /// True if the switches wait for a controller at [`CONTROLLER`], without which they forward
    /// nothing. If false, each switch learns addresses by itself.
    pub controlled: bool,
}

/// Configuration of one switch.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) name: String,
    /// Cable ends of the switch. The first one is OpenFlow port 1.
    pub(crate) ports: Vec<String>,
}

/// Daemons that serve the OpenFlow switches of one network.
#[derive(Debug)]
pub(crate) struct OpenVSwitch {
    /// Processes with their program names. Each `ovs-vswitchd` precedes its database server, since
    /// it must end first.
    daemons: Mutex<Vec<(&'static str, Child)>>,
    /// Threads that disable inactivity probes; each ends with its database server.
    patience: Vec<JoinHandle<()>>,
}

impl OpenVSwitch {
    /// Starts the daemons in `namespace` with these bridges. Returns when the bridges forward
    /// frames, or wait for their controller.
    pub(crate) fn start(
        namespace: &Namespace,
        bridges: &[Bridge],
        controlled: bool,
    ) -> Result<Self, KernelError> {
        let datapath = Datapath::choose(namespace)?;
        let directory = Directory::create()?;
        let shares: Vec<&[Bridge]> = bridges.chunks(datapath.bridges_of_a_daemon()).collect();
        // Each step is begun for all daemons before the next step, so that the daemons start in
        // parallel.
        let mut all = Daemons::databases(namespace, &directory, shares.len())?;
        for daemons in &mut all {
            daemons.switch(datapath)?;
        }
        let mut first = 0;
        let configured = all.iter().zip(&shares).map(|(daemons, share)| {
            let words = configuration(share, first, datapath, controlled);
            first += share.len();
            daemons.configure(words)
        });
        // If one daemon cannot be started, the others end when they are dropped.
        let configured = configured.collect::<Result<Vec<_>, _>>()?;
        for configured in configured {
            configured.wait()?;
        }
        let mut patience = Vec::new();
        for daemons in all.iter().filter(|_| controlled) {
            let kept = patience::keep(&daemons.socket()).map_err(|error| {
                KernelError::new("watch the connections of the OpenFlow switches", error)
            });
            patience.push(kept?);
        }
        let (switches, databases): (Vec<_>, Vec<_>) = all.into_iter().map(Daemons::release).unzip();
        let switches = switches.into_iter().map(|child| ("ovs-vswitchd", child));
        let databases = databases.into_iter().map(|child| ("ovsdb-server", child));
        Ok(Self {
            daemons: Mutex::new(switches.chain(databases).collect()),
            patience,
        })
    }

    /// Returns a description of the failure if a daemon has ended by itself.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut daemons = self.daemons.lock();
        daemons
            .iter_mut()
            .find_map(|(name, child)| match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(format!("{name} ended: {status}")),
                Err(error) => Some(format!("{name}: {error}")),
            })
    }
}

/// Checks that Open vSwitch works in `namespace`, with one switch that has no port. Returns a text
/// with the version, and with the datapath that would forward frames.
pub(crate) fn examine(namespace: &Namespace) -> Result<String, KernelError> {
    let version = daemons::version()?;
    let bridge = Bridge {
        name: "probe".to_owned(),
        ports: Vec::new(),
    };
    OpenVSwitch::start(namespace, &[bridge], false)?;
    let datapath = Datapath::choose(namespace)?;
    Ok(format!("{version}; frames pass through {datapath}"))
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        for (_, child) in self.daemons.get_mut() {
            // Both calls fail only if the child has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        for patience in self.patience.drain(..) {
            let _ = patience.join();
        }
    }
}

/// Returns the arguments of one `ovs-vsctl` transaction that creates these bridges. `first` is the
/// number of bridges that precede them in the network.
fn configuration(
    bridges: &[Bridge],
    first: usize,
    datapath: Datapath,
    controlled: bool,
) -> impl Iterator<Item = String> {
    let kind = datapath.kind();
    let mut words: Vec<String> = Vec::new();
    let mut command = |text: String| {
        words.push("--".to_owned());
        words.extend(text.split(' ').map(str::to_owned));
    };
    for (index, Bridge { name, ports }) in bridges.iter().enumerate() {
        let fail_mode = if controlled { "secure" } else { "standalone" };
        command(format!("add-br {name}"));
        command(format!(
            "set bridge {name} datapath_type={kind} fail_mode={fail_mode} mcast_snooping_enable=false \
             protocols=OpenFlow10,OpenFlow13 other_config:disable-in-band=true other_config:datapath-id={:016x}",
            first + index + 1
        ));
        for (number, port) in (1..).zip(ports) {
            command(format!("add-port {name} {port}"));
            command(format!("set interface {port} ofport_request={number}"));
        }
        if controlled {
            // A controller that is paused with the testbed is not dead (see `patience`). One that
            // starts late should be connected soon.
            command(format!(
                "--id=@c{index} create controller target=\"tcp:{CONTROLLER}\" \
                 connection_mode=out-of-band inactivity_probe=0 max_backoff=1000"
            ));
            command(format!("set bridge {name} controller=@c{index}"));
        }
    }
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_names_every_switch_and_port_once() {
        let bridge = |name: &str, ports: &[&str]| Bridge {
            name: name.to_owned(),
            ports: ports.iter().map(|&port| port.to_owned()).collect(),
        };
        let bridges = [bridge("s1", &["s1-h1", "s1-s2"]), bridge("s2", &["s2-s1"])];
        let text = configuration(&bridges, 8, Datapath::UserSpace, true)
            .collect::<Vec<_>>()
            .join(" ");
        for wanted in [
            "add-br s1",
            "add-br s2",
            "add-port s1 s1-s2",
            "set interface s1-s2 ofport_request=2",
            "datapath-id=000000000000000a",
            "set bridge s2 controller=@c1",
        ] {
            assert_eq!(text.matches(wanted).count(), 1, "{wanted} in {text}");
        }
        let alone = configuration(&bridges, 0, Datapath::Kernel, false)
            .collect::<Vec<_>>()
            .join(" ");
        assert!(alone.contains("standalone") && !alone.contains("controller"));
        assert_eq!(alone.matches("datapath_type=system").count(), 2, "{alone}");
    }
}
