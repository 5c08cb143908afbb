//! A terminal for a command that runs under somebody else: what is typed here goes there
//! as it is, what it prints comes here, and its window is as large as ours.

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

/// A pair of terminal ends: ours, and the one for the command.
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

    /// Carries what is typed and printed until `end` returns and all is printed.
    pub(super) fn relay<T>(self, end: impl FnOnce() -> T) -> T {
        // Who has no terminal of a size simply keeps the first.
        let resized = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register(SIGWINCH, Arc::clone(&resized));
        let _raw = Raw::set();
        let Self { ours, theirs } = self;
        // Else it would never be seen to be closed.
        drop(theirs);
        let ended = AtomicBool::new(false);
        if let Ok(typed) = ours.try_clone() {
            // It ends with this process: nobody can keep it from waiting for a key.
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

/// Prints what the command prints, until its terminal is closed, or it has ended and
/// nothing more is there.
fn print(terminal: &OwnedFd, resized: &AtomicBool, ended: &AtomicBool) {
    let mut bytes = [0u8; 8192];
    loop {
        if resized.swap(false, Ordering::SeqCst) {
            resize(terminal);
        }
        // Before it is looked: what it printed at its end is there then.
        let was_ended = ended.load(Ordering::SeqCst);
        let mut look = [PollFd::new(terminal, PollFlags::IN)];
        let ready = poll(&mut look, Some(&LOOK_EVERY));
        if ready == Ok(0) && was_ended {
            return;
        }
        if !matches!(ready, Ok(1..)) {
            continue;
        }
        // Its last holder has closed it: EIO.
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

/// Our own terminal hands on every key, until this is dropped.
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

/// How often it is looked whether the window has changed, or the command has ended.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
