//! Terminal for a command that runs as another user. Input is passed to the command unchanged, and
//! its output is printed here. The terminal has the size of this process's terminal.

use std::fs::File;
use std::io::{self, Read, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::SIGWINCH;

/// Both ends of a terminal: this process's end, and the command's.
pub(super) struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(ptsname(&ours, Vec::new())?, flags, Mode::empty())?;
        let terminal = Self { ours, theirs };
        terminal.resize();
        Ok(terminal)
    }

    pub(super) fn theirs(&self) -> BorrowedFd<'_> {
        self.theirs.as_fd()
    }

    /// Copies input and output until `end` returns and all output has been printed.
    pub(super) fn relay<T>(self, end: impl FnOnce() -> T) -> T {
        // If the size of this process's terminal is unknown, the initial size stays.
        let resized = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register(SIGWINCH, Arc::clone(&resized));
        let _raw = Raw::set();
        let Self { ours, theirs } = self;
        // If this process kept the command's end open, it would never see the end of the output.
        drop(theirs);
        let ended = AtomicBool::new(false);
        if let Ok(typed) = ours.try_clone() {
            // This thread lives until the process ends, because its wait for a key cannot be
            // interrupted.
            thread::spawn(move || copy(stdin(), File::from(typed)));
        }
        thread::scope(|scope| {
            scope.spawn(|| print(&ours, &resized, &ended));
            let result = end();
            ended.store(true, Ordering::SeqCst);
            result
        })
    }

    fn resize(&self) {
        resize(&self.ours);
    }
}

fn resize(terminal: &OwnedFd) {
    if let Ok(size) = tcgetwinsize(stdout()) {
        let _ = tcsetwinsize(terminal, size);
    }
}

/// Prints the command's output. Returns when the terminal is closed, or when the command has ended
/// and no output is left.
fn print(terminal: &OwnedFd, resized: &AtomicBool, ended: &AtomicBool) {
    let mut bytes = [0u8; 8192];
    loop {
        if resized.swap(false, Ordering::SeqCst) {
            resize(terminal);
        }
        // Checked before the poll, so that output which precedes the end is not missed.
        let was_ended = ended.load(Ordering::SeqCst);
        let mut look = [PollFd::new(terminal, PollFlags::IN)];
        let ready = poll(&mut look, Some(&LOOK_EVERY));
        if ready == Ok(0) && was_ended {
            return;
        }
        if !matches!(ready, Ok(1..)) {
            continue;
        }
        // EIO: the last process that had the terminal open has closed it.
        let Ok(length) = rustix::io::read(terminal, &mut bytes) else {
            return;
        };
        let printed = stdout().write_all(&bytes[..length]);
        if printed.and_then(|()| stdout().flush()).is_err() || length == 0 {
            return;
        }
    }
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut bytes = [0u8; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}

/// Raw mode of this process's terminal. Dropping the value restores the previous mode.
struct Raw(Option<Termios>);

impl Raw {
    fn set() -> Self {
        let Ok(usual) = tcgetattr(stdin()) else {
            return Self(None);
        };
        let mut raw = usual.clone();
        raw.make_raw();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        Self(Some(usual))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(usual) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, usual);
        }
    }
}

/// Polling interval for changes of the window size, and for the end of the command.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
