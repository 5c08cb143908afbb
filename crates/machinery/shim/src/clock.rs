//! Clock reads: the functions of the vDSO, and the corresponding system calls if they trap.

use core::sync::atomic::Ordering::Relaxed;

use timeloom_abi::{
    ClockPage, CounterKind, MapCopy, PAGE_ADDRESS, PageTime, RELEASED, ticks_ordered,
};
use timeloom_time::{Core, Instant};

use crate::abi::{NS_PER_S, Timespec};
use crate::cpu::{is_cpu_clock, shown_ns};
use crate::phc;
use crate::sys::{errno, nr, syscall, syscall_as_program};

/// Returns the clock page mapped in this process: that of its host.
#[inline(always)]
pub(crate) fn page() -> &'static ClockPage<PageTime> {
    // SAFETY: the launcher maps the page there, before the program's first
    // instruction, together with this image; every field is an atomic.
    unsafe { &*(PAGE_ADDRESS as *const ClockPage<PageTime>) }
}

/// Reads the time on the page, and `field` of the map from which that time was computed.
#[inline(always)]
pub(crate) fn read<T>(field: impl Fn(&MapCopy) -> T) -> (Instant<PageTime>, T) {
    let page = page();
    let counter = page.counter.load(Relaxed);
    if counter == CounterKind::Tsc as u32 {
        page.read(ticks_ordered, field)
    } else if counter == RELEASED {
        let ahead_ns = page.released_offset_ns.load(Relaxed);
        let now_ns = (monotonic_ns() as i64).wrapping_sub(ahead_ns);
        (Instant::from_ns(now_ns), field(&page.copies[0]))
    } else {
        page.read(monotonic_ns, field)
    }
}

/// Reads the machine's CLOCK_MONOTONIC in nanoseconds, by system call.
#[cold]
#[inline(never)]
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = Timespec { s: 0, ns: 0 };
    // SAFETY: writes 16 bytes into `now`.
    unsafe { syscall(nr::CLOCK_GETTIME, [1, &raw mut now as usize, 0, 0, 0, 0]) };
    (now.s as u64)
        .wrapping_mul(NS_PER_S as u64)
        .wrapping_add(now.ns as u64)
}

/// Reads the machine's CLOCK_REALTIME in nanoseconds, for kernel calls that accept no other clock.
pub(crate) fn machine_realtime_ns() -> i64 {
    let mut now = Timespec { s: 0, ns: 0 };
    // SAFETY: writes 16 bytes into `now`.
    unsafe { syscall(nr::CLOCK_GETTIME, [0, &raw mut now as usize, 0, 0, 0, 0]) };
    now.to_ns().unwrap_or(0)
}

/// Returns CLOCK_REALTIME, in nanoseconds, when the page shows `shown`. Uses the present offset.
pub(crate) fn realtime_ns_at(shown: Instant<PageTime>) -> i64 {
    let (_, offset) = read(|copy| offset_ns(0, copy));
    shown.as_ns().wrapping_add(offset.unwrap_or(0))
}

/// Returns the offset of the clock `id` from the page time, in nanoseconds. Returns `None` for
/// clocks without a fixed offset (processor time, hardware clocks).
#[inline(always)]
pub(crate) fn offset_ns(id: u32, copy: &MapCopy) -> Option<i64> {
    let offset = match id {
        0 | 5 | 8 => &copy.realtime_offset_ns, // REALTIME, _COARSE, _ALARM
        1 | 6 => &copy.monotonic_offset_ns,    // MONOTONIC, _COARSE
        7 | 9 => &copy.boottime_offset_ns,     // BOOTTIME, _ALARM
        11 => &copy.tai_offset_ns,             // TAI
        _ => return None,
    };
    Some(offset.load(Relaxed))
}

/// Reads the clock `id`, in nanoseconds since its zero. Returns `None` if the kernel must read it.
#[inline(always)]
pub(crate) fn now_ns(id: u32) -> Option<i64> {
    if page().is_released() {
        return machine_ns(id);
    }
    if id == MONOTONIC_RAW {
        return Some(raw().as_ns());
    }
    let (shown, offset) = read(|copy| offset_ns(id, copy));
    offset.map(|offset| shown.as_ns().wrapping_add(offset))
}

/// Reads the machine's clock `id` in nanoseconds, for a program that was released from its session.
#[cold]
#[inline(never)]
fn machine_ns(id: u32) -> Option<i64> {
    let mut now = Timespec { s: 0, ns: 0 };
    // SAFETY: writes 16 bytes into `now`.
    let result = unsafe {
        syscall(
            nr::CLOCK_GETTIME,
            [id as usize, &raw mut now as usize, 0, 0, 0, 0],
        )
    };
    if result == 0 { now.to_ns() } else { None }
}

/// Reads CLOCK_MONOTONIC_RAW, the only other clock without a fixed offset: the host's undisciplined
/// oscillator.
#[cold]
#[inline(never)]
pub(crate) fn raw() -> Instant<Core> {
    let page = page();
    if page.counter.load(Relaxed) == CounterKind::Tsc as u32 {
        page.read_raw(ticks_ordered)
    } else {
        page.read_raw(monotonic_ns)
    }
}

/// Reads a clock as [`now_ns`] does, but only the two most frequent clocks, by the TSC, and in one
/// attempt. Returns `None` otherwise. The code makes no call, so that its caller saves no
/// registers.
#[inline(always)]
fn now_ns_at_once(id: u32) -> Option<u64> {
    let page = page();
    if page.counter.load(Relaxed) != CounterKind::Tsc as u32 {
        return None;
    }
    let now_ns = match id {
        0 => page.try_read(ticks_ordered, |copy| copy.realtime_offset_ns.load(Relaxed)),
        1 => page.try_read(ticks_ordered, |copy| copy.monotonic_offset_ns.load(Relaxed)),
        _ => None,
    };
    u64::try_from(now_ns?).ok()
}

#[unsafe(no_mangle)]
extern "C" fn timeloom_vdso_clock_gettime(id: u32, out: *mut Timespec) -> i32 {
    match now_ns_at_once(id) {
        Some(ns) => {
            // SAFETY: the caller of clock_gettime guarantees `out`, as for the kernel's vDSO, which
            // writes there as well.
            unsafe { out.write(Timespec::from_unsigned_ns(ns)) };
            0
        }
        None => clock_gettime_patiently(id, out),
    }
}

/// Handles `clock_gettime` for every clock, and waits if the page is being changed.
#[cold]
#[inline(never)]
extern "C" fn clock_gettime_patiently(id: u32, out: *mut Timespec) -> i32 {
    if matches!(id, REALTIME_ALARM | BOOTTIME_ALARM) {
        // The alarm clocks exist only if the machine has an alarm chip: the kernel decides.
        return clock_gettime([id as usize, out as usize, 0, 0, 0, 0]) as i32;
    }
    store_now(id, out)
}

#[inline(always)]
fn store_now(id: u32, out: *mut Timespec) -> i32 {
    match now_ns(id) {
        Some(ns) => {
            // SAFETY: as above.
            unsafe { out.write(Timespec::from_ns(ns)) };
            0
        }
        None if phc::is_device(id) => phc::clock_gettime(id, out) as i32,
        None => {
            let result = native(nr::CLOCK_GETTIME, id, out as usize);
            if result == 0 && is_cpu_clock(id) {
                // SAFETY: the kernel has just written there.
                unsafe { scale_cpu_time(id, out) };
            }
            result as i32
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn timeloom_vdso_gettimeofday(time: *mut Timespec, zone: usize) -> i32 {
    if zone != 0 {
        // The call fills both structures; the time is then overwritten. SAFETY: the kernel checks
        // both pointers.
        let result = unsafe { syscall(nr::GETTIMEOFDAY, [time as usize, zone, 0, 0, 0, 0]) };
        if result != 0 {
            return result as i32;
        }
    }
    if !time.is_null() {
        let now = Timespec::from_ns(now_ns(0).unwrap_or(0));
        // SAFETY: the same as above; `struct timeval` has the same layout, in µs.
        unsafe {
            time.write(Timespec {
                s: now.s,
                ns: now.ns / 1000,
            })
        };
    }
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn timeloom_vdso_time(out: *mut i64) -> i64 {
    let s = now_ns(0).unwrap_or(0) / NS_PER_S;
    if !out.is_null() {
        // SAFETY: as above.
        unsafe { out.write(s) };
    }
    s
}

#[unsafe(no_mangle)]
extern "C" fn timeloom_vdso_clock_getres(id: u32, out: *mut Timespec) -> i32 {
    if matches!(id, 0 | 1 | 4..=7 | 11) {
        // The kernel's vDSO reads these clocks without a call. SAFETY: the kernel checks the
        // pointer.
        return unsafe {
            syscall(nr::CLOCK_GETRES, [id as usize, out as usize, 0, 0, 0, 0]) as i32
        };
    }
    native(nr::CLOCK_GETRES, id, out as usize) as i32
}

#[unsafe(no_mangle)]
extern "C" fn timeloom_vdso_getcpu(cpu: *mut u32, node: *mut u32, _cache: usize) -> i32 {
    // SAFETY: the kernel checks the pointers.
    unsafe { syscall(nr::GETCPU, [cpu as usize, node as usize, 0, 0, 0, 0]) as i32 }
}

/// Writes random bytes from the kernel to `buffer`. A query for the state's size (`state_length`
/// all ones) returns ENOSYS, upon which libraries use the system call.
#[unsafe(no_mangle)]
extern "C" fn timeloom_vdso_getrandom(
    buffer: usize,
    length: usize,
    flags: u32,
    _state: usize,
    state_length: usize,
) -> isize {
    if state_length == usize::MAX {
        return errno::ENOSYS;
    }
    // SAFETY: the kernel checks the buffer.
    unsafe { syscall_as_program(nr::GETRANDOM, [buffer, length, flags as usize, 0, 0, 0]) }
}

/// Makes a system call that natively the kernel's vDSO would make as well.
fn native(number: usize, id: u32, out: usize) -> isize {
    // SAFETY: the kernel checks the pointer.
    unsafe { syscall_as_program(number, [id as usize, out, 0, 0, 0, 0]) }
}

/// Replaces the processor time at `out` by the value shown to programs.
///
/// # Safety
/// `out` must be readable and writable.
unsafe fn scale_cpu_time(id: u32, out: *mut Timespec) {
    // SAFETY: guaranteed by the caller.
    let real_ns = unsafe { out.read_unaligned() }.to_ns().unwrap_or(0);
    let shown = Timespec::from_ns(shown_ns(id, real_ns));
    // SAFETY: as above.
    unsafe { out.write_unaligned(shown) };
}

/// Handles `clock_gettime` made by a `syscall` instruction. The kernel is called first: it checks
/// the identifier and the pointer, and returns its usual errors.
pub(crate) fn clock_gettime(args: [usize; 6]) -> isize {
    if phc::is_device(args[0] as u32) {
        return phc::clock_gettime(args[0] as u32, args[1] as *mut Timespec);
    }
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall_as_program(nr::CLOCK_GETTIME, args) };
    let (id, out) = (args[0] as u32, args[1] as *mut Timespec);
    if result == 0 && (id == MONOTONIC_RAW || offset_ns(id, &page().copies[0]).is_some()) {
        store_now(id, out);
    } else if result == 0 && is_cpu_clock(id) {
        // SAFETY: the kernel has just written there.
        unsafe { scale_cpu_time(id, out) };
    }
    result
}

/// Handles `gettimeofday` made by a `syscall` instruction.
pub(crate) fn gettimeofday(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks both pointers.
    let result = unsafe { syscall(nr::GETTIMEOFDAY, args) };
    if result == 0 {
        timeloom_vdso_gettimeofday(args[0] as *mut Timespec, 0);
    }
    result
}

const MONOTONIC_RAW: u32 = 4;
const REALTIME_ALARM: u32 = 8;
const BOOTTIME_ALARM: u32 = 9;
