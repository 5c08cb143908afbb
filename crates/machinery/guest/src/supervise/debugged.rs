//! Programs that are executed under a debugger in the session.
//!
//! A process has at most one tracer, so the supervisor cannot trace a debugger's tracee through its
//! exec. Instead, the exec proceeds, and the debugger sees its stop. At the debugger's first
//! request to resume the program, the filter notifies the supervisor, which then prepares the
//! program through the debugger (`linux/debugger.rs`).
//!
//! If a child requests `PTRACE_TRACEME` while its parent waits for the child's exec (as with
//! vfork(2)), the request is deferred until that exec. A traced child would stop at each SIGSYS,
//! and the waiting parent could not resume it.

use parking_lot::{Mutex, MutexGuard};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::names::pages_of;
use crate::supervise::asker::Asker;
use crate::supervise::notify::Answer;

/// State of the processes that execute programs under a debugger.
#[derive(Default)]
pub(crate) struct Debugged {
    executing: Mutex<Vec<Executing>>,
    /// Children whose request `PTRACE_TRACEME` is deferred to their next exec.
    put_off: Mutex<Vec<PutOff>>,
}

/// Process that executes a program under a debugger.
struct Executing {
    process: i32,
    by: Pidfd,
    /// Eventfd that is raised when the wait for the debugger ends.
    done: Arc<std::fs::File>,
    stage: Stage,
}

/// Child that has requested to be traced by its parent.
struct PutOff {
    process: i32,
    by: Pidfd,
    /// True after the child's exec: its next request is granted.
    is_due: bool,
}

impl PutOff {
    fn is_of(&self, process: i32) -> bool {
        self.process == process && !self.by.has_ended()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The process waits for the debugger to resume the new program.
    Pending,
    /// The debugger's next request does not resume the program yet, and is let through.
    OnceMore,
    /// The program is being prepared, and has received this number of descriptors.
    Preparing(usize),
}

/// Process whose program must be prepared before the debugger's request is made.
pub(crate) struct Unprepared {
    pub(crate) process: i32,
    pub(crate) args: [u64; 6],
}

/// Outcome of the wait for a debugger to resume a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The program is being prepared; or the process has ended, or executes another program.
    Over,
    /// The debugger has ended without resuming the program.
    DebuggerEnded,
}

impl Debugged {
    /// Records that `process` executes a program under a debugger. Returns the eventfd for
    /// [`Self::wait`].
    ///
    /// # Errors
    /// Fails if this process may open no more files, or if `process` has ended.
    pub(crate) fn executes(&self, process: i32) -> std::io::Result<Arc<std::fs::File>> {
        let done = Arc::new(std::fs::File::from(eventfd(0, EventfdFlags::CLOEXEC)?));
        let by = Pidfd::of_process(process)?;
        self.forget(process);
        self.executing().push(Executing {
            process,
            by,
            done: Arc::clone(&done),
            stage: Stage::Pending,
        });
        Ok(done)
    }

    /// Blocks until the debugger has resumed the program that `done` identifies, or can no longer
    /// do so.
    pub(crate) fn wait(&self, process: i32, done: &std::fs::File, debugger: &Pidfd) -> Waited {
        let Ok(its) = Pidfd::of_process(process) else {
            self.forget(process);
            return Waited::Over;
        };
        let wanted = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut any = [
            wanted(done.as_fd()),
            wanted(its.as_fd()),
            wanted(debugger.as_fd()),
        ];
        while poll(&mut any, None).is_err() {}
        let [is_done, has_ended, no_debugger] = any.map(|one| !one.revents().is_empty());
        if is_done {
            return Waited::Over;
        }
        self.forget(process);
        if no_debugger && !has_ended {
            Waited::DebuggerEnded
        } else {
            Waited::Over
        }
    }

    /// Returns the process that a debugger's request would resume, if its program is not prepared
    /// yet.
    pub(crate) fn unprepared(&self, asker: &Asker<'_>, args: [u64; 6]) -> Option<Unprepared> {
        let mut executing = self.executing();
        if executing.is_empty() {
            return None;
        }
        // The identifier in the request is relative to the debugger's PID namespace.
        let depth = processes::numbers(asker.thread()).len().checked_sub(1)?;
        let number = args[1] as i32;
        let is_it = |one: &&mut Executing| {
            processes::numbers(one.process).get(depth) == Some(&number) && !one.by.has_ended()
        };
        let found = executing.iter_mut().find(is_it)?;
        match found.stage {
            Stage::OnceMore => {
                found.stage = Stage::Pending;
                return None;
            }
            Stage::Preparing(_) => return None,
            Stage::Pending => {}
        }
        // The process still executes the previous program, or the exec has failed.
        if pages_of(found.process).iter().any(|page| !page.writable) {
            return None;
        }
        found.stage = Stage::Preparing(0);
        let process = found.process;
        Some(Unprepared { process, args })
    }

    /// Lets the debugger's present request pass. The program is prepared at the request after it.
    pub(crate) fn ask_once_more(&self, process: i32) {
        let mut executing = self.executing();
        if let Some(found) = executing.iter_mut().find(|one| one.process == process) {
            found.stage = Stage::OnceMore;
        }
    }

    /// Records that the program must be prepared at the debugger's next request.
    pub(crate) fn ask_at_next(&self, process: i32) {
        let mut executing = self.executing();
        if let Some(found) = executing.iter_mut().find(|one| one.process == process) {
            found.stage = Stage::Pending;
        }
    }

    /// Returns the index of the next descriptor for a program that is being prepared. The program
    /// requests it by an exec without a program.
    pub(crate) fn next_gift(&self, asker: &Asker<'_>) -> Option<usize> {
        let mut executing = self.executing();
        if executing.is_empty() {
            return None;
        }
        let thread = asker.thread();
        let found = executing.iter_mut().find(|one| one.process == thread)?;
        let Stage::Preparing(given) = &mut found.stage else {
            return None;
        };
        *given += 1;
        Some(*given - 1)
    }

    /// Removes the record of a process, whose program is prepared or will not be prepared.
    pub(crate) fn forget(&self, process: i32) {
        let gone = |one: &Executing| one.process == process || one.by.has_ended();
        self.executing().retain(|one| {
            let is_gone = gone(one);
            if is_gone {
                let _ = (&*one.done).write(&1u64.to_ne_bytes());
            }
            !is_gone
        });
    }

    /// Returns the answer to a child's `PTRACE_TRACEME`.
    pub(crate) fn traceme(&self, asker: &Asker<'_>) -> Answer {
        let process = asker.process();
        let mut put_off = self.put_off();
        put_off.retain(|one| !one.by.has_ended());
        if let Some(index) = put_off.iter().position(|one| one.is_of(process)) {
            if put_off[index].is_due {
                put_off.swap_remove(index);
                return Answer::Continue;
            }
            return Answer::Value(0);
        }
        let parent = processes::family(process).map_or(0, |family| family.parent);
        let waits = |thread: i32| {
            matches!(processes::thread_state(thread), Ok(Some('D')))
                && processes::waits_for_vfork_child(thread)
        };
        if !processes::threads(parent).into_iter().any(waits) {
            return Answer::Continue;
        }
        match (Pidfd::of_process(process), asker.known_process()) {
            (Ok(by), Ok(_)) => {
                put_off.push(PutOff {
                    process,
                    by,
                    is_due: false,
                });
                Answer::Value(0)
            }
            _ => Answer::Error(libc::EPERM),
        }
    }

    /// Returns true if the process must be traced from this exec on. Later calls return false.
    pub(crate) fn is_due(&self, process: i32) -> bool {
        let mut put_off = self.put_off();
        let found = put_off.iter_mut().find(|one| one.is_of(process));
        found.is_some_and(|one| !std::mem::replace(&mut one.is_due, true))
    }

    fn executing(&self) -> MutexGuard<'_, Vec<Executing>> {
        self.executing.lock()
    }

    fn put_off(&self) -> MutexGuard<'_, Vec<PutOff>> {
        self.put_off.lock()
    }
}
