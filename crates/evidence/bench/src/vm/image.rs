//! Initial file system of a guest: this program, the libraries that it links to, and little else.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::chronyd;
use crate::error::BenchError;

/// Files of this machine that a guest needs.
pub(super) struct Parts {
    pub(super) kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
    /// Path of chronyd, which only a guest with its own timeline needs.
    chronyd: Option<PathBuf>,
}

impl Parts {
    /// Finds all files; otherwise returns a sentence about the missing one.
    pub(super) fn find() -> Result<Self, String> {
        let keep = std::env::var_os("TIMELOOM_VM_KEEP").map(PathBuf::from);
        let modules = keep.unwrap_or_else(|| ".tools/vm/keep".into());
        let kernel = modules.join("vmlinuz");
        if !kernel.is_file() {
            let place = modules.display();
            return Err(format!(
                "no kernel for guests in {place} (`scripts/vm/kernel` fetches it; TIMELOOM_VM_KEEP says where it is)"
            ));
        }
        for needed in ["qemu-system-x86_64", "busybox", "ldd", "strip"] {
            if program(needed).is_none() {
                return Err(format!(
                    "{needed} is not on the PATH (`make packages-vm` installs it)"
                ));
            }
        }
        Ok(Self {
            kernel,
            modules,
            busybox: program("busybox").expect("it was just found"),
            chronyd: chronyd(),
        })
    }

    /// Writes the file system to `to`. `worker` is the program that runs in the guest.
    pub(super) fn write(&self, worker: &Path, to: &Path) -> Result<(), BenchError> {
        let failed = || format!("making the guest's file system {}", to.display());
        let slim = to.with_extension("slim");
        let status = Command::new("strip")
            .arg("-o")
            .args([&slim, worker])
            .status();
        let stripped = status
            .map_err(BenchError::system("starting strip"))?
            .success();
        let worker = if stripped { slim.as_path() } else { worker };
        let archive = self.archive(worker).map_err(BenchError::system(failed()))?;
        fs::write(to, archive).map_err(BenchError::system(failed()))
    }

    fn archive(&self, worker: &Path) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for directory in [
            "bin", "modules", "proc", "sys", "dev", "tmp", "run", "etc", "var",
        ] {
            archive.directory(Path::new(directory))?;
        }
        archive.file(Path::new("init"), 0o755, INIT.as_bytes())?;
        archive.file(Path::new("etc/passwd"), 0o644, b"root:x:0:0::/:/bin/sh\n")?;
        archive.program(&self.busybox, "bin/busybox")?;
        archive.program(worker, "bin/worker")?;
        if let Some(chronyd) = &self.chronyd {
            archive.program(chronyd, "bin/chronyd")?;
        }
        for module in fs::read_dir(&self.modules)? {
            let path = module?.path();
            if path.extension() == Some(OsStr::new("ko")) {
                let name = path.file_name().unwrap_or_default();
                archive.file(&Path::new("modules").join(name), 0o644, &fs::read(&path)?)?;
            }
        }
        archive.end()
    }
}

/// Returns the path of a program on the PATH or in the directories of services.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    // Some users' PATH lacks the directories of services.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let places: Vec<_> = std::env::split_paths(&places).chain(more).collect();
    let mut candidates = places.into_iter().map(|place| place.join(name));
    candidates.find(|path| path.is_file())
}

/// Archive in the format that the kernel unpacks (buffer-format.rst, "newc").
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    number: u32,
    seen: BTreeSet<PathBuf>,
}

impl Archive {
    /// Adds a program and the libraries that it links to.
    fn program(&mut self, from: &Path, to: &str) -> io::Result<()> {
        self.file(Path::new(to), 0o755, &fs::read(from)?)?;
        let said = Command::new("ldd").arg(from).output()?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        // A static program has no libraries; ldd reports that on stderr.
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let place = Path::new(library.trim_start_matches('/'));
            let parents: Vec<_> = place.ancestors().skip(1).collect();
            for parent in parents.into_iter().rev() {
                self.directory(parent)?;
            }
            let mode = fs::metadata(library)?.permissions().mode() & 0o777;
            self.file(place, mode, &fs::read(library)?)?;
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        self.entry(path, 0o040_755, &[])
    }

    fn file(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, 0o100_000 | mode, content)
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        self.number += 1;
        let name = path.as_os_str().as_encoded_bytes();
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        // Fields: number, mode, owner, group, links, date, length, devices, length of name,
        // checksum.
        let fields = [
            self.number,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.write_all(b"070701")?;
        for field in fields {
            write!(self.bytes, "{field:08x}")?;
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> io::Result<Vec<u8>> {
        self.entry(Path::new("TRAILER!!!"), 0, &[])?;
        Ok(self.bytes)
    }
}

/// First process of the guest: loads drivers, configures QEMU's network, and starts the worker.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci \
    virtio_console failover net_failover virtio_net; do
    insmod /modules/$module.ko
done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
worker --worker vm-guest </dev/null
echo "the worker ended with status $?"
poweroff -f
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_format_of_cpio() {
        let mut archive = Archive::default();
        archive.directory(Path::new("bin")).unwrap();
        archive.file(Path::new("bin/one"), 0o755, b"abcde").unwrap();
        archive.file(Path::new("bin/one"), 0o755, b"again").unwrap();
        let bytes = archive.end().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        let entries: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(entries.len(), 3, "{text}");
        // An entry is a header of 110 bytes and the name with its zero, padded to a multiple of
        // four.
        assert_eq!(&text[entries[0] + 110..entries[0] + 114], "bin\0");
        assert_eq!(entries[1], 116);
        let field = |at: usize, number: usize| {
            let begin = at + 6 + 8 * number;
            u32::from_str_radix(&text[begin..begin + 8], 16).unwrap()
        };
        assert_eq!((field(entries[1], 1), field(entries[1], 6)), (0o100_755, 5));
        assert!(text[entries[1]..].contains("bin/one\0"));
        assert!(text.contains("abcde\0\0\x00070701"));
    }
}
