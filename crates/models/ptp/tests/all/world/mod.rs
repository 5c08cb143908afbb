//! A simulated world: nodes with drifting clocks, links that delay, lose and reorder packets with
//! jitter, and an attacker on any link. True time is known, and so is every error. The seed
//! determines the whole history.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of the world"
)]

pub mod clock;
pub mod keys;
pub mod link;
pub mod node;
pub mod once;
pub mod path;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use timeloom_ptp::security::{SecretKey, SigningResult, Verdict};
use timeloom_ptp::{Action, Local, Packet, Random, Report, SplitMix64, Stamp, Token};
use timeloom_time::Instant;
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use clock::HardwareClock;
use link::Link;
use node::Node;
use once::Once;

/// A packet on a link, as an attacker sees it.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Node and port that sent the packet, which also identify link and direction.
    pub from: (usize, u16),
    pub to: (usize, u16),
    pub packet: Packet,
    /// True time of arrival, in ns.
    pub arrives_ns: i64,
    /// Time that the packet spends in the receiver's queue after its arrival, in ns.
    pub held_ns: i64,
}

/// Callback that gets every departing packet and returns the packets to send instead.
pub type Attack = Box<dyn FnMut(Flight) -> Vec<Flight>>;

/// Callback that gets every record on the second network, with the sending node, and returns the
/// record that is received instead.
pub type SecondAttack = Box<dyn FnMut(usize, Vec<u8>) -> Option<Vec<u8>>>;

#[derive(Debug)]
enum Event {
    Arrive {
        to: (usize, u16),
        packet: Packet,
        passed_ns: i64,
    },
    Stamped {
        node: usize,
        port: u16,
        token: Token,
        stamp: Option<Stamp>,
    },
    Statement {
        node: usize,
        record: Vec<u8>,
    },
    Verdict {
        node: usize,
        verdict: Verdict,
    },
    Signed {
        node: usize,
        signed: SigningResult,
    },
    Wake {
        node: usize,
    },
}

pub struct World {
    pub now_ns: i64,
    pub nodes: Vec<Node>,
    pub clocks: Vec<HardwareClock>,
    pub links: Vec<Link>,
    pub reports: Vec<(i64, usize, Report)>,
    /// Number of actions of all nodes.
    pub sent: u64,
    attack: Attack,
    /// The second network, and the attacker on it.
    pub second: Link,
    pub second_attack: SecondAttack,
    wires: HashMap<(usize, u16), (usize, usize)>,
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    events: HashMap<u64, Event>,
    next_event: u64,
    random: SplitMix64,
    woken: Vec<i64>,
    /// Greatest time, in ns, that another thread takes to compute or check a signature.
    pub longest_work_ns: i64,
    /// Keys whose signatures an idle thread prepares ([`Suite::BlsOnce`]), and a check of the
    /// signatures that are made with them.
    pub secrets: HashMap<usize, Arc<SecretKey>>,
    pub once: Once,
    /// Number of chains that each node has verified. `signed` counts those that it has signed.
    pub verified: HashMap<usize, u64>,
    pub signed: HashMap<usize, u64>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now_ns: 1_000_000_000,
            nodes: Vec::new(),
            clocks: Vec::new(),
            links: Vec::new(),
            reports: Vec::new(),
            sent: 0,
            attack: Box::new(|flight| vec![flight]),
            second: Link {
                jitter_ns: 20_000_000,
                ..Link::new(2_000_000)
            },
            second_attack: Box::new(|_, record| Some(record)),
            wires: HashMap::new(),
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            next_event: 0,
            random: SplitMix64(seed),
            woken: Vec::new(),
            longest_work_ns: 300_000,
            secrets: HashMap::new(),
            once: Once::default(),
            verified: HashMap::new(),
            signed: HashMap::new(),
        }
    }

    pub fn local(&self) -> Instant<Local> {
        Instant::from_ns(self.now_ns)
    }

    pub fn add(&mut self, node: Node, clock: HardwareClock) -> usize {
        self.nodes.push(node);
        self.clocks.push(clock);
        self.woken.push(i64::MAX);
        let at = self.nodes.len() - 1;
        self.wake_later(at);
        at
    }

    pub fn connect(&mut self, a: (usize, u16), b: (usize, u16), link: Link) {
        let at = self.links.len();
        self.links.push(link);
        self.wires.insert(a, (at, 0));
        self.wires.insert(b, (at, 1));
        self.links[at].ends = [a, b];
    }

    /// Sets the attack that gets every packet.
    pub fn attack(&mut self, attack: Attack) {
        self.attack = attack;
    }

    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn at(&mut self, when_ns: i64, event: Event) {
        // Events of the same instant happen in the order of their creation.
        self.queue
            .push(Reverse((when_ns.max(self.now_ns), self.next_event)));
        self.events.insert(self.next_event, event);
        self.next_event += 1;
    }

    fn wake_later(&mut self, node: usize) {
        if let Some(at) = self.nodes[node].next_wake()
            && at.as_ns() < self.woken[node]
        {
            self.woken[node] = at.as_ns();
            self.at(at.as_ns(), Event::Wake { node });
        }
    }

    /// Schedules the next wake-up of a node; needed after a test has replaced the node.
    pub fn wake(&mut self, node: usize) {
        self.woken[node] = i64::MAX;
        self.wake_later(node);
    }

    /// Delivers a record of the second network to a node at true time `when_ns`.
    pub fn inject_statement(&mut self, when_ns: i64, node: usize, record: Vec<u8>) {
        self.at(when_ns, Event::Statement { node, record });
    }

    /// Delivers a packet at true time `when_ns`, as if it arrived at the node and port `to`.
    pub fn inject(&mut self, when_ns: i64, to: (usize, u16), packet: Packet) {
        self.at(
            when_ns,
            Event::Arrive {
                to,
                packet,
                passed_ns: when_ns,
            },
        );
    }

    pub fn run_for(&mut self, seconds: f64) {
        let end = self.now_ns + (seconds * 1e9) as i64;
        while let Some(Reverse((when, id))) = self.queue.peek().copied() {
            if when > end {
                break;
            }
            self.queue.pop();
            self.now_ns = when;
            let event = self
                .events
                .remove(&id)
                .expect("every queued event is stored");
            self.handle(event);
        }
        self.now_ns = end;
    }

    fn handle(&mut self, event: Event) {
        let now = self.local();
        let node = match event {
            Event::Arrive {
                to: (node, port),
                packet,
                passed_ns,
            } => {
                let stamp = self.clocks[node].stamp(passed_ns);
                self.nodes[node].handle_receive(now, port, &packet, Some(stamp));
                node
            }
            Event::Stamped {
                node,
                port,
                token,
                stamp,
            } => {
                self.nodes[node].handle_transmit_stamp(now, port, token, stamp);
                node
            }
            Event::Statement { node, record } => {
                self.nodes[node].handle_statement(now, &record);
                node
            }
            Event::Verdict { node, verdict } => {
                self.nodes[node].handle_verdict(now, &verdict);
                node
            }
            Event::Signed { node, signed } => {
                self.nodes[node].handle_signed(now, signed);
                node
            }
            Event::Wake { node } => {
                self.woken[node] = i64::MAX;
                self.nodes[node].handle_wake(now, &mut self.random);
                node
            }
        };
        self.drain(node);
        self.wake_later(node);
        let secret = self.secrets.get(&node);
        if let Some(secret) = secret.filter(|s| s.suite() == Suite::BlsOnce && s.wants_preparing())
        {
            secret.prepare(&mut SplitMix64(0));
        }
    }

    fn drain(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].poll_action() {
            match action {
                Action::Send {
                    port,
                    packet,
                    token,
                } => self.send(node, port, packet, token),
                Action::Step(length) => self.clocks[node].step(length.as_ns()),
                Action::Frequency(ppb) => self.clocks[node].steer(self.now_ns, ppb),
                Action::Verify(job) => {
                    *self.verified.entry(node).or_default() += 1;
                    let verdict = job.run();
                    let after = self.work_takes();
                    self.at(after, Event::Verdict { node, verdict });
                }
                Action::Sign(job) => {
                    *self.signed.entry(node).or_default() += 1;
                    let signed = job.run();
                    let after = self.work_takes();
                    self.at(after, Event::Signed { node, signed });
                }
                Action::Statement(record) => self.state(node, &record),
                Action::Report(report) => self.reports.push((self.now_ns, node, report)),
            }
        }
    }

    /// Returns the true time, in ns, at which a job that is passed to another thread now completes.
    fn work_takes(&mut self) -> i64 {
        let longest = self.longest_work_ns;
        self.now_ns + (self.random.next_u64() % (longest as u64 + 1)) as i64
    }

    /// Broadcasts a record on the second network, with jitter and loss.
    fn state(&mut self, from: usize, record: &[u8]) {
        for node in (0..self.nodes.len()).filter(|node| *node != from) {
            let Some((travel, _)) = self.second.travel_ns(&mut self.random) else {
                continue;
            };
            let Some(record) = (self.second_attack)(from, record.to_vec()) else {
                continue;
            };
            self.at(self.now_ns + travel, Event::Statement { node, record });
        }
    }

    fn send(&mut self, node: usize, port: u16, packet: Packet, token: Option<Token>) {
        self.sent += 1;
        self.once.saw((node, port), &packet.bytes);
        // The time between the decision to send and the departure on the wire varies.
        let handling =
            1_000 + (self.random.next_u64() % self.nodes[node].handling_ns().max(1)) as i64;
        let departs = self.now_ns + handling;
        if let Some(token) = token {
            let lost = self.nodes[node].loses_stamp(self.random.next_u64());
            let stamp = (!lost).then(|| self.clocks[node].stamp(departs));
            // The kernel reports the departure later, sometimes after the packet has arrived.
            let told = departs + (self.random.next_u64() % 20_000) as i64;
            self.at(
                told,
                Event::Stamped {
                    node,
                    port,
                    token,
                    stamp,
                },
            );
        }
        let Some((link, end)) = self.wires.get(&(node, port)).copied() else {
            return;
        };
        let Some((travel, held_ns)) = self.links[link].travel_ns(&mut self.random) else {
            return;
        };
        let to = self.links[link].ends[1 - end];
        let flight = Flight {
            from: (node, port),
            to,
            packet,
            arrives_ns: departs + travel,
            held_ns,
        };
        for flight in (self.attack)(flight) {
            let passed_ns = flight.arrives_ns;
            let (to, packet) = (flight.to, flight.packet);
            self.at(
                passed_ns + flight.held_ns,
                Event::Arrive {
                    to,
                    packet,
                    passed_ns,
                },
            );
        }
    }

    /// Returns the clock of `node` minus the clock of `reference`, in ns.
    pub fn error_ns(&self, node: usize, reference: usize) -> i64 {
        self.clocks[node].read(self.now_ns) - self.clocks[reference].read(self.now_ns)
    }

    pub fn identity(&self, node: usize) -> ClockIdentity {
        self.nodes[node].identity()
    }
}
