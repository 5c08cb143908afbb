//! Scenarios that are small enough to compute the readings of a timeline by hand.

use timeloom_clock::oscillator::OscillatorSpec;
use timeloom_clock::quality::{Requirement, Shortfall, Status, TimelineId};
use timeloom_clock::timeline::{
    Config, Disturbance, Era, Estimator, EstimatorAction, Exchange, ExchangeRefusal, HistoryError,
    LocalNow, SourceId,
};
use timeloom_time::{Duration, Instant};

/// Timeline minus core clock: 1000 s. The core clock is exact.
const AHEAD_NS: i64 = 1_000_000_000_000;

fn at(s: f64) -> LocalNow {
    let core = Instant::from_ns((s * 1e9) as i64);
    LocalNow {
        core,
        marker: 0,
        suspended: Duration::ZERO,
        witness: None,
    }
}

/// Returns an exchange of 200 µs with an exact source; the answer arrives at `s` seconds.
fn exchange(s: f64) -> Exchange {
    let received = at(s).core;
    let middle = Instant::from_ns(received.as_ns() - 100_000 + AHEAD_NS);
    Exchange {
        era: Era(0),
        sent: received - Duration::from_us(200),
        asked: middle,
        answered: middle,
        received,
        root_delay: Duration::ZERO,
        root_dispersion: Duration::ZERO,
        least_delay: Duration::ZERO,
        asymmetry: None,
        authenticated: false,
    }
}

fn config() -> Config {
    Config::new(TimelineId(7), OscillatorSpec::crystal(50_000), 1)
}

fn synchronised() -> Estimator {
    let mut estimator = Estimator::new(config(), at(0.0));
    estimator
        .handle_exchange(at(1.0), SourceId(0), &exchange(1.0))
        .unwrap();
    estimator
}

fn actions(estimator: &mut Estimator) -> Vec<EstimatorAction> {
    std::iter::from_fn(|| estimator.poll_action()).collect()
}

#[test]
fn a_fresh_timeline_is_unknown_and_asks_at_once() {
    let mut estimator = Estimator::new(config(), at(0.0));
    assert_eq!(estimator.read(&at(0.0)).status(), Status::NeverSynchronised);
    assert_eq!(estimator.read(&at(0.0)).interval(), None);
    let poll = EstimatorAction::Poll {
        source: SourceId(0),
        era: Era(0),
    };
    assert!(actions(&mut estimator).contains(&poll));
}

#[test]
fn an_interval_grows_with_the_stated_error_and_then_is_void() {
    let mut estimator = synchronised();
    let segment = *estimator.segment();
    let stamp = segment.read(&at(1.0));
    let interval = stamp.interval().unwrap();
    assert_eq!(stamp.status(), Status::Ok);
    assert!(interval.contains(Instant::from_ns(1_000_000_000 + AHEAD_NS)));
    // The round trip gives ± 100 µs; 50 ppm over 10 s adds ± 500 µs.
    assert!(
        (200_000..200_100).contains(&interval.width().as_ns()),
        "{interval:?}"
    );
    estimator.handle_tick(at(11.0));
    let later = estimator.read(&at(11.0)).interval().unwrap();
    assert!(
        (1_200_000..1_201_000).contains(&later.width().as_ns()),
        "{later:?}"
    );
    // The estimator is alive, but the source does not answer.
    estimator.handle_tick(at(900.0));
    assert_eq!(estimator.read(&at(900.0)).status(), Status::SourceLost);
    assert!(estimator.read(&at(900.0)).interval().is_some());
    estimator.handle_tick(at(1002.0));
    let void = estimator.read(&at(1002.0));
    assert_eq!((void.status(), void.interval()), (Status::SourceLost, None));
    // Estimator and source are silent; the reader detects a dead estimator by itself.
    assert_eq!(segment.read(&at(7.0)).status(), Status::DaemonDead);
    assert!(segment.read(&at(7.0)).interval().is_some());
    assert_eq!(segment.read(&at(1002.0)).interval(), None);
}

#[test]
fn each_disturbance_of_the_machine_voids_the_segments_of_readers() {
    let segment = *synchronised().segment();
    let now = at(2.0);
    for bad in [
        LocalNow { marker: 1, ..now },
        LocalNow {
            suspended: Duration::from_s(3),
            ..now
        },
        at(0.5),
    ] {
        let stamp = segment.read(&bad);
        assert_eq!(
            (stamp.status(), stamp.interval()),
            (Status::Disrupted, None),
            "{bad:?}"
        );
    }
    assert_eq!(segment.read(&now).status(), Status::Ok);
}

#[test]
fn after_a_disturbance_only_later_exchanges_are_believed() {
    let mut estimator = synchronised();
    actions(&mut estimator);
    estimator.handle_disturbance(at(2.0), Disturbance::SystemClockSet);
    let told = actions(&mut estimator);
    assert!(told.contains(&EstimatorAction::Disturbed(Disturbance::SystemClockSet)));
    let refused = estimator.handle_exchange(at(2.1), SourceId(0), &exchange(2.1));
    assert_eq!(refused, Err(ExchangeRefusal::OldEra));
    assert_eq!(estimator.read(&at(2.1)).status(), Status::Disrupted);
    let fresh = Exchange {
        era: Era(1),
        ..exchange(2.2)
    };
    estimator
        .handle_exchange(at(2.2), SourceId(0), &fresh)
        .unwrap();
    assert_eq!(estimator.read(&at(2.2)).status(), Status::Ok);
}

#[test]
fn a_source_that_contradicts_the_oscillator_is_not_followed() {
    let mut estimator = synchronised();
    let mut jump = exchange(2.0);
    jump.asked += Duration::from_ms(5);
    jump.answered += Duration::from_ms(5);
    estimator
        .handle_exchange(at(2.0), SourceId(0), &jump)
        .unwrap();
    assert!(
        actions(&mut estimator).contains(&EstimatorAction::Disturbed(Disturbance::Contradiction))
    );
    assert_eq!(estimator.read(&at(2.0)).interval(), None);
}

#[test]
fn without_proof_of_origin_there_is_no_time_when_it_is_demanded() {
    let config = Config {
        demand_authentication: true,
        ..config()
    };
    let mut estimator = Estimator::new(config, at(0.0));
    let refused = estimator.handle_exchange(at(1.0), SourceId(0), &exchange(1.0));
    assert_eq!(refused, Err(ExchangeRefusal::Unauthenticated));
    assert_eq!(estimator.read(&at(1.0)).status(), Status::Unauthenticated);
    let proved = Exchange {
        authenticated: true,
        ..exchange(1.2)
    };
    estimator
        .handle_exchange(at(1.2), SourceId(0), &proved)
        .unwrap();
    assert_eq!(estimator.read(&at(1.2)).status(), Status::Ok);
}

#[test]
fn a_short_time_to_live_has_sources_asked_before_it_is_over() {
    let mut config = config();
    config.time_to_live = Duration::from_s(3);
    let mut estimator = Estimator::new(config, at(0.0));
    estimator
        .handle_exchange(at(1.0), SourceId(0), &exchange(1.0))
        .unwrap();
    assert_eq!(estimator.interval(), Duration::from_s(1));
    assert!(synchronised().interval() > Duration::from_s(1));
}

#[test]
fn unproven_time_ends_nothing_and_begins_nothing() {
    // The same holds if the timeline does not demand authentication.
    let mut estimator = Estimator::new(config(), at(0.0));
    let era = exchange(0.5).era;
    let unproven = |estimator: &mut Estimator, s: f64| {
        let refused = estimator.handle_unproven(at(s), SourceId(0), era);
        assert_eq!(refused, Err(ExchangeRefusal::Unauthenticated));
        estimator.read(&at(s))
    };
    let first = unproven(&mut estimator, 0.5);
    assert_eq!(
        (first.status(), first.interval()),
        (Status::Unauthenticated, None)
    );
    let heard = exchange(1.0);
    estimator
        .handle_exchange(at(1.0), SourceId(0), &heard)
        .unwrap();
    let before = estimator.read(&at(1.5));
    assert_eq!(unproven(&mut estimator, 1.5), before, "it does not end");
    let late = 2.0 + config().time_to_live.as_ns() as f64 * 1e-9;
    estimator.handle_tick(at(late));
    let ended = estimator.read(&at(late));
    assert_eq!(
        (ended.status(), ended.interval()),
        (Status::SourceLost, None)
    );
    assert_eq!(
        unproven(&mut estimator, late).status(),
        Status::Unauthenticated
    );
    // Authenticated answers arrive again.
    let heard = exchange(late + 1.0);
    estimator
        .handle_exchange(at(late + 1.0), SourceId(0), &heard)
        .unwrap();
    let again = estimator.read(&at(late + 1.0));
    assert_eq!(again.status(), Status::Ok);
    let truth_ns = at(late + 1.0).core.as_ns() + AHEAD_NS;
    let interval = again.interval().unwrap();
    assert!(interval.earliest().as_ns() <= truth_ns && truth_ns <= interval.latest().as_ns());
    assert!(
        interval.width() < Duration::from_ms(1),
        "afresh, not from where the void began: {interval:?}"
    );
    // The estimator does not take the gap for an error of the clock.
    let rate = estimator.segment().map.rate.as_f64();
    assert!((rate - 1.0).abs() < 1e-6, "steered by {rate}");
}

#[test]
fn a_binding_reports_edges_with_reasons_and_the_possible_accuracy() {
    let mut estimator = Estimator::new(config(), at(0.0));
    let fine = Requirement {
        resolution: Duration::from_ns(1),
        ..Requirement::within(Duration::from_us(300))
    };
    let binding = estimator.bind(fine).unwrap();
    let void = Shortfall::Void(Status::NeverSynchronised);
    assert!(actions(&mut estimator).contains(&EstimatorAction::Violated { binding, why: void }));
    estimator
        .handle_exchange(at(1.0), SourceId(0), &exchange(1.0))
        .unwrap();
    assert!(actions(&mut estimator).contains(&EstimatorAction::Restored { binding }));
    // The width is 100 µs plus 50 ppm, so 300 µs are exceeded after 4 s. There is no violation
    // before, and one notification at the wake-up that the estimator itself requests.
    let mut wakes = 0;
    loop {
        let core = estimator.next_wake().max(at(1.0).core);
        estimator.handle_tick(LocalNow { core, ..at(0.0) });
        let edges: Vec<EstimatorAction> = actions(&mut estimator)
            .into_iter()
            .filter(|a| matches!(a, EstimatorAction::Violated { .. }))
            .collect();
        if let [
            EstimatorAction::Violated {
                why: Shortfall::TooWide { status, above, .. },
                ..
            },
        ] = edges[..]
        {
            assert_eq!(status, Status::Ok);
            assert!((300_000..300_100).contains(&above.as_ns()), "{above}");
            assert!(
                (4.9..5.1).contains(&(core - Instant::ZERO).as_s_f64()),
                "{core:?}"
            );
            break;
        }
        wakes += 1;
        assert!(wakes < 100, "no edge");
    }
    estimator.handle_tick(at(6.0));
    assert!(
        !actions(&mut estimator)
            .iter()
            .any(|a| matches!(a, EstimatorAction::Violated { .. }))
    );
    let impossible = estimator
        .bind(Requirement::within(Duration::from_us(50)))
        .unwrap_err();
    assert!(
        (100..120).contains(&(impossible.accuracy.as_ns() / 1000)),
        "{impossible}"
    );
    assert!(
        estimator
            .bind(Requirement {
                resolution: Duration::ZERO,
                ..fine
            })
            .is_err()
    );
    assert!(
        estimator
            .set_requirement(binding, Requirement::within(Duration::from_us(50)))
            .is_err()
    );
    assert_eq!(estimator.requirement(binding), Some(fine));
    assert!(estimator.unbind(binding) && !estimator.unbind(binding));
}

#[test]
fn stamps_of_the_past_are_told_as_they_were_known_then() {
    let mut estimator = synchronised();
    for s in 2..20 {
        let s = f64::from(s);
        estimator
            .handle_exchange(at(s), SourceId(0), &exchange(s))
            .unwrap();
    }
    let now = at(20.0);
    let past = estimator
        .convert(at(5.5).core, &now)
        .unwrap()
        .interval()
        .unwrap();
    assert!(past.contains(Instant::from_ns(5_500_000_000 + AHEAD_NS)));
    assert!(past.width() < Duration::from_us(300), "{past:?}");
    let oldest = Some(at(1.0).core);
    assert_eq!(
        estimator.convert(at(0.5).core, &now),
        Err(HistoryError::TooOld { oldest })
    );
    assert_eq!(
        estimator.convert(at(21.0).core, &now),
        Err(HistoryError::InFuture)
    );
    estimator.handle_disturbance(now, Disturbance::Migrated);
    assert_eq!(
        estimator.convert(at(5.5).core, &now),
        Err(HistoryError::TooOld { oldest: None })
    );
}
