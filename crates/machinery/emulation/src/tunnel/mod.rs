//! Links of the kernel's network to another machine.
//!
//! At each end, a namespace has one interface that is connected to the node ([`PacketPort`]). A
//! frame from this interface waits until it has left at the link's rate, by the clock of the run.
//! It is then sent in a sealed UDP datagram with its departure time. The other end delivers it to
//! its node once the clock there has reached that time too. The link therefore stops while the
//! clocks are stopped, and this module holds the frames in flight. The link is slower than a cable
//! by the delay of the network between the machines.
//!
//! Where the machines act in turns ([`TurnStreams`]), streams carry the frames in place of
//! datagrams. Frames are sent and delivered only in turns of this machine, so each arrives at the
//! virtual instant at which it left.
//!
//! One thread serves all links of a machine. It reads the clock but does not control it.

mod datagram;
pub mod fuzzing;
mod line;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use timeloom_net::{Frame, LARGE, OffloadedWork};
use timeloom_sys::schedule::{SchedulingPolicy, set_policy, sleep_exactly};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::poll::{Alarm, Poll};
use crate::{FollowedClock, PacketPort, Port, PortalError, ReceiveResult, TurnStreams, TxStatus};
pub use datagram::TunnelKey;
use datagram::{Datagram, open};
use line::{Incoming, Outgoing};

/// One end of a link to another machine, as configured.
#[derive(Debug)]
pub struct TunnelConfig {
    /// Number of the link, which is the same on both machines.
    pub link: u16,
    /// Index of this end, 0 or 1.
    pub end: u8,
    /// The other machine.
    pub peer: TunnelPeer,
    /// Rate of the link in bit/s; `None` if frames leave at once.
    pub rate_bits_per_s: Option<u64>,
    /// Maximum number of bytes in the queue; further frames are dropped.
    pub queue_bytes: usize,
    /// Number of bytes that leave at once after a pause; more leave at the rate.
    pub burst_bytes: usize,
    /// Interface through which the local node is connected.
    pub port: PacketPort,
    /// Name of the link in reports.
    pub name: String,
}

/// Other machine of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelPeer {
    /// Address at which the machine's tunnels receive datagrams.
    Address(SocketAddr),
    /// Number of the machine in [`TurnStreams`].
    Number(usize),
}

/// Carrier of the frames between the machines.
pub enum TunnelCarrier {
    /// UDP datagrams, which are sealed with a key.
    Datagrams(UdpSocket, TunnelKey),
    /// Streams between machines that act in turns.
    Streams(Arc<dyn TurnStreams>),
}

/// Statistics of one end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelReport {
    /// Name of the link.
    pub name: String,
    /// Number of frames sent to the other machine.
    pub sent: u64,
    /// Number of frames delivered to the local node.
    pub received: u64,
    /// Number of frames dropped because the queue was full.
    pub dropped: u64,
    /// Number of frames that left the other machine but did not arrive.
    pub lost: u64,
    /// Number of received frames that were duplicates, out of order, or beyond the buffer's limit.
    pub refused: u64,
    /// Number of frames that this machine's kernel dropped before they were read.
    pub dropped_by_machine: u64,
    /// Longest time from a frame's departure at the other machine to its arrival here, in virtual
    /// time.
    pub slowest: Duration,
}

/// Links of this machine to others. They are served until this value is dropped.
#[derive(Debug)]
pub struct Tunnels {
    over: Arc<AtomicBool>,
    alarm: Alarm,
    thread: Option<JoinHandle<Vec<TunnelReport>>>,
}

impl Tunnels {
    /// Serves `ends` by the time of `clock`. The frames of other machines come by `carrier`.
    ///
    /// # Errors
    /// Fails if the kernel refuses the thread or the descriptors that it polls.
    pub fn start(
        carrier: TunnelCarrier,
        ends: Vec<TunnelConfig>,
        clock: Box<dyn FollowedClock>,
    ) -> Result<Self, PortalError> {
        let failed = |error| PortalError::kernel("start the tunnels", error);
        let alarm = Alarm::new().map_err(failed)?;
        if let TunnelCarrier::Datagrams(socket, _) = &carrier {
            socket.set_nonblocking(true).map_err(failed)?;
            // The `FORCE` variant may exceed the machine's limit, if it is permitted.
            set_socket_recv_buffer_size_force(socket, BUFFER_BYTES)
                .or_else(|_| set_socket_recv_buffer_size(socket, BUFFER_BYTES))
                .map_err(|error| failed(error.into()))?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let mut descriptors: Vec<BorrowedFd<'_>> =
            ends.iter().map(|end| end.port.descriptor()).collect();
        if let TunnelCarrier::Datagrams(socket, _) = &carrier {
            descriptors.push(socket.as_fd());
        }
        let poll = Poll::new(&alarm, &descriptors, Duration::ZERO).map_err(failed)?;
        let worker = Worker {
            ends: ends.into_iter().map(End::new).collect(),
            carrier,
            clock,
            poll,
            alarm: alarm.clone(),
            over: Arc::clone(&over),
            buffer: vec![0; LARGE],
            out: Vec::new(),
        };
        let thread = Builder::new()
            .name("tunnels".to_owned())
            .spawn(move || worker.run())
            .map_err(failed)?;
        Ok(Self {
            over,
            alarm,
            thread: Some(thread),
        })
    }

    /// Returns a function that tells the thread that the clock has changed; any thread may call it.
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        let alarm = self.alarm.clone();
        move || alarm.ring()
    }

    /// Stops the links and returns their reports; the list is empty if the thread has panicked.
    pub fn stop(mut self) -> Vec<TunnelReport> {
        self.end()
    }

    fn end(&mut self) -> Vec<TunnelReport> {
        self.over.store(true, Ordering::SeqCst);
        self.alarm.ring();
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.unwrap_or_default()
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.end();
    }
}

/// End of a link with its queues.
struct End {
    what: TunnelConfig,
    outgoing: Outgoing,
    incoming: Incoming,
    number: u64,
    report: TunnelReport,
}

impl End {
    fn new(what: TunnelConfig) -> Self {
        Self {
            outgoing: Outgoing::new(what.rate_bits_per_s, what.queue_bytes, what.burst_bytes),
            incoming: Incoming::default(),
            number: 0,
            report: TunnelReport {
                name: what.name.clone(),
                ..TunnelReport::default()
            },
            what,
        }
    }

    /// Returns the number of the other machine; `None` if the carrier is datagrams.
    fn machine(&self) -> Option<usize> {
        match self.what.peer {
            TunnelPeer::Address(_) => None,
            TunnelPeer::Number(machine) => Some(machine),
        }
    }

    /// Returns the final report of this end.
    fn told(self) -> TunnelReport {
        TunnelReport {
            dropped: self.outgoing.dropped,
            lost: self.incoming.lost,
            refused: self.incoming.refused,
            dropped_by_machine: self.what.port.dropped_before(),
            ..self.report
        }
    }
}

/// Queues a frame that has come from `peer`, at the end of its link.
fn queue(ends: &mut [End], peer: TunnelPeer, datagram: Datagram<'_>) {
    let end = ends.iter_mut().find(|end| {
        let what = &end.what;
        (what.link, 1 - what.end, what.peer) == (datagram.link, datagram.end, peer)
    });
    if let Some(end) = end {
        let Datagram {
            number, at, frame, ..
        } = datagram;
        end.incoming.arrive(number, at, frame);
    }
}

struct Worker {
    ends: Vec<End>,
    carrier: TunnelCarrier,
    clock: Box<dyn FollowedClock>,
    poll: Poll,
    alarm: Alarm,
    over: Arc<AtomicBool>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

/// Reading of the clock, and what may happen at that instant.
struct Present {
    now: Instant<Virtual>,
    /// True if the clock is stopped at this instant.
    stands: bool,
    /// True if frames that have left may be sent to other machines.
    sends: bool,
    /// True if frames that are due may be delivered to the nodes.
    delivers: bool,
}

impl Worker {
    fn run(mut self) -> Vec<TunnelReport> {
        let mut ready = Vec::new();
        sleep_exactly();
        // Otherwise another program's time slice would make each frame milliseconds late.
        let _ = set_policy(SchedulingPolicy::First(1));
        while !self.over.load(Ordering::SeqCst) {
            let present = self.present();
            self.hear();
            self.take_in(present.now);
            if present.sends {
                self.send(present.now);
            }
            if present.delivers {
                self.hand_out(present.now);
            }
            let until = self.next_turn(&present);
            ready.clear();
            if self.poll.sleep(until, &self.alarm, &mut ready).is_err() {
                break;
            }
        }
        self.ends.into_iter().map(End::told).collect()
    }

    fn present(&self) -> Present {
        let (map, stop) = self.clock.map_and_stop();
        let now = map.at(wall_now());
        let stands = map.rate.is_stopped() || now >= stop;
        let (sends, delivers) = match &self.carrier {
            TunnelCarrier::Datagrams(..) => (true, !stands),
            // The clock moves by skips, and stands in between.
            TunnelCarrier::Streams(streams) => {
                let has_turn = streams.has_turn();
                (has_turn, has_turn)
            }
        };
        Present {
            now: now.min(stop),
            stands,
            sends,
            delivers,
        }
    }

    /// Receives frames of other machines and queues them.
    fn hear(&mut self) {
        match &self.carrier {
            TunnelCarrier::Datagrams(socket, key) => {
                for _ in 0..MOST_AT_ONCE {
                    // An error means that a peer is unreachable (ICMP), or that there is nothing to
                    // receive.
                    let Ok((length, from)) = socket.recv_from(&mut self.buffer) else {
                        return;
                    };
                    if let Some(datagram) = open(key, &self.buffer[..length]) {
                        queue(&mut self.ends, TunnelPeer::Address(from), datagram);
                    }
                }
            }
            TunnelCarrier::Streams(streams) => {
                let peers: BTreeSet<usize> = self.ends.iter().filter_map(End::machine).collect();
                for from in peers {
                    // Nothing tells this thread of what it leaves.
                    while let Some(bytes) = streams.receive(from) {
                        if let Some(datagram) = Datagram::parse(&bytes) {
                            queue(&mut self.ends, TunnelPeer::Number(from), datagram);
                        }
                    }
                }
            }
        }
    }

    /// Reads frames of the local nodes and queues them.
    fn take_in(&mut self, now: Instant<Virtual>) {
        for end in &mut self.ends {
            for _ in 0..MOST_AT_ONCE {
                match end.what.port.receive(&mut self.buffer) {
                    Ok(ReceiveResult::Frame(length, _)) => {
                        end.outgoing.offer(&self.buffer[..length], now);
                    }
                    Ok(ReceiveResult::Malformed) => {}
                    Ok(ReceiveResult::Nothing) | Err(_) => break,
                }
            }
        }
    }

    fn send(&mut self, now: Instant<Virtual>) {
        for end in &mut self.ends {
            while let Some((at, frame)) = end.outgoing.take(now) {
                end.number += 1;
                let datagram = Datagram {
                    link: end.what.link,
                    end: end.what.end,
                    number: end.number,
                    at,
                    frame: &frame,
                };
                match (&self.carrier, end.what.peer) {
                    (TunnelCarrier::Datagrams(socket, key), TunnelPeer::Address(peer)) => {
                        datagram.seal(key, &mut self.out);
                        // A frame that cannot be sent is lost, and the other end counts it.
                        let _ = socket.send_to(&self.out, peer);
                    }
                    (TunnelCarrier::Streams(streams), TunnelPeer::Number(peer)) => {
                        datagram.write(&mut self.out);
                        streams.send(peer, at, &self.out);
                    }
                    _ => unreachable!("the peers are those of the carrier"),
                }
                end.report.sent += 1;
            }
        }
    }

    fn hand_out(&mut self, now: Instant<Virtual>) {
        for end in &mut self.ends {
            while let Some((at, bytes)) = end.incoming.take(now) {
                let frame = Frame {
                    at: now,
                    first_bit: now,
                    head: &bytes,
                    rest: &[],
                    offload: OffloadedWork::default(),
                };
                if let Ok(TxStatus::Done) = end.what.port.send(&frame) {
                    end.report.received += 1;
                    end.report.slowest = end.report.slowest.max(now - at);
                }
            }
        }
    }

    /// Returns the wall time at which the next frame is due if no input arrives and the clock does
    /// not change.
    fn next_turn(&self, present: &Present) -> Option<Instant<Wall>> {
        let leaves = self.ends.iter().filter_map(|end| end.outgoing.next());
        let comes = self.ends.iter().filter_map(|end| end.incoming.next());
        let next = leaves.chain(comes).min();
        if matches!(self.carrier, TunnelCarrier::Streams(_)) {
            // The clock skips to the next frame, which rings the alarm, as the next turn does.
            self.clock.asleep(next.filter(|next| *next > present.now));
            return None;
        }
        let next = next?;
        let soon = wall_now() + LOOK_EVERY;
        if present.stands {
            // Some ways to restart a clock do not ring the alarm, so the thread checks again soon.
            return Some(soon);
        }
        let (map, _) = self.clock.map_and_stop();
        map.first_reaching(next).map(|at| at.min(soon))
    }
}

/// Maximum number of frames or datagrams per iteration, so that no source starves another.
const MOST_AT_ONCE: usize = 256;
/// Size of the socket's receive buffer, in bytes.
const BUFFER_BYTES: usize = 8 << 20;
/// Interval between checks of a clock that is stopped, or may stop, while frames wait for it.
const LOOK_EVERY: Duration = Duration::from_ms(1);
