//! Two network namespaces with a virtual cable between them, and programs in them.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use timeloom_fabric::Namespace;

/// Address of each end.
pub(crate) const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Name of each end's interface.
pub(crate) const INTERFACE: &str = "cable";

/// Two namespaces that only this process references, so they disappear when it ends for any reason.
pub(crate) struct Cable {
    pub(crate) ends: [Namespace; 2],
}

impl Cable {
    /// Creates both namespaces and the cable between them.
    ///
    /// # Panics
    /// Panics without the right to create namespaces.
    pub(crate) fn lay() -> Self {
        timeloom_test_support::need_root();
        let ends = ["one", "two"].map(|name| Namespace::create(name).expect("a namespace"));
        let other = format!("/proc/{}/fd/{}", std::process::id(), ends[1].as_raw_fd());
        let ip = |end: usize, arguments: &str| {
            let mut command = Command::new("ip");
            command.args(arguments.split_whitespace());
            ends[end].confine(&mut command).unwrap();
            let output = command.output().expect("the `ip` of iproute2");
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "ip {arguments}: {complaint}");
        };
        ip(
            0,
            &format!("link add {INTERFACE} type veth peer name {INTERFACE} netns {other}"),
        );
        for (end, address) in ADDRESSES.iter().enumerate() {
            ip(end, "link set lo up");
            ip(end, &format!("address add {address}/24 dev {INTERFACE}"));
            ip(end, &format!("link set {INTERFACE} up"));
        }
        Self { ends }
    }

    /// Starts a program in the namespace of an end.
    pub(crate) fn start(
        &self,
        end: usize,
        program: &Path,
        arguments: &[&str],
        log: &Path,
    ) -> Running {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let log = std::fs::File::create(log).unwrap();
        command.stderr(log.try_clone().unwrap()).stdout(log);
        self.ends[end].confine(&mut command).unwrap();
        Running(command.spawn().unwrap())
    }
}

/// Process that is killed when the test ends.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn alive(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of a program: from `PATH`, from the directories of system daemons, or where
/// `scripts/chronyd` unpacks it.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.tools/chrony/usr/sbin");
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into(), unpacked]);
    places
        .map(|place| place.join(program))
        .find(|file| file.is_file())
}
