//! Attaching a running program to a session.
//!
//! At an exec no code of the program has run; here the program runs already. The C library has
//! cached the addresses of the vDSO's functions, so these functions are overwritten in place, with
//! jumps into the image. All threads are stopped meanwhile. A wait that is in progress when the
//! program is attached is restarted, in virtual time, with its original timeout.
//!
//! Limits: timers that the program has already armed stay in real time, and processes that it has
//! already started stay outside the session.
//!
//! The program can be released again: [`mod@release`].

mod escort;
mod leave;
mod release;
mod restart;
mod stop;
mod worker;

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};

use timeloom_abi::{IMAGE_ADDRESS, PageTime};

use crate::enter::inject::{Injector, SIGSYS_STAND_IN};
use crate::enter::kernel_vdso::{KernelVdso, Redirection};
use crate::error::GuestError;
use crate::filter::{self, Guest};
use crate::linux::memory::PageMapping;
use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::names::RELEASED_PAGE;
pub(crate) use release::{Registration, release};
use stop::{step_out_of, stop_all};
use worker::{SCRATCH_BYTES, SET_MODE_FILTER, Worker, failed, write_filter};

/// Attaches a running process. `on_listener` gets the listener of its filter and must serve it;
/// `adopt` is called while all its threads are stopped.
///
/// `image` is a copy of the image for this process and its children.
pub(crate) fn register(
    injector: &Injector,
    (page, image): (&PageMapping<PageTime>, &File),
    pid: i32,
    on_listener: impl FnOnce(OwnedFd) -> Result<(), GuestError>,
    adopt: impl FnOnce(i32) -> Result<(), GuestError>,
) -> Result<(), GuestError> {
    refuse_impossible(pid)?;
    let vdso = KernelVdso::of(pid)?;
    let (syscall, redirection) = (vdso.syscall()?, Redirection::plan(&vdso, &injector.image)?);
    let mut threads = stop_all(pid)?;
    // From here on the kernel cannot reuse the process identifier.
    refuse_impossible(pid)?;
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
        syscall,
        pid,
    };
    let scratch = worker.call(
        "mapping scratch memory",
        libc::SYS_mmap,
        [0, SCRATCH_BYTES, 3, 0x22, u64::MAX, 0],
    )?;
    let result = prepare(injector, (page, image), &mut worker, scratch).and_then(|listener| {
        redirection
            .apply(worker.tracee, vdso.range.start)
            .map_err(failed(pid, "redirecting its vDSO"))?;
        protect_data(
            &mut worker,
            injector,
            &redirection,
            vdso.range.start,
            libc::PROT_NONE,
        )?;
        Ok(listener)
    });
    let _ = worker.call(
        "unmapping the scratch memory",
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
            .exchange_in_mask(libc::SIGSYS, SIGSYS_STAND_IN)
            .map_err(failed(pid, "unblocking the trap signal"))?;
        restart::begin_wait_anew(thread, syscall).map_err(failed(pid, "restarting a wait"))?;
    }
    on_listener(listener)?;
    adopt(pid)
}

fn refuse_impossible(pid: i32) -> Result<(), GuestError> {
    let own = std::process::id() as i32;
    if pid == own || processes::state(pid).is_none_or(|state| state == 'Z') {
        return Err(GuestError::Usage(format!(
            "there is no process {pid} to register"
        )));
    }
    if processes::time_namespace(pid) != processes::time_namespace(own) {
        return Err(GuestError::Unsupported(format!(
            "process {pid} is in another time namespace, whose offsets the virtual clock does not \
             have; it cannot be registered"
        )));
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(GuestError::system(format!("looking at process {pid}")))?;
    if maps.contains(RELEASED_PAGE) {
        return Err(GuestError::Usage(format!(
            "process {pid} was released from a session; it cannot be registered again"
        )));
    }
    if maps.contains("timeloom-image") {
        return Err(GuestError::Usage(format!(
            "process {pid} is in a session already"
        )));
    }
    // Filters that both processes have inherited come from outside, as in a container.
    let of_others = processes::seccomp_filters(own);
    let threads = processes::threads(pid);
    if threads
        .iter()
        .any(|&thread| processes::seccomp_filters(thread) > of_others)
    {
        return Err(GuestError::Unsupported(format!(
            "process {pid} has a seccomp filter of its own, which judges calls of ours that it \
             does not expect and may kill the process for one; a filter that is installed in a \
             session lets them pass: start the program with `timeloom exec`"
        )));
    }
    Ok(())
}

/// Installs mappings, signal handler, signal masks and filter in the process. Returns the filter's
/// listener.
fn prepare(
    injector: &Injector,
    (page, image): (&PageMapping<PageTime>, &File),
    worker: &mut Worker<'_>,
    scratch: u64,
) -> Result<OwnedFd, GuestError> {
    let page = worker.open(page.file.as_raw_fd(), scratch)?;
    let image = worker.open(image.as_raw_fd(), scratch)?;
    let (base, syscall) = (worker.base, worker.syscall);
    injector.map(worker.tracee, &base, syscall, page, image)?;
    keep_sigsys_out_of_actions(worker, scratch)?;
    let own = own_action_of_sigsys(worker, scratch)?;
    injector.install_handler(worker.tracee, &base, scratch)?;
    if let Some(own) = own {
        injector.keep_action_of_sigsys(worker.tracee, &base, scratch, own)?;
    }
    // From now on the worker makes calls that the filter would trap from inside the image.
    worker.syscall = injector.image.syscall;
    install_filter(worker, scratch)
}

/// Removes SIGSYS from the masks of the program's signal actions: its handlers must not run with
/// SIGSYS blocked.
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
            .map_err(failed(worker.pid, "reading its memory"))?;
        if mask & sigsys != 0 {
            let mask = mask & !sigsys | 1 << (SIGSYS_STAND_IN - 1);
            worker.write(scratch + 24, &mask.to_ne_bytes())?;
            worker.call(
                "changing a signal action",
                libc::SYS_rt_sigaction,
                [signal, scratch, 0, 8, 0, 0],
            )?;
        }
    }
    Ok(())
}

/// Sets the protection of the pages from which the kernel's vDSO at `start` reads the time. The
/// pages are not unmapped, since a program that is released needs them again.
fn protect_data(
    worker: &mut Worker<'_>,
    injector: &Injector,
    redirection: &Redirection,
    start: u64,
    protection: i32,
) -> Result<(), GuestError> {
    for pages in redirection.data_of(start) {
        let length = pages.end - pages.start;
        let args = [pages.start, length, protection as u64, 0, 0, 0];
        let call = libc::SYS_mprotect;
        let made = worker
            .tracee
            .syscall(&worker.base, worker.syscall, call, args);
        if made.map_err(failed(worker.pid, "changing its vDSO's data"))? != 0 {
            injector.remark_on_sealed_data();
        }
    }
    Ok(())
}

/// Returns the program's action of SIGSYS in the kernel's layout; `None` for the default action.
fn own_action_of_sigsys(
    worker: &mut Worker<'_>,
    scratch: u64,
) -> Result<Option<[u64; 4]>, GuestError> {
    let args = [libc::SIGSYS as u64, 0, scratch, 8, 0, 0];
    worker.call("reading a signal action", libc::SYS_rt_sigaction, args)?;
    let mut action = [0; 4];
    for (index, word) in action.iter_mut().enumerate() {
        let read = worker.tracee.peek(scratch + 8 * index as u64);
        *word = read.map_err(failed(worker.pid, "reading its memory"))?;
    }
    Ok((action[0] != libc::SIG_DFL as u64).then_some(action))
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

/// Duplicates a descriptor of the process into this process.
fn take_descriptor(pid: i32, descriptor: i32) -> Result<OwnedFd, GuestError> {
    let process = Pidfd::of_process(pid).map_err(GuestError::system("opening a pidfd"))?;
    let taken = process.duplicate(descriptor);
    taken.map_err(GuestError::system("taking the filter's listener"))
}

/// Flags of the filter's installation: TSYNC (all threads), SPEC_ALLOW, NEW_LISTENER, TSYNC_ESRCH,
/// WAIT_KILLABLE.
const FILTER_FLAGS: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
const _: () = assert!(IMAGE_ADDRESS >> 48 == 0, "a jump's address fits 48 bits");
