//! Signing job of a transparent clock, which can run on any thread.
//!
//! There is one job per egress port. With BLS and twenty ports, the jobs take five milliseconds;
//! event messages must not wait for that long.

use timeloom_wire::{ClockIdentity, Header, TimeInterval, VlanTag};

use super::{Failure, Hop, Reason, Security, Suspect, SyncFacts};

/// One Follow_Up to be signed for one egress port.
#[derive(Clone, Debug)]
pub struct SignJob {
    pub(crate) security: Security,
    /// The Follow_Up as received.
    pub(crate) message: Vec<u8>,
    pub(crate) sync: SyncFacts,
    pub(crate) hop: Hop,
    /// True if the received chain is invalid, so that a new one must be started.
    pub(crate) broken: bool,
    pub(crate) vlan: Option<VlanTag>,
    pub(crate) residence: TimeInterval,
}

/// Result of a [`SignJob`].
#[derive(Clone, Debug)]
pub struct SigningResult {
    pub(crate) ingress: u16,
    pub(crate) egress: u16,
    pub(crate) sequence: u16,
    pub(crate) vlan: Option<VlanTag>,
    pub(crate) residence: TimeInterval,
    pub(crate) message: Option<Vec<u8>>,
    pub(crate) failure: Option<Failure>,
}

impl SignJob {
    /// Returns true if the job takes only microseconds because its expensive part is precomputed.
    /// The caller should then run it at once, since passing it to another thread takes longer.
    pub fn is_quick(&self) -> bool {
        self.security.is_quick(&self.message, self.hop.egress)
    }

    /// Runs the job. Returns the Follow_Up with this clock's entry. If the received chain is
    /// invalid, starts a new chain that reports this.
    pub fn run(&self) -> SigningResult {
        let (message, failure) = self.sign();
        let sequence = Header::parse(&self.message).map_or(0, |(header, _)| header.sequence_id);
        SigningResult {
            ingress: self.hop.ingress,
            egress: self.hop.egress,
            sequence,
            vlan: self.vlan,
            residence: self.residence,
            message,
            failure,
        }
    }

    fn sign(&self) -> (Option<Vec<u8>>, Option<Failure>) {
        let (security, hop) = (&self.security, &self.hop);
        let anew = || security.restart(&self.message, &self.sync, hop);
        if self.broken {
            return (anew(), None);
        }
        match security.extend(&self.message, &self.sync, hop) {
            Ok(signed) => (Some(signed), None),
            Err(reason) => {
                let failure = failure(&self.message, reason, hop.previous, security.clock);
                let message = if reason == Reason::TooLong {
                    security.mark_incomplete(&self.message, hop.contribution)
                } else {
                    anew()
                };
                (message, failure)
            }
        }
    }
}

fn failure(
    message: &[u8],
    reason: Reason,
    previous: ClockIdentity,
    observer: ClockIdentity,
) -> Option<Failure> {
    let (header, _) = Header::parse(message).ok()?;
    Some(Failure {
        observer,
        source: header.source,
        sequence: header.sequence_id,
        reason,
        suspect: Suspect {
            after: Some(previous),
            before: observer,
        },
    })
}
