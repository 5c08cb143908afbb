//! Verification job for the chain of a Follow_Up, which can run on any thread.

use std::sync::Arc;

use timeloom_wire::tlv::SignedFlags;
use timeloom_wire::{ClockIdentity, Message, PortIdentity, TimeInterval};

use super::chain::{Chain, Link};
use super::hops::hops_of;
use super::keys::{Part, verify_aggregate, verify_batch};
use super::once::Moment;
use super::{Failure, KeyRing, Limits, Policy, PublicKey, Reason, Suspect, SyncFacts};
use crate::HopRecord;

/// One Follow_Up to be verified, with the Syncs to which it may belong.
#[derive(Clone, Debug)]
pub struct VerifyJob {
    /// Number of the job, assigned by the state machine that made it.
    pub(crate) id: u64,
    /// The Follow_Up as received.
    pub message: Vec<u8>,
    /// The Syncs with the Follow_Up's sequence number, in the order of arrival.
    pub syncs: Vec<SyncFacts>,
    /// Identity of the verifying clock. The last signer must have addressed the message to it.
    pub me: ClockIdentity,
    /// Identity of the upstream neighbour, if peer delay has determined it.
    pub upstream: Option<ClockIdentity>,
    /// Public keys of all clocks.
    pub ring: Arc<KeyRing>,
    /// Policy that decides which corrections are acceptable.
    pub policy: Policy,
    /// Limits for plausible values.
    pub limits: Limits,
}

/// Properties of a valid chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedChain {
    /// Index in the job's `syncs` of the Sync that the grandmaster has signed.
    pub sync: usize,
    /// 48-bit sequence number.
    pub sequence48: u64,
    /// Name of the Sync, for suites whose keys sign once per Sync.
    pub moment: Moment,
    /// Number of transparent clocks that signed.
    pub hops: u8,
}

/// Result of a [`VerifyJob`].
#[derive(Clone, Debug)]
pub struct Verdict {
    pub(crate) id: u64,
    /// Properties of a valid chain, or the violation with its place.
    pub result: Result<VerifiedChain, Failure>,
    /// Contribution of each hop in the chain.
    pub hops: Vec<HopRecord>,
}

impl VerifyJob {
    /// Returns a job without a state machine, for the verification of evidence by a third party.
    pub const fn new(
        message: Vec<u8>,
        syncs: Vec<SyncFacts>,
        me: ClockIdentity,
        upstream: Option<ClockIdentity>,
        ring: Arc<KeyRing>,
        policy: Policy,
        limits: Limits,
    ) -> Self {
        Self {
            id: 0,
            message,
            syncs,
            me,
            upstream,
            ring,
            policy,
            limits,
        }
    }

    /// Runs the job. Cheap checks come first and signatures last. If the chain is invalid, each
    /// signature is checked separately to find the place.
    pub fn run(&self) -> Verdict {
        let message = Message::parse(&self.message);
        let result = self.check(message.as_ref().ok());
        let hops = message.map_or_else(
            |_| Vec::new(),
            |message| hops_of(&message, &self.ring, result.as_ref().err()),
        );
        Verdict {
            id: self.id,
            result,
            hops,
        }
    }

    fn check(&self, message: Option<&Message<'_>>) -> Result<VerifiedChain, Failure> {
        let unknown = |reason, source, sequence| Failure {
            observer: self.me,
            source,
            sequence,
            reason,
            suspect: Suspect {
                after: self.upstream,
                before: self.me,
            },
        };
        let message =
            message.ok_or_else(|| unknown(Reason::Malformed, PortIdentity::default(), 0))?;
        let (source, sequence) = (message.header.source, message.header.sequence_id);
        let chain = Chain::parse(message, &self.ring)
            .map_err(|reason| unknown(reason, source, sequence))?;
        let cheap = self.cheap(&chain);
        let fits = |sync: &SyncFacts| self.fits(&chain, sync);
        if cheap.is_ok() && !self.syncs.is_empty() && !self.syncs.iter().any(fits) {
            // Clocks forward a Sync before its verification, so the place may be any link upstream.
            return Err(Failure {
                suspect: Suspect {
                    after: None,
                    before: self.me,
                },
                ..unknown(Reason::Correction, source, sequence)
            });
        }
        let accepted = |sync: &SyncFacts| fits(sync) && self.holds(&chain, sync);
        if cheap.is_ok()
            && let Some(sync) = self.syncs.iter().position(accepted)
        {
            return Ok(VerifiedChain {
                sync,
                sequence48: chain.sequence48(),
                moment: chain.moment(),
                hops: chain.tlv.hops,
            });
        }
        let reason = cheap.err().unwrap_or(Reason::Signature);
        Err(Failure {
            suspect: self.at_this_link(self.locate(&chain)),
            ..unknown(reason, source, sequence)
        })
    }

    /// Replaces the upstream end by the known neighbour, if the place is this clock's own link.
    /// Peer delay identifies the neighbour, which may have removed itself from the chain.
    fn at_this_link(&self, suspect: Suspect) -> Suspect {
        let knows_better = suspect.before == self.me
            && suspect.after.is_some()
            && self.upstream.is_some()
            && !matches!(self.policy, Policy::Mixed { .. });
        Suspect {
            after: if knows_better {
                self.upstream
            } else {
                suspect.after
            },
            ..suspect
        }
    }

    fn cheap(&self, chain: &Chain<'_>) -> Result<(), Reason> {
        let (head, source) = (&chain.tlv.head, chain.header.source.clock);
        if !self.ring.is_valid(head.key_epoch) {
            return Err(Reason::Epoch);
        }
        let member = self
            .ring
            .member(source, head.key_epoch)
            .ok_or(Reason::UnknownSigner)?;
        if !member.grandmaster {
            return Err(Reason::NotAuthorised);
        }
        if member.key.suite() != head.suite {
            return Err(Reason::Suite);
        }
        if head.flags.has(SignedFlags::RESTARTED) {
            return Err(Reason::Restarted);
        }
        if head.flags.has(SignedFlags::INCOMPLETE) {
            return Err(Reason::Incomplete);
        }
        if chain.tlv.hops > self.limits.max_hops {
            return Err(Reason::TooLong);
        }
        self.path(chain)?;
        let range = self.limits.min_contribution..=self.limits.max_contribution;
        if !chain
            .hops
            .iter()
            .all(|(_, entry, _)| range.contains(&entry.contribution))
        {
            return Err(Reason::Contribution);
        }
        self.correction(chain)
    }

    fn path(&self, chain: &Chain<'_>) -> Result<(), Reason> {
        let mut seen = vec![chain.header.source.clock, self.me];
        for (clock, ..) in &chain.hops {
            let clock = clock.ok_or(Reason::UnknownSigner)?;
            if seen.contains(&clock) {
                return Err(Reason::Path);
            }
            seen.push(clock);
        }
        let last = chain
            .hops
            .last()
            .map_or(Some(chain.header.source.clock), |(clock, ..)| *clock);
        // If a clock without PTP is in between, the neighbour is unknown, which is not a violation.
        if self.upstream.is_some()
            && self.upstream != last
            && !matches!(self.policy, Policy::Mixed { .. })
        {
            return Err(Reason::Path);
        }
        Ok(())
    }

    /// Checks the correction of the Follow_Up. With the strict policy it must be the sum of the
    /// contributions, which the grandmaster's signature covers. With the mixed policy, the
    /// remainder must be within the budget.
    fn correction(&self, chain: &Chain<'_>) -> Result<(), Reason> {
        let most = match self.policy {
            Policy::Mixed { budget } => budget,
            _ if chain.allows_excess() => return Err(Reason::Correction),
            // A remainder below one nanosecond is the grandmaster's own, and is signed.
            _ => TimeInterval(0xffff),
        };
        match (TimeInterval::ZERO..=most).contains(&chain.excess()) {
            true => Ok(()),
            false => Err(Reason::Correction),
        }
    }

    /// Returns true if the correction of a Sync is permitted; no signature covers it. With the
    /// strict policy it must be zero. With the mixed policy it must not reduce the sum, and must be
    /// within the budget together with the remainder.
    fn fits(&self, chain: &Chain<'_>, sync: &SyncFacts) -> bool {
        match self.policy {
            Policy::Mixed { budget } => {
                sync.correction >= TimeInterval::ZERO && sync.correction + chain.excess() <= budget
            }
            _ => sync.correction == TimeInterval::ZERO,
        }
    }

    fn key(&self, clock: ClockIdentity, epoch: u8) -> Option<&PublicKey> {
        self.ring.member(clock, epoch).map(|member| &member.key)
    }

    fn holds(&self, chain: &Chain<'_>, sync: &SyncFacts) -> bool {
        let (links, _) = chain.links(sync, self.me);
        let epoch = chain.tlv.head.key_epoch;
        if chain.is_aggregate() {
            return self.aggregate_holds(chain, &links, epoch);
        }
        let keys: Option<Vec<_>> = links
            .iter()
            .map(|link| self.key(link.clock, epoch))
            .collect();
        let Some(keys) = keys else { return false };
        let texts: Vec<&[u8]> = links.iter().map(|link| &link.text[..]).collect();
        let signatures: Vec<_> = links.iter().map(|link| link.signature).collect();
        verify_batch(&signatures, &texts, &keys)
    }

    /// Returns the place between the last invalid signature and the first valid one. If there are
    /// several Syncs, returns the place that is furthest upstream.
    fn locate(&self, chain: &Chain<'_>) -> Suspect {
        let upstream = Suspect {
            after: self.upstream,
            before: self.me,
        };
        let epoch = chain.tlv.head.key_epoch;
        let first = chain.unsigned_front();
        let mut best: Option<(usize, Suspect)> = None;
        for sync in &self.syncs {
            let (links, _) = chain.links(sync, self.me);
            let suspect_at = |broken: usize| Suspect {
                after: links.get(broken).map(|link| link.clock),
                before: links.get(broken + 1).map_or(self.me, |link| link.clock),
            };
            if chain.is_aggregate() {
                // A restarted chain identifies the place only if the chain itself is valid.
                let signed = links.get(first..).unwrap_or(&[]);
                if first > 0 && self.aggregate_holds(chain, signed, epoch) {
                    return suspect_at(first - 1);
                }
                continue;
            }
            let holds = |at: usize, link: &Link<'_>| {
                at >= first
                    && self
                        .key(link.clock, epoch)
                        .is_some_and(|key| key.verify(&link.text, link.signature))
            };
            match links
                .iter()
                .enumerate()
                .rposition(|(at, link)| !holds(at, link))
            {
                // If all signatures are valid, the last hop is responsible for implausible values.
                None => return self.implausible(chain).unwrap_or(upstream),
                Some(broken) if best.is_none_or(|(least, _)| broken < least) => {
                    best = Some((broken, suspect_at(broken)));
                }
                Some(_) => {}
            }
        }
        match best {
            Some((_, suspect)) => suspect,
            None if chain.is_aggregate() => Suspect {
                after: None,
                before: self.me,
            },
            None => upstream,
        }
    }

    fn aggregate_holds(&self, chain: &Chain<'_>, links: &[Link<'_>], epoch: u8) -> bool {
        let part = |link| {
            let Link {
                clock, port, text, ..
            }: &Link<'_> = link;
            Some(Part {
                key: self.key(*clock, epoch)?,
                port: *port,
                text,
            })
        };
        let parts: Option<Vec<_>> = links.iter().map(part).collect();
        parts.is_some_and(|parts| {
            !parts.is_empty() && verify_aggregate(chain.tlv.signature(), &chain.moment(), &parts)
        })
    }

    /// Returns the hop whose signed contribution exceeds the limits, if any.
    fn implausible(&self, chain: &Chain<'_>) -> Option<Suspect> {
        let range = self.limits.min_contribution..=self.limits.max_contribution;
        let at = chain
            .hops
            .iter()
            .position(|(_, entry, _)| !range.contains(&entry.contribution))?;
        let next = chain
            .hops
            .get(at + 1)
            .and_then(|(clock, ..)| *clock)
            .unwrap_or(self.me);
        Some(Suspect {
            after: chain.hops[at].0,
            before: next,
        })
    }
}
