//! Messages in a stream of bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of a frame.
pub const MOST_FRAME_BYTES: usize = 20 * 1024;

/// Frames of a stream: text between zero bytes, which JSON never contains.
///
/// A stream over a serial port may begin in the middle of another sender's message, and end
/// anywhere. A zero ends any partial message, so that the following one is read, and half a message
/// costs no more than itself.
#[derive(Debug, Default)]
pub struct Frames {
    pending: Vec<u8>,
    /// True if more bytes than a frame may have were received without an end.
    too_long: bool,
}

impl Frames {
    /// Processes received bytes, and passes each complete frame to `frame`; `None` for a frame that
    /// was too long.
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

    /// Discards a partial frame.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.too_long = false;
    }
}

/// Encodes a message, with a zero before and after it.
pub(crate) fn frame<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![0];
    serde_json::to_writer(&mut bytes, message).expect("messages are plain data with text keys");
    bytes.push(0);
    bytes
}

/// Decodes the message in a frame; `None` if it is not a message.
pub(crate) fn message<T: DeserializeOwned>(frame: &[u8]) -> Option<T> {
    serde_json::from_slice(frame).ok()
}
