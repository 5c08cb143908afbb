//! Delay_Req and Delay_Resp: the end-to-end mechanism (13.6 and 13.8).

use crate::{EmitError, ParseError, PortIdentity, Reader, Timestamp, Writer};

/// Request of a slave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayReq {
    /// 0, or an estimate of the departure within ± 1 s.
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

/// Response of the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayResp {
    /// Arrival time of the Delay_Req at the master.
    pub receive: Timestamp,
    /// Port that sent the Delay_Req; the message is multicast.
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
