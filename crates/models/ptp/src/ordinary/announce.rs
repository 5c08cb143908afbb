//! Announces: acceptance of their senders, and choice of the master by the best master clock
//! algorithm (IEEE 1588-2019, 9.3).

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::Body;
use timeloom_wire::{Flags, Header, Message};

use super::{OrdinaryClock, PortState, master};
use crate::best_master::{Dataset, Preference};
use crate::security::{
    self, Admission, DUE, Freshness, Suspect, VerificationFailure, ViolationKind,
};
use crate::{ClockReport, DropReason, Local};

impl OrdinaryClock {
    fn own_dataset(&self) -> Dataset {
        let (priority1, priority2) = self.config.profile.priority;
        Dataset {
            priority1,
            quality: self.config.quality,
            priority2,
            grandmaster: self.config.clock,
            steps_removed: 0,
            sender: self.port,
            receiver: self.port,
        }
    }

    pub(super) fn handle_announce(&mut self, now: Instant<Local>, message: &Message<'_>) {
        let Body::Announce(body) = &message.body else {
            return;
        };
        let header = &message.header;
        // A path of 255 or more steps is invalid (9.3.2.5).
        if body.steps_removed >= 255 {
            return self.drop(DropReason::NotForUs);
        }
        if !master::fulfils(&self.config.profile, &message.tlvs) {
            return self.drop(DropReason::Profile);
        }
        if let Some(security) = &self.config.security {
            // A sender that is not in the key ring is refused without a check of its signature.
            if security.ring.knows(header.source.clock) {
                let window = self.announced.get(&header.source);
                let due = window.is_some_and(|window| window.is_due(header.sequence_id, DUE));
                let key = due.then_some((header.source, header.sequence_id));
                let admission = self.announce_budget.admit(now, key);
                if admission != Admission::Granted {
                    self.out.dropped(self.port.port, DropReason::Flood);
                    if admission == Admission::Alarm {
                        self.announce_fails(header, ViolationKind::Flood);
                    }
                    return;
                }
            }
            let checked = security::verify_announce(&security.ring, header, body, &message.tlvs);
            let fresh = checked.and_then(|sequence| {
                // Only verified senders reach this line, so the table is no longer than the key
                // ring.
                let window = self.announced.entry(header.source).or_default();
                match window.judge(sequence) {
                    Freshness::Newer | Freshness::Overtaken => {
                        window.remember(sequence);
                        Ok(())
                    }
                    Freshness::Used | Freshness::TooOld => Err(ViolationKind::Replay),
                }
            });
            if let Err(reason) = fresh {
                return self.announce_fails(header, reason);
            }
        }
        self.foreign
            .heard(Dataset::from_announce(body, header.source, self.port), now);
        self.decide(now);
        if self.slave.follows(header.source) {
            let tells_tai = header.flags.has(Flags::PTP_TIMESCALE) && !self.config.ptp_timescale;
            let utc_offset_s = if header.flags.has(Flags::UTC_OFFSET_VALID) {
                body.current_utc_offset
            } else {
                self.config.utc_offset_s
            };
            let ahead_s = if tells_tai { utc_offset_s } else { 0 };
            self.ahead = Some(Duration::from_s(i64::from(ahead_s)));
        }
    }

    fn announce_fails(&mut self, header: &Header, reason: ViolationKind) {
        self.out.alarm(VerificationFailure {
            observer: self.config.clock,
            source: header.source,
            sequence: header.sequence_id,
            reason,
            suspect: Suspect {
                after: None,
                before: self.config.clock,
            },
        });
    }

    pub(super) fn decide(&mut self, now: Instant<Local>) {
        let profile = &self.config.profile;
        let best = self
            .foreign
            .best(now, profile.announce_interval(), profile.announce_timeout());
        let preference =
            Preference::decide(&self.own_dataset(), best.as_ref(), self.config.slave_only);
        let state = match preference {
            // A clock becomes master only after it has listened for a while (9.2.6.11).
            Preference::Master if self.state == PortState::Listening && now < self.listen_until => {
                return;
            }
            Preference::Master => PortState::Master,
            Preference::Slave(_) => PortState::Slave,
            Preference::Passive => PortState::Passive,
            Preference::Listen => PortState::Listening,
        };
        let parent = if let Preference::Slave(parent) = preference {
            Some(parent)
        } else {
            None
        };
        let new_parent = self.slave.follow(now, parent.map(|p| p.sender));
        if state == self.state && !new_parent {
            return;
        }
        if state == PortState::Master && self.state != state {
            self.master.start(now);
        }
        if state == PortState::Listening {
            self.listen_until = now + profile.announce_timeout();
        }
        if new_parent {
            self.end_to_end.forget();
            self.ahead = None;
        }
        self.state = state;
        self.out.report(ClockReport::State {
            state,
            grandmaster: parent.map(|p| p.grandmaster),
        });
    }
}
