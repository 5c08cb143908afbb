//! Pdelay_Req, Pdelay_Resp and Pdelay_Resp_Follow_Up: the peer-delay mechanism, which measures the
//! delay of one link (IEEE 1588-2008, 13.9 to 13.11).

use crate::{EmitError, ParseError, PortIdentity, Reader, Timestamp, Writer};

/// Request to the neighbour. Ten reserved octets make the request as long as the response, so that
/// both take the same time on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdelayReq {
    /// Estimate of the departure time, within ± 1 s; may be 0.
    pub origin: Timestamp,
}

impl PdelayReq {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        let origin = Timestamp::parse(from)?;
        from.take(10)?;
        Ok(Self { origin })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.origin.emit(to)?;
        to.put(&[0; 10])
    }
}

/// The neighbour's response to a Pdelay_Req.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdelayResp {
    /// Arrival time of the request at the responder, if the responder is two-step.
    pub request_receipt: Timestamp,
    /// Port that sent the Pdelay_Req.
    pub requesting: PortIdentity,
}

impl PdelayResp {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            request_receipt: Timestamp::parse(from)?,
            requesting: PortIdentity::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.request_receipt.emit(to)?;
        self.requesting.emit(to)
    }
}

/// Precise departure time of the Pdelay_Resp before this message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdelayRespFollowUp {
    /// Departure time of the Pdelay_Resp at the responder.
    pub response_origin: Timestamp,
    /// Port that sent the Pdelay_Req.
    pub requesting: PortIdentity,
}

impl PdelayRespFollowUp {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            response_origin: Timestamp::parse(from)?,
            requesting: PortIdentity::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.response_origin.emit(to)?;
        self.requesting.emit(to)
    }
}
