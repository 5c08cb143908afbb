//! TCP timers that the network keeps for hosts' kernels.

use timeloom_engine::Random;
use timeloom_time::convert::number_of;
use timeloom_time::{Duration, Instant, Virtual};

use crate::kernel_tcp::{Neighbours, TcpTimerStats, TcpTimers};
use crate::packet::NIL;
use crate::tables::slab::PacketId;

/// TCP timers of all hosts for which the network keeps them.
#[derive(Debug, Default)]
pub(crate) struct KernelTimers {
    list: Vec<OfHost>,
    /// Index of the timers by node; [`NIL`] for nodes without timers. Empty if no node has timers.
    by_node: Vec<u32>,
}

/// TCP timers and neighbours of one host.
#[derive(Debug)]
pub(crate) struct OfHost {
    node: u32,
    pub(crate) tcp: TcpTimers<PacketId>,
    pub(crate) neighbours: Neighbours<PacketId>,
    /// Number of packets of the host with segments that the timers do not parse.
    pub(crate) hidden: u64,
    /// Earliest scheduled wake-up. A later one is scheduled when it occurs.
    appointment: Instant<Virtual>,
}

impl OfHost {
    /// Returns the activity of all hosts' timers together.
    pub(crate) fn stats(&self, now: Instant<Virtual>) -> TcpTimerStats {
        TcpTimerStats {
            unresolved: self.neighbours.unresolved,
            hidden: self.hidden,
            ..self.tcp.stats(now)
        }
    }
}

impl KernelTimers {
    /// Starts to keep the timers of node `node`; `nodes` is the number of nodes, and `seed` that of
    /// the network.
    pub(crate) fn keep(&mut self, node: u32, nodes: usize, tick: Duration, seed: u64) {
        self.by_node.resize(nodes, NIL);
        if self.by_node[node as usize] != NIL {
            return;
        }
        self.by_node[node as usize] = number_of(self.list.len());
        self.list.push(OfHost {
            node,
            tcp: TcpTimers::new(tick, Random::new(seed, 4 << 32 | u64::from(node))),
            neighbours: Neighbours::new(tick, Random::new(seed, 5 << 32 | u64::from(node))),
            hidden: 0,
            appointment: Instant::FAR_FUTURE,
        });
    }

    /// Returns true if no node's timers are kept.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the index of a node's timers; `None` if they are not kept.
    #[inline]
    pub(crate) fn at(&self, node: u32) -> Option<u32> {
        let number = *self.by_node.get(node as usize)?;
        (number != NIL).then_some(number)
    }

    pub(crate) fn node_of(&self, number: u32) -> u32 {
        self.list[number as usize].node
    }

    pub(crate) fn get(&self, number: u32) -> &OfHost {
        &self.list[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut OfHost {
        &mut self.list[number as usize]
    }

    /// Returns the instant for which the caller must schedule a wake-up of a host's timers; `None`
    /// if an early enough one is already scheduled.
    pub(crate) fn appoint(
        &mut self,
        number: u32,
        now: Instant<Virtual>,
    ) -> Option<Instant<Virtual>> {
        let of_host = &mut self.list[number as usize];
        let due = of_host.tcp.next_wake().into_iter();
        let due = due.chain(of_host.neighbours.next_wake()).min()?.max(now);
        let is_earlier = due < of_host.appointment;
        if is_earlier {
            of_host.appointment = due;
        }
        is_earlier.then_some(due)
    }

    /// Returns true if the wake-up at `now` is the one that was scheduled last, and clears it.
    pub(crate) fn keep_appointment(&mut self, number: u32, now: Instant<Virtual>) -> bool {
        let of_host = &mut self.list[number as usize];
        let holds = of_host.appointment == now;
        if holds {
            of_host.appointment = Instant::FAR_FUTURE;
        }
        holds
    }
}
