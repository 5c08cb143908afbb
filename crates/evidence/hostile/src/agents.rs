//! Untrusted input of distributed scenarios: messages between a run and its agents, links between
//! machines, and the pause bus.

use std::fs;
use std::path::Path;

use timeloom_time::Instant;

use crate::runs::place;
use crate::split;

/// Tests the bytes that an agent receives at its port: from a peer without the key, and from a run
/// with the key, with a plan and its files.
///
/// Input: frames, each with one byte for the kind, two for the length (big-endian), and the
/// content.
pub(crate) fn hears(input: &[u8]) {
    timeloom_run::fuzzing::unsealed(input);
    beside_nothing(|inside| {
        fs::create_dir(inside).expect("an empty place");
        timeloom_run::fuzzing::to_agent(&frames(input), inside);
    });
}

/// Tests the bytes that a run receives from an agent with the key, with the agent's results.
///
/// Input: frames, as for [`hears`].
pub(crate) fn results(input: &[u8]) {
    beside_nothing(|inside| timeloom_run::fuzzing::from_agent(&frames(input), inside));
}

/// Tests the bytes that an agent that acts in turns receives from another agent with the key.
///
/// Input: frames, as for [`hears`].
pub(crate) fn peer(input: &[u8]) {
    timeloom_run::fuzzing::from_peer(&frames(input));
}

fn frames(mut input: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let [kind, high, low, rest @ ..] = input {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (content, rest) = rest.split_at(length.min(rest.len()));
        frames.push((*kind, content));
        input = rest;
    }
    frames
}

/// Checks that `read` changes nothing in a directory except a single entry with a given name.
fn beside_nothing(read: impl FnOnce(&Path)) {
    let place = place();
    let around = place.join("agent");
    let _ = fs::remove_dir_all(&around);
    fs::create_dir_all(&around).expect("there is room for a directory");
    fs::write(around.join("beside"), "as it was").expect("there is room for a small file");
    read(&around.join("inside"));
    let names = fs::read_dir(&around).expect("ours");
    let others = names.filter(|entry| entry.as_ref().expect("ours").file_name() != "inside");
    assert_eq!(others.count(), 1, "something new lies beside");
    let beside = fs::read(around.join("beside")).expect("it is still there");
    assert_eq!(beside, b"as it was");
    fs::remove_dir_all(&around).expect("ours");
}

/// Tests the bytes that arrive from another machine through a tunnel: a datagram, and the frames of
/// a link.
///
/// Input: the datagram. The same bytes are parsed again: 8 bytes for the link's rate
/// (little-endian; 0 for none), then frames of 17 bytes (8 for a number, 8 for the departure, one
/// for the length).
pub(crate) fn tunnel(input: &[u8]) {
    timeloom_emulation::fuzzing::datagram(input);
    let (rate, frames) = split::<8>(input);
    let rate = Some(u64::from_le_bytes(rate)).filter(|rate| *rate != 0);
    let frame = |bytes: &[u8]| {
        let (number, rest) = split::<8>(bytes);
        let (at_ns, rest) = split::<8>(rest);
        let at = Instant::from_ns(i64::from_le_bytes(at_ns));
        (u64::from_le_bytes(number), at, rest[0])
    };
    let frames: Vec<_> = frames.chunks_exact(17).map(frame).collect();
    timeloom_emulation::fuzzing::line(&frames, rate);
}

/// Tests the bytes that a host on the pause bus receives.
///
/// Input: a datagram. The same bytes are parsed again as messages of a host with the key: one byte
/// that is not zero if the hold of a silent host is released; then, for each datagram, one byte of
/// milliseconds, one for a local event, and the datagram.
pub(crate) fn pause_bus(input: &[u8]) {
    timeloom_bus::fuzzing::unsealed(input);
    let ([release], said) = split::<1>(input);
    let said = said.chunks(2 + DATAGRAM_BYTES).map(|said| {
        let ([ms, happens], datagram) = split::<2>(said);
        (ms, happens, datagram)
    });
    timeloom_bus::fuzzing::member(release & 1 == 1, said);
}

/// Length of a datagram without the authentication code, in bytes.
const DATAGRAM_BYTES: usize = 120;
