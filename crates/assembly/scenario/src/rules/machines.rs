//! Checks of virtual machines: QEMU must be able to start them, and their time must be the
//! session's.

use std::path::Path;

use timeloom_guest::Tsc;
use timeloom_timeline::shm::MOST_TIMELINES;

use super::{Rules, at};
use crate::plan::{MachineProfile, MachineSpec, Mode};

pub(super) fn check(rules: &mut Rules<'_>) {
    for (host, described) in &rules.plan.system.hosts {
        if let Some(machine) = &described.machine {
            let path = at(&[], ["system", "hosts", host, "machine"]);
            starts(rules, machine, &path);
            addressed(rules, host, machine, &path);
            counts(rules, machine, &path);
            timelines(rules, host, machine, &path);
        }
    }
}

fn starts(rules: &mut Rules<'_>, machine: &MachineSpec, path: &[String]) {
    if machine.kernel.is_some() == machine.disk.is_some() {
        let message = "a virtual machine needs either a `kernel` or a `disk`";
        let help = "give one of the two";
        return rules.misplaced(path, message, help);
    }
    if machine.initramfs.is_some() && machine.kernel.is_none() {
        let help = "give its `kernel` too";
        rules.broken(
            &at(path, ["initramfs"]),
            "an initial file system is for a `kernel`",
            help,
        );
    }
    if !machine.append.is_empty() && machine.kernel.is_none() && rules.part_was_read(path, "append")
    {
        rules.broken(
            &at(path, ["append"]),
            "more arguments are for a `kernel`",
            "write them where the disk's boot loader has its own",
        );
    }
    if !MachineSpec::PROCESSORS.contains(&machine.processors)
        && rules.part_was_read(path, "processors")
    {
        let message = format!("{} processors are out of range", machine.processors);
        let (least, most) = MachineSpec::PROCESSORS.into_inner();
        let help = format!("give {least} to {most}");
        rules.broken(&at(path, ["processors"]), message, help);
    }
}

/// Checks that the address of a machine is in its host's network and unique.
fn addressed(rules: &mut Rules<'_>, host: &str, machine: &MachineSpec, path: &[String]) {
    let Some(own) = machine.address else { return };
    if !rules.part_was_read(path, "address") {
        return;
    }
    let system = &rules.plan.system;
    let hosts = system.hosts.iter();
    let others = hosts.clone().filter(|(other, _)| *other != host);
    let machines = others.filter_map(|(_, other)| other.machine.as_ref()?.address);
    let devices = system.devices.values();
    let devices = devices.filter_map(|device| device.address.v4);
    let taken = hosts
        .filter_map(|(_, host)| host.address.v4)
        .chain(machines);
    let path = at(path, ["address"]);
    if taken.chain(devices).any(|it| it.address == own.address) {
        let message = format!("{} is already the address of another node", own.address);
        rules.broken(&path, message, "give the machine one of its own");
    }
    let Some(beside) = rules.plan.system.hosts[host].address.v4 else {
        let message =
            format!("the machine is behind the cable of `{host}`, which speaks IPv6 alone");
        let help = format!("give `{host}` an address of IPv4, too");
        return rules.broken(&path, message, help);
    };
    if (own.network(), own.prefix) != (beside.network(), beside.prefix) {
        let message = format!("the machine is behind the cable of `{host}`, in another network");
        let help = format!("write one of {}/{}", beside.network(), beside.prefix);
        rules.broken(&path, message, help);
    }
    if !machine.ports.is_empty() {
        let message = "`ports` lead into a machine that has no address";
        rules.broken(&path, message, "leave one of the two out");
    }
}

fn counts(rules: &mut Rules<'_>, machine: &MachineSpec, path: &[String]) {
    let time = &rules.plan.time;
    let virtual_time = time.mode != Mode::Real && rules.was_read(&["time", "mode"]);
    let exact = machine.profile == MachineProfile::Exact && rules.part_was_read(path, "profile");
    let native = time.tsc == Tsc::Native && rules.was_read(&["time", "tsc"]);
    if exact && virtual_time && native {
        let message =
            "its kernel would count by the machine's own counter, and jump with each pause";
        let help = "write `tsc = \"emulate\"` under `[time]`, or `profile = \"fast\"` here, by which its counter leaks real time";
        rules.misplaced(path, message, help);
    }
    for (index, argument) in machine.arguments.iter().enumerate() {
        let (message, help) = match argument.trim_start_matches('-') {
            "icount" => (
                "counting instructions (`-icount`) makes a machine's time its own: it has nothing to do with the session's",
                "leave it out; emulation follows the session without",
            ),
            "enable-kvm" => (
                "KVM's counter and clock bypass the session: they do not stand when it pauses",
                "leave it out; QEMU emulates",
            ),
            "accel" | "machine" | "M" if names_kvm(machine.arguments.get(index + 1)) => (
                "KVM's counter and clock bypass the session: they do not stand when it pauses",
                "leave it out; QEMU emulates",
            ),
            _ => continue,
        };
        let path = at(path, ["arguments", &index.to_string()]);
        rules.broken(&path, message, help);
    }
}

/// Checks that a machine which reads timelines has the same counter as its host.
fn timelines(rules: &mut Rules<'_>, host: &str, machine: &MachineSpec, path: &[String]) {
    if machine.timelines.is_empty() || !rules.part_was_read(path, "timelines") {
        return;
    }
    let described = &rules.plan.system.hosts[host];
    let place = at(path, ["timelines"]);
    if machine.timelines.len() > MOST_TIMELINES {
        let message = format!("a machine's memory has room for {MOST_TIMELINES} timelines");
        rules.broken(&place, message, "name those that it reads");
    }
    let kept = ["system", "hosts", host, "timelines"];
    for (index, name) in machine.timelines.iter().enumerate() {
        let path = at(&place, [&index.to_string()]);
        if machine.timelines[..index].contains(name) {
            rules.broken(&path, format!("`{name}` is named twice"), "name it once");
        } else if !described.timelines.contains_key(name) && rules.was_read(&kept) {
            let message = format!("the host `{host}` keeps no timeline `{name}`");
            let kept: Vec<_> = described.timelines.keys().map(String::as_str).collect();
            let help = match &kept[..] {
                [] => format!("describe it at [system.hosts.{host}.timelines.{name}]"),
                kept => format!("name one that it keeps: {}", kept.join(", ")),
            };
            rules.broken(&path, message, help);
        }
    }
    let fast = machine.profile == MachineProfile::Fast && rules.part_was_read(path, "profile");
    if fast {
        let message = "with `profile = \"fast\"` the machine's counter is not the session's, which \
                       its host's timelines use";
        let help = "write `profile = \"exact\"`, and `tsc = \"emulate\"` under `[time]`";
        rules.broken(&place, message, help);
    } else if rules.plan.time.mode == Mode::Real && rules.was_read(&["time", "mode"]) {
        let message = "in real time the machine's counter is not emulated, so it cannot read its \
                       host's timelines";
        let help = "leave `mode = \"real\"` out and write `tsc = \"emulate\"`, or leave this out";
        rules.broken(&place, message, help);
    }
}

fn names_kvm(value: Option<&String>) -> bool {
    let words = |value: &String| {
        let mut words = value.split([',', ':', '=']);
        words.any(|word| word == "kvm")
    };
    value.is_some_and(words)
}

/// Checks that this machine has the files. (The rules of programs check QEMU itself.)
pub(super) fn files(rules: &mut Rules<'_>) {
    for (host, described) in &rules.plan.system.hosts {
        let Some(machine) = &described.machine else {
            continue;
        };
        let path = at(&[], ["system", "hosts", host, "machine"]);
        let files = [
            ("kernel", &machine.kernel),
            ("initramfs", &machine.initramfs),
            ("disk", &machine.disk),
        ];
        for (key, file) in files {
            let Some(file) = file else { continue };
            let whole = machine.directory.join(Path::new(file));
            if !whole.is_file() {
                let message = format!("there is no file {}", whole.display());
                rules.broken(&at(&path, [key]), message, "name one that is there");
            }
        }
        let emulator = std::env::var_os("PATH").is_some_and(|paths| {
            std::env::split_paths(&paths).any(|path| path.join("qemu-system-x86_64").is_file())
        });
        if !emulator {
            let help = "install it: apt-get install qemu-system-x86";
            rules.misplaced(&path, "QEMU is not on this machine", help);
        }
    }
}
