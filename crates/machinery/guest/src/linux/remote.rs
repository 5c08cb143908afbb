//! The memory of other processes.
//!
//! An address that a guest hands over is no pointer of ours: it may be anything, and be
//! unmapped by another thread while we look. So it is held as an [`Alleged`], which has no
//! way out but to be read or written by the kernel, in the process that it came from.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// An address in another process, where that process alleges a `T`.
pub(crate) struct Alleged<T = ()> {
    address: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Alleged<T> {
    /// What is alleged at `address`.
    pub(crate) const fn at(address: u64) -> Self {
        Self {
            address,
            of: PhantomData,
        }
    }

    /// Whether nothing is alleged: the address is zero.
    pub(crate) const fn is_null(self) -> bool {
        self.address == 0
    }
}

impl<T: Plain> Alleged<T> {
    /// What lies there in the process of `thread`. `None` when not all of it can be read.
    pub(crate) fn read(self, thread: i32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let local = libc::iovec {
            iov_base: value.as_mut_ptr().cast(),
            iov_len: size_of::<T>(),
        };
        // SAFETY: ours, and large enough.
        let is_whole = unsafe { read(thread, local, self.address) };
        // SAFETY: then all bytes were written, and a plain type takes any.
        is_whole.then(|| unsafe { value.assume_init() })
    }

    /// Whether all of `value` could be written there.
    pub(crate) fn write(self, thread: i32, value: &T) -> bool {
        let local = libc::iovec {
            iov_base: (&raw const *value).cast_mut().cast(),
            iov_len: size_of::<T>(),
        };
        // SAFETY: as long as the value is.
        unsafe { write(thread, local, self.address) }
    }
}

impl Alleged<u8> {
    /// Whether `into` could be filled from there.
    pub(crate) fn read_all(self, thread: i32, into: &mut [u8]) -> bool {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: borrowed for this call.
        unsafe { read(thread, local, self.address) }
    }

    /// Whether all of `from` could be written there.
    pub(crate) fn write_all(self, thread: i32, from: &[u8]) -> bool {
        let local = libc::iovec {
            iov_base: from.as_ptr().cast_mut().cast(),
            iov_len: from.len(),
        };
        // SAFETY: borrowed for this call.
        unsafe { write(thread, local, self.address) }
    }
}

impl Alleged {
    /// The same address, where now a `T` is alleged.
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

/// What can be read from another process as it lies there.
///
/// # Safety
/// Any bytes are a value of it.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for i64 {}
// SAFETY: nothing but such values.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: numbers.
unsafe impl Plain for libc::timex {}
// SAFETY: numbers, and a raw pointer that nobody follows.
unsafe impl Plain for libc::stack_t {}

/// Whether what `local` describes could be filled from there.
///
/// # Safety
/// It may be written.
unsafe fn read(thread: i32, local: libc::iovec, address: u64) -> bool {
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: local.iov_len,
    };
    // SAFETY: the caller vouches for `local`; the kernel checks the other side.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    read == local.iov_len as isize
}

/// Whether what `local` describes could be copied there.
///
/// # Safety
/// It may be read.
unsafe fn write(thread: i32, local: libc::iovec, address: u64) -> bool {
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: local.iov_len,
    };
    // SAFETY: the caller vouches for `local`; the kernel checks the other side.
    let written =
        unsafe { libc::process_vm_writev(thread, &raw const local, 1, &raw const remote, 1, 0) };
    written == local.iov_len as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alleged_is_read_and_written_or_it_is_not_there() {
        let own = std::process::id() as i32;
        let mut words = [7i64, -8];
        let alleged = Alleged::<[i64; 2]>::at(&raw mut words as u64);
        assert_eq!(alleged.read(own), Some([7, -8]));
        assert!(alleged.write(own, &[1, 2]));
        // SAFETY: ours, and changed by another way than this name.
        assert_eq!(unsafe { (&raw const words).read_volatile() }, [1, 2]);
        let nowhere = Alleged::<[i64; 2]>::at(8);
        assert_eq!(nowhere.read(own), None);
        assert!(!nowhere.write(own, &[1, 2]));
        assert!(Alleged::<()>::from(0).of::<i32>().is_null());
    }
}
