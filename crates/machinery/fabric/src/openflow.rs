//! Switches that are real Open vSwitch bridges.
//!
//! One `ovsdb-server` and one `ovs-vswitchd` in the fabric namespace serve all
//! such switches of a network, with the user-space datapath (`netdev`), which
//! needs nothing of the kernel but veth pairs. Their ports are the same cable
//! ends that a kernel bridge would hold, so that rates and captures work alike.
//!
//! What this is not: OpenFlow. A controller of the user's choice connects them;
//! it listens in the fabric namespace at [`CONTROLLER`].
//!
//! **Nothing outlives the run.** Both daemons die with the thread that started
//! them (PDEATHSIG), and their directory is removed as soon as they have
//! connected to each other: open files and sockets are all they need then.

mod patience;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use rustix::io::Errno;

use timeloom_sys::command::die_with_parent;

use crate::{KernelError, Namespace};

/// Where switches look for their controller, in the fabric namespace.
pub const CONTROLLER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6653);

/// Which switches speak OpenFlow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFlowSpec {
    /// Names out of [`crate::NetworkSpec::switches`]. The first has datapath
    /// identifier 1, the next 2.
    pub switches: Vec<String>,
    /// Whether they wait for a controller at [`CONTROLLER`] and forward nothing
    /// without one. Otherwise each learns addresses by itself.
    pub controlled: bool,
}

/// One switch as the daemon is told of it.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) name: String,
    /// Its cable ends. The first is OpenFlow port 1.
    pub(crate) ports: Vec<String>,
}

/// The two daemons.
#[derive(Debug)]
pub(crate) struct OpenVSwitch {
    /// The switch first, since it is to end first.
    daemons: Mutex<[(&'static str, Child); 2]>,
    /// Ends with the database.
    patience: Option<JoinHandle<()>>,
}

impl OpenVSwitch {
    /// Starts the daemons in `namespace` with these bridges, and returns when
    /// they forward frames (or wait for their controller).
    pub(crate) fn start(
        namespace: &Namespace,
        bridges: &[Bridge],
        controlled: bool,
    ) -> Result<Self, KernelError> {
        let directory = Directory::create()?;
        let tools = Tools {
            namespace,
            directory: &directory.0,
        };
        let file = directory.0.join("conf.db");
        tools.run(
            "ovsdb-tool",
            &[os("create"), file.clone().into(), SCHEMA.into()],
        )?;
        let socket = directory.0.join("db.sock");
        let remote = joined("--remote=punix:", &socket);
        let database = tools.daemon("ovsdb-server", &[file.into(), remote], "db.ctl")?;
        let database = Guard(Some(database));
        wait_for(&socket)?;
        let at = joined("unix:", &socket);
        let server = joined("--db=unix:", &socket);
        // The socket has its name a moment before anybody listens at it.
        let within = os(&format!("--timeout={CONFIGURED_WITHIN_S}"));
        let patient = [server, os("--retry"), within];
        let first = [os("--no-wait"), os("init")];
        tools.run("ovs-vsctl", &[&patient[..], &first].concat())?;
        let switch = tools.daemon("ovs-vswitchd", &[at, os("--disable-system")], "vs.ctl")?;
        let switch = Guard(Some(switch));
        let mut arguments = patient.to_vec();
        arguments.extend(configuration(bridges, controlled).map(|word| os(&word)));
        tools.run("ovs-vsctl", &arguments)?;
        let patience = match controlled {
            true => Some(patience::keep(&socket).map_err(|error| {
                KernelError::new("watch the connections of the OpenFlow switches", error)
            })?),
            false => None,
        };
        let daemons = [
            ("ovs-vswitchd", switch.release()),
            ("ovsdb-server", database.release()),
        ];
        Ok(Self {
            daemons: Mutex::new(daemons),
            patience,
        })
    }

    /// What has become of them, once one has ended by itself.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut daemons = self.daemons.lock().unwrap_or_else(PoisonError::into_inner);
        daemons
            .iter_mut()
            .find_map(|(name, child)| match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(format!("{name} ended: {status}")),
                Err(error) => Some(format!("{name}: {error}")),
            })
    }
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        let daemons = self
            .daemons
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, child) in daemons {
            // Both fail only for a child that is gone.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(patience) = self.patience.take() {
            let _ = patience.join();
        }
    }
}

/// The words of one `ovs-vsctl` transaction that makes all the bridges.
fn configuration(bridges: &[Bridge], controlled: bool) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    let mut command = |text: String| {
        words.push("--".to_owned());
        words.extend(text.split(' ').map(str::to_owned));
    };
    for (index, Bridge { name, ports }) in bridges.iter().enumerate() {
        let fail_mode = if controlled { "secure" } else { "standalone" };
        command(format!("add-br {name}"));
        command(format!(
            "set bridge {name} datapath_type=netdev fail_mode={fail_mode} mcast_snooping_enable=false \
             protocols=OpenFlow10,OpenFlow13 other_config:disable-in-band=true other_config:datapath-id={:016x}",
            index + 1
        ));
        for (number, port) in (1..).zip(ports) {
            command(format!("add-port {name} {port}"));
            command(format!("set interface {port} ofport_request={number}"));
        }
        if controlled {
            // A controller that stands still with the testbed is not dead (see `patience`),
            // and one that starts late is wanted soon.
            command(format!(
                "--id=@c{index} create controller target=\"tcp:{CONTROLLER}\" \
                 connection_mode=out-of-band inactivity_probe=0 max_backoff=1000"
            ));
            command(format!("set bridge {name} controller=@c{index}"));
        }
    }
    words.into_iter()
}

/// Where the programs run and keep their files.
struct Tools<'a> {
    namespace: &'a Namespace,
    directory: &'a Path,
}

impl Tools<'_> {
    /// Runs a tool to its end.
    fn run(&self, program: &str, arguments: &[OsString]) -> Result<(), KernelError> {
        let outcome = self.command(program, arguments)?.output();
        let Output { status, stderr, .. } = outcome.map_err(|error| missing(program, error))?;
        if status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        let error = io::Error::other(format!("{status}: {said}"));
        Err(KernelError::new(
            format!("set up the OpenFlow switches with {program}"),
            error,
        ))
    }

    fn daemon(
        &self,
        program: &str,
        arguments: &[OsString],
        control: &str,
    ) -> Result<Child, KernelError> {
        let mut command = self.command(program, arguments)?;
        command
            .arg(joined("--unixctl=", &self.directory.join(control)))
            .args(["--no-chdir", "-vconsole:off", "-vsyslog:off", "-vfile:off"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        die_with_parent(&mut command);
        command.spawn().map_err(|error| missing(program, error))
    }

    fn command(&self, program: &str, arguments: &[OsString]) -> Result<Command, KernelError> {
        // Debian keeps daemons where an ordinary user's PATH does not lead.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PATH", path)
            .stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.directory);
        }
        self.namespace
            .confine(&mut command)
            .map_err(|error| KernelError::new(format!("prepare {program}"), error))?;
        Ok(command)
    }
}

fn missing(program: &str, error: io::Error) -> KernelError {
    KernelError::new(format!("start {program}"), error)
        .missing_if(&[Errno::NOENT], "Open vSwitch (openvswitch-switch)")
}

/// Kills a daemon when a later step fails.
struct Guard(Option<Child>);

impl Guard {
    fn release(mut self) -> Child {
        self.0.take().expect("released once")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A directory of this process alone, removed when it goes out of scope.
struct Directory(PathBuf);

impl Directory {
    fn create() -> Result<Self, KernelError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Paths of Unix sockets are short, so not below the run directory.
        let path =
            std::env::temp_dir().join(format!("timeloom-ovs-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)
            .map_err(|error| KernelError::new(format!("create {}", path.display()), error))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wait_for(socket: &Path) -> Result<(), KernelError> {
    let deadline = StdInstant::now() + StdDuration::from_secs(CONFIGURED_WITHIN_S);
    while !socket.exists() {
        if StdInstant::now() > deadline {
            let action = "see ovsdb-server open its socket";
            return Err(KernelError::new(action, io::ErrorKind::TimedOut.into()));
        }
        sleep(StdDuration::from_millis(2));
    }
    Ok(())
}

fn os(text: &str) -> OsString {
    text.into()
}

fn joined(prefix: &str, path: &Path) -> OsString {
    [OsStr::new(prefix), path.as_os_str()].into_iter().collect()
}

/// Where Debian's package puts it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Usually well under a second; 126 switches on a loaded machine take some.
const CONFIGURED_WITHIN_S: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_names_every_switch_and_port_once() {
        let bridge = |name: &str, ports: &[&str]| Bridge {
            name: name.to_owned(),
            ports: ports.iter().map(|&port| port.to_owned()).collect(),
        };
        let bridges = [bridge("s1", &["s1-h1", "s1-s2"]), bridge("s2", &["s2-s1"])];
        let text = configuration(&bridges, true).collect::<Vec<_>>().join(" ");
        for wanted in [
            "add-br s1",
            "add-br s2",
            "add-port s1 s1-s2",
            "set interface s1-s2 ofport_request=2",
            "datapath-id=0000000000000002",
            "set bridge s2 controller=@c1",
        ] {
            assert_eq!(text.matches(wanted).count(), 1, "{wanted} in {text}");
        }
        let alone = configuration(&bridges, false).collect::<Vec<_>>().join(" ");
        assert!(alone.contains("standalone") && !alone.contains("controller"));
    }
}
