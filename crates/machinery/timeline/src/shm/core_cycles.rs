//! Core cycles of the calling thread, counted through perf's user page.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, fence,
};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::read;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use timeloom_clock::counter::CycleCounter;

/// Counter of the core cycles of one thread, in user mode and, if permitted, kernel mode. This is
/// the counter of the RVEC paper: its rate changes with the core's frequency, and it stops while
/// the core is idle or runs another thread.
///
/// The counter belongs to the thread that opened it, on any core, so it is neither `Send` nor
/// `Sync`. It needs a performance-monitoring unit, which many virtual machines lack, and a value of
/// at most 2 in `perf_event_paranoid`.
///
/// The fast path executes `rdpmc`, or reads the register PMCCNTR_EL0 on 64-bit ARM, without a
/// system call. A reading uses the descriptor instead if the user page does not permit this (on ARM
/// if `/proc/sys/kernel/perf_user_access` is not 1), or if the event is not on the unit at this
/// moment.
#[derive(Debug)]
pub struct CoreCycles {
    fd: OwnedFd,
    page: NonNull<UserPage>,
    _not_send: PhantomData<UnsafeCell<()>>,
}

/// Reason why core cycles cannot be counted here.
#[derive(Debug, thiserror::Error)]
pub enum NoCoreCycles {
    /// There is no unit that counts core cycles; usually the machine is a virtual one.
    #[error("core cycles are not available: this machine shows no performance-monitoring unit")]
    NoUnit,
    /// The kernel does not permit the counting because of `/proc/sys/kernel/perf_event_paranoid`.
    #[error(
        "core cycles are not available: not permitted (see /proc/sys/kernel/perf_event_paranoid)"
    )]
    NotPermitted,
    /// Another system error.
    #[error("core cycles are not available: {0}")]
    System(io::Error),
}

/// `struct perf_event_attr` up to its first published size.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Beginning of `struct perf_event_mmap_page`, as the kernel writes it.
#[repr(C)]
#[derive(Debug)]
struct UserPage {
    version: AtomicU32,
    compat_version: AtomicU32,
    lock: AtomicU32,
    index: AtomicU32,
    offset: AtomicI64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    capabilities: AtomicU64,
    width: AtomicU16,
}

const _: () = assert!(size_of::<Attributes>() == 64);
const _: () = assert!(core::mem::offset_of!(UserPage, lock) == 8);
const _: () = assert!(core::mem::offset_of!(UserPage, capabilities) == 40);
const _: () = assert!(core::mem::offset_of!(UserPage, width) == 48);

impl CoreCycles {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    /// Fails with [`NoCoreCycles`], whose text states the reason.
    pub fn open() -> Result<Self, NoCoreCycles> {
        // Kernel cycles are counted too if that is permitted.
        let fd = open(0).or_else(|_| open(EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR));
        let fd = fd.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOSYS) => {
                NoCoreCycles::NoUnit
            }
            Some(libc::EACCES | libc::EPERM) => NoCoreCycles::NotPermitted,
            _ => NoCoreCycles::System(error),
        })?;
        // SAFETY: creates a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                core::ptr::null_mut(),
                rustix::param::page_size(),
                ProtFlags::READ,
                MapFlags::SHARED,
                &fd,
                0,
            )
        };
        let address = address.map_err(|error| NoCoreCycles::System(error.into()))?;
        let page = NonNull::new(address.cast())
            .ok_or_else(|| NoCoreCycles::System(io::ErrorKind::OutOfMemory.into()))?;
        let made = Self {
            fd,
            page,
            _not_send: PhantomData,
        };
        // Some hypervisors offer a unit that never counts.
        if made.read_descriptor() == 0 && made.read_descriptor() == 0 {
            return Err(NoCoreCycles::NoUnit);
        }
        Ok(made)
    }

    /// Returns true if a reading at this moment would need no system call.
    pub fn is_fast(&self) -> bool {
        self.read_page().is_some()
    }

    /// Reads through the user page; `None` if the page does not permit that, or if the event is not
    /// on the unit at this moment.
    fn read_page(&self) -> Option<u64> {
        // SAFETY: the page is mapped until drop, and the kernel writes only what these atomics
        // read.
        let page = unsafe { self.page.as_ref() };
        loop {
            let lock = page.lock.load(Acquire);
            let index = page.index.load(Relaxed);
            if page.capabilities.load(Relaxed) & USER_RDPMC == 0 || index == 0 {
                return None;
            }
            let width = u32::from(page.width.load(Relaxed)).clamp(1, 64);
            // The unit's counter is a signed number of `width` bits.
            let unused = 64 - width;
            let shown = ((counter(index - 1)? << unused) as i64) >> unused;
            let count = page.offset.load(Relaxed).wrapping_add(shown);
            fence(Acquire);
            if page.lock.load(Relaxed) == lock {
                return Some(count as u64);
            }
        }
    }

    /// Reads through the descriptor; returns 0 on failure.
    fn read_descriptor(&self) -> u64 {
        let mut count = [0; 8];
        match read(&self.fd, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl CycleCounter for CoreCycles {
    fn width_bits(&self) -> u32 {
        64
    }

    fn cycles(&self) -> u64 {
        self.read_page().unwrap_or_else(|| self.read_descriptor())
    }
}

impl Drop for CoreCycles {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `open` created, and there are no references into it.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), rustix::param::page_size()) };
    }
}

fn open(flags: u64) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: 0, // PERF_TYPE_HARDWARE
        size: size_of::<Attributes>() as u32,
        config: 0, // PERF_COUNT_HW_CPU_CYCLES
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags,
        wakeup_events: 0,
        breakpoint_type: 0,
        config1: USER_ACCESS,
    };
    // SAFETY: the structure states its size and lives until the call returns. The arguments request
    // a count for this thread, on any processor, in no group.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            -1,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Reads the unit's counter with this number; `None` if the architecture does not permit that.
#[cfg(target_arch = "x86_64")]
fn counter(index: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the instruction touches no memory, and the page has just stated that it is permitted.
    // The kernel would kill the program if the permission were revoked in between, but it is not
    // revoked while the event is open.
    unsafe {
        core::arch::asm!(
            "lfence",
            "rdpmc",
            in("ecx") index,
            out("eax") low,
            out("edx") high,
            options(nostack, preserves_flags),
        );
    }
    Some((u64::from(high) << 32) | u64::from(low))
}

/// Reads the cycle counter. Returns `None` if the kernel chose an event counter instead, each of
/// which has a register of its own.
#[cfg(target_arch = "aarch64")]
fn counter(index: u32) -> Option<u64> {
    if index != CYCLE_COUNTER {
        return None;
    }
    let count: u64;
    // SAFETY: the instructions read a register and touch no memory. The page has just stated that
    // this is permitted, and it remains permitted while the event is open.
    unsafe { core::arch::asm!("isb", "mrs {}, pmccntr_el0", out(reg) count, options(nostack)) };
    Some(count)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter(_: u32) -> Option<u64> {
    None
}

/// Number that the kernel gives PMCCNTR_EL0 among the counters.
#[cfg(target_arch = "aarch64")]
const CYCLE_COUNTER: u32 = 31;

/// On ARM: requests access for user programs and all 64 bits of the counter
/// (Documentation/arch/arm64/perf.rst).
const USER_ACCESS: u64 = if cfg!(target_arch = "aarch64") { 3 } else { 0 };

const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;
/// Bit `cap_user_rdpmc` of the page's capabilities.
const USER_RDPMC: u64 = 1 << 2;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_clock::counter::{CoreClock, Frequency};

    #[test]
    fn core_cycles_that_are_not_there_are_said_to_be_so() {
        let reason = CoreCycles::open().err();
        let reason = reason.expect("`scripts/exclusions` excludes this test where they are");
        let text = reason.to_string();
        assert!(text.starts_with("core cycles are not available"), "{text}");
    }

    #[test]
    fn core_cycles_count_this_thread() {
        let counter = CoreCycles::open();
        let counter =
            counter.expect("`scripts/exclusions` excludes this test where there are none");
        // The frequency is only nominal, so the test checks no more than that time advances.
        let mut clock = CoreClock::new(&counter, Frequency::from_mhz(2_000));
        let mut last = clock.read(&counter).age;
        for turn in 0..10_000 {
            let now = clock.read(&counter).age;
            assert!(now > last, "turn {turn}: {now:?} after {last:?}");
            last = now;
        }
        // A sleeping thread uses no cycles, so a sleep counts far fewer cycles than its length has.
        let before = counter.cycles();
        std::thread::sleep(core::time::Duration::from_millis(50));
        let slept = counter.cycles() - before;
        assert!(slept < 50_000_000, "{slept} cycles in a sleep of 50 ms");
    }
}
