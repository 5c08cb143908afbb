//! Sessions of running runs, which are found by the directories that the sessions report.
//!
//! Each connection to a session starts a thread in its supervisor, which disturbs a run whose time
//! skips while all its threads wait. The server therefore asks each session once for its directory,
//! which does not change, and identifies the session by its socket afterwards. A session that does
//! not answer is asked again after a while, and does not delay other sessions.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use timeloom_guest::{SessionSocket, StatusConnection, StatusText, session_sockets};
use timeloom_results::RunDirectory;

/// Known sessions of this user.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    met: Mutex<HashMap<String, ProbedSession>>,
}

/// Session that was asked for its directory, with its answer.
#[derive(Debug)]
struct ProbedSession {
    socket: SessionSocket,
    asked: Instant,
    answer: Answer,
}

#[derive(Debug, PartialEq)]
enum Answer {
    /// Directory of the session's results; `None` if the session is not a run.
    Directory(Option<PathBuf>),
    /// The session did not answer in time.
    Silent,
    /// No session listens at the socket, or the session has another version of the protocol.
    Nothing,
}

impl Sessions {
    /// Returns the name of the session that writes this run; `None` if the run has ended or its
    /// session does not answer. Sessions of other users are not found.
    pub(crate) fn of(&self, run: &RunDirectory) -> Option<String> {
        let sockets = session_sockets().unwrap_or_default();
        let mut met = self.met();
        let is_same = |name: &String, it: &ProbedSession| {
            sockets
                .iter()
                .any(|socket| *name == socket.name && it.socket == *socket)
        };
        met.retain(|name, it| is_same(name, it));
        if let Some(name) = writer_of(&met, run) {
            return Some(name);
        }
        let is_due = |socket: &&SessionSocket| match met.get(&socket.name) {
            None => true,
            Some(it) if matches!(it.answer, Answer::Directory(_)) => false,
            Some(it) => it.asked.elapsed() >= ASK_AGAIN,
        };
        let due: Vec<&SessionSocket> = sockets.iter().filter(is_due).collect();
        meet(&mut met, &due, SHORT);
        writer_of(&met, run)
    }

    /// Returns the session of a run like [`Self::of`], but waits longer for slow answers. Used for
    /// actions, which must not fail on a busy machine.
    pub(crate) fn of_patiently(&self, run: &RunDirectory) -> Option<String> {
        if let Some(name) = self.of(run) {
            return Some(name);
        }
        let mut met = self.met();
        let silent = met.values().filter(|it| it.answer == Answer::Silent);
        let silent: Vec<SessionSocket> = silent.map(|it| it.socket.clone()).collect();
        meet(&mut met, &silent.iter().collect::<Vec<_>>(), LONG);
        writer_of(&met, run)
    }

    /// Connects to a session.
    pub(crate) fn open(&self, name: &str) -> Option<StatusConnection> {
        let opened = StatusConnection::open(name, LONG);
        if opened.is_err() {
            self.forget(name);
        }
        opened.ok()
    }

    /// Forgets a session that has ended or does not answer, so that it is asked again.
    pub(crate) fn forget(&self, name: &str) {
        self.met().remove(name);
    }

    /// Returns the status of each of these sessions; `None` for a session that does not answer
    /// soon.
    pub(crate) fn statuses(&self, names: &[&str]) -> Vec<Option<StatusText>> {
        at_once(names, |name| {
            StatusConnection::open(name, SHORT).ok()?.status().ok()
        })
    }

    fn met(&self) -> MutexGuard<'_, HashMap<String, ProbedSession>> {
        self.met.lock()
    }
}

/// Asks the sessions at these sockets for their directories, and stores the answers.
fn meet(met: &mut HashMap<String, ProbedSession>, sockets: &[&SessionSocket], patience: Duration) {
    let answers = at_once(sockets, |socket| ask(&socket.name, patience));
    for (socket, answer) in sockets.iter().zip(answers) {
        let socket = (*socket).clone();
        let (name, asked) = (socket.name.clone(), Instant::now());
        met.insert(
            name,
            ProbedSession {
                socket,
                asked,
                answer,
            },
        );
    }
}

fn ask(name: &str, patience: Duration) -> Answer {
    match StatusConnection::open(name, patience).and_then(|mut session| session.status()) {
        Ok(status) => Answer::Directory(status.directory),
        Err(timeloom_guest::ControlError::Silent { .. }) => Answer::Silent,
        Err(_) => Answer::Nothing,
    }
}

fn writer_of(met: &HashMap<String, ProbedSession>, run: &RunDirectory) -> Option<String> {
    let writes = |it: &ProbedSession| match &it.answer {
        Answer::Directory(Some(directory)) => run.is_at(directory),
        _ => false,
    };
    let found = met.iter().find(|(_, it)| writes(it));
    found.map(|(name, _)| name.clone())
}

/// Calls `each` for all items, several of them concurrently, and returns the results in the order
/// of the items.
fn at_once<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results = Vec::with_capacity(items.len());
    for items in items.chunks(AT_ONCE) {
        // One alone, the usual case, needs no thread.
        if let [item] = items {
            results.push(each(item));
            continue;
        }
        thread::scope(|scope| {
            let each = &each;
            let begin = |item| scope.spawn(move || each(item));
            let threads: Vec<_> = items.iter().map(begin).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            results.extend(ended.map(|result| result.expect("it does not panic")));
        });
    }
    results
}

/// Maximum number of sessions that are asked concurrently.
const AT_ONCE: usize = 16;
/// Timeout for an answer if requests about other runs wait for it.
const SHORT: Duration = Duration::from_millis(200);
/// Timeout for an answer that only a request about the same run needs.
const LONG: Duration = Duration::from_secs(5);
/// Time after which a session without an answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);
