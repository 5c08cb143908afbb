//! Shared memory of NTP's reference clock (driver 28), which ntpd, chronyd and gpsd's tools read.
//! The format is in [`crate::shm::foreign::ntp_shm`].

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;
use std::io;

use rustix::process::geteuid;

use crate::shm::foreign::ForeignFormatError;
use crate::shm::foreign::ntp_shm::{SIZE, ShmSample};

/// SysV key of unit 0: "NTP0".
const KEY: i32 = 0x4e54_5030;

/// The segment as words. `count` is the second word, and `valid` the thirteenth.
type Words = [AtomicU32; SIZE / 4];
const COUNT: usize = 1;
const VALID: usize = 12;

/// Shared-memory segment of a unit, attached until the value is dropped. The segment itself
/// remains, because readers have it attached too. Only one writer may publish at a time.
#[derive(Debug)]
pub struct NtpShm {
    words: NonNull<Words>,
    id: i32,
}

// SAFETY: the segment holds atomics only, and an attachment does not belong to a thread.
unsafe impl Send for NtpShm {}

impl NtpShm {
    /// Attaches the unit's segment. If it does not exist, it is created with access for its own
    /// user only.
    ///
    /// # Errors
    /// Fails if a system call fails, if the existing segment has another size or mode, or if it
    /// belongs to a user that is neither this one nor root.
    pub fn open(unit: u16) -> io::Result<Self> {
        let key = KEY + i32::from(unit);
        // SAFETY: the call takes and returns numbers only.
        let id = unsafe { libc::shmget(key, SIZE, libc::IPC_CREAT | 0o600) };
        if id == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `shmid_ds` consists of numbers, for which zero is a valid value.
        let mut about: libc::shmid_ds = unsafe { core::mem::zeroed() };
        // SAFETY: IPC_STAT writes only to `about`.
        if unsafe { libc::shmctl(id, libc::IPC_STAT, &mut about) } == -1 {
            return Err(io::Error::last_os_error());
        }
        let own = geteuid().as_raw();
        let not_ours = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if about.shm_segsz != SIZE {
            return not_ours("a segment of another size is there");
        }
        if about.shm_perm.uid != own && about.shm_perm.uid != 0 {
            return not_ours("the segment that is there belongs to another user");
        }
        // SAFETY: attaches the segment at an address that the kernel chooses.
        let address = unsafe { libc::shmat(id, core::ptr::null(), 0) };
        if address as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let made = Self { words, id };
        if made.read().is_err() {
            return not_ours("the segment that is there is not a reference clock's");
        }
        Ok(made)
    }

    /// Publishes a sample. The sample's own `count` and `valid` are ignored and replaced.
    pub fn publish(&self, sample: &ShmSample) {
        let words = self.get();
        let count = words[COUNT].load(Relaxed).wrapping_add(1);
        self.free();
        words[COUNT].store(count, Relaxed);
        fence(Release);
        let bytes = sample.emit();
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            if index != COUNT && index != VALID {
                let word = [word[0], word[1], word[2], word[3]];
                words[index].store(u32::from_ne_bytes(word), Relaxed);
            }
        }
        words[COUNT].store(count.wrapping_add(1), Release);
        words[VALID].store(1, Release);
    }

    /// Withdraws the last sample if no reader has taken it.
    pub fn free(&self) {
        self.get()[VALID].store(0, Relaxed);
        fence(Release);
    }

    /// Returns the present content of the segment.
    ///
    /// # Errors
    /// Fails if the content is not that of a reference clock, or if it changes during the read.
    pub fn read(&self) -> Result<ShmSample, ForeignFormatError> {
        let words = self.get();
        let count = words[COUNT].load(Acquire);
        let mut bytes = [0; SIZE];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        fence(Acquire);
        if words[COUNT].load(Relaxed) != count {
            return Err(ForeignFormatError::Updating);
        }
        ShmSample::parse(&bytes)
    }

    /// Marks the segment for removal, which happens when no process has it attached any more.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn remove(self) -> io::Result<()> {
        // SAFETY: IPC_RMID uses no buffer.
        match unsafe { libc::shmctl(self.id, libc::IPC_RMID, core::ptr::null_mut()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn get(&self) -> &Words {
        // SAFETY: the segment is attached until drop, starts at a page boundary and is `SIZE` bytes
        // long as requested. Every bit pattern is a value of the atomics in it.
        unsafe { self.words.as_ref() }
    }
}

impl Drop for NtpShm {
    fn drop(&mut self) {
        // SAFETY: this is the attachment that `open` created, and no reference into it can exist
        // any more.
        let _ = unsafe { libc::shmdt(self.words.as_ptr().cast()) };
    }
}
