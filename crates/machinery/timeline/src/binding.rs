//! Bindings: a program states its requirement on a timeline and is notified when it is not met.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use crate::protocol::{
    Answer, BindingEvent, ClientError, Connection, PlainRequirement, RequestKind,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_clock::quality::{Requirement, Status};
use timeloom_clock::timeline::UnmetRequirement;
use timeloom_time::Duration;

use crate::error::BindError;

/// Binding to a timeline, with a connection of its own to the daemon. Dropping the value ends the
/// binding.
#[derive(Debug)]
pub struct Binding {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Mutex<Connection>,
    number: u64,
}

/// Begin or end of a violation of the binding's requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The requirement is not met any more, or not yet.
    Violated {
        /// Status of the timeline at that time. A status other than `Ok` is the cause of the
        /// violation.
        status: Status,
        /// Maximum distance of true time before and after the estimate; `None` if the timeline has
        /// no interval.
        sides: Option<(Duration, Duration)>,
        /// Text that describes the cause.
        why: String,
    },
    /// The requirement is met again, or is met at the time of the subscription.
    Restored,
}

/// Running subscription to the changes of a binding; dropping the value ends it.
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
        match connection
            .ask(RequestKind::Bind(need))
            .map_err(BindError::Daemon)?
        {
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
    /// Fails if the connection to the daemon is lost.
    pub fn requirement(&self) -> Result<Requirement, ClientError> {
        let binding = self.shared.number;
        match self.shared.connection().ask(RequestKind::Get { binding })? {
            Answer::Binding(binding) => binding.need.requirement().ok_or(ClientError::Ended),
            _ => Err(ClientError::Ended),
        }
    }

    /// Changes the requirement of the binding.
    ///
    /// # Errors
    /// Fails for the same reasons as creating a binding. The old requirement then remains in force.
    pub fn set_requirement(&self, requirement: Requirement) -> Result<(), BindError> {
        let (binding, need) = (self.shared.number, sensible(requirement)?);
        let answer = self
            .shared
            .connection()
            .ask(RequestKind::Set { binding, need });
        match answer.map_err(BindError::Daemon)? {
            Answer::Done => Ok(()),
            other => Err(refused(other)),
        }
    }

    /// Returns the required accuracy of the side with the tighter requirement.
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

    /// Calls `told` whenever the requirement begins or ceases to be met, and once at the beginning
    /// with the present state. The calls come from a thread of the subscription. While `told`
    /// blocks, no further change is reported. The end of the daemon is reported as a violation,
    /// after which there are no more calls.
    ///
    /// # Errors
    /// Fails if the connection to the daemon is lost.
    pub fn subscribe(
        &self,
        mut told: impl FnMut(Change) + Send + 'static,
    ) -> Result<Subscription, ClientError> {
        let binding = self.shared.number;
        self.shared
            .connection()
            .ask(RequestKind::Subscribe { binding })?;
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

    /// Ends the binding and waits for the daemon's confirmation. Dropping the value ends the
    /// binding too, but reports no error.
    ///
    /// # Errors
    /// Fails if the connection to the daemon is lost; the binding has then ended as well.
    pub fn unbind(self) -> Result<(), ClientError> {
        let binding = self.shared.number;
        self.shared
            .connection()
            .ask(RequestKind::Unbind { binding })
            .map(|_| ())
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // A subscription keeps the connection open, so the binding must be ended explicitly.
        let binding = self.shared.number;
        if Arc::strong_count(&self.shared) > 1 {
            let _ = self
                .shared
                .connection()
                .ask(RequestKind::Unbind { binding });
        }
    }
}

impl Shared {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock()
    }

    fn tell(&self, stop: &AtomicBool, told: &mut dyn FnMut(Change)) {
        while !stop.load(Relaxed) {
            // The lock is not held while waiting, because other threads may send requests
            // meanwhile. Events that arrive during a request are in the connection's queue, so the
            // queue is checked even if the socket has no data.
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
            // If the subscription is dropped by its own callback, the thread cannot wait for
            // itself. It ends after the callback.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn sensible(requirement: Requirement) -> Result<PlainRequirement, BindError> {
    let need = PlainRequirement::from(requirement);
    need.requirement().ok_or(BindError::Senseless)?;
    Ok(need)
}

fn refused(answer: Answer) -> BindError {
    match answer {
        Answer::Impossible {
            accuracy_ns,
            resolution_ns,
        } => BindError::Impossible(UnmetRequirement {
            accuracy: Duration::from_ns(accuracy_ns),
            resolution: Duration::from_ns(resolution_ns),
        }),
        _ => BindError::Daemon(ClientError::Ended),
    }
}

fn change(event: BindingEvent) -> Change {
    match event {
        BindingEvent::Restored { .. } => Change::Restored,
        BindingEvent::Violated { shortfall, .. } => Change::Violated {
            status: shortfall.status,
            sides: shortfall
                .below_ns
                .zip(shortfall.above_ns)
                .map(|(below, above)| (Duration::from_ns(below), Duration::from_ns(above))),
            why: shortfall.why,
        },
    }
}
