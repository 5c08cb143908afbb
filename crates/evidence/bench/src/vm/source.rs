//! Source of time: two chronyds on this machine, of which one is the reference and the other its
//! client, and the timeline on top of the client. True time is the machine's clock, which both
//! chronyds use and neither steers.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use timeloom_timeline::Directory;
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::{Daemon, serve};

use super::image::program;
use super::mailbox::TAI_OFFSET_S;
use crate::error::BenchError;

/// Returns the path of Debian's chronyd, installed or unpacked by `scripts/chronyd`; `None` without
/// one.
pub(super) fn chronyd() -> Option<PathBuf> {
    let unpacked = PathBuf::from(".tools/chrony/usr/sbin/chronyd");
    program("chronyd").or_else(|| unpacked.is_file().then_some(unpacked))
}

/// Name of the timeline, here and in guests.
pub(super) const NAME: &str = "bench";

/// All processes of the source of time; dropping this ends them.
pub(super) struct Source {
    pub(super) daemon: Daemon,
    /// UDP port of the reference chronyd on loopback.
    pub(super) port: u16,
    _chronyds: [Running; 2],
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Source {
    /// Starts the source of time. `directory` is for sockets, and must be accessible to this user
    /// only.
    pub(super) fn start(chronyd: &Path, directory: &Path) -> Result<Self, BenchError> {
        let place = directory.join("chrony");
        let failed = |error| BenchError::system("preparing chronyd")(error);
        fs::create_dir(&place).map_err(failed)?;
        // chronyd checks the permissions of this directory.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o750)).map_err(failed)?;
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(failed)?.port();
        let reference = place.join("reference");
        fs::create_dir(&reference).map_err(failed)?;
        let start = |conf: &Path, text: String| {
            fs::write(conf, text).map_err(failed)?;
            let mut command = Command::new(chronyd);
            command.args(["-x", "-d", "-f"]).arg(conf);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            timeloom_sys::command::die_with_parent(&mut command);
            let child = command
                .spawn()
                .map_err(BenchError::system("starting chronyd"))?;
            Ok::<_, BenchError>(Running(child))
        };
        let server = start(&reference.join("conf"), chronyd_server(port, &reference))?;
        let at = place.display().to_string();
        let text = chronyd_client("127.0.0.1", &port.to_string(), &at);
        let client = start(&place.join("conf"), text)?;
        let timelines = Directory::new(directory.join("timelines"));
        let config: DaemonConfig = daemon_config(&timelines, &place)
            .parse()
            .map_err(|error| BenchError::Worker(format!("the daemon's configuration: {error}")))?;
        let daemon = serve(&config)
            .map_err(|error| BenchError::Worker(format!("the timeline daemon: {error}")))?;
        Ok(Self {
            daemon,
            port,
            _chronyds: [server, client],
        })
    }
}

fn chronyd_server(port: u16, place: &Path) -> String {
    let place = place.display();
    format!(
        "local stratum 1\nallow 127.0.0.0/8\nbindaddress 127.0.0.1\nport {port}\n\
         pidfile {place}/pid\nbindcmdaddress {place}/command\nuser root\ncmdport 0\n"
    )
}

/// Returns the configuration of a chronyd that queries `server` eight times per second.
pub(super) fn chronyd_client(server: &str, port: &str, place: &str) -> String {
    format!(
        "server {server} port {port} minpoll -3 maxpoll -3\nport 0\n\
         pidfile {place}/pid\nbindcmdaddress {place}/command\nuser root\ncmdport 0\n"
    )
}

/// Returns the configuration of a daemon that queries the chronyd whose socket is in `chrony`.
pub(super) fn daemon_config(directory: &Directory, chrony: &Path) -> String {
    format!(
        "directory = {:?}\n\
         [[timeline]]\nname = \"{NAME}\"\ntai_offset_s = {TAI_OFFSET_S}\n\
         poll = {{ shortest = \"100 ms\", longest = \"100 ms\" }}\n\
         [[timeline.source]]\ntype = \"chrony\"\naddress = {:?}\n",
        directory.path(),
        chrony.join("command"),
    )
}
