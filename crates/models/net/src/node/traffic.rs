//! Sources of datagrams at hosts.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};

use crate::ids::Token;
use crate::world::World;

impl World {
    /// Schedules the first packet of a source that is due now or later.
    pub(crate) fn begin_source<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let source = &mut self.sources[index];
        if let Some(at) = source.advance_to(agenda.now()) {
            let node = NodeId(self.ports[source.from()].node);
            agenda.schedule(at, node, Token::SOURCE | index);
        }
    }

    /// Schedules the next packet of a source.
    pub(crate) fn schedule_source<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let source = &mut self.sources[index];
        let Some(at) = source.advance() else {
            return;
        };
        let node = NodeId(self.ports[source.from()].node);
        agenda.schedule(at.max(agenda.now()), node, Token::SOURCE | index);
    }

    /// Sends the packet of a source that is due now.
    pub(crate) fn handle_source<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let packet = self.sources[index].send(index);
        self.originate(packet, agenda);
        self.schedule_source(index, agenda);
    }
}
