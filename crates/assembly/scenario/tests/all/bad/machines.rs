//! Mistakes in virtual machines on hosts.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    case(
        "profile = \"fast\"",
        "profile = \"exact\"",
        "[system.hosts.attacker.machine]",
        "its kernel would count by the machine's own counter",
    ),
    here(
        "profile = \"fast\"",
        "profile = \"slow\"",
        "`slow` is not known here",
    ),
    case(
        "initramfs = \"initrd\"",
        "disk = \"disk.img\"",
        "[system.hosts.attacker.machine]",
        "needs either a `kernel` or a `disk`",
    ),
    case(
        "kernel = \"vmlinuz\"",
        "disk = \"disk.img\"",
        "initramfs = \"initrd\"",
        "an initial file system is for a `kernel`",
    )
    .counting(2),
    case(
        "kernel = \"vmlinuz\"\ninitramfs = \"initrd\"",
        "disk = \"disk.img\"",
        "append = \"quiet\"",
        "more arguments are for a `kernel`",
    ),
    here(
        "processors = 2",
        "processors = 0",
        "0 processors are out of range",
    ),
    here(
        "arguments = [\"-device\", \"virtio-rng-pci\"]",
        "arguments = [\"-icount\", \"3\"]",
        "(`-icount`) makes a machine's time its own",
    ),
    here(
        "arguments = [\"-device\", \"virtio-rng-pci\"]",
        "arguments = [\"-machine\", \"q35,accel=kvm\"]",
        "KVM's counter and clock bypass the session",
    ),
    here(
        "arguments = [\"-device\", \"virtio-rng-pci\"]",
        "arguments = [\"--enable-kvm\"]",
        "KVM's counter and clock bypass the session",
    ),
    here(
        "ports = [8080]",
        "address = \"10.0.0.2/24\"",
        "10.0.0.2 is already the address of another node",
    ),
    here(
        "ports = [8080]",
        "address = \"10.1.0.9/24\"",
        "the machine is behind the cable of `attacker`, in another network",
    ),
    case(
        "ports = [8080]",
        "ports = [8080]\naddress = \"10.0.0.99/24\"",
        "address = \"10.0.0.99/24\"",
        "`ports` lead into a machine that has no address",
    ),
    here(
        "name = \"sensor\"\n",
        "name = \"machine-attacker\"\n",
        "a second program is called `machine-attacker`",
    ),
    here(
        "ports = [8080]",
        "timelines = [\"plant\"]",
        "the host `attacker` keeps no timeline `plant`; describe it at [system.hosts.attacker.timelines.plant]",
    ),
    case(
        "[system.hosts.attacker.machine]",
        READING,
        "timelines = [\"own\"]",
        "with `profile = \"fast\"` the machine's counter is not the session's",
    ),
    case(
        "[system.hosts.attacker.machine]",
        READING_MORE,
        "timelines = [\"own\", \"own\", \"plant\"]",
        "name one that it keeps: own",
    )
    .counting(2),
    case(
        "[system.hosts.attacker.machine]",
        READING_MORE,
        "timelines = [\"own\", \"own\", \"plant\"]",
        "`own` is named twice",
    )
    .counting(2),
];

const READING: &str = r#"[system.hosts.attacker.timelines.own]
sources = [{ type = "chrony" }]
[system.hosts.attacker.machine]
timelines = ["own"]"#;

const READING_MORE: &str = r#"[system.hosts.attacker.timelines.own]
sources = [{ type = "chrony" }]
[system.hosts.attacker.machine]
timelines = ["own", "own", "plant"]"#;
