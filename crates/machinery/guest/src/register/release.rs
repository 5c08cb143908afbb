//! Release of an attached program, with all processes that it has started since.
//!
//! All processes of the program are stopped meanwhile. The program then gets another clock page,
//! which marks it as released: the image passes each call to the kernel, and waits in progress
//! continue in real time for the rest of their duration. The vDSO of the program is the kernel's
//! again, and so are its timers.
//!
//! The seccomp filter cannot be removed. So the image stays, and a call that traps still costs its
//! microsecond. A second filter traps all calls that would be sent to a supervisor, so that none is
//! needed ([`super::escort`] describes the exception).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stop::{step_out_of, stop_all};
use super::worker::{SCRATCH_BYTES, Worker, failed};
use super::{escort, leave, protect_data};
use crate::enter::inject::Injector;
use crate::enter::kernel_vdso::{KernelVdso, Redirection};
use crate::error::GuestError;
use crate::linux::memory::PageMapping;
use crate::linux::processes;
use crate::linux::ptrace::Tracee;
use crate::names::RELEASED_PAGE;
use crate::supervise::interrupt;
use crate::supervise::notify::Listener;
use crate::supervise::supervisor::Supervisor;
use crate::timers::HeldDescriptor;

/// Program that was attached to the session.
pub(crate) struct Registration {
    /// Identifier of the process that was attached.
    pub(crate) pid: i32,
    /// Name of the image in this process and its children.
    pub(crate) tag: String,
    /// Listener that receives the requests of these processes.
    pub(crate) listener: Arc<Listener>,
    /// Cgroup in which the process was before; `None` if unknown.
    pub(crate) home: Option<PathBuf>,
}

impl Registration {
    /// Returns the attached process and those that it has started: all that map its image.
    fn processes(&self) -> Vec<i32> {
        let has_it = |pid| {
            let memfds = processes::memfds_of(pid, &self.tag);
            memfds.iter().any(|memfd| memfd.name == self.tag)
        };
        processes::others(has_it)
    }

    /// Returns true if all processes of the program have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.processes().is_empty()
    }

    /// Returns true if the program was released from the session.
    pub(crate) fn is_released(&self) -> bool {
        self.listener.is_stopped()
    }
}

/// Releases the program. The caller must hold the session's lock.
///
/// # Errors
/// Fails before any change if a process cannot be stopped, or if the program has POSIX timers and
/// the kernel is older than Linux 6.15. Later errors mean that some state of the program was not
/// restored; the program was released nevertheless.
pub(crate) fn release(
    supervisor: &Supervisor,
    registration: &Registration,
) -> Result<(), GuestError> {
    let mut stopped = stop_whole(registration)?;
    if stopped.is_empty() {
        return Err(GuestError::Usage(format!(
            "process {} has ended",
            registration.pid
        )));
    }
    let pids: Vec<i32> = stopped.iter().map(|process| process.pid).collect();
    if pids.iter().any(|&pid| supervisor.timers.has_posix(pid)) && !kernel_keeps_timer_numbers() {
        return Err(GuestError::Unsupported(format!(
            "process {} has POSIX timers; returning them needs Linux 6.15 or later",
            registration.pid
        )));
    }
    let host = registration.listener.host();
    let page = PageMapping::new(
        &std::ffi::CString::new(format!("{RELEASED_PAGE}-{}", registration.pid))
            .expect("no zero byte"),
    )?;
    supervisor.clock.release(host, &page);
    let escorted = Arc::new(registration.listener.for_another()?);
    let image = registration.listener.image().ok_or_else(|| {
        GuestError::Usage(format!("process {} was not registered", registration.pid))
    })?;

    // The processes must leave the cgroup first: while it is frozen, they could make no calls.
    let mut trouble = None;
    let mut note = |result: Result<(), GuestError>| {
        if let Err(error) = result {
            trouble.get_or_insert(error);
        }
    };
    for &pid in &pids {
        note(supervisor.freezer.let_go(pid, registration.home.as_deref()));
    }
    let held = gather_descriptors(supervisor, &pids, &registration.listener, &mut note);
    for (process, held) in stopped.iter_mut().zip(&held) {
        note(process.change(supervisor, &page.file, held));
    }
    registration.listener.stop();
    registration.listener.set_gifts(Vec::new());
    note(escort::start(
        &supervisor.injector,
        &escorted,
        &page.file,
        image,
    ));
    // This follows the exchange of the page: threads in waits that began in the session recompute
    // their timeouts.
    interrupt::interrupt_waiting(&pids, &supervisor.injector.image.wait);
    drop(stopped);
    supervisor.timers.forget_unheld();
    trouble.map_or(Ok(()), Err)
}

/// Process, all threads of which are stopped.
struct StoppedProcess {
    pid: i32,
    threads: Vec<Tracee>,
}

/// Stops all processes of an attached program.
fn stop_whole(registration: &Registration) -> Result<Vec<StoppedProcess>, GuestError> {
    let begun = Instant::now();
    loop {
        let mut stopped: Vec<StoppedProcess> = Vec::new();
        let outcome = loop {
            let fresh: Vec<i32> = registration
                .processes()
                .into_iter()
                .filter(|pid| stopped.iter().all(|process| process.pid != *pid))
                .collect();
            if fresh.is_empty() {
                break Ok(());
            }
            if let Err(error) = stop_each(&fresh, &mut stopped) {
                break Err(error);
            }
        };
        match outcome {
            Ok(()) => return Ok(stopped),
            // An exec is in progress. It ends in a moment, unless a thread that it needs is
            // stopped.
            Err(error) => {
                drop(stopped);
                if begun.elapsed() > PATIENCE {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn stop_each(pids: &[i32], stopped: &mut Vec<StoppedProcess>) -> Result<(), GuestError> {
    for &pid in pids {
        // A thread that waits for its vfork child cannot stop before the child has executed a
        // program.
        let starting = |&thread: &i32| {
            processes::state(thread) == Some('D') && processes::waits_for_vfork_child(thread)
        };
        if processes::threads(pid).iter().any(starting) {
            return Err(GuestError::Unsupported(format!(
                "process {pid} did not complete the start of a program in time"
            )));
        }
        match stop_all(pid) {
            Ok(threads) => stopped.push(StoppedProcess { pid, threads }),
            // The process has ended meanwhile.
            Err(_) if processes::state(pid).is_none_or(|state| state == 'Z') => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns for each process its timerfds, with the numbers of the files that replace them.
fn gather_descriptors(
    supervisor: &Supervisor,
    pids: &[i32],
    listener: &Listener,
    note: &mut impl FnMut(Result<(), GuestError>),
) -> Vec<Vec<(HeldDescriptor, usize)>> {
    let mut gifts: Vec<File> = Vec::new();
    let mut known = Vec::new();
    let mut all = Vec::new();
    for &pid in pids {
        let mut of_one = Vec::new();
        for held in supervisor.timers.held_by(pid) {
            let same = known.iter().position(|key| *key == held.key);
            let gift = match same {
                Some(gift) => gift,
                None => match supervisor.timers.to_kernel(held.key) {
                    Ok(file) => {
                        known.push(held.key);
                        gifts.push(file);
                        gifts.len() - 1
                    }
                    Err(error) => {
                        note(Err(error));
                        continue;
                    }
                },
            };
            of_one.push((held, gift));
        }
        all.push(of_one);
    }
    listener.set_gifts(gifts);
    all
}

impl StoppedProcess {
    /// Makes all changes inside this process.
    fn change(
        &mut self,
        supervisor: &Supervisor,
        page: &File,
        held: &[(HeldDescriptor, usize)],
    ) -> Result<(), GuestError> {
        let pid = self.pid;
        let first = self
            .threads
            .iter()
            .position(|thread| thread.pid() == pid)
            .unwrap_or(0);
        // Calls made in the image pass both filters.
        let syscall = supervisor.injector.image.syscall;
        let timers = supervisor.timers.take_of_process(pid);
        let (scratch, results, at_once) = self.with_worker(first, syscall, |worker| {
            let args = [0, SCRATCH_BYTES, 3, 0x22, u64::MAX, 0];
            let scratch = worker.call("mapping scratch memory", libc::SYS_mmap, args)?;
            // Each step is made independently: the failure of one is no reason to omit the others.
            let results = [
                leave::exchange_page(worker, scratch, page.as_raw_fd()),
                leave::hand_back_timers(worker, scratch, &timers),
                leave::exchange_descriptors(worker, scratch, held),
            ];
            let at_once = leave::install_release_filter(worker, scratch, true);
            Ok((scratch, results, at_once))
        })?;
        if !at_once? {
            for index in 0..self.threads.len() {
                self.with_worker(index, syscall, |worker| {
                    leave::install_release_filter(worker, scratch, false)
                })?;
            }
        }
        self.restore_vdso(&supervisor.injector, first)?;
        self.with_worker(first, syscall, |worker| {
            let args = [scratch, SCRATCH_BYTES, 0, 0, 0, 0];
            worker.call("unmapping the scratch memory", libc::SYS_munmap, args)
        })?;
        results.into_iter().collect()
    }

    /// Runs `work` with one of the threads as the worker, and restores the thread's registers.
    fn with_worker<T>(
        &mut self,
        index: usize,
        syscall: u64,
        work: impl FnOnce(&mut Worker<'_>) -> Result<T, GuestError>,
    ) -> Result<T, GuestError> {
        let pid = self.pid;
        let tracee = &mut self.threads[index];
        let base = tracee
            .registers()
            .map_err(failed(pid, "reading the registers"))?;
        let mut worker = Worker {
            tracee,
            base,
            syscall,
            pid,
        };
        let done = work(&mut worker);
        let restored = worker.tracee.set_registers(&base);
        restored.map_err(failed(pid, "restoring the registers"))?;
        done
    }

    /// Restores the kernel's vDSO if it is the program's own. Programs that were executed in the
    /// session continue with the image, since they have no data pages for another vDSO.
    fn restore_vdso(&mut self, injector: &Injector, first: usize) -> Result<(), GuestError> {
        let theirs = KernelVdso::of(self.pid)?;
        let native = KernelVdso::of(std::process::id() as i32)?;
        let redirection = Redirection::plan(&native, &injector.image)?;
        let start = theirs.range.start;
        let lacks_data = theirs.data.is_empty() && redirection.data_of(start).next().is_some();
        if lacks_data || !redirection.is_in(&theirs) {
            return Ok(());
        }
        step_out_of(&theirs, &mut self.threads)?;
        self.with_worker(first, injector.image.syscall, |worker| {
            protect_data(worker, injector, &redirection, start, libc::PROT_READ)
        })?;
        let undone = redirection.undo(&self.threads[first], start);
        undone.map_err(failed(self.pid, "restoring its vDSO"))
    }
}

/// Returns true if the kernel can create timers with chosen identifiers.
fn kernel_keeps_timer_numbers() -> bool {
    // SAFETY: the call is a query that changes nothing.
    unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, RESTORE_IDS_GET, 0, 0, 0) >= 0 }
}

const PR_TIMER_CREATE_RESTORE_IDS: libc::c_int = 77;
const RESTORE_IDS_GET: libc::c_ulong = 2;
/// Time limit for a program that is just starting another one.
const PATIENCE: Duration = Duration::from_secs(10);
