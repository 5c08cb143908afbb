//! Bindings: a program's requirements of a timeline, with notification when they are not met.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_clock::quality::{Requirement, Status};
use timeloom_clock::timeline::Impossible;
use timeloom_time::Duration;
use timeloom_timeline_protocol::{Answer, Ask, ClientError, Connection, Event, Need};

use crate::error::BindError;

/// Binding to a timeline; ends when it is dropped. It has a connection of its own.
#[derive(Debug)]
pub struct Binding {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Mutex<Connection>,
    number: u64,
}

/// Begin or end of a violation of the requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The requirement is not met any more, or not yet.
    Violated {
        /// Status of the timeline at that time; if it is not `Ok`, it is the reason.
        status: Status,
        /// Distance of true time before and after the estimate, at most; `None` without an
        /// interval.
        sides: Option<(Duration, Duration)>,
        /// Reason as text.
        why: String,
    },
    /// The requirement is met again, or met from the start.
    Restored,
}

/// Running subscription; ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Binding {
    pub(crate) fn new(
        mut connection: Connection,
        requirement: Requirement,
    ) -> Result<Self, BindError> {
        let need = sensible(requirement)?;
        match connection.ask(Ask::Bind(need)).map_err(BindError::Daemon)? {
            Answer::Bound { binding } => Ok(Self {
                shared: Arc::new(Shared {
                    connection: Mutex::new(connection),
                    number: binding,
                }),
            }),
            other => Err(refused(other)),
        }
    }

    /// Returns the requirement of the binding.
    ///
    /// # Errors
    /// Fails if the daemon is gone.
    pub fn requirement(&self) -> Result<Requirement, ClientError> {
        let binding = self.shared.number;
        match self.shared.connection().ask(Ask::Get { binding })? {
            Answer::Binding(binding) => binding.need.requirement().ok_or(ClientError::Ended),
            _ => Err(ClientError::Ended),
        }
    }

    /// Changes the requirement of the binding.
    ///
    /// # Errors
    /// Fails as binding does; the old requirement then remains.
    pub fn set_requirement(&self, requirement: Requirement) -> Result<(), BindError> {
        let (binding, need) = (self.shared.number, sensible(requirement)?);
        let answer = self.shared.connection().ask(Ask::Set { binding, need });
        match answer.map_err(BindError::Daemon)? {
            Answer::Done => Ok(()),
            other => Err(refused(other)),
        }
    }

    /// Returns the required accuracy, of the tighter side.
    ///
    /// # Errors
    /// Fails as [`Self::requirement`] does.
    pub fn accuracy(&self) -> Result<Duration, ClientError> {
        self.requirement().map(|requirement| requirement.accuracy())
    }

    /// Changes the required accuracy, on both sides.
    ///
    /// # Errors
    /// Fails as [`Self::set_requirement`] does.
    pub fn set_accuracy(&self, accuracy: Duration) -> Result<(), BindError> {
        let before = self.requirement().map_err(BindError::Daemon)?;
        self.set_requirement(Requirement {
            below: accuracy,
            above: accuracy,
            ..before
        })
    }

    /// Returns the required resolution.
    ///
    /// # Errors
    /// Fails as [`Self::requirement`] does.
    pub fn resolution(&self) -> Result<Duration, ClientError> {
        self.requirement().map(|requirement| requirement.resolution)
    }

    /// Changes the required resolution.
    ///
    /// # Errors
    /// Fails as [`Self::set_requirement`] does.
    pub fn set_resolution(&self, resolution: Duration) -> Result<(), BindError> {
        let before = self.requirement().map_err(BindError::Daemon)?;
        self.set_requirement(Requirement {
            resolution,
            ..before
        })
    }

    /// Calls `told` whenever the requirement begins or ceases to be met: edges only, the first at
    /// once. The calls come from a thread of its own, which must not be blocked while the
    /// subscription is needed. The end of the daemon is reported as a violation, and nothing after
    /// it.
    ///
    /// # Errors
    /// Fails if the daemon is gone.
    pub fn subscribe(
        &self,
        mut told: impl FnMut(Change) + Send + 'static,
    ) -> Result<Subscription, ClientError> {
        let binding = self.shared.number;
        self.shared.connection().ask(Ask::Subscribe { binding })?;
        let done = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&done));
        let thread = std::thread::Builder::new()
            .name("timeline-events".to_owned())
            .spawn(move || shared.tell(&stop, &mut told))
            .map_err(ClientError::Broken)?;
        Ok(Subscription {
            done,
            thread: Some(thread),
        })
    }

    /// Ends the binding, and reports if the daemon confirmed. Dropping does the same without a
    /// result.
    ///
    /// # Errors
    /// Fails if the daemon is gone, and the binding with it.
    pub fn unbind(self) -> Result<(), ClientError> {
        let binding = self.shared.number;
        self.shared
            .connection()
            .ask(Ask::Unbind { binding })
            .map(|_| ())
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // With a subscription the connection remains; the binding must not.
        let binding = self.shared.number;
        if Arc::strong_count(&self.shared) > 1 {
            let _ = self.shared.connection().ask(Ask::Unbind { binding });
        }
    }
}

impl Shared {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, stop: &AtomicBool, told: &mut dyn FnMut(Change)) {
        while !stop.load(Relaxed) {
            // Not under the lock: other threads may send requests meanwhile. Events that came with
            // their replies are in the connection's queue, so it is checked even if the socket is
            // silent.
            let event = self.connection().next_event(StdDuration::from_millis(1));
            match event {
                Ok(Some(event)) => told(change(event)),
                Ok(None) => {
                    if let Ok(fd) = self.connection().fd().try_clone_to_owned() {
                        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
                        let patience = Timespec {
                            tv_sec: 0,
                            tv_nsec: 200_000_000,
                        };
                        let _ = poll(&mut fds, Some(&patience));
                    }
                }
                Err(error) => {
                    return told(Change::Violated {
                        status: Status::DaemonDead,
                        sides: None,
                        why: error.to_string(),
                    });
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
        if let Some(thread) = self.thread.take()
            // Dropped by its own callback: the thread then ends by itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn sensible(requirement: Requirement) -> Result<Need, BindError> {
    let need = Need::from(requirement);
    need.requirement().ok_or(BindError::Senseless)?;
    Ok(need)
}

fn refused(answer: Answer) -> BindError {
    match answer {
        Answer::Impossible {
            accuracy_ns,
            resolution_ns,
        } => BindError::Impossible(Impossible {
            accuracy: Duration::from_ns(accuracy_ns),
            resolution: Duration::from_ns(resolution_ns),
        }),
        _ => BindError::Daemon(ClientError::Ended),
    }
}

fn change(event: Event) -> Change {
    match event {
        Event::Restored { .. } => Change::Restored,
        Event::Violated { shortfall, .. } => Change::Violated {
            status: shortfall.status.into(),
            sides: shortfall
                .below_ns
                .zip(shortfall.above_ns)
                .map(|(below, above)| (Duration::from_ns(below), Duration::from_ns(above))),
            why: shortfall.why,
        },
    }
}
