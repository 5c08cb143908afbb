//! A timeline at work: the thread that owns its keeper and its pages.
//!
//! Everything reaches it as an event through one channel: answers of sources,
//! disturbances, and what clients want done. So there is no lock around a
//! keeper, and what it does between two events nobody sees half done.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;

use timeloom_clock::quality::{Requirement, Shortfall, Stamp, TimelineId};
use timeloom_clock::timeline::{
    Action, BindingId, Config, Disturbance, Era, Impossible, Keeper, PastError, SourceId,
};
use timeloom_publish::{PageWriter, TimeType, WriterError};
use timeloom_time::Duration;

use crate::LocalClock;
use crate::config::TimelineConfig;
use crate::outputs::Outputs;
use crate::source::{self, FromUtc, Sample, Source, Untold};
use timeloom_timeline_protocol::{
    Binding, Directory, Event as Told, Message, Page, Report, ScaleName, SourceReport,
    TimelineName, VERSION, encode, packet,
};

/// A timeline that is being kept, in a thread that ends with its
/// [`Daemon`](crate::Daemon). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Timeline {
    name: TimelineName,
    id: TimelineId,
    scale: ScaleName,
    tai_offset_s: Option<i16>,
    path: PathBuf,
    page: Arc<OwnedFd>,
    resolution: Duration,
    events: Sender<Event>,
}

/// Why a timeline is not kept.
#[derive(Debug)]
pub(crate) enum KeepError {
    /// Its page cannot be made; another daemon may have it.
    Page(WriterError),
    /// A source can never work as configured.
    Source(Untold),
    /// An output cannot be written as configured: place and fix.
    Output(String),
    /// No effort meets the accuracy that the configuration requires.
    Accuracy(Impossible),
}

enum Event {
    Answer(SourceId, Result<Sample, Untold>),
    Disturbed(Disturbance),
    Call(Box<dyn FnOnce(&mut Kept) + Send>),
    End,
}

/// What the thread owns.
pub(crate) struct Kept {
    keeper: Keeper,
    config: Config,
    clock: Arc<LocalClock>,
    from_utc: FromUtc,
    /// The sealed memfd and the file: the same words in both.
    pages: [PageWriter; 2],
    outputs: Outputs,
    sources: Vec<Asked>,
    bindees: BTreeMap<BindingId, Bindee>,
    published: u64,
    disturbances: u64,
    last_disturbance: Option<Disturbance>,
}

/// A source's thread and what came of it.
struct Asked {
    questions: SyncSender<Era>,
    answered_at: Option<timeloom_time::Instant<timeloom_clock::Core>>,
    report: SourceReport,
}

/// A binding's other end.
struct Bindee {
    client: Arc<OwnedFd>,
    subscribed: bool,
    shortfall: Option<Shortfall>,
}

impl Timeline {
    /// Takes the timeline's page, which is the lock too, and keeps it in a
    /// thread.
    pub(crate) fn keep(
        config: &TimelineConfig,
        directory: &Directory,
        clock: &Arc<LocalClock>,
    ) -> Result<(Self, JoinHandle<()>), KeepError> {
        let (id, kind, scale) = (config.timeline(), clock.kind(), Some(clock.scale()));
        let path = directory.page(&config.name);
        let file = PageWriter::at_path(&path, id, kind, scale).map_err(KeepError::Page)?;
        let memory = PageWriter::in_memory(id, kind, scale).map_err(KeepError::Page)?;
        let page = memory.fd().try_clone_to_owned();
        let page = page.map_err(|error| KeepError::Page(WriterError::Io(error)))?;
        let (events, inbox) = mpsc::channel();
        let opened: Result<Vec<_>, _> = config
            .sources
            .iter()
            .map(|source| source::open(source, config, clock).map(|open| (source.label(), open)))
            .collect();
        let sources = opened.map_err(KeepError::Source)?;
        let outputs = Outputs::open(config, clock).map_err(KeepError::Output)?;
        let sources = sources
            .into_iter()
            .enumerate()
            .map(|(index, (label, open))| Asked::start(SourceId(index), label, open, &events))
            .collect();
        let keeper_config = config.keeper(clock.oscillator(config.oscillator()));
        let mut keeper = Keeper::new(keeper_config, clock.now());
        if let Some(accuracy) = config.accuracy {
            let required = keeper.bind(Requirement::within(accuracy));
            required.map_err(KeepError::Accuracy)?;
        }
        let kept = Kept {
            keeper,
            config: keeper_config,
            clock: clock.clone(),
            from_utc: FromUtc::of(config),
            pages: [memory, file],
            outputs,
            sources,
            bindees: BTreeMap::new(),
            published: 0,
            disturbances: 0,
            last_disturbance: None,
        };
        let timeline = Self {
            name: config.name.clone(),
            id,
            scale: config.scale,
            tai_offset_s: config.tai_offset_s,
            path,
            page: Arc::new(page),
            resolution: keeper_config.resolution,
            events,
        };
        let thread = std::thread::spawn(move || kept.run(&inbox));
        Ok((timeline, thread))
    }

    /// Its name.
    pub fn name(&self) -> &TimelineName {
        &self.name
    }

    /// Its page as a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its page as a sealed memfd.
    pub fn page(&self) -> BorrowedFd<'_> {
        self.page.as_fd()
    }

    /// What a client is told with the page.
    pub(crate) fn describe(&self) -> Page {
        Page {
            version: VERSION,
            name: self.name.clone(),
            timeline: format!("{:032x}", self.id.0),
            scale: self.scale,
            resolution_ns: self.resolution.as_ns(),
            path: self.path.display().to_string(),
            tai_offset_s: self.tai_offset_s.filter(|_| self.scale == ScaleName::Tai),
        }
    }

    /// Tells the keeper what was seen elsewhere.
    pub fn disturb(&self, disturbance: Disturbance) {
        let _ = self.events.send(Event::Disturbed(disturbance));
    }

    /// How the timeline is doing; `None` when it has ended.
    pub fn report(&self) -> Option<Report> {
        let (name, scale) = (self.name.clone(), self.scale);
        self.call(move |kept| kept.report(name, scale))
    }

    /// Ends the thread. Readers find the daemon dead at once.
    pub(crate) fn end(&self) {
        let _ = self.events.send(Event::End);
    }

    /// Has something done by the thread; `None` when it has ended.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Kept) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answers) = mpsc::sync_channel(1);
        let call = Event::Call(Box::new(move |kept| {
            let _ = answer.send(what(kept));
        }));
        self.events.send(call).ok()?;
        answers.recv().ok()
    }
}

impl Asked {
    fn start(
        id: SourceId,
        label: String,
        mut source: Box<dyn Source>,
        events: &Sender<Event>,
    ) -> Self {
        // One question may wait while another is asked; more would be old.
        let (questions, inbox) = mpsc::sync_channel::<Era>(1);
        let events = events.clone();
        std::thread::spawn(move || {
            while let Ok(era) = inbox.recv() {
                if events.send(Event::Answer(id, source.ask(era))).is_err() {
                    break;
                }
            }
        });
        Self {
            questions,
            answered_at: None,
            report: SourceReport {
                source: label,
                ..SourceReport::default()
            },
        }
    }

    fn ask(&mut self, era: Era) {
        match self.questions.try_send(era) {
            Ok(()) => self.report.asked += 1,
            // Still at the last but one: slow, not dead, and no answer so far.
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.refuse("its adapter has ended"),
        }
    }

    fn refuse(&mut self, why: impl core::fmt::Display) {
        self.report.refused += 1;
        self.report.last_refusal = Some(why.to_string());
    }
}

impl Kept {
    fn run(mut self, inbox: &Receiver<Event>) {
        loop {
            self.act();
            match inbox.recv_timeout(self.wait()) {
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.keeper.next_wake() <= self.clock.core() {
                self.keeper.handle_tick(self.clock.now());
            }
        }
        let now = self.clock.core();
        for page in &self.pages {
            page.keep_alive(now);
        }
        self.outputs.end();
    }

    /// Not below a fifth of a millisecond, whatever the keeper wants: nothing
    /// here is worth a busy loop.
    fn wait(&self) -> core::time::Duration {
        let wait = self.keeper.next_wake() - self.clock.core();
        core::time::Duration::from_nanos(wait.as_ns().max(200_000) as u64)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Answer(id, answer) => self.take_in(id, answer),
            Event::Disturbed(disturbance) => {
                // First of all, in one store: nobody reads on.
                self.pages.iter().for_each(PageWriter::disrupt);
                self.keeper
                    .handle_disturbance(self.clock.now(), disturbance);
            }
            Event::Call(call) => call(self),
            Event::End => {}
        }
    }

    fn take_in(&mut self, id: SourceId, answer: Result<Sample, Untold>) {
        let now = self.clock.now();
        let outer = (-self.config.oscillator.max_error).of_inverse_outward();
        let taken = answer.map_err(|untold| untold.0).and_then(|sample| {
            let width = match &sample {
                Sample::Exchange(exchange) => exchange
                    .bound(self.config.resolution, outer)
                    .map(|bound| bound.width())
                    .ok(),
                Sample::Bound { bound, .. } => Some(bound.width()),
                Sample::Unproven { .. } => None,
            };
            if width.is_some_and(|width| width > WORTHLESS) {
                return Err("the interval is too wide to be worth anything".to_owned());
            }
            let taken = match sample {
                Sample::Exchange(exchange) => self.keeper.handle_exchange(now, id, &exchange),
                Sample::Bound {
                    era,
                    bound,
                    authenticated,
                } => self
                    .keeper
                    .handle_bound(now, id, (era, authenticated), &bound),
                Sample::Unproven { era } => self.keeper.handle_unproven(now, id, era),
            };
            taken.map_err(|refused| refused.to_string())?;
            Ok(width)
        });
        let source = &mut self.sources[id.0];
        match taken {
            Ok(width) => {
                source.report.answered += 1;
                source.report.width_ns = width.map(|width| width.as_ns());
                source.answered_at = Some(now.core);
            }
            Err(why) => source.refuse(why),
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.keeper.poll_action() {
            match action {
                Action::Poll { source, era } => self.sources[source.0].ask(era),
                Action::Publish(segment) => {
                    let time_type = self.time_type();
                    self.pages
                        .iter()
                        .for_each(|page| page.set_time_type(time_type));
                    self.pages.iter().for_each(|page| page.publish(&segment));
                    self.outputs.update(&segment, &self.clock, time_type);
                    self.published += 1;
                }
                Action::Alive(until) => {
                    self.pages.iter().for_each(|page| page.keep_alive(until));
                    let time_type = self.time_type();
                    let segment = self.keeper.segment();
                    self.outputs.refresh(segment, &self.clock, time_type);
                }
                Action::Violated { binding, why } => self.tell(binding, Some(why)),
                Action::Restored { binding } => self.tell(binding, None),
                Action::Disturbed(disturbance) => {
                    self.pages.iter().for_each(PageWriter::disrupt);
                    self.disturbances += 1;
                    self.last_disturbance = Some(disturbance);
                }
            }
        }
    }

    /// The kernel may learn how far TAI is from UTC, and that changes.
    fn time_type(&self) -> TimeType {
        match self.from_utc.scale() {
            ScaleName::Local => TimeType::Local,
            ScaleName::Tai => TimeType::Tai(
                self.from_utc
                    .now()
                    .ok()
                    .and_then(|offset| i16::try_from(offset.as_ns() / 1_000_000_000).ok()),
            ),
        }
    }

    fn tell(&mut self, binding: BindingId, shortfall: Option<Shortfall>) {
        if let Some(bindee) = self.bindees.get_mut(&binding) {
            bindee.shortfall = shortfall;
            if bindee.subscribed {
                bindee.send(binding);
            }
        }
    }

    /// A new binding for the client behind `client`.
    pub(crate) fn bind(
        &mut self,
        requirement: Requirement,
        client: Arc<OwnedFd>,
    ) -> Result<BindingId, Impossible> {
        let id = self.keeper.bind(requirement)?;
        let bindee = Bindee {
            client,
            subscribed: false,
            shortfall: None,
        };
        self.bindees.insert(id, bindee);
        Ok(id)
    }

    pub(crate) fn unbind(&mut self, binding: BindingId) {
        self.keeper.unbind(binding);
        self.bindees.remove(&binding);
    }

    pub(crate) fn set(
        &mut self,
        binding: BindingId,
        requirement: Requirement,
    ) -> Result<bool, Impossible> {
        self.keeper.set_requirement(binding, requirement)
    }

    pub(crate) fn get(&self, binding: BindingId) -> Option<Binding> {
        let requirement = self.keeper.requirement(binding)?;
        let shortfall = self.bindees.get(&binding)?.shortfall;
        Some(Binding {
            binding: binding.0,
            need: requirement.into(),
            shortfall: shortfall.map(Into::into),
        })
    }

    pub(crate) fn subscribe(&mut self, binding: BindingId) {
        if let Some(bindee) = self.bindees.get_mut(&binding) {
            bindee.subscribed = true;
            bindee.send(binding);
        }
    }

    pub(crate) fn convert(&self, ticks: u64) -> Result<Stamp, PastError> {
        let now = self.clock.now();
        self.keeper.convert(self.clock.core_at(ticks), &now)
    }

    fn report(&mut self, name: TimelineName, scale: ScaleName) -> Report {
        let now = self.clock.now();
        let segment = *self.keeper.segment();
        let ppb = |rate: f64| rate * 1e9;
        let growth = segment.below_growth.max(segment.above_growth);
        let sources = self.sources.iter().map(|source| SourceReport {
            answered_ago_ns: source.answered_at.map(|at| (now.core - at).as_ns()),
            ..source.report.clone()
        });
        Report {
            name,
            scale,
            stamp: self.keeper.read(&now).into(),
            bindings: self.bindees.len(),
            poll_interval_ns: self.keeper.interval().as_ns(),
            frequency_ppb: ppb(segment.map.rate.as_f64() - 1.0),
            growth_ppb: growth.as_ppt() as f64 / 1e3,
            published: self.published,
            disturbances: self.disturbances,
            last_disturbance: self.last_disturbance.map(|what| what.to_string()),
            statistical_ns: self
                .keeper
                .statistical(0.999_999)
                .map(|view| view.within.as_ns()),
            sources: sources.collect(),
            pid: std::process::id(),
        }
    }
}

impl Bindee {
    /// Tells how things are. A client that does not take its events is cut off:
    /// it must not believe that nothing happens.
    fn send(&self, binding: BindingId) {
        let event = match self.shortfall {
            None => Told::Restored { binding: binding.0 },
            Some(shortfall) => Told::Violated {
                binding: binding.0,
                shortfall: shortfall.into(),
            },
        };
        let packet = encode(&Message::Event(event));
        if packet::send(&*self.client, &packet, None, false).is_err() {
            let _ = rustix::net::shutdown(&*self.client, rustix::net::Shutdown::Both);
        }
    }
}

/// A source that errs by more tells nothing; a page could not even say it.
const WORTHLESS: Duration = Duration::from_s(1_000_000);
