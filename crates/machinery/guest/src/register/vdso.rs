//! The kernel's vDSO in a running program, whose functions are made to jump to ours.

use std::fs;

use crate::arch;
use crate::enter::inject::Injector;
use crate::enter::vdso::{Jump, jumps};
use crate::error::GuestError;
use crate::linux::ptrace::Tracee;

use super::worker::failed;

/// The kernel's vDSO in a process.
pub(super) struct Vdso {
    pub(super) range: std::ops::Range<u64>,
    pub(super) bytes: Vec<u8>,
    /// Address of an instruction for system calls in it.
    pub(super) syscall: u64,
}

impl Vdso {
    pub(super) fn of(pid: i32) -> Result<Self, GuestError> {
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

    pub(super) fn jumps(&self, injector: &Injector) -> Result<Vec<Jump>, GuestError> {
        jumps(&self.bytes, &self.range, |name| {
            injector.image.function(name)
        })
        .map_err(|error| GuestError::Unsupported(error.to_string()))
    }

    /// Overwrites each function with a jump to ours.
    pub(super) fn redirect(&self, tracee: &Tracee, injector: &Injector) -> Result<(), GuestError> {
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
