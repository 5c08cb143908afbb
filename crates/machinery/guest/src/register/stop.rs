//! Stopping of all threads of a process, without its cooperation.

use crate::arch;
use crate::enter::kernel_vdso::KernelVdso;
use crate::error::GuestError;
use crate::linux::processes;
use crate::linux::ptrace::{Stop, Tracee};

use super::worker::failed;

/// Seizes and stops every thread of a process. Repeats this until no new thread appears.
pub(super) fn stop_all(pid: i32) -> Result<Vec<Tracee>, GuestError> {
    let mut stopped: Vec<Tracee> = Vec::new();
    loop {
        let mut fresh = Vec::new();
        for thread in processes::threads(pid) {
            if stopped.iter().any(|other| other.pid() == thread) {
                continue;
            }
            let is_its = || processes::process_of(thread) == pid;
            match Tracee::seize(thread, is_its)
                .and_then(|tracee| tracee.interrupt().map(|()| tracee))
            {
                Ok(tracee) => fresh.push(tracee),
                // The thread has ended meanwhile, which is not a failure.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(source) => {
                    return Err(GuestError::System {
                        doing: format!(
                            "attaching to process {pid} (does it belong to another user, or is a \
                             debugger attached to it?)"
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

/// Waits until a thread that was interrupted is stopped. Returns false if it has ended.
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

/// Single-steps threads that are in vDSO functions until they have left them, before the functions
/// are overwritten.
pub(super) fn step_out_of(vdso: &KernelVdso, threads: &mut [Tracee]) -> Result<(), GuestError> {
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

const MOST_STEPS: usize = 10_000;
