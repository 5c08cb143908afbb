//! Tests that run the simulated worlds of `timeloom-clock` again and read them through a page. They
//! check that the interval still contains true time after the translation into ticks.

use timeloom_clock::quality::Status;
use timeloom_clock::world::ClockWorld;
use timeloom_time::{Instant, Rate};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::{CoreScale, PageReader, PageWriter};

#[test]
#[cfg_attr(miri, ignore = "arithmetic, in a memfd, which Miri has not")]
fn true_time_is_in_every_interval_that_the_page_gives() {
    // The counter runs at 2.1 GHz and is so far ahead that no core clock is before its zero.
    let rate = Rate::from_ratio(1_000_000_000, 2_112_345_678).unwrap();
    let scale = CoreScale::new(Instant::ZERO, Instant::from_ns(-20_000_000_000_000), rate);
    let (mut bounded, mut void) = (0, 0);
    for seed in 2_000..2_060 {
        let mut world = ClockWorld::random(seed);
        let timeline = world.published().timeline;
        let writer = PageWriter::in_memory(timeline, PageCounter::Tsc, Some(scale)).unwrap();
        let reader = PageReader::open(writer.fd()).unwrap();
        let mut last = None;
        for read in 0..400 {
            world
                .run(1)
                .unwrap_or_else(|violation| panic!("{violation}"));
            let (segment, now) = (*world.published(), world.machine().now());
            if last != Some(segment) {
                writer.publish(&segment);
                last = Some(segment);
            }
            let exact = segment.read(&now);
            if exact.status() == Status::Disrupted {
                writer.disrupt(); // As marked by the daemon or the hypervisor.
                last = None;
            }
            let ticks = scale.first_reaching(now.core).unwrap().as_ticks();
            let stamp = reader.read_with(|| ticks).unwrap().stamp(timeline);
            assert_eq!(stamp.status(), exact.status(), "seed {seed}, read {read}");
            let Some(interval) = stamp.interval() else {
                void += 1;
                continue;
            };
            bounded += 1;
            let true_ps = world.machine().true_ps();
            let [earliest, latest] =
                [interval.earliest(), interval.latest()].map(|end| i128::from(end.as_ns()) * 1_000);
            let inside = earliest <= true_ps && true_ps <= latest;
            assert!(
                inside,
                "seed {seed}, read {read}: {true_ps} ps is not in {interval:?}"
            );
            let exact = exact.interval().unwrap();
            assert!(
                (interval.width() - exact.width()).as_ns() < 30,
                "seed {seed}, read {read}"
            );
        }
    }
    assert!(
        bounded > 10_000 && void > 500,
        "{bounded} with an interval, {void} without"
    );
}
