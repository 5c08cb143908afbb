//! Properties of sums of signatures, and the rule that no key signs a moment twice.

use std::sync::{Arc, Mutex};

use blst::min_sig::{PublicKey, SecretKey};
use timeloom_wire::ClockIdentity;

use super::*;

const TAG: &[u8] = b"an ordinary signature";

fn moment(sequence48: u64) -> SyncName {
    SyncName {
        stream: Stream {
            source: PortIdentity {
                clock: ClockIdentity([1; 8]),
                port: 1,
            },
            sdo_id: 0,
            domain: 0,
            epoch: 1,
        },
        sequence48,
    }
}

fn key(n: u8) -> SecretKey {
    SecretKey::key_gen(&[n + 1; 32], b"a key").unwrap()
}

/// Signer: its key, its text, and true if it uses its ordinary key.
type Signer = (SecretKey, Vec<u8>, bool);

fn signers(count: u8, ordinary: impl Fn(u8) -> bool) -> Vec<Signer> {
    let one = |n: u8| (key(n), vec![n; 80], ordinary(n));
    (0..count).map(one).collect()
}

fn sum(moment: SyncName, signers: &[Signer]) -> Vec<u8> {
    let mut sum: Option<Vec<u8>> = None;
    for (key, text, is_ordinary) in signers {
        let signed = if *is_ordinary {
            let mut all =
                blst::min_sig::AggregateSignature::from_signature(&key.sign(text, TAG, &[]));
            if let Some(before) = &sum {
                let before = blst::min_sig::Signature::from_bytes(before).unwrap();
                all.add_signature(&before, false).unwrap();
            }
            all.to_signature().to_bytes().to_vec()
        } else {
            let ticket = Ticket::new(key, moment, 1, &Default::default());
            ticket.sign_onto(sum.as_deref(), text).unwrap()
        };
        sum = Some(signed);
    }
    sum.unwrap()
}

fn holds(signature: &[u8], moment: SyncName, signers: &[Signer]) -> bool {
    let keys: Vec<PublicKey> = signers.iter().map(|(key, ..)| key.sk_to_pk()).collect();
    let shares: Vec<_> = signers
        .iter()
        .zip(&keys)
        .map(|((_, text, is_ordinary), key)| Share {
            key,
            is_once: !is_ordinary,
            text,
        })
        .collect();
    verify(signature, &moment, &shares, TAG)
}

#[test]
fn a_sum_holds_for_its_signers_their_texts_and_its_moment_only() {
    for (count, ordinary) in [(1, 99), (2, 99), (17, 99), (5, 2), (3, 1)] {
        // Every `ordinary`-th signer has nothing prepared.
        let signers = signers(count, |n| n % ordinary == ordinary - 1);
        let (t, other) = (moment(7), moment(8));
        let signature = sum(t, &signers);
        assert!(holds(&signature, t, &signers), "{count} {ordinary}");
        assert!(!holds(&signature, other, &signers) || signers.iter().all(|s| s.2));
        for n in 0..signers.len() {
            let mut changed = signers.clone();
            changed[n].1[79] ^= 1;
            assert!(!holds(&signature, t, &changed), "text {n} of {count}");
            let mut changed = signers.clone();
            changed[n].0 = key(99);
            assert!(!holds(&signature, t, &changed), "key {n} of {count}");
            let mut changed = signers.clone();
            changed[n].2 ^= true;
            assert!(!holds(&signature, t, &changed), "kind {n} of {count}");
            let mut changed = signers.clone();
            changed.remove(n);
            assert!(!holds(&signature, t, &changed), "without {n} of {count}");
        }
        if count > 1 {
            // The texts of two signers are exchanged.
            let mut changed = signers.clone();
            let (one, two) = (changed[0].1.clone(), changed[1].1.clone());
            (changed[0].1, changed[1].1) = (two, one);
            assert!(!holds(&signature, t, &changed));
        }
    }
}

#[test]
fn a_sum_of_nothing_and_points_outside_the_group_are_refused() {
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    let one = signers(1, |_| false);
    assert!(!holds(&infinity, moment(1), &one));
    assert!(!holds(&infinity, moment(1), &[]));
    // Adding a signature to the neutral element gives the signature.
    let ticket = Ticket::new(&one[0].0, moment(1), 1, &Default::default());
    let signature = ticket.sign_onto(Some(&infinity), &one[0].1).unwrap();
    assert_eq!(signature, sum(moment(1), &one));
    // A point of the curve that is in another group: the hop adds to it, and the verifier refuses
    // the sum. (x = 4 is on the curve.)
    let mut outside = [0; 48];
    (outside[0], outside[47]) = (0x80, 4);
    let point = blst::min_sig::Signature::from_bytes(&outside).expect("on the curve");
    assert!(!point.subgroup_check());
    let ticket = Ticket::new(&one[0].0, moment(1), 1, &Default::default());
    let signature = ticket.sign_onto(Some(&outside), &one[0].1).unwrap();
    assert!(!holds(&signature, moment(1), &one));
    // Octets that are not a point.
    let ticket = Ticket::new(&one[0].0, moment(1), 1, &Default::default());
    assert!(ticket.sign_onto(Some(&[0x9f; 48]), &one[0].1).is_none());
}

/// Order of the group, in big-endian octets.
const ORDER: [u8; 32] = [
    0x73, 0xed, 0xa7, 0x53, 0x29, 0x9d, 0x7d, 0x48, 0x33, 0x39, 0xd8, 0x08, 0x09, 0xa1, 0xd8, 0x05,
    0x53, 0xbd, 0xa4, 0x02, 0xff, 0xfe, 0x5b, 0xfe, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1,
];

#[test]
fn two_rogues_whose_keys_cancel_out_verify_nothing() {
    let one = key(3);
    let mut borrow = 0i16;
    let mut negative = [0; 32];
    for at in (0..32).rev() {
        let left = i16::from(ORDER[at]) - i16::from(one.to_bytes()[at]) - borrow;
        borrow = i16::from(left < 0);
        negative[at] = left.rem_euclid(256) as u8;
    }
    let other = SecretKey::from_bytes(&negative).unwrap();
    let rogues = vec![(one, vec![1; 80], false), (other, vec![1; 80], false)];
    // The sum of the attackers' keys is the neutral element.
    let signature = sum(moment(1), &rogues);
    assert!(!holds(&signature, moment(1), &rogues));
}

#[test]
fn a_rogue_that_signs_twice_under_one_moment_can_forge_only_itself() {
    let t = moment(5);
    let mut chain = signers(4, |_| false);
    let rogue = 2;
    let honest = sum(t, &chain);
    assert!(holds(&honest, t, &chain));
    // The attacker has its own secret, so it can sign any text of its own, repeatedly.
    chain[rogue].1 = vec![0xaa; 80];
    let again = sum(t, &chain);
    assert!(holds(&again, t, &chain));
    // From the two sums the attacker gets the difference between its own signatures. This yields no
    // valid signature of another signer: neither for another text of that signer …
    for victim in [0, 1, 3] {
        let mut forged = chain.clone();
        forged[victim].1[0] ^= 1;
        assert!(!holds(&honest, t, &forged) && !holds(&again, t, &forged));
        // … nor for the same text at another Sync.
        assert!(!holds(&again, moment(6), &chain));
        // … nor does the attacker's own signature of a victim's text replace the victim's share in
        // the sum.
        let mut own = chain.clone();
        own[victim].0 = chain[rogue].0.clone();
        assert!(!holds(&sum(t, &own), t, &chain));
    }
}

#[test]
fn both_proofs_of_every_key_are_asked_for() {
    let keys = OnceSecret::new(&[7; 32], 3);
    let (public, proof) = (keys.public(), keys.prove(TAG));
    assert_eq!(public.to_bytes().len(), 4 * 96);
    assert_eq!(proof.len(), (1 + 2 * 3) * 48);
    assert!(public.verify_possession(&proof, TAG));
    assert!(!public.verify_possession(&proof, b"another tag"));
    let other = OnceSecret::new(&[8; 32], 3).prove(TAG);
    for at in 0..7 {
        let range = at * 48..(at + 1) * 48;
        let mut changed = proof.clone();
        changed[range.clone()].copy_from_slice(&other[range.clone()]);
        assert!(!public.verify_possession(&changed, TAG), "proof {at}");
        let mut missing = proof.clone();
        missing.drain(range);
        assert!(!public.verify_possession(&missing, TAG), "without {at}");
    }
    // The two proofs of one key are not interchangeable.
    let mut exchanged = proof.clone();
    exchanged[48..96].copy_from_slice(&proof[96..144]);
    exchanged[96..144].copy_from_slice(&proof[48..96]);
    assert!(!public.verify_possession(&exchanged, TAG));
    // Duplicate keys, no keys and truncated keys are rejected too.
    let bytes = public.to_bytes();
    assert_eq!(OncePublic::from_bytes(&bytes), Some(public));
    assert_eq!(OncePublic::from_bytes(&bytes[..96]), None);
    assert_eq!(OncePublic::from_bytes(&bytes[..200]), None);
    let twice = [&bytes[..192], &bytes[96..192]].concat();
    assert_eq!(OncePublic::from_bytes(&twice), None);
}

/// Ledger that outlives the program, like a file.
#[derive(Clone, Default)]
struct Lasting(Arc<Mutex<MemoryLedger>>);

impl Ledger for Lasting {
    fn reserve(&mut self, stream: &Stream, from: u64, limit: u64, count: u64) -> Option<u64> {
        self.0.lock().unwrap().reserve(stream, from, limit, count)
    }
}

fn clock(ledger: &Lasting) -> OnceSecret {
    let keys = OnceSecret::new(&[7; 32], 3);
    keys.keep(Box::new(ledger.clone()));
    keys
}

fn prepared(keys: &OnceSecret) -> Vec<(u64, u8)> {
    let mut ready = keys.stock().ready();
    ready.sort_unstable();
    ready
}

#[test]
fn the_next_numbers_are_prepared_and_each_serves_once() {
    let keys = clock(&Lasting::default());
    keys.prepare();
    assert!(prepared(&keys).is_empty() && !keys.stock().is_due());
    keys.expect(&moment(100), [2, 3, 9].into_iter());
    assert!(keys.stock().is_due());
    keys.prepare();
    let expected: Vec<_> = (101..=132).flat_map(|n| [(n, 2), (n, 3)]).collect();
    assert_eq!(prepared(&keys), expected);
    assert!(!keys.stock().is_due());
    assert!(!keys.has(&moment(100), 2) && !keys.has(&moment(101), 1));
    assert!(keys.has(&moment(101), 2) && keys.has(&moment(101), 3));
    let first = keys.take(&moment(101), 2).unwrap();
    assert!(keys.take(&moment(101), 2).is_none());
    assert!(keys.take(&moment(101), 3).is_some());
    let text = vec![5; 80];
    let signature = first.sign_onto(None, &text).unwrap();
    let public = keys.public();
    let share = Share {
        key: public.port(2).unwrap(),
        is_once: true,
        text: &text,
    };
    assert!(verify(&signature, &moment(101), &[share], TAG));
    // A taken ticket never returns, whatever is announced and prepared.
    keys.expect(&moment(100), [2, 3].into_iter());
    keys.prepare();
    assert!(!keys.has(&moment(101), 2) && !keys.has(&moment(101), 3));
    // The stock follows the numbers, and keeps tickets that may still be needed.
    keys.expect(&moment(140), [2, 3].into_iter());
    keys.prepare();
    let ready = prepared(&keys);
    assert!(
        ready.iter().all(|(n, _)| (108..=172).contains(n)),
        "{ready:?}"
    );
    assert!(ready.contains(&(172, 2)) && !ready.contains(&(133, 2)));
}

#[test]
fn after_a_restart_no_number_of_before_is_prepared_again() {
    let ledger = Lasting::default();
    let mut all = std::collections::HashSet::new();
    let mut at = 1000;
    for run in 0..5 {
        // Each simulated run ends abruptly, in the middle of a block.
        let keys = clock(&ledger);
        for _ in 0..run * 7 + 3 {
            keys.expect(&moment(at), [2].into_iter());
            keys.prepare();
            at += 1;
            for ready in prepared(&keys) {
                if let Some(ticket) = keys.take(&moment(ready.0), 2) {
                    assert_eq!(ticket.moment, moment(ready.0));
                    assert!(all.insert(ready), "{ready:?} in run {run}");
                }
            }
        }
        assert!(run == 0 || all.iter().all(|(n, _)| *n < at + 200));
    }
    // Preparation continues after the numbers have passed the reserved ones.
    let keys = clock(&ledger);
    keys.expect(&moment(5000), [2].into_iter());
    keys.prepare();
    assert_eq!(prepared(&keys).len(), 32);
}

#[test]
fn two_programs_with_one_ledger_never_prepare_the_same() {
    let ledger = Lasting::default();
    let (one, other) = (clock(&ledger), clock(&ledger));
    let mut all = std::collections::HashSet::new();
    for n in 0..200 {
        for keys in [&one, &other] {
            keys.expect(&moment(n), [1].into_iter());
            keys.prepare();
            for (number, port) in keys.stock().ready() {
                keys.take(&moment(number), port.into()).unwrap();
                assert!(all.insert(number), "{number}");
            }
        }
    }
    assert!(all.len() > 150, "{}", all.len());
}

#[test]
fn without_a_ledger_or_after_a_fork_nothing_is_prepared() {
    let keys = OnceSecret::new(&[7; 32], 2);
    keys.expect(&moment(1), [1].into_iter());
    keys.prepare();
    assert!(prepared(&keys).is_empty());

    struct Full;
    impl Ledger for Full {
        fn reserve(&mut self, _: &Stream, _: u64, _: u64, _: u64) -> Option<u64> {
            None
        }
    }
    keys.keep(Box::new(Full));
    keys.expect(&moment(1), [1].into_iter());
    keys.prepare();
    assert!(prepared(&keys).is_empty());

    let keys = clock(&Lasting::default());
    keys.expect(&moment(1), [1].into_iter());
    keys.prepare();
    assert!(keys.has(&moment(2), 1));
    keys.stock().pretend_to_be_forked();
    assert!(keys.take(&moment(2), 1).is_none());
    keys.expect(&moment(2), [1].into_iter());
    keys.prepare();
    assert!(prepared(&keys).is_empty());
}

#[test]
fn grandmasters_have_courses_of_their_own_and_there_are_not_many() {
    let of = |domain: u8, n: u64| {
        let mut moment = moment(n);
        moment.stream.domain = domain;
        moment
    };
    let keys = clock(&Lasting::default());
    for domain in 0..6 {
        keys.expect(&of(domain, 10), [1].into_iter());
    }
    keys.prepare();
    assert_eq!(prepared(&keys).len(), 4 * 32);
    assert!(keys.has(&of(3, 11), 1) && !keys.has(&of(4, 11), 1));
    // A grandmaster that is silent while others are not is replaced.
    for n in 0..40 {
        for domain in 1..5 {
            keys.expect(&of(domain, 10 + n), [1].into_iter());
        }
    }
    keys.prepare();
    assert!(keys.has(&of(4, 50), 1) && !keys.has(&of(0, 11), 1));
}

#[test]
fn numbers_prepared_and_taken_concurrently_serve_once() {
    let keys = clock(&Lasting::default());
    let seen = Mutex::new(std::collections::HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..60 {
                    keys.expect(&moment(n), [1].into_iter());
                    keys.prepare();
                    for number in 0..n + 40 {
                        if keys.take(&moment(number), 1).is_some() {
                            assert!(seen.lock().unwrap().insert(number));
                        }
                    }
                }
            });
        }
    });
    assert!(seen.into_inner().unwrap().len() > 30);
}
