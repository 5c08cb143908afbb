//! Tests with a scripted chronyd, on a machine that a test marks as held.

use parking_lot::Mutex;
use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;

use super::*;
use crate::source::chrony_codec::tests::{reply, statement};
use crate::source::realtime_line::tests::pair;
use timeloom_test_support::eventually;
use timeloom_timeline::protocol::TimelineScale;

/// State and behaviour of the scripted chronyd.
#[derive(Clone, Copy, Debug)]
struct Script {
    synchronised: bool,
    /// Age in seconds of the last update that the script reports.
    updated_s: u32,
    /// Number of samples that the script reports for its one source.
    samples: u32,
    heard_s: u32,
    span_s: u32,
    /// Number of orders to drop all measurements that were received.
    resets: u32,
}

/// A chronyd that has been synchronised for long and has just received a sample.
const SETTLED: Script = Script {
    synchronised: true,
    updated_s: 0,
    samples: 12,
    heard_s: 0,
    span_s: 300,
    resets: 0,
};

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

struct Scripted {
    script: Arc<Mutex<Script>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    fn start(socket: Socket) -> Self {
        let script = Arc::new(Mutex::new(SETTLED));
        let over = Arc::new(AtomicBool::new(false));
        let look = Some(std::time::Duration::from_millis(20));
        match &socket {
            Socket::Unix(socket) => socket.set_read_timeout(look),
            Socket::Udp(socket) => socket.set_read_timeout(look),
        }
        .unwrap();
        let thread = {
            let (script, over) = (Arc::clone(&script), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    serve(&socket, &script);
                }
            })
        };
        let thread = Some(thread);
        Self {
            script,
            over,
            thread,
        }
    }

    fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock());
    }

    fn resets(&self) -> u32 {
        self.script.lock().resets
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &Socket, script: &Mutex<Script>) {
    let mut buffer = [0; 512];
    match socket {
        Socket::Unix(socket) => {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let answer = answer(&buffer[..length], &mut script.lock(), true);
                let _ = socket.send_to(&answer, from.as_pathname().unwrap());
            }
        }
        Socket::Udp(socket) => {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let answer = answer(&buffer[..length], &mut script.lock(), false);
                let _ = socket.send_to(&answer, from);
            }
        }
    }
}

/// Answers as chronyd 4.3 does.
fn answer(request: &[u8], script: &mut Script, may_command: bool) -> Vec<u8> {
    let words = |before: usize, words: &[u32], after: usize| {
        let mut body = vec![0; before];
        words
            .iter()
            .for_each(|word| body.extend(word.to_be_bytes()));
        body.extend(vec![0; after]);
        body
    };
    match request[5] {
        14 => reply(request, 2, 0, &1u32.to_be_bytes()),
        15 => reply(request, 3, 0, &words(32, &[script.heard_s], 12)),
        34 => {
            let told = [script.samples, 5, script.span_s];
            reply(request, 6, 0, &words(24, &told, 20))
        }
        66 if may_command => {
            script.resets += 1;
            script.synchronised = false;
            reply(request, 1, 0, &[])
        }
        66 => reply(request, 1, 2, &[]),
        _ => {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap();
            let updated = now - std::time::Duration::from_secs(script.updated_s.into());
            let at = (updated.as_secs() as u32, updated.subsec_nanos());
            let leap = if script.synchronised { 0 } else { 3 };
            reply(request, 5, 0, &statement(7, leap, at, 0))
        }
    }
}

/// A machine that a test can mark as held, with its chronyd as a source.
struct HeldMachine {
    hypervisor: File,
    chronyd: Scripted,
    source: Chrony,
    _directory: tempfile::TempDir,
}

impl HeldMachine {
    fn new(by_udp: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hypervisor");
        let hypervisor = File::create(&path).unwrap();
        hypervisor.set_len(112).unwrap();
        let clock = LocalClock::under(File::open(&path).unwrap());
        let (socket, address) = if by_udp {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap().to_string();
            (Socket::Udp(socket), address)
        } else {
            let path = directory.path().join("command");
            let socket = UnixDatagram::bind(&path).unwrap();
            (Socket::Unix(socket), path.display().to_string())
        };
        let mut timeline = TimelineConfig::new("held".parse().unwrap());
        timeline.scale = TimelineScale::Local;
        let config = ChronyConfig {
            address,
            drift_ppb: None,
        };
        Self {
            hypervisor,
            chronyd: Scripted::start(socket),
            source: Chrony::new(config, &timeline, Arc::new(clock)),
            _directory: directory,
        }
    }

    /// Marks the machine as held: its hypervisor's marker changes.
    fn hold(&self, marker: u8) {
        self.hypervisor.write_all_at(&[marker], 16).unwrap();
    }

    /// Asks the source, again if the system clock was set or chronyd was too slow, and returns the
    /// answer.
    fn ask(&mut self) -> Result<SourceSample, String> {
        let mut said = Err(SourceFailure::because("not asked"));
        eventually("an answer that is to the point", || {
            said = self.source.ask(Era(1));
            !said
                .as_ref()
                .is_err_and(|why| why.0.contains("being slewed") || why.0.starts_with("chronyd at"))
        });
        said.map_err(|why| why.0)
    }

    /// Returns the reason for the source's refusal.
    fn refusal(&mut self) -> String {
        self.ask().unwrap_err()
    }
}

#[test]
fn measurements_before_a_hold_are_dropped_through_the_unix_socket() {
    let mut machine = HeldMachine::new(false);
    assert!(machine.ask().is_ok());
    assert_eq!(machine.chronyd.resets(), 0, "nothing has happened");
    for marker in [1, 2] {
        let before = machine.chronyd.resets();
        machine.hold(marker);
        assert!(machine.refusal().contains("measure again"));
        // chronyd received a sample at this very moment, which is not yet evidence.
        assert!(machine.refusal().contains("not in step"));
        let after = machine.chronyd.resets();
        assert!(after > before, "hold {marker}");
        machine.chronyd.set(|script| script.synchronised = true);
        assert!(machine.ask().is_ok());
        assert_eq!(
            machine.chronyd.resets(),
            after,
            "not again for hold {marker}"
        );
    }
}

#[test]
fn by_udp_it_is_believed_when_no_sample_is_left_from_before() {
    let mut machine = HeldMachine::new(true);
    assert!(machine.ask().is_ok());
    machine.hold(1);
    assert!(machine.refusal().contains("its source 0"));
    // Another program ordered chronyd to drop its measurements, and the answer is from before that.
    machine
        .chronyd
        .set(|script| (script.samples, script.updated_s) = (0, 20));
    assert!(machine.refusal().contains("has received nothing"));
    machine.chronyd.set(|script| script.updated_s = 0);
    eventually("an update since", || machine.ask().is_ok());

    // Rounding makes it possible that samples are from before the hold, until enough time has
    // passed.
    let held = std::time::Instant::now();
    machine.hold(2);
    machine.chronyd.set(|script| script.samples = 3);
    machine.chronyd.set(|script| script.span_s = 0);
    assert!(machine.refusal().contains("its source 0"));
    eventually("samples that are all newer", || machine.ask().is_ok());
    assert!(held.elapsed() > std::time::Duration::from_secs(3));
    assert_eq!(machine.chronyd.resets(), 0, "it takes no orders by UDP");
}

#[test]
fn half_the_delay_the_dispersion_and_the_drift_since_are_in_the_bound() {
    let second = 1_000_000_000;
    let tracking = Tracking {
        synchronised: true,
        ref_time_ns: 90 * second,
        correction_s: 0.25,
        root_delay_s: 0.002,
        root_dispersion_s: 0.0005,
    };
    let (before, after) = (
        pair(second, 100 * second),
        pair(second + 1_000, 100 * second + 1_000),
    );
    let drift = RateError::from_ppb(10_000);
    let tai = Duration::from_s(37);
    let sample = interpret(&tracking, Era(2), (&before, &after), tai, drift).unwrap();
    let SourceSample::Exchange(exchange) = sample else {
        panic!("{sample:?}");
    };
    let bound = exchange
        .bound(Duration::from_ns(1), RateError::from_ppb(100_000))
        .unwrap();
    let truth_ns = 137 * second + 1_000 + second / 4;
    // 1 ms + 0.5 ms + 10.25 s of 10 ppm.
    let expected_ns = 1_000_000 + 500_000 + 102_500;
    let below_ns = truth_ns - bound.earliest.as_ns();
    assert!(
        (expected_ns..expected_ns + 200).contains(&below_ns),
        "{below_ns}"
    );
    assert!(bound.latest.as_ns() - truth_ns >= expected_ns);
    let lost = Tracking {
        synchronised: false,
        ..tracking
    };
    assert!(interpret(&lost, Era(2), (&before, &after), tai, drift).is_err());
}
