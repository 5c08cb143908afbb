//! Child that shares our memory until it executes a program or ends, as with vfork(2).
//!
//! fork(2) copies the map of the whole memory, which the exec discards. A supervisor with a
//! thousand programs has thousands of threads, each with a stack: copying their map took most of
//! the time in which programs started. Nothing is copied here. The calling thread is suspended
//! until the child's exec, while all other threads continue. Therefore another thread must answer
//! the child's exec.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicI32;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use timeloom_sys::signals::SignalBlock;

/// Calls `work` in a new process. Stores the process identifier in `pid` before that. Returns a
/// pidfd when the process has executed a program, or ended. If `is_first` is true, the process is
/// the first of a new PID namespace, and all processes that it starts end with it.
///
/// The child begins with all signals blocked that can be blocked: handlers of ours would run in the
/// shared memory.
///
/// # Errors
/// Fails as fork(2) does.
///
/// # Safety
/// `work` may make only system calls, and may change no memory except data that its caller passed
/// for that purpose. It must take no lock and allocate no memory.
pub(super) unsafe fn vfork<F: FnOnce() -> libc::c_int>(
    work: F,
    pid: &AtomicI32,
    is_first: bool,
) -> io::Result<OwnedFd> {
    let stack = Stack::new()?;
    let mut beginning = Beginning { work: Some(work) };
    let _blocked = SignalBlock::all()?;
    let own_numbers = if is_first { libc::CLONE_NEWPID } else { 0 };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    // SAFETY: only this child uses the stack, which is freed after the child has left it; `begin`
    // gets the argument that it expects; the kernel writes the identifier, in our PID namespace,
    // before the child runs.
    let child = unsafe {
        libc::clone(
            begin::<F>,
            stack.top(),
            flags | own_numbers,
            (&raw mut beginning).cast(),
            pid.as_ptr(),
        )
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    // No other thread waits for the child, so its identifier cannot be reused before we reap it.
    let child = Pid::from_raw(child).expect("a child has a number");
    let pidfd = pidfd_open(child, PidfdFlags::empty());
    if pidfd.is_err() {
        // Without a pidfd, the end of the child would not be noticed.
        let _ = kill_process(child, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
    Ok(pidfd?)
}

/// Argument of the first function that the child calls.
struct Beginning<F> {
    work: Option<F>,
}

extern "C" fn begin<F: FnOnce() -> libc::c_int>(beginning: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller of `clone` is suspended, and passed this value.
    let beginning = unsafe { &mut *beginning.cast::<Beginning<F>>() };
    beginning.work.take().map_or(127, |work| work())
}

/// Memory for the child's stack, with an inaccessible page below it.
struct Stack {
    bottom: *mut libc::c_void,
}

impl Stack {
    const BYTES: usize = 256 << 10;
    const GUARD: usize = 64 << 10;

    fn new() -> io::Result<Self> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, at any free address.
        let bottom =
            unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, protection, flags, -1, 0) };
        if bottom == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { bottom };
        // SAFETY: part of our own mapping.
        if unsafe { libc::mprotect(bottom, Self::GUARD, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Returns the address of the first frame: stacks grow down.
    fn top(&self) -> *mut libc::c_void {
        // SAFETY: the end of the mapping.
        unsafe { self.bottom.byte_add(Self::BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the child has left it.
        unsafe { libc::munmap(self.bottom, Self::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn reap(pid: i32) -> i32 {
        let mut status = 0;
        // SAFETY: writes `status`; a child of ours.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        status
    }

    #[test]
    fn a_child_knows_its_number_writes_to_our_memory_and_ends_before_we_go_on() {
        let (pid, seen, told) = (AtomicI32::new(0), AtomicI32::new(0), AtomicI32::new(0));
        let work = || {
            // SAFETY: system calls.
            unsafe {
                libc::usleep(20_000);
                seen.store(libc::getpid(), Ordering::SeqCst);
            }
            told.store(pid.load(Ordering::SeqCst), Ordering::SeqCst);
            7
        };
        // SAFETY: it makes system calls and stores numbers.
        unsafe { vfork(work, &pid, false) }.expect("there is room for a process");
        let child = seen.load(Ordering::SeqCst);
        assert_ne!(child, 0, "it has not ended yet");
        assert_eq!(
            (pid.load(Ordering::SeqCst), told.into_inner()),
            (child, child)
        );
        assert_eq!(libc::WEXITSTATUS(reap(child)), 7);
    }

    #[test]
    fn the_first_of_process_numbers_of_its_own_has_two() {
        let (pid, seen) = (AtomicI32::new(0), AtomicI32::new(0));
        let work = || {
            // SAFETY: no arguments.
            seen.store(unsafe { libc::getpid() }, Ordering::SeqCst);
            7
        };
        // SAFETY: it makes a system call and stores a number.
        match unsafe { vfork(work, &pid, true) } {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return eprintln!("skipped: process numbers of one's own need root");
            }
            forked => drop(forked.expect("there is room for a process")),
        }
        assert_eq!(seen.into_inner(), 1);
        assert_ne!(pid.load(Ordering::SeqCst), 1, "ours is another");
        assert_eq!(libc::WEXITSTATUS(reap(pid.into_inner())), 7);
    }

    #[test]
    fn a_handler_of_ours_does_not_run_in_the_child() {
        static RAN: AtomicBool = AtomicBool::new(false);
        extern "C" fn handler(_: libc::c_int) {
            RAN.store(true, Ordering::SeqCst);
        }
        // SAFETY: the handler stores one flag. No other test uses this signal.
        let before = unsafe { libc::signal(libc::SIGURG, handler as *const () as usize) };
        let pid = AtomicI32::new(0);
        // SAFETY: a signal to itself alone.
        let work = || unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
        // SAFETY: it makes system calls.
        unsafe { vfork(work, &pid, false) }.expect("there is room for a process");
        assert_eq!(reap(pid.into_inner()), 0);
        assert!(!RAN.load(Ordering::SeqCst));
        // Signals are enabled again here.
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGURG) };
        assert!(RAN.load(Ordering::SeqCst));
        // SAFETY: restores the previous handler.
        unsafe { libc::signal(libc::SIGURG, before) };
    }
}
