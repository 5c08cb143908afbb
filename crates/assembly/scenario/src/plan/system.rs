//! Table `[system]`: hosts that run programs, field devices that Timeloom serves, and the network
//! between them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_plant::modbus::{Encoding, Table};
use timeloom_time::Duration;

use crate::plan::network::Wire;
use crate::plan::{ClockSpec, ContainerSpec, MachineSpec, Named, OpenFlow, TimelineSpec};
use crate::read::{Fields, Read};
use crate::words::{self, Addresses, CapabilityName, Ready, SignalName, User};

/// Modelled system. Without `[network]`, its network is a single subnet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct System {
    /// Names of the Ethernet switches.
    #[schemars(default)]
    pub switches: Vec<String>,
    /// Cables of the network. They form a tree, and each host and device has exactly one.
    #[schemars(default)]
    pub links: Vec<Link>,
    /// Switches that are real Open vSwitch bridges. All others are kernel bridges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openflow: Option<OpenFlow>,
    /// Machines that run programs, by name.
    #[schemars(default)]
    pub hosts: Named<Host>,
    /// Field devices that Timeloom serves, by name.
    #[schemars(default)]
    pub devices: Named<Device>,
}

/// Cable between two nodes. Without `[network]`, only `rate` may be set. If `rate` is left out, the
/// cable is as fast as the machine permits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// Names of the two nodes that the cable joins.
    pub between: [String; 2],
    /// Name in the results of a simulated network, such as `core` in `net.link.core.loss`; if left
    /// out, A-B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bit rate of each direction, such as `100 Mbit/s`, and other properties.
    #[serde(flatten)]
    pub wire: Wire,
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

/// Machine that runs programs. It has one network interface, `eth0`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Host {
    /// Address of `eth0` with prefix length: IPv4, IPv6, or a list of one of each.
    pub address: Addresses,
    /// Clock of the host. If left out, it shows true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSpec>,
    /// Timelines that the host keeps, by name.
    #[schemars(default)]
    pub timelines: Named<TimelineSpec>,
    /// Virtual machine on the host, which runs entirely in the session's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineSpec>,
    /// Container image in which the host's programs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerSpec>,
    /// Programs of the host.
    #[schemars(default)]
    pub programs: Vec<Program>,
}

/// Real program, which runs unmodified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Program {
    /// Name in logs and results, unique in the whole scenario.
    pub name: String,
    /// Executable and arguments, which are never passed to a shell.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Environment variables, in addition to the usual ones that programs inherit from Timeloom
    /// (`PATH`, `HOME`, `LANG`, `TZ`, `TERM` and similar).
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Names of further variables that the program inherits from Timeloom. A `*` at the end of a
    /// name matches any suffix.
    #[schemars(default)]
    pub inherit: Vec<String>,
    /// Working directory. In a file it is relative to the scenario file; in a plan it is absolute.
    /// For a program in a container it is an absolute path in the container; if left out, `/`.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// User of the program, which cannot gain privileges by executing other programs and has only
    /// the capabilities listed below. If left out, Timeloom's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Capabilities of the program, whatever its user. It has no others. If this and `user` are
    /// left out, it has those of Timeloom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<CapabilityName>>,
    /// Virtual time from the beginning of the run to the start. By default a program of an attack
    /// starts at the attack's `at`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub start: Duration,
    /// Readiness condition: `tcp:PORT` when a program on its host listens on this port,
    /// `log:TEXT` when a line of its output contains the text. If left out, the program is ready
    /// once it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Maximum virtual time from the program's start until it is ready.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// Names of programs that must be ready before this one starts.
    #[schemars(default)]
    pub after: Vec<String>,
    /// If true, the run fails when the program ends before the end of the run.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// Field device that Timeloom serves at an address in the experiment's network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Device {
    /// Address with prefix length: IPv4, IPv6, or a list of one of each.
    pub address: Addresses,
    /// Protocol of the device.
    #[schemars(default)]
    pub protocol: Protocol,
    /// TCP port at which the device listens.
    #[schemars(default = "modbus_port", range(min = 1))]
    pub port: u16,
    /// Modbus unit identifier.
    #[schemars(default = "modbus_unit")]
    pub unit: u8,
    /// Signals of plants that clients can read, some of which they can also write.
    #[schemars(default)]
    pub registers: Vec<Register>,
}

/// Protocol of a field device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Protocol {
    /// Modbus over TCP.
    #[default]
    #[serde(rename = "modbus-tcp")]
    ModbusTcp,
}

/// Signal of a plant that is mapped to registers or bits of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Register {
    /// Modbus table. Clients can only read `input` and `discrete`, and can also write `holding` and
    /// `coil`.
    pub table: Table,
    /// Protocol address of the first register or bit, counted from 0.
    pub at: u16,
    /// Encoding of the value. In `coil` and `discrete` it is `bit`, which is the default there and
    /// is not possible elsewhere.
    #[serde(rename = "type")]
    #[schemars(default)]
    pub kind: Encoding,
    /// Number of consecutive values, which is more than one for a vector signal.
    #[schemars(default = "one_value", range(min = 1))]
    pub count: u16,
    /// Plant and signal, such as `grid.bus.680.v1`.
    pub signal: SignalName,
    /// Factor in: register = signal * scale + offset. Must not be 0.
    #[schemars(default = "no_scale")]
    pub scale: f64,
    /// Offset in: register = signal * scale + offset.
    #[schemars(default)]
    pub offset: f64,
}

impl Register {
    /// Returns the number of addresses in the table that the entry occupies.
    pub fn width(&self) -> u32 {
        u32::from(self.count) * u32::from(self.kind.width())
    }
}

fn modbus_port() -> u16 {
    502
}
fn modbus_unit() -> u8 {
    1
}
fn one_value() -> u16 {
    1
}
fn no_scale() -> f64 {
    1.0
}

impl Read for System {
    const NOUN: &'static str = "[system]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            switches: fields.or_default("switches"),
            openflow: fields.optional("openflow"),
            links: fields.or_default("links"),
            hosts: fields.or_default("hosts"),
            devices: fields.or_default("devices"),
        }
    }
}

impl Read for Link {
    const NOUN: &'static str = "a link";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            between: fields.required("between"),
            name: fields.optional("name"),
            wire: Wire::take(fields),
        }
    }
}

impl Read for Host {
    const NOUN: &'static str = "a host";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        let container: Option<ContainerSpec> = fields.optional("container");
        let is_inside = fields.has("container");
        Self {
            address: fields.required("address"),
            clock: fields.optional("clock"),
            timelines: fields.or_default("timelines"),
            machine: fields.optional("machine"),
            container,
            programs: fields.list("programs", Program::NOUN, |fields| match is_inside {
                true => Program::read_inside(fields),
                false => Program::read_table(fields),
            }),
        }
    }
}

impl Program {
    /// Reads a program. If it has no start time, `start` is used.
    pub(super) fn read_with_start(fields: &mut Fields<'_>, start: Duration) -> Self {
        let directory = fields.directory("directory");
        Self::read_at(fields, start, directory)
    }

    /// Reads a program that runs in a container.
    fn read_inside(fields: &mut Fields<'_>) -> Self {
        let directory = fields.or("directory", "/".to_owned()).into();
        Self::read_at(fields, Duration::ZERO, directory)
    }

    fn read_at(fields: &mut Fields<'_>, start: Duration, directory: PathBuf) -> Self {
        Self {
            name: fields.required("name"),
            run: fields.required("run"),
            env: fields.or_default("env"),
            inherit: fields.or_default("inherit"),
            directory,
            user: fields.optional("user"),
            capabilities: fields.optional("capabilities"),
            start: fields.or("start", start),
            ready: fields.optional("ready"),
            ready_timeout: fields.or("ready_timeout", words::ten_seconds()),
            after: fields.or_default("after"),
            essential: fields.or("essential", true),
        }
    }
}

impl Read for Program {
    const NOUN: &'static str = "a program";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self::read_with_start(fields, Duration::ZERO)
    }
}

impl Read for Device {
    const NOUN: &'static str = "a device";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            address: fields.required("address"),
            protocol: fields.or_default("protocol"),
            port: fields.or("port", modbus_port()),
            unit: fields.or("unit", modbus_unit()),
            registers: fields.or_default("registers"),
        }
    }
}

impl Read for Register {
    const NOUN: &'static str = "a register";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            table: fields.required("table"),
            at: fields.required("at"),
            kind: fields.or_default("type"),
            count: fields.or("count", 1),
            signal: fields.required("signal"),
            scale: fields.or("scale", 1.0),
            offset: fields.or("offset", 0.0),
        }
    }
}
