//! Links of the kernel's network that lead to another machine.
//!
//! At each end stands a namespace whose one interface is joined to the node ([`PacketPort`]).
//! What comes out of it waits until it has left at the link's rate, by the clock of the
//! run; then it crosses in a sealed UDP datagram with the instant at which it left, and is
//! handed to the node there once that clock has reached that instant too. So the link stands
//! while the clocks do: what is on it is ours to hold. It takes as much longer than a cable
//! as the machines' network does.
//!
//! One thread serves all links of a machine. It decides nothing about when clocks stand.

mod datagram;
pub mod fuzzing;
mod line;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use timeloom_net::{Frame, LARGE, Offload};
use timeloom_sys::schedule::{Policy, set_policy, sleep_exactly};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::poll::{Alarm, Poll};
use crate::{Follow, PacketPort, Port, PortalError, Received, TxStatus};
pub use datagram::TunnelKey;
use datagram::{Datagram, open};
use line::{Incoming, Outgoing};

/// One end of a link to another machine.
#[derive(Debug)]
pub struct TunnelEnd {
    /// The link, as all machines number it.
    pub link: u16,
    /// Which of its ends this is: 0 or 1, and the other is the other.
    pub end: u8,
    /// Where the other machine's tunnels are.
    pub peer: SocketAddr,
    /// Bits in a second; none: at once.
    pub rate_bits_per_s: Option<u64>,
    /// How much waits for the link before more is dropped.
    pub queue_bytes: usize,
    /// What the link is joined to here.
    pub port: PacketPort,
    /// What it is called in reports.
    pub name: String,
}

/// What one end has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelReport {
    /// The link's name.
    pub name: String,
    /// Frames sent, and received.
    pub sent: u64,
    /// Frames handed to the node here.
    pub received: u64,
    /// Frames that found the queue full.
    pub dropped: u64,
    /// Frames that left the other machine and did not come.
    pub lost: u64,
    /// Frames that came twice, too late, or more than there is room for.
    pub refused: u64,
    /// Frames that this machine's kernel dropped on their way to us.
    pub dropped_by_machine: u64,
    /// How long the slowest took between the machines, in virtual time.
    pub slowest: Duration,
}

/// The links of this machine, served until this is dropped.
#[derive(Debug)]
pub struct Tunnels {
    over: Arc<AtomicBool>,
    alarm: Alarm,
    thread: Option<JoinHandle<Vec<TunnelReport>>>,
}

impl Tunnels {
    /// Serves `ends`, which other machines reach by `socket`, on `clock`.
    ///
    /// # Errors
    /// When the kernel refuses a thread or what it sleeps on.
    pub fn start(
        socket: UdpSocket,
        key: TunnelKey,
        ends: Vec<TunnelEnd>,
        clock: Box<dyn Follow>,
    ) -> Result<Self, PortalError> {
        let failed = |error| PortalError::kernel("start the tunnels", error);
        let alarm = Alarm::new().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        // The forced form goes past the machine's limit, where that is allowed.
        set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&socket, BUFFER_BYTES))
            .map_err(|error| failed(error.into()))?;
        let over = Arc::new(AtomicBool::new(false));
        let mut descriptors: Vec<BorrowedFd<'_>> =
            ends.iter().map(|end| end.port.descriptor()).collect();
        descriptors.push(socket.as_fd());
        let poll = Poll::new(&alarm, &descriptors, Duration::ZERO).map_err(failed)?;
        let worker = Worker {
            ends: ends.into_iter().map(End::new).collect(),
            socket,
            key,
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

    /// Something that tells the thread that its clock has changed, from anywhere.
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        let alarm = self.alarm.clone();
        move || alarm.ring()
    }

    /// Ends them, and says what they did; nothing when the thread has panicked.
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

/// An end, with what is on its way.
struct End {
    what: TunnelEnd,
    outgoing: Outgoing,
    incoming: Incoming,
    number: u64,
    report: TunnelReport,
}

impl End {
    fn new(what: TunnelEnd) -> Self {
        Self {
            outgoing: Outgoing::new(what.rate_bits_per_s, what.queue_bytes),
            incoming: Incoming::default(),
            number: 0,
            report: TunnelReport {
                name: what.name.clone(),
                ..TunnelReport::default()
            },
            what,
        }
    }

    /// What it did in all.
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

struct Worker {
    ends: Vec<End>,
    socket: UdpSocket,
    key: TunnelKey,
    clock: Box<dyn Follow>,
    poll: Poll,
    alarm: Alarm,
    over: Arc<AtomicBool>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

/// What the clock shows, and where it is going.
struct Present {
    now: Instant<Virtual>,
    /// Whether it stands.
    stands: bool,
}

impl Worker {
    fn run(mut self) -> Vec<TunnelReport> {
        let mut ready = Vec::new();
        sleep_exactly();
        // Another program's time slice would make each frame milliseconds late.
        let _ = set_policy(Policy::First(1));
        while !self.over.load(Ordering::SeqCst) {
            let present = self.present();
            self.hear();
            self.take_in(present.now);
            self.send(present.now);
            if !present.stands {
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
        Present {
            now: now.min(stop),
            stands: map.rate.is_stopped() || now >= stop,
        }
    }

    /// Datagrams of other machines.
    fn hear(&mut self) {
        // An error is a peer that is not there (ICMP), or nothing to be had.
        for _ in 0..MOST_AT_ONCE {
            let Ok((length, from)) = self.socket.recv_from(&mut self.buffer) else {
                return;
            };
            let Some(datagram) = open(&self.key, &self.buffer[..length]) else {
                continue;
            };
            let end = self.ends.iter_mut().find(|end| {
                let what = &end.what;
                (what.link, 1 - what.end, what.peer) == (datagram.link, datagram.end, from)
            });
            if let Some(end) = end {
                let Datagram {
                    number, at, frame, ..
                } = datagram;
                end.incoming.arrive(number, at, frame);
            }
        }
    }

    /// Frames of the nodes here.
    fn take_in(&mut self, now: Instant<Virtual>) {
        for end in &mut self.ends {
            for _ in 0..MOST_AT_ONCE {
                match end.what.port.receive(&mut self.buffer) {
                    Ok(Received::Frame(length, _)) => {
                        end.outgoing.offer(&self.buffer[..length], now);
                    }
                    Ok(Received::Malformed) => {}
                    Ok(Received::Nothing) | Err(_) => break,
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
                datagram.seal(&self.key, &mut self.out);
                // What cannot be sent is as lost as what is lost on the way: the other
                // end counts it.
                let _ = self.socket.send_to(&self.out, end.what.peer);
                end.report.sent += 1;
            }
        }
    }

    fn hand_out(&mut self, now: Instant<Virtual>) {
        for end in &mut self.ends {
            while let Some((at, bytes)) = end.incoming.take(now) {
                let frame = Frame {
                    at: now,
                    head: &bytes,
                    rest: &[],
                    offload: Offload::default(),
                };
                if let Ok(TxStatus::Done) = end.what.port.send(&frame) {
                    end.report.received += 1;
                    end.report.slowest = end.report.slowest.max(now - at);
                }
            }
        }
    }

    /// When something is due, if nothing comes and nobody changes the clock.
    fn next_turn(&self, present: &Present) -> Option<Instant<Wall>> {
        let leaves = self.ends.iter().filter_map(|end| end.outgoing.next());
        let comes = self.ends.iter().filter_map(|end| end.incoming.next());
        let next = leaves.chain(comes).min()?;
        let soon = wall_now() + LOOK_EVERY;
        if present.stands {
            // Not every way for a clock to go on rings.
            return Some(soon);
        }
        let (map, _) = self.clock.map_and_stop();
        map.first_reaching(next).map(|at| at.min(soon))
    }
}

/// How much one look takes in, so that no side starves another.
const MOST_AT_ONCE: usize = 256;
/// What may wait in the kernel until the thread comes.
const BUFFER_BYTES: usize = 8 << 20;
/// How often a clock that stands, or may, is looked at while something waits for it.
const LOOK_EVERY: Duration = Duration::from_ms(1);
