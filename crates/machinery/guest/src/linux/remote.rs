//! Memory of other processes.
//!
//! An address that a guest passes is no pointer of ours: it may have any value, and may be unmapped
//! by another thread during our access. So it is held as an [`Alleged`], which can only be read or
//! written by the kernel, in the process that it came from.

use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

mod mappings;

/// Address in another process, where that process alleges a `T`.
pub(crate) struct Alleged<T = ()> {
    address: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Alleged<T> {
    /// Makes the value for `address`.
    pub(crate) const fn at(address: u64) -> Self {
        Self {
            address,
            of: PhantomData,
        }
    }

    /// Returns true if the address is zero.
    pub(crate) const fn is_null(self) -> bool {
        self.address == 0
    }

    const fn of_bytes(self) -> Alleged<u8> {
        Alleged::at(self.address)
    }
}

impl<T: Plain> Alleged<T> {
    /// Reads the value in the process of `thread`. Returns `None` if not all of it can be read.
    pub(crate) fn read(self, thread: i32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let local = libc::iovec {
            iov_base: value.as_mut_ptr().cast(),
            iov_len: size_of::<T>(),
        };
        // SAFETY: ours, and large enough.
        let is_whole = unsafe { read(thread, local, self.address) };
        // SAFETY: all bytes were written, and a plain type accepts any.
        is_whole.then(|| unsafe { value.assume_init() })
    }
}

impl Alleged<u8> {
    /// Fills `into` from there; returns true if all of it could be read.
    pub(crate) fn read_all(self, thread: i32, into: &mut [u8]) -> bool {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: borrowed for this call.
        unsafe { read(thread, local, self.address) }
    }
}

impl Alleged {
    /// Returns this address as that of an alleged `T`.
    pub(crate) const fn of<T>(self) -> Alleged<T> {
        Alleged::at(self.address)
    }
}

impl From<u64> for Alleged {
    fn from(address: u64) -> Self {
        Self::at(address)
    }
}

impl<T> Clone for Alleged<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Alleged<T> {}

/// Type that can be read from another process in its memory representation.
///
/// # Safety
/// Any bytes are a valid value, and there is no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for i64 {}
// SAFETY: consists of such values only.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Fills the memory described by `local` from there; returns true if all of it could be read.
///
/// # Safety
/// The memory must be writable.
unsafe fn read(thread: i32, local: libc::iovec, address: u64) -> bool {
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: local.iov_len,
    };
    // SAFETY: the caller guarantees `local`; the kernel checks the other side.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    read == local.iov_len as isize
}

/// Memory of a process, held open: to be written after its owner is verified, since a write by
/// number could reach another process that reuses the number.
pub(crate) struct Memory {
    bytes: File,
    /// Mappings with their permissions, which a write through `bytes` would ignore.
    maps: File,
}

impl Memory {
    /// Opens the memory of the process of `thread`; the caller must then verify the process.
    ///
    /// # Errors
    /// Fails if it is gone, or if this process may open no more files.
    pub(crate) fn of(thread: i32) -> io::Result<Self> {
        let bytes = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{thread}/mem"))?;
        let maps = File::open(format!("/proc/{thread}/maps"))?;
        Ok(Self { bytes, maps })
    }

    /// Writes `value`; returns true if all of it could be written.
    pub(crate) fn write<T: Plain>(&self, to: Alleged<T>, value: &T) -> bool {
        let from = std::ptr::from_ref(value).cast::<u8>();
        // SAFETY: `Plain` guarantees numbers without gaps.
        let from = unsafe { std::slice::from_raw_parts(from, size_of::<T>()) };
        self.write_all(to.of_bytes(), from)
    }

    /// Writes `from`; returns true if all of it could be written.
    pub(crate) fn write_all(&self, to: Alleged<u8>, from: &[u8]) -> bool {
        let Some(last) = to.address.checked_add(from.len().saturating_sub(1) as u64) else {
            return false;
        };
        let may = mappings::may_be_written(&self.maps, to.address)
            && (to.address & PAGE == last & PAGE || mappings::may_be_written(&self.maps, last));
        may && self.bytes.write_all_at(from, to.address).is_ok()
    }
}

/// Bits of an address that select its page.
const PAGE: u64 = !0xfff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alleged_is_read_and_written_or_it_is_not_there() {
        let own = std::process::id() as i32;
        let mut words = [7i64, -8];
        let alleged = Alleged::<[i64; 2]>::at(&raw mut words as u64);
        assert_eq!(alleged.read(own), Some([7, -8]));
        let memory = Memory::of(own).expect("our own");
        assert!(memory.write(alleged, &[1, 2]));
        // SAFETY: ours, and changed by other means than this name.
        assert_eq!(unsafe { (&raw const words).read_volatile() }, [1, 2]);
        let nowhere = Alleged::<[i64; 2]>::at(8);
        assert_eq!(nowhere.read(own), None);
        assert!(!memory.write(nowhere, &[1, 2]));
        static CONSTANT: [i64; 2] = [3, 4];
        let constant = Alleged::<[i64; 2]>::at(&raw const CONSTANT as u64);
        assert!(!memory.write(constant, &[1, 2]), "it may not be written");
        assert_eq!(constant.read(own), Some([3, 4]));
        assert!(Alleged::<()>::from(0).of::<i32>().is_null());
    }
}
