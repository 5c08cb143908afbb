//! Datagram that carries a frame between machines. It contains the link, the frame's number on that
//! link, the departure time, the bytes, and a tag of the key over all of them. Streams carry the
//! same content without the tag.

use timeloom_sys::seal::{SealKey, TAG_BYTES};
use timeloom_time::{Instant, Virtual};

/// Secret key for the tunnels of a run. The key has no other use.
#[derive(Clone, Debug)]
pub struct TunnelKey(SealKey);

impl TunnelKey {
    /// Derives a key from bytes that all machines of a run share.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(SealKey::derive("timeloom tunnel 1", bytes))
    }
}

/// Content of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub(super) link: u16,
    /// End of the link that sends the datagram. A datagram that is reflected to its sender is
    /// therefore rejected.
    pub(super) end: u8,
    pub(super) number: u64,
    pub(super) at: Instant<Virtual>,
    pub(super) frame: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(super) fn seal(&self, key: &TunnelKey, out: &mut Vec<u8>) {
        self.write(out);
        close(key, out);
    }

    /// Replaces the content of `out` by this datagram without its seal.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.link.to_be_bytes());
        out.push(self.end);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.at.as_ns().to_be_bytes());
        out.extend_from_slice(self.frame);
    }

    /// Parses a datagram without its seal; `None` if it is too short.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let (link, rest) = body.split_first_chunk::<2>()?;
        let (end, rest) = rest.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (at, frame) = rest.split_first_chunk::<8>()?;
        Some(Datagram {
            link: u16::from_be_bytes(*link),
            end: *end,
            number: u64::from_be_bytes(*number),
            at: Instant::from_ns(i64::from_be_bytes(*at)),
            frame,
        })
    }
}

/// Appends the seal of all bytes in `out`.
pub(super) fn close(key: &TunnelKey, out: &mut Vec<u8>) {
    out.extend_from_slice(&key.0.tag(&[out]));
}

/// Checks the seal and parses a datagram; returns `None` if the seal does not match the key.
pub(super) fn open<'a>(key: &TunnelKey, bytes: &'a [u8]) -> Option<Datagram<'a>> {
    let (body, seal) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
    let datagram = Datagram::parse(body)?;
    key.0.verifies(&[body], seal).then_some(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_senders_with_the_key_are_heard() {
        let key = TunnelKey::new(&[1; 32]);
        let sent = Datagram {
            link: 300,
            end: 1,
            number: 7,
            at: Instant::from_ns(5),
            frame: b"a frame",
        };
        let mut bytes = Vec::new();
        sent.seal(&key, &mut bytes);
        assert_eq!(open(&key, &bytes), Some(sent));
        assert_eq!(open(&TunnelKey::new(&[2; 32]), &bytes), None);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(open(&key, &other), None, "byte {at}");
            assert_eq!(open(&key, &bytes[..at]), None, "{at} bytes");
        }
    }
}
