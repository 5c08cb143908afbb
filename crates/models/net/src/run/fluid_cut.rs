//! Fluid that crosses from one engine to another.
//!
//! An engine carries a flow along those links of the path that it has; consecutive ones are a
//! *stretch*. If a cut link ends a stretch, the engine behind the cut is informed in each step of
//! the amount that has come through. In return it reports the fraction that gets through beyond the
//! cut, and the waiting time there. Both messages take as long as a packet on the cut link, and a
//! step uses the messages that have arrived by then. Amounts are cumulative, so a late message
//! loses nothing. Within one engine, no messages are needed and all of this takes no time.

use std::sync::Arc;

use timeloom_time::convert::{low_u32, number_of};
use timeloom_time::{Duration, Instant, Virtual};

use crate::fluid::{Account, FlowHop, Fluid, FluidCut, FluidFlow};
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::crossings::Owner;
use crate::tables::slab::PacketId;
use crate::world::World;

/// Part of a flow on consecutive links of one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) packets: f64,
    /// Fraction that reaches the receiver.
    survives: f64,
    /// Waiting time on the way to the receiver, in nanoseconds.
    wait_ns: f64,
    /// Hop after which the flow came from another engine, with the link; `None` if the stretch
    /// begins at the source.
    behind: Option<(u32, PortId)>,
    came: f64,
}

/// Message between engines about a flow at a cut link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word {
    /// Number of packets that have come through the cut link so far.
    Came(f64),
    /// Fraction that gets through beyond the cut link, and waiting time of packets there in ns.
    Beyond(f64, f64),
}

impl Stretch {
    /// Returns the stretch that begins at the source with this number of packets.
    pub(super) fn from(packets: f64) -> Self {
        Self {
            packets,
            survives: 1.0,
            wait_ns: 0.0,
            behind: None,
            came: packets,
        }
    }

    /// Returns the stretch that begins behind the cut after hop `hop`, whose link is `link`.
    pub(super) fn behind(packets: f64, hop: u32, link: PortId) -> Self {
        Self {
            behind: Some((hop, link)),
            ..Self::from(packets)
        }
    }

    /// Carries the stretch over one link: applies the link's loss and waiting time.
    pub(super) fn pass(&mut self, flow: &mut FluidFlow, hop: &mut FlowHop, account: &mut Account) {
        let packets = self.packets;
        let bytes = f64::from(flow.packet_bytes) + account.overhead;
        if flow.poisson {
            account.poisson.add(packets, bytes);
        } else {
            account.smooth.add(packets, bytes);
        }
        let lost = packets * account.loss;
        let here = hop.waiting + packets - lost;
        let passed = here * account.passed;
        account.lost += lost * bytes;
        account.waiting += (here - passed - hop.waiting) * bytes;
        hop.waiting = here - passed;
        self.packets = passed * (1.0 - account.wire_loss);
        flow.lost += lost + passed - self.packets;
        self.survives *= (1.0 - account.loss) * (1.0 - account.wire_loss);
        self.wait_ns += account.wait_ns;
    }

    /// Adds the loss and waiting time that were reported from beyond a cut. A loss is applied only
    /// once.
    pub(super) fn beyond(mut self, cut: &mut FluidCut) -> Self {
        self.survives *= core::mem::replace(&mut cut.survives, 1.0);
        self.wait_ns += cut.wait_ns;
        self
    }
}

/// Value of [`Packet::tos`] for each variant of [`Word`].
const CAME: u8 = 0;
const BEYOND: u8 = 1;
/// Upper limit of packets in a step; no link carries more.
const MOST: f64 = 1e15;
/// Maximum waiting time in a queue, in ns.
const LONGEST_NS: i64 = 3_600_000_000_000;

impl World {
    /// Returns the part of the fluid for engine `here`.
    pub(crate) fn fluid_part(&self, owners: &Arc<[Owner]>, here: Owner) -> Fluid {
        let mut fluid = self.fluid.clone();
        let owner = |port: PortId| owners[self.ports[port].node as usize];
        for flow in &mut fluid.flows {
            let first = flow.first_hop as usize;
            flow.is_elsewhere = owner(flow.from) != here && owner(flow.to) != here;
            for hop in &mut fluid.hops[first..first + flow.hop_count as usize] {
                let port = fluid.accounts[hop.account as usize].port;
                let (from, to) = (owner(port), owner(port.peer()));
                flow.is_elsewhere &= from != here && to != here;
                if from != to {
                    hop.cut = number_of(fluid.cuts.len());
                    fluid.cuts.push(FluidCut {
                        came: 0.0,
                        survives: 1.0,
                        wait_ns: 0.0,
                    });
                }
            }
        }
        fluid
    }

    /// Ends a stretch at the receiver or at a cut link, and informs the beginning of the stretch.
    pub(super) fn end_stretch(
        &mut self,
        flow: &mut FluidFlow,
        number: u32,
        stretch: Stretch,
        now: Instant<Virtual>,
    ) {
        let (survives, wait_ns) = (stretch.survives, stretch.wait_ns);
        match stretch.behind {
            None => flow.source.feel(now, 1.0 - survives, wait_ns),
            Some((hop, link)) if stretch.came > 0.0 || survives < 1.0 || wait_ns > 0.0 => {
                let word = Word::Beyond(survives, wait_ns);
                self.tell_of_fluid(link.peer(), number, hop, word, now);
            }
            Some(_) => {}
        }
    }

    /// Sends a message about a flow that crosses after a hop to the engine at the end of the link
    /// out of `port`.
    pub(super) fn tell_of_fluid(
        &mut self,
        port: PortId,
        flow: u32,
        hop: u32,
        word: Word,
        now: Instant<Virtual>,
    ) {
        let (tos, number, wait_ns) = match word {
            Word::Came(packets) if packets <= 0.0 => return,
            Word::Came(packets) => (CAME, packets, 0.0),
            Word::Beyond(survives, wait_ns) => (BEYOND, survives, wait_ns),
        };
        let mut packet = Packet::new(PacketKind::Fluid, port, port.peer(), flow, 0);
        packet.link = port;
        packet.at = now + self.links.config(port).delay;
        packet.stamp = packet.at - Duration::from_ns_f64(wait_ns);
        (packet.tos, packet.seq) = (tos, hop);
        let bits = number.to_bits();
        (packet.sack_from, packet.sack_to) = (low_u32(bits >> 32), low_u32(bits));
        self.crossings.push(packet, &[]);
    }

    /// Processes a message of another engine, which [`Fluid::understands`] has accepted.
    pub(crate) fn hear_of_fluid(&mut self, id: PacketId) {
        let packet = self.packets[id];
        self.packets.remove(id);
        let Some(cut) = self.fluid.cut_of(&packet) else {
            return;
        };
        match read(&packet) {
            Some(Word::Came(packets)) => cut.came += packets,
            Some(Word::Beyond(survives, wait_ns)) => {
                cut.survives *= survives;
                cut.wait_ns = wait_ns;
            }
            None => {}
        }
    }
}

/// Decodes the message in a packet; `None` if it is invalid.
fn read(packet: &Packet) -> Option<Word> {
    let number = f64::from_bits(u64::from(packet.sack_from) << 32 | u64::from(packet.sack_to));
    let wait_ns = packet.at.as_ns().checked_sub(packet.stamp.as_ns())?;
    match packet.tos {
        CAME if (0.0..=MOST).contains(&number) => Some(Word::Came(number)),
        BEYOND if (0.0..=1.0).contains(&number) && (0..=LONGEST_NS).contains(&wait_ns) => {
            Some(Word::Beyond(number, wait_ns as f64))
        }
        _ => None,
    }
}

impl Fluid {
    fn cut_of(&mut self, packet: &Packet) -> Option<&mut FluidCut> {
        let flow = self.flows.get(packet.flow as usize)?;
        let hop = (packet.seq < flow.hop_count).then_some(flow.first_hop + packet.seq)?;
        let hop = self.hops.get(hop as usize)?;
        self.cuts.get_mut(hop.cut as usize)
    }

    /// Returns true if a message of another engine is about a place where its flow crosses.
    pub(crate) fn understands(&self, packet: &Packet) -> bool {
        let flow = self.flows.get(packet.flow as usize);
        let hop = flow
            .filter(|flow| packet.seq < flow.hop_count)
            .and_then(|flow| self.hops.get((flow.first_hop + packet.seq) as usize));
        let crosses = |hop: &FlowHop| {
            let port = self.accounts[hop.account as usize].port;
            let way = if packet.tos == CAME {
                port
            } else {
                port.peer()
            };
            (hop.cut as usize) < self.cuts.len() && way == packet.link
        };
        hop.is_some_and(crosses) && read(packet).is_some()
    }
}
