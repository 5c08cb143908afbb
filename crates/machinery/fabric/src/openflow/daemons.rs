//! Database server and Open vSwitch daemon that serve bridges, and the tools that set them up.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use rustix::io::Errno;

use timeloom_sys::command::die_with_parent;

use super::Datapath;
use crate::{KernelError, Namespace};

/// Pair of daemons, with their namespace and their directory.
pub(super) struct Daemons<'a> {
    namespace: &'a Namespace,
    directory: PathBuf,
    switch: Option<Guard>,
    database: Guard,
}

impl<'a> Daemons<'a> {
    /// Starts `count` database servers, each of which listens at its [`Daemons::socket`].
    pub(super) fn databases(
        namespace: &'a Namespace,
        directory: &Directory,
        count: usize,
    ) -> Result<Vec<Self>, KernelError> {
        let empty = directory.0.join("empty.db");
        let create = [os("create"), empty.clone().into(), SCHEMA.into()];
        Tool::start(namespace, &directory.0, "ovsdb-tool", &create)?.wait()?;
        let start = |number: usize| {
            let place = directory.0.join(number.to_string());
            let file = place.join("conf.db");
            let laid = fs::create_dir(&place).and_then(|()| fs::copy(&empty, &file).map(drop));
            laid.map_err(|error| KernelError::new(format!("make {}", file.display()), error))?;
            let remote = joined("--remote=punix:", &place.join(SOCKET));
            let arguments = [file.into(), remote];
            let command = daemon(namespace, &place, "ovsdb-server", &arguments)?;
            Ok(Self {
                namespace,
                database: Guard::spawn("ovsdb-server", command)?,
                directory: place,
                switch: None,
            })
        };
        let all = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
        for one in &all {
            wait_for(&one.socket())?;
        }
        Ok(all)
    }

    /// Starts the `ovs-vswitchd`.
    pub(super) fn switch(&mut self, datapath: Datapath) -> Result<(), KernelError> {
        // A frame that waits for a processor makes the network slow, so the daemon gets a higher
        // priority. Without the right to raise the priority, the daemon still runs.
        let mut arguments: Vec<OsString> = ["-n", "-20", "ovs-vswitchd"].map(os).into();
        arguments.push(joined("unix:", &self.socket()));
        arguments.extend(datapath.arguments().iter().map(|word| os(word)));
        let command = daemon(self.namespace, &self.directory, "nice", &arguments)?;
        self.switch = Some(Guard::spawn("ovs-vswitchd", command)?);
        Ok(())
    }

    /// Starts `ovs-vsctl` with these arguments. The configuration is complete when the tool exits.
    pub(super) fn configure(
        &self,
        words: impl Iterator<Item = String>,
    ) -> Result<Tool, KernelError> {
        // The socket exists a moment before the database server listens at it.
        let mut arguments = vec![
            joined("--db=unix:", &self.socket()),
            os("--retry"),
            os(&format!("--timeout={CONFIGURED_WITHIN_S}")),
        ];
        arguments.extend(words.map(|word| os(&word)));
        Tool::start(self.namespace, &self.directory, "ovs-vsctl", &arguments)
    }

    /// Returns the path of the database server's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Returns both child processes, the switch daemon first. From now on the caller must end them.
    pub(super) fn release(self) -> (Child, Child) {
        let switch = self.switch.expect("it was started");
        (switch.release(), self.database.release())
    }
}

/// Returns the version that `ovs-vswitchd` reports.
pub(super) fn version() -> Result<String, KernelError> {
    let mut command = in_path("ovs-vswitchd");
    let output = command.arg("--version").output();
    let output = output.map_err(|error| missing("ovs-vswitchd", error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let first = said.lines().next().unwrap_or_default().trim();
    let number = first.rsplit(' ').next().unwrap_or_default();
    Ok(format!("Open vSwitch {number}"))
}

/// Running tool. If the value is dropped before the tool has ended, the tool is killed.
pub(super) struct Tool {
    program: &'static str,
    child: Guard,
}

impl Tool {
    fn start(
        namespace: &Namespace,
        directory: &Path,
        program: &'static str,
        arguments: &[OsString],
    ) -> Result<Self, KernelError> {
        let mut command = confined(namespace, directory, program, arguments)?;
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = Guard::spawn(program, command)?;
        Ok(Self { program, child })
    }

    /// Waits until the tool has ended; fails if it reports a failure.
    pub(super) fn wait(self) -> Result<(), KernelError> {
        let program = self.program;
        let failed = |error| {
            KernelError::new(
                format!("set up the OpenFlow switches with {program}"),
                error,
            )
        };
        let output = self.child.release().wait_with_output().map_err(failed)?;
        let Output { status, stderr, .. } = output;
        if status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(failed(io::Error::other(format!("{status}: {said}"))))
    }
}

fn daemon(
    namespace: &Namespace,
    directory: &Path,
    program: &str,
    arguments: &[OsString],
) -> Result<Command, KernelError> {
    let mut command = confined(namespace, directory, program, arguments)?;
    command
        .arg(joined(
            "--unixctl=",
            &directory.join(format!("{program}.ctl")),
        ))
        .args(["--no-chdir", "-vconsole:off", "-vsyslog:off", "-vfile:off"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    die_with_parent(&mut command);
    Ok(command)
}

fn confined(
    namespace: &Namespace,
    directory: &Path,
    program: &str,
    arguments: &[OsString],
) -> Result<Command, KernelError> {
    let mut command = in_path(program);
    command.args(arguments);
    for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, directory);
    }
    namespace
        .confine(&mut command)
        .map_err(|error| KernelError::new(format!("prepare {program}"), error))?;
    Ok(command)
}

fn in_path(program: &str) -> Command {
    // Debian installs daemons in directories that are not in an ordinary user's PATH.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.env("PATH", path).stdin(Stdio::null());
    command
}

fn missing(program: &str, error: io::Error) -> KernelError {
    KernelError::new(format!("start {program}"), error)
        .missing_if(&[Errno::NOENT], "Open vSwitch (openvswitch-switch)")
}

/// Child process that is killed if a later step fails.
struct Guard(Option<Child>);

impl Guard {
    fn spawn(program: &str, mut command: Command) -> Result<Self, KernelError> {
        let child = command.spawn().map_err(|error| missing(program, error))?;
        Ok(Self(Some(child)))
    }

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

/// Private directory of this process. It is removed when the value is dropped.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn create() -> Result<Self, KernelError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Paths of Unix sockets are limited in length, so the directory is not below the run
        // directory.
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
            let action = "wait for the socket of ovsdb-server";
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

/// Name of a database server's socket in its directory.
const SOCKET: &str = "db.sock";

/// Path of the database schema in Debian's package.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Time limit for the configuration. It usually takes well under a second, and longer with many
/// switches on a busy machine.
const CONFIGURED_WITHIN_S: u64 = 60;
