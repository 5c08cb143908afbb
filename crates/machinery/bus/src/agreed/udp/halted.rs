//! Text that states why a host has stopped permanently.

use timeloom_agreement::{Halt, HaltCause};
use timeloom_time::Duration;

use super::{Shared, State};
use crate::wire::HaltReason;

/// Reason why the datagrams of a host were refused.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    OtherKey,
    /// The datagram was sent this long before this host began, by the timeline.
    Earlier(Duration),
    /// The datagram was sent this far in the future, by the timeline.
    Ahead(Duration),
}

impl Shared {
    pub(super) fn halted(&self, state: &State) -> Option<HaltReason> {
        state.halted.map(|halt| HaltReason::Agreement {
            why: halt.why,
            words: self.words(state, halt),
        })
    }

    fn words(&self, state: &State, halt: Halt) -> String {
        let by = self.name(halt.by);
        match halt.why {
            HaltCause::Silent(silent) => {
                let host = self.name(silent);
                let refusal = state.refusals.get(&silent);
                let why = match refusal.filter(|_| halt.by == self.here) {
                    None => format!("that host has died, or the link {by}–{host} is broken"),
                    Some(Refusal::OtherKey) => {
                        "datagrams from its address are sealed with another key".to_owned()
                    }
                    Some(Refusal::Earlier(early)) => format!(
                        "its last datagram was sent {} before {by} began. Their clocks differ by \
                         more than they state, or datagrams of an earlier run are being replayed",
                        rounded(*early)
                    ),
                    Some(Refusal::Ahead(ahead)) => format!(
                        "its last datagram was sent {} in the future, by its clock. Their clocks \
                         differ by more than they state, or {by}'s was set back",
                        rounded(*ahead)
                    ),
                };
                format!("{by} receives nothing from {host}: {why}")
            }
            HaltCause::Link(host) => {
                let host = self.name(host);
                format!("the link {by}–{host} is broken: other hosts receive from both")
            }
            HaltCause::Minority => {
                format!("{by} receives datagrams from at most half of the hosts")
            }
            HaltCause::Excluded => {
                format!("the others have continued without {by}, from which they received nothing")
            }
            HaltCause::Restarted(host) => {
                format!("{} restarted during the run", self.name(host))
            }
            HaltCause::Line => format!(
                "the line at {by} is high, and no host reports driving it: it is stuck, or held by \
                 a machine that is not on the network"
            ),
            HaltCause::Failed => {
                let error = state.failed.as_ref().filter(|_| halt.by == self.here);
                let error = error.map_or_else(String::new, |error| format!(": {error}"));
                format!("clock or processes of {by} could not be commanded{error}")
            }
        }
    }
}

fn rounded(span: Duration) -> Duration {
    Duration::from_ms(span.as_ns() / 1_000_000)
}
