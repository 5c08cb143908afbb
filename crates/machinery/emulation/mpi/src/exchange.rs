//! Transport between MPI ranks: in each window, every rank sends one message to every other rank.
//!
//! One message carries both the sender's earliest instant and its packets. A window therefore costs
//! the delay of one message, instead of two for a reduction and an exchange. Messages between two
//! ranks keep their order (MPI 4.0, 3.5), so they need no numbers.

use mpi::request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use timeloom_emulation::peering::exact::{PacketBatch, PeerLost, WindowExchange};
use timeloom_emulation::peering::message::Messages;
use timeloom_net::World;
use timeloom_time::{Instant, Virtual};

/// WindowExchange of windows among the ranks of a communicator. Rank *n* is engine *n*. The loss of a
/// rank ends the whole run, which is MPI's default.
pub(crate) struct Ranks<'a> {
    ranks: &'a SimpleCommunicator,
    here: usize,
    messages: Messages,
    /// Outgoing messages by receiving rank.
    out: Vec<Vec<u8>>,
    into: Vec<u8>,
}

impl<'a> Ranks<'a> {
    pub(crate) fn new(ranks: &'a SimpleCommunicator, world: &World) -> Self {
        Self {
            ranks,
            here: ranks.rank() as usize,
            messages: Messages::of(world),
            out: vec![Vec::new(); ranks.size() as usize],
            into: Vec::new(),
        }
    }
}

impl WindowExchange for Ranks<'_> {
    fn exchange(
        &mut self,
        next: Instant<Virtual>,
        leaving: &mut [PacketBatch],
        arriving: &mut PacketBatch,
    ) -> Result<Instant<Virtual>, PeerLost> {
        if leaving.len() != self.out.len() {
            let why = format!("{} ranks for {} engines", self.out.len(), leaving.len());
            return Err(PeerLost(why));
        }
        for (batch, out) in leaving.iter_mut().zip(&mut self.out) {
            out.clear();
            self.messages.write(next, batch, out);
            batch.clear();
        }
        let Self {
            ranks,
            here,
            messages,
            out,
            into,
        } = self;
        let others = || (0..out.len()).filter(|rank| rank != here);
        request::scope(|scope| {
            let send = |to: usize| {
                let process = ranks.process_at_rank(to as i32);
                process.immediate_send(scope, &out[to][..])
            };
            let sends: Vec<_> = others().map(send).collect();
            let mut least = Ok(next);
            for from in others() {
                receive(ranks, from, into);
                let theirs = messages.read(into, arriving);
                let theirs =
                    theirs.map_err(|_| PeerLost(format!("rank {from} sent a malformed message")));
                least = least.and_then(|least| Ok(least.min(theirs?)));
            }
            for send in sends {
                send.wait();
            }
            least
        })
    }
}

/// Receives the next message of rank `from` into `into`. The message may have any length.
pub(crate) fn receive(ranks: &SimpleCommunicator, from: usize, into: &mut Vec<u8>) {
    let (message, status) = ranks.process_at_rank(from as i32).matched_probe();
    into.resize(status.count(u8::equivalent_datatype()) as usize, 0);
    message.matched_receive_into(&mut into[..]);
}
