//! Token bucket (`tbf`) that limits the rate of a link.
//!
//! `tbf` passes frames while there are tokens and queues the rest. Tokens arrive at the link's
//! rate, and the bucket holds tokens for up to `burst` bytes. This module encodes the attributes
//! itself, because the packet crate has no tbf. The layouts are those of `struct tc_ratespec`,
//! `struct tc_tbf_qopt` and `TCA_TBF_*` in linux/pkt_sched.h.
//!
//! Three parameters determine how similar a link is to an Ethernet port:
//!
//! - **Overhead.** A wire also carries checksum, preamble and interframe gap, and short frames are
//!   padded. With [`OVERHEAD_BYTES`] and [`SMALLEST_SLOT_BYTES`] the kernel accounts for them, so
//!   that a 10 Mbit/s link gives TCP 9.4 Mbit/s, like a real one.
//! - **Burst.** The bucket must hold tokens for a whole frame, or that frame is dropped. It should
//!   hold no more, since every spare token lets a frame pass faster than on the wire. But if the
//!   timer that releases a frame is late, tokens that arrive at a full bucket are lost, and
//!   throughput with them. The size is therefore one frame, plus the tokens that arrive in
//!   [`SLACK_US`].
//! - **Queue.** Frames that arrive at a full queue are dropped. A switch port buffers
//!   [`PORT_QUEUE_MS`] of its rate, within bounds. A host queues a thousand frames, as Linux does
//!   in front of any network card: its own programs are throttled by their sockets instead of
//!   losing data. (With a short queue, a TCP connection would sometimes lose 180 segments at its
//!   start before they left the host.)
//!
//! A frame that arrives at a full bucket is sent at once, and not after its own serialisation time.
//! The link therefore has the rate of a wire, but not its serialisation delay for the first frame
//! after a pause.

use netlink_packet_core::DefaultNla;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// The three parameters of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    bytes_per_s: u64,
    burst_bytes: u32,
    queue_bytes: u32,
}

/// Kind of node whose frames are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueOf {
    /// Host or field device.
    Station,
    /// Port of a switch.
    Port,
}

/// Returns the number of bytes that can be queued for a link of this rate before frames are
/// dropped. `None` means that the link is as fast as the machine. `is_station` is true for a host
/// or field device, and false for the port of a switch.
pub fn queue_bytes(rate_bits_per_s: Option<u64>, is_station: bool) -> usize {
    let queue = match is_station {
        true => QueueOf::Station,
        false => QueueOf::Port,
    };
    let rate = rate_bits_per_s.unwrap_or(u64::MAX);
    Bucket::new(rate, queue).queue_bytes as usize
}

/// Returns the number of bytes that a link of this rate passes at once after a pause.
pub fn burst_bytes(rate_bits_per_s: Option<u64>) -> usize {
    let rate = rate_bits_per_s.unwrap_or(u64::MAX);
    Bucket::new(rate, QueueOf::Station).burst_bytes as usize
}

impl Bucket {
    fn new(rate_bits_per_s: u64, queue: QueueOf) -> Self {
        let bytes_per_s = rate_bits_per_s / 8;
        let slack_bytes = saturate(bytes_per_s.saturating_mul(SLACK_US) / 1_000_000);
        let port_bytes = saturate(bytes_per_s.saturating_mul(PORT_QUEUE_MS) / 1_000);
        Self {
            bytes_per_s,
            burst_bytes: LARGEST_FRAME_BYTES.saturating_add(slack_bytes),
            queue_bytes: match queue {
                QueueOf::Station => STATION_QUEUE_BYTES,
                QueueOf::Port => port_bytes.clamp(LEAST_PORT_BYTES, MOST_PORT_BYTES),
            },
        }
    }

    fn options(self) -> Vec<TcOption> {
        let option = |kind, value: &[u8]| TcOption::Other(DefaultNla::new(kind, value.to_vec()));
        vec![
            option(TCA_TBF_PARMS, &self.qopt()),
            option(TCA_TBF_RATE64, &self.bytes_per_s.to_ne_bytes()),
            option(TCA_TBF_BURST, &self.burst_bytes.to_ne_bytes()),
        ]
    }

    /// Returns `struct tc_tbf_qopt`: two `tc_ratespec` (rate and peak rate) and three `u32` (queue
    /// limit, bucket depth, peak bucket). Depth and rate are in separate attributes, which do not
    /// overflow at 4 GB/s.
    fn qopt(self) -> [u8; QOPT_LEN] {
        let mut bytes = [0; QOPT_LEN];
        // A ratespec has the fields cell_log u8, linklayer u8, overhead u16, cell_align i16, mpu
        // u16 and rate u32. If the link layer is not "unaware", the kernel computes durations
        // itself and does not require a table.
        bytes[1] = TC_LINKLAYER_ETHERNET;
        bytes[2..4].copy_from_slice(&OVERHEAD_BYTES.to_ne_bytes());
        bytes[6..8].copy_from_slice(&SMALLEST_SLOT_BYTES.to_ne_bytes());
        bytes[8..12].copy_from_slice(&saturate(self.bytes_per_s).to_ne_bytes());
        bytes[24..28].copy_from_slice(&self.queue_bytes.to_ne_bytes());
        bytes
    }
}

/// Returns the request that adds a token bucket of this rate to an interface.
pub(crate) fn shape(interface: u32, rate_bits_per_s: u64, queue: QueueOf) -> RouteNetlinkMessage {
    let mut message = TcMessage::default();
    message.header.family = AddressFamily::Unspec;
    message.header.index = interface.cast_signed();
    message.header.handle = TcHandle { major: 1, minor: 0 };
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![
        TcAttribute::Kind("tbf".to_owned()),
        TcAttribute::Options(Bucket::new(rate_bits_per_s, queue).options()),
    ];
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Overhead of a frame on the wire: frame check sequence 4, preamble and start delimiter 8, gap 12.
const OVERHEAD_BYTES: u16 = 24;
/// Bytes that the shortest frame occupies on the wire: 64, with preamble and gap.
const SMALLEST_SLOT_BYTES: u16 = 84;
/// Length of the longest frame: 1500 bytes and an Ethernet header with one VLAN tag.
const LARGEST_FRAME_BYTES: u32 = 1518;
/// Lateness of a timer that does not reduce the throughput. Softirqs of a busy machine are rarely
/// later.
const SLACK_US: u64 = 1_000;
const PORT_QUEUE_MS: u64 = 50;
/// Minimum queue of a port: 64 full frames, so that a slow link still accepts a burst of requests.
const LEAST_PORT_BYTES: u32 = 64 * LARGEST_FRAME_BYTES;
const MOST_PORT_BYTES: u32 = 1 << 20;
const STATION_QUEUE_BYTES: u32 = 1000 * LARGEST_FRAME_BYTES;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const QOPT_LEN: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_holds_a_frame_and_a_millisecond() {
        for (rate, burst, queue) in [
            (9_600, 1_519, LEAST_PORT_BYTES),
            (10_000_000, 2_768, LEAST_PORT_BYTES),
            (100_000_000, 14_018, 625_000),
            (1_000_000_000, 126_518, MOST_PORT_BYTES),
        ] {
            let bucket = Bucket::new(rate, QueueOf::Port);
            assert_eq!(
                (bucket.burst_bytes, bucket.queue_bytes),
                (burst, queue),
                "{rate}"
            );
        }
        assert_eq!(
            Bucket::new(u64::MAX, QueueOf::Station).burst_bytes,
            u32::MAX
        );
    }

    #[test]
    fn rates_beyond_32_bits_go_into_the_wide_attribute() {
        let bucket = Bucket::new(100_000_000_000, QueueOf::Port);
        assert_eq!(bucket.qopt()[8..12], u32::MAX.to_ne_bytes());
        assert_eq!(bucket.bytes_per_s, 12_500_000_000);
    }
}
