//! Encoding of messages as packets, each of which is one JSON object.

use serde::{Deserialize, Serialize};

/// Protocol version. It is raised when an old client would misunderstand a message.
pub const VERSION: u32 = 1;

/// Maximum length of a packet, in bytes.
pub const MOST_BYTES: usize = 16 * 1024;

/// Reason why a packet is not a message, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of this protocol: {0}")]
pub struct NoMessage(pub String);

/// Encodes a message as a packet.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are plain data with text keys")
}

/// Decodes a packet.
///
/// # Errors
/// Fails if the packet is too long, not JSON, or not a message.
pub fn decode<'a, T: Deserialize<'a>>(packet: &'a [u8]) -> Result<T, NoMessage> {
    if packet.len() > MOST_BYTES {
        return Err(NoMessage(format!("{} bytes", packet.len())));
    }
    serde_json::from_slice(packet).map_err(|error| NoMessage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use timeloom_clock::quality::{Shortfall, Status};

    use super::*;
    use crate::protocol::{
        Answer, BindingEvent, DaemonMessage, PlainRequirement, Reply, Request, RequestKind,
        StampText,
    };

    fn json<T: Serialize>(message: &T) -> String {
        String::from_utf8(encode(message)).unwrap()
    }

    #[test]
    fn messages_look_as_documented() {
        let need = PlainRequirement {
            below_ns: 1000,
            above_ns: 2000,
            resolution_ns: 1,
        };
        let bind = Request {
            id: 7,
            ask: RequestKind::Bind(need),
        };
        assert_eq!(
            json(&bind),
            r#"{"id":7,"ask":"bind","below_ns":1000,"above_ns":2000,"resolution_ns":1}"#
        );
        assert_eq!(decode::<Request>(json(&bind).as_bytes()), Ok(bind));
        let open = r#"{"ask":"open","id":18446744073709551615}"#;
        let open = decode::<Request>(open.as_bytes()).unwrap();
        assert_eq!((open.id, open.ask), (u64::MAX, RequestKind::Open));
        let violated = DaemonMessage::Event(BindingEvent::Violated {
            binding: 3,
            shortfall: Shortfall::Void(Status::SourceLost).into(),
        });
        assert_eq!(
            json(&violated),
            r#"{"event":"violated","binding":3,"status":"source_lost","why":"no interval: source lost"}"#
        );
        assert_eq!(
            decode::<DaemonMessage>(json(&violated).as_bytes()),
            Ok(violated)
        );
        let stamp = DaemonMessage::Reply(Reply {
            id: 1,
            answer: Answer::Stamp(StampText {
                timeline: "0".repeat(32),
                status: Status::Disrupted,
                interval: None,
            }),
        });
        assert_eq!(decode::<DaemonMessage>(json(&stamp).as_bytes()), Ok(stamp));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let long = vec![b' '; MOST_BYTES + 1];
        let none: [&[u8]; 6] = [
            b"",
            b"{}",
            b"[1]",
            b"{\"id\":1,\"ask\":\"reboot\"}",
            b"\xff",
            &long,
        ];
        for packet in none {
            assert!(decode::<Request>(packet).is_err());
        }
        let need = PlainRequirement {
            below_ns: -1,
            above_ns: 1,
            resolution_ns: 1,
        };
        assert_eq!(need.requirement(), None);
    }
}
