//! Delay_Req and Delay_Resp: the end-to-end delay mechanism (13.6 and 13.8).

use crate::{EmitError, ParseError, PortIdentity, Reader, Timestamp, Writer};

/// A slave's request for the arrival time of this message at the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayReq {
    /// Estimate of the departure time, within ± 1 s; may be 0.
    pub origin: Timestamp,
}

impl DelayReq {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            origin: Timestamp::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.origin.emit(to)
    }
}

/// The master's response to a Delay_Req.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayResp {
    /// Arrival time of the Delay_Req at the master.
    pub receive: Timestamp,
    /// Port that sent the Delay_Req. Other slaves ignore the response, which is multicast.
    pub requesting: PortIdentity,
}

impl DelayResp {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            receive: Timestamp::parse(from)?,
            requesting: PortIdentity::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.receive.emit(to)?;
        self.requesting.emit(to)
    }
}
