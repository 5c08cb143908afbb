//! Datagram between two engines: a header, packets, and a seal.
//!
//! | bytes | content |
//! |---|---|
//! | 0–1 | `TP` |
//! | 2 | version, 1 |
//! | 3 | flags: 1 hello, 2 farewell, 4 payload compressed, 8 encrypted |
//! | 4–7 | number of the sending and of the receiving engine |
//! | 8–23 | their epochs (start times), 0 if unknown |
//! | 24–31 | number of the datagram within the epoch |
//! | 32– | packets: see [`DatagramBody`] |
//! | last 16 | seal of all bytes before it: keyed BLAKE3, or the tag of the cipher ([`Key`]) |
//!
//! Numbers are little-endian. Every datagram contains the receiver's epoch, so that a datagram
//! recorded before the receiver's restart is rejected.

use timeloom_net::{Owner, Packet, PacketKind};
use timeloom_time::{Instant, Virtual};

use crate::peering::codec::{DecodeError, Decoder, Encoder, Statics};
pub use crate::peering::key::Key;
use crate::peering::key::SEAL;
use crate::peering::varint::{put, put_signed, take, take_signed};

/// Length of the header in bytes.
const HEADER: usize = 32;
/// Length of a datagram without packets, in bytes.
pub const OVERHEAD: usize = HEADER + SEAL;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramHeader {
    /// True if the datagram is a greeting without packets.
    pub hello: bool,
    /// True if the sender leaves.
    pub farewell: bool,
    /// True if the payload of real packets is compressed.
    pub compressed: bool,
    /// Number of the sending engine.
    pub from: Owner,
    /// Number of the receiving engine.
    pub to: Owner,
    /// Epoch (start time) of the sender.
    pub from_epoch: u64,
    /// Epoch of the receiver, as last known to the sender; 0 if unknown.
    pub to_epoch: u64,
    /// Number of this datagram within the sender's epoch.
    pub number: u64,
}

impl DatagramHeader {
    /// Appends a sealed datagram with this header and body to `out`. The datagram is padded to
    /// `padded` bytes if it is shorter.
    pub fn write(&self, body: &[u8], padded: usize, key: &Key, out: &mut Vec<u8>) {
        let start = out.len();
        let bits = [self.hello, self.farewell, self.compressed, key.encrypts()];
        let flags = bits
            .iter()
            .enumerate()
            .map(|(bit, set)| u8::from(*set) << bit);
        out.extend_from_slice(b"TP\x01");
        out.push(flags.sum());
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.to.to_le_bytes());
        out.extend_from_slice(&self.from_epoch.to_le_bytes());
        out.extend_from_slice(&self.to_epoch.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(body);
        let length = (out.len() - start).max(padded.saturating_sub(SEAL));
        out.resize(start + length, 0);
        let (head, body) = out[start..].split_at_mut(HEADER);
        let seal = key.close(self, head, body);
        out.extend_from_slice(&seal);
    }

    /// Parses a datagram for engine `here` from engine `from` and returns its header and body. If
    /// the body was encrypted, it is decrypted into `plain`. Returns `None` if the bytes are not
    /// such a datagram, if the seal is invalid, or if the key requires encryption and the datagram
    /// is not encrypted.
    pub fn read<'a>(
        bytes: &'a [u8],
        here: Owner,
        from: Owner,
        key: &Key,
        plain: &'a mut Vec<u8>,
    ) -> Option<(Self, &'a [u8])> {
        if bytes.len() < OVERHEAD || !bytes.starts_with(b"TP\x01") || bytes[3] > 15 {
            return None;
        }
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("a whole header");
            u64::from_le_bytes(*bytes)
        };
        let header = Self {
            hello: bytes[3] & 1 != 0,
            farewell: bytes[3] & 2 != 0,
            compressed: bytes[3] & 4 != 0,
            from: (word(0) >> 32) as u16,
            to: (word(0) >> 48) as u16,
            from_epoch: word(8),
            to_epoch: word(16),
            number: word(24),
        };
        // Cheap checks come first, so that a flood does not cost a hash per datagram.
        let encrypted = bytes[3] & 8 != 0;
        let is_theirs = header.to == here && header.from == from && header.from_epoch != 0;
        if !is_theirs || encrypted != key.encrypts() {
            return None;
        }
        let (sealed, seal) = bytes.split_last_chunk()?;
        let (head, body) = sealed.split_at(HEADER);
        let body = key.open(&header, (head, body), seal, plain)?;
        Some((header, body))
    }
}

/// Body of a datagram under construction. It consists of the number of packets, the first instant,
/// the payload length of real packets (and the compressed length if it is compressed), the records,
/// and the payload.
#[derive(Clone, Debug, Default)]
pub struct DatagramBody {
    encoder: Encoder,
    records: Vec<u8>,
    payload: Vec<u8>,
    packed: Vec<u8>,
    base: i64,
    count: u64,
}

/// Maximum length of the numbers before the records, in bytes: count, instant and two lengths.
const PREFIX: usize = 5 + 10 + 3 + 3;

impl DatagramBody {
    /// Adds a packet. `bytes` are the payload of a real packet, and are empty for others.
    #[inline]
    pub fn put(&mut self, packet: &Packet, bytes: &[u8], statics: &Statics) {
        if self.count == 0 {
            self.base = packet.at.as_ns();
            self.encoder.begin(packet.at);
        }
        self.count += 1;
        self.encoder.put(packet, statics, &mut self.records);
        if packet.kind == PacketKind::Raw {
            self.payload.extend_from_slice(bytes);
        }
    }

    /// Returns the number of packets added so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns an upper bound of the body's length, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        PREFIX + self.records.len() + self.payload.len()
    }

    /// Returns true if no packet was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the body to `out` and clears it. Returns true if the payload was compressed, which
    /// happens if `compress` is true and compression makes it shorter.
    pub fn finish(&mut self, compress: bool, out: &mut Vec<u8>) -> bool {
        let worth = compress && self.payload.len() >= WORTH_TRYING;
        if worth {
            let most = lz4_flex::block::get_maximum_output_size(self.payload.len());
            self.packed.resize(most, 0);
            let length = lz4_flex::block::compress_into(&self.payload, &mut self.packed);
            self.packed.truncate(length.unwrap_or(most));
        }
        let pays = worth && self.packed.len() * 10 <= self.payload.len() * 9;
        put(out, self.count);
        put_signed(out, self.base);
        put(out, self.payload.len() as u64);
        if pays {
            put(out, self.packed.len() as u64);
        }
        out.extend_from_slice(&self.records);
        out.extend_from_slice(if pays { &self.packed } else { &self.payload });
        self.records.clear();
        self.payload.clear();
        self.count = 0;
        pays
    }
}

/// Payload length in bytes below which compression costs more time than it saves.
const WORTH_TRYING: usize = 128;

/// Reader of the bodies of received datagrams.
#[derive(Clone, Debug, Default)]
pub struct DatagramReader {
    decoder: Decoder,
    packets: Vec<Packet>,
    payload: Vec<u8>,
}

impl DatagramReader {
    /// Calls `act` with each packet of a body and its payload. If the body is invalid, `act` is not
    /// called at all.
    ///
    /// # Errors
    ///
    /// Fails if the body is invalid.
    pub fn read(
        &mut self,
        mut body: &[u8],
        compressed: bool,
        statics: &Statics,
        mut act: impl FnMut(&Packet, &[u8]),
    ) -> Result<u64, DecodeError> {
        let bytes = &mut body;
        let count = take(bytes)?;
        let base: Instant<Virtual> = Instant::from_ns(take_signed(bytes)?);
        let length = usize::try_from(take(bytes)?).map_err(|_| DecodeError)?;
        let packed = if compressed {
            take(bytes)? as usize
        } else {
            length
        };
        // A record has at least three bytes, and the payload of a datagram at most 64 KiB.
        if count > bytes.len() as u64 || length > 1 << 16 {
            return Err(DecodeError);
        }
        self.packets.clear();
        self.decoder.begin(base);
        let mut carried = 0;
        for _ in 0..count {
            let packet = self.decoder.take(bytes, statics)?;
            if packet.kind == PacketKind::Raw {
                carried += usize::from(packet.size);
            }
            self.packets.push(packet);
        }
        if carried != length || packed > bytes.len() {
            return Err(DecodeError);
        }
        let mut rest = &bytes[..packed];
        if compressed {
            self.payload.resize(length, 0);
            let written = lz4_flex::block::decompress_into(rest, &mut self.payload);
            if written.ok() != Some(length) {
                return Err(DecodeError);
            }
            rest = &self.payload;
        }
        for packet in &self.packets {
            let own = match packet.kind {
                PacketKind::Raw => usize::from(packet.size),
                _ => 0,
            };
            let (own, after) = rest.split_at(own);
            rest = after;
            act(packet, own);
        }
        Ok(count)
    }
}
