//! The Internet checksum (RFC 1071).

use timeloom_time::convert::low_u16;

/// Sum of 16-bit words; the carries are added when the checksum is taken.
#[derive(Default)]
pub(crate) struct Checksum(u32);

impl Checksum {
    pub(crate) fn add(mut self, bytes: &[u8]) -> Self {
        let (words, odd) = bytes.as_chunks::<2>();
        for word in words {
            self.0 += u32::from(u16::from_be_bytes(*word));
        }
        if let [last] = odd {
            self.0 += u32::from(*last) << 8;
        }
        self
    }

    pub(crate) fn finish(self) -> u16 {
        let once = (self.0 & 0xffff) + (self.0 >> 16);
        let twice = (once & 0xffff) + (once >> 16);
        !low_u16(u64::from(twice))
    }
}
