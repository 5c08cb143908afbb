//! Handle of a timeline for the rest of the daemon: constant properties, and the channel to the
//! worker thread, which does everything else.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use timeloom_clock::quality::{Requirement, TimelineId};
use timeloom_clock::timeline::{Disturbance, Estimator, SourceId, UnmetRequirement};
use timeloom_time::Duration;
use timeloom_timeline::shm::{PageWriter, WriterError};

use crate::LocalClock;
use crate::config::TimelineConfig;
use crate::outputs::{OutputError, Outputs};
use crate::source::{self, FromUtc, SourceFailure, SourceThread};
use crate::status_journal::StatusJournal;
use crate::worker::{Input, Worker};
use timeloom_timeline::protocol::{
    Directory, Page, TimelineName, TimelineReport, TimelineScale, VERSION,
};

/// Handle of a timeline whose worker thread runs until its [`Daemon`](crate::Daemon) is dropped.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct TimelineHandle {
    name: TimelineName,
    id: TimelineId,
    scale: TimelineScale,
    tai_offset_s: Option<i16>,
    path: PathBuf,
    page: Arc<OwnedFd>,
    resolution: Duration,
    inputs: Sender<Input>,
}

/// Reason why a timeline is not kept.
#[derive(Debug)]
pub(crate) enum KeepError {
    /// The timeline's page cannot be created, possibly because another daemon keeps this timeline.
    Page(WriterError),
    /// A source can never work as it is configured.
    Source(SourceFailure),
    /// An output cannot be written as it is configured; the error names the output and the fix.
    Output(OutputError),
    /// The journal at this path cannot be written.
    Journal(PathBuf, std::io::Error),
    /// No polling rate can meet the accuracy that the configuration requires.
    Accuracy(UnmetRequirement),
}

impl TimelineHandle {
    /// Creates the timeline's page, whose lock excludes other daemons, and starts the worker
    /// thread.
    pub(crate) fn start(
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
        let (inputs, inbox) = mpsc::channel();
        let opened: Result<Vec<_>, _> = config
            .sources
            .iter()
            .map(|source| source::open(source, config, clock).map(|open| (source.label(), open)))
            .collect();
        let sources = opened.map_err(KeepError::Source)?;
        let outputs = Outputs::open(config, clock).map_err(KeepError::Output)?;
        let journal = config.journal.as_deref().map(|path| {
            StatusJournal::open(path).map_err(|error| KeepError::Journal(path.to_owned(), error))
        });
        let journal = journal.transpose()?;
        let sources = sources
            .into_iter()
            .enumerate()
            .map(|(index, (label, open))| {
                SourceThread::start(SourceId(index), label, open, &inputs)
            })
            .collect();
        let estimator_config = config.estimator(clock.oscillator(config.oscillator()));
        let mut estimator = Estimator::new(estimator_config, clock.now());
        if let Some(accuracy) = config.accuracy {
            let required = estimator.bind(Requirement::within(accuracy));
            required.map_err(KeepError::Accuracy)?;
        }
        let worker = Worker {
            estimator,
            config: estimator_config,
            clock: clock.clone(),
            from_utc: FromUtc::of(config),
            pages: [memory, file],
            outputs,
            journal,
            sources,
            subscribers: BTreeMap::new(),
            published: 0,
            disturbances: 0,
            last_disturbance: None,
            logged: None,
        };
        let timeline = Self {
            name: config.name.clone(),
            id,
            scale: config.scale,
            tai_offset_s: config.tai_offset_s,
            path,
            page: Arc::new(page),
            resolution: estimator_config.resolution,
            inputs,
        };
        let name = timeline.name.to_string();
        let thread = std::thread::spawn(move || {
            let _span = tracing::info_span!("timeline", name).entered();
            worker.run(&inbox);
        });
        Ok((timeline, thread))
    }

    /// Returns the name of the timeline.
    pub fn name(&self) -> &TimelineName {
        &self.name
    }

    /// Returns the path of the timeline's page.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the timeline's page as a sealed memfd.
    pub fn page(&self) -> BorrowedFd<'_> {
        self.page.as_fd()
    }

    /// Returns the description of the timeline that a client receives with the page.
    pub(crate) fn describe(&self) -> Page {
        Page {
            version: VERSION,
            name: self.name.clone(),
            timeline: format!("{:032x}", self.id.0),
            scale: self.scale,
            resolution_ns: self.resolution.as_ns(),
            path: self.path.display().to_string(),
            tai_offset_s: self
                .tai_offset_s
                .filter(|_| self.scale == TimelineScale::Tai),
            index: None,
        }
    }

    /// Reports a disturbance to the estimator, such as a step of the system clock that another
    /// thread detected.
    pub fn disturb(&self, disturbance: Disturbance) {
        let _ = self.inputs.send(Input::Disturbed(disturbance));
    }

    /// Returns a report on the timeline; `None` if the worker thread has ended.
    pub fn report(&self) -> Option<TimelineReport> {
        let (name, scale) = (self.name.clone(), self.scale);
        self.call(move |worker| worker.report(name, scale))
    }

    /// Ends the worker thread. Readers see at once that the daemon is dead.
    pub(crate) fn end(&self) {
        let _ = self.inputs.send(Input::End);
    }

    /// Runs a function in the worker thread; returns `None` if the thread has ended.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answers) = mpsc::sync_channel(1);
        let call = Input::Call(Box::new(move |worker| {
            let _ = answer.send(what(worker));
        }));
        self.inputs.send(call).ok()?;
        answers.recv().ok()
    }
}
