//! Changes of links while the network runs.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::convert::number_of;
use timeloom_time::{Duration, Instant, Virtual};

use crate::config::{LinkChange, QueueConfig};
use crate::error::ChangeError;
use crate::ids::Token;
use crate::packet::{Packet, PortId};
use crate::tables::changes::PlannedChange;
use crate::world::World;

/// Configuration.
impl World {
    /// Plans a change of the link out of `port` at the instant `at`. Must be called before the
    /// network is partitioned. The other direction of the cable does not change.
    ///
    /// A change takes effect after the packets that arrive at the near end at the same instant.
    /// Packets in flight keep their arrival, and packets stay in order (`link/changed.rs`).
    ///
    /// # Errors
    /// Fails if the link cannot change, or cannot have these properties.
    pub fn plan_change(
        &mut self,
        port: PortId,
        at: Instant<Virtual>,
        change: LinkChange,
    ) -> Result<(), ChangeError> {
        self.check_change(port, &change)?;
        self.links.expect_changes(port);
        self.changes.add(PlannedChange { port, at, change });
        Ok(())
    }

    /// Checks that the link out of `port` can change in this way.
    ///
    /// # Errors
    /// Fails if the link cannot change, or cannot have these properties.
    pub fn check_change(&self, port: PortId, change: &LinkChange) -> Result<(), ChangeError> {
        let chance = change.loss.is_none_or(|loss| (0.0..=1.0).contains(&loss));
        let times = [change.delay, change.jitter].into_iter().flatten();
        let mut times = times.map(|time| !time.is_negative() && time < Duration::MAX);
        if !chance || !times.all(|is_valid| is_valid) || change.rate_bps == Some(0) {
            return Err(ChangeError::BadValue);
        }
        if matches!(self.links.config(port).queue, QueueConfig::Red(_)) {
            return Err(ChangeError::Red);
        }
        match self.fluid.flows.is_empty() {
            true => Ok(()),
            false => Err(ChangeError::Fluid),
        }
    }
}

/// Inputs.
impl World {
    /// Changes the link out of `port` at `at`, or at the present instant if `at` has passed. An
    /// engine that has not the sending end of the link ignores this.
    ///
    /// # Errors
    /// Fails as [`World::check_change`] does.
    pub fn change_link<Q: EventQueue>(
        &mut self,
        port: PortId,
        at: Instant<Virtual>,
        change: LinkChange,
        agenda: &mut Agenda<Q>,
    ) -> Result<(), ChangeError> {
        self.check_change(port, &change)?;
        let node = self.ports[port].node;
        if !self.crossings.owns(node) {
            return Ok(());
        }
        let at = at.max(agenda.now());
        let number = self.changes.add(PlannedChange { port, at, change });
        agenda.schedule(at, NodeId(node), Token::CHANGE | number_of(number));
        Ok(())
    }

    /// Schedules the planned changes of this engine's links. An engine that begins late first makes
    /// those that are past, in the order of their instants.
    pub(super) fn start_changes<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        let mut past = Vec::new();
        for number in 0..number_of(self.changes.len()) {
            let Some(PlannedChange { port, at, .. }) = self.changes.get(number) else {
                continue;
            };
            let node = self.ports[port].node;
            if !self.crossings.owns(node) {
                continue;
            }
            match at < agenda.now() {
                true => past.push((at, number)),
                false => agenda.schedule(at, NodeId(node), Token::CHANGE | number),
            }
        }
        past.sort_unstable();
        for (_, number) in past {
            self.handle_change(number, agenda);
        }
    }

    pub(super) fn handle_change<Q: EventQueue>(&mut self, number: u32, agenda: &mut Agenda<Q>) {
        let Some(PlannedChange { port, change, .. }) = self.changes.get(number) else {
            return;
        };
        let now = agenda.now();
        let end = self.links.begin_changes(port, now, &mut self.packets);
        if let Some(end) = end {
            let node = NodeId(self.ports[port].node);
            agenda.schedule(end.max(now), node, Token::END | port.0);
        }
        for id in self.links[port].change(now, &change, &mut self.packets) {
            let packet = self.packets[id];
            self.packets.remove(id);
            if packet.flags & Packet::STAMPED != 0 {
                self.departed(packet.link.0, None, agenda);
            }
        }
    }
}
