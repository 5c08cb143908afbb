//! Entry point for the fuzzers; see [`crate::placed::fuzzing`].

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use timeloom_time::Duration;

use super::{AgentTurns, Agents};
use crate::channel::Receiver;

/// Processes the messages of the other agent of two, until its stream ends or one of them violates
/// the protocol.
///
/// # Panics
/// Panics if the turn is that of an agent that does not exist.
pub(in crate::placed) fn hear_peer(receiver: &mut Receiver<impl io::Read>) {
    let agents = Agents {
        names: vec!["a".to_owned(), "b".to_owned()],
        ranks: vec![1],
        awaited: vec![BTreeSet::new(); 2],
        lookahead: Duration::ZERO,
    };
    let own = AgentTurns::new(1, agents, Arc::default());
    own.lock().has_met = true;
    while let Ok(content) = receiver.any() {
        if own.heard(0, content).is_err() {
            return;
        }
        let holder = own.lock().turns.holder();
        assert!(holder.is_none_or(|holder| holder < 2), "{holder:?}");
    }
}
