//! IEEE 1588 message formats, without allocation.
//!
//! Each message type has its own file, and so has each TLV. Parts of fixed length are owned, `Copy`
//! structures. Parts of variable length (the TLVs) stay views on the received bytes, so that a
//! transparent clock forwards unknown parts unchanged. `emit` methods write into a slice and return
//! the length.
//!
//! This crate only converts formats: it keeps no protocol state, opens no sockets and reads no
//! clock. Its callers are `timeloom-ptp` and the programs.
//!
//! Two rules apply to every file:
//!
//! - A message ends according to its `messageLength` (IEEE 1588-2008, 13.3.2.4), never at the end
//!   of the frame: Ethernet pads short frames, and PRP appends a trailer.
//! - Reserved fields are read but not validated, and written as zero (7.1.4), except for those that
//!   a transparent clock must pass on.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
// Conversions state their result (see `timeloom_time::convert`). Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod bytes;
mod error;
mod ethernet;
mod flags;
mod header;
mod identity;
mod interval;
mod ip;
mod quality;
mod stamp;
mod sync_record;
mod timestamp;
mod udp;
mod verdict;

pub mod message;
pub mod tlv;

pub use bytes::{Reader, Writer};
pub use error::{EmitError, ParseError};
pub use ethernet::{ETHERTYPE_PTP, EthernetFrame, MacAddress, VlanTag};
pub use flags::Flags;
pub use header::{Header, MessageType, Version};
pub use identity::{ClockIdentity, PortIdentity};
pub use interval::{NoInterval, TimeInterval};
pub use message::{Body, Message};
pub use quality::ClockQuality;
pub use stamp::{Hardware, Stamp};
pub use sync_record::SyncRecord;
pub use timestamp::Timestamp;
pub use udp::{UDP_EVENT_PORT, UDP_GENERAL_PORT, UdpDatagram, UdpFamily};
pub use verdict::{NoVerdict, SyncVerdict};
