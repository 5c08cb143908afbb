//! What QEMU is told, so that its machine has a region and a port.

use std::ffi::OsString;

use crate::devices::PORT;

/// The arguments: the region by `memory`, a path that QEMU can open, of so many bytes; the
/// port by `channel`, a character device's options such as `socket,fd=7`.
///
/// `monitor` is a second device's, by which the emulator tells when its machine stops.
/// The memory is read-only for the machine: what a guest writes there is dropped.
pub fn arguments(memory: &str, size: usize, channel: &str, monitor: &str) -> Vec<OsString> {
    // A comma is doubled within an option of QEMU's.
    let memory = memory.replace(',', ",,");
    [
        "-object",
        &format!(
            "memory-backend-file,id=timeloom,mem-path={memory},size={size},share=on,readonly=on"
        ),
        "-device",
        "ivshmem-plain,memdev=timeloom",
        "-device",
        "virtio-serial-pci,id=timeloom-ports",
        "-chardev",
        &format!("{channel},id=timeloom-port"),
        "-device",
        &format!("virtserialport,bus=timeloom-ports.0,chardev=timeloom-port,name={PORT}"),
        "-chardev",
        &format!("{monitor},id=timeloom-monitor"),
        "-mon",
        "chardev=timeloom-monitor,mode=control",
    ]
    .map(OsString::from)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_comma_is_one_path() {
        let arguments = arguments("/run/a,b", 8192, "socket,fd=7", "socket,fd=8");
        let object = arguments[1].to_str().unwrap();
        assert_eq!(
            object,
            "memory-backend-file,id=timeloom,mem-path=/run/a,,b,size=8192,share=on,readonly=on"
        );
    }
}
