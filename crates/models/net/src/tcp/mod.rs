//! TCP flows without payload: segments are numbered, and windows are counts of segments.
//!
//! A flow sends in one direction. Sender and receiver are state machines that know nothing of
//! addresses or links; [`crate::World`] carries their packets. Losses are recovered as in RFC 6675,
//! with one SACK block per acknowledgement. The window grows as in RFC 5681 (NewReno) or RFC 9438
//! (CUBIC, with HyStart++); with DCTCP it shrinks as in RFC 8257. BBR derives a window and a pace
//! from its model of the path. The retransmission timer is that of RFC 6298 with a configurable
//! minimum. Congestion marks are handled as in RFC 3168.

mod bbr;
mod board;
mod congestion;
mod cubic;
mod dctcp;
mod hystart;
mod receiver;
mod rtt;
mod sender;

pub use congestion::Control;
pub(crate) use cubic::Cubic;
pub(crate) use receiver::{Ack, Receiver};
pub(crate) use sender::{Sender, Transmit};

use timeloom_time::convert::low_u32;
use timeloom_time::{Duration, Instant, Virtual};

/// Configuration of a bulk transfer from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Congestion control.
    pub control: Control,
    /// Payload bytes per segment; 1448 fills an Ethernet packet of 1500 bytes.
    pub segment_bytes: u16,
    /// Number of segments to send; `None` for an endless flow.
    pub segments: Option<u64>,
    /// Number of segments sent before the first acknowledgement (RFC 6928: 10).
    pub initial_window: u32,
    /// Maximum number of segments in flight, as the receiver allows; rounded up to a power of two.
    /// Sender and receiver need two bits of memory for each.
    pub receive_window: u32,
    /// Minimum retransmission timeout; it is 200 ms in Linux and 1 s in RFC 6298.
    pub min_rto: Duration,
    /// True if both ends support congestion marks (RFC 3168); with DCTCP they always do. The
    /// support is not negotiated in the model.
    pub ecn: bool,
    /// Maximum delay of an acknowledgement (RFC 9293: below 500 ms; Linux: 40 ms). Every second
    /// segment is acknowledged at once.
    pub delayed_ack: Duration,
    /// Virtual instant at which the flow starts.
    pub start: Instant<Virtual>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            control: Control::NewReno,
            segment_bytes: 1448,
            segments: None,
            initial_window: 10,
            receive_window: 2048,
            min_rto: Duration::from_ms(200),
            ecn: false,
            delayed_ack: Duration::from_ms(40),
            start: Instant::ZERO,
        }
    }
}

impl TcpConfig {
    /// Returns the reason for which this flow is invalid; `None` if it is valid.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if !(1..=u16::MAX - HEADER_BYTES).contains(&self.segment_bytes) {
            return Some("a segment must have 1 to 65483 bytes");
        }
        if !(1..=1 << 20).contains(&self.receive_window) || self.initial_window == 0 {
            return Some("a window must have 1 to 2^20 segments");
        }
        let timers = [self.min_rto, self.delayed_ack];
        if timers.iter().any(|timer| *timer <= Duration::ZERO) {
            return Some("timers must be positive");
        }
        None
    }
}

/// Returns the segment number near `near` with the low 32 bits `low`. As in real TCP, packets
/// contain only those bits (RFC 9293, section 3.4). With 64 bits internally, a flow of 10 Gbit/s
/// can run for longer than an hour and a half.
#[inline]
pub(crate) fn widen(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(low_u32(near)).cast_signed();
    near.wrapping_add_signed(i64::from(ahead))
}

/// Results of a flow so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpStats {
    /// Number of payload bytes that arrived in order.
    pub delivered_bytes: u64,
    /// Number of payload bytes that have been acknowledged to the sender.
    pub acknowledged_bytes: u64,
    /// Number of retransmitted segments.
    pub retransmitted: u64,
    /// Number of times that the sender reduced its window because of congestion marks.
    pub slowed_by_marks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Present congestion window, in segments.
    pub window: f64,
    /// Smoothed round-trip time; zero before the first sample.
    pub smoothed_rtt: Duration,
    /// Instant at which the last segment was acknowledged; `None` before, and for endless flows.
    pub finished_at: Option<Instant<Virtual>>,
}

/// Length of an IPv4 header and a TCP header with timestamps, in bytes.
pub(crate) const HEADER_BYTES: u16 = 52;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_widen_on_both_sides_of_a_wrap() {
        for near in [5, 1 << 32, (7 << 32) + 3, (7 << 32) - 3] {
            for segment in [near - 4, near, near + 1_000_000] {
                assert_eq!(widen(segment as u32, near), segment);
            }
        }
    }
}
