//! Signal masks of threads.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Guard that blocks some signals in its thread. A thread started while the guard exists blocks
/// them for its whole life.
#[derive(Debug)]
pub struct SignalBlock {
    before: libc::sigset_t,
    /// Makes the guard neither `Send` nor `Sync`: it belongs to its thread.
    of_this_thread: PhantomData<*const ()>,
}

impl SignalBlock {
    /// Blocks the signals with these numbers.
    ///
    /// # Errors
    /// Fails if a number is not that of a signal.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: passes space for a signal set.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for &signal in signals {
            // SAFETY: passes a signal set that we own.
            if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Self::of(&set)
    }

    /// Blocks all signals that can be blocked.
    ///
    /// # Errors
    /// Never fails on Linux.
    pub fn all() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: passes space for a signal set.
        let set = unsafe {
            libc::sigfillset(set.as_mut_ptr());
            set.assume_init()
        };
        Self::of(&set)
    }

    fn of(set: &libc::sigset_t) -> io::Result<Self> {
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: passes one complete set to be read, and space for one to be written.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, before.as_mut_ptr()) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        Ok(Self {
            // SAFETY: the call, which did not fail, has written the set.
            before: unsafe { before.assume_init() },
            of_this_thread: PhantomData,
        })
    }
}

impl Drop for SignalBlock {
    fn drop(&mut self) {
        // SAFETY: passes a complete set to be read: the earlier mask of this thread.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("it can be read");
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = u64::from_str_radix(line.expect("there is one").trim(), 16).expect("a mask");
        mask & (1 << (signal - 1)) != 0
    }

    #[test]
    fn threads_started_meanwhile_never_take_them() {
        assert!(!is_blocked(libc::SIGUSR2));
        let blocked = SignalBlock::new(&[libc::SIGUSR2]).expect("there is one");
        assert!(is_blocked(libc::SIGUSR2) && !is_blocked(libc::SIGUSR1));
        let (go, wait) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            wait.recv().expect("it is told");
            is_blocked(libc::SIGUSR2)
        });
        drop(blocked);
        assert!(!is_blocked(libc::SIGUSR2));
        go.send(()).expect("it waits");
        assert!(other.join().expect("it ends"));
        assert!(SignalBlock::new(&[-1]).is_err());
    }
}
