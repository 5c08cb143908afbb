//! What `timeloom-hostile` calls, and by it the fuzzers in `fuzz/`: the stream between a
//! guest and its host, and what an emulator says, with what must hold of them. Not for
//! programs.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frames::{frame, message};
use crate::monitor;
use crate::{Frames, FromGuest, FromHost, MOST_FRAME_BYTES};

/// A stream as it comes, in pieces of `piece` bytes: it has the frames that it has in one
/// piece, and a message in one of them, from either side, is written and read the same.
///
/// # Panics
/// When that does not hold.
pub fn stream(bytes: &[u8], piece: usize) {
    let found = frames(bytes, bytes.len());
    assert_eq!(found, frames(bytes, piece), "in pieces of {piece}");
    for bytes in found.iter().flatten() {
        assert!(!bytes.is_empty() && bytes.len() <= MOST_FRAME_BYTES && !bytes.contains(&0));
        reads_again::<FromGuest>(bytes);
        reads_again::<FromHost>(bytes);
    }
}

/// What an emulator says through its monitor: no line counts for more than one move of
/// the counter, and where all was understood, so is what comes after it.
///
/// # Panics
/// When that does not hold.
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

/// The frames of a stream; `None` for those that were too long.
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
        // Numbers may be written at greater length than they came.
        [None] => assert!(written.len() > MOST_FRAME_BYTES),
        other => panic!("{said:?} is no frame: {other:?}"),
    }
}
