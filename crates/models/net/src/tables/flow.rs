//! A TCP flow.

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;
use crate::tcp::{Receiver, Sender};

/// A TCP flow: both ends, and their appointments.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) segment_bytes: u16,
    pub(crate) start: Instant<Virtual>,
    /// The earliest appointment made for each end. Deadlines mostly move away,
    /// so there is one appointment, kept late, instead of one per packet.
    pub(crate) sender_timer: Instant<Virtual>,
    pub(crate) receiver_timer: Instant<Virtual>,
}
