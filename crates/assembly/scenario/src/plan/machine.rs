//! Virtual machines on hosts: each is emulated by QEMU, which is a program of the session.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{Host, Program};
use crate::read::{Fields, Read};
use crate::words::{self, Ipv4Interface, Ready, Size};

/// Virtual machine, emulated by QEMU as a program of its host. Its timers, counter and clocks are
/// derived from the host's, so pauses, dilation and time skips apply to all of them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MachineSpec {
    /// File with the Linux kernel of the machine. If left out, the machine boots from `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// File with the initial file system of `kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<String>,
    /// Additional command line arguments of `kernel`.
    #[schemars(default)]
    pub append: String,
    /// File with the disk image. Changes to the disk are lost at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Amount of memory.
    #[schemars(default = "memory")]
    pub memory: Size,
    /// Number of processors.
    #[schemars(default = "one", range(min = 1, max = 16))]
    pub processors: u16,
    /// Time base of the time-stamp counter.
    #[schemars(default)]
    pub profile: MachineProfile,
    /// Address of the machine itself in the network of its host. The machine then has a hardware
    /// address and receives the traffic on its host's cable. If left out, the machine is behind its
    /// host's address (NAT).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Interface>,
    /// TCP ports of the host that are forwarded to the machine, if it has no `address`.
    #[schemars(default)]
    pub ports: Vec<u16>,
    /// Names of timelines of its host that the machine may read.
    #[schemars(default)]
    pub timelines: Vec<String>,
    /// Additional command line arguments of QEMU.
    #[schemars(default)]
    pub arguments: Vec<String>,
    /// Directory of the files. In a file it is relative to the scenario file; in a plan it is
    /// absolute.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// Readiness condition of the machine, as for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Maximum virtual time from the start of the machine until it is ready.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "minute", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// If true, the run fails when the machine ends before the end of the run.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// Time base of a virtual machine's time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineProfile {
    /// Virtual time. Requires `tsc = "emulate"` in the table `[time]`.
    #[default]
    Exact,
    /// Counter of the real machine, which shows real time. The guest's kernel uses another clock
    /// source.
    Fast,
}

impl MachineSpec {
    /// Returns the emulator as a program of the host `host`.
    pub fn program(&self, host: &str) -> Program {
        let mebibytes = self.memory.as_bytes() >> 20;
        let text = |part: &str| part.to_owned();
        let mut run: Vec<String> = [
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-nodefaults",
            "-nographic",
            "-no-reboot",
            "-serial",
            "stdio",
        ]
        .map(text)
        .to_vec();
        run.extend([text("-m"), mebibytes.max(1).to_string()]);
        run.extend([text("-smp"), self.processors.to_string()]);
        if let Some(kernel) = &self.kernel {
            let counter = match self.profile {
                MachineProfile::Exact => "tsc=reliable",
                MachineProfile::Fast => "clocksource=hpet tsc=unstable",
            };
            let network = self.address.map_or_else(String::new, |own| {
                // In the format of the kernel's parameter `ip=`, which initial file systems also
                // read.
                format!("ip={}:::{}:{host}:eth0:off", own.address, mask(own.prefix))
            });
            // Without this parameter, the kernel checks its timer. The check fails, and aborts the
            // boot, if the emulator gets no processor meanwhile.
            let usual = "console=ttyS0 panic=-1 no_timer_check";
            let parts = [usual, counter, &network, &self.append];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            let append = parts.collect::<Vec<_>>().join(" ");
            run.extend([text("-kernel"), kernel.clone()]);
            run.extend([text("-append"), append]);
        }
        if let Some(initramfs) = &self.initramfs {
            run.extend([text("-initrd"), initramfs.clone()]);
        }
        if let Some(disk) = &self.disk {
            let disk = disk.replace(',', ",,");
            run.extend([text("-drive"), format!("file={disk},if=virtio,snapshot=on")]);
        }
        run.extend(self.card());
        run.extend(self.arguments.iter().cloned());
        Program {
            name: Host::machine_program(host),
            run,
            directory: self.directory.clone(),
            ready: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            essential: self.essential,
            ..Program::default()
        }
    }
}

impl MachineSpec {
    /// Returns the arguments for the machine's network card.
    fn card(&self) -> [String; 4] {
        let (network, mac) = match self.address {
            None => {
                let forwarded = self.ports.iter();
                let forwarded = forwarded.map(|port| format!(",hostfwd=tcp::{port}-:{port}"));
                let network = format!("user,id=net{}", forwarded.collect::<String>());
                (network, String::new())
            }
            Some(own) => {
                let [a, b, c, d] = own.address.octets();
                // The hardware address is locally administered, and as unique as the IP address.
                let mac = format!(",mac=52:54:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
                let tap = format!("tap,id=net,ifname={TAP},script=no,downscript=no");
                (tap, mac)
            }
        };
        let card = format!("virtio-net-pci,netdev=net{mac},romfile=");
        ["-netdev".into(), network, "-device".into(), card]
    }
}

impl Default for MachineSpec {
    fn default() -> Self {
        Self {
            kernel: None,
            initramfs: None,
            append: String::new(),
            disk: None,
            memory: memory(),
            processors: one(),
            profile: MachineProfile::default(),
            address: None,
            ports: Vec::new(),
            timelines: Vec::new(),
            arguments: Vec::new(),
            directory: PathBuf::new(),
            ready: None,
            ready_timeout: minute(),
            essential: true,
        }
    }
}

impl Read for MachineSpec {
    const NOUN: &'static str = "a virtual machine";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            kernel: fields.optional("kernel"),
            initramfs: fields.optional("initramfs"),
            append: fields.or_default("append"),
            disk: fields.optional("disk"),
            memory: fields.or("memory", memory()),
            processors: fields.or("processors", one()),
            profile: fields.or_default("profile"),
            address: fields.optional("address"),
            ports: fields.or_default("ports"),
            timelines: fields.or_default("timelines"),
            arguments: fields.or_default("arguments"),
            directory: fields.directory("directory"),
            ready: fields.optional("ready"),
            ready_timeout: fields.or("ready_timeout", minute()),
            essential: fields.or("essential", true),
        }
    }
}

/// Name of the machine's TAP interface on its host, which the run creates.
const TAP: &str = "tap0";

/// Converts a prefix length to a netmask, such as 24 to 255.255.255.0.
fn mask(prefix: u8) -> Ipv4Addr {
    let shift = 32 - u32::from(prefix.min(32));
    Ipv4Addr::from(u32::MAX.checked_shl(shift).unwrap_or(0))
}

fn memory() -> Size {
    Size::from_mib(256)
}
fn one() -> u16 {
    1
}
fn minute() -> Duration {
    Duration::from_s(60)
}
