//! Construction of a network, and lookup of its nodes and links.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::io::Errno;

use crate::ipv6;
use crate::link::{self, CableEnd};
use crate::names::{InterfaceNames, mac_of_name};
use crate::netlink::Refusal;
use crate::openflow::{Bridge, OpenVSwitch};
use crate::station::{STATION_INDEX, STATION_INTERFACE, Site};
use crate::tbf::{self, QueueOf};
use crate::{
    FabricError, KernelError, LinkSpec, Namespace, NetworkSpec, OpenFlowSpec, StationSpec,
};
use timeloom_wire::MacAddress;

/// Network that has been built. Dropping the value releases the namespaces. The kernel removes
/// them when the last program inside has ended.
#[derive(Debug)]
pub struct Fabric {
    fabric: Namespace,
    stations: HashMap<String, Namespace>,
    macs: HashMap<String, MacAddress>,
    /// Name of the interface of a node, by the names of the node and of its peer.
    ports: HashMap<(String, String), String>,
    /// Daemons of the OpenFlow switches.
    openflow: Option<OpenVSwitch>,
}

/// Interface together with its namespace, as [`crate::PacketCapture`] needs them.
#[derive(Debug, Clone, Copy)]
pub struct StationPort<'a> {
    /// Namespace of the interface.
    pub namespace: &'a Namespace,
    /// Name of the interface in the namespace.
    pub interface: &'a str,
}

impl Fabric {
    /// Builds the network. When the function returns, every link carries frames.
    ///
    /// # Errors
    /// Fails with [`FabricError::Spec`] before anything is created. Fails with
    /// [`FabricError::Kernel`] if the kernel refuses a step, after everything has been removed.
    pub fn build(spec: &NetworkSpec) -> Result<Self, FabricError> {
        spec.validate()?;
        let mut builder = Builder::start(spec)?;
        for link in &spec.links {
            builder.lay(link)?;
        }
        for station in &spec.stations {
            if !spec.unplugged.contains(&station.name) {
                builder.site_of(&station.name).settle(station)?;
            }
        }
        builder.wait_until_up()?;
        let plugged = |station: &&StationSpec| !spec.unplugged.contains(&station.name);
        let of_ipv6 = (spec.stations.iter().filter(plugged))
            .filter(|station| !station.of_ipv6().is_empty())
            .map(|station| &builder.sites[&station.name].namespace);
        ipv6::wait_until_quiet(&of_ipv6.collect::<Vec<_>>())?;
        let names: Vec<String> = (spec.openflow.switches.iter())
            .map(|switch| builder.names.pick(switch))
            .collect();
        let mut fabric = builder.finish();
        fabric.start_openflow(spec, names)?;
        Ok(fabric)
    }

    /// Returns the namespace of a station; `None` if there is no station of that name.
    pub fn station(&self, name: &str) -> Option<&Namespace> {
        self.stations.get(name)
    }

    /// Returns the MAC address of a station's `eth0`; `None` if there is no station of that name.
    pub fn mac(&self, station: &str) -> Option<MacAddress> {
        self.macs.get(station).copied()
    }

    /// Returns the namespace that contains all switches.
    pub fn fabric_namespace(&self) -> &Namespace {
        &self.fabric
    }

    /// Returns a description of the failure if a daemon that serves OpenFlow switches has ended;
    /// `None` if the network works.
    pub fn trouble(&self) -> Option<String> {
        self.openflow.as_ref()?.trouble()
    }

    /// Starts the daemons of the OpenFlow switches. `names` are the interfaces that are named after
    /// the switches, in the order of the switches.
    fn start_openflow<'a>(
        &mut self,
        spec: &'a NetworkSpec,
        names: Vec<String>,
    ) -> Result<(), KernelError> {
        let OpenFlowSpec {
            switches,
            controlled,
        } = &spec.openflow;
        if switches.is_empty() {
            return Ok(());
        }
        // The ports are in the order of the links, so that port numbers follow from the
        // description.
        let laid = &self.ports;
        let ports = |switch: &'a String| {
            spec.links.iter().filter_map(move |link| {
                let peer = if link.a == *switch {
                    &link.b
                } else if link.b == *switch {
                    &link.a
                } else {
                    return None;
                };
                let port = laid.get(&(switch.clone(), peer.clone()));
                Some(port.expect("every link has been laid").clone())
            })
        };
        let bridges: Vec<Bridge> = switches
            .iter()
            .zip(names)
            .map(|(switch, name)| Bridge {
                name,
                ports: ports(switch).collect(),
            })
            .collect();
        self.openflow = Some(OpenVSwitch::start(&self.fabric, &bridges, *controlled)?);
        Ok(())
    }

    /// Returns the interface of `node` towards `peer`: `eth0` for a station, or the port of a
    /// switch. A port is called `NODE-PEER` if that has at most 15 characters, and has a stable
    /// short name otherwise.
    pub fn port(&self, node: &str, peer: &str) -> Option<StationPort<'_>> {
        let interface = self.ports.get(&(node.to_owned(), peer.to_owned()))?;
        let namespace = self.stations.get(node).unwrap_or(&self.fabric);
        Some(StationPort {
            namespace,
            interface,
        })
    }

    /// Returns the end at which the link between `a` and `b` is captured. This is the end in the
    /// fabric namespace, which programs cannot access. If both ends or none are in that namespace,
    /// it is the end of `a`.
    pub fn link_interface(&self, a: &str, b: &str) -> Option<StationPort<'_>> {
        let only_b_is_a_switch = self.stations.contains_key(a) && !self.stations.contains_key(b);
        if only_b_is_a_switch {
            self.port(b, a)
        } else {
            self.port(a, b)
        }
    }
}

/// Network under construction: a [`Fabric`], with the sockets that configure it.
struct Builder {
    fabric: Site,
    sites: HashMap<String, Site>,
    macs: HashMap<String, MacAddress>,
    /// Numbers of the kernel's bridges, by switch.
    bridges: HashMap<String, u32>,
    names: InterfaceNames,
    next_index: u32,
    ports: HashMap<(String, String), String>,
    /// Interfaces that must come up: the name, the number, and the station it belongs to if any.
    awaited: Vec<(String, u32, Option<String>)>,
}

impl Builder {
    /// Creates all nodes, without links.
    fn start(spec: &NetworkSpec) -> Result<Self, KernelError> {
        let mut builder = Self {
            fabric: Site::create("fabric")?,
            sites: HashMap::new(),
            macs: HashMap::new(),
            bridges: HashMap::new(),
            names: InterfaceNames::new(),
            next_index: STATION_INDEX,
            ports: HashMap::new(),
            awaited: Vec::new(),
        };
        let of_kernel = |switch: &&String| !spec.openflow.switches.contains(switch);
        for switch in spec.switches.iter().filter(of_kernel) {
            let name = builder.names.pick(switch);
            let index = builder.take_index();
            let request = link::bridge(index, &name, port_mac(switch));
            builder
                .fabric
                .route
                .change(request, NLM_F_CREATE | NLM_F_EXCL)
                .map_err(|refusal| {
                    refusal
                        .during(format!("create the bridge of switch `{switch}`"))
                        .missing_if(&[Errno::OPNOTSUPP], "bridges in the kernel (CONFIG_BRIDGE)")
                })?;
            builder.bridges.insert(switch.clone(), index);
        }
        for (station, mac) in spec.stations.iter().zip(spec.macs()) {
            builder
                .sites
                .insert(station.name.clone(), Site::create(&station.name)?);
            builder.macs.insert(station.name.clone(), mac);
        }
        Ok(builder)
    }

    /// Creates one cable, connects both ends and sets the rate of the cable.
    fn lay(&mut self, spec: &LinkSpec) -> Result<(), KernelError> {
        let title = format!("{} - {}", spec.a, spec.b);
        // The netlink message creates one end in the namespace of its socket. That should be the
        // end in the fabric namespace, if there is one.
        let (near, far) = if self.macs.contains_key(&spec.b) || !self.macs.contains_key(&spec.a) {
            (&spec.a, &spec.b)
        } else {
            (&spec.b, &spec.a)
        };
        let (near_name, near_index, near_mac) = self.new_end(near, far);
        let (far_name, far_index, far_mac) = self.new_end(far, near);
        let request = link::cable(
            &CableEnd {
                index: near_index,
                name: &near_name,
                mac: near_mac,
            },
            &CableEnd {
                index: far_index,
                name: &far_name,
                mac: far_mac,
            },
            self.sites.get(far).map(|site| site.namespace.as_raw_fd()),
        );
        self.change(near, request, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| {
                refusal
                    .during(format!("create the veth pair of link `{title}`"))
                    .missing_if(
                        &[Errno::OPNOTSUPP],
                        "veth pairs in the kernel (CONFIG_VETH)",
                    )
            })?;
        for (node, index) in [(near, near_index), (far, far_index)] {
            if let Some(rate) = spec.rate_bits_per_s {
                let bridged = !self.macs.contains_key(node);
                let queue = if bridged {
                    QueueOf::Port
                } else {
                    QueueOf::Station
                };
                let request = tbf::shape(index, rate, queue);
                self.change(node, request, NLM_F_CREATE | NLM_F_REPLACE)
                    .map_err(|refusal| {
                        refusal
                            .during(format!("give link `{title}` the rate {rate} bit/s"))
                            .missing_if(
                                &[Errno::NOENT],
                                "the tbf queue in the kernel (CONFIG_NET_SCH_TBF)",
                            )
                    })?;
            }
            if node == far {
                self.change(node, link::up(index), 0).map_err(|refusal| {
                    refusal.during(format!("bring up link `{title}` at `{node}`"))
                })?;
            }
            if let Some(bridge) = self.bridges.get(node) {
                let request = link::plug(index, *bridge);
                self.change(node, request, 0).map_err(|refusal| {
                    refusal.during(format!("plug link `{title}` into switch `{node}`"))
                })?;
            }
        }
        self.ports.insert((near.clone(), far.clone()), near_name);
        self.ports.insert((far.clone(), near.clone()), far_name);
        Ok(())
    }

    /// Returns the name, the number and the MAC address for the end of a cable at `node`.
    fn new_end(&mut self, node: &str, peer: &str) -> (String, u32, MacAddress) {
        let (name, index, mac, station) = match self.macs.get(node) {
            Some(mac) => (
                STATION_INTERFACE.to_owned(),
                STATION_INDEX,
                *mac,
                Some(node.to_owned()),
            ),
            None => {
                let title = format!("{node}-{peer}");
                (
                    self.names.pick(&title),
                    self.take_index(),
                    port_mac(&title),
                    None,
                )
            }
        };
        self.awaited.push((name.clone(), index, station));
        (name, index, mac)
    }

    /// Waits until all interfaces carry frames. Until the kernel's link watcher has processed a new
    /// cable, the cable's interfaces drop all frames.
    fn wait_until_up(&mut self) -> Result<(), KernelError> {
        let deadline = StdInstant::now() + UP_WITHIN;
        for (name, index, station) in std::mem::take(&mut self.awaited) {
            let site = match &station {
                Some(station) => self.site_of(station),
                None => &mut self.fabric,
            };
            loop {
                let answer = site.route.get(link::query(index)).map_err(|refusal| {
                    refusal.during(format!("query {name} in `{}`", site.namespace.name()))
                })?;
                if link::carries_frames(&answer) {
                    break;
                }
                if StdInstant::now() > deadline {
                    let action = format!("wait until {name} in `{}` is up", site.namespace.name());
                    return Err(KernelError::new(action, io::ErrorKind::TimedOut.into()));
                }
                sleep(UP_POLL);
            }
        }
        Ok(())
    }

    fn finish(self) -> Fabric {
        // The netlink sockets are closed here, because they would keep the namespaces alive.
        let stations = self
            .sites
            .into_iter()
            .map(|(name, site)| (name, site.namespace))
            .collect();
        Fabric {
            fabric: self.fabric.namespace,
            stations,
            macs: self.macs,
            ports: self.ports,
            openflow: None,
        }
    }

    /// Requests a change in the namespace of `node`.
    fn change(
        &mut self,
        node: &str,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), Refusal> {
        self.sites
            .get_mut(node)
            .unwrap_or(&mut self.fabric)
            .route
            .change(request, flags)
    }

    fn site_of(&mut self, station: &str) -> &mut Site {
        self.sites
            .get_mut(station)
            .expect("validated: every station has a site")
    }

    fn take_index(&mut self) -> u32 {
        self.next_index += 1;
        self.next_index
    }
}

/// Returns the MAC address of an interface that does not belong to a station. The first byte
/// distinguishes these addresses from those that are derived for stations.
fn port_mac(title: &str) -> MacAddress {
    let mut mac = mac_of_name(title, 0);
    mac.0[0] = 0x06;
    mac
}

/// Time limit for the links to come up. It usually takes a few milliseconds; a longer delay has
/// another cause.
const UP_WITHIN: StdDuration = StdDuration::from_secs(5);
const UP_POLL: StdDuration = StdDuration::from_micros(500);
