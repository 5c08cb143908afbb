//! Redirection of the kernel's vDSO in a process to the image.
//!
//! The C library finds the vDSO by the auxiliary vector on its stack. Other programs find it by
//! `prctl(PR_GET_AUXV)`, by `/proc/self/auxv` or by the word `[vdso]` in `/proc/self/maps`.
//! Therefore the functions of the kernel's vDSO are overwritten with jumps to the image. For that,
//! the kernel gives the process a copy of the pages, whose other contents (the return from signals,
//! on ARM) stay. The pages from which the vDSO reads the time, `[vvar]`, are unmapped, since any
//! code could read them.

use std::fs;
use std::io;
use std::ops::Range;

use crate::arch;
use crate::enter::image::Image;
use crate::enter::vdso::{jumps, strangers};
use crate::error::GuestError;
use crate::linux::ptrace::Tracee;

/// The kernel's vDSO, as it is mapped in a process.
pub(crate) struct KernelVdso {
    pub(crate) range: Range<u64>,
    bytes: Vec<u8>,
    /// Ranges of the pages from which the vDSO's functions read the time.
    pub(crate) data: Vec<Range<u64>>,
}

impl KernelVdso {
    /// Reads the vDSO of a process.
    ///
    /// # Errors
    /// Fails if the process cannot be read, or has no vDSO.
    pub(crate) fn of(pid: i32) -> Result<Self, GuestError> {
        let missing = || {
            GuestError::Unsupported(format!(
                "process {pid} has no vDSO, so it cannot be registered"
            ))
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(GuestError::system(format!("looking at process {pid}")))?;
        let range = mappings(&maps, "[vdso]").next().ok_or_else(missing)?;
        let mut bytes = vec![0u8; (range.end - range.start) as usize];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let remote = libc::iovec {
            iov_base: range.start as *mut libc::c_void,
            iov_len: bytes.len(),
        };
        // SAFETY: `local` describes `bytes`; the kernel checks the remote address.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        if read != bytes.len() as isize {
            return Err(GuestError::last(format!(
                "reading the vDSO of process {pid}"
            )));
        }
        let data = mappings(&maps, "[vvar").fold(Vec::new(), joined);
        Ok(Self { range, bytes, data })
    }

    /// Returns the address of a system call instruction in the vDSO.
    pub(crate) fn syscall(&self) -> Result<u64, GuestError> {
        let offset = arch::find_syscall(&self.bytes).ok_or_else(|| {
            GuestError::Unsupported("the kernel's vDSO makes no system call".into())
        })?;
        Ok(self.range.start + offset as u64)
    }
}

/// Returns the ranges of those mappings in a `/proc/PID/maps` whose names begin with `name`.
fn mappings<'a>(maps: &'a str, name: &'a str) -> impl Iterator<Item = Range<u64>> + 'a {
    maps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let is_named = words.nth(4)?.starts_with(name);
        is_named.then_some(number(from)?..number(to)?)
    })
}

/// Appends the range `next` to `ranges`. If it is adjacent to the last range, merges the two.
fn joined(mut ranges: Vec<Range<u64>>, next: Range<u64>) -> Vec<Range<u64>> {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
    ranges
}

/// Changes to the kernel's vDSO, independent of its address in a process.
pub(crate) struct Redirection {
    words: Vec<Word>,
    length: u64,
    /// Pages with the vDSO's data, relative to its start. Empty if a function stays that may need
    /// the data.
    data: Vec<Range<u64>>,
    /// Names of the vDSO's functions that stay and therefore prevent the unmapping of the data.
    pub(crate) strangers: Vec<String>,
}

/// Word of the vDSO to overwrite.
struct Word {
    /// Offset of the word in the vDSO, in bytes.
    offset: usize,
    kernels: u64,
    ours: u64,
}

impl Redirection {
    /// Plans the redirection of `vdso` to `image`.
    ///
    /// # Errors
    /// Fails if some functions cannot be overwritten.
    pub(crate) fn plan(vdso: &KernelVdso, image: &Image) -> Result<Self, GuestError> {
        let start = vdso.range.start;
        let jumps = jumps(&vdso.bytes, &vdso.range, |name| image.function(name))
            .map_err(|error| GuestError::Unsupported(error.to_string()))?;
        let mut after = vdso.bytes.clone();
        for jump in jumps {
            let at = (jump.at - start) as usize;
            after[at..at + arch::JUMP_BYTES].copy_from_slice(&arch::jump(jump.to));
        }
        let strangers = strangers(&vdso.bytes, |name| image.function(name));
        let words = words_of(&vdso.bytes).zip(words_of(&after)).enumerate();
        Ok(Self {
            words: words
                .filter(|(_, (kernels, ours))| kernels != ours)
                .map(|(index, (kernels, ours))| Word {
                    offset: 8 * index,
                    kernels,
                    ours,
                })
                .collect(),
            length: vdso.bytes.len() as u64,
            data: if strangers.is_empty() {
                let relative =
                    |it: &Range<u64>| it.start.wrapping_sub(start)..it.end.wrapping_sub(start);
                vdso.data.iter().map(relative).collect()
            } else {
                Vec::new()
            },
            strangers,
        })
    }

    /// Redirects the vDSO that begins at `start` to the image.
    pub(crate) fn apply(&self, tracee: &Tracee, start: u64) -> io::Result<()> {
        let mut words = self.words.iter();
        words.try_for_each(|word| tracee.poke(start + word.offset as u64, word.ours))
    }

    /// Restores the original contents of the vDSO that begins at `start`.
    pub(crate) fn undo(&self, tracee: &Tracee, start: u64) -> io::Result<()> {
        let mut words = self.words.iter();
        words.try_for_each(|word| tracee.poke(start + word.offset as u64, word.kernels))
    }

    /// Returns true if this redirection was applied to `vdso`.
    pub(crate) fn is_in(&self, vdso: &KernelVdso) -> bool {
        vdso.bytes.len() as u64 == self.length
            && self.words.iter().all(|word| {
                let there = &vdso.bytes[word.offset..word.offset + 8];
                there == word.ours.to_le_bytes()
            })
    }

    /// Returns the data pages that a redirected vDSO at `start` no longer needs.
    pub(crate) fn data_of(&self, start: u64) -> impl Iterator<Item = Range<u64>> {
        let absolute =
            move |it: &Range<u64>| it.start.wrapping_add(start)..it.end.wrapping_add(start);
        self.data.iter().map(absolute)
    }
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_vdso_needs_its_data_no_longer() {
        let vdso = KernelVdso::of(std::process::id() as i32).expect("our own");
        let image = Image::new().expect("an image");
        let plan = Redirection::plan(&vdso, &image).expect("all can be redirected");
        assert_eq!(plan.strangers, Vec::<String>::new());
        assert!(plan.words.len() >= 2 * arch::VDSO.1);
        assert!(!plan.is_in(&vdso), "this process has the kernel's");
        let moved: Vec<_> = plan.data_of(vdso.range.start).collect();
        assert_eq!(moved, vdso.data);
        assert!(!moved.is_empty());
    }

    #[test]
    fn mappings_are_found_by_name_and_joined() {
        let maps = "1000-3000 r--p 00000000 00:00 0    [vvar]\n\
            3000-4000 r--p 00000000 00:00 0    [vvar_vclock]\n\
            4000-6000 r-xp 00000000 00:00 0    [vdso]\n\
            7000-8000 r--p 00000000 00:00 0\n\
            9000-a000 r--p 00000000 00:00 0    [vvar]\n";
        let data = mappings(maps, "[vvar").fold(Vec::new(), joined);
        assert_eq!(data, [0x1000..0x4000, 0x9000..0xa000]);
        assert_eq!(mappings(maps, "[vdso]").next(), Some(0x4000..0x6000));
        assert_eq!(mappings(maps, "[heap]").next(), None);
    }
}
