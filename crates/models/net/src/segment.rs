//! Segments (broadcast domains): sets of interfaces that receive each other's broadcasts.

use std::collections::{BTreeSet, HashMap};

use timeloom_time::convert::number_of;

use crate::build::{NodeKind, Plan};
use crate::error::BuildError;
use crate::packet::{NIL, PortId};
use crate::tables::switch::PortMode;

/// Segment of each port ([`NIL`] for ports of switches), and true if the segment is a LAN, on which
/// stations must resolve MAC addresses.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) of_port: Vec<u32>,
    /// Interfaces of each segment, in the order of their numbers.
    pub(crate) members: Vec<Vec<PortId>>,
    pub(crate) is_lan: Vec<bool>,
}

/// Disjoint sets (union–find) with path halving.
struct Sets(Vec<usize>);

impl Sets {
    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// Unites the sets of `a` and `b`; returns true if they were different sets.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a] = b;
        a != b
    }
}

impl Segments {
    pub(crate) fn find(plan: &Plan) -> Result<Self, BuildError> {
        let is_switch = |port: PortId| plan.node(port).kind == NodeKind::Switch;
        let vlans = used_vlans(plan);
        let mut sets = Sets(Vec::new());
        let mut domains: HashMap<(u32, u16), usize> = HashMap::new();
        let mut domain = |sets: &mut Sets, node: u32, vlan: u16| {
            *domains.entry((node, vlan)).or_insert_with(|| {
                sets.0.push(sets.0.len());
                sets.0.len() - 1
            })
        };
        let mut set_of_port = vec![usize::MAX; plan.ports()];
        let mut lan_sets = Vec::new();
        for cable in 0..number_of(plan.ports()) / 2 {
            let (a, b) = (PortId(cable * 2), PortId(cable * 2 + 1));
            let mismatch = || BuildError::VlanMismatch(plan.name(a), plan.name(b));
            match (is_switch(a), is_switch(b)) {
                (false, false) => {
                    sets.0.push(sets.0.len());
                    set_of_port[a.index()] = sets.0.len() - 1;
                    set_of_port[b.index()] = sets.0.len() - 1;
                }
                (true, true) => {
                    let shared: Vec<(u16, u16)> = match (plan.mode(a), plan.mode(b)) {
                        (PortMode::Access(a), PortMode::Access(b)) => vec![(*a, *b)],
                        (PortMode::Trunk, PortMode::Trunk) => {
                            vlans.iter().map(|v| (*v, *v)).collect()
                        }
                        _ => return Err(mismatch()),
                    };
                    for (at_a, at_b) in shared {
                        let at_a = domain(&mut sets, plan.owner(a).0, at_a);
                        let at_b = domain(&mut sets, plan.owner(b).0, at_b);
                        if !sets.join(at_a, at_b) {
                            return Err(BuildError::SwitchLoop(plan.name(a), plan.name(b)));
                        }
                    }
                }
                (first, _) => {
                    let (switch, station) = if first { (a, b) } else { (b, a) };
                    let PortMode::Access(vlan) = plan.mode(switch) else {
                        return Err(mismatch());
                    };
                    let set = domain(&mut sets, plan.owner(switch).0, *vlan);
                    set_of_port[station.index()] = set;
                    lan_sets.push(set);
                }
            }
        }
        Ok(Self::number(&mut sets, &set_of_port, &lan_sets))
    }

    fn number(sets: &mut Sets, set_of_port: &[usize], lan_sets: &[usize]) -> Self {
        let mut numbers: HashMap<usize, u32> = HashMap::new();
        let mut of_port = vec![NIL; set_of_port.len()];
        let mut members: Vec<Vec<PortId>> = Vec::new();
        for (port, set) in set_of_port.iter().enumerate() {
            if *set == usize::MAX {
                continue;
            }
            let number = *numbers.entry(sets.find(*set)).or_insert_with(|| {
                members.push(Vec::new());
                number_of(members.len()) - 1
            });
            of_port[port] = number;
            members[number as usize].push(PortId(number_of(port)));
        }
        let mut is_lan = vec![false; members.len()];
        for set in lan_sets {
            is_lan[numbers[&sets.find(*set)] as usize] = true;
        }
        Self {
            of_port,
            members,
            is_lan,
        }
    }
}

fn used_vlans(plan: &Plan) -> BTreeSet<u16> {
    let ports = (0..number_of(plan.ports())).map(PortId);
    ports
        .filter(|port| plan.node(*port).kind == NodeKind::Switch)
        .filter_map(|port| match plan.mode(port) {
            PortMode::Access(vlan) => Some(*vlan),
            PortMode::Trunk => None,
        })
        .collect()
}
