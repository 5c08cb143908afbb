//! Arguments of QEMU that give its machine a region for timelines and a port to the relay.

use std::ffi::OsString;

use timeloom_timeline::shm::PAGE_SIZE;

use crate::vm::devices::PORT;

/// Returns the arguments. `memory` is a path at which QEMU can open the region, which has `size`
/// bytes. `channel` has the options of the character device behind the port, such as `socket,fd=7`.
///
/// `clock` is a path to the clock page, if the machine runs on a host of a session. `monitor` has
/// the options of a second character device, on which the emulator reports stops of its machine.
/// The machine can only read the memory: what a guest writes is discarded.
pub fn arguments(
    memory: &str,
    size: usize,
    clock: Option<&str>,
    channel: &str,
    monitor: &str,
) -> Vec<OsString> {
    let mut all = shared("timeloom", memory, size).to_vec();
    all.extend(
        clock
            .into_iter()
            .flat_map(|path| shared("timeloom-clock", path, PAGE_SIZE)),
    );
    let rest = [
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
    ];
    all.extend(rest.map(OsString::from));
    all
}

/// Returns the arguments for a device whose memory is a file that the machine can only read.
fn shared(name: &str, path: &str, size: usize) -> [OsString; 4] {
    // In an option of QEMU, a comma is written twice.
    let path = path.replace(',', ",,");
    let backend = "memory-backend-file";
    [
        "-object".to_owned(),
        format!("{backend},id={name},mem-path={path},size={size},share=on,readonly=on"),
        "-device".to_owned(),
        format!("ivshmem-plain,memdev={name}"),
    ]
    .map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_comma_is_one_path() {
        let arguments = arguments("/run/a,b", 8192, None, "socket,fd=7", "socket,fd=8");
        let object = arguments[1].to_str().unwrap();
        assert_eq!(
            object,
            "memory-backend-file,id=timeloom,mem-path=/run/a,,b,size=8192,share=on,readonly=on"
        );
    }
}
