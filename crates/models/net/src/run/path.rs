//! Path of a flow: the links that its packets take.

use crate::ids::NodeRole;
use crate::packet::PortId;
use crate::tables::address::Family;
use crate::tables::switch::PortMode;
use crate::world::World;

impl World {
    /// Returns the ports by which packets from interface `from` to interface `to` leave nodes, for
    /// hosts, routers and switches that have learnt all addresses. Returns `None` if there is no
    /// route, or if static routes form a loop.
    pub(super) fn path(&self, from: PortId, to: PortId, flow: u32) -> Option<Vec<PortId>> {
        let mut path = Vec::new();
        let here = self.ports[from];
        let mut via = to;
        if here.segment != self.ports[to].segment {
            via = self.ports.gateway_of(here.node);
            if via == PortId::NONE {
                return None;
            }
        }
        self.cross_segment(from, via, &mut path)?;
        // As many routers as the time to live of a packet permits.
        for _ in 0..64 {
            let node = self.ports[via].node;
            if node == self.ports[to].node {
                return Some(path);
            }
            let NodeRole::Router(index) = self.roles[node as usize] else {
                return None;
            };
            let hop = self.hop((node, index), to, Family::V4, flow)?;
            self.cross_segment(hop.port, hop.via, &mut path)?;
            via = hop.via;
        }
        None
    }

    /// Appends the path from `port` to the interface `to` on the same segment.
    fn cross_segment(&self, port: PortId, to: PortId, path: &mut Vec<PortId>) -> Option<()> {
        path.push(port);
        if port.peer() == to {
            return Some(());
        }
        self.through_switch(port.peer(), 0, to, path).then_some(())
    }

    /// Searches the path to `to` behind the switch that a frame of VLAN `tag` has entered by
    /// `into`. Switches form trees, so there is at most one path.
    fn through_switch(&self, into: PortId, tag: u16, to: PortId, path: &mut Vec<PortId>) -> bool {
        let node = self.ports[into].node;
        let NodeRole::Switch(index) = self.roles[node as usize] else {
            return false;
        };
        let switch = &self.switches[index as usize];
        let vlan = match switch.mode(into) {
            Some(PortMode::Access(vlan)) => *vlan,
            _ => tag,
        };
        for (port, mode) in switch.ports() {
            let tag = match mode {
                _ if *port == into => continue,
                PortMode::Access(of) if *of != vlan => continue,
                PortMode::Access(_) => 0,
                PortMode::Trunk => vlan,
            };
            path.push(*port);
            if port.peer() == to || self.through_switch(port.peer(), tag, to, path) {
                return true;
            }
            path.pop();
        }
        false
    }
}
