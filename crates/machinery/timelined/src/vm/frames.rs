//! Framing of messages in a stream of bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of a frame, in bytes.
pub const MOST_FRAME_BYTES: usize = 20 * 1024;

/// Reader of the frames of a stream. A frame is text between zero bytes, which JSON never contains.
///
/// A stream over a serial port may begin in the middle of another sender's message, and may end
/// anywhere. A zero ends any partial message, so the message that follows is read. An incomplete
/// message therefore costs no other message.
#[derive(Debug, Default)]
pub struct Frames {
    pending: Vec<u8>,
    /// True if more bytes than a frame may have were received without a zero.
    too_long: bool,
}

impl Frames {
    /// Processes received bytes, and calls `frame` with each complete frame, or with `None` for a
    /// frame that was too long.
    pub fn take(&mut self, bytes: &[u8], mut frame: impl FnMut(Option<&[u8]>)) {
        let mut parts = bytes.split(|byte| *byte == 0).peekable();
        while let Some(part) = parts.next() {
            if self.pending.len() + part.len() > MOST_FRAME_BYTES {
                self.too_long = true;
                self.pending.clear();
            }
            if !self.too_long {
                self.pending.extend_from_slice(part);
            }
            if parts.peek().is_none() {
                return; // its end has not been received
            }
            if std::mem::take(&mut self.too_long) {
                frame(None);
            } else if !self.pending.is_empty() {
                frame(Some(&self.pending));
            }
            self.pending.clear();
        }
    }

    /// Discards the frame that is not complete yet.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.too_long = false;
    }
}

/// Encodes a message as a frame, with a zero before and after it.
pub(crate) fn frame<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![0];
    serde_json::to_writer(&mut bytes, message).expect("messages are plain data with text keys");
    bytes.push(0);
    bytes
}

/// Decodes the message in a frame. Returns `None` if the frame contains no valid message.
pub(crate) fn message<T: DeserializeOwned>(frame: &[u8]) -> Option<T> {
    serde_json::from_slice(frame).ok()
}
