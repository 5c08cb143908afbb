//! Virtual machines on hosts: each is emulated by QEMU, which is a program of the session.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use timeloom_time::Duration;

use crate::plan::{Host, Program};
use crate::read::Fields;
use crate::table::{table, words};
use crate::words::{Ipv4Interface, Ready, Size};

table! {
/// Virtual machine, emulated by QEMU as a program of its host. Its timers, counter and clocks are
/// derived from the host's, so pauses, dilation and time skips apply to all of them.
#[noun = "a virtual machine"]
pub struct MachineSpec {
    /// File with the Linux kernel of the machine. If left out, the machine boots from `disk`.
    pub kernel: Option<String>,
    /// File with the initial file system of `kernel`.
    pub initramfs: Option<String>,
    /// Additional command line arguments of `kernel`.
    pub append: String = String::new(),
    /// File with the disk image. Changes to the disk are lost at the end.
    pub disk: Option<String>,
    /// Amount of memory.
    pub memory: Size = Size::from_mib(256),
    /// Number of processors.
    #[within(Self::PROCESSORS)]
    pub processors: u16 = 1,
    /// Time base of the time-stamp counter.
    pub profile: MachineProfile = MachineProfile::default(),
    /// Address of the machine itself in the network of its host. The machine then has a hardware
    /// address and receives the traffic on its host's cable. If left out, the machine is behind its
    /// host's address (NAT).
    pub address: Option<Ipv4Interface>,
    /// TCP ports of the host that are forwarded to the machine, if it has no `address`.
    pub ports: Vec<u16> = Vec::new(),
    /// Names of timelines of its host that the machine may read.
    pub timelines: Vec<String> = Vec::new(),
    /// Additional command line arguments of QEMU.
    pub arguments: Vec<String> = Vec::new(),
    /// Directory of the files. In a file it is relative to the scenario file; in a plan it is
    /// absolute.
    #[read(Fields::directory)]
    pub directory: PathBuf = PathBuf::from("."),
    /// Readiness condition of the machine, as for a program.
    pub ready: Option<Ready>,
    /// Maximum virtual time from the start of the machine until it is ready.
    pub ready_timeout: Duration = Duration::from_s(60),
    /// If true, the run fails when the machine ends before the end of the run.
    pub essential: bool = true,
}
}

words! {
/// Time base of a virtual machine's time-stamp counter.
pub enum MachineProfile {
    /// Virtual time. Requires `tsc = "emulate"` in the table `[time]`.
    Exact = "exact",
    /// Counter of the real machine, which shows real time. The guest's kernel uses another clock
    /// source.
    Fast = "fast",
}
}

impl MachineSpec {
    /// Permitted numbers of processors.
    pub(crate) const PROCESSORS: RangeInclusive<u16> = 1..=16;

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

/// Name of the machine's TAP interface on its host, which the run creates.
const TAP: &str = "tap0";

/// Converts a prefix length to a netmask, such as 24 to 255.255.255.0.
fn mask(prefix: u8) -> Ipv4Addr {
    let shift = 32 - u32::from(prefix.min(32));
    Ipv4Addr::from(u32::MAX.checked_shl(shift).unwrap_or(0))
}
