//! Worker of a timeline: the thread that owns its estimator and its pages.
//!
//! All inputs reach the thread through one channel: answers of sources, disturbances, and requests
//! of clients. The estimator therefore needs no lock, and no other thread sees a state between two
//! inputs.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use timeloom_clock::quality::{Requirement, Shortfall, Stamp, Status};
use timeloom_clock::timeline::{
    BindingId, Config, Disturbance, Estimator, EstimatorAction, HistoryError, SourceId,
    UnmetRequirement,
};
use timeloom_time::Duration;
use timeloom_timeline::shm::{PageWriter, TimeType};
use tracing::{Level, enabled, info, trace};

use crate::LocalClock;
use crate::outputs::Outputs;
use crate::source::{FromUtc, SourceFailure, SourceSample, SourceThread};
use crate::status_journal::{self, StatusJournal};
use crate::subscriber::Subscriber;
use timeloom_timeline::protocol::{
    BindingState, SourceReport, TimelineName, TimelineReport, TimelineScale,
};

/// Input of the worker.
pub(crate) enum Input {
    /// Answer of a source, and its [`crate::source::Source::contradiction`].
    Answer {
        id: SourceId,
        answer: Result<SourceSample, SourceFailure>,
        contradiction: Option<String>,
    },
    Disturbed(Disturbance),
    Call(Box<dyn FnOnce(&mut Worker) + Send>),
    End,
}

/// State owned by the worker thread.
pub(crate) struct Worker {
    pub(crate) estimator: Estimator,
    pub(crate) config: Config,
    pub(crate) clock: Arc<LocalClock>,
    pub(crate) from_utc: FromUtc,
    /// Sealed memfd and file, with identical contents.
    pub(crate) pages: [PageWriter; 2],
    pub(crate) outputs: Outputs,
    pub(crate) journal: Option<StatusJournal>,
    pub(crate) sources: Vec<SourceThread>,
    pub(crate) subscribers: BTreeMap<BindingId, Subscriber>,
    pub(crate) published: u64,
    pub(crate) disturbances: u64,
    pub(crate) last_disturbance: Option<Disturbance>,
    /// Status that was logged last.
    pub(crate) logged: Option<Status>,
}

impl Worker {
    pub(crate) fn run(mut self, inbox: &Receiver<Input>) {
        loop {
            self.act();
            if enabled!(Level::INFO) {
                self.log_status();
            }
            if let Some(journal) = &mut self.journal {
                journal.note_age(self.estimator.segment(), self.clock.core());
            }
            match inbox.recv_timeout(self.wait()) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.estimator.next_wake() <= self.clock.core() {
                self.estimator.handle_tick(self.clock.now());
            }
        }
        let now = self.clock.core();
        for page in &self.pages {
            page.keep_alive(now);
        }
        self.outputs.end();
    }

    /// Logs the status of the page, if it differs from the one that was logged last.
    fn log_status(&mut self) {
        let status = self.estimator.segment().status_at(self.clock.core());
        if self.logged.replace(status) != Some(status) {
            info!(?status, "status");
        }
    }

    /// Returns the time until the next work, by the core clock. The result is at least a fifth of a
    /// millisecond, because nothing here justifies a busy loop.
    fn wait(&self) -> core::time::Duration {
        let now = self.clock.core();
        let mut wake = self.estimator.next_wake();
        if self.journal.is_some() {
            let aged = status_journal::next_change(self.estimator.segment(), now);
            wake = aged.map_or(wake, |aged| wake.min(aged + Duration::from_ns(1)));
        }
        let wait = wake - now;
        core::time::Duration::from_nanos(wait.as_ns().max(200_000) as u64)
    }

    fn handle(&mut self, event: Input) {
        match event {
            Input::Answer {
                id,
                answer,
                contradiction,
            } => {
                self.sources[id.0].contradiction = contradiction;
                self.take_in(id, answer);
            }
            Input::Disturbed(disturbance) => {
                // The pages are marked before anything else, each with one store, so that no reader
                // continues.
                self.disrupt(disturbance);
                self.estimator
                    .handle_disturbance(self.clock.now(), disturbance);
            }
            Input::Call(call) => call(self),
            Input::End => {}
        }
    }

    fn take_in(&mut self, id: SourceId, answer: Result<SourceSample, SourceFailure>) {
        let now = self.clock.now();
        let outer = (-self.config.oscillator.max_error).of_inverse_outward();
        let taken = answer.map_err(|untold| untold.0).and_then(|sample| {
            let width = match &sample {
                SourceSample::Exchange(exchange) => exchange
                    .bound(self.config.resolution, outer)
                    .map(|bound| bound.width())
                    .ok(),
                SourceSample::Bound { bound, .. } => Some(bound.width()),
                SourceSample::Unproven { .. } => None,
            };
            if width.is_some_and(|width| width > WORTHLESS) {
                return Err("the interval is too wide to be of use".to_owned());
            }
            let taken = match sample {
                SourceSample::Exchange(exchange) => {
                    self.estimator.handle_exchange(now, id, &exchange)
                }
                SourceSample::Bound {
                    era,
                    bound,
                    authenticated,
                } => self
                    .estimator
                    .handle_bound(now, id, (era, authenticated), &bound),
                SourceSample::Unproven { era } => self.estimator.handle_unproven(now, id, era),
            };
            taken.map_err(|refused| refused.to_string())?;
            Ok(width)
        });
        let source = &mut self.sources[id.0];
        match taken {
            Ok(width) => {
                let width_ns = width.map(|width| width.as_ns());
                trace!(source = source.report.source, width_ns, "answered");
                source.report.answered += 1;
                source.report.width_ns = width.map(|width| width.as_ns());
                source.answered_at = Some(now.core);
            }
            Err(why) => source.refuse(why),
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.estimator.poll_action() {
            match action {
                EstimatorAction::Poll { source, era } => self.sources[source.0].ask(era),
                EstimatorAction::Publish(segment) => {
                    let time_type = self.time_type();
                    self.pages
                        .iter()
                        .for_each(|page| page.set_time_type(time_type));
                    self.pages.iter().for_each(|page| page.publish(&segment));
                    self.outputs.update(&segment, &self.clock, time_type);
                    self.published += 1;
                }
                EstimatorAction::Alive(until) => {
                    self.pages.iter().for_each(|page| page.keep_alive(until));
                    let time_type = self.time_type();
                    let segment = self.estimator.segment();
                    self.outputs.refresh(segment, &self.clock, time_type);
                }
                EstimatorAction::Violated { binding, why } => self.tell(binding, Some(why)),
                EstimatorAction::Restored { binding } => self.tell(binding, None),
                EstimatorAction::Disturbed(disturbance) => {
                    self.disrupt(disturbance);
                    self.disturbances += 1;
                    self.last_disturbance = Some(disturbance);
                }
            }
        }
    }

    /// Invalidates all readings, and records the cause in the journal.
    fn disrupt(&mut self, disturbance: Disturbance) {
        info!(%disturbance, "disturbance");
        self.pages.iter().for_each(PageWriter::disrupt);
        if let Some(journal) = &mut self.journal {
            let why = Some(disturbance.to_string());
            journal.note(self.clock.core(), Status::Disrupted, why);
        }
    }

    /// Returns the time scale of the ClockBound segment. It is determined for every update, because
    /// the kernel may learn the offset between TAI and UTC later, and the offset changes.
    fn time_type(&self) -> TimeType {
        match self.from_utc.scale() {
            TimelineScale::Local => TimeType::Local,
            TimelineScale::Tai => TimeType::Tai(
                self.from_utc
                    .now()
                    .ok()
                    .and_then(|offset| i16::try_from(offset.as_ns() / 1_000_000_000).ok()),
            ),
        }
    }

    fn tell(&mut self, binding: BindingId, shortfall: Option<Shortfall>) {
        if let Some(subscriber) = self.subscribers.get_mut(&binding) {
            subscriber.shortfall = shortfall;
            if subscriber.subscribed {
                subscriber.send(binding);
            }
        }
    }

    /// Creates a binding for the client whose connection is `client`.
    pub(crate) fn bind(
        &mut self,
        requirement: Requirement,
        client: Arc<OwnedFd>,
    ) -> Result<BindingId, UnmetRequirement> {
        let id = self.estimator.bind(requirement)?;
        let subscriber = Subscriber {
            client,
            subscribed: false,
            shortfall: None,
        };
        self.subscribers.insert(id, subscriber);
        Ok(id)
    }

    pub(crate) fn unbind(&mut self, binding: BindingId) {
        self.estimator.unbind(binding);
        self.subscribers.remove(&binding);
    }

    pub(crate) fn set(
        &mut self,
        binding: BindingId,
        requirement: Requirement,
    ) -> Result<bool, UnmetRequirement> {
        self.estimator.set_requirement(binding, requirement)
    }

    pub(crate) fn get(&self, binding: BindingId) -> Option<BindingState> {
        let requirement = self.estimator.requirement(binding)?;
        let shortfall = self.subscribers.get(&binding)?.shortfall;
        Some(BindingState {
            binding: binding.0,
            need: requirement.into(),
            shortfall: shortfall.map(Into::into),
        })
    }

    pub(crate) fn subscribe(&mut self, binding: BindingId) {
        if let Some(subscriber) = self.subscribers.get_mut(&binding) {
            subscriber.subscribed = true;
            subscriber.send(binding);
        }
    }

    pub(crate) fn convert(&self, ticks: u64) -> Result<Stamp, HistoryError> {
        let now = self.clock.now();
        self.estimator.convert(self.clock.core_at(ticks), &now)
    }

    /// Returns a text about the contradictions between stated TAI offsets: those of the kernel and
    /// of each source.
    fn contradiction(&self) -> Option<String> {
        let sources = self.sources.iter().map(|source| &source.contradiction);
        let all = sources
            .flatten()
            .cloned()
            .chain(self.from_utc.contradiction());
        all.reduce(|all, more| format!("{all}; {more}"))
    }

    pub(crate) fn report(&mut self, name: TimelineName, scale: TimelineScale) -> TimelineReport {
        let now = self.clock.now();
        let segment = *self.estimator.segment();
        let ppb = |rate: f64| rate * 1e9;
        let growth = segment.below_growth.max(segment.above_growth);
        let sources = self.sources.iter().map(|source| SourceReport {
            answered_ago_ns: source.answered_at.map(|at| (now.core - at).as_ns()),
            ..source.report.clone()
        });
        TimelineReport {
            name,
            scale,
            stamp: self.estimator.read(&now).into(),
            bindings: self.subscribers.len(),
            poll_interval_ns: self.estimator.interval().as_ns(),
            frequency_ppb: ppb(segment.map.rate.as_f64() - 1.0),
            growth_ppb: growth.as_ppt() as f64 / 1e3,
            published: self.published,
            disturbances: self.disturbances,
            last_disturbance: self.last_disturbance.map(|what| what.to_string()),
            tai_offset_contradiction: self.contradiction(),
            statistical_ns: self
                .estimator
                .statistical(0.999_999)
                .map(|view| view.within.as_ns()),
            sources: sources.collect(),
            pid: std::process::id(),
        }
    }
}

/// Largest error of a usable source; a page cannot represent a larger one.
const WORTHLESS: Duration = Duration::from_s(1_000_000);
