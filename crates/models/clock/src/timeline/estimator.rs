//! Estimator: the state machine that maintains one timeline on one host.

mod combining;

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};

use super::bindings::{BindingId, Bindings, UnmetRequirement};
use super::history::{History, HistoryError};
use super::{
    Bound, Config, Disturbance, Exchange, ExchangeRefusal, LocalNow, RateBounds, Segment, Servo,
    SourceId, Statistical, Statistics, poll_interval,
};
use crate::Core;
use crate::quality::{Requirement, Stamp, Status};

/// Number of disturbances so far. An answer to a query of an earlier era does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Era(pub u32);

/// Action that the caller of an estimator must carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatorAction {
    /// Query a source, and return `era` in the [`Exchange`].
    Poll {
        /// Source to query.
        source: SourceId,
        /// Era of the query.
        era: Era,
    },
    /// Replace the segment that readers use by this one.
    Publish(Segment),
    /// Set `alive_until` of the readers' segment to this instant: the estimator is alive.
    Alive(Instant<Core>),
    /// Notify a binding that its requirement is no longer met, or not met yet.
    Violated {
        /// Binding to notify.
        binding: BindingId,
        /// Reason, with the status.
        why: crate::quality::Shortfall,
    },
    /// Notify a binding that its requirement is met again, or for the first time.
    Restored {
        /// Binding to notify.
        binding: BindingId,
    },
    /// Report that the timeline was lost and starts again.
    Disturbed(Disturbance),
}

/// Maintains one timeline on one host.
///
/// The caller carries out actions from [`Self::poll_action`] until there are none. It then waits
/// for an answer, or until [`Self::next_wake`], and calls [`Self::handle_exchange`] or
/// [`Self::handle_tick`].
#[derive(Clone, Debug)]
pub struct Estimator {
    config: Config,
    era: Era,
    sources: Vec<Source>,
    rates: RateBounds,
    combined: Option<Bound>,
    servo: Servo,
    statistics: Statistics,
    history: History,
    bindings: Bindings,
    segment: Segment,
    /// Readings of the machine at the last call.
    seen: LocalNow,
    next_heartbeat: Instant<Core>,
    achievable: Option<Duration>,
    actions: VecDeque<EstimatorAction>,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    bound: Option<Bound>,
    heard: Instant<Core>,
    next_poll: Instant<Core>,
}

impl Estimator {
    /// Returns the estimator of a timeline that has never been synchronised.
    pub fn new(config: Config, now: LocalNow) -> Self {
        let source = Source {
            bound: None,
            heard: now.core,
            next_poll: now.core,
        };
        let segment = Segment::void(
            config.timeline,
            Status::NeverSynchronised,
            now,
            config.watch,
        );
        let mut estimator = Self {
            era: Era::default(),
            sources: vec![source; config.sources],
            rates: RateBounds::new(config.oscillator),
            combined: None,
            servo: Servo::default(),
            statistics: Statistics::default(),
            history: History::default(),
            bindings: Bindings::default(),
            segment,
            seen: now,
            next_heartbeat: now.core,
            achievable: None,
            actions: VecDeque::new(),
            config,
        };
        estimator
            .actions
            .push_back(EstimatorAction::Publish(segment));
        estimator.handle_tick(now);
        estimator
    }

    /// Takes the next action out of the queue; `None` if there is none.
    pub fn poll_action(&mut self) -> Option<EstimatorAction> {
        self.actions.pop_front()
    }

    /// Returns the core-clock instant by which [`Self::handle_tick`] must be called.
    pub fn next_wake(&self) -> Instant<Core> {
        let polls = self.sources.iter().map(|source| source.next_poll);
        let broken = self.bindings.met_until(&self.segment);
        let broken = broken.map(|until| until + Duration::from_ns(1));
        polls.chain(broken).fold(self.next_heartbeat, Instant::min)
    }

    /// Queues the queries that are due, the heartbeat for readers, and notifications of bindings.
    pub fn handle_tick(&mut self, now: LocalNow) {
        self.look_for_disturbance(&now);
        let interval = self.interval();
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.next_poll <= now.core {
                source.next_poll = now.core + interval;
                self.actions.push_back(EstimatorAction::Poll {
                    source: SourceId(index),
                    era: self.era,
                });
            }
        }
        if self.next_heartbeat <= now.core {
            // Readers report a dead daemon only after three missed heartbeats.
            self.next_heartbeat = now.core + Duration::from_ns(self.config.alive_for.as_ns() / 3);
            self.segment.alive_until = now.core + self.config.alive_for;
            self.actions
                .push_back(EstimatorAction::Alive(self.segment.alive_until));
        }
        self.tell_bindings(&now);
    }

    /// Processes a source's answer. `now` must have been read after the answer was received.
    ///
    /// # Errors
    /// Fails if the answer is not used. This is not an error of the estimator; callers count such
    /// answers.
    pub fn handle_exchange(
        &mut self,
        now: LocalNow,
        source: SourceId,
        exchange: &Exchange,
    ) -> Result<(), ExchangeRefusal> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, exchange.era, exchange.authenticated)?;
        let heard = exchange.bound(self.config.resolution, self.rates.outer())?;
        self.take_in(now, source, heard);
        Ok(())
    }

    /// Processes a bound from a source that is not queried. The arguments are the bound, the era in
    /// which it was observed, and whether it is authenticated.
    ///
    /// # Errors
    /// Fails like [`Self::handle_exchange`].
    pub fn handle_bound(
        &mut self,
        now: LocalNow,
        source: SourceId,
        (era, authenticated): (Era, bool),
        heard: &Bound,
    ) -> Result<(), ExchangeRefusal> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, era, authenticated)?;
        if heard.earliest > heard.latest {
            return Err(ExchangeRefusal::Impossible);
        }
        self.take_in(now, source, *heard);
        Ok(())
    }

    /// Processes an answer that never counts because it is unauthenticated, whatever the timeline
    /// demands. Such an answer can change only the status.
    ///
    /// # Errors
    /// Always fails, with the reason for which the answer does not count.
    pub fn handle_unproven(
        &mut self,
        now: LocalNow,
        source: SourceId,
        era: Era,
    ) -> Result<(), ExchangeRefusal> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, era, true)?;
        self.say_unauthenticated(&now);
        Err(ExchangeRefusal::Unauthenticated)
    }

    fn admit(
        &mut self,
        now: &LocalNow,
        source: SourceId,
        era: Era,
        authenticated: bool,
    ) -> Result<(), ExchangeRefusal> {
        if era != self.era {
            return Err(ExchangeRefusal::OldEra);
        }
        if source.0 >= self.sources.len() {
            return Err(ExchangeRefusal::UnknownSource);
        }
        if self.config.demand_authentication && !authenticated {
            self.say_unauthenticated(now);
            return Err(ExchangeRefusal::Unauthenticated);
        }
        Ok(())
    }

    /// Sets the status to "unauthenticated" if there is no interval. An interval that depends on
    /// authenticated answers stays until the end of its time to live: otherwise any sender of an
    /// unsigned message could end it.
    fn say_unauthenticated(&mut self, now: &LocalNow) {
        let segment = &self.segment;
        let has_ended = segment.status.may_have_interval() && now.core > segment.void_after;
        if segment.status == Status::NeverSynchronised || has_ended {
            self.combined = None;
            self.publish_void(*now, Status::Unauthenticated);
        }
    }

    fn take_in(&mut self, now: LocalNow, source: SourceId, heard: Bound) {
        self.carry_to(heard.at);
        // Answers may be processed in another order than they were received.
        let at = self
            .combined
            .map_or(heard.at, |bound| bound.at.max(heard.at));
        let outer = self.rates.outer();
        let heard = heard.carried_to(at, (-outer, outer));
        let source = &mut self.sources[source.0];
        let before = source
            .bound
            .map(|bound| bound.carried_to(at, (-outer, outer)));
        // If a source contradicts its earlier answers, its last answer counts. All sources together
        // decide whether that source was wrong or the local clock jumped.
        source.bound = Some(before.and_then(|b| b.intersection(&heard)).unwrap_or(heard));
        source.heard = at;
        self.combine(now, at);
    }

    /// Processes a disturbance that was detected elsewhere. For example, the kernel reports that
    /// the system clock was set, and the timeline uses the system clock as its source.
    pub fn handle_disturbance(&mut self, now: LocalNow, disturbance: Disturbance) {
        self.seen = now;
        self.era.0 = self.era.0.wrapping_add(1);
        for source in &mut self.sources {
            *source = Source {
                bound: None,
                heard: now.core,
                next_poll: now.core,
            };
        }
        self.combined = None;
        self.rates.forget();
        self.statistics.forget();
        self.history.forget();
        self.achievable = None;
        self.next_heartbeat = now.core;
        self.actions
            .push_back(EstimatorAction::Disturbed(disturbance));
        self.publish_void(now, Status::Disrupted);
    }

    /// Binds a program's requirement to the timeline. Actions report whether the requirement is
    /// met; the first one is queued at once.
    ///
    /// # Errors
    /// Fails if it is known that the requirement cannot be met even at the shortest polling
    /// interval. Before the first synchronisation only the resolution is known.
    pub fn bind(&mut self, requirement: Requirement) -> Result<BindingId, UnmetRequirement> {
        self.possible(&requirement)?;
        let id = self.bindings.add(requirement);
        self.hurry();
        self.tell_bindings(&self.seen.clone());
        Ok(id)
    }

    /// Removes a binding; returns false if it does not exist.
    pub fn unbind(&mut self, binding: BindingId) -> bool {
        self.bindings.remove(binding)
    }

    /// Returns the requirement of a binding; `None` if it does not exist.
    pub fn requirement(&self, binding: BindingId) -> Option<Requirement> {
        self.bindings.get(binding)
    }

    /// Changes the requirement of a binding; returns false if the binding does not exist.
    ///
    /// # Errors
    /// Fails like [`Self::bind`]; the binding then keeps its requirement.
    pub fn set_requirement(
        &mut self,
        binding: BindingId,
        requirement: Requirement,
    ) -> Result<bool, UnmetRequirement> {
        self.possible(&requirement)?;
        let known = self.bindings.set(binding, requirement);
        self.hurry();
        self.tell_bindings(&self.seen.clone());
        Ok(known)
    }

    /// Returns the stamp that a reader of the published segment would get.
    pub fn read(&self, now: &LocalNow) -> Stamp {
        self.segment.read(now)
    }

    /// Converts a past reading of the core clock to a stamp.
    ///
    /// # Errors
    /// Fails if there is no segment for that time.
    pub fn convert(&self, core: Instant<Core>, now: &LocalNow) -> Result<Stamp, HistoryError> {
        if core > now.core {
            return Err(HistoryError::InFuture);
        }
        if self
            .seen
            .disturbance_until(now, &self.config.watch)
            .is_some()
        {
            return Err(HistoryError::TooOld { oldest: None });
        }
        self.history.read(core)
    }

    /// Returns the segment that is in force for readers.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the present time between two queries to a source.
    pub fn interval(&self) -> Duration {
        if self.combined.is_none() {
            return self.config.poll.shortest;
        }
        let after_sync = self.segment.below.max(self.segment.above);
        let growth = self.segment.below_growth.max(self.segment.above_growth);
        // Two answers may be lost before the time to live has passed, unless a third of it is below
        // the shortest polling interval.
        let third = Duration::from_ns(self.config.time_to_live.as_ns() / 3);
        poll_interval(
            self.bindings.tightest(),
            after_sync,
            growth,
            self.config.poll,
        )
        .min(third.max(self.config.poll.shortest))
    }

    /// Returns statistics of the offsets for a probability such as 0.999999; `None` if there are
    /// too few.
    pub fn statistical(&self, probability: f64) -> Option<Statistical> {
        self.statistics.within(probability)
    }

    fn look_for_disturbance(&mut self, now: &LocalNow) {
        match self.seen.disturbance_until(now, &self.config.watch) {
            Some(disturbance) => self.handle_disturbance(*now, disturbance),
            // The comparison is with the previous reading, not the first one, so that small errors
            // of the witness do not add up. The core clock may read slightly less on another core.
            None if now.core >= self.seen.core => self.seen = *now,
            None => {}
        }
    }

    fn tell_bindings(&mut self, now: &LocalNow) {
        let stamp = self.segment.read(now);
        let actions = &mut self.actions;
        self.bindings
            .tell(&stamp, |action| actions.push_back(action));
    }

    /// Records the best accuracy that was achieved: the accuracy immediately after an answer, plus
    /// its loss until the next answer at the shortest polling interval.
    fn note_achievable(&mut self) {
        let segment = &self.segment;
        let growth = segment.below_growth.max(segment.above_growth);
        let wait = self.config.poll.shortest + self.config.poll.shortest;
        let now = segment.below.max(segment.above) + growth.over_up(wait) + segment.resolution;
        self.achievable = Some(self.achievable.map_or(now, |best| best.min(now)));
    }

    fn possible(&self, requirement: &Requirement) -> Result<(), UnmetRequirement> {
        let best = self.achievable.unwrap_or(Duration::ZERO);
        let resolution = self.config.resolution;
        if requirement.accuracy() < best || requirement.resolution < resolution {
            return Err(UnmetRequirement {
                accuracy: best,
                resolution,
            });
        }
        Ok(())
    }
}
