//! Signed messages in a simulated world without attackers.

use crate::world::link::Link;
use crate::world::path::{GRANDMASTER, Path, mean_and_deviation, offsets};
use timeloom_ptp::ClockReport;
use timeloom_ptp::security::VerificationPolicy;
use timeloom_wire::TimeInterval;
use timeloom_wire::tlv::{EntryForm, Suite};

fn failures(world: &crate::world::World) -> Vec<String> {
    let failed = world
        .reports
        .iter()
        .filter(|(_, _, report)| matches!(report, ClockReport::Failure { .. }));
    failed.map(|entry| format!("{entry:?}")).collect()
}

#[test]
fn every_suite_and_form_is_accepted_over_sixteen_hops() {
    for (suite, form, seconds) in [
        (Suite::Ed25519, EntryForm::Full, 20.0),
        (Suite::Ed25519, EntryForm::Compact, 20.0),
        (Suite::Bls, EntryForm::Full, 7.0),
        (Suite::Bls, EntryForm::Compact, 7.0),
        (Suite::BlsOnce, EntryForm::Full, 7.0),
        (Suite::BlsOnce, EntryForm::Compact, 7.0),
    ] {
        let mut path = Path::new(11, 16).signed(suite, form);
        if suite.is_aggregate() {
            path.profile.log_sync_interval = 0;
            path.profile.log_delay_interval = 0;
        }
        let mut world = path.build();
        world.run_for(seconds);
        assert_eq!(failures(&world), [""; 0], "{suite:?} {form:?}");
        let offsets = offsets(&world, path.slave());
        assert!(offsets.len() >= 2, "{suite:?} {form:?}: {}", offsets.len());
        assert!(offsets.iter().all(|(_, authenticated)| *authenticated));
        if suite == Suite::BlsOnce {
            // Before a clock has verified its first Sync, nothing is prepared.
            let (once, ordinary) = (world.once.once, world.once.ordinary);
            assert!(once >= 2 * 17 && ordinary >= 17, "{once}, {ordinary}");
        }
    }
}

#[test]
fn no_false_alarm_with_loss_reordering_and_wrap() {
    // 128 Syncs per second over five links; `sequenceId` wraps after two seconds.
    let mut path = Path::new(12, 4).signed(Suite::Ed25519, EntryForm::Full);
    path.profile.log_sync_interval = -7;
    path.link = Link::rough(500);
    let mut world = path.build();
    for node in &mut world.nodes {
        node.lost_stamps_permille = 5;
    }
    let messages_before = world.sent;
    world.run_for(80.0);
    assert_eq!(failures(&world), [""; 0]);
    assert!(
        world.sent - messages_before > 100_000,
        "{}",
        world.sent - messages_before
    );
    assert!(world.error_ns(path.slave(), GRANDMASTER).abs() < 1_000);
}

#[test]
fn authenticated_offsets_are_those_of_plain_time() {
    let run = |path: &Path| {
        let mut world = path.build();
        world.run_for(40.0);
        let late: Vec<f64> = offsets(&world, path.slave())
            .iter()
            .rev()
            .take(150)
            .map(|(o, _)| *o)
            .collect();
        mean_and_deviation(&late)
    };
    let plain = run(&Path::new(13, 4));
    let signed = run(&Path::new(13, 4).signed(Suite::Ed25519, EntryForm::Compact));
    assert!(
        (plain.0 - signed.0).abs() < 100.0,
        "mean {plain:?} against {signed:?}"
    );
    assert!(
        signed.1 < 1.5 * plain.1 + 5.0,
        "deviation {plain:?} against {signed:?}"
    );
}

#[test]
fn mixed_bounds_the_delay_of_an_unaware_clock_and_strict_refuses_it() {
    let mut path = Path::new(14, 3).signed(Suite::Ed25519, EntryForm::Full);
    path.unaware = vec![2];
    path.policy = VerificationPolicy::Mixed {
        budget: TimeInterval::from_ns(1_000_000),
    };
    let mut world = path.build();
    world.run_for(20.0);
    assert_eq!(failures(&world), [""; 0]);
    assert!(offsets(&world, path.slave()).len() > 50);
    assert!(world.error_ns(path.slave(), GRANDMASTER).abs() < 1_000);

    path.policy = VerificationPolicy::Mixed {
        budget: TimeInterval::from_ns(100),
    };
    let mut world = path.build();
    world.run_for(20.0);
    assert!(
        offsets(&world, path.slave()).is_empty(),
        "beyond the budget nothing is used"
    );
    assert!(!failures(&world).is_empty());

    path.policy = VerificationPolicy::Strict;
    let mut world = path.build();
    world.run_for(20.0);
    assert!(
        offsets(&world, path.slave()).is_empty(),
        "an unaware neighbour ends authenticated time"
    );
}
