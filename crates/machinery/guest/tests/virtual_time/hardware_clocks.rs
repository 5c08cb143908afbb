//! Tests of a hardware clock as guests see it, and of a real phc2sys that disciplines a host's
//! clock by it. They need a machine with a hardware clock (`make test-phc` emulates one).

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;

use timeloom_clock::RateError;
use timeloom_clock::host::HostOscillator;
use timeloom_guest::{ClockOptions, HostOptions};
use timeloom_time::{Duration, Instant};

use crate::support::{World, c_program};

const DEVICE: &str = "/dev/ptp0";
/// Maximum drift between device and machine during the test, in nanoseconds. (A kernel measures its
/// counter to a millionth.) Setting either clock would change their difference much more.
const DRIFT_NS: i64 = 2_000_000;

fn clock_ns(id: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut now) }, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns the device's lead over the machine's CLOCK_REALTIME, and the steering of CLOCK_REALTIME.
fn machine() -> (i64, [i64; 4]) {
    let device = File::open(DEVICE).expect("a hardware clock");
    let id = (!device.as_raw_fd() << 3) | 3;
    let before_ns = clock_ns(libc::CLOCK_REALTIME);
    let device_ns = clock_ns(id);
    let after_ns = clock_ns(libc::CLOCK_REALTIME);
    // SAFETY: plain data, which the kernel writes; without modes the call changes nothing.
    let timex = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        assert!(libc::adjtimex(&raw mut timex) >= 0);
        timex
    };
    let steering = [timex.freq, timex.tick, timex.offset, timex.status.into()];
    (device_ns - before_ns - (after_ns - before_ns) / 2, steering)
}

#[test]
#[ignore = "needs a hardware clock: make test-phc"]
fn a_hardware_clock_is_as_far_ahead_in_every_session() {
    let (ahead_ns, steering) = machine();
    let usual = ClockOptions::default();
    let dates = Instant::from_ns(1_559_520_000_000_000_000); // 2019-06-03
    let clocks = [
        usual,
        ClockOptions {
            dilation: 5.0,
            ..usual
        },
        ClockOptions {
            start: Some(dates),
            dilation: 0.5,
            ..usual
        },
    ];
    for clock in clocks {
        let world = World::with_clock("phc", clock);
        let argv: [OsString; 4] = [
            c_program("phc").into(),
            DEVICE.into(),
            ahead_ns.to_string().into(),
            "20000".into(),
        ];
        let (lines, status) = world.start(argv).finish();
        assert_eq!(
            (lines.last().map(String::as_str), status),
            (Some("failed=0"), 0),
            "{clock:?}: {lines:#?}"
        );
    }
    let (after_ns, steering_after) = machine();
    assert_eq!(steering, steering_after);
    assert!(
        (after_ns - ahead_ns).abs() < DRIFT_NS,
        "{ahead_ns} {after_ns}"
    );
}

#[test]
#[ignore = "needs a hardware clock and phc2sys: make test-phc"]
fn phc2sys_disciplines_the_clock_of_its_host_and_no_other() {
    let (ahead_ns, steering) = machine();
    for dilation in [1.0, 4.0] {
        let world = World::new("phc2sys", dilation);
        let options = HostOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb(40_000),
                ..HostOscillator::default()
            },
            seed: 1,
            offset: Duration::from_ms(30),
            ..HostOptions::default()
        };
        let host = world
            .session
            .add_host("far", &options)
            .expect("a host more");
        let error = || {
            let (_, readings) = world.session.clock().host_readings();
            (readings[1].error.as_ns(), readings[1].frequency_error * 1e9)
        };
        let (first_ns, _) = error();
        let argv = [
            "phc2sys",
            "-s",
            DEVICE,
            "-c",
            "CLOCK_REALTIME",
            "-O",
            "0",
            "-m",
        ];
        let mut program = world.start_on(Some(host), argv);
        let mut stated_error = Vec::new();
        while stated_error.len() < 60 {
            let line = program.wait_for_line(|line| line.contains(" offset "));
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words
                .iter()
                .position(|word| *word == "offset")
                .expect("just found");
            stated_error.push(words[at + 1].parse::<i64>().expect("nanoseconds"));
            if stated_error.len() == 30 {
                world.pause_for(std::time::Duration::from_secs(1));
            }
        }
        // The host's clock converges to the device, including the device's own offset.
        let (error_ns, frequency_ppb) = error();
        let off_ns = error_ns - machine().0;
        let worst = stated_error[40..]
            .iter()
            .map(|ns| ns.abs())
            .max()
            .expect("twenty");
        println!(
            "dilation {dilation}: true error {first_ns} ns at first, {error_ns} ns after 60 s ({off_ns} ns from the \
             device); rate off by {frequency_ppb:.0} ppb; phc2sys believes {} ns at first, at most {worst} ns at the end",
            stated_error[0]
        );
        assert!(first_ns > 29_000_000, "{first_ns}");
        assert!(stated_error[0].abs() > 1_000_000, "{stated_error:?}");
        assert!(worst < 20_000, "{stated_error:?}");
        assert!(off_ns.abs() < 20_000, "{off_ns}");
        assert!(frequency_ppb.abs() < 5_000.0, "{frequency_ppb}");
    }
    let (after_ns, steering_after) = machine();
    assert_eq!(steering, steering_after);
    assert!(
        (after_ns - ahead_ns).abs() < DRIFT_NS,
        "{ahead_ns} {after_ns}"
    );
}
