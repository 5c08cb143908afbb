//! Keys and signatures of all suites.

use blst::BLST_ERROR;
use blst::min_sig::{
    AggregateSignature, PublicKey as BlsPublic, SecretKey as BlsSecret, Signature as BlsSignature,
};
use ed25519_dalek::{Signature as EdSignature, Signer as _, SigningKey, VerifyingKey};
use timeloom_wire::tlv::Suite;

use super::nonces::{Nonces, STOCK};
use super::once::{self, Ledger, OncePublic, OnceSecret, Share, SyncName, Ticket};
use crate::RandomSource;

/// Identifiers of the cipher suite in draft-irtf-cfrg-bls-signature, for the scheme with proof of
/// possession and signatures in G1.
const BLS_SIGN: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
const BLS_PROVE: &[u8] = b"BLS_POP_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
const ED_PROVE: &[u8] = b"PSIG1-POSSESSION";

/// Secret key of a signing clock.
pub enum SecretKey {
    /// Key for BLS12-381.
    Bls(Box<BlsSecret>),
    /// Key for Ed25519, with the precomputed nonces for its next signatures.
    Ed25519(Box<SigningKey>, Box<Nonces>),
    /// Keys for BLS12-381, one per port, each of which signs once per Sync.
    BlsOnce(Box<OnceSecret>),
}

impl core::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SecretKey({:?})", self.suite())
    }
}

impl SecretKey {
    /// Derives a key from 32 random octets. They must come from the kernel, except in simulations.
    pub fn from_random(suite: Suite, random: &[u8; 32]) -> Self {
        Self::with_ports(suite, random, 2)
    }

    /// Derives a key from 32 random octets for a clock with `ports` ports. Suites without a key per
    /// port ignore `ports`, as in [`Self::from_random`].
    pub fn with_ports(suite: Suite, random: &[u8; 32], ports: u8) -> Self {
        match suite {
            Suite::BlsOnce => Self::BlsOnce(Box::new(OnceSecret::new(random, ports))),
            Suite::Bls => Self::Bls(Box::new(
                BlsSecret::key_gen(random, b"PSIG1").expect("32 octets are what key_gen asks for"),
            )),
            Suite::Ed25519 => {
                let key = SigningKey::from_bytes(random);
                let nonces = Nonces::new(&key);
                Self::Ed25519(Box::new(key), Box::new(nonces))
            }
        }
    }

    /// Returns the signature suite of the key.
    pub const fn suite(&self) -> Suite {
        match self {
            Self::Bls(_) => Suite::Bls,
            Self::Ed25519(..) => Suite::Ed25519,
            Self::BlsOnce(_) => Suite::BlsOnce,
        }
    }

    /// Returns the public key for this secret key.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Bls(key) => PublicKey::Bls(Box::new(key.sk_to_pk())),
            Self::Ed25519(key, _) => PublicKey::Ed25519(Box::new(key.verifying_key())),
            Self::BlsOnce(keys) => PublicKey::BlsOnce(Box::new(keys.public())),
        }
    }

    /// Signs `text`: 48 octets with BLS, 64 with Ed25519, which uses a precomputed nonce if there
    /// is one. Every suite signs messages that belong to no Sync in this way.
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Bls(key) => key.sign(text, BLS_SIGN, &[]).to_bytes().to_vec(),
            Self::BlsOnce(keys) => {
                let signature = keys.ordinary().sign(text, BLS_SIGN, &[]);
                signature.to_bytes().to_vec()
            }
            Self::Ed25519(key, nonces) => nonces
                .sign(text)
                .unwrap_or_else(|| key.sign(text).to_bytes())
                .to_vec(),
        }
    }

    /// Returns true if the next signature takes only microseconds, whatever its text.
    pub fn is_prepared(&self) -> bool {
        matches!(self, Self::Ed25519(_, nonces) if nonces.ready() > 0)
    }

    /// Returns true if the signature for the Sync `moment` at `port` takes only microseconds.
    pub fn is_prepared_for(&self, moment: &SyncName, port: u16) -> bool {
        matches!(self, Self::BlsOnce(keys) if keys.has(moment, port))
    }

    /// Returns true if [`SecretKey::prepare`] has enough work to justify waking a thread.
    pub fn wants_preparing(&self) -> bool {
        match self {
            Self::Bls(_) => false,
            Self::Ed25519(_, nonces) => nonces.ready() < STOCK / 2,
            Self::BlsOnce(keys) => keys.stock().is_due(),
        }
    }

    /// Precomputes the parts of signatures that do not depend on the text. A thread of low priority
    /// should call it whenever there is time. `random` must be the kernel's generator (see
    /// `nonces`). Without this, every signature is computed entirely when it is needed.
    pub fn prepare(&self, random: &mut dyn RandomSource) {
        match self {
            Self::Bls(_) => {}
            Self::Ed25519(key, nonces) => nonces.prepare(key, random),
            Self::BlsOnce(keys) => keys.prepare(),
        }
    }

    /// Sets the ledger in which [`Suite::BlsOnce`] records the Syncs for which it prepares. Without
    /// a ledger nothing is prepared, and every signature is made with the ordinary key.
    pub fn keep(&self, ledger: Box<dyn Ledger>) {
        if let Self::BlsOnce(keys) = self {
            keys.keep(ledger);
        }
    }

    /// Announces a verified Sync, `moment`: the key will sign the Syncs after it for `ports`. The
    /// call is cheap.
    pub fn expect(&self, moment: &SyncName, ports: impl Iterator<Item = u16>) {
        if let Self::BlsOnce(keys) = self {
            keys.expect(moment, ports);
        }
    }

    /// Takes the precomputed data for one signature; no other caller can get the same data.
    pub(super) fn ticket(&self, moment: &SyncName, port: u16) -> Option<Ticket> {
        if let Self::BlsOnce(keys) = self {
            keys.take(moment, port)
        } else {
            None
        }
    }

    /// Signs `text` and adds the signature to the aggregate `before`. Returns `None` if `before` is
    /// not a point of the curve, or for Ed25519, which does not aggregate. The point's group is not
    /// checked here, because the verifier checks it: a point outside of the group makes a
    /// verification fail that would fail anyway.
    pub(super) fn sign_onto(&self, before: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let key = match self {
            Self::Bls(key) => key,
            Self::BlsOnce(keys) => keys.ordinary(),
            Self::Ed25519(..) => return None,
        };
        let before = BlsSignature::from_bytes(before).ok()?;
        let mut sum = AggregateSignature::from_signature(&before);
        sum.add_signature(&key.sign(text, BLS_SIGN, &[]), false)
            .ok()?;
        Some(sum.to_signature().to_bytes().to_vec())
    }

    /// Proves possession of the secret key. Without such proofs, an attacker could forge a BLS
    /// aggregate with a key that is derived from other clocks' keys.
    pub fn prove(&self) -> Vec<u8> {
        let public = self.public().to_bytes();
        match self {
            Self::Bls(key) => key.sign(&public, BLS_PROVE, &[]).to_bytes().to_vec(),
            Self::Ed25519(..) => self.sign(&[ED_PROVE, &public].concat()),
            Self::BlsOnce(keys) => keys.prove(BLS_PROVE),
        }
    }
}

/// Key that verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// Key for BLS12-381: 96 octets.
    Bls(Box<BlsPublic>),
    /// Key for Ed25519: 32 octets.
    Ed25519(Box<VerifyingKey>),
    /// Keys for BLS12-381: 96 octets for the ordinary key, and 96 for the key of each port.
    BlsOnce(Box<OncePublic>),
}

impl PublicKey {
    /// Returns the signature suite of the key.
    pub const fn suite(&self) -> Suite {
        match self {
            Self::Bls(_) => Suite::Bls,
            Self::Ed25519(_) => Suite::Ed25519,
            Self::BlsOnce(_) => Suite::BlsOnce,
        }
    }

    /// Returns the compressed key, the form in key files.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Bls(key) => key.to_bytes().to_vec(),
            Self::Ed25519(key) => key.to_bytes().to_vec(),
            Self::BlsOnce(keys) => keys.to_bytes(),
        }
    }

    /// Returns true if the two values have a key in common.
    pub(super) fn shares_a_key_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BlsOnce(one), Self::BlsOnce(other)) => {
                one.all().any(|key| other.all().any(|of| of == key))
            }
            _ => self == other,
        }
    }

    /// Parses a key and validates that it is on the curve, in the group, not the identity and not
    /// of small order.
    pub fn from_bytes(suite: Suite, bytes: &[u8]) -> Option<Self> {
        match suite {
            Suite::Bls => BlsPublic::key_validate(bytes)
                .ok()
                .map(|key| Self::Bls(Box::new(key))),
            Suite::BlsOnce => {
                OncePublic::from_bytes(bytes).map(|keys| Self::BlsOnce(Box::new(keys)))
            }
            Suite::Ed25519 => {
                let key = VerifyingKey::from_bytes(bytes.try_into().ok()?).ok()?;
                (!key.is_weak()).then(|| Self::Ed25519(Box::new(key)))
            }
        }
    }

    /// Returns true if `signature` is a valid signature of `text`.
    pub fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Bls(key) => verify_bls(signature, &[text], &[key], BLS_SIGN),
            Self::BlsOnce(keys) => verify_bls(signature, &[text], &[keys.ordinary()], BLS_SIGN),
            Self::Ed25519(key) => EdSignature::from_slice(signature)
                .is_ok_and(|s| key.verify_strict(text, &s).is_ok()),
        }
    }

    /// Returns true if `proof` is the output of [`SecretKey::prove`] for this key.
    pub fn verify_possession(&self, proof: &[u8]) -> bool {
        let public = self.to_bytes();
        match self {
            Self::Bls(key) => verify_bls(proof, &[&public], &[key], BLS_PROVE),
            Self::Ed25519(_) => self.verify(&[ED_PROVE, &public].concat(), proof),
            Self::BlsOnce(keys) => keys.verify_possession(proof, BLS_PROVE),
        }
    }
}

/// Part of one signer in an aggregate: its key, the choice among its keys (for [`Suite::BlsOnce`],
/// that of a port or the ordinary one), and the signed text.
pub(super) struct Part<'a> {
    pub(super) key: &'a PublicKey,
    pub(super) port: Option<u8>,
    pub(super) text: &'a [u8],
}

impl<'a> Part<'a> {
    /// Returns the signer's share in the sum; `None` if the suite does not aggregate, or if the
    /// clock has no key for that port.
    fn share(&self) -> Option<Share<'a>> {
        let (key, is_once) = match (self.key, self.port) {
            (PublicKey::Bls(key), None) => (&**key, false),
            (PublicKey::BlsOnce(keys), None) => (keys.ordinary(), false),
            (PublicKey::BlsOnce(keys), Some(port)) => (keys.port(port)?, true),
            _ => return None,
        };
        Some(Share {
            key,
            is_once,
            text: self.text,
        })
    }
}

/// Verifies one aggregate signature over distinct texts. `blst` does not check that the texts
/// differ; they do, because each contains its signer's identity and no signer is accepted twice.
pub(super) fn verify_aggregate(signature: &[u8], moment: &SyncName, parts: &[Part<'_>]) -> bool {
    let Some(shares) = parts.iter().map(Part::share).collect::<Option<Vec<_>>>() else {
        return false;
    };
    if shares.iter().any(|share| share.is_once) {
        return once::verify(signature, moment, &shares, BLS_SIGN);
    }
    let texts: Vec<_> = shares.iter().map(|share| share.text).collect();
    let keys: Vec<_> = shares.iter().map(|share| share.key).collect();
    verify_bls(signature, &texts, &keys, BLS_SIGN)
}

fn verify_bls(signature: &[u8], texts: &[&[u8]], keys: &[&BlsPublic], domain: &[u8]) -> bool {
    let Ok(signature) = BlsSignature::from_bytes(signature) else {
        return false;
    };
    // The signature's group is checked here; the keys' groups were checked when the keys were read.
    signature.aggregate_verify(true, texts, domain, keys, false) == BLST_ERROR::BLST_SUCCESS
}

/// Verifies several signatures at once, at half the cost of separate verification. The result is
/// true only if all are valid.
pub(super) fn verify_batch(signatures: &[&[u8]], texts: &[&[u8]], keys: &[&PublicKey]) -> bool {
    let signatures: Option<Vec<_>> = signatures
        .iter()
        .map(|s| EdSignature::from_slice(s).ok())
        .collect();
    let keys: Option<Vec<_>> = keys
        .iter()
        .map(|key| {
            if let PublicKey::Ed25519(key) = key {
                Some(**key)
            } else {
                None
            }
        })
        .collect();
    match (signatures, keys) {
        (Some(signatures), Some(keys)) => {
            ed25519_dalek::verify_batch(texts, &signatures, &keys).is_ok()
        }
        _ => false,
    }
}
