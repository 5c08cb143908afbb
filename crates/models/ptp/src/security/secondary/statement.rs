//! Signed statement of one clock about one Sync.

use timeloom_wire::tlv::Suite;
use timeloom_wire::{
    ClockIdentity, EmitError, ParseError, PortIdentity, Reader, TimeInterval, Timestamp, Writer,
};

use super::super::{KeyRing, Security, ViolationKind, text};

/// Role of the clock that makes the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The grandmaster, which states the departure of the Sync.
    Origin {
        /// `preciseOriginTimestamp`.
        precise_origin: Timestamp,
        /// 48-bit sequence number.
        sequence48: u64,
    },
    /// A transparent clock, which states its contribution.
    Hop {
        /// Port by which the Sync arrived.
        ingress: u8,
        /// Port by which the Sync left.
        egress: u8,
        /// Clock at the other end of the ingress link.
        previous: ClockIdentity,
        /// Contribution of the clock to `correctionField`.
        contribution: TimeInterval,
    },
}

/// Content of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Clock that makes the statement.
    pub clock: ClockIdentity,
    /// Epoch (generation) of the clock's key.
    pub epoch: u8,
    /// Port that originated the Sync.
    pub source: PortIdentity,
    /// `domainNumber` of the Sync.
    pub domain: u8,
    /// `sequenceId` of the Sync.
    pub sequence: u16,
    /// Clock to which the Follow_Up was sent.
    pub next: ClockIdentity,
    /// Digest of Sync and Follow_Up as received; for a grandmaster, as sent.
    pub view: [u8; 8],
    /// `correctionField` of the Follow_Up that this clock sent.
    pub correction_out: TimeInterval,
    /// Role of the clock, with the data that depend on it.
    pub role: Role,
}

/// Returns a digest of the fields that no clock on the path may change. It has 64 bits, since an
/// attacker would have to find a second message with the same digest within a Sync interval.
pub(crate) fn view_of(
    domain: u8,
    source: PortIdentity,
    sequence: u16,
    precise_origin: Timestamp,
    nonce: Timestamp,
) -> [u8; 8] {
    let mut fields = vec![domain];
    text::push_port(&mut fields, source);
    fields.extend_from_slice(&sequence.to_be_bytes());
    text::push_time(&mut fields, precise_origin);
    text::push_time(&mut fields, nonce);
    let digest = text::hash(&[b"PSIG1-VW", &fields]);
    *digest.first_chunk().expect("a digest has 32 octets")
}

const MAX: usize = 160;

impl Statement {
    fn emit(&self, suite: Suite, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(1 << 4 | suite as u8)?;
        to.u8(self.epoch)?;
        to.u8(match self.role {
            Role::Origin { .. } => 1,
            Role::Hop { .. } => 2,
        })?;
        to.u8(self.domain)?;
        self.clock.emit(to)?;
        self.source.emit(to)?;
        to.u16(self.sequence)?;
        self.next.emit(to)?;
        to.put(&self.view)?;
        to.put(&self.correction_out.0.to_be_bytes())?;
        match self.role {
            Role::Origin {
                precise_origin,
                sequence48,
            } => {
                precise_origin.emit(to)?;
                to.u48(sequence48)
            }
            Role::Hop {
                ingress,
                egress,
                previous,
                contribution,
            } => {
                to.u8(ingress)?;
                to.u8(egress)?;
                previous.emit(to)?;
                to.put(&contribution.0.to_be_bytes())
            }
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<(Self, Suite), ParseError> {
        let suite = Suite::of_version_octet(from.u8()?).ok_or(ParseError::TlvValue)?;
        let epoch = from.u8()?;
        let kind = from.u8()?;
        let domain = from.u8()?;
        let clock = ClockIdentity::parse(from)?;
        let source = PortIdentity::parse(from)?;
        let sequence = from.u16()?;
        let next = ClockIdentity::parse(from)?;
        let view = from.array()?;
        let correction_out = TimeInterval(from.i64()?);
        let role = match kind {
            1 => Role::Origin {
                precise_origin: Timestamp::parse(from)?,
                sequence48: from.u48()?,
            },
            2 => Role::Hop {
                ingress: from.u8()?,
                egress: from.u8()?,
                previous: ClockIdentity::parse(from)?,
                contribution: TimeInterval(from.i64()?),
            },
            _ => return Err(ParseError::TlvValue),
        };
        Ok((
            Self {
                clock,
                epoch,
                source,
                domain,
                sequence,
                next,
                view,
                correction_out,
                role,
            },
            suite,
        ))
    }

    /// Returns the signed record for the second network: at most 130 octets with Ed25519. (The
    /// thesis has 98 to 106 octets, but signs less.)
    pub fn sign(&self, security: &Security) -> Vec<u8> {
        let mut buffer = [0; MAX];
        let mut to = Writer::new(&mut buffer);
        self.emit(security.secret.suite(), &mut to)
            .expect("a statement fits its buffer");
        let length = to.written();
        let mut record = buffer[..length].to_vec();
        let signature = security.secret.sign(&[b"PSIG1-ST", &record[..]].concat());
        record.extend_from_slice(&signature);
        record
    }

    /// Parses a record without verifying its signature.
    pub(crate) fn claim(record: &[u8]) -> Result<Self, ViolationKind> {
        let claim = Self::parse(&mut Reader::new(record)).map_err(|_| ViolationKind::Malformed)?;
        Ok(claim.0)
    }

    /// Parses a record and verifies its signature.
    pub fn verify(record: &[u8], ring: &KeyRing) -> Result<Self, ViolationKind> {
        let mut from = Reader::new(record);
        let (statement, suite) = Self::parse(&mut from).map_err(|_| ViolationKind::Malformed)?;
        let signature = from.rest();
        let said = &record[..record.len() - signature.len()];
        if !ring.is_valid(statement.epoch) {
            return Err(ViolationKind::Epoch);
        }
        let member = ring
            .member(statement.clock, statement.epoch)
            .ok_or(ViolationKind::UnknownSigner)?;
        if member.key.suite() != suite {
            return Err(ViolationKind::Suite);
        }
        if matches!(statement.role, Role::Origin { .. }) && !member.grandmaster {
            return Err(ViolationKind::NotAuthorised);
        }
        let holds = member.key.verify(&[b"PSIG1-ST", said].concat(), signature);
        if holds {
            Ok(statement)
        } else {
            Err(ViolationKind::Signature)
        }
    }
}
