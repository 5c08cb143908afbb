//! The attacker's cable: it forwards, changes, forges or delays messages.

use std::collections::VecDeque;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_ptp::Packet;
use timeloom_ptp::tamper::Tamper;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::message::{Announce, Body};
use timeloom_wire::{ClockIdentity, Header, Message, MessageType, TimeInterval, Timestamp};

use super::{Attack, Orders};
use crate::Wake;
use crate::socket::PortSocket;

/// Cable between two interfaces, with an attacker in it.
pub(super) struct Wire {
    orders: Orders,
    ports: [PortSocket; 2],
    /// Delayed messages, each with its time of departure and its port.
    held: VecDeque<(Instant<Wall>, usize, Packet)>,
    /// Genuine Syncs and Follow_Ups of the last seconds, with their arrival times, for replay.
    kept: VecDeque<(Instant<Wall>, Packet)>,
    announced: Instant<Wall>,
    attacked: u64,
}

/// Age at which a message is replayed.
const REPLAYED_AFTER: Duration = Duration::from_s(2);
/// Maximum age of a stored message.
const KEPT_FOR: Duration = Duration::from_s(4);

impl Wire {
    pub(super) fn new(orders: Orders, ports: [PortSocket; 2]) -> Self {
        Self {
            orders,
            ports,
            held: VecDeque::new(),
            kept: VecDeque::new(),
            announced: wall_now(),
            attacked: 0,
        }
    }

    pub(super) fn run(mut self, wake: &Wake) {
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
        // Whatever ended the wait, the caller checks all sockets and delayed messages.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn send_later(&mut self, delay: Duration, to: usize, packet: Packet) {
        self.held.push_back((wall_now() + delay, to, packet));
    }

    /// Forwards `packet`, changed by the attack if the attack concerns it.
    fn pass(&mut self, mut packet: Packet, from: usize) {
        let to = 1 - from;
        let now = wall_now();
        let Ok((header, _)) = Header::parse(&packet.bytes) else {
            if !self.orders.is_spliced() {
                let _ = self.ports[to].send(&packet);
            }
            return;
        };
        let (kind, downstream) = (header.message_type, from == 0);
        let attack = match self.orders.get() {
            Some(Attack::SymmetricDelay) => {
                self.attacked += 1;
                return self.send_later(Duration::from_us(20), to, packet);
            }
            Some(attack) if downstream => attack,
            _ => {
                if downstream {
                    self.keep(kind, &packet);
                }
                if !self.orders.is_spliced() {
                    let _ = self.ports[to].send(&packet);
                }
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
        // In a replay attack the copy is stored separately, and the message itself passes
        // unchanged.
        if before == self.attacked || attack == Attack::Replay {
            self.keep(kind, &packet);
        }
        let _ = self.ports[to].send(&packet);
    }

    /// Stores a genuine message for as long as it may be replayed.
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

/// Returns six malformed variants of a message.
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

/// Returns an Announce of an unknown clock that claims to be the best.
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
