//! Last step for a Sync: residence time, correction, and one Follow_Up per egress port.

use timeloom_wire::message::{patch_correction, patch_length};
use timeloom_wire::tlv::{PowerProfile, TlvType, TlvWriter};
use timeloom_wire::{Header, Message, TimeInterval};

use super::TransparentClock;
use super::relay::Egress;
use crate::security::{Hop, SignJob};
use crate::stamp::scaled;
use crate::{ClockReport, DelayMechanism, DriverAction, DropReason, Profile};

impl TransparentClock {
    /// Sends the Follow_Up of a Sync to every port whose departure time is known.
    pub(super) fn finish(&mut self, slot: u64) {
        let Some(relay) = self.relays.get(slot) else {
            return;
        };
        let Some((bytes, vlan)) = relay.follow_up.clone() else {
            return;
        };
        let relay = relay.clone();
        let (ingress, _, _, sequence) = relay.key;
        let link = self
            .peer_delay(ingress)
            .and_then(|peer| peer.neighbour().copied());
        let asymmetry = self
            .config
            .asymmetry
            .get(usize::from(ingress) - 1)
            .copied()
            .unwrap_or_default();
        for (egress, state) in relay.egress {
            let Egress::Left(departed) = state else {
                continue;
            };
            self.relays.done(slot, egress);
            let stay = departed - relay.arrived;
            if stay.is_negative() || stay > self.config.max_residence {
                self.out.dropped(egress, DropReason::Residence);
                continue;
            }
            let residence = scaled(stay, self.rate.ppb());
            // With peer delay, this clock adds the delay of its ingress link, so that the slave
            // needs only the delay of its own link (11.4.5.1).
            let link_delay = match (self.config.profile.delay, &link) {
                (DelayMechanism::EndToEnd, _) => TimeInterval::ZERO,
                (DelayMechanism::PeerToPeer, Some(link)) => link.delay,
                (DelayMechanism::PeerToPeer, None) => {
                    self.out.dropped(ingress, DropReason::NoNextHop);
                    continue;
                }
            };
            let contribution = residence + link_delay + asymmetry;
            let next = self
                .peer_delay(egress)
                .and_then(|peer| peer.neighbour().map(|n| n.port.clock));
            let hop = Hop {
                ingress,
                egress,
                previous: link.map(|l| l.port.clock).unwrap_or_default(),
                next: next.unwrap_or_default(),
                contribution,
            };
            let Ok((header, _)) = Header::parse(&bytes) else {
                continue;
            };
            let security = self.config.security.clone();
            if let Some(security) = security.filter(|s| !s.secondary && self.must_sign(&header)) {
                if next.is_none() {
                    self.out.dropped(egress, DropReason::NoNextHop);
                } else if self.signing >= MAX_SIGNING {
                    self.out.dropped(egress, DropReason::QueueFull);
                } else {
                    self.signing += 1;
                    self.out.push(DriverAction::Sign(Box::new(SignJob {
                        security,
                        message: bytes.clone(),
                        sync: relay.facts,
                        hop,
                        broken: relay.broken,
                        vlan,
                        residence,
                    })));
                }
                continue;
            }
            let Some(message) = plain(&bytes, contribution) else {
                continue;
            };
            self.state(&bytes, &message, &relay.facts, &hop);
            self.out.forward(egress, message, vlan, None);
            self.out.report(ClockReport::Relayed {
                ingress,
                egress,
                sequence,
                residence,
            });
        }
    }
}

/// Greatest number of pending signing jobs. If there are more, the signing thread has fallen
/// behind, and further Follow_Ups would be too late to be used.
const MAX_SIGNING: usize = 256;

/// Returns a copy of the message with `contribution` added to its correction. The received bytes
/// are needed unchanged for the next egress port.
fn plain(bytes: &[u8], contribution: TimeInterval) -> Option<Vec<u8>> {
    let (header, _) = Header::parse(bytes).ok()?;
    let mut message = bytes.to_vec();
    patch_correction(&mut message, header.correction + contribution).ok()?;
    Some(message)
}

/// Returns an Announce to whose power-profile TLV this clock's inaccuracy is added; `None` if there
/// is no such TLV to change.
pub(super) fn less_accurate(message: &Message<'_>, profile: &Profile) -> Option<Vec<u8>> {
    profile.power?;
    let mut buffer = [0; 1024];
    let mut writer = TlvWriter::new(&mut buffer);
    let mut changed = false;
    for tlv in message.tlvs.iter() {
        match PowerProfile::parse(tlv.value) {
            Some(Ok(power)) if tlv.kind == TlvType::ORGANIZATION_EXTENSION => {
                changed = true;
                let power = power.less_accurate(profile.hop_inaccuracy_ns);
                writer.push(tlv.kind, |to| power.emit(to)).ok()?;
            }
            _ => {
                writer.push_raw(tlv).ok()?;
            }
        }
    }
    if !changed {
        return None;
    }
    let mut bytes = [0; 1486];
    let length = message.with_tlvs(writer.finish()).emit(&mut bytes).ok()?;
    patch_length(&mut bytes, u16::try_from(length).ok()?).ok()?;
    Some(bytes[..length].to_vec())
}
