//! Event loop of a program: one thread that serves all ports and the state machine of one clock.
//!
//! The order of the work keeps the delay of a Sync short. First the loop passes received messages
//! to the state machine and sends the machine's output. The timestamps of departures follow, and
//! records and key files come last. Another thread verifies signatures, and also signs unless the
//! signature has been prepared.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use timeloom_ptp::security::{GroupKey, SecretKey, Security};
use timeloom_ptp::{ClockMachine, ClockReport, DriverAction, DropReason, Local, Stamp};
use timeloom_sys::clock::{realtime_ns, wall_now};
use timeloom_time::{ClockMap, Duration, Instant, Rate, Wall};
use tracing::{debug, trace};

use crate::clocks::StepGuard;
use crate::departures::Departures;
use crate::preparer::Preparer;
use crate::random::KernelRandom;
use crate::socket::{Arrival, PortSocket};
use crate::verifier::{Done, Job, Verifier};
use crate::{DisciplinedClock, Observer, ProgramControl, PtpError, SecondNetwork, Stamping};

/// Counters of a program since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Number of messages received.
    pub received: u64,
    /// Number of messages sent.
    pub sent: u64,
    /// Number of messages that the kernel refused to send.
    pub send_errors: u64,
    /// Number of steps of the system clock that were detected.
    pub clock_steps: u64,
    /// Number of timestamps that were discarded because of steps of the system clock.
    pub stamps_discarded: u64,
    /// Number of messages that the clock did not use, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Number of violations of authenticated time, by reason.
    pub failures: BTreeMap<String, u64>,
}

/// Sockets of one port, and the departures whose timestamps are pending.
struct Port {
    socket: PortSocket,
    departures: Departures,
    is_down: bool,
}

pub(crate) struct Driver {
    pub(crate) machine: ClockMachine,
    /// Time base of the state machine: CLOCK_MONOTONIC since the machine was created.
    local: ClockMap<Wall, Local>,
    ports: Vec<Port>,
    random: KernelRandom,
    guard: Option<StepGuard>,
    verifier: Verifier,
    preparer: Preparer,
    /// Key for which signatures are being prepared.
    secret: Option<Arc<SecretKey>>,
    wake: ProgramControl,
    steering: Option<Box<dyn DisciplinedClock>>,
    pub(crate) observer: Box<dyn Observer>,
    pub(crate) counters: DriverCounters,
    /// Second network for statements, if the options have one.
    second: Option<SecondNetwork>,
    /// Key of the group. Outgoing messages carry its authentication code, and incoming messages
    /// without a valid code are dropped.
    group: Option<GroupKey>,
}

/// Interval between attempts to use an interface that went down.
const DOWN_RETRY: Duration = Duration::from_ms(200);
/// Largest age of a valid timestamp; no timestamp that the kernel delivers is older.
const STAMP_AGE: Duration = Duration::from_s(2);
/// Largest distance of a valid timestamp into the future, which allows for the noise between two
/// processors.
const STAMP_AHEAD: Duration = Duration::from_ms(1);

impl Driver {
    /// Creates a driver of `machine`. The machine's clock is zero at this instant.
    pub(crate) fn new(
        machine: ClockMachine,
        sockets: Vec<PortSocket>,
        stamping: Stamping,
        wake: ProgramControl,
        steering: Option<Box<dyn DisciplinedClock>>,
        second: Option<SecondNetwork>,
        observer: Box<dyn Observer>,
    ) -> Result<Self, PtpError> {
        let ports = sockets
            .into_iter()
            .map(|socket| Port {
                socket,
                departures: Departures::default(),
                is_down: false,
            })
            .collect();
        Ok(Self {
            machine,
            local: ClockMap::new(wall_now(), Instant::ZERO, Rate::ONE),
            ports,
            random: KernelRandom::open()?,
            // Other programs do not set the clock of a network card, so only software timestamps
            // need the guard.
            guard: (stamping == Stamping::Software).then(StepGuard::new),
            verifier: Verifier::start(wake.clone())?,
            preparer: Preparer::start()?,
            secret: None,
            wake,
            steering,
            observer,
            counters: DriverCounters::default(),
            second,
            group: None,
        })
    }

    pub(crate) fn with_group(mut self, group: Option<GroupKey>) -> Self {
        self.group = group;
        self
    }

    /// Returns the present time of the clock that paces the state machine.
    fn now(&self) -> Instant<Local> {
        self.local.at(wall_now())
    }

    /// Returns the instant at which the state machine must be called next; `None` if it waits for
    /// messages only.
    fn next_wake(&self) -> Option<Instant<Wall>> {
        self.local.first_reaching(self.machine.next_wake()?)
    }

    /// Waits until an event arrives or `until`, handles everything that is due, and returns.
    pub(crate) fn turn(&mut self, until: Instant<Wall>) -> Result<(), PtpError> {
        self.wait(until)?;
        self.wake.quiet();
        self.observer.woken();
        self.read_ports();
        self.read_departures();
        while let Some(done) = self.verifier.finished() {
            match done {
                Done::Verified(verdict) => self.machine.handle_verdict(self.now(), &verdict),
                Done::Signed(signed) => self.machine.handle_signed(self.now(), signed),
            }
            self.act();
        }
        self.read_statements();
        let now = self.now();
        if self.machine.next_wake().is_some_and(|at| at <= now) {
            self.machine.handle_wake(now, &mut self.random);
            self.act();
        }
        self.prepare();
        Ok(())
    }

    /// Sets the keys with which this driver signs. The caller must give them to the state machine
    /// too.
    pub(crate) fn sign_with(&mut self, security: &Security) {
        self.secret = Some(security.secret.clone());
        self.prepare();
    }

    fn prepare(&self) {
        if let Some(secret) = &self.secret {
            self.preparer.top_up(secret);
        }
    }

    fn wait(&self, until: Instant<Wall>) -> Result<(), PtpError> {
        let up = self.ports.iter().filter(|port| !port.is_down);
        let mut fds: Vec<PollFd<'_>> = up
            .flat_map(|port| port.socket.descriptors())
            .chain([self.wake.descriptor()])
            .chain(self.second.as_ref().map(SecondNetwork::descriptor))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN | PollFlags::PRI))
            .collect();
        let stamps = self
            .ports
            .iter()
            .filter_map(|port| port.departures.next_wake());
        let retry = self
            .ports
            .iter()
            .any(|port| port.is_down)
            .then(|| wall_now() + DOWN_RETRY);
        let due = stamps
            .chain(self.next_wake())
            .chain(retry)
            .fold(until, Ord::min);
        let left = (due - wall_now()).as_ns().max(0);
        let timeout = Timespec {
            tv_sec: left / 1_000_000_000,
            tv_nsec: left % 1_000_000_000,
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(PtpError::doing("wait for messages")(errno.into())),
        }
    }

    fn read_ports(&mut self) {
        for number in 1..=self.ports.len() {
            let mut arrivals = Vec::new();
            let port = &mut self.ports[number - 1];
            // The error is ENETDOWN, reported once per event. The interface may come up again.
            port.is_down = port
                .socket
                .receive(|arrival| arrivals.push(arrival))
                .is_err();
            if arrivals.is_empty() {
                continue;
            }
            // The clock is checked after reading, so that every timestamp is older than the result
            // of the check.
            let stepped = self.look_at_clock();
            for Arrival { mut packet, stamp } in arrivals {
                self.counters.received += 1;
                if let Some(group) = &self.group {
                    match group.check(&packet.bytes) {
                        Ok(bytes) => packet.bytes = bytes,
                        Err(error) => {
                            let reason = format!("group: {error}");
                            *self.counters.dropped.entry(reason).or_default() += 1;
                            continue;
                        }
                    }
                }
                let stamp = stamp.filter(|stamp| !stepped && self.is_plausible(*stamp));
                let port = number as u16;
                self.observer.received(port, &packet, stamp);
                self.machine
                    .handle_receive(self.now(), port, &packet, stamp);
                self.act();
            }
        }
    }

    fn read_departures(&mut self) {
        for number in 1..=self.ports.len() {
            let mut known = Vec::new();
            let port = &mut self.ports[number - 1];
            let observer = &mut self.observer;
            port.socket.departures(|frame, stamp| {
                observer.departed(number as u16, frame, stamp);
                if let Some(token) = port.departures.departed(frame) {
                    known.push((token, stamp));
                }
            });
            let stepped = !known.is_empty() && self.look_at_clock();
            for (token, stamp) in known {
                let stamp = Some(stamp).filter(|stamp| !stepped && self.is_plausible(*stamp));
                self.machine
                    .handle_transmit_stamp(self.now(), number as u16, token, stamp);
                self.act();
            }
            let now = wall_now();
            while let Some(token) = self.ports[number - 1].departures.lost(now) {
                self.machine
                    .handle_transmit_stamp(self.now(), number as u16, token, None);
                self.act();
            }
        }
    }

    fn read_statements(&mut self) {
        let Some(second) = &mut self.second else {
            return;
        };
        let mut records = Vec::new();
        second.receive(|record| records.push(record.to_vec()));
        for record in records {
            self.machine.handle_statement(self.now(), &record);
            self.act();
        }
    }

    /// Returns true if the clock of the timestamps was set since the last check. Pending timestamps
    /// may then be from before or after the step, so differences with them are meaningless.
    fn look_at_clock(&mut self) -> bool {
        let Some(step) = self.guard.as_mut().and_then(StepGuard::step) else {
            return false;
        };
        self.counters.clock_steps += 1;
        self.observer.notice(&format!(
            "the machine's clock was set by {} ns; stamps around it are not used",
            step.as_ns()
        ));
        for number in 1..=self.ports.len() {
            let lost: Vec<_> = self.ports[number - 1].departures.give_up().collect();
            for token in lost {
                self.counters.stamps_discarded += 1;
                self.machine
                    .handle_transmit_stamp(self.now(), number as u16, token, None);
            }
        }
        self.act();
        true
    }

    fn is_plausible(&mut self, stamp: Stamp) -> bool {
        if self.guard.is_none() {
            return true;
        }
        let age = Duration::from_ns(realtime_ns().saturating_sub(stamp.as_ns()));
        let plausible = age <= STAMP_AGE && age >= -STAMP_AHEAD;
        self.counters.stamps_discarded += u64::from(!plausible);
        plausible
    }

    /// Executes the actions of the state machine until there are none left.
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                DriverAction::Send {
                    port,
                    mut packet,
                    token,
                } => {
                    if let Some(group) = &self.group {
                        let Some(bytes) = group.protect(&packet.bytes) else {
                            // With the TLV added, the message exceeds the maximum length.
                            self.counters.send_errors += 1;
                            continue;
                        };
                        packet.bytes = bytes;
                    }
                    let sent = self.ports[usize::from(port) - 1].socket.send(&packet);
                    match (sent, token) {
                        (Ok(()), token) => {
                            self.counters.sent += 1;
                            self.observer.sent(port, &packet);
                            if let Some(token) = token {
                                self.ports[usize::from(port) - 1].departures.add(
                                    packet.bytes,
                                    token,
                                    wall_now(),
                                );
                            }
                        }
                        (Err(_), token) => {
                            self.counters.send_errors += 1;
                            if let Some(token) = token {
                                let now = self.now();
                                self.machine.handle_transmit_stamp(now, port, token, None);
                            }
                        }
                    }
                }
                DriverAction::Step(length) => self.steer(|clock| clock.step(length)),
                DriverAction::Frequency(ppb) => self.steer(|clock| clock.frequency(ppb)),
                DriverAction::Verify(job) => self.verifier.submit(Job::Verify(job)),
                DriverAction::Sign(job) if job.is_quick() => {
                    self.machine.handle_signed(self.now(), job.run());
                }
                DriverAction::Sign(job) => self.verifier.submit(Job::Sign(job)),
                DriverAction::Statement(record) => {
                    if let Some(second) = &self.second {
                        self.counters.send_errors += second.send(&record);
                    }
                }
                DriverAction::Report(report) => self.note(&report),
            }
        }
    }

    fn steer(&mut self, change: impl FnOnce(&mut dyn DisciplinedClock) -> io::Result<()>) {
        let Some(clock) = &mut self.steering else {
            return;
        };
        if let Err(error) = change(clock.as_mut()) {
            self.observer
                .notice(&format!("the clock cannot be steered: {error}"));
        }
        // The guard detects this step like any other one, and pending timestamps are given up.
    }

    fn note(&mut self, report: &ClockReport) {
        match report {
            ClockReport::Dropped { reason, port } => {
                trace!(port, %reason, "packet not used");
                *self.counters.dropped.entry(name_of(*reason)).or_default() += 1;
            }
            ClockReport::Failure { failure, .. } => {
                debug!(reason = %failure.reason, "violation");
                *self
                    .counters
                    .failures
                    .entry(failure.reason.to_string())
                    .or_default() += 1;
            }
            ClockReport::State { state, .. } => debug!(%state, "state of the port"),
            _ => {}
        }
        self.observer.report(report);
    }
}

fn name_of(reason: DropReason) -> String {
    match reason {
        DropReason::Malformed(at) => timeloom_wire::ParseError::ALL
            .get(usize::from(at))
            .map_or_else(
                || "malformed".to_owned(),
                |error| format!("malformed: {}", error.reason()),
            ),
        other => other.to_string(),
    }
}
