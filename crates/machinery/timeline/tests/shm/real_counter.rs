//! Test of a timeline on the machine's own counter, with its system clock as the source.

#![cfg(target_arch = "x86_64")]

use std::time::{Duration as StdDuration, SystemTime, UNIX_EPOCH};

use timeloom_clock::oscillator::OscillatorSpec;
use timeloom_clock::quality::{Status, TimelineId};
use timeloom_clock::timeline::{Config, Estimator, EstimatorAction, LocalNow};
use timeloom_time::Duration;
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::{PageReader, PageWriter, SystemClock, SystemClockError, TscClock};

#[test]
fn the_system_clock_lies_in_every_interval_of_a_timeline_over_it() {
    let tsc = TscClock::trusted().expect("`scripts/exclusions` excludes this test otherwise");
    let scale = tsc.calibrate().unwrap();
    let id = TimelineId(3);
    let writer = PageWriter::in_memory(id, PageCounter::Tsc, Some(scale)).unwrap();
    let reader = PageReader::open(writer.fd()).unwrap();
    let core = || writer.core_at(writer.ticks());
    let now = || LocalNow {
        core: core(),
        marker: 0,
        suspended: Duration::ZERO,
        witness: None,
    };
    // 10 ppm for the calibration, in addition to the kernel's steering of the clock.
    let config = Config::new(id, OscillatorSpec::crystal(600_000), 1);
    let mut estimator = Estimator::new(config, now());
    let deadline = std::time::Instant::now() + StdDuration::from_millis(600);
    let mut bounded = 0;
    while std::time::Instant::now() < deadline {
        while let Some(action) = estimator.poll_action() {
            match action {
                EstimatorAction::Publish(segment) => writer.publish(&segment),
                EstimatorAction::Alive(until) => writer.keep_alive(until),
                EstimatorAction::Poll { source, era } => {
                    let before = core();
                    // This test treats the kernel's clock as true time, even if no daemon
                    // disciplines it.
                    let asked = SystemClock::ask().unwrap();
                    let clock = SystemClock {
                        synchronised: true,
                        max_error: Duration::from_us(1),
                        ..asked
                    };
                    let exchange = clock.exchange(era, (before, core()), TAI_OFFSET).unwrap();
                    estimator.handle_exchange(now(), source, &exchange).unwrap();
                    let lost = SystemClock {
                        synchronised: false,
                        ..asked
                    };
                    let refused = lost.exchange(era, (before, core()), TAI_OFFSET);
                    assert_eq!(refused, Err(SystemClockError::Unsynchronised));
                }
                _ => {}
            }
        }
        let offset_ns = TAI_OFFSET.as_ns();
        let realtime = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos() as i64
        };
        let before_ns = realtime() + offset_ns;
        let stamp = reader.read().unwrap();
        let after_ns = realtime() + offset_ns;
        if let Some(interval) = stamp.interval() {
            assert_eq!(stamp.status(), Status::Ok);
            // True time at the reading lay between the two readings of the system clock.
            assert!(
                interval.earliest().as_ns() <= after_ns,
                "{interval:?} {after_ns}"
            );
            assert!(
                interval.latest().as_ns() >= before_ns,
                "{interval:?} {before_ns}"
            );
            bounded += 1;
        }
        estimator.handle_tick(now());
        std::thread::sleep(StdDuration::from_millis(1));
    }
    assert!(bounded > 50, "{bounded} readings");
}

/// Arbitrary offset: in this test TAI is the system clock plus this duration.
const TAI_OFFSET: Duration = Duration::from_s(37);
