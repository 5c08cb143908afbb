//! Simulated world and its run.

use timeloom_time::Duration;
use timeloom_time::convert::saturating_i64;

use super::{ContainmentViolation, FaultKind, SimulatedMachine, WorldCounts, WorldPlan};
use crate::timeline::{Era, Estimator, EstimatorAction, Exchange, Segment, SourceId};
use timeloom_random::Random;

/// World that runs, with its present state.
#[derive(Clone, Debug)]
pub struct ClockWorld {
    seed: u64,
    plan: WorldPlan,
    machine: SimulatedMachine,
    /// Estimator of the timeline; `None` while the daemon is dead.
    estimator: Option<Estimator>,
    /// Segment that readers use; it outlives the estimator.
    published: Segment,
    in_flight: Vec<InFlight>,
    tally: WorldCounts,
    noise: Random,
    /// True time, in picoseconds, until which the daemon is stopped.
    daemon_back_ps: i128,
    sources_back_ps: i128,
    next_fault_ps: i128,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    source: SourceId,
    arrives_ps: i128,
    /// The exchange; `received` is set on arrival.
    exchange: Exchange,
}

impl ClockWorld {
    /// Returns the world of this plan and seed, before its first event.
    pub fn new(plan: WorldPlan, seed: u64) -> Self {
        let mut noise = Random::new(seed ^ 0x7469_6d65_6c6f_6f6d, 0);
        let start = Duration::from_s(noise.between(0, 1_800_000_000));
        let (oscillator, has_witness) = (plan.config.oscillator, plan.has_witness);
        let machine = SimulatedMachine::new(oscillator, has_witness, start, noise.fork());
        let now = machine.now();
        let status = crate::quality::Status::NeverSynchronised;
        let published = Segment::void(plan.config.timeline, status, now, plan.config.watch);
        let mut world = Self {
            seed,
            estimator: None,
            published,
            in_flight: Vec::new(),
            tally: WorldCounts::default(),
            noise,
            daemon_back_ps: 0,
            sources_back_ps: 0,
            next_fault_ps: 0,
            machine,
            plan,
        };
        world.plan_next_fault();
        world.start_daemon();
        world
    }

    /// Returns a world with a random plan.
    pub fn random(seed: u64) -> Self {
        Self::new(WorldPlan::random(&mut Random::new(seed, 0)), seed)
    }

    /// Returns the machine, for tests that modify the world while it runs.
    pub fn machine_mut(&mut self) -> &mut SimulatedMachine {
        &mut self.machine
    }

    /// Returns the machine.
    pub fn machine(&self) -> &SimulatedMachine {
        &self.machine
    }

    /// Returns the segment that readers use, with the last heartbeat.
    pub fn published(&self) -> &Segment {
        &self.published
    }

    /// Returns the estimator; `None` while the daemon is dead.
    pub fn estimator(&self) -> Option<&Estimator> {
        self.estimator.as_ref()
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &WorldCounts {
        &self.tally
    }

    /// Runs until `reads` reads have been made.
    ///
    /// # Errors
    /// Returns the first read whose interval does not contain true time.
    pub fn run(&mut self, reads: u64) -> Result<(), ContainmentViolation> {
        for _ in 0..reads {
            // Most reads follow each other closely; some come a long time after the last event.
            let longest = self.plan.between_reads.as_ns();
            let pause_ns = saturating_i64(self.noise.unit().powi(2) * longest as f64);
            let next_ps = self.machine.true_ps() + i128::from(pause_ns.max(1)) * 1000;
            self.run_until(next_ps);
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), ContainmentViolation> {
        let stamp = self.published.read(&self.machine.now());
        let read = self.tally.reads();
        self.tally.count(&stamp, self.machine.true_ns());
        let Some(interval) = stamp.interval() else {
            return Ok(());
        };
        let true_ps = self.machine.true_ps();
        let ps = |ns: i64| i128::from(ns) * 1000;
        if ps(interval.earliest().as_ns()) <= true_ps && true_ps <= ps(interval.latest().as_ns()) {
            return Ok(());
        }
        Err(ContainmentViolation {
            seed: self.seed,
            read,
            stamp,
            true_ps,
        })
    }

    fn run_until(&mut self, end_ps: i128) {
        loop {
            let arrival = self.in_flight.iter().map(|packet| packet.arrives_ps).min();
            let next_ps = end_ps
                .min(self.next_fault_ps)
                .min(arrival.unwrap_or(i128::MAX));
            self.machine.run_until(next_ps.min(self.wake_ps()));
            let now_ps = self.machine.true_ps();
            if now_ps >= self.next_fault_ps {
                self.fail();
            }
            self.daemon();
            if now_ps >= end_ps {
                return;
            }
        }
    }

    /// Returns the true time of the daemon's next run, in picoseconds. The estimator requests it by
    /// the core clock; it is at least a millisecond away, as with real schedulers.
    fn wake_ps(&self) -> i128 {
        let now_ps = self.machine.true_ps();
        let Some(estimator) = &self.estimator else {
            return self.daemon_back_ps.max(now_ps + 1);
        };
        let wait_ns = (estimator.next_wake() - self.machine.now().core)
            .as_ns()
            .max(1_000_000);
        (now_ps + i128::from(wait_ns) * 1000).max(self.daemon_back_ps)
    }

    fn daemon(&mut self) {
        let now_ps = self.machine.true_ps();
        let (arrived, rest): (Vec<_>, Vec<_>) = self
            .in_flight
            .iter()
            .partition(|packet| packet.arrives_ps <= now_ps);
        self.in_flight = rest;
        if now_ps < self.daemon_back_ps {
            return; // Unexpected answers are dropped.
        }
        if self.estimator.is_none() {
            self.start_daemon();
        }
        let now = self.machine.now();
        let Some(estimator) = &mut self.estimator else {
            return;
        };
        for InFlight {
            source, exchange, ..
        } in arrived
        {
            let exchange = Exchange {
                received: now.core,
                ..exchange
            };
            if estimator.handle_exchange(now, source, &exchange).is_err() {
                self.tally.refused += 1;
            }
        }
        if estimator.next_wake() <= now.core {
            estimator.handle_tick(now);
        }
        self.act();
    }

    fn start_daemon(&mut self) {
        let mut estimator = Estimator::new(self.plan.config, self.machine.now());
        for requirement in &self.plan.requirements {
            // A requirement that cannot be met is not rejected before the first synchronisation.
            let _ = estimator.bind(*requirement);
        }
        self.in_flight.clear();
        self.estimator = Some(estimator);
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.estimator.as_mut().and_then(Estimator::poll_action) {
            match action {
                EstimatorAction::Poll { source, era } => self.ask(source, era),
                EstimatorAction::Publish(segment) => self.published = segment,
                EstimatorAction::Alive(until) => self.published.alive_until = until,
                EstimatorAction::Violated { why, .. } => {
                    self.tally.violated += 1;
                    self.tally.last_shortfall = Some(why);
                }
                EstimatorAction::Restored { .. } => self.tally.restored += 1,
                EstimatorAction::Disturbed(_) => self.tally.disturbed += 1,
            }
        }
    }

    fn ask(&mut self, id: SourceId, era: Era) {
        self.tally.questions += 1;
        if self.machine.true_ps() < self.sources_back_ps {
            return;
        }
        let source = &mut self.plan.sources[id.0];
        let path = source.path;
        let (sent_ns, sent) = (self.machine.true_ns(), self.machine.now().core);
        let up = path.delay(path.up, &mut self.noise);
        let down = path.delay(path.down, &mut self.noise);
        let (Some(up), Some(down)) = (up, down) else {
            return;
        };
        // True time may exceed `sent_ns` by up to a nanosecond. A query that travels a nanosecond
        // longer is still within the model.
        let asked_ns = sent_ns + 1 + up.as_ns();
        let answered_ns = asked_ns + self.noise.between(0, 200_000);
        let arrives_ps = i128::from(answered_ns + down.as_ns()) * 1000;
        let asked = source.show(asked_ns);
        let answered = source.show(answered_ns).max(asked);
        let exchange = Exchange {
            era,
            sent,
            asked,
            answered,
            received: sent,
            root_delay: source.root_delay,
            root_dispersion: source.root_dispersion,
            least_delay: Duration::ZERO,
            asymmetry: None,
            authenticated: source.authenticated,
        };
        self.in_flight.push(InFlight {
            source: id,
            arrives_ps,
            exchange,
        });
    }

    fn fail(&mut self) {
        let fault = FaultKind::random(&mut self.noise);
        if matches!(fault, FaultKind::Step(_)) && !self.plan.has_witness {
            return self.plan_next_fault();
        }
        self.tally.faults[fault.kind()] += 1;
        let after = |length: Duration| self.machine.true_ps() + i128::from(length.as_ns()) * 1000;
        match fault {
            FaultKind::Step(by) => self.machine.step(by),
            FaultKind::Suspend(length) => self.machine.suspend(length),
            FaultKind::Migrate => self.machine.migrate(),
            FaultKind::DaemonStops(length) => self.daemon_back_ps = after(length),
            FaultKind::DaemonDies(length) => {
                self.daemon_back_ps = after(length);
                self.estimator = None;
            }
            FaultKind::Blackout(length) => self.sources_back_ps = after(length),
        }
        self.plan_next_fault();
    }

    fn plan_next_fault(&mut self) {
        let mean_ns = self.plan.between_faults.as_ns();
        self.next_fault_ps = if mean_ns == 0 {
            i128::MAX
        } else {
            self.machine.true_ps() + i128::from(self.noise.between(1, 2 * mean_ns)) * 1000
        };
    }
}
