//! Memory of other processes.
//!
//! An address that a guest passes is not a pointer of this process: it may have any value, and
//! another thread of the guest may unmap it during our access. So it is stored as an [`Alleged`],
//! through which only the kernel reads and writes, in the process that the address came from.

use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

mod mappings;

/// Address in another process, where that process claims to have a `T`.
pub(crate) struct Alleged<T = ()> {
    address: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Alleged<T> {
    /// Creates the value for the address `address`.
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
    /// Reads the value from the process of `thread`. Returns `None` if not all of it is readable.
    pub(crate) fn read(self, thread: i32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let local = libc::iovec {
            iov_base: value.as_mut_ptr().cast(),
            iov_len: size_of::<T>(),
        };
        // SAFETY: the buffer is ours, and large enough.
        let is_whole = unsafe { read(thread, local, self.address) };
        // SAFETY: all bytes were written, and a plain type accepts any.
        is_whole.then(|| unsafe { value.assume_init() })
    }
}

impl Alleged<u8> {
    /// Returns the address `bytes` further on.
    pub(crate) const fn after(self, bytes: usize) -> Self {
        Self::at(self.address.wrapping_add(bytes as u64))
    }

    /// Fills `into` with the bytes at this address in the process of `thread`. Returns true if all
    /// of them were readable.
    pub(crate) fn read_all(self, thread: i32, into: &mut [u8]) -> bool {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: the buffer is borrowed for this call.
        unsafe { read(thread, local, self.address) }
    }
}

impl Alleged {
    /// Returns the same address, as that of a `T`.
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

/// Type that can be read from another process's memory, byte for byte.
///
/// # Safety
/// Any bytes must be a valid value of the type, which must have no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for i64 {}
// SAFETY: an array consists only of such values.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Fills the memory described by `local` with the bytes at `address` in the process of `thread`.
/// Returns true if all of them were readable.
///
/// # Safety
/// The memory described by `local` must be writable.
unsafe fn read(thread: i32, local: libc::iovec, address: u64) -> bool {
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: local.iov_len,
    };
    // SAFETY: the caller guarantees `local`; the kernel checks the remote address.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    read == local.iov_len as isize
}

/// Open memory of a process. Callers open it before they verify the process and write afterwards: a
/// write by process identifier could reach another process that reuses the identifier.
pub(crate) struct Memory {
    bytes: File,
    /// Mappings of the process with their permissions. A write through `bytes` would ignore these.
    maps: File,
}

impl Memory {
    /// Opens the memory of the process of `thread`. The caller must then verify the process.
    ///
    /// # Errors
    /// Fails if the process has ended, or if this process may open no more files.
    pub(crate) fn of(thread: i32) -> io::Result<Self> {
        let bytes = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{thread}/mem"))?;
        let maps = File::open(format!("/proc/{thread}/maps"))?;
        Ok(Self { bytes, maps })
    }

    /// Writes `value` to the address `to`. Returns true if all of it could be written.
    pub(crate) fn write<T: Plain>(&self, to: Alleged<T>, value: &T) -> bool {
        let from = std::ptr::from_ref(value).cast::<u8>();
        // SAFETY: `Plain` guarantees that there is no padding.
        let from = unsafe { std::slice::from_raw_parts(from, size_of::<T>()) };
        self.write_all(to.of_bytes(), from)
    }

    /// Writes the bytes `from` to the address `to`. Returns true if all of them could be written.
    pub(crate) fn write_all(&self, to: Alleged<u8>, from: &[u8]) -> bool {
        let Some(last) = to.address.checked_add(from.len().saturating_sub(1) as u64) else {
            return false;
        };
        let may = mappings::may_be_written(&self.maps, to.address)
            && (to.address & PAGE == last & PAGE || mappings::may_be_written(&self.maps, last));
        may && self.bytes.write_all_at(from, to.address).is_ok()
    }
}

/// Mask for the bits of an address that select its page.
const PAGE: u64 = !0xfff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alleged_addresses_are_read_and_written_or_refused() {
        let own = std::process::id() as i32;
        let mut words = [7i64, -8];
        let alleged = Alleged::<[i64; 2]>::at(&raw mut words as u64);
        assert_eq!(alleged.read(own), Some([7, -8]));
        let memory = Memory::of(own).expect("our own");
        assert!(memory.write(alleged, &[1, 2]));
        // SAFETY: the variable is ours; it was changed through its address, not through this name.
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
