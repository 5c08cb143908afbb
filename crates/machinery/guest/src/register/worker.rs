//! Stopped thread that makes system calls in its own process on behalf of the supervisor.

use crate::arch::Registers;
use crate::error::GuestError;
use crate::linux::ptrace::Tracee;

/// Stopped thread that makes system calls on behalf of the supervisor.
pub(super) struct Worker<'a> {
    pub(super) tracee: &'a mut Tracee,
    pub(super) base: Registers,
    /// Address of a system call instruction in the process.
    pub(super) syscall: u64,
    pub(super) pid: i32,
}

impl Worker<'_> {
    pub(super) fn call(
        &mut self,
        doing: &str,
        number: i64,
        args: [u64; 6],
    ) -> Result<u64, GuestError> {
        self.tracee
            .syscall_checked(&self.base, self.syscall, (doing, number), args)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GuestError> {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.tracee
                .poke(address + 8 * index as u64, u64::from_ne_bytes(word))
                .map_err(failed(self.pid, "writing its memory"))?;
        }
        Ok(())
    }

    /// Opens a file of this process (the supervisor's `descriptor`) in the worker's process.
    /// Returns its descriptor number there.
    pub(super) fn open(&mut self, descriptor: i32, scratch: u64) -> Result<i32, GuestError> {
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

/// Writes a filter to `scratch`, as a `sock_fprog` and its instructions.
pub(super) fn write_filter(
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
        "the filter is larger than the memory mapped for it"
    );
    worker.write(scratch, &bytes)
}

pub(super) fn failed(pid: i32, what: &str) -> impl FnOnce(std::io::Error) -> GuestError + use<> {
    GuestError::system(format!("registering process {pid}: {what}"))
}

/// Size in bytes of the memory in the process for the arguments of the worker's calls.
pub(super) const SCRATCH_BYTES: u64 = 8192;
pub(super) const SET_MODE_FILTER: u64 = 1;
