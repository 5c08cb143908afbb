//! Restart of waits that began in the kernel before the program was attached.

use std::io;

#[cfg(target_arch = "aarch64")]
use crate::arch;
use crate::linux::ptrace::Tracee;

/// Restarts a wait that the kernel would continue in real time, so that the wait traps. Other
/// interrupted calls are not affected.
#[cfg(target_arch = "x86_64")]
pub(super) fn begin_wait_anew(thread: &mut Tracee, _syscall: u64) -> io::Result<()> {
    let mut registers = thread.registers()?;
    if (registers.orig_rax as i64) >= 0 && registers.rax as i64 == ERESTART_RESTARTBLOCK {
        registers.rax = ERESTARTNOINTR as u64;
        thread.set_registers(&registers)?;
    }
    Ok(())
}

/// Restarts a wait that the kernel would continue in real time, so that the wait traps. The thread
/// is stopped before the instruction of its interrupted call, and the kernel may be about to
/// replace the call's number by that of `restart_syscall`. The kernel gives that up when the thread
/// makes another call, so the thread makes one.
#[cfg(target_arch = "aarch64")]
pub(super) fn begin_wait_anew(thread: &mut Tracee, syscall: u64) -> io::Result<()> {
    let base = thread.registers()?;
    if thread.peek(base.pc)?.to_le_bytes()[..4] == arch::SYSCALL {
        thread.syscall(&base, syscall, libc::SYS_getpid, [0; 6])?;
        thread.set_registers(&base)?;
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
const ERESTARTNOINTR: i64 = -513;
#[cfg(target_arch = "x86_64")]
const ERESTART_RESTARTBLOCK: i64 = -516;
