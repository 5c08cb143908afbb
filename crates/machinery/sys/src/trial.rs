//! Tests of the machine's abilities. Each test uses the ability once.

use std::io;
use std::process::Child;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Tests whether a seccomp filter can pass a system call to a supervisor (SECCOMP_RET_USER_NOTIF).
///
/// # Errors
/// Fails if the kernel does not support this, or if a filter of this process forbids the query.
pub fn hand_calls_to_a_supervisor() -> io::Result<()> {
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the call only reads the action.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    done(result)
}

/// Seizes `child` by ptrace(2), which neither stops nor changes the child. The child remains
/// seized.
///
/// # Errors
/// Fails if this process may not trace others.
pub fn seize(child: &Child) -> io::Result<()> {
    // SAFETY: no address is passed.
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE, child.id() as libc::pid_t, 0, 0) })
}

/// Tests whether the process can map a sealed page of executable memory. The page is unmapped
/// again.
///
/// # Errors
/// Fails if the kernel or its security module refuses one of these steps.
pub fn map_sealed_code() -> io::Result<()> {
    const LENGTH: usize = 4096;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create(c"timeloom-trial", flags)?;
    ftruncate(&memory, LENGTH as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals)?;
    let protection = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: creates a mapping where the kernel chooses. It is never executed, and unmapped next.
    unsafe {
        let at = mmap(
            core::ptr::null_mut(),
            LENGTH,
            protection,
            MapFlags::PRIVATE,
            &memory,
            0,
        )?;
        munmap(at, LENGTH)?;
    }
    Ok(())
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_can_be_seized() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        seize(&child).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn requirements_of_a_session_are_met() {
        hand_calls_to_a_supervisor().unwrap();
        map_sealed_code().unwrap();
    }
}
