//! The `[system]` table: what is modelled. Hosts that run programs, field
//! devices that Timeloom itself serves, and the network between them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::network::Wire;
use crate::plan::{ClockSpec, ContainerSpec, MachineSpec, Named, OpenFlow, TimelineSpec};
use crate::read::{Fields, Read};
use crate::words::{self, Addresses, CapabilityName, Ready, SignalName, User};

/// What is modelled: one flat network (a single subnet, no router).
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct System {
    /// The names of the Ethernet switches.
    #[schemars(default)]
    pub switches: Vec<String>,
    /// The cables. They form a tree; each host and device has exactly one.
    #[schemars(default)]
    pub links: Vec<Link>,
    /// Which switches are real Open vSwitch bridges; the others are the
    /// kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openflow: Option<OpenFlow>,
    /// The machines that run programs, by name.
    #[schemars(default)]
    pub hosts: Named<Host>,
    /// The field devices that Timeloom serves, by name.
    #[schemars(default)]
    pub devices: Named<Device>,
}

/// A cable between two nodes. Without `[network]` it has a `rate` at most, and
/// without that it is as fast as the machine can.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// The two nodes that it joins.
    pub between: [String; 2],
    /// What it is called in the results of a simulated network, as in
    /// `net.link.core.loss`; A-B when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How fast each direction sends, as in `100 Mbit/s`, and the like.
    #[serde(flatten)]
    pub wire: Wire,
}

impl Host {
    /// What the program is called that keeps the timelines of the host `name`.
    pub fn timeline_program(name: &str) -> String {
        format!("timelines-{name}")
    }

    /// What the emulator is called that is the virtual machine of the host `name`.
    pub fn machine_program(name: &str) -> String {
        format!("machine-{name}")
    }

    /// What the process of a bundle is called that is the container of the host `name`.
    pub fn container_program(name: &str) -> String {
        format!("container-{name}")
    }

    /// Whether it has a program that a bundle says.
    pub fn has_bundle(&self) -> bool {
        let container = self.container.as_ref();
        container.is_some_and(|container| container.bundle.is_some())
    }
}

impl Link {
    /// Whether the link joins these two nodes, in either order.
    pub fn joins(&self, ends: &[String; 2]) -> bool {
        let [a, b] = ends;
        self.between == [a.clone(), b.clone()] || self.between == [b.clone(), a.clone()]
    }
}

/// A machine that runs programs, with one network interface, `eth0`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Host {
    /// The address of its `eth0` with the length of the subnet's prefix; of IPv4, IPv6, or a list
    /// of one of each.
    pub address: Addresses,
    /// Its clock, when that differs from true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSpec>,
    /// The timelines that it keeps, by name.
    #[schemars(default)]
    pub timelines: Named<TimelineSpec>,
    /// The virtual machine on it, whose whole time is the session's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineSpec>,
    /// The image in whose files its programs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerSpec>,
    /// What it runs.
    #[schemars(default)]
    pub programs: Vec<Program>,
}

/// A real program, run unmodified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Program {
    /// Its name in logs and results; unique in the whole scenario.
    pub name: String,
    /// The executable and its arguments; never given to a shell.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Environment variables, added to the usual ones that programs inherit from Timeloom (`PATH`,
    /// `HOME`, `LANG`, `TZ`, `TERM` and similar).
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Names of further variables to inherit from Timeloom's environment. A `*` at the end of a
    /// name matches any suffix.
    #[schemars(default)]
    pub inherit: Vec<String>,
    /// Where it runs. In a file relative to the scenario file; in a plan
    /// absolute. In a container an absolute path of its own, `/` if it is left out.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// Who it is. It gains no privilege by what it executes then, and has no capability
    /// but those below. Without it, who Timeloom is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// What of root's rights it has, whoever it is; all others are taken away. Without it,
    /// and without `user`, those that Timeloom has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The virtual time at which it is started, since the beginning of the
    /// run. A program of an attack starts at the attack's `at`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub start: Duration,
    /// How one sees that it can be used: `tcp:PORT` when something on its host
    /// listens there, `log:TEXT` when a line of its output contains the text.
    /// Without it, as soon as it has been started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long it may take to become ready, in virtual time after its start.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// The programs that must be ready before this one is started.
    #[schemars(default)]
    pub after: Vec<String>,
    /// Whether its end before the end of the run stops the run as failed.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// A field device that Timeloom itself serves at an address in the
/// experiment's network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Device {
    /// Its address with the length of the subnet's prefix; of IPv4, IPv6, or a list of one of
    /// each.
    pub address: Addresses,
    /// The protocol that it speaks.
    #[schemars(default)]
    pub protocol: Protocol,
    /// The TCP port on which it listens.
    #[schemars(default = "modbus_port", range(min = 1))]
    pub port: u16,
    /// The Modbus unit identifier.
    #[schemars(default = "modbus_unit")]
    pub unit: u8,
    /// What it shows of the plants, and what of them it lets others set.
    #[schemars(default)]
    pub registers: Vec<Register>,
}

/// What a field device speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Protocol {
    /// Modbus over TCP.
    #[default]
    #[serde(rename = "modbus-tcp")]
    ModbusTcp,
}

/// A signal of a plant, seen as registers or bits of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Register {
    /// In which of the four Modbus tables it lies. `input` and `discrete`
    /// can be read, `holding` and `coil` also written.
    pub table: RegisterTable,
    /// The protocol address (from 0) of its first register or bit.
    pub at: u16,
    /// How the value is encoded; `bit` (and only that) in `coil` and
    /// `discrete`, where it is the default.
    #[serde(rename = "type")]
    #[schemars(default)]
    pub kind: RegisterType,
    /// How many consecutive values; more than one for a vector signal.
    #[schemars(default = "one_value", range(min = 1))]
    pub count: u16,
    /// The plant and its signal, as in `grid.bus.680.v1`.
    pub signal: SignalName,
    /// Register = signal * scale + offset; not 0.
    #[schemars(default = "no_scale")]
    pub scale: f64,
    /// Register = signal * scale + offset.
    #[schemars(default)]
    pub offset: f64,
}

impl Register {
    /// How many registers (bits in a table of bits) it occupies.
    pub fn width(&self) -> u32 {
        u32::from(self.count) * self.kind.words()
    }
}

/// One of the four tables of a Modbus device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegisterTable {
    /// 16-bit registers that others only read (function code 4).
    #[default]
    Input,
    /// 16-bit registers that others read and write (3, 6, 16).
    Holding,
    /// Bits that others read and write (1, 5, 15).
    Coil,
    /// Bits that others only read (2).
    Discrete,
}

impl RegisterTable {
    /// Whether it holds bits rather than registers.
    pub fn is_bits(self) -> bool {
        matches!(self, Self::Coil | Self::Discrete)
    }
}

/// How a value is encoded: big-endian, the high word first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegisterType {
    /// One bit: whether the value is not 0.
    #[default]
    Bit,
    /// Signed, 16 bits, one register.
    I16,
    /// Unsigned, 16 bits, one register.
    U16,
    /// Signed, 32 bits, two registers.
    I32,
    /// Unsigned, 32 bits, two registers.
    U32,
    /// IEEE 754 single precision, two registers.
    F32,
    /// IEEE 754 double precision, four registers.
    F64,
}

impl RegisterType {
    /// How many registers one value occupies (a bit: one place in its table).
    pub fn words(self) -> u32 {
        match self {
            Self::Bit | Self::I16 | Self::U16 => 1,
            Self::I32 | Self::U32 | Self::F32 => 2,
            Self::F64 => 4,
        }
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
    /// Reads one program, whose start defaults to `start`.
    pub(super) fn read_with_start(fields: &mut Fields<'_>, start: Duration) -> Self {
        let directory = fields.directory("directory");
        Self::read_at(fields, start, directory)
    }

    /// Reads one program of a container.
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
