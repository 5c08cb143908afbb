//! Real virtual machines: QEMU's emulation with Debian's kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::time::Duration;

use timeloom_publish::Region;
use timeloom_vm::{Relay, VSOCK_PORT, monitor, qemu};

use crate::common::{Host, tai_ns, wait_for};

/// A running machine; it is killed when this is dropped.
struct Machine {
    emulator: Child,
    /// What carries its vsock, if it has one.
    vsock: Option<Vsock>,
    relay: Option<Relay>,
    asked: BufReader<UnixStream>,
    monitor: UnixStream,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

/// A vsock device in user space (rust-vmm's vhost-device-vsock), for QEMU where the host's
/// kernel has none. It brings what comes for a port of the host to a socket called after it.
struct Vsock {
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
    fn start() -> Self {
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

    /// QEMU's arguments for it: the device writes to the machine's memory.
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
    /// Starts one that runs the test of this name inside.
    fn start(host: &Host, inside: &str) -> Self {
        Self::start_with(host, inside, None)
    }

    fn start_with(host: &Host, inside: &str, vsock: Option<Vsock>) -> Self {
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
            relay: Some(relay),
            asked: BufReader::new(asked),
            monitor,
        }
    }

    fn relay(&self) -> &Relay {
        self.relay.as_ref().unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.asked.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Has the guest read once. What it says must contain a moment between the question
    /// and the answer, or say nothing; how wide it was.
    fn read(&mut self) -> Result<i64, String> {
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

    /// Reads what the emulator says until there is `text` in a line, which is returned.
    fn monitor_says(&mut self, text: &str) -> String {
        let patience = Some(Duration::from_secs(300));
        self.monitor.set_read_timeout(patience).unwrap();
        let mut line = Vec::new();
        // By bytes: what comes after it is somebody else's.
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

    fn tell_monitor(&mut self, words: &str) {
        self.monitor.write_all(words.as_bytes()).unwrap();
    }
}

#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn a_guest_reaches_its_host_by_vsock() {
    let host = Host::new();
    let mut guest = Machine::start_with(&host, "a_guest_by_vsock", Some(Vsock::start()));
    for round in 0..2 {
        let vsock = guest.vsock.as_ref().unwrap();
        let (way, _) = vsock.listener.accept().unwrap();
        let broken = way.try_clone().unwrap();
        // Until then it is what comes by the other port that counts: nothing does.
        guest.relay.as_mut().unwrap().connect(way.into()).unwrap();
        if round == 0 {
            assert_eq!(guest.line(), "ready");
            assert_eq!(host.bindings(), 1, "the guest's own");
        }
        wait_for("an interval", || guest.read().ok());
        (0..200).for_each(|_| drop(guest.read()));
        // It comes again by a way of its own accord.
        broken.shutdown(std::net::Shutdown::Both).unwrap();
        wait_for("the end of its bindings", || {
            (host.bindings() == 0).then_some(())
        });
    }
}

const MIGRATE: &str =
    "{\"execute\":\"migrate\",\"arguments\":{\"uri\":\"exec:cat > /dev/null\"}}\n";

#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn guests_read_the_truth_and_a_hostile_one_hurts_nobody() {
    let host = Host::new();
    let mut good = Machine::start(&host, "a_guest");
    assert_eq!(good.line(), "ready");
    assert_eq!(host.bindings(), 1);
    let mut widths: Vec<i64> = (0..500).filter_map(|_| good.read().ok()).collect();
    widths.sort_unstable();
    assert!(
        widths.len() > 400,
        "{} of 500 readings had an interval",
        widths.len()
    );
    println!(
        "the guest's intervals in ns: least {}, median {}, most {}",
        widths[0],
        widths[widths.len() / 2],
        widths[widths.len() - 1]
    );

    // It is stopped for a while, by which its counter lags: never a wrong time.
    let relay = good.relay.take().unwrap();
    let relay = std::sync::Arc::new(std::sync::Mutex::new(relay));
    // Before the thread does: its own is then answered with an error, which is no event.
    good.tell_monitor("{\"execute\":\"qmp_capabilities\"}\n");
    // With a region it is neither saved nor migrated: what the host says belongs to the host,
    // and QEMU has no way to leave it out of what it restores.
    good.monitor_says("\"return\"");
    good.tell_monitor(MIGRATE);
    let refused = good.monitor_says("\"error\"");
    assert!(refused.contains("ivshmem"), "{refused}");
    let (watching, stream) = (relay.clone(), good.monitor.try_clone().unwrap());
    let (seen, events) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = monitor::watch(stream, || {
            watching.lock().unwrap().displace();
            let _ = seen.send(());
        });
    });
    for _ in 0..3 {
        good.tell_monitor("{\"execute\":\"stop\"}\n");
        events.recv_timeout(Duration::from_secs(120)).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        good.tell_monitor("{\"execute\":\"cont\"}\n");
        events.recv_timeout(Duration::from_secs(120)).unwrap();
        // All of these contain the truth, or claim nothing, until it has measured again.
        wait_for("an interval again", || good.read().ok());
        (0..100).for_each(|_| drop(good.read()));
    }

    // Beside it one that writes to the memory, and 100,000 times nonsense to the port.
    let mut hostile = Machine::start(&host, "a_hostile_guest");
    assert_eq!(hostile.line(), "ready");
    wait_for("all of it to be looked at", || {
        (hostile.relay().stats().malformed >= 100_000).then_some(())
    });
    Region::open(hostile.relay().region()).expect("what it wrote there is dropped");
    assert_eq!(host.bindings(), 1, "the good one's");
    assert_eq!(relay.lock().unwrap().stats().malformed, 0);
    (0..200).for_each(|_| drop(good.read()));
    wait_for("an interval beside it", || good.read().ok());
    drop(hostile);
    // Killed, the other one has nothing any more.
    drop(good);
    wait_for("the end of its bindings", || {
        (host.bindings() == 0).then_some(())
    });
}
