//! Clocks on sockets: one thread per node, as a program would run them.
//!
//! A node holds one clock per *variant* (plain, and each way to sign), told
//! apart by `domainNumber`, all on the same sockets and the same thread. So the
//! variants take turns within milliseconds and see the same machine.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use timeloom_ptp::security::{SecretKey, Verdict, VerifyJob};
use timeloom_ptp::{
    Action, Local, OrdinaryClock, Packet, Random, Report, SplitMix, Stamp, Token, TransparentClock,
};
use timeloom_ptp_io::Preparer;
use timeloom_time::{Duration, Instant};
use timeloom_wire::{Header, MessageType};

use super::sockets::Stamped;

pub(super) enum Clock {
    Ordinary(Box<OrdinaryClock>),
    Transparent(Box<TransparentClock>),
}

/// What a node saw.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A Sync or Follow_Up left or came in; ns of CLOCK_REALTIME.
    Passed {
        variant: usize,
        kind: MessageType,
        sequence: u16,
        sent: bool,
        octets: usize,
        stamp_ns: i64,
    },
    /// A Sync was decided upon: the top of the event loop.
    Begun {
        variant: usize,
        sequence: u16,
        at_ns: i64,
    },
    /// A slave's offset.
    Offset {
        variant: usize,
        offset_ns: f64,
        authenticated: bool,
    },
    /// Whether the node's thread runs before everything else.
    Scheduled(bool),
    /// Authenticated time was violated: something is wrong with the bench.
    Failure(String),
}

pub(super) struct Node {
    clocks: Vec<Clock>,
    ports: Vec<Stamped>,
    /// Departures that are awaited, by port and number.
    awaited: HashMap<(usize, u32), (Passing, Option<Token>)>,
    events: Vec<Event>,
    random: SplitMix,
    jobs: Sender<(usize, Box<VerifyJob>)>,
    verdicts: Receiver<(usize, Verdict)>,
    /// The programs' own thread that computes ahead, and for whom.
    preparer: Preparer,
    secrets: Vec<Arc<SecretKey>>,
    wake: WakeUp,
    begun_ns: i64,
    /// What the grandmaster has yet to learn of its Syncs, and when: who sent
    /// one, and when it left.
    held: VecDeque<(Instant<Local>, usize, Token, Stamp)>,
}

impl Node {
    /// Runs on a thread of its own until `stop`; the thread returns what it saw.
    pub(super) fn start(
        clocks: Vec<Clock>,
        ports: Vec<Stamped>,
        secrets: Vec<Arc<SecretKey>>,
        seed: u64,
        stop: Arc<AtomicBool>,
    ) -> io::Result<JoinHandle<io::Result<Vec<Event>>>> {
        let wake = WakeUp::new()?;
        let (jobs, to_verify) = channel::<(usize, Box<VerifyJob>)>();
        let (verified, verdicts) = channel();
        let done = wake.clone();
        // Signatures are checked beside the event path.
        let verifier = spawn(move || {
            for (variant, job) in to_verify {
                if verified.send((variant, job.run())).is_err() {
                    break;
                }
                done.signal();
            }
        });
        let mut node = Self {
            clocks,
            ports,
            awaited: HashMap::new(),
            events: Vec::new(),
            random: SplitMix(seed),
            jobs,
            verdicts,
            preparer: Preparer::start().map_err(io::Error::other)?,
            secrets,
            wake,
            begun_ns: 0,
            held: VecDeque::new(),
        };
        Ok(spawn(move || {
            node.events.push(Event::Scheduled(first_in_line()));
            while !stop.load(Ordering::Relaxed) {
                node.turn()?;
            }
            drop(node.jobs);
            drop(node.verdicts);
            let _ = verifier.join();
            Ok(node.events)
        }))
    }

    /// Waits, and does what is due.
    fn turn(&mut self) -> io::Result<()> {
        self.wait()?;
        self.begun_ns = real_ns();
        self.departures();
        self.arrivals();
        while let Ok((variant, verdict)) = self.verdicts.try_recv() {
            match &mut self.clocks[variant] {
                Clock::Ordinary(clock) => clock.handle_verdict(local(), &verdict),
                Clock::Transparent(clock) => clock.handle_verdict(local(), &verdict),
            }
            self.drain(variant)?;
        }
        for variant in 0..self.clocks.len() {
            let now = local();
            if self.next_wake(variant).is_some_and(|at| at <= now) {
                match &mut self.clocks[variant] {
                    Clock::Ordinary(clock) => clock.handle_wake(now, &mut self.random),
                    Clock::Transparent(clock) => clock.handle_wake(now, &mut self.random),
                }
            }
            self.drain(variant)?;
        }
        while self.held.front().is_some_and(|(at, ..)| *at <= local()) {
            if let Some((_, variant, token, stamp)) = self.held.pop_front() {
                if let Clock::Ordinary(clock) = &mut self.clocks[variant] {
                    clock.handle_transmit_stamp(local(), token, Some(stamp));
                }
                self.drain(variant)?;
            }
        }
        for secret in &self.secrets {
            self.preparer.top_up(secret);
        }
        Ok(())
    }

    fn next_wake(&self, variant: usize) -> Option<Instant<Local>> {
        match &self.clocks[variant] {
            Clock::Ordinary(clock) => clock.next_wake(),
            Clock::Transparent(clock) => clock.next_wake(),
        }
    }

    fn wait(&self) -> io::Result<()> {
        let due = (0..self.clocks.len())
            .filter_map(|v| self.next_wake(v))
            .chain(self.held.front().map(|(at, ..)| *at))
            .min();
        let wait_ns = due.map_or(LONGEST_WAIT_NS, |at| (at - local()).as_ns());
        let wait_ns = wait_ns.clamp(0, LONGEST_WAIT_NS);
        let timeout = libc::timespec {
            tv_sec: 0,
            tv_nsec: wait_ns,
        };
        let watch = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let fds = self.ports.iter().map(Stamped::fd).chain([self.wake.0.fd]);
        let mut fds: Vec<_> = fds.map(watch).collect();
        // SAFETY: as many descriptors as said, and a timeout that lives on.
        let result = unsafe {
            libc::ppoll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if fds.last().is_some_and(|fd| fd.revents != 0) {
            self.wake.clear();
        }
        let error = io::Error::last_os_error();
        if result < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        Ok(())
    }

    fn departures(&mut self) {
        for port in 0..self.ports.len() {
            while let Some((id, stamp_ns)) = self.ports[port].departed() {
                let Some((passing, token)) = self.awaited.remove(&(port, id)) else {
                    continue;
                };
                let variant = passing.variant;
                self.note(passing, true, stamp_ns);
                let Some(token) = token else { continue };
                let (now, stamp) = (local(), Stamp::from_ns(stamp_ns));
                match &mut self.clocks[variant] {
                    Clock::Ordinary(_) if passing.kind == MessageType::Sync => {
                        let due = now + FOLLOW_UP_AFTER;
                        self.held.push_back((due, variant, token, stamp));
                    }
                    Clock::Ordinary(clock) => clock.handle_transmit_stamp(now, token, Some(stamp)),
                    Clock::Transparent(clock) => {
                        clock.handle_transmit_stamp(now, port as u16 + 1, token, Some(stamp));
                    }
                }
            }
        }
    }

    fn arrivals(&mut self) {
        let mut buffer = [0; 2048];
        for port in 0..self.ports.len() {
            while let Some((length, stamp_ns)) = self.ports[port].receive(&mut buffer) {
                let Ok((header, _)) = Header::parse(&buffer[..length]) else {
                    continue;
                };
                let variant = usize::from(header.domain);
                self.note(Passing::new(&header, length), false, stamp_ns);
                let packet = Packet {
                    bytes: buffer[..length].to_vec(),
                    vlan: None,
                };
                let (now, stamp) = (local(), Some(Stamp::from_ns(stamp_ns)));
                match &mut self.clocks[variant] {
                    Clock::Ordinary(clock) => clock.handle_receive(now, &packet, stamp),
                    Clock::Transparent(clock) => {
                        clock.handle_receive(now, port as u16 + 1, &packet, stamp);
                    }
                }
                // Event messages go on at once.
                let _ = self.drain(variant);
            }
        }
    }

    fn drain(&mut self, variant: usize) -> io::Result<()> {
        loop {
            let action = match &mut self.clocks[variant] {
                Clock::Ordinary(clock) => clock.poll_action(),
                Clock::Transparent(clock) => clock.poll_action(),
            };
            match action {
                None => return Ok(()),
                Some(Action::Send {
                    port,
                    packet,
                    token,
                }) => self.send(variant, usize::from(port) - 1, &packet, token)?,
                Some(Action::Verify(job)) => {
                    let _ = self.jobs.send((variant, job));
                }
                Some(Action::Sign(job)) => {
                    let signed = job.run();
                    if let Clock::Transparent(clock) = &mut self.clocks[variant] {
                        clock.handle_signed(local(), signed);
                    }
                }
                Some(Action::Report(Report::Offset {
                    offset,
                    authenticated,
                    ..
                })) => self.events.push(Event::Offset {
                    variant,
                    offset_ns: offset.as_ns_f64(),
                    authenticated,
                }),
                Some(Action::Report(Report::Failure { failure, .. })) => {
                    self.events.push(Event::Failure(format!("{failure:?}")));
                }
                Some(_) => {}
            }
        }
    }

    fn send(
        &mut self,
        variant: usize,
        port: usize,
        packet: &Packet,
        token: Option<Token>,
    ) -> io::Result<()> {
        let (header, _) =
            Header::parse(&packet.bytes).map_err(|error| io::Error::other(format!("{error:?}")))?;
        let id = self.ports[port].send(&packet.bytes)?;
        let passing = Passing::new(&header, packet.bytes.len());
        self.awaited.insert((port, id), (passing, token));
        let sequence = header.sequence_id;
        if passing.kind == MessageType::Sync && matches!(self.clocks[variant], Clock::Ordinary(_)) {
            self.events.push(Event::Begun {
                variant,
                sequence,
                at_ns: self.begun_ns,
            });
        }
        Ok(())
    }

    fn note(&mut self, passing: Passing, sent: bool, stamp_ns: i64) {
        if matches!(passing.kind, MessageType::Sync | MessageType::FollowUp) {
            self.events.push(Event::Passed {
                variant: passing.variant,
                kind: passing.kind,
                sequence: passing.sequence,
                octets: passing.octets,
                sent,
                stamp_ns,
            });
        }
    }
}

/// A message on its way in or out.
#[derive(Clone, Copy, Debug)]
struct Passing {
    variant: usize,
    kind: MessageType,
    sequence: u16,
    octets: usize,
}

impl Passing {
    fn new(header: &Header, octets: usize) -> Self {
        Self {
            variant: usize::from(header.domain),
            kind: header.message_type,
            sequence: header.sequence_id,
            octets,
        }
    }
}

/// From a Sync's stamp to when the grandmaster learns of it, makes its Follow_Up
/// and sends it. At once, an unsigned Follow_Up would arrive while the
/// transparent clock is still busy with the Sync, a signed one later; and the
/// grandmaster would sign on one processor (perhaps half of the same core) while
/// the transparent clock has the Sync on the other.
const FOLLOW_UP_AFTER: Duration = Duration::from_ns(1_000_000);
/// So that a node sees `stop` in time.
const LONGEST_WAIT_NS: i64 = 50_000_000;

/// Puts the calling thread into SCHED_FIFO, as one does with a clock's event
/// thread: else the figures tell who else was running. `false` without the right.
fn first_in_line() -> bool {
    let parameters = libc::sched_param { sched_priority: 10 };
    // SAFETY: changes the calling thread only; reads one struct.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// CLOCK_MONOTONIC, which paces the machines.
pub(super) fn local() -> Instant<Local> {
    Instant::from_ns(read_ns(libc::CLOCK_MONOTONIC))
}

/// CLOCK_REALTIME, which the kernel stamps by.
fn real_ns() -> i64 {
    read_ns(libc::CLOCK_REALTIME)
}

fn read_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// An eventfd: verdicts are ready.
#[derive(Clone)]
struct WakeUp(Arc<Eventfd>);

struct Eventfd {
    fd: libc::c_int,
}

impl WakeUp {
    fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(Arc::new(Eventfd { fd })))
    }

    fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight octets from a buffer of eight.
        unsafe { libc::write(self.0.fd, one.as_ptr().cast(), one.len()) };
    }

    fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight octets into a buffer of eight.
        unsafe { libc::read(self.0.fd, count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Drop for Eventfd {
    fn drop(&mut self) {
        // SAFETY: our own descriptor, the last user of it is gone.
        unsafe { libc::close(self.fd) };
    }
}

/// Kept apart from the clocks' own numbers.
pub(super) fn seed(node: u64) -> u64 {
    SplitMix(0x7470_7000 + node).next_u64()
}
