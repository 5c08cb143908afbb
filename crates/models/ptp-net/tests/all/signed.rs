//! Signed messages in simulated networks with an attacker on the path. A slave without signatures
//! accepts the false time; a slave with signatures rejects it and reports between which clocks the
//! violation happened.

use std::sync::{Arc, Mutex};

use timeloom_clock::RateError;
use timeloom_clock::host::HostOscillator;
use timeloom_engine::Engine;
use timeloom_net::{LinkConfig, NetworkBuilder, Node, World};
use timeloom_ptp::Profile;
use timeloom_ptp::security::Failure;
use timeloom_ptp::tamper::Tamper;
use timeloom_ptp_net::{
    Attack, ClockOptions, Event, NodeOptions, Policy, PtpNode, Rogue, Role, SigningConfig,
};
use timeloom_time::{Duration, Instant};
use timeloom_wire::TimeInterval;
use timeloom_wire::tlv::Suite;

const EPOCH_NS: i64 = 1_700_000_000_000_000_000;

/// Result of a run.
struct Outcome {
    /// Greatest error of the slave's clock in ns, before the attack and during it.
    worst_ns: [i64; 2],
    /// Number of Syncs that the slave measured during the attack.
    measured: usize,
    /// Failures that slave and switches noticed during the attack and before.
    noticed: Vec<Failure>,
    early: usize,
    /// Identities of grandmaster, switches and slave, in the order of the path.
    path: Vec<timeloom_wire::ClockIdentity>,
    touched: u64,
}

/// Runs a grandmaster, three transparent switches and a slave for twenty seconds. The middle switch
/// attacks from the twelfth second on.
fn run(suite: Option<Suite>, policy: Policy, attack: Option<Attack>) -> Outcome {
    let mut network = NetworkBuilder::new(4);
    let (gm, slave) = (network.host("gm"), network.host("slave"));
    let switches = ["s1", "s2", "s3"].map(|name| network.switch(name));
    let path = [gm, switches[0], switches[1], switches[2], slave];
    let link = LinkConfig::new(1_000_000_000, Duration::from_us(1));
    for pair in path.windows(2) {
        network.connect(pair[0], pair[1], link.clone());
    }
    let mut world = network.build().unwrap();
    let roles: Vec<(Node, Role)> = path
        .iter()
        .enumerate()
        .map(|(place, node)| {
            let role = match place {
                0 => Role::Grandmaster,
                4 => Role::Slave,
                _ => Role::Transparent,
            };
            (*node, role)
        })
        .collect();
    let epoch = Instant::from_ns(EPOCH_NS);
    let keys = suite.map(|suite| {
        let signing = SigningConfig {
            suite,
            policy,
            seed: 11,
            epoch,
        };
        signing.keys(&world, &roles).unwrap()
    });
    let profile = Profile {
        log_sync_interval: -3,
        log_announce_interval: -1,
        ..Profile::DEFAULT_PEER_TO_PEER
    };
    let begins = Instant::ZERO + Duration::from_s(12);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (place, (node, role)) in roles.iter().enumerate() {
        let mut options = NodeOptions::new(*role, profile);
        options.clock = ClockOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb([0, 30_000, -20_000, 9_000, -15_000][place]),
                ..HostOscillator::default()
            },
            epoch,
            ..ClockOptions::default()
        };
        options.security = keys.as_ref().map(|keys| keys[place].clone());
        if let (2, Some(attack)) = (place, attack) {
            let from = begins;
            options.rogue = Some(Rogue { attack, from });
        }
        assert!(PtpNode::attach(&mut world, *node, &options));
        let sink = Arc::clone(&seen);
        let clock = PtpNode::at_mut(&mut world, *node).unwrap();
        clock.observe(Box::new(move |event| sink.lock().unwrap().push(*event)));
    }
    let path = path.map(|node| PtpNode::identity_at(&world, node)).to_vec();
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let mut worst_ns = [0; 2];
    for step in 0..200 {
        let now = Instant::ZERO + Duration::from_ms(100 * (step + 1));
        engine.run_until(now, u64::MAX);
        let clock = PtpNode::at_mut(&mut engine.model, slave).unwrap().clock();
        let ahead = clock.ahead(now, now).as_ns().abs();
        // The servo needs some seconds to converge.
        let part = usize::from(now > begins);
        if step > 100 {
            worst_ns[part] = worst_ns[part].max(ahead);
        }
    }
    let touched = PtpNode::at(&engine.model, switches[1])
        .unwrap()
        .tally()
        .tampered;
    let seen = seen.lock().unwrap();
    let noticed = seen.iter().filter_map(|event| match event {
        Event::Violation(one) => Some((one.at, one.failure)),
        Event::Measured(..) => None,
    });
    let (late, early): (Vec<_>, Vec<_>) = noticed.partition(|(at, _)| *at >= begins);
    let measured = seen.iter().filter(|event| match event {
        Event::Measured(one, _) => one.at > begins + Duration::from_ms(500),
        Event::Violation(_) => false,
    });
    Outcome {
        worst_ns,
        measured: measured.count(),
        noticed: late.into_iter().map(|(_, failure)| failure).collect(),
        early: early.len(),
        path,
        touched,
    }
}

fn bent(us: i64) -> Attack {
    Attack::Tamper(Tamper::Correction(TimeInterval::from_ns(us * 1_000)))
}

#[test]
fn an_unsigned_slave_follows_a_rogue_and_a_signed_one_holds_its_clock() {
    let unsigned = run(None, Policy::Strict, Some(bent(50)));
    assert!(unsigned.worst_ns[0] < 1_000, "{:?}", unsigned.worst_ns);
    assert!(unsigned.worst_ns[1] > 40_000, "{:?}", unsigned.worst_ns);
    assert!(unsigned.noticed.is_empty() && unsigned.touched > 50);

    for suite in [Suite::Ed25519, Suite::Bls, Suite::BlsOnce] {
        let signed = run(Some(suite), Policy::Strict, Some(bent(50)));
        // Without corrections, the oscillator drifts only little in eight seconds.
        assert!(
            signed.worst_ns[1] < 1_000,
            "{suite:?}: {:?}",
            signed.worst_ns
        );
        assert_eq!((signed.early, signed.measured), (0, 0), "{suite:?}");
        assert!(
            signed.noticed.len() > 40,
            "{suite:?}: {}",
            signed.noticed.len()
        );
        let named = |failure: &&Failure| failure.suspect.names(signed.path[2]);
        let named = signed.noticed.iter().filter(named).count();
        // An aggregate signature cannot be checked hop by hop. The next hop identifies the link,
        // while the slave only knows that the failure is upstream.
        let all = suite == Suite::Ed25519;
        assert!(named > 40, "{suite:?}: {:?}", signed.noticed);
        assert!(
            !all || named == signed.noticed.len(),
            "{:?}",
            signed.noticed
        );
    }
}

#[test]
fn a_monitoring_slave_says_so_and_follows() {
    let watched = run(Some(Suite::Ed25519), Policy::Monitor, Some(bent(50)));
    assert!(watched.noticed.len() > 40 && watched.measured > 40);
    assert!(watched.worst_ns[1] > 40_000, "{:?}", watched.worst_ns);
}

#[test]
fn every_attack_that_can_be_noticed_is_and_moves_nothing() {
    let attacks = [
        Attack::Tamper(Tamper::Origin),
        Attack::Tamper(Tamper::Strip),
        Attack::Tamper(Tamper::RemoveHop),
        Attack::Tamper(Tamper::Epoch),
        Attack::Replay,
        Attack::SpoofSync,
        Attack::DelaySync(Duration::from_ms(2)),
    ];
    for attack in attacks {
        let outcome = run(Some(Suite::Ed25519), Policy::Strict, Some(attack));
        assert!(outcome.touched > 40, "{attack:?}");
        assert!(!outcome.noticed.is_empty(), "{attack:?}");
        assert_eq!(outcome.early, 0, "{attack:?}");
        assert!(
            outcome.worst_ns[1] < 1_000,
            "{attack:?}: {:?}",
            outcome.worst_ns
        );
    }
}

#[test]
fn a_lie_of_a_hop_about_itself_is_believed_within_its_bounds() {
    let lie = Attack::Lie(Duration::from_us(5));
    let outcome = run(Some(Suite::Ed25519), Policy::Strict, Some(lie));
    assert!(outcome.noticed.is_empty(), "{:?}", outcome.noticed);
    let moved = outcome.worst_ns[1];
    assert!((3_000..8_000).contains(&moved), "{moved}");
}

#[test]
fn without_a_rogue_nothing_is_noticed_and_runs_repeat() {
    let first = run(Some(Suite::Bls), Policy::Strict, None);
    assert_eq!((first.noticed.len(), first.early, first.touched), (0, 0, 0));
    assert!(first.measured > 40);
    let again = run(Some(Suite::Bls), Policy::Strict, None);
    assert_eq!(first.worst_ns, again.worst_ns);
    assert_eq!(first.measured, again.measured);
}
