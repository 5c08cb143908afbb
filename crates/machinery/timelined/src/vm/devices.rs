//! Discovery of the devices that a host provides, from within a guest.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use timeloom_timeline::shm::{GivenClock, Region};

/// Directory in which Linux lists PCI devices.
const PCI: &str = "/sys/bus/pci/devices";

/// Name of the port for timelines, which is the same on host and guest.
pub const PORT: &str = "org.timeloom.timelines";

/// Opens the memory of the PCI device that contains the region. The device is an inter-VM shared
/// memory device (1af4:1110), identified by the first word of its memory.
///
/// # Errors
/// Fails if there is no such device, or if its memory cannot be opened.
pub fn region() -> io::Result<File> {
    memory_under(Path::new(PCI), |file| Region::open(file).is_ok())
}

/// Opens the PCI device's memory that contains the host's clock page. A machine has such a device
/// only if its host belongs to a session.
///
/// # Errors
/// Fails like [`region`].
pub fn clock() -> io::Result<File> {
    memory_under(Path::new(PCI), |file| GivenClock::open(file).is_ok())
}

fn memory_under(devices: &Path, is_wanted: impl Fn(&File) -> bool) -> io::Result<File> {
    for device in std::fs::read_dir(devices)? {
        let path = device?.path();
        let is = |file: &str, number: &str| {
            std::fs::read_to_string(path.join(file)).is_ok_and(|text| text.trim() == number)
        };
        if is("vendor", "0x1af4") && is("device", "0x1110") {
            // The device's memory is not accessible before the device is enabled.
            let _ = std::fs::write(path.join("enable"), "1");
            let file = File::open(path.join("resource2"))?;
            if is_wanted(&file) {
                return Ok(file);
            }
        }
    }
    let what = "no PCI device 1af4:1110 has a region of timelines (was the machine started with \
                the arguments of `timeloom vm`?)";
    Err(io::Error::new(io::ErrorKind::NotFound, what))
}

/// Opens the port to the host, which carries messages for timelines.
///
/// # Errors
/// Fails if there is no such port, or if another program has opened it.
pub fn port() -> io::Result<File> {
    port_named(PORT)
}

/// Opens the port to which the emulator gave the name `wanted`.
///
/// # Errors
/// Fails like [`port`].
pub fn port_named(wanted: &str) -> io::Result<File> {
    let path = port_under(Path::new("/sys/class/virtio-ports"), wanted)?;
    OpenOptions::new().read(true).write(true).open(path)
}

fn port_under(ports: &Path, wanted: &str) -> io::Result<PathBuf> {
    let found = std::fs::read_dir(ports).ok().into_iter().flatten();
    for port in found {
        let port = port?;
        let name = std::fs::read_to_string(port.path().join("name")).unwrap_or_default();
        if name.trim() == wanted {
            return Ok(Path::new("/dev").join(port.file_name()));
        }
    }
    let what = format!("no virtio port is called {wanted}: is virtio_console loaded?");
    Err(io::Error::new(io::ErrorKind::NotFound, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let ports = tempfile::tempdir().unwrap();
        for (port, name) in [("vport0p1", "org.qemu.guest_agent.0\n"), ("vport1p1", PORT)] {
            let directory = ports.path().join(port);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("name"), name).unwrap();
        }
        let found = port_under(ports.path(), PORT).unwrap();
        assert_eq!(found, Path::new("/dev/vport1p1"));
        assert!(port_under(&ports.path().join("none"), PORT).is_err());
        assert!(memory_under(ports.path(), |_| true).is_err());
    }
}
