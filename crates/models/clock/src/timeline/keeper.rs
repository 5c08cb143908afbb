//! State machine of one timeline on one host.

mod combining;

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};

use super::bindings::{BindingId, Bindings, Impossible};
use super::history::{History, PastError};
use super::{
    Bound, Config, Disturbance, Exchange, LocalNow, RateBounds, Refused, Segment, Servo, SourceId,
    Statistical, Statistics, poll_interval,
};
use crate::Core;
use crate::quality::{Requirement, Stamp, Status};

/// Number of disturbances: an answer to a question of an earlier era does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Era(pub u32);

/// Action that the caller must carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask a source; return the era in the [`Exchange`].
    Poll {
        /// Source to ask.
        source: SourceId,
        /// Era of the question.
        era: Era,
    },
    /// Give readers this segment in place of the last.
    Publish(Segment),
    /// Tell readers that the keeper is alive: the new `alive_until` of the segment.
    Alive(Instant<Core>),
    /// A binding's requirement is no longer met (or not yet).
    Violated {
        /// Affected binding.
        binding: BindingId,
        /// Shortfall, with the status.
        why: crate::quality::Shortfall,
    },
    /// A binding's requirement is met again (or for the first time).
    Restored {
        /// Affected binding.
        binding: BindingId,
    },
    /// The timeline was lost and starts again.
    Disturbed(Disturbance),
}

/// Keeper of one timeline on one host.
///
/// Usage: carry out [`Self::poll_action`] until it returns `None`; wait until [`Self::next_wake`]
/// or an answer; call [`Self::handle_tick`] or [`Self::handle_exchange`].
#[derive(Clone, Debug)]
pub struct Keeper {
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
    /// Last readings of the machine.
    seen: LocalNow,
    next_heartbeat: Instant<Core>,
    achievable: Option<Duration>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    bound: Option<Bound>,
    heard: Instant<Core>,
    next_poll: Instant<Core>,
}

impl Keeper {
    /// Returns a timeline that was never synchronised.
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
        let mut keeper = Self {
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
        keeper.actions.push_back(Action::Publish(segment));
        keeper.handle_tick(now);
        keeper
    }

    /// Returns the next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the latest instant for the next call of [`Self::handle_tick`].
    pub fn next_wake(&self) -> Instant<Core> {
        let polls = self.sources.iter().map(|source| source.next_poll);
        let broken = self.bindings.met_until(&self.segment);
        let broken = broken.map(|until| until + Duration::from_ns(1));
        polls.chain(broken).fold(self.next_heartbeat, Instant::min)
    }

    /// Asks the sources that are due, shows readers that the keeper is alive, and tells bindings
    /// about changes.
    pub fn handle_tick(&mut self, now: LocalNow) {
        self.look_for_disturbance(&now);
        let interval = self.interval();
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.next_poll <= now.core {
                source.next_poll = now.core + interval;
                self.actions.push_back(Action::Poll {
                    source: SourceId(index),
                    era: self.era,
                });
            }
        }
        if self.next_heartbeat <= now.core {
            // Three heartbeats may be late before readers report a dead daemon.
            self.next_heartbeat = now.core + Duration::from_ns(self.config.alive_for.as_ns() / 3);
            self.segment.alive_until = now.core + self.config.alive_for;
            self.actions
                .push_back(Action::Alive(self.segment.alive_until));
        }
        self.tell_bindings(&now);
    }

    /// Processes a source's answer. `now` was read after it was received.
    ///
    /// # Errors
    /// Fails if the answer carries no information. That is no fault of the keeper's: count it.
    pub fn handle_exchange(
        &mut self,
        now: LocalNow,
        source: SourceId,
        exchange: &Exchange,
    ) -> Result<(), Refused> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, exchange.era, exchange.authenticated)?;
        let heard = exchange.bound(self.config.resolution, self.rates.outer())?;
        self.take_in(now, source, heard);
        Ok(())
    }

    /// Like [`Self::handle_exchange`], for a source that was not queried with a question and an
    /// answer: takes the bound, the era in which it was observed, and the authentication result.
    ///
    /// # Errors
    /// Fails as [`Self::handle_exchange`] does.
    pub fn handle_bound(
        &mut self,
        now: LocalNow,
        source: SourceId,
        (era, authenticated): (Era, bool),
        heard: &Bound,
    ) -> Result<(), Refused> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, era, authenticated)?;
        if heard.earliest > heard.latest {
            return Err(Refused::Impossible);
        }
        self.take_in(now, source, *heard);
        Ok(())
    }

    /// Records an unauthenticated answer of a source, if such an answer never counts, whatever the
    /// timeline demands. It can change nothing but the status.
    ///
    /// # Errors
    /// Always returns an error: the reason why the answer does not count.
    pub fn handle_unproven(
        &mut self,
        now: LocalNow,
        source: SourceId,
        era: Era,
    ) -> Result<(), Refused> {
        self.look_for_disturbance(&now);
        self.admit(&now, source, era, true)?;
        self.say_unauthenticated(&now);
        Err(Refused::Unauthenticated)
    }

    fn admit(
        &mut self,
        now: &LocalNow,
        source: SourceId,
        era: Era,
        authenticated: bool,
    ) -> Result<(), Refused> {
        if era != self.era {
            return Err(Refused::OldEra);
        }
        if source.0 >= self.sources.len() {
            return Err(Refused::UnknownSource);
        }
        if self.config.demand_authentication && !authenticated {
            self.say_unauthenticated(now);
            return Err(Refused::Unauthenticated);
        }
        Ok(())
    }

    /// Sets the status if there is no interval to lose. An interval that rests on authenticated
    /// answers lasts to the end of its time to live: otherwise any sender of an unsigned message
    /// could end it.
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
        // Answers may be processed in another order than they were received in.
        let at = self
            .combined
            .map_or(heard.at, |bound| bound.at.max(heard.at));
        let outer = self.rates.outer();
        let heard = heard.carried_to(at, (-outer, outer));
        let source = &mut self.sources[source.0];
        let before = source
            .bound
            .map(|bound| bound.carried_to(at, (-outer, outer)));
        // If a source contradicts itself, its last answer counts; all sources together decide if it
        // lied or the local clock jumped.
        source.bound = Some(before.and_then(|b| b.intersection(&heard)).unwrap_or(heard));
        source.heard = at;
        self.combine(now, at);
    }

    /// Processes a disturbance that was detected elsewhere, such as the kernel's notice that the
    /// system clock, which is the timeline's source, was set.
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
        self.actions.push_back(Action::Disturbed(disturbance));
        self.publish_void(now, Status::Disrupted);
    }

    /// Binds to the timeline with a requirement; actions report if it is met, the first one at
    /// once.
    ///
    /// # Errors
    /// Fails if it is known that no effort can meet the requirement. Before the first
    /// synchronisation only the resolution is known.
    pub fn bind(&mut self, requirement: Requirement) -> Result<BindingId, Impossible> {
        self.possible(&requirement)?;
        let id = self.bindings.add(requirement);
        self.hurry();
        self.tell_bindings(&self.seen.clone());
        Ok(id)
    }

    /// Removes a binding; `false` if there is none.
    pub fn unbind(&mut self, binding: BindingId) -> bool {
        self.bindings.remove(binding)
    }

    /// Returns the requirement of a binding.
    pub fn requirement(&self, binding: BindingId) -> Option<Requirement> {
        self.bindings.get(binding)
    }

    /// Changes the requirement of a binding; `false` if there is no such binding.
    ///
    /// # Errors
    /// Fails as [`Self::bind`] does; the old requirement then stays.
    pub fn set_requirement(
        &mut self,
        binding: BindingId,
        requirement: Requirement,
    ) -> Result<bool, Impossible> {
        self.possible(&requirement)?;
        let known = self.bindings.set(binding, requirement);
        self.hurry();
        self.tell_bindings(&self.seen.clone());
        Ok(known)
    }

    /// Reads the timeline as a reader of the published segment would.
    pub fn read(&self, now: &LocalNow) -> Stamp {
        self.segment.read(now)
    }

    /// Converts a past reading of the core clock.
    ///
    /// # Errors
    /// Fails if no segment of that time is known.
    pub fn convert(&self, core: Instant<Core>, now: &LocalNow) -> Result<Stamp, PastError> {
        if core > now.core {
            return Err(PastError::InFuture);
        }
        if self
            .seen
            .disturbance_until(now, &self.config.watch)
            .is_some()
        {
            return Err(PastError::TooOld { oldest: None });
        }
        self.history.read(core)
    }

    /// Returns the segment in force.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the current time between two questions to a source.
    pub fn interval(&self) -> Duration {
        if self.combined.is_none() {
            return self.config.poll.shortest;
        }
        let after_sync = self.segment.below.max(self.segment.above);
        let growth = self.segment.below_growth.max(self.segment.above_growth);
        // Two answers may be lost before the time to live is over, unless a third of it is shorter
        // than the shortest interval.
        let third = Duration::from_ns(self.config.time_to_live.as_ns() / 3);
        poll_interval(
            self.bindings.tightest(),
            after_sync,
            growth,
            self.config.poll,
        )
        .min(third.max(self.config.poll.shortest))
    }

    /// Returns the statistical view with this probability, such as 0.999999.
    pub fn statistical(&self, probability: f64) -> Option<Statistical> {
        self.statistics.within(probability)
    }

    fn look_for_disturbance(&mut self, now: &LocalNow) {
        match self.seen.disturbance_until(now, &self.config.watch) {
            Some(disturbance) => self.handle_disturbance(*now, disturbance),
            // Relative to the last reading, not the first: small errors of the witness must not add
            // up. Another core's view may be a little behind.
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

    /// Records the best accuracy so far: the accuracy right after an answer, and its loss until the
    /// next answer at the highest effort.
    fn note_achievable(&mut self) {
        let segment = &self.segment;
        let growth = segment.below_growth.max(segment.above_growth);
        let wait = self.config.poll.shortest + self.config.poll.shortest;
        let now = segment.below.max(segment.above) + growth.over_up(wait) + segment.resolution;
        self.achievable = Some(self.achievable.map_or(now, |best| best.min(now)));
    }

    fn possible(&self, requirement: &Requirement) -> Result<(), Impossible> {
        let best = self.achievable.unwrap_or(Duration::ZERO);
        let resolution = self.config.resolution;
        if requirement.accuracy() < best || requirement.resolution < resolution {
            return Err(Impossible {
                accuracy: best,
                resolution,
            });
        }
        Ok(())
    }
}
