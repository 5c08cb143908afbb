//! Real virtual machine: QEMU's emulation, with Debian's kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use timeloom_timelined::vm::{Relay, VSOCK_PORT, monitor, qemu};

use crate::common::{Host, tai_ns, wait_for};

/// Machine that is running; it is killed when the value is dropped.
pub(crate) struct Machine {
    emulator: Child,
    /// Device for its vsock, if it has one.
    vsock: Option<Vsock>,
    relay: Arc<Mutex<Relay>>,
    asked: BufReader<UnixStream>,
    monitor: UnixStream,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

/// Vsock device in user space (rust-vmm's vhost-device-vsock), for a host whose kernel has none. It
/// forwards a connection to a port of the host to a Unix socket that is named after the port.
pub(crate) struct Vsock {
    device: Child,
    listener: UnixListener,
    place: tempfile::TempDir,
}

impl Drop for Vsock {
    fn drop(&mut self) {
        let _ = self.device.kill();
        let _ = self.device.wait();
    }
}

impl Vsock {
    pub(crate) fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        let listener = UnixListener::bind(path(&format!("vsock_{VSOCK_PORT}"))).unwrap();
        let mut command = Command::new(file("TIMELOOM_VM_VSOCK"));
        command
            .args(["--guest-cid", "3", "--socket", &path("device")])
            .args(["--uds-path", &path("vsock")]);
        timeloom_sys::command::die_with_parent(&mut command);
        let device = command.spawn().unwrap();
        wait_for("the vsock device", || {
            place.path().join("device").exists().then_some(())
        });
        Self {
            device,
            listener,
            place,
        }
    }

    /// Returns QEMU's arguments for the device, which writes to the machine's memory.
    fn arguments(&self) -> [String; 8] {
        let device = self.place.path().join("device");
        [
            "-object".into(),
            "memory-backend-memfd,id=all,size=192M,share=on".into(),
            "-machine".into(),
            "memory-backend=all".into(),
            "-chardev".into(),
            format!("socket,id=vsock,path={}", device.display()),
            "-device".into(),
            "vhost-user-vsock-pci,chardev=vsock".into(),
        ]
    }
}

fn file(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name}: see scripts/test-vm"))
}

impl Machine {
    /// Starts a machine in which the test `inside` runs.
    pub(crate) fn start(host: &Host, inside: &str) -> Self {
        Self::start_with(host, inside, None)
    }

    pub(crate) fn start_with(host: &Host, inside: &str, vsock: Option<Vsock>) -> Self {
        let (relay, port) = host.relay();
        let pair = || UnixStream::pair().unwrap();
        let ((asked, answers), (monitor, told)) = (pair(), pair());
        let region = relay.region().try_clone_to_owned().unwrap();
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg", "-cpu", "max", "-m", "192", "-nodefaults"])
            .args(["-nographic", "-no-reboot", "-serial", "stdio"])
            .args(["-kernel", &file("TIMELOOM_VM_KERNEL")])
            .args(["-initrd", &file("TIMELOOM_VM_INITRD")])
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 no_timer_check inside={inside}"
            ))
            .args(qemu::arguments(
                &format!("/proc/self/fd/{}", region.as_raw_fd()),
                relay.size(),
                None,
                &format!("socket,fd={}", port.as_raw_fd()),
                &format!("socket,fd={}", told.as_raw_fd()),
            ))
            .arg("-chardev")
            .arg(format!("socket,id=test,fd={}", answers.as_raw_fd()))
            .args([
                "-device",
                "virtserialport,bus=timeloom-ports.0,chardev=test,name=test",
            ])
            .stdin(std::process::Stdio::null());
        if let Some(vsock) = &vsock {
            command.args(vsock.arguments());
        }
        let descriptors: [OwnedFd; 4] = [region, port, told.into(), answers.into()];
        for descriptor in descriptors {
            timeloom_sys::command::inherit(&mut command, descriptor);
        }
        timeloom_sys::command::die_with_parent(&mut command);
        let emulator = command.spawn().unwrap();
        asked
            .set_read_timeout(Some(Duration::from_secs(300)))
            .unwrap();
        Self {
            emulator,
            vsock,
            relay: Arc::new(Mutex::new(relay)),
            asked: BufReader::new(asked),
            monitor,
        }
    }

    pub(crate) fn relay(&self) -> MutexGuard<'_, Relay> {
        self.relay.lock().unwrap()
    }

    /// Waits for the guest's vsock connection, and passes it to the relay. Returns a second handle
    /// of the connection.
    pub(crate) fn way(&self) -> UnixStream {
        let vsock = self.vsock.as_ref().expect("it was started with one");
        let (way, _) = vsock.listener.accept().unwrap();
        let hold = way.try_clone().unwrap();
        self.relay().connect(way.into()).unwrap();
        hold
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.asked.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets the guest read its timeline once. The reading must have no interval, or an interval
    /// with an instant between question and answer. Returns the width of the interval.
    pub(crate) fn read(&mut self) -> Result<i64, String> {
        let before_ns = tai_ns();
        self.asked.get_mut().write_all(b"r").unwrap();
        let said = self.line();
        let after_ns = tai_ns();
        let mut words = said.splitn(3, ' ');
        let mut word = || words.next().unwrap().parse::<i64>().ok();
        let (Some(earliest), Some(latest)) = (word(), word()) else {
            return Err(said);
        };
        assert!(
            earliest <= after_ns && latest >= before_ns,
            "{said} read between {before_ns} and {after_ns}"
        );
        Ok(latest - earliest)
    }

    /// Reads the emulator's output up to a line that contains `text`, and returns that line.
    pub(crate) fn monitor_says(&mut self, text: &str) -> String {
        let patience = Some(Duration::from_secs(300));
        self.monitor.set_read_timeout(patience).unwrap();
        let mut line = Vec::new();
        // Reads byte by byte, because the bytes after the line belong to another reader.
        loop {
            let mut byte = [0];
            self.monitor.read_exact(&mut byte).unwrap();
            line.extend(byte);
            if byte == *b"\n" {
                let said = String::from_utf8_lossy(&line).into_owned();
                if said.contains(text) {
                    return said;
                }
                line.clear();
            }
        }
    }

    pub(crate) fn tell_monitor(&mut self, command: &str) {
        let line = format!("{{\"execute\":{command}}}\n");
        self.monitor.write_all(line.as_bytes()).unwrap();
    }

    /// Opens the monitor, which is required before the first command.
    pub(crate) fn open_monitor(&mut self) {
        self.tell_monitor("\"qmp_capabilities\"");
        self.monitor_says("\"return\"");
    }

    /// Watches the emulator's monitor. From now on, displacements of the machine's counter are
    /// reported to the relay and to the returned receiver. No command may have been sent to the
    /// emulator before.
    pub(crate) fn watched(&mut self) -> Receiver<()> {
        // Opened here, before the thread opens it. The thread's own command then gets an error,
        // which is not an event.
        self.open_monitor();
        let (relay, stream) = (self.relay.clone(), self.monitor.try_clone().unwrap());
        let (seen, events) = channel();
        std::thread::spawn(move || {
            let _ = monitor::watch(stream, || {
                relay.lock().unwrap().displace();
                let _ = seen.send(());
            });
        });
        events
    }
}
