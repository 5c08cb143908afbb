//! `net/LINK.pcapng`: the packets of one link, with timestamps in virtual time.
//!
//! Wireshark shows civil time, so a packet's timestamp is the session's civil start plus the
//! virtual time, in nanoseconds (`if_tsresol` 9). The wall time is in the packet's comment, which
//! tshark shows as `frame.comment`. (A custom option would need a registered enterprise number, and
//! no tool would show it.) The format is append-only, so after a kill all packets are kept except
//! the last, which may be incomplete.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use timeloom_time::{Duration, Instant, Utc, Virtual, Wall};

/// Writes the Ethernet frames of one link.
pub struct CaptureFile<W: Write = File> {
    writer: PcapNgWriter<BufWriter<W>>,
    session_start: Instant<Utc>,
    /// Instant of the last flush. Wall time limits the loss by a kill, as in the journal.
    flushed: time::Instant,
}

impl<W: Write> CaptureFile<W> {
    /// Begins a capture of `link`. `session_start` is the civil time seen by programs at virtual
    /// zero.
    pub fn new(writer: W, link: &str, session_start: Instant<Utc>) -> io::Result<Self> {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::UserApplication(Cow::from(concat!(
                    "timeloom ",
                    env!("CARGO_PKG_VERSION")
                ))),
                SectionHeaderOption::Comment(Cow::from(
                    "Packet times are virtual: the session's civil start plus virtual time. Wall time: packet comment.",
                )),
            ],
            ..Default::default()
        };
        let mut writer =
            PcapNgWriter::with_section_header(BufWriter::new(writer), section).map_err(to_io)?;
        let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, SNAPLEN_BYTES);
        interface.options = vec![
            InterfaceDescriptionOption::IfName(Cow::from(
                link.chars().take(200).collect::<String>(),
            )),
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        writer.write_pcapng_block(interface).map_err(to_io)?;
        writer.get_mut().flush()?; // an empty capture is a readable file
        Ok(Self {
            writer,
            session_start,
            flushed: time::Instant::now(),
        })
    }

    /// Writes one frame that was on the link at `t_virtual`. `note` is added to the packet's
    /// comment, for example an attack's label or an injected loss. An instant before 1970, which
    /// the format cannot hold, becomes 1970.
    pub fn packet(
        &mut self,
        t_virtual: Instant<Virtual>,
        t_wall: Instant<Wall>,
        frame: &[u8],
        note: Option<&str>,
    ) -> io::Result<()> {
        let stamp = self.session_start + Duration::from_ns(t_virtual.as_ns());
        let wall_ns = t_wall.as_ns();
        let wall = format!(
            "wall {}.{:09} s",
            wall_ns.div_euclid(1_000_000_000),
            wall_ns.rem_euclid(1_000_000_000)
        );
        let comment = match note {
            Some(note) => format!("{wall}; {}", note.chars().take(1000).collect::<String>()),
            None => wall,
        };
        let kept = &frame[..frame.len().min(SNAPLEN_BYTES as usize)];
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time::Duration::from_nanos(u64::try_from(stamp.as_ns()).unwrap_or(0)),
            original_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(kept),
            options: vec![EnhancedPacketOption::Comment(Cow::from(comment))],
        };
        self.writer.write_pcapng_block(block).map_err(to_io)?;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Passes all packets to the kernel. Dropping the writer does this too, but ignores errors.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flushed = time::Instant::now();
        self.writer.get_mut().flush()
    }
}

fn to_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Maximum stored length of a frame, in bytes. It exceeds that of any frame on a virtual link,
/// including jumbo and offloaded frames.
const SNAPLEN_BYTES: u32 = 262_144;
const FLUSH_EVERY: time::Duration = time::Duration::from_secs(2);
