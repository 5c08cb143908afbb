//! Table `[system]`: hosts that run programs, field devices that Timeloom serves, and the network
//! between them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use timeloom_plant::modbus::{Encoding, Table};
use timeloom_ptp::Role;
use timeloom_time::Duration;

use crate::plan::network::Wire;
use crate::plan::{ClockSpec, ContainerSpec, MachineSpec, Named, OpenFlow, TimelineSpec};
use crate::read::Fields;
use crate::table::{NotEmpty, Table as _, table, words};
use crate::words::{Addresses, CapabilityName, Ready, SignalName, User};

table! {
/// Modelled system. Without `[network]`, its network is a single subnet.
#[noun = "[system]"]
pub struct System {
    /// Names of the Ethernet switches.
    pub switches: Vec<String> = Vec::new(),
    /// Cables of the network. They form a tree, and each host and device has exactly one.
    pub links: Vec<Link> = Vec::new(),
    /// Switches that are real Open vSwitch bridges. All others are kernel bridges.
    pub openflow: Option<OpenFlow>,
    /// Machines that run programs, by name.
    pub hosts: Named<Host> = Named::new(),
    /// Field devices that Timeloom serves, by name.
    pub devices: Named<Device> = Named::new(),
}
}

table! {
/// Cable between two nodes. Without `[network]`, only `rate` may be set. If `rate` is left out, the
/// cable is as fast as the machine permits.
#[noun = "a link"]
pub struct Link {
    /// Names of the two nodes that the cable joins.
    pub between: [String; 2],
    /// Name in the results of a simulated network, such as `core` in `net.link.core.loss`; if left
    /// out, A-B.
    pub name: Option<String>,
    /// Bit rate of each direction, such as `100 Mbit/s`, and other properties.
    #[flatten(Wire)]
    pub wire: Wire,
}
}

impl Host {
    /// Returns the name of the daemon program that keeps the timelines of the host `name`.
    pub fn timeline_program(name: &str) -> String {
        format!("timelines-{name}")
    }

    /// Returns the name of the program that emulates the virtual machine of the host `name`.
    pub fn machine_program(name: &str) -> String {
        format!("machine-{name}")
    }

    /// Returns the name of the bundle's process in the container of the host `name`.
    pub fn container_program(name: &str) -> String {
        format!("container-{name}")
    }

    /// Returns true if the host's container is an OCI bundle.
    pub fn has_bundle(&self) -> bool {
        let container = self.container.as_ref();
        container.is_some_and(|container| container.bundle.is_some())
    }
}

impl Link {
    /// Returns true if the link joins these two nodes, in either order.
    pub fn joins(&self, ends: &[String; 2]) -> bool {
        let [a, b] = ends;
        self.between == [a.clone(), b.clone()] || self.between == [b.clone(), a.clone()]
    }
}

table! {
/// Machine that runs programs. It has one network interface, `eth0`.
#[noun = "a host"]
pub struct Host {
    /// Address of `eth0` with prefix length: IPv4, IPv6, or a list of one of each.
    pub address: Addresses,
    /// Clock of the host. If left out, it shows true time.
    pub clock: Option<ClockSpec>,
    /// Clock of the host's network card, which stamps the frames of a simulated network. Programs
    /// find it as `/dev/ptp0`. If left out, the card has no clock.
    pub card: Option<ClockSpec>,
    /// Role of the host's PTP programs among the clocks of the network, if these sign. The programs
    /// find their keys in the directory `TIMELOOM_PTP_KEYS`.
    pub ptp: Option<Role>,
    /// Timelines that the host keeps, by name.
    pub timelines: Named<TimelineSpec> = Named::new(),
    /// Virtual machine on the host, which runs entirely in the session's time.
    pub machine: Option<MachineSpec>,
    /// Container image in which the host's programs run.
    pub container: Option<ContainerSpec>,
    /// Programs of the host.
    #[read(Program::read_all)]
    pub programs: Vec<Program> = Vec::new(),
}
}

table! {
/// Real program, which runs unmodified.
#[noun = "a program"]
pub struct Program {
    /// Name in logs and results, unique in the whole scenario.
    pub name: String,
    /// Executable and arguments, which are never passed to a shell.
    #[within(NotEmpty)]
    pub run: Vec<String>,
    /// Environment variables, in addition to the usual ones that programs inherit from Timeloom
    /// (`PATH`, `HOME`, `LANG`, `TZ`, `TERM` and similar).
    pub env: BTreeMap<String, String> = BTreeMap::new(),
    /// Names of further variables that the program inherits from Timeloom. A `*` at the end of a
    /// name matches any suffix.
    pub inherit: Vec<String> = Vec::new(),
    /// Working directory. In a file it is relative to the scenario file; in a plan it is absolute.
    /// For a program in a container it is an absolute path in the container; if left out, `/`.
    #[read(Fields::directory)]
    pub directory: PathBuf = PathBuf::from("."),
    /// User of the program, which cannot gain privileges by executing other programs and has only
    /// the capabilities listed below. If left out, Timeloom's user.
    pub user: Option<User>,
    /// Capabilities of the program, whatever its user. It has no others. If this and `user` are
    /// left out, it has those of Timeloom.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// Virtual time from the beginning of the run to the start. By default a program of an attack
    /// starts at the attack's `at`. If the attack has none, from the beginning of the attack.
    pub start: Duration = Duration::ZERO,
    /// Readiness condition: `tcp:PORT` when a program on its host listens on this port,
    /// `log:TEXT` when a line of its output contains the text. If left out, the program is ready
    /// once it has started.
    pub ready: Option<Ready>,
    /// Maximum virtual time from the program's start until it is ready.
    pub ready_timeout: Duration = Duration::from_s(10),
    /// Names of programs that must be ready before this one starts.
    pub after: Vec<String> = Vec::new(),
    /// If true, the run fails when the program ends before the end of the run.
    pub essential: bool = true,
}
}

table! {
/// Field device that Timeloom serves at an address in the experiment's network.
#[noun = "a device"]
pub struct Device {
    /// Address with prefix length: IPv4, IPv6, or a list of one of each.
    pub address: Addresses,
    /// Protocol of the device.
    pub protocol: Protocol = Protocol::default(),
    /// TCP port at which the device listens.
    #[within(1..)]
    pub port: u16 = 502,
    /// Modbus unit identifier.
    pub unit: u8 = 1,
    /// Signals of plants that clients can read, some of which they can also write.
    pub registers: Vec<Register> = Vec::new(),
}
}

words! {
/// Protocol of a field device.
pub enum Protocol {
    /// Modbus over TCP.
    ModbusTcp = "modbus-tcp",
}
}

table! {
/// Signal of a plant that is mapped to registers or bits of a device.
#[noun = "a register"]
pub struct Register {
    /// Modbus table. Clients can only read `input` and `discrete`, and can also write `holding` and
    /// `coil`.
    pub table: Table,
    /// Protocol address of the first register or bit, counted from 0.
    pub at: u16,
    /// Encoding of the value. In `coil` and `discrete` it is `bit`, which is the default there and
    /// is not possible elsewhere.
    #[key = "type"]
    pub kind: Encoding = Encoding::default(),
    /// Number of consecutive values, which is more than one for a vector signal.
    #[within(1..)]
    pub count: u16 = 1,
    /// Plant and signal, such as `grid.bus.680.v1`.
    pub signal: SignalName,
    /// Factor in: register = signal * scale + offset. Must not be 0.
    pub scale: f64 = 1.0,
    /// Offset in: register = signal * scale + offset.
    pub offset: f64 = 0.0,
}
}

impl Register {
    /// Returns the number of addresses in the table that the entry occupies.
    pub fn width(&self) -> u32 {
        u32::from(self.count) * u32::from(self.kind.width())
    }
}

impl Program {
    /// Reads the programs of a host, which may have a container.
    fn read_all(fields: &mut Fields<'_>, key: &'static str) -> Vec<Self> {
        let is_inside = fields.has("container");
        fields.list(key, Self::NOUN, |fields| {
            if is_inside {
                fields.enter_container();
            }
            Self::read_table(fields)
        })
    }

    /// Reads the programs of an attack, which start at `at` by default.
    pub(super) fn read_from(fields: &mut Fields<'_>, key: &'static str, at: Duration) -> Vec<Self> {
        fields.list(key, Self::NOUN, |fields| {
            let program = Self::read_table(fields);
            let start = if fields.has("start") {
                program.start
            } else {
                at
            };
            Self { start, ..program }
        })
    }
}
