//! Ed25519 with precomputed nonces.
//!
//! A signature consists of `R = r·B` and `s = r + SHA-512(R ‖ A ‖ text)·a`. Only `s` depends on the
//! text; computing it takes two microseconds. `R` takes ten times as long, and can be computed in
//! advance (Even, Goldreich, Micali 1989; Schnorr 1991). The result is an ordinary Ed25519
//! signature, which an ordinary verifier checks.
//!
//! # Security argument and its conditions
//!
//! RFC 8032 derives `r` from key and text, so that two texts never have the same `r`: a reused `r`
//! reveals the key. Here the text is not known yet, so `r` is random, as in Schnorr's proposal and
//! proof. `R` is not disclosed before the text is chosen, so an attacker that chooses texts learns
//! no more than from a signer that draws `r` when it signs. The argument relies on three
//! conditions:
//!
//! - **Randomness**: `r` is SHA-512 of the secret key, 256 bits of the caller's [`RandomSource`]
//!   and a running number. The kernel's randomness alone would suffice. Key and number are included
//!   so that a weak generator does not reveal `r`, unless it repeats its output after each start.
//! - **Single use**: a nonce is removed from the stock, under a lock, before it is used, and its
//!   use consumes it. It cannot be copied, and is wiped when it is dropped.
//! - **One process**: the stock is never written to a file, and a stock that another process made
//!   (before a fork) is discarded. A snapshot of a whole virtual machine that is run twice is not
//!   detected: do not precompute nonces there.
//!
//! If the stock is empty, or if another thread holds it at that moment, the signer does not wait.
//! The signature is then made as in RFC 8032.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use curve25519_dalek::{EdwardsPoint, Scalar};
use ed25519_dalek::{SigningKey, VerifyingKey};
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, Zeroizing};

use crate::RandomSource;

/// Number of nonces in a full stock: a burst of so many signatures is fast.
pub(super) const STOCK: usize = 64;

/// One nonce: the scalar `r`, and the point `R` as sent.
struct Nonce {
    scalar: Scalar,
    point: [u8; 32],
}

impl Drop for Nonce {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

/// The secret scalar, with nonces for its next signatures.
pub struct Nonces {
    scalar: Scalar,
    public: VerifyingKey,
    stock: Mutex<Stock>,
    /// Number of nonces in the stock, readable without the lock.
    ready: AtomicUsize,
}

struct Stock {
    nonces: Vec<Nonce>,
    process: u32,
    made: u64,
}

impl Drop for Nonces {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

impl Nonces {
    pub(super) fn new(key: &SigningKey) -> Self {
        Self {
            scalar: key.to_scalar(),
            public: key.verifying_key(),
            stock: Mutex::new(Stock {
                // The vector never grows, because a reallocation would leave copies of nonces
                // behind.
                nonces: Vec::with_capacity(STOCK),
                process: 0,
                made: 0,
            }),
            ready: AtomicUsize::new(0),
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    /// Fills the stock. The lock is held while a nonce is added, never while one is computed.
    pub(super) fn prepare(&self, key: &SigningKey, random: &mut dyn RandomSource) {
        let process = std::process::id();
        while self.ready() < STOCK {
            let Ok(mut stock) = self.stock.lock() else {
                return;
            };
            stock.belong_to(process);
            stock.made += 1;
            let number = stock.made;
            drop(stock);
            let nonce = Nonce::new(key, number, random);
            let Ok(mut stock) = self.stock.lock() else {
                return;
            };
            if stock.nonces.len() < STOCK {
                stock.nonces.push(nonce);
            }
            self.ready.store(stock.nonces.len(), Ordering::Relaxed);
        }
    }

    fn take(&self) -> Option<Nonce> {
        let mut stock = self.stock.try_lock().ok()?;
        stock.belong_to(std::process::id());
        let nonce = stock.nonces.pop();
        self.ready.store(stock.nonces.len(), Ordering::Relaxed);
        nonce
    }

    /// Signs with a precomputed nonce; returns `None` if none is available.
    pub(super) fn sign(&self, text: &[u8]) -> Option<[u8; 64]> {
        let nonce = self.take()?;
        let mut challenge = Sha512::new();
        challenge.update(nonce.point);
        challenge.update(self.public.as_bytes());
        challenge.update(text);
        let challenge = Scalar::from_bytes_mod_order_wide(&challenge.finalize().into());
        let answer = nonce.scalar + challenge * self.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&nonce.point);
        signature[32..].copy_from_slice(answer.as_bytes());
        Some(signature)
    }
}

impl Stock {
    /// Discards the stock if another process made it, because both processes would use it.
    fn belong_to(&mut self, process: u32) {
        if self.process != process {
            self.nonces.clear();
            self.process = process;
        }
    }
}

impl Nonce {
    fn new(key: &SigningKey, number: u64, random: &mut dyn RandomSource) -> Self {
        let mut drawn = Zeroizing::new([0; 32]);
        drawn
            .chunks_exact_mut(8)
            .for_each(|word| word.copy_from_slice(&random.next_u64().to_ne_bytes()));
        let mut sum = Sha512::new();
        sum.update(b"PSIG1-NONCE");
        sum.update(key.as_bytes());
        sum.update(number.to_be_bytes());
        sum.update(drawn.as_slice());
        let wide: Zeroizing<[u8; 64]> = Zeroizing::new(sum.finalize().into());
        let scalar = Scalar::from_bytes_mod_order_wide(&wide);
        let point = EdwardsPoint::mul_base(&scalar).compress().to_bytes();
        Self { scalar, point }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex as Shared;

    use ed25519_dalek::Signature;

    use super::*;
    use crate::SplitMix64;

    fn pair() -> (SigningKey, Nonces) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let nonces = Nonces::new(&key);
        (key, nonces)
    }

    fn holds(key: &SigningKey, text: &[u8], signature: [u8; 64]) -> bool {
        let signature = Signature::from_bytes(&signature);
        key.verifying_key().verify_strict(text, &signature).is_ok()
    }

    #[test]
    fn prepared_signatures_hold_for_the_strict_verifier_and_for_nothing_else() {
        let (key, nonces) = pair();
        let mut random = SplitMix64(1);
        for n in 0..3 * STOCK as u32 {
            if nonces.ready() == 0 {
                nonces.prepare(&key, &mut random);
            }
            let text = n.to_be_bytes().repeat(n as usize % 40);
            let signature = nonces.sign(&text).expect("the stock was filled");
            assert!(holds(&key, &text, signature), "text {n}");
            assert!(!holds(&key, &[&text[..], b"!"].concat(), signature));
        }
    }

    #[test]
    fn an_empty_stock_has_nothing_and_a_full_one_does_not_grow() {
        let (key, nonces) = pair();
        assert!(nonces.sign(b"text").is_none());
        for _ in 0..3 {
            nonces.prepare(&key, &mut SplitMix64(2));
            assert_eq!(nonces.ready(), STOCK);
        }
        for left in (0..STOCK).rev() {
            assert!(nonces.sign(b"text").is_some());
            assert_eq!(nonces.ready(), left);
        }
        assert!(nonces.sign(b"text").is_none());
    }

    #[test]
    fn no_nonce_serves_twice_under_concurrent_signing_and_preparing() {
        let (key, nonces) = pair();
        let seen = Shared::new(HashSet::new());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (key, nonces, seen) = (&key, &nonces, &seen);
                scope.spawn(move || {
                    let mut random = SplitMix64(thread);
                    let mut signed = 0;
                    while signed < 1000 {
                        let text = (thread << 32 | signed).to_be_bytes();
                        let Some(signature) = nonces.sign(&text) else {
                            nonces.prepare(key, &mut random);
                            continue;
                        };
                        assert!(holds(key, &text, signature));
                        assert!(seen.lock().unwrap().insert(signature[..32].to_vec()));
                        signed += 1;
                    }
                });
            }
        });
        assert_eq!(seen.into_inner().unwrap().len(), 4000);
    }

    #[test]
    fn a_generator_that_stands_still_does_not_repeat_a_nonce() {
        struct Broken;
        impl RandomSource for Broken {
            fn next_u64(&mut self) -> u64 {
                5
            }
        }
        let (key, nonces) = pair();
        let mut seen = HashSet::new();
        for _ in 0..4 {
            nonces.prepare(&key, &mut Broken);
            while let Some(signature) = nonces.sign(b"same text") {
                assert!(seen.insert(signature[..32].to_vec()));
            }
        }
    }

    #[test]
    fn nonces_of_another_process_are_discarded() {
        let (key, nonces) = pair();
        nonces.prepare(&key, &mut SplitMix64(3));
        nonces.stock.lock().unwrap().process ^= 1;
        assert!(nonces.sign(b"text").is_none());
        assert_eq!(nonces.ready(), 0);
        nonces.prepare(&key, &mut SplitMix64(3));
        assert!(nonces.sign(b"text").is_some());
    }
}
