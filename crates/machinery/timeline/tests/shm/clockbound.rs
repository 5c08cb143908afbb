//! Tests that ClockBound's readers can read a timeline.

use crate::common::segment;
use proptest::prelude::*;
use timeloom_clock::timeline::UtcView;
use timeloom_time::{Duration, Instant, Rate};
use timeloom_timeline::shm::foreign::clockbound::SegmentV3;
use timeloom_timeline::shm::{ClockBoundFile, CoreScale, PageSegment};

const UTC: UtcView = UtcView {
    tai_offset_s: 37,
    leap: None,
};

fn scale() -> CoreScale {
    let rate = Rate::from_ratio(1_000_000_000, 2_112_345_678).unwrap();
    CoreScale::new(Instant::ZERO, Instant::ZERO, rate)
}

/// Computes the interval as the client of ClockBound 3 does: it uses doubles for the bound,
/// truncated towards zero (reference, section 2.2).
fn client(segment: &SegmentV3, tsc: u64) -> (i64, i64) {
    let delta = tsc.saturating_sub(segment.as_of_tsc);
    let frac = (u128::from(delta) * u128::from(segment.period_frac)) >> segment.period_shift;
    let moved_ns = (frac as f64 / 2f64.powi(64) * 1e9) as i64;
    let estimate_ns = segment.as_of.s * 1_000_000_000 + segment.as_of.ns + moved_ns;
    let drift_ns = (moved_ns as f64 / 1e9 * f64::from(segment.max_drift_ppb)) as i64;
    let bound_ns = segment.bound_ns + drift_ns;
    (estimate_ns - bound_ns, estimate_ns + bound_ns)
}

proptest! {
    #[test]
    fn its_client_computes_an_interval_that_holds_ours(
        core_ns in 0i64..1 << 50, shows_ns in 1i64 << 60..1 << 61, age in 0u64..2_112_000_000_000,
    ) {
        let ours = segment(core_ns, shows_ns);
        let encoded = PageSegment::new(&ours, &scale());
        let foreign = SegmentV3::of(&ours, &encoded, &UTC);
        let ticks = encoded.counter0 + age;
        let (earliest, latest) = client(&foreign, ticks);
        let core = scale().at(Instant::from_ticks(ticks));
        let exact = UTC.view(ours.interval_at(core));
        // The timeline's interval is asymmetric; the client's has the wider side on both sides.
        prop_assert!(earliest <= exact.earliest().as_ns() , "{} {:?}", earliest, exact);
        prop_assert!(latest >= exact.latest().as_ns(), "{} {:?}", latest, exact);
        let wider = exact.below().max(exact.above());
        prop_assert!(latest - earliest <= 2 * (wider + Duration::from_us(2)).as_ns());
    }
}

#[test]
fn the_file_holds_a_whole_segment_after_each_publication() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shm1");
    let ours = segment(0, 1 << 60);
    let first = SegmentV3::of(&ours, &PageSegment::new(&ours, &scale()), &UTC);
    let file = ClockBoundFile::create(&path, &first).unwrap();
    let parsed = |path| SegmentV3::parse(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(parsed(&path), first);
    let second = SegmentV3 {
        bound_ns: 5,
        ..first
    };
    file.publish(&second);
    assert_eq!(
        parsed(&path),
        SegmentV3 {
            generation: 4,
            ..second
        }
    );
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 104);
}
