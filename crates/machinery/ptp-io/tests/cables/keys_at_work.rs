//! Tests of programs whose keys change while they run, on a virtual cable that the test creates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use crate::support::Scratch;
use timeloom_fabric::{MacAddress, Namespace, Plug, connect};
use timeloom_ptp::Profile;
use timeloom_ptp_io::keys::{SignRequest, make_authority, make_node, rotate, sign_ring};
use timeloom_ptp_io::{
    Auth, Channel, Counters, EntryForm, Evidence, EvidenceLine, Policy, Program, ProgramOptions,
    PtpError, Role, Suite, SyncVerdict, Violation, Wake,
};

/// Grandmaster and slave with keys, at the two ends of a cable.
struct Pair {
    scratch: Scratch,
    wakes: Vec<Wake>,
    threads: Vec<JoinHandle<Result<Counters, PtpError>>>,
    lines: Receiver<EvidenceLine>,
}

const NAMES: [&str; 2] = ["gm", "slave"];
/// Timeout that is long enough for a busy machine.
const PATIENCE: StdDuration = StdDuration::from_secs(120);

impl Pair {
    fn directory(scratch: &Scratch, name: &str) -> PathBuf {
        scratch.0.join(name)
    }

    fn start(name: &str) -> Self {
        let scratch = Scratch::new(name);
        make_authority(&scratch.0).unwrap();
        for (node, name) in NAMES.iter().enumerate() {
            let clock = format!("02544c.fffe.00000{node}");
            make_node(
                &Self::directory(&scratch, name),
                name,
                &clock,
                Suite::Ed25519,
                4,
            )
            .unwrap();
        }
        sign(&scratch, |_| {});
        let spaces = NAMES.map(|name| Namespace::quiet(name).expect("run this test as root"));
        let plug = |at: usize| Plug {
            namespace: &spaces[at],
            interface: "eth0",
            mac: MacAddress([2, 0, 0, 0, 0, at as u8 + 1]),
            address: None,
        };
        connect(&plug(0), &plug(1)).unwrap();
        let (sender, lines) = channel();
        let mut pair = Self {
            scratch,
            wakes: Vec::new(),
            threads: Vec::new(),
            lines,
        };
        for (node, name) in NAMES.iter().enumerate() {
            let role = if node == 0 {
                Role::Grandmaster
            } else {
                Role::Slave
            };
            let keys = Self::directory(&pair.scratch, name);
            let channel = Channel::Inline(Suite::Ed25519);
            let auth =
                Auth::open(&keys, role, channel, Policy::Strict, EntryForm::Full, 16).unwrap();
            let mut options = ProgramOptions::new(role, vec!["eth0".to_owned()]);
            options.profile = Profile {
                log_sync_interval: -3,
                log_delay_interval: -2,
                log_announce_interval: -2,
                ..Profile::DEFAULT_PEER_TO_PEER
            };
            let sender = sender.clone();
            let sink = Box::new(move |line| drop(sender.send(line)));
            let evidence = Evidence::new(name, auth.names(), sink);
            options.auth = Some(auth);
            let wake = Wake::new().unwrap();
            let told = wake.clone();
            let program = spaces[node]
                .run(move || Program::open(options, told, Box::new(evidence)))
                .unwrap()
                .unwrap();
            pair.wakes.push(wake);
            pair.threads.push(spawn(move || program.run()));
        }
        pair
    }

    /// Waits for an evidence line that `is_it` accepts.
    fn wait_for(&self, what: &str, is_it: impl Fn(&EvidenceLine) -> bool) {
        let end = StdInstant::now() + PATIENCE;
        let mut seen = Vec::new();
        while StdInstant::now() < end {
            match self.lines.recv_timeout(StdDuration::from_millis(200)) {
                Ok(line) if is_it(&line) => return,
                Ok(line) => seen.push(line.to_string()),
                Err(_) => {}
            }
        }
        panic!("no {what}; there were {seen:?}");
    }

    fn wait_for_accepted(&self) {
        self.wait_for(
            "accepted Sync",
            |line| matches!(line, EvidenceLine::Sync(sync) if sync.report.record.verdict == SyncVerdict::Accepted),
        );
    }

    fn wait_for_notice(&self, of: &str, words: &str) {
        self.wait_for(words, |line| matches!(line, EvidenceLine::Notice { node, text, .. } if node == of && text.contains(words)));
    }

    fn stop(mut self) -> Vec<Counters> {
        self.wakes.iter().for_each(Wake::stop);
        self.threads
            .drain(..)
            .map(|thread| thread.join().unwrap().unwrap())
            .collect()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.wakes.iter().for_each(Wake::stop);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

/// Signs the ring and copies it to both clocks.
fn sign(scratch: &Scratch, change: impl FnOnce(&mut SignRequest)) {
    let mut request = SignRequest {
        authority: scratch.0.join("authority.key"),
        ring: scratch.0.join("ring.toml"),
        publics: NAMES
            .map(|name| Pair::directory(scratch, name).join("node.pub"))
            .into(),
        grandmasters: vec!["gm".to_owned()],
        ..SignRequest::default()
    };
    change(&mut request);
    sign_ring(&request).unwrap();
    for name in NAMES {
        for file in ["authority.pub", "ring.toml"] {
            replace(
                &scratch.0.join(file),
                &Pair::directory(scratch, name).join(file),
            );
        }
    }
}

/// Copies a file atomically, as a careful operator does, so that a reader never finds half of it.
fn replace(from: &Path, to: &Path) {
    let fresh = to.with_extension("copy");
    fs::copy(from, &fresh).unwrap();
    fs::rename(&fresh, to).unwrap();
}

#[test]
fn keys_are_rotated_under_running_programs() {
    let pair = Pair::start("rotation");
    pair.wait_for_accepted();
    for name in NAMES {
        assert_eq!(rotate(&Pair::directory(&pair.scratch, name), 2).unwrap(), 2);
    }
    sign(&pair.scratch, |_| {});
    // Both programs notice the changed files and reload the keys without a request.
    sign(&pair.scratch, |request| request.signing_epoch = Some(2));
    pair.wait_for_notice("slave", "signing with epoch 2");
    pair.wait_for_accepted();
    sign(&pair.scratch, |request| request.retire = vec![1]);
    // Both programs reload at once on request, as on SIGHUP.
    pair.wakes.iter().for_each(Wake::reload);
    pair.wait_for_notice("slave", "ring 4");
    pair.wait_for_accepted();
    let counters = pair.stop();
    assert!(counters[0].sent > 10, "{counters:?}");
}

#[test]
fn refused_keys_leave_the_old_ones_in_force_until_they_end() {
    let pair = Pair::start("refusal");
    pair.wait_for_accepted();
    let key = Pair::directory(&pair.scratch, "slave").join("node.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    pair.wakes[1].reload();
    pair.wait_for_notice("slave", "refused");
    pair.wait_for_accepted();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // The epoch ends while the programs run. From then on nothing is accepted.
    let now_s = timeloom_sys::clock::realtime_ns() / 1_000_000_000;
    sign(&pair.scratch, |request| {
        request.not_after_s = Some(now_s + 3)
    });
    pair.wakes.iter().for_each(Wake::reload);
    pair.wait_for_notice("slave", "ring 2");
    pair.wait_for_notice("slave", "expired");
    while pair.lines.try_recv().is_ok() {}
    // The slave rejects a complete Sync of that epoch. If it has given up its master before, it
    // names the epoch when other messages of that epoch arrive.
    for turn in 0..10 {
        pair.wait_for("word of the epoch", |line| match line {
            EvidenceLine::Sync(sync) => {
                // A Sync that arrived before the end of the epoch may be reported after the notice.
                let is_accepted = sync.report.record.verdict == SyncVerdict::Accepted;
                assert!(!is_accepted || turn == 0, "after the end: {line}");
                let of_epoch = |violation: &Violation| violation.reason == "epoch";
                sync.violations().iter().any(of_epoch)
            }
            EvidenceLine::Alarm(alarm) => {
                alarm.node == "slave" && alarm.violation.reason == "epoch"
            }
            _ => false,
        });
    }
}

#[test]
fn a_clock_that_may_not_lead_is_no_grandmaster() {
    let scratch = Scratch::new("rank");
    make_authority(&scratch.0).unwrap();
    for name in NAMES {
        make_node(
            &Pair::directory(&scratch, name),
            name,
            "02544c.fffe.000009",
            Suite::Ed25519,
            4,
        )
        .unwrap();
    }
    fs::remove_dir_all(Pair::directory(&scratch, "slave")).unwrap();
    make_node(
        &Pair::directory(&scratch, "slave"),
        "slave",
        "02544c.fffe.000008",
        Suite::Ed25519,
        4,
    )
    .unwrap();
    sign(&scratch, |_| {});
    let open = |name, role, suite| {
        let keys = Pair::directory(&scratch, name);
        Auth::open(
            &keys,
            role,
            Channel::Inline(suite),
            Policy::Strict,
            EntryForm::Full,
            16,
        )
    };
    let error = open("slave", Role::Grandmaster, Suite::Ed25519).unwrap_err();
    assert!(error.to_string().contains("not authorised"), "{error}");
    let error = open("gm", Role::Grandmaster, Suite::Bls).unwrap_err();
    assert!(error.to_string().contains("requires bls"), "{error}");
    assert!(open("gm", Role::Grandmaster, Suite::Ed25519).is_ok());
}

#[test]
fn keys_that_sign_a_sync_once_are_one_programs() {
    let scratch = Scratch::new("once-lock");
    make_authority(&scratch.0).unwrap();
    for (node, name) in NAMES.iter().enumerate() {
        let clock = format!("02544c.fffe.00000{node}");
        let directory = Pair::directory(&scratch, name);
        make_node(&directory, name, &clock, Suite::BlsOnce, 4).unwrap();
    }
    sign(&scratch, |_| {});
    let keys = Pair::directory(&scratch, "gm");
    let open = |role| {
        let channel = Channel::Inline(Suite::BlsOnce);
        Auth::open(&keys, role, channel, Policy::Strict, EntryForm::Full, 16)
    };
    let first = open(Role::Grandmaster).unwrap();
    for role in [Role::Grandmaster, Role::Transparent] {
        let error = open(role).expect_err("another program signs with them");
        assert!(error.to_string().contains("another program"), "{error}");
    }
    // A program that signs no Follow_Ups does not need them.
    assert!(open(Role::Monitor).is_ok());
    drop(first);
    assert!(open(Role::Transparent).is_ok());
    fs::remove_file(keys.join("once.1.ledger")).unwrap();
    let error = open(Role::Grandmaster).expect_err("the ledger is missing");
    assert!(error.to_string().contains("is missing"), "{error}");
}
