//! Words of memory that this process shares with BPF programs, in a map of type ARRAY.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::bpf_call::{BPF_MAP_CREATE, MapCreate, bpf};

/// First page of an array map that was created with BPF_F_MMAPABLE, as words of 64 bits.
#[derive(Debug)]
pub struct SharedWords {
    address: *const AtomicU64,
}

// SAFETY: the mapping consists of atomics, and lives as long as `self`.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates a map with one word, which is 0.
    ///
    /// # Errors
    /// Fails if the kernel has no BPF, or if this process may not use it (CAP_BPF).
    pub fn create_map() -> io::Result<OwnedFd> {
        let create = MapCreate {
            kind: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<u64>() as u32,
            entries: 1,
            flags: BPF_F_MMAPABLE,
            ..MapCreate::default()
        };
        // SAFETY: the command reads its attributes, and returns a descriptor that is ours.
        Ok(unsafe { OwnedFd::from_raw_fd(bpf(BPF_MAP_CREATE, &create)?) })
    }

    /// Maps the words of `map`. The kernel keeps the map as long as this value exists.
    ///
    /// # Errors
    /// Fails if the map was created without BPF_F_MMAPABLE.
    pub fn of(map: impl AsFd) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new shared mapping.
        let address = unsafe { mmap(anywhere, page_size(), access, MapFlags::SHARED, map, 0)? };
        Ok(Self {
            address: address.cast(),
        })
    }

    /// Returns a word of the first page.
    ///
    /// # Panics
    /// Panics if `index` lies beyond that page.
    pub fn get(&self, index: usize) -> &AtomicU64 {
        assert!(index < page_size() / size_of::<AtomicU64>());
        // SAFETY: within the page that stays mapped as long as `self`.
        unsafe { &*self.address.add(index) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: mapped by this type; `get` borrows from `self`.
        let _ = unsafe { munmap(self.address.cast_mut().cast(), page_size()) };
    }
}

// Linux, include/uapi/linux/bpf.h.
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
