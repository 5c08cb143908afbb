//! A guest as the host sees it: a QEMU process, a port for commands, and a mailbox.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use timeloom_timeline::shm::SharedCounter;
use timeloom_timeline::{Directory, TimelineName};
use timeloom_timelined::vm::{Relay, qemu};

use super::image::Parts;
use super::mailbox::{self, Mailbox};
use super::source::NAME;
use crate::cores;
use crate::error::BenchError;
use crate::shared::Shared;

/// Name of the virtual port over which the worker in a guest receives commands.
pub(super) const PORT: &str = "org.timeloom.bench";

/// Source of time in a guest.
pub(super) enum Time<'a> {
    /// The daemon of the host, through shared memory.
    FromHost(&'a Directory, SharedCounter),
    /// A chronyd in the guest, which queries this UDP port of the host over the emulated network
    /// card.
    Own(u16),
}

/// A running guest; dropping this kills it.
pub(super) struct Machine {
    emulator: Child,
    stream: BufReader<UnixStream>,
    pub(super) mailbox: Arc<Shared<Mailbox>>,
    _relay: Option<Relay>,
    /// This program's end of the connection to QEMU's monitor, which is not used.
    _monitor: UnixStream,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

impl Machine {
    /// Starts a guest. `place` is a directory that no other guest uses.
    pub(super) fn start(
        parts: &Parts,
        initrd: &Path,
        place: &Path,
        time: &Time<'_>,
    ) -> Result<Self, BenchError> {
        let failed = |what: &'static str| BenchError::system(what);
        std::fs::create_dir(place).map_err(failed("making a guest's directory"))?;
        let pair = || UnixStream::pair().map_err(BenchError::system("making a channel"));
        let memory = place.join("mailbox");
        let mailbox = mailbox::create(&memory)?;
        let ((ours, theirs), (monitor, told)) = (pair()?, pair()?);
        let mut append = String::from("console=ttyS0 quiet panic=-1 no_timer_check");
        if let Time::Own(port) = time {
            let _ = write!(append, " ntp={port}");
        }
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg", "-cpu", "max", "-m", "320", "-nodefaults"])
            .args(["-nographic", "-no-reboot", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&parts.kernel)
            .arg("-initrd")
            .arg(initrd)
            .arg("-append")
            .arg(append)
            .args(["-netdev", "user,id=net"])
            .args(["-device", "virtio-net-pci,netdev=net,romfile="])
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=mailbox,mem-path={},size=4096,share=on",
                memory.display().to_string().replace(',', ",,")
            ))
            .args(["-device", "ivshmem-plain,memdev=mailbox"])
            .args(["-device", "virtio-serial-pci,id=bench", "-chardev"])
            .arg(format!("socket,id=bench-port,fd={}", theirs.as_raw_fd()))
            .arg("-device")
            .arg(format!(
                "virtserialport,bus=bench.0,chardev=bench-port,name={PORT}"
            ))
            .stdin(Stdio::null());
        let console = std::fs::File::create(place.join("console"));
        let console = console.map_err(failed("making a guest's console"))?;
        let errors = console
            .try_clone()
            .map_err(failed("making a guest's console"))?;
        command.stdout(console).stderr(errors);
        let mut descriptors: Vec<OwnedFd> = vec![theirs.into()];
        let mut relay = None;
        if let Time::FromHost(directory, counter) = time {
            let name: TimelineName = NAME.parse().expect("a good name");
            let mut started = Relay::start((*directory).clone(), vec![name], *counter)
                .map_err(|error| BenchError::Worker(error.to_string()))?;
            let (channel, port) = pair()?;
            let region = started.region().try_clone_to_owned();
            let region = region.map_err(failed("passing the region to the emulator"))?;
            command.args(qemu::arguments(
                &format!("/proc/self/fd/{}", region.as_raw_fd()),
                started.size(),
                None,
                &format!("socket,fd={}", port.as_raw_fd()),
                &format!("socket,fd={}", told.as_raw_fd()),
            ));
            started
                .connect(channel.into())
                .map_err(failed("taking the channel"))?;
            descriptors.extend([region, port.into(), told.into()]);
            relay = Some(started);
        }
        for descriptor in descriptors {
            timeloom_sys::command::inherit(&mut command, descriptor);
        }
        timeloom_sys::command::die_with_parent(&mut command);
        let emulator = start_pinned(&mut command)?;
        let timeout = ours.set_read_timeout(Some(PATIENCE));
        timeout.map_err(failed("preparing a guest's port"))?;
        Ok(Self {
            emulator,
            stream: BufReader::new(ours),
            mailbox,
            _relay: relay,
            _monitor: monitor,
        })
    }

    /// Sends a command to the worker.
    pub(super) fn send(&mut self, command: &str) -> Result<(), BenchError> {
        let line = format!("{command}\n");
        let stream = self.stream.get_mut();
        stream
            .write_all(line.as_bytes())
            .map_err(BenchError::system("commanding a guest"))
    }

    /// Waits for the worker's answer.
    pub(super) fn answer(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        let length = read.map_err(BenchError::system("waiting for a guest's answer"))?;
        if length == 0 {
            return Err(BenchError::Worker("a guest ended too early".into()));
        }
        if line.starts_with("what?") {
            return Err(BenchError::Worker(format!("a guest answered: {line}")));
        }
        Ok(line)
    }

    /// Sends a command that the worker must answer with `yes`.
    pub(super) fn ask(&mut self, command: &str) -> Result<(), BenchError> {
        self.send(command)?;
        let answer = self.answer()?;
        if answer.trim_end() == "yes" {
            return Ok(());
        }
        Err(BenchError::Worker(format!("a guest answered {answer}")))
    }

    /// Waits for the worker's answer, which is JSON.
    pub(super) fn read<T: DeserializeOwned>(&mut self) -> Result<T, BenchError> {
        let answer = self.answer()?;
        serde_json::from_str(&answer)
            .map_err(|error| BenchError::Worker(format!("a guest answered {answer}: {error}")))
    }
}

/// Starts a command on the last processor that this process may use; true time is read on another
/// one. (A child process inherits the processors of the thread that starts it.)
fn start_pinned(command: &mut Command) -> Result<Child, BenchError> {
    let before = cores::allowed();
    cores::pin(cores::measuring_core());
    let started = command.spawn();
    cores::allow(&before);
    started.map_err(BenchError::system("starting qemu-system-x86_64"))
}

/// Maximum time for an answer. A guest starts slowly if its processor is emulated and shared.
const PATIENCE: Duration = Duration::from_secs(600);
