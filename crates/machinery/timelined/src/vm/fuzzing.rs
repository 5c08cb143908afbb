//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`. They parse untrusted bytes and
//! check invariants, for the stream between a guest and its host, and for the messages of an
//! emulator. Not a public API.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::vm::frames::{frame, message};
use crate::vm::monitor;
use crate::vm::{Frames, FromGuest, FromHost, MOST_FRAME_BYTES};

/// Parses a stream in pieces of `piece` bytes. The result must have the same frames as if the
/// stream is parsed at once. A message of either side must be unchanged after encoding and
/// decoding.
///
/// # Panics
/// Panics if one of these invariants is violated.
pub fn stream(bytes: &[u8], piece: usize) {
    let found = frames(bytes, bytes.len());
    assert_eq!(found, frames(bytes, piece), "in pieces of {piece}");
    for bytes in found.iter().flatten() {
        assert!(!bytes.is_empty() && bytes.len() <= MOST_FRAME_BYTES && !bytes.contains(&0));
        reads_again::<FromGuest>(bytes);
        reads_again::<FromHost>(bytes);
    }
}

/// Parses the messages of an emulator's monitor. A line may cause at most one report that the
/// counter was displaced. If the input is valid and ends with a whole line, further valid input
/// must be understood.
///
/// # Panics
/// Panics if one of these invariants is violated.
pub fn monitor(said: &[u8]) {
    let moves = |said: &[u8]| {
        let mut moves = 0;
        let heard = monitor::follow(said, &mut || moves += 1);
        (moves, heard.is_ok())
    };
    let (before, all) = moves(said);
    assert!(before <= said.split(|&byte| byte == b'\n').count());
    if all && (said.is_empty() || said.ends_with(b"\n")) {
        let more = [
            said,
            b"{\"event\":\"RESUME\"}\n{\"event\":\"VNC_CONNECTED\"}\n",
        ]
        .concat();
        assert_eq!(moves(&more), (before + 1, true));
    }
}

/// Returns the frames of a stream; `None` stands for a frame that was too long.
fn frames(bytes: &[u8], piece: usize) -> Vec<Option<Vec<u8>>> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        frames.take(piece, |frame| found.push(frame.map(<[u8]>::to_vec)));
    }
    found
}

fn reads_again<T>(bytes: &[u8])
where
    T: Serialize + DeserializeOwned + PartialEq + core::fmt::Debug,
{
    let Some(said) = message::<T>(bytes) else {
        return;
    };
    let written = frame(&said);
    match &frames(&written, written.len())[..] {
        [Some(again)] => assert_eq!(message::<T>(again), Some(said)),
        // Encoding may write numbers with more digits than were received.
        [None] => assert!(written.len() > MOST_FRAME_BYTES),
        other => panic!("{said:?} is no frame: {other:?}"),
    }
}
