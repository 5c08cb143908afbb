//! Machines that a pause waits for, by the records that have arrived.

use timeloom_agreement::{HostId, HostRecord, Member, PauseStage};

use crate::wire::AwaitedMachine;

/// Returns the machines because of which this one stands, or is about to.
pub(super) fn machines(member: &Member, name: impl Fn(HostId) -> String) -> Vec<AwaitedMachine> {
    let own = member.record();
    if matches!(own.stage, PauseStage::Running(_) | PauseStage::Stopped(_)) {
        return Vec::new();
    }
    let others = member.others();
    let awaited = others.filter_map(|(host, record)| {
        let state = state(&own, record)?;
        let name = name(host);
        Some(AwaitedMachine { name, state })
    });
    awaited.collect()
}

/// Returns the reason why a machine with this record is awaited; `None` if it is not.
fn state(own: &HostRecord, other: Option<&HostRecord>) -> Option<&'static str> {
    let Some(other) = other else {
        return Some("has sent nothing yet");
    };
    match other.stage {
        _ if other.holds => Some("holds the pause"),
        _ if other.pause < own.pause => Some("has not received the pause yet"),
        PauseStage::Joining | PauseStage::Closing { .. } | PauseStage::Bound { .. } => {
            Some("has not stopped yet")
        }
        // Without a claim, a machine that stands votes for the end as soon as it can.
        PauseStage::Standing { .. } if !own.holds => Some("has not agreed to resume yet"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use timeloom_agreement::{Hosts, Resumption, Vote};
    use timeloom_time::{Dilation, Instant};

    use super::*;

    fn record(pause: u64, holds: bool, stage: PauseStage) -> HostRecord {
        HostRecord {
            pause,
            members: Hosts::NONE,
            silent: Hosts::NONE,
            ballot: 0,
            holds,
            stage,
        }
    }

    #[test]
    fn a_machine_is_awaited_until_it_has_stopped_and_while_it_holds_the_pause() {
        let at = Instant::ZERO;
        let own = record(2, false, PauseStage::Standing { at });
        let state = |other: &HostRecord| state(&own, Some(other));
        let before = PauseStage::Running(Resumption {
            from: at,
            at: Instant::ZERO,
            dilation: Dilation::ONE,
            until: Instant::FAR_FUTURE,
        });
        assert_eq!(super::state(&own, None), Some("has sent nothing yet"));
        assert_eq!(
            state(&record(1, false, before)),
            Some("has not received the pause yet")
        );
        assert_eq!(
            state(&record(2, false, PauseStage::Bound { at })),
            Some("has not stopped yet")
        );
        assert_eq!(
            state(&record(2, true, PauseStage::Standing { at })),
            Some("holds the pause")
        );
        assert_eq!(
            state(&record(2, false, PauseStage::Standing { at })),
            Some("has not agreed to resume yet")
        );
        let ready = PauseStage::Ready {
            at,
            vote: Vote {
                go: Instant::ZERO,
                joiners: Hosts::NONE,
                dilation: None,
                stop: Instant::FAR_FUTURE,
            },
        };
        assert_eq!(state(&record(2, false, ready)), None);
    }
}
