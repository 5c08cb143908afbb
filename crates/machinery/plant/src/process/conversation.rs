//! Requests and replies on the connection to a plant, and the handling of a plant that fails.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time;

use serde_json::Value;
use timeloom_time::Duration;

use crate::child::Child;
use crate::error::{Op, PlantError, PlantFault};
use crate::lines::{LineError, Lines, MAX_LINE};
use crate::log::LastLines;
use crate::message::{self, BadReply, Request};

/// Process of a plant, and the connection to it. After the first failure the process has ended, and
/// every further request returns the same failure.
pub(super) struct Conversation {
    name: String,
    last_lines: LastLines,
    child: Child,
    lines: Lines,
    next_id: u64,
    failed: Option<PlantError>,
}

/// Reply of the plant, or its refusal.
pub(super) type Answer<T = Reply> = Result<T, PlantError>;

/// Reply to a successful request. The line is kept for error messages.
pub(super) struct Reply {
    ok: Value,
    line: String,
}

impl Conversation {
    pub(super) fn new(name: &str, last_lines: &LastLines, child: Child, line: UnixStream) -> Self {
        Self {
            name: name.to_owned(),
            last_lines: Arc::clone(last_lines),
            child,
            lines: Lines::new(line),
            next_id: 1,
            failed: None,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks that the process still runs, without sending a request. A failure is reported only
    /// once.
    pub(super) fn look(&mut self) -> Result<(), PlantError> {
        if self.failed.is_some() {
            return Ok(());
        }
        match self.child.wait(time::Duration::ZERO) {
            Some(status) => Err(self.fail(PlantFault::Died {
                during: Op::Idle,
                status,
            })),
            None => Ok(()),
        }
    }

    /// Waits until a process that was requested to stop has ended.
    pub(super) fn end(&mut self, patience: Duration) -> Result<(), PlantError> {
        let during = Op::Stop;
        let fault = match self.child.wait(to_std(patience)) {
            Some(status) if status.success() => {
                self.failed = Some(self.error(PlantFault::Died { during, status }));
                return Ok(());
            }
            Some(status) => PlantFault::Died { during, status },
            None => PlantFault::TimedOut {
                during,
                after: patience,
            },
        };
        Err(self.fail(fault))
    }

    /// Sends all `requests`, and returns the replies: the `ok` member of each, or the plant's
    /// refusal. If the plant fails, returns an error.
    pub(super) fn ask(
        &mut self,
        requests: &[(Op, Request<'_>)],
        patience: Duration,
    ) -> Result<Vec<Answer>, PlantError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let first = self.next_id;
        let mut lines = Vec::new();
        for (op, request) in requests {
            let begin = lines.len();
            request.append(self.next_id, &mut lines);
            self.next_id += 1;
            if lines.len() - begin > MAX_LINE {
                let message = format!("the request would be longer than {MAX_LINE} bytes");
                return Err(self.refuse(*op, message, None));
            }
        }
        let mut replies = Vec::with_capacity(requests.len());
        // Requests that exceed the socket's buffer are sent in parts. If the plant answered while
        // it still reads, it would block on its replies, and this process on its requests.
        let batch = if lines.len() > PIPELINE_BYTES {
            1
        } else {
            requests.len().max(1)
        };
        let mut unsent = lines.split_inclusive(|byte| *byte == b'\n');
        for (index, (op, _)) in requests.iter().enumerate() {
            let began = time::Instant::now();
            let deadline = began + to_std(patience);
            if index % batch == 0 {
                let part: Vec<u8> = unsent.by_ref().take(batch).flatten().copied().collect();
                if let Err(error) = self.lines.send(&part, deadline) {
                    return Err(self.broken_line(*op, &error, patience));
                }
            }
            let line = match self.lines.receive(deadline) {
                Ok(line) => line,
                Err(error) => return Err(self.broken_line(*op, &error, patience)),
            };
            match message::reply(&line, first + index as u64) {
                Ok(ok) => replies.push(Ok(Reply { ok, line })),
                Err(BadReply::Refused {
                    message,
                    signal,
                    at,
                }) => {
                    let refusal = self.refuse(*op, message, signal);
                    replies.push(Err(PlantError { at, ..refusal }));
                }
                Err(bad) => return Err(self.bad_reply(*op, bad, &line)),
            }
        }
        Ok(replies)
    }

    /// Sends one request and returns its reply.
    pub(super) fn ask_one(
        &mut self,
        op: Op,
        request: Request<'_>,
        patience: Duration,
    ) -> Result<Reply, PlantError> {
        let replies = self.ask(&[(op, request)], patience)?;
        replies.into_iter().next().expect("one reply per request")
    }

    pub(super) fn understand<T>(
        &mut self,
        during: Op,
        reply: &Reply,
        read: impl FnOnce(&Value) -> Result<T, BadReply>,
    ) -> Result<T, PlantError> {
        read(&reply.ok).map_err(|bad| self.bad_reply(during, bad, &reply.line))
    }

    pub(super) fn refuse(&self, during: Op, message: String, signal: Option<String>) -> PlantError {
        let fault = PlantFault::Refused {
            during,
            message,
            signal,
        };
        PlantError {
            plant: self.name.clone(),
            fault,
            at: None,
            log_tail: Vec::new(),
        }
    }

    fn bad_reply(&mut self, during: Op, bad: BadReply, line: &str) -> PlantError {
        let line: String = line.chars().take(EXCERPT_CHARS).collect();
        match bad {
            BadReply::Nonsense(what) => self.fail(PlantFault::Nonsense { during, what, line }),
            BadReply::NotFinite => self.fail(PlantFault::NotFinite { during, line }),
            BadReply::Refused {
                message,
                signal,
                at,
            } => PlantError {
                at,
                ..self.refuse(during, message, signal)
            },
        }
    }

    fn broken_line(&mut self, during: Op, error: &LineError, after: Duration) -> PlantError {
        let fault = match error {
            // A process that is dying closes its socket shortly before it ends.
            LineError::Closed => match self.child.wait(DYING) {
                Some(status) => PlantFault::Died { during, status },
                None => PlantFault::HungUp { during },
            },
            // The process may have ended without an end of file on the socket: a process that it
            // started and that left its group may still hold the socket.
            LineError::TimedOut => match self.child.wait(time::Duration::ZERO) {
                Some(status) => PlantFault::Died { during, status },
                None => PlantFault::TimedOut { during, after },
            },
            LineError::TooLong => PlantFault::Oversize {
                during,
                limit: MAX_LINE,
            },
            LineError::NotText => PlantFault::Nonsense {
                during,
                what: "not UTF-8".to_owned(),
                line: String::new(),
            },
        };
        self.fail(fault)
    }

    /// Ends the plant for good. No later request is sent to it.
    fn fail(&mut self, fault: PlantFault) -> PlantError {
        self.child.kill();
        // Killed processes end at once, unless they are blocked in a device driver. Dropping the
        // child waits for those.
        let _ = self.child.wait(DYING);
        let error = self.error(fault);
        self.failed = Some(error.clone());
        error
    }

    fn error(&self, fault: PlantFault) -> PlantError {
        PlantError {
            plant: self.name.clone(),
            fault,
            at: None,
            log_tail: (self.last_lines)(),
        }
    }
}

fn to_std(length: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(length.as_ns()).unwrap_or(0))
}

/// Number of bytes that are certain to fit into a socket's buffer.
const PIPELINE_BYTES: usize = 64 << 10;
/// Maximum number of characters of a malformed line in an error message.
const EXCERPT_CHARS: usize = 160;
/// Maximum wall time from the closing of the socket, or from SIGKILL, to the end of the process.
const DYING: time::Duration = time::Duration::from_secs(1);
