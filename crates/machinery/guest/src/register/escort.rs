//! Escort: a process that accompanies a released program.
//!
//! A seccomp filter cannot be removed, and persists through an exec. A new program has neither
//! image nor handler, and would be killed by its first call that traps. So both must be installed
//! at every exec, even after the end of the session and its supervisor. The escort is a small
//! process that does only that, and ends with the last program that has the filter.
//!
//! It is a forked child of the supervisor that executes no program. It uses no data that the
//! supervisor's other threads may have been changing during the fork.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use crate::enter::inject::{Injector, Outfit};
use crate::error::{GuestError, check};
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::question::Question;

/// Data of the escort process.
struct Escort<'a> {
    injector: &'a Injector,
    listener: &'a Arc<Listener>,
    /// Clock page for released programs.
    page: &'a File,
    image: &'a File,
}

/// Starts the escort of the programs whose filter has the listener `listener`. To be called while
/// the programs are stopped, after all threads of this process have stopped listening.
///
/// # Errors
/// Fails if no process can be forked.
pub(super) fn start(
    injector: &Injector,
    listener: &Arc<Listener>,
    page: &File,
    image: &File,
) -> Result<(), GuestError> {
    // SAFETY: the children use only data that exists already; glibc makes its allocator usable in
    // the child of a process with threads.
    let middle = check(unsafe { libc::fork() }.into(), "forking an escort")? as i32;
    if middle == 0 {
        // The escort is a grandchild whose parent ends at once, so that no process of ours has to
        // reap it. SAFETY: the same as above.
        match unsafe { libc::fork() } {
            0 => Escort {
                injector,
                listener,
                page,
                image,
            }
            .serve(),
            // SAFETY: the call ends the child without running the parent's exit handlers.
            child => unsafe { libc::_exit(i32::from(child < 0)) },
        }
    }
    let mut status = 0;
    // SAFETY: the process is our own child.
    unsafe { libc::waitpid(middle, &raw mut status, libc::__WALL) };
    if status == 0 {
        Ok(())
    } else {
        Err(GuestError::System {
            doing: "forking an escort".into(),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })
    }
}

impl Escort<'_> {
    fn serve(&self) -> ! {
        // The image does not notify the escort of filters that a program installs from now on.
        self.injector.expect_filters();
        // SAFETY: the calls access no memory. Ctrl-C on a terminal must not end this process.
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_NAME, c"timeloom-escort".as_ptr());
            libc::chdir(c"/".as_ptr());
        }
        self.close_others();
        std::thread::scope(|scope| {
            while let Some(asker) = self.listener.receive() {
                match Question::in_call(&asker) {
                    Question::Exec => {
                        // This happens in a separate thread, as in a session: ptrace binds a tracee
                        // to the thread that seized it.
                        let follow = move || self.follow_exec(&asker);
                        let thread = std::thread::Builder::new().stack_size(STACK);
                        if thread.spawn_scoped(scope, follow).is_err() {
                            self.listener.answer(&asker, Answer::Error(libc::EAGAIN));
                        }
                    }
                    Question::Image(_) => self.listener.answer(&asker, Answer::Error(libc::ENOSYS)),
                    _ => self.listener.answer(&asker, Answer::Continue),
                }
            }
        });
        // SAFETY: the same as in `start`.
        unsafe { libc::_exit(0) }
    }

    fn follow_exec(&self, asker: &Notification) {
        let outfit = Outfit {
            page: self.page.as_fd(),
            image: self.image.as_fd(),
            // The kernel's own vDSO is correct for a released program.
            is_vdso: false,
        };
        // A program that cannot be prepared has been killed, and there is no user to inform.
        let _ = self
            .injector
            .follow_exec(self.listener, asker, outfit, |_, _| Ok(()));
    }

    /// Closes the descriptors inherited from the supervisor, which must not keep other processes'
    /// pipes open.
    fn close_others(&self) {
        let mut kept = [
            self.listener.as_fd().as_raw_fd() as u32,
            self.page.as_raw_fd() as u32,
            self.image.as_raw_fd() as u32,
        ];
        kept.sort_unstable();
        let close = |from: u32, to: u32| {
            if from <= to {
                // SAFETY: the call closes only descriptors that are not used afterwards.
                unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
            }
        };
        let mut from = 0;
        for number in kept {
            if number > from {
                close(from, number - 1);
            }
            from = number + 1;
        }
        close(from, u32::MAX);
    }
}

const STACK: usize = 256 * 1024;
