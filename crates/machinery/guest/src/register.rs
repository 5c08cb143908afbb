//! Bringing a running program into a session.
//!
//! At an exec nothing of the program has run; here everything has. The C
//! library has cached the vDSO's functions, so those are overwritten where they
//! are, with jumps into the image. All threads are stopped meanwhile. A wait
//! that was under way when the program was brought in begins anew, in virtual
//! time, with the timeout that it was called with.
//!
//! What this cannot reach: timers that the program has armed already stay in
//! real time, and processes that it has started already stay outside.
//!
//! It can be let go again: [`mod@release`].

mod escort;
mod leave;
mod release;
mod restart;

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use timeloom_page::IMAGE_ADDRESS;

use crate::arch::{self, Registers};
use crate::enter::inject::Injector;
use crate::enter::vdso::{self, Jump};
use crate::error::{GuestError, check};
use crate::filter::{self, Guest};
use crate::linux::memory::PageMapping;
use crate::linux::processes;
use crate::linux::ptrace::{Stop, Tracee};

pub(crate) use release::{Registration, release};

/// Prepares a running process. `on_listener` gets the listener of its filter
/// and must serve it; `adopt` is called while all its threads stand.
///
/// `image` is its own copy of the image.
pub(crate) fn register(
    injector: &Injector,
    (page, image): (&PageMapping, &File),
    pid: i32,
    on_listener: impl FnOnce(OwnedFd) -> Result<(), GuestError>,
    adopt: impl FnOnce(i32) -> Result<(), GuestError>,
) -> Result<(), GuestError> {
    refuse_impossible(pid)?;
    let vdso = Vdso::of(pid)?;
    let mut threads = stop_all(pid)?;
    step_out_of(&vdso, &mut threads)?;
    let first = threads
        .iter()
        .position(|thread| thread.pid() == pid)
        .unwrap_or(0);
    let base = threads[first]
        .registers()
        .map_err(failed(pid, "reading the registers"))?;

    let mut worker = Worker {
        tracee: &mut threads[first],
        base,
        syscall: vdso.syscall,
        pid,
    };
    let scratch = worker.call(
        "making room",
        libc::SYS_mmap,
        [0, SCRATCH_BYTES, 3, 0x22, u64::MAX, 0],
    )?;
    let result = prepare(injector, (page, image), &mut worker, scratch).and_then(|listener| {
        vdso.redirect(worker.tracee, injector)?;
        Ok(listener)
    });
    let _ = worker.call(
        "giving room back",
        libc::SYS_munmap,
        [scratch, SCRATCH_BYTES, 0, 0, 0, 0],
    );
    worker
        .tracee
        .set_registers(&base)
        .map_err(failed(pid, "restoring the registers"))?;
    let listener = result?;
    for thread in &mut threads {
        thread
            .unblock(libc::SIGSYS)
            .map_err(failed(pid, "unblocking the trap signal"))?;
        restart::begin_wait_anew(thread, vdso.syscall).map_err(failed(pid, "restarting a wait"))?;
    }
    on_listener(listener)?;
    adopt(pid)
}

fn refuse_impossible(pid: i32) -> Result<(), GuestError> {
    let own = std::process::id() as i32;
    if pid == own || processes::state(pid).is_none_or(|state| state == 'Z') {
        return Err(GuestError::Usage(format!(
            "there is no process {pid} to bring in"
        )));
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(GuestError::system(format!("looking at process {pid}")))?;
    if maps.contains(RELEASED_PAGE) {
        return Err(GuestError::Usage(format!(
            "process {pid} was in a session and was let go; it cannot be brought in again"
        )));
    }
    if maps.contains("timeloom-image") {
        return Err(GuestError::Usage(format!(
            "process {pid} is in a session already"
        )));
    }
    Ok(())
}

/// Seizes and stops every thread, again until no new one appears.
fn stop_all(pid: i32) -> Result<Vec<Tracee>, GuestError> {
    let mut stopped: Vec<Tracee> = Vec::new();
    loop {
        let mut fresh = Vec::new();
        for thread in processes::threads(pid) {
            if stopped.iter().any(|other| other.pid() == thread) {
                continue;
            }
            match Tracee::seize(thread).and_then(|tracee| tracee.interrupt().map(|()| tracee)) {
                Ok(tracee) => fresh.push(tracee),
                // Ended since we looked, which is not a failure.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(source) => {
                    return Err(GuestError::System {
                        doing: format!(
                            "attaching to process {pid} (is it yours, and is no debugger attached to it?)"
                        ),
                        source,
                    });
                }
            }
        }
        if fresh.is_empty() {
            break;
        }
        for mut tracee in fresh {
            if stand(&mut tracee) {
                stopped.push(tracee);
            }
        }
    }
    if stopped.is_empty() {
        return Err(GuestError::Usage(format!("process {pid} ended")));
    }
    Ok(stopped)
}

/// Waits until an interrupted thread stands; false when it ended.
fn stand(tracee: &mut Tracee) -> bool {
    loop {
        match tracee.wait() {
            Stop::Interrupted => return true,
            Stop::Signal(signal) => tracee.hold_signal(signal),
            Stop::Exec => {}
            Stop::Gone => return false,
        }
        if tracee.interrupt().and_then(|()| tracee.proceed()).is_err() {
            return false;
        }
    }
}

/// A thread in the middle of a vDSO function must leave it before the function
/// is overwritten.
fn step_out_of(vdso: &Vdso, threads: &mut [Tracee]) -> Result<(), GuestError> {
    for thread in threads {
        for _ in 0..MOST_STEPS {
            let registers = thread
                .registers()
                .map_err(failed(thread.pid(), "reading the registers"))?;
            if !vdso.range.contains(&arch::instruction(&registers)) {
                break;
            }
            let again = thread.proceed().and_then(|()| thread.interrupt());
            again.map_err(failed(thread.pid(), "stepping"))?;
            stand(thread);
        }
    }
    Ok(())
}

/// One stopped thread that makes system calls for us.
struct Worker<'a> {
    tracee: &'a mut Tracee,
    base: Registers,
    /// Address of an instruction for system calls in the process.
    syscall: u64,
    pid: i32,
}

impl Worker<'_> {
    fn call(&mut self, doing: &str, number: i64, args: [u64; 6]) -> Result<u64, GuestError> {
        self.tracee
            .syscall_checked(&self.base, self.syscall, (doing, number), args)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GuestError> {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.tracee
                .poke(address + 8 * index as u64, u64::from_ne_bytes(word))
                .map_err(failed(self.pid, "writing to it"))?;
        }
        Ok(())
    }

    /// Opens one of our own descriptors in the process.
    fn open(&mut self, descriptor: i32, scratch: u64) -> Result<i32, GuestError> {
        let path = format!("/proc/{}/fd/{descriptor}\0", std::process::id());
        self.write(scratch, path.as_bytes())?;
        let args = [
            libc::AT_FDCWD as u64,
            scratch,
            (libc::O_RDONLY | libc::O_CLOEXEC) as u64,
            0,
            0,
            0,
        ];
        self.call("reaching the session's memory", libc::SYS_openat, args)
            .map(|fd| fd as i32)
    }
}

/// Maps, handler, masks, filter. Returns the filter's listener.
fn prepare(
    injector: &Injector,
    (page, image): (&PageMapping, &File),
    worker: &mut Worker<'_>,
    scratch: u64,
) -> Result<OwnedFd, GuestError> {
    let page = worker.open(page.file.as_raw_fd(), scratch)?;
    let image = worker.open(image.as_raw_fd(), scratch)?;
    let (base, syscall) = (worker.base, worker.syscall);
    injector.map(worker.tracee, &base, syscall, page, image)?;
    keep_sigsys_out_of_actions(worker, scratch)?;
    injector.install_handler(worker.tracee, &base, scratch)?;
    // Calls of ours that the filter would trap come from inside the image now.
    worker.syscall = injector.image.syscall;
    install_filter(worker, scratch)
}

/// Signal handlers of the program must not run with SIGSYS blocked.
fn keep_sigsys_out_of_actions(worker: &mut Worker<'_>, scratch: u64) -> Result<(), GuestError> {
    let sigsys = 1u64 << (libc::SIGSYS - 1);
    for signal in 1..=64u64 {
        if matches!(signal as i32, libc::SIGKILL | libc::SIGSTOP | libc::SIGSYS) {
            continue;
        }
        worker.call(
            "reading a signal action",
            libc::SYS_rt_sigaction,
            [signal, 0, scratch, 8, 0, 0],
        )?;
        let mask = worker
            .tracee
            .peek(scratch + 24)
            .map_err(failed(worker.pid, "reading from it"))?;
        if mask & sigsys != 0 {
            worker.write(scratch + 24, &(mask & !sigsys).to_ne_bytes())?;
            worker.call(
                "changing a signal action",
                libc::SYS_rt_sigaction,
                [signal, scratch, 0, 8, 0, 0],
            )?;
        }
    }
    Ok(())
}

fn install_filter(worker: &mut Worker<'_>, scratch: u64) -> Result<OwnedFd, GuestError> {
    write_filter(worker, scratch, &filter::program(Guest::Registered))?;
    let args = [SET_MODE_FILTER, FILTER_FLAGS, scratch, 0, 0, 0];
    let installed = match worker.call("installing the filter", libc::SYS_seccomp, args) {
        Err(GuestError::System { source, .. }) if source.raw_os_error() == Some(libc::EACCES) => {
            let no_new_privileges = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
            worker.call(
                "giving up new privileges",
                libc::SYS_prctl,
                no_new_privileges,
            )?;
            worker.call("installing the filter", libc::SYS_seccomp, args)?
        }
        other => other?,
    };
    let listener = take_descriptor(worker.pid, installed as i32)?;
    worker.call(
        "closing a descriptor",
        libc::SYS_close,
        [installed, 0, 0, 0, 0, 0],
    )?;
    Ok(listener)
}

/// Puts a `sock_fprog` and what it points to at `scratch`.
fn write_filter(
    worker: &Worker<'_>,
    scratch: u64,
    program: &[libc::sock_filter],
) -> Result<(), GuestError> {
    let mut bytes = Vec::with_capacity(16 + 8 * program.len());
    bytes.extend_from_slice(&(program.len() as u64).to_ne_bytes());
    bytes.extend_from_slice(&(scratch + 16).to_ne_bytes());
    for instruction in program {
        bytes.extend_from_slice(&instruction.code.to_ne_bytes());
        bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
        bytes.extend_from_slice(&instruction.k.to_ne_bytes());
    }
    assert!(
        bytes.len() as u64 <= SCRATCH_BYTES,
        "the filter has outgrown the room for it"
    );
    worker.write(scratch, &bytes)
}

/// Takes a duplicate of a descriptor of the process.
fn take_descriptor(pid: i32, descriptor: i32) -> Result<OwnedFd, GuestError> {
    // SAFETY: no pointers; both results are checked and then owned by us.
    unsafe {
        let pidfd = check(
            libc::syscall(libc::SYS_pidfd_open, pid, 0),
            "opening a pidfd",
        )?;
        let pidfd = OwnedFd::from_raw_fd(pidfd as i32);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0);
        let taken = check(taken, "taking the filter's listener")?;
        Ok(OwnedFd::from_raw_fd(taken as i32))
    }
}

/// The kernel's vDSO in a process.
struct Vdso {
    range: std::ops::Range<u64>,
    bytes: Vec<u8>,
    /// Address of an instruction for system calls in it.
    syscall: u64,
}

impl Vdso {
    fn of(pid: i32) -> Result<Self, GuestError> {
        let missing = || {
            GuestError::Unsupported(format!(
                "process {pid} has no vDSO, so it cannot be brought in"
            ))
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(failed(pid, "looking at it"))?;
        let line = maps
            .lines()
            .find(|line| line.ends_with("[vdso]"))
            .ok_or_else(missing)?;
        let (from, to) = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'))
            .ok_or_else(missing)?;
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| missing());
        let range = number(from)?..number(to)?;
        let mut bytes = vec![0u8; (range.end - range.start) as usize];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let remote = libc::iovec {
            iov_base: range.start as *mut libc::c_void,
            iov_len: bytes.len(),
        };
        // SAFETY: `local` describes `bytes`; the kernel checks the other side.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        if read != bytes.len() as isize {
            return Err(GuestError::last(format!(
                "reading the vDSO of process {pid}"
            )));
        }
        let offset = arch::find_syscall(&bytes).ok_or_else(missing)?;
        Ok(Self {
            syscall: range.start + offset as u64,
            range,
            bytes,
        })
    }

    fn jumps(&self, injector: &Injector) -> Result<Vec<Jump>, GuestError> {
        vdso::jumps(&self.bytes, &self.range, |name| {
            injector.image.function(name)
        })
        .map_err(|error| GuestError::Unsupported(error.to_string()))
    }

    /// Overwrites each function with a jump to ours.
    fn redirect(&self, tracee: &Tracee, injector: &Injector) -> Result<(), GuestError> {
        for jump in self.jumps(injector)? {
            let last = tracee
                .peek(jump.at + Jump::SPAN - 8)
                .map_err(failed(tracee.pid(), "reading its vDSO"))?;
            for (index, word) in jump.words(last).into_iter().enumerate() {
                tracee
                    .poke(jump.at + 8 * index as u64, word)
                    .map_err(failed(tracee.pid(), "redirecting its vDSO"))?;
            }
        }
        Ok(())
    }
}

fn failed(pid: i32, what: &str) -> impl FnOnce(std::io::Error) -> GuestError + use<> {
    GuestError::system(format!("bringing in process {pid}: {what}"))
}

/// The clock page of a program that was let go, in /proc/PID/maps.
const RELEASED_PAGE: &str = "timeloom-released";
const SCRATCH_BYTES: u64 = 8192;
const MOST_STEPS: usize = 10_000;
const SET_MODE_FILTER: u64 = 1;
/// TSYNC (all threads), SPEC_ALLOW, NEW_LISTENER, TSYNC_ESRCH, WAIT_KILLABLE.
const FILTER_FLAGS: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
const _: () = assert!(IMAGE_ADDRESS >> 48 == 0, "a jump's address fits 48 bits");
