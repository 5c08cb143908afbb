//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`. They feed untrusted bytes to
//! both sides of the conversation between a run and an agent, and check invariants. Not for
//! programs.

use std::fs;
use std::io;
use std::path::{Component, Path};
use timeloom_sys::seal::SealKey;

use serde::Serialize;
use serde::de::DeserializeOwned;
use timeloom_results::{Incoming, is_result};

use super::coordinate::{AgentEvent, listen};
use super::message::{Entry, ToAgent};
use super::serve::ready;
use super::transfer::{MOST_BYTES_IN_ALL, new_below, receive};
use super::turns::hear_peer;
use crate::channel::{Receiver, Sender};

/// Feeds the bytes of a peer without the key to a channel, which must not accept any of them.
///
/// # Panics
/// Panics if a byte is accepted.
pub fn unsealed(stream: &[u8]) {
    let heard = Receiver::with_key(stream, SealKey::new(KEY)).hear::<serde_json::Value>();
    assert!(heard.is_err(), "{heard:?}");
    let mut taken = Vec::new();
    let content = Receiver::with_key(stream, SealKey::new(KEY)).content(&mut taken, 1);
    assert!(content.is_err() && taken.is_empty(), "{taken:?}");
}

/// Feeds frames (kind, content) to an agent whose files go to the empty directory `files`. The
/// frames come from a run that has the key. The agent must either store all announced files
/// completely or refuse them, and no program of the plan may start outside that directory.
///
/// # Panics
/// Panics if this does not hold.
pub fn to_agent(frames: &[(u8, &[u8])], files: &Path) {
    let stream = sealed(frames);
    let mut receiver = Receiver::with_key(&stream[..], SealKey::new(KEY));
    let Ok(said) = receiver.hear::<ToAgent>() else {
        return;
    };
    reads_again(&said);
    let ToAgent::Prepare(prepare) = said else {
        return;
    };
    let _ = timeloom_sys::seal::parse_key(&prepare.nonce);
    let taken = receive(&mut receiver, &prepare.files, MOST_BYTES_IN_ALL, |entry| {
        new_below(files, entry)
    });
    check(taken, &prepare.files, files);
    let Ok(ready) = ready(&prepare, files) else {
        return;
    };
    for (_, program) in ready.plan.programs() {
        is_inside(&program.directory, files);
    }
    for plant in ready.plan.simulation.plants.values() {
        is_inside(&plant.directory, files);
    }
}

/// Feeds frames (kind, content) to a run whose results go to `results`, which does not exist yet.
/// The frames come from an agent that has the key. The run must either store all announced files
/// completely or refuse them.
///
/// # Panics
/// Panics if this does not hold.
pub fn from_agent(frames: &[(u8, &[u8])], results: &Path) {
    let stream = sealed(frames);
    let over = std::cell::RefCell::new(None);
    let tell = |event: AgentEvent| {
        match event {
            AgentEvent::Message(said) => reads_again(&said),
            AgentEvent::Ended(ended) => drop(over.borrow_mut().replace(ended.results)),
            AgentEvent::Gone(_) => unreachable!("only the coordinator says so"),
        }
        true
    };
    let mut receiver = Receiver::with_key(&stream[..], SealKey::new(KEY));
    let place = Incoming::at(results).expect("a directory of our own");
    let ended = listen(&mut receiver, &place, MOST_BYTES, &tell);
    let came = over.take();
    assert_eq!(ended.is_ok(), came.is_some());
    let entries = came.unwrap_or_default();
    assert!(entries.iter().all(|entry| is_result(&entry.name)));
    if results.exists() {
        check(ended, &entries, results);
    }
}

/// Feeds frames (kind, content) to an agent that acts in turns. The frames come from another agent
/// that has the key. The agent must process or refuse each of them.
///
/// # Panics
/// Panics if one of them has another effect.
pub fn from_peer(frames: &[(u8, &[u8])]) {
    let stream = sealed(frames);
    let mut receiver = Receiver::with_key(&stream[..], SealKey::new(KEY));
    hear_peer(&mut receiver);
}

/// Returns the frames with valid tags, as a stream.
fn sealed(frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut sender = Sender::with_key(&mut stream, SealKey::new(KEY));
    for (kind, content) in frames {
        let sent = sender.frame(*kind, content);
        sent.expect("it is short, and memory takes it");
    }
    stream
}

fn reads_again<M: Serialize + DeserializeOwned>(said: &M) {
    let text = serde_json::to_vec(said).expect("plain data");
    let again: M = serde_json::from_slice(&text).expect("what was written is read");
    assert_eq!(serde_json::to_vec(&again).expect("plain data"), text);
}

/// Checks that all accepted files exist, and that `root` contains nothing but directories and
/// files.
fn check(taken: io::Result<()>, entries: &[Entry], root: &Path) {
    let mut found = Vec::new();
    gather(root, &mut found);
    if taken.is_err() {
        return;
    }
    assert_eq!(found.len(), entries.len(), "{found:?} of {entries:?}");
    for entry in entries {
        assert!(
            found.contains(&(root.join(&entry.name), entry.bytes)),
            "{entry:?}"
        );
    }
}

fn gather(folder: &Path, found: &mut Vec<(std::path::PathBuf, u64)>) {
    for entry in fs::read_dir(folder).expect("ours") {
        let path = entry.expect("ours").path();
        let metadata = fs::symlink_metadata(&path).expect("ours");
        match metadata.is_dir() {
            true => gather(&path, found),
            false => {
                assert!(metadata.is_file(), "{} is no file", path.display());
                found.push((path, metadata.len()));
            }
        }
    }
}

fn is_inside(path: &Path, root: &Path) {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    assert!(path.starts_with(root) && !goes_up, "{}", path.display());
    assert!(path.is_dir(), "{} is not there", path.display());
}

const KEY: [u8; 32] = [7; 32];
/// Size limit of the results, in bytes.
const MOST_BYTES: u64 = 1 << 20;
