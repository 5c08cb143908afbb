//! Keys of one clock: one for each egress port, and an ordinary one.

use blst::min_sig::{PublicKey, SecretKey, Signature};

use super::stock::Stock;
use super::{Ledger, MAX_PORTS, PROOFS, SyncName, Ticket};

/// Length of a public key in octets. A proof of possession has half of that.
const KEY: usize = 96;
const PROOF: usize = 48;

/// Secret keys of one clock, all derived from one secret, with data prepared for the next Syncs.
pub struct OnceSecret {
    ordinary: SecretKey,
    /// Keys of the ports 1, 2, …
    ports: Vec<SecretKey>,
    stock: Stock,
}

impl OnceSecret {
    /// Derives keys for `ports` ports, at most [`MAX_PORTS`], from 32 random octets.
    pub(in crate::security) fn new(random: &[u8; 32], ports: u8) -> Self {
        let key = |port: u8| {
            let info = [&b"PSIG1-ONCE"[..], &[port]].concat();
            SecretKey::key_gen(random, &info).expect("32 octets are what key_gen asks for")
        };
        Self {
            ordinary: key(0),
            ports: (1..=ports.min(MAX_PORTS)).map(key).collect(),
            stock: Stock::new(),
        }
    }

    pub(in crate::security) const fn ordinary(&self) -> &SecretKey {
        &self.ordinary
    }

    pub(in crate::security) const fn stock(&self) -> &Stock {
        &self.stock
    }

    pub(in crate::security) fn keep(&self, ledger: Box<dyn Ledger>) {
        self.stock.keep(ledger);
    }

    pub(in crate::security) fn prepare(&self) {
        self.stock.prepare(&self.ports);
    }

    pub(in crate::security) fn expect(&self, moment: &SyncName, ports: impl Iterator<Item = u16>) {
        let have = self.ports.len();
        let ports = ports.filter_map(|port| u8::try_from(port).ok());
        let ports = ports.filter(|port| (1..=have).contains(&usize::from(*port)));
        self.stock.expect(moment, ports);
    }

    pub(in crate::security) fn has(&self, moment: &SyncName, port: u16) -> bool {
        u8::try_from(port).is_ok_and(|port| self.stock.has(moment, port))
    }

    pub(in crate::security) fn take(&self, moment: &SyncName, port: u16) -> Option<Ticket> {
        self.stock.take(moment, u8::try_from(port).ok()?)
    }

    pub(in crate::security) fn public(&self) -> OncePublic {
        OncePublic {
            ordinary: self.ordinary.sk_to_pk(),
            ports: self.ports.iter().map(SecretKey::sk_to_pk).collect(),
        }
    }

    /// Returns one proof of possession for the ordinary key, under `tag`, and two for the key of
    /// each port.
    pub(in crate::security) fn prove(&self, tag: &[u8]) -> Vec<u8> {
        let proof =
            |key: &SecretKey, tag: &[u8]| key.sign(&key.sk_to_pk().to_bytes(), tag, &[]).to_bytes();
        let mut proofs = proof(&self.ordinary, tag).to_vec();
        for key in &self.ports {
            PROOFS.iter().for_each(|tag| proofs.extend(proof(key, tag)));
        }
        proofs
    }
}

/// Public keys of one clock, 96 octets each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OncePublic {
    ordinary: PublicKey,
    ports: Vec<PublicKey>,
}

impl OncePublic {
    pub(in crate::security) const fn ordinary(&self) -> &PublicKey {
        &self.ordinary
    }

    /// Returns the key for messages that leave on `port`, counted from 1; `None` if there is none.
    pub(in crate::security) fn port(&self, port: u8) -> Option<&PublicKey> {
        self.ports.get(usize::from(port).checked_sub(1)?)
    }

    pub(in crate::security) fn all(&self) -> impl Iterator<Item = &PublicKey> {
        [&self.ordinary].into_iter().chain(&self.ports)
    }

    pub(in crate::security) fn to_bytes(&self) -> Vec<u8> {
        self.all().flat_map(|key| key.to_bytes()).collect()
    }

    /// Parses and validates the keys; fails if a key occurs twice.
    pub(in crate::security) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (keys, []) = bytes.as_chunks::<KEY>() else {
            return None;
        };
        if !(2..=1 + usize::from(MAX_PORTS)).contains(&keys.len()) {
            return None;
        }
        if keys
            .iter()
            .enumerate()
            .any(|(at, key)| keys[..at].contains(key))
        {
            return None;
        }
        let keys: Option<Vec<_>> = keys
            .iter()
            .map(|key| PublicKey::key_validate(key).ok())
            .collect();
        let mut keys = keys?.into_iter();
        Some(Self {
            ordinary: keys.next()?,
            ports: keys.collect(),
        })
    }

    pub(in crate::security) fn verify_possession(&self, proofs: &[u8], tag: &[u8]) -> bool {
        let (proofs, []) = proofs.as_chunks::<PROOF>() else {
            return false;
        };
        let ordinary = [(&self.ordinary, tag)].into_iter();
        let ports = self.ports.iter();
        let wanted = ordinary.chain(ports.flat_map(|key| PROOFS.map(|tag| (key, tag))));
        proofs.len() == 1 + PROOFS.len() * self.ports.len()
            && wanted.zip(proofs).all(|((key, tag), proof)| {
                Signature::sig_validate(proof, true).is_ok_and(|proof| {
                    let text = key.to_bytes();
                    let outcome = proof.verify(false, &text, tag, &[], key, false);
                    outcome == blst::BLST_ERROR::BLST_SUCCESS
                })
            })
    }
}
