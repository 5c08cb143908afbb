//! Receiving half of the stream from another agent.

use std::io;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration as StdDuration;

use timeloom_time::Instant;

use super::arrivals::Arrival;
use super::message::PeerMessage;
use super::{AgentTurns, meeting};
use crate::channel::{Content, Receiver};

/// Receives from agent `from` until its stream ends.
pub(super) fn listen(
    own: &Weak<AgentTurns>,
    from: usize,
    mut receiver: Receiver,
    patience: StdDuration,
) {
    // The peer sends signs of life once it has connected to all agents.
    let mut limit = Some(meeting::TOGETHER_WITHIN);
    let failed = loop {
        let limited = limit.take().map(|limit| receiver.patience(Some(limit)));
        let content = limited.unwrap_or(Ok(())).and_then(|()| receiver.any());
        let Some(own) = own.upgrade() else { return };
        let heard = content.map_err(|error| describe(&error));
        let heard = heard.and_then(|content| own.heard(from, content));
        if let Err(fault) = heard {
            break fault;
        }
        if let Err(error) = receiver.patience(Some(patience)) {
            break describe(&error);
        }
    };
    if let Some(own) = own.upgrade() {
        own.lost(from, &failed);
    }
}

impl AgentTurns {
    /// Records that the stream to agent `number` has ended.
    pub(super) fn lost(&self, number: usize, reason: &str) {
        self.sampled(number, None);
        self.user_holds.release_all_of(number);
        let mut state = self.lock();
        state.stops.remove(&number);
        self.stop_at_first(&mut state);
        let is_expected = state.turns.has_left(number) || self.has_ended.load(Ordering::SeqCst);
        if !is_expected {
            let fault = format!("agent {}: {reason}", self.names[number]);
            state.fault.get_or_insert(fault);
        }
        drop(state);
        if let Some(outbox) = self.outbox(number) {
            outbox.hang_up();
        }
    }

    /// Processes a message of agent `from`.
    ///
    /// # Errors
    /// Returns a text if the message violates the protocol.
    pub(super) fn heard(&self, from: usize, content: Content) -> Result<(), String> {
        let message = match content {
            Content::Bytes(bytes) => {
                let arrival = Arrival::Frame(bytes);
                return self.lock().arrivals.add(from, arrival);
            }
            Content::Message(text) => serde_json::from_slice(&text).map_err(|it| it.to_string())?,
        };
        match message {
            PeerMessage::Hello { .. } => Err("it introduced itself twice".to_owned()),
            PeerMessage::Beat => Ok(()),
            PeerMessage::Ask => {
                let mut state = self.lock();
                state.asking.insert(from);
                if state.mine().is_some() {
                    state.give_turn(from);
                }
                Ok(())
            }
            PeerMessage::Sample(sample) => {
                self.sampled(from, Some(sample));
                Ok(())
            }
            PeerMessage::Hold { number, reason } => {
                let requester = format!("agent {}", self.names[from]);
                self.user_holds.hold((from, number), &requester, &reason)
            }
            PeerMessage::Release { number } => {
                self.user_holds.release((from, number));
                Ok(())
            }
            PeerMessage::StopAt { at_ns } => {
                self.stop_here(from, at_ns.map(Instant::from_ns));
                Ok(())
            }
            PeerMessage::Ready { program, at_ns } => {
                let arrival = Arrival::Ready(program, Instant::from_ns(at_ns));
                self.lock().arrivals.add(from, arrival)
            }
            PeerMessage::End(end) => {
                let mut state = self.lock();
                state.arrivals.end(from, end.turn);
                state.asking.remove(&from);
                let had = state.turns.mine().is_some();
                let heard = state.turns.heard(from, end.into());
                heard.map_err(|fault| fault.to_string())?;
                if !had {
                    self.begin_turn_if_mine(&mut state);
                }
                Ok(())
            }
        }
    }
}

/// Returns the text of an error of a stream.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it has been silent for longer than placement.patience".to_owned()
        }
        io::ErrorKind::UnexpectedEof => "it closed the connection before the end".to_owned(),
        _ => error.to_string(),
    }
}
