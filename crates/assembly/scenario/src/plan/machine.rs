//! A virtual machine on a host: QEMU's emulation as a program of the session.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{Host, Program};
use crate::read::{Fields, Read};
use crate::words::{self, Ready, Size};

/// A virtual machine, emulated by QEMU as a program of its host: its timers, its counter
/// and its clocks are the host's, so that pauses, dilation and steps apply to all of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MachineSpec {
    /// The file with its Linux kernel; or it starts from `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The file with its initial file system, for a `kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<String>,
    /// More arguments for the `kernel`.
    #[schemars(default)]
    pub append: String,
    /// The file with its disk's image. What the machine writes there is dropped at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// How much memory it has.
    #[schemars(default = "memory")]
    pub memory: Size,
    /// How many processors it has.
    #[schemars(default = "one", range(min = 1, max = 16))]
    pub processors: u16,
    /// What its time-stamp counter follows.
    #[schemars(default)]
    pub profile: MachineProfile,
    /// TCP ports of the host that lead into it.
    #[schemars(default)]
    pub ports: Vec<u16>,
    /// More arguments for QEMU.
    #[schemars(default)]
    pub arguments: Vec<String>,
    /// Where the files are found. In a file relative to the scenario file; in a plan
    /// absolute.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// How one sees that it can be used, as for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long it may take to become ready, in virtual time after its start.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "minute", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// Whether its end before the end of the run stops the run as failed.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// What the time-stamp counter of a virtual machine follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineProfile {
    /// Virtual time: needs `tsc = "emulate"` under `[time]`.
    #[default]
    Exact,
    /// The machine's own, which leaks real time; its kernel counts by another clock.
    Fast,
}

impl MachineSpec {
    /// The emulator as a program of the host `host`.
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
            let append = format!("console=ttyS0 panic=-1 {counter} {}", self.append);
            run.extend([text("-kernel"), kernel.clone()]);
            run.extend([text("-append"), append.trim_end().to_owned()]);
        }
        if let Some(initramfs) = &self.initramfs {
            run.extend([text("-initrd"), initramfs.clone()]);
        }
        if let Some(disk) = &self.disk {
            let disk = disk.replace(',', ",,");
            run.extend([text("-drive"), format!("file={disk},if=virtio,snapshot=on")]);
        }
        let forwarded = self.ports.iter();
        let forwarded = forwarded.map(|port| format!(",hostfwd=tcp::{port}-:{port}"));
        let network = format!("user,id=net{}", forwarded.collect::<String>());
        run.extend([text("-netdev"), network]);
        run.extend([text("-device"), text("virtio-net-pci,netdev=net,romfile=")]);
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
            ports: Vec::new(),
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
            ports: fields.or_default("ports"),
            arguments: fields.or_default("arguments"),
            directory: fields.directory("directory"),
            ready: fields.optional("ready"),
            ready_timeout: fields.or("ready_timeout", minute()),
            essential: fields.or("essential", true),
        }
    }
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
