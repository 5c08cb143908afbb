//! Tests of valid key files, and of every way in which a key file can be invalid.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use super::*;
use crate::PtpError;

/// Directories of an authority and of two clocks, which are removed after the test.
struct World(PathBuf);

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl World {
    fn new(name: &str, suite: Suite) -> Self {
        let world =
            Self(std::env::temp_dir().join(format!("timeloom-keys-{}-{name}", std::process::id())));
        make_authority(&world.0).unwrap();
        for (node, clock) in [("gm", "02544c.fffe.000001"), ("tc", "02544c.fffe.000002")] {
            make_node(&world.at(node), node, clock, suite, 4).unwrap();
        }
        world.sign(|_| {}).unwrap();
        world
    }

    fn at(&self, node: &str) -> PathBuf {
        self.0.join(node)
    }

    /// Signs the ring and copies it to both clocks.
    fn sign(&self, change: impl FnOnce(&mut SignRequest)) -> Result<RingFile, PtpError> {
        let mut request = SignRequest {
            authority: self.0.join("authority.key"),
            ring: self.0.join("ring.toml"),
            publics: ["gm", "tc"]
                .map(|node| self.at(node).join("node.pub"))
                .into(),
            grandmasters: vec!["gm".to_owned()],
            ..SignRequest::default()
        };
        change(&mut request);
        let ring = sign_ring(&request)?;
        for node in ["gm", "tc"] {
            for file in ["ring.toml", "authority.pub"] {
                fs::copy(self.0.join(file), self.at(node).join(file)).unwrap();
            }
        }
        Ok(ring)
    }

    fn refused(&self, node: &str) -> String {
        let error = KeyDirectory::new(&self.at(node))
            .load()
            .expect_err("it is to be refused");
        assert!(matches!(error, PtpError::Usage(_)), "{error:?}");
        error.to_string()
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.0.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn keys_of_all_suites_are_made_signed_and_loaded() {
    for (suite, name) in [
        (Suite::Ed25519, "ed"),
        (Suite::Bls, "bls"),
        (Suite::BlsOnce, "once"),
    ] {
        let world = World::new(name, suite);
        let gm = KeyDirectory::new(&world.at("gm")).load().unwrap();
        let tc = KeyDirectory::new(&world.at("tc")).load().unwrap();
        assert!(gm.may_lead && !tc.may_lead);
        assert_ne!(gm.index, tc.index);
        assert_eq!(gm.names.0[&tc.clock], "tc");
        assert!(
            gm.ring.knows(tc.clock) && gm.ring.member(tc.clock, 1).unwrap().key.suite() == suite
        );
        assert_eq!(
            fs::metadata(world.at("gm").join("node.key"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o600
        );
    }
}

#[test]
fn wrong_permissions_are_refused() {
    let world = World::new("modes", Suite::Ed25519);
    mode(&world.at("gm").join("node.key"), 0o640);
    assert!(
        world.refused("gm").contains("mode 640"),
        "{}",
        world.refused("gm")
    );
    mode(&world.at("tc").join("ring.toml"), 0o664);
    assert!(
        world.refused("tc").contains("others can write"),
        "{}",
        world.refused("tc")
    );
}

#[test]
fn a_changed_ring_is_refused() {
    let world = World::new("changed", Suite::Ed25519);
    world.edit("tc/ring.toml", "grandmaster = false", "grandmaster = true");
    assert!(world.refused("tc").contains("signature does not hold"));
    // The ring is valid but signed by another authority.
    make_authority(&world.0.join("other")).unwrap();
    fs::copy(
        world.0.join("other/authority.pub"),
        world.at("gm").join("authority.pub"),
    )
    .unwrap();
    assert!(world.refused("gm").contains("signature does not hold"));
}

#[test]
fn a_bad_proof_is_not_signed() {
    let world = World::new("proof", Suite::Ed25519);
    rotate(&world.at("tc"), 2).unwrap();
    // The new key has the proof of the old one.
    let text = fs::read_to_string(world.at("tc").join("node.pub")).unwrap();
    let proofs: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("proof"))
        .collect();
    let forged = text.replace(proofs[1], proofs[0]);
    fs::write(world.at("tc").join("node.pub"), forged).unwrap();
    let error = world.sign(|_| {}).expect_err("a proof of another key");
    assert!(
        error
            .to_string()
            .contains("proof of possession does not hold"),
        "{error}"
    );
}

#[test]
fn an_expired_epoch_is_refused() {
    let world = World::new("expired", Suite::Ed25519);
    world
        .sign(|request| request.not_after_s = Some(1_000_000_000))
        .unwrap();
    assert!(
        world.refused("gm").contains("expired"),
        "{}",
        world.refused("gm")
    );
}

#[test]
fn rotation_goes_in_two_steps_and_old_rings_do_not_come_back() {
    let world = World::new("rotation", Suite::Ed25519);
    let mut directory = KeyDirectory::new(&world.at("gm"));
    assert_eq!(directory.load().unwrap().epoch, 1);
    let old = fs::read(world.0.join("ring.toml")).unwrap();
    for node in ["gm", "tc"] {
        assert_eq!(rotate(&world.at(node), 2).unwrap(), 2);
    }
    // First all clocks load the new keys, and then all sign with them.
    world.sign(|_| {}).unwrap();
    assert!(directory.is_changed());
    let loaded = directory.load().unwrap();
    assert!(loaded.epoch == 1 && loaded.ring.is_valid(2));
    world
        .sign(|request| request.signing_epoch = Some(2))
        .unwrap();
    assert_eq!(directory.load().unwrap().epoch, 2);
    world.sign(|request| request.retire = vec![1]).unwrap();
    let loaded = directory.load().unwrap();
    assert!(loaded.epoch == 2 && !loaded.ring.is_valid(1) && loaded.may_lead);
    assert!(!directory.is_changed());
    fs::write(world.at("gm").join("ring.toml"), old).unwrap();
    assert!(directory.is_changed());
    let error = directory.load().expect_err("an old ring");
    assert!(error.to_string().contains("older than"), "{error}");
}

#[test]
fn nothing_is_overwritten_and_unknown_nodes_are_refused() {
    let world = World::new("overwrite", Suite::Ed25519);
    assert!(make_node(&world.at("gm"), "gm", "02544c.fffe.000001", Suite::Bls, 4).is_err());
    assert!(make_authority(&world.0).is_err());
    assert!(make_node(&world.at("x"), "x", "zz", Suite::Bls, 4).is_err());
    let error = world
        .sign(|request| request.grandmasters.push("nobody".to_owned()))
        .expect_err("nobody");
    assert!(error.to_string().contains("`nobody`"));
    let error = world
        .sign(|request| request.signing_epoch = Some(9))
        .expect_err("no keys of epoch 9");
    assert!(error.to_string().contains("epoch 9"));
}

#[test]
fn every_epoch_of_bls_once_has_a_ledger_as_long_as_its_key() {
    let world = World::new("ledgers", Suite::BlsOnce);
    let gm = world.at("gm");
    let there = |epoch: u8| gm.join(format!("once.{epoch}.ledger")).exists();
    assert!(there(1) && !there(2));
    assert_eq!(rotate(&gm, 2).unwrap(), 2);
    assert!(there(1) && there(2));
    assert_eq!(rotate(&gm, 2).unwrap(), 3);
    assert!(!there(1) && there(2) && there(3));
    // The clock has keys for as many ports as before, and no key is at two places of a ring.
    let text = fs::read_to_string(gm.join("node.key")).unwrap();
    assert_eq!(text.matches("ports = 4").count(), 2, "{text}");
    assert!(
        make_node(
            &world.at("x"),
            "x",
            "02544c.fffe.000009",
            Suite::BlsOnce,
            64
        )
        .is_err()
    );
    let stolen = fs::read_to_string(gm.join("node.pub")).unwrap();
    let stolen = stolen.replace("02544c.fffe.000001", "02544c.fffe.000003");
    fs::write(world.0.join("stolen.pub"), stolen).unwrap();
    let error = world
        .sign(|request| request.publics.push(world.0.join("stolen.pub")))
        .expect_err("the same key for two clocks");
    assert!(error.to_string().contains("another node"), "{error}");
}

/// Keys of a simulation are all derived from one seed, and no file of an authority exists.
#[test]
fn exported_keys_are_loaded_like_those_of_an_authority() {
    for (suite, name) in [
        (Suite::Ed25519, "exported"),
        (Suite::BlsOnce, "exported-once"),
    ] {
        let world = World::new(name, suite);
        let clock = |index: u8, name: &str| ExportedClock {
            name: name.to_owned(),
            clock: ClockIdentity([2, 0, 0, 0xff, 0xfe, 0, 0, index]),
            index: index.into(),
            octets: [index + 1; 32],
            ports: 2,
            grandmaster: index == 0,
        };
        let keys = ExportedKeys {
            suite,
            epoch: 1,
            authority: [9; 32],
            clocks: vec![clock(0, "gm"), clock(1, "slave")],
        };
        let directory = world.at("of-a-slave");
        fs::create_dir_all(&directory).unwrap();
        keys.write(&directory, &keys.clocks[1]).unwrap();
        let slave = KeyDirectory::new(&directory).load().unwrap();
        assert_eq!((slave.index, slave.epoch, slave.may_lead), (1, 1, false));
        let [gm, own] = [0, 1].map(|index| keys.clocks[index].clock);
        assert_eq!(slave.clock, own);
        assert_eq!(slave.names.0[&gm], "gm");
        let of_gm = slave.ring.member(gm, 1).unwrap();
        assert!(of_gm.grandmaster && of_gm.key.suite() == suite);
    }
}
