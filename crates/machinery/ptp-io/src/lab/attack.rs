//! Attacks, for the laboratory only: a wire that lies.
//!
//! The attacker is a namespace of its own between two nodes, with an interface
//! to each. It hands every frame on, as a cable does, and does one thing to
//! those that its attack is about. It needs nobody's cooperation, so it works
//! on ptp4l as on us. It has no key; what a clock with a valid key can do, the
//! simulated attacks of `timeloom-ptp` do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_fabric::Namespace;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::message::{Announce, Body};
use timeloom_wire::{ClockIdentity, Header, Message, MessageType, TimeInterval, Timestamp};

use super::chain::{DOWN, UP};
use crate::socket::PortSocket;
use crate::{Interface, PtpError, Stamping, Transport, Wake};
use timeloom_ptp::Packet;
use timeloom_ptp::tamper::Tamper;

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Adds a microsecond to the Follow_Up's correction.
    Correction,
    /// Changes the Follow_Up's time by 64 ns.
    Origin,
    /// Takes the signed TLV away.
    Strip,
    /// Takes the last hop out of the chain.
    RemoveHop,
    /// Names another epoch of keys.
    Epoch,
    /// Sends Sync and Follow_Up of two seconds ago once more.
    Replay,
    /// Sends every Sync once more, a millisecond late.
    DuplicateSync,
    /// Sends a Sync of its own making before the genuine one.
    SpoofSync,
    /// Announces a better grandmaster.
    SecondMaster,
    /// Changes the neighbour's peer-delay stamps.
    Pdelay,
    /// Spoils signatures, a hundred Follow_Ups for each genuine one.
    Flood,
    /// Sends bytes that are no messages: cut off, odd, of an unknown version. It
    /// violates nobody's time; they are dropped and counted.
    Malformed,
    /// Holds Syncs back for 2 ms from the third second on.
    DelaySync,
    /// Holds everything back for 20 µs from the start, both ways: symmetric.
    /// Nothing can notice it, and nothing does; it shows in the link's delay.
    SymmetricDelay,
    /// A hop, with its valid key, says 5 µs too much of itself, from the start.
    /// Within its bounds nothing can notice it; the offset shows it.
    Lie,
}

impl Attack {
    /// All of them with their names and what is expected of a signed chain.
    pub const ALL: [(&'static str, Self); 15] = [
        ("correction", Self::Correction),
        ("origin", Self::Origin),
        ("strip", Self::Strip),
        ("remove-hop", Self::RemoveHop),
        ("epoch", Self::Epoch),
        ("replay", Self::Replay),
        ("duplicate-sync", Self::DuplicateSync),
        ("spoof-sync", Self::SpoofSync),
        ("second-master", Self::SecondMaster),
        ("pdelay", Self::Pdelay),
        ("flood", Self::Flood),
        ("malformed", Self::Malformed),
        ("delay-sync", Self::DelaySync),
        ("symmetric-delay", Self::SymmetricDelay),
        ("lie", Self::Lie),
    ];

    /// The attack called `name`.
    ///
    /// # Errors
    /// With the names there are.
    pub fn named(name: &str) -> Result<Self, PtpError> {
        Self::ALL
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, attack)| *attack)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|(of, _)| *of).collect();
                PtpError::usage(format!(
                    "there is no attack `{name}`; there are {}",
                    names.join(", ")
                ))
            })
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, attack)| *attack == self);
        found.expect("all of them are listed").0
    }

    /// Whether a signed chain must notice it. A delay that was there from the
    /// start and is the same both ways is part of the path, and what a hop says
    /// of itself nobody else can know.
    pub const fn is_detectable(self) -> bool {
        !matches!(self, Self::SymmetricDelay | Self::Lie | Self::Malformed)
    }
}

/// What the wire is told to do, and how much of it it has done. Clones tell the
/// same wire.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders(Arc<(Mutex<Option<Order>>, AtomicU64)>);

#[derive(Clone, Copy, Debug)]
struct Order {
    attack: Attack,
    from: Instant<Wall>,
}

impl Orders {
    /// Attack from `from` on; until then, hand everything on.
    pub(super) fn attack(&self, attack: Attack, from: Instant<Wall>) {
        self.set(Some(Order { attack, from }));
    }

    /// Be an ordinary cable again.
    pub(super) fn cease(&self) {
        self.set(None);
    }

    /// How many messages were changed or made, in all attacks.
    pub(super) fn attacked(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }

    fn set(&self, order: Option<Order>) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = order;
    }

    fn at(&self, now: Instant<Wall>) -> Option<Attack> {
        let order = *self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        order
            .filter(|order| order.from <= now)
            .map(|order| order.attack)
    }

    fn count(&self, messages: u64) {
        self.0.1.fetch_add(messages, Ordering::Relaxed);
    }
}

/// The wire at work. Dropping it ends it.
pub(super) struct Attacker {
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    /// Taps the cable from now on.
    pub(super) fn start(
        orders: Orders,
        transport: Transport,
        wire: &Namespace,
    ) -> Result<Self, PtpError> {
        if transport != Transport::Layer2 {
            return Err(PtpError::usage(
                "the laboratory's attacker works on layer 2",
            ));
        }
        let wake = Wake::new().map_err(PtpError::doing("open a socket pair"))?;
        let open = |name: &str| {
            let interface = Interface::find(name)?;
            PortSocket::open(&interface, transport, Stamping::Software)
        };
        let ports = wire.run(|| Ok::<_, PtpError>([open(UP)?, open(DOWN)?]))??;
        let told = wake.clone();
        let thread = spawn(move || Wire::new(orders, ports).run(&told));
        Ok(Self {
            wake,
            thread: Some(thread),
        })
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

struct Wire {
    orders: Orders,
    ports: [PortSocket; 2],
    /// What is on its way: when, out by which port, what.
    held: VecDeque<(Instant<Wall>, usize, Packet)>,
    /// Genuine Syncs and Follow_Ups of the last seconds, for replay.
    kept: VecDeque<(Instant<Wall>, Packet)>,
    announced: Instant<Wall>,
    attacked: u64,
}

/// How old a message is that is replayed, and how old one may get to be.
const REPLAYED_AFTER: Duration = Duration::from_s(2);
const KEPT_FOR: Duration = Duration::from_s(4);

impl Wire {
    fn new(orders: Orders, ports: [PortSocket; 2]) -> Self {
        Self {
            orders,
            ports,
            held: VecDeque::new(),
            kept: VecDeque::new(),
            announced: wall_now(),
            attacked: 0,
        }
    }

    fn run(mut self, wake: &Wake) {
        while !wake.is_stopped() {
            self.wait(wake);
            for from in 0..2 {
                let mut arrived = Vec::new();
                let _ = self.ports[from].receive(|arrival| arrived.push(arrival.packet));
                self.ports[from].departures(|_, _| {});
                let before = self.attacked;
                for packet in arrived {
                    self.pass(packet, from);
                }
                self.orders.count(self.attacked - before);
            }
            let now = wall_now();
            while let Some(at) = self.held.iter().position(|(due, ..)| *due <= now) {
                if let Some((_, to, packet)) = self.held.remove(at) {
                    let _ = self.ports[to].send(&packet);
                }
            }
        }
    }

    fn wait(&self, wake: &Wake) {
        let fds = [
            self.ports[0].descriptors()[0],
            self.ports[1].descriptors()[0],
            wake.descriptor(),
        ];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let due = self.held.iter().map(|(due, ..)| *due).min();
        let left = due.map_or(50_000_000, |due| {
            (due - wall_now()).as_ns().clamp(0, 50_000_000)
        });
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left,
        };
        // Whatever ended the wait: the caller looks at everything.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn send_later(&mut self, delay: Duration, to: usize, packet: Packet) {
        self.held.push_back((wall_now() + delay, to, packet));
    }

    /// Hands `packet` on, or what becomes of it.
    fn pass(&mut self, mut packet: Packet, from: usize) {
        let to = 1 - from;
        let now = wall_now();
        let Ok((header, _)) = Header::parse(&packet.bytes) else {
            let _ = self.ports[to].send(&packet);
            return;
        };
        let (kind, downstream) = (header.message_type, from == 0);
        let attack = match self.orders.at(now) {
            Some(Attack::SymmetricDelay) => {
                self.attacked += 1;
                return self.send_later(Duration::from_us(20), to, packet);
            }
            Some(attack) if downstream => attack,
            _ => {
                if downstream {
                    self.keep(kind, &packet);
                }
                let _ = self.ports[to].send(&packet);
                return;
            }
        };
        let is = |of: MessageType| kind == of;
        let before = self.attacked;
        match attack {
            Attack::Correction
            | Attack::Origin
            | Attack::Strip
            | Attack::RemoveHop
            | Attack::Epoch => {
                let tamper = match attack {
                    Attack::Correction => Tamper::Correction(TimeInterval::from_ns(1_000)),
                    Attack::Origin => Tamper::Origin,
                    Attack::Strip => Tamper::Strip,
                    Attack::RemoveHop => Tamper::RemoveHop,
                    _ => Tamper::Epoch,
                };
                self.attacked += u64::from(tamper.apply(&mut packet.bytes));
            }
            Attack::Pdelay if is(MessageType::PdelayRespFollowUp) => {
                packet.bytes[42] ^= 0x04;
                self.attacked += 1;
            }
            Attack::DuplicateSync if is(MessageType::Sync) => {
                self.send_later(Duration::from_ms(1), to, packet.clone());
                self.attacked += 1;
            }
            Attack::SpoofSync if is(MessageType::Sync) => {
                let mut spoof = packet.clone();
                spoof.bytes[43] ^= 0x10;
                let _ = self.ports[to].send(&spoof);
                self.attacked += 1;
            }
            Attack::DelaySync if is(MessageType::Sync) => {
                self.attacked += 1;
                return self.send_later(Duration::from_ms(2), to, packet);
            }
            Attack::Flood if is(MessageType::FollowUp) && packet.bytes.len() > 60 => {
                for n in 0..100u8 {
                    let mut spoilt = packet.clone();
                    let last = spoilt.bytes.len() - 1;
                    spoilt.bytes[last] ^= n + 1;
                    let _ = self.ports[to].send(&spoilt);
                    self.attacked += 1;
                }
            }
            Attack::Malformed if is(MessageType::FollowUp) => {
                for bytes in malformed(&packet.bytes) {
                    let _ = self.ports[to].send(&Packet {
                        bytes,
                        vlan: packet.vlan,
                    });
                    self.attacked += 1;
                }
            }
            Attack::Replay if is(MessageType::FollowUp) => {
                while self.kept.len() >= 2 && now - self.kept[0].0 > REPLAYED_AFTER {
                    let (_, old) = self.kept.pop_front().expect("it has two");
                    self.send_later(Duration::from_ms(30), to, old);
                    self.attacked += 1;
                }
            }
            Attack::SecondMaster if now - self.announced > Duration::from_ms(200) => {
                self.announced = now;
                self.attacked += 1;
                let _ =
                    self.ports[to].send(&better_master(&header, packet.vlan, self.attacked as u16));
            }
            _ => {}
        }
        // What a replay made waits aside; this one passes as it came.
        if before == self.attacked || attack == Attack::Replay {
            self.keep(kind, &packet);
        }
        let _ = self.ports[to].send(&packet);
    }

    /// Remembers a genuine message for as long as it may be replayed.
    fn keep(&mut self, kind: MessageType, packet: &Packet) {
        let now = wall_now();
        while self
            .kept
            .front()
            .is_some_and(|(at, _)| now - *at > KEPT_FOR)
        {
            self.kept.pop_front();
        }
        if matches!(kind, MessageType::Sync | MessageType::FollowUp) {
            self.kept.push_back((now, packet.clone()));
        }
    }
}

/// Six ways to spoil a message.
fn malformed(message: &[u8]) -> Vec<Vec<u8>> {
    let changed = |at: usize, to: u8| {
        let mut bytes = message.to_vec();
        bytes[at] = to;
        bytes
    };
    let mut odd = message[..44].to_vec();
    odd.extend_from_slice(&[0x80, 0, 0, 1, 0]);
    odd[3] = odd.len() as u8;
    vec![
        message[..20].to_vec(),
        changed(2, 0xff),
        changed(1, 0x07),
        changed(0, 0x07),
        changed(40, 0xff),
        odd,
    ]
}

/// An Announce of a clock that nobody knows and that claims to be the best.
fn better_master(like: &Header, vlan: Option<timeloom_wire::VlanTag>, sequence: u16) -> Packet {
    let clock = ClockIdentity([0x02, 0x54, 0x4c, 0xff, 0xfe, 0xba, 0xdb, 0xad]);
    let source = timeloom_wire::PortIdentity { clock, port: 1 };
    let mut header = Header::new(MessageType::Announce, source, sequence);
    (header.domain, header.sdo_id, header.log_message_interval) = (like.domain, like.sdo_id, -2);
    let body = Announce {
        origin: Timestamp::ZERO,
        current_utc_offset: 37,
        grandmaster_priority1: 1,
        grandmaster_quality: timeloom_wire::ClockQuality {
            class: 6,
            accuracy: 0x20,
            offset_scaled_log_variance: 1,
        },
        grandmaster_priority2: 1,
        grandmaster: clock,
        steps_removed: 0,
        time_source: 0x20,
    };
    let mut buffer = [0; 128];
    let length = Message::new(header, Body::Announce(body))
        .emit(&mut buffer)
        .expect("an Announce is 64 octets");
    Packet {
        bytes: buffer[..length].to_vec(),
        vlan,
    }
}
