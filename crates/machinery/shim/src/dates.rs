//! Dates of files in sessions that show virtual dates.
//!
//! An inode holds dates of two kinds: dates set by the kernel, by the machine's clock, and dates
//! set by programs, which are on the virtual clock already or arbitrary. The supervisor knows the
//! time of the host's clock at every instant at which the kernel may have dated a file, and the
//! dates that programs of the session have set. The image therefore asks the supervisor for each
//! date since the session began; older dates are never changed.

use core::sync::atomic::Ordering::Relaxed;

use timeloom_abi::calls::ImageCall;

use crate::abi::{NS_PER_S, Timespec};
use crate::clock::page;
use crate::sys::{ask, nr, syscall};

/// Handles `stat`, `lstat`, `fstat` and `newfstatat`. Argument number `at` is the address of the
/// result.
pub(crate) fn in_stat(call: usize, args: [usize; 6], at: usize) -> isize {
    // SAFETY: the program's own call; the kernel checks the pointers.
    let result = unsafe { syscall(call, args) };
    if let (0, Some(&status)) = (result, args.get(at)) {
        // SAFETY: the kernel has just written a `struct stat` there.
        unsafe {
            let mut dates = Dates::of((status as *const [u64; 2]).read_unaligned());
            for offset in [ACCESS, MODIFICATION, CHANGE] {
                dates.show((status + offset) as *mut Timespec);
            }
        }
    }
    result
}

/// Handles `statx(directory, path, flags, mask, result)`.
pub(crate) fn statx(args: [usize; 6]) -> isize {
    // SAFETY: the program's own call; the kernel checks the pointers.
    let result = unsafe { syscall(nr::STATX, args) };
    if result == 0 {
        let status = args[4];
        // SAFETY: the kernel has just written a `struct statx` there.
        unsafe {
            let number = ((status + 32) as *const u64).read_unaligned();
            let [major, minor] = ((status + 136) as *const [u32; 2]).read_unaligned();
            let mut dates = Dates::of([device(major.into(), minor.into()), number]);
            for offset in [64, 80, 96, 112] {
                dates.show_x((status + offset) as *mut ExtendedTime);
            }
        }
    }
    result
}

/// Reports the dates of a file that a program has just set by `utimensat` with this directory, path
/// and flags. `which` selects the dates: access, modification.
pub(crate) fn keep(directory: usize, path: usize, flags: usize, which: [bool; 2]) {
    let from_ns = from_ns();
    if from_ns == 0 {
        return;
    }
    let mut status = [0_u64; STAT_BYTES / 8];
    let (path, flags) = match path {
        0 => (c"".as_ptr() as usize, flags | AT_EMPTY_PATH),
        path => (path, flags),
    };
    let at = status.as_mut_ptr() as usize;
    // SAFETY: the kernel checks the path, and writes a `struct stat`.
    if unsafe { syscall(nr::NEWFSTATAT, [directory, path, at, flags, 0, 0]) } != 0 {
        return;
    }
    let [device, number, ..] = status;
    for (is_access, offset, is_set) in [(true, ACCESS, which[0]), (false, MODIFICATION, which[1])] {
        // SAFETY: the address is within the structure that the kernel has written.
        let date = unsafe { ((at + offset) as *const Timespec).read() };
        if let (true, Some(date_ns)) = (is_set, date.to_ns())
            && date_ns >= from_ns
        {
            ask(ImageCall::KeepDate {
                file: [device, number],
                date_ns,
                is_access,
            });
        }
    }
}

/// Converter for the dates of one file.
struct Dates {
    file: [u64; 2],
    from_ns: i64,
    /// Last date for which the supervisor was asked, and its answer: dates of a file are often
    /// equal.
    last: [i64; 2],
}

impl Dates {
    fn of(file: [u64; 2]) -> Self {
        Self {
            file,
            from_ns: from_ns(),
            last: [0; 2],
        }
    }

    /// Replaces a date of the kernel by the date to show.
    ///
    /// # Safety
    /// `date` must be readable and writable.
    unsafe fn show(&mut self, date: *mut Timespec) {
        // SAFETY: guaranteed by the caller.
        let given = unsafe { date.read_unaligned() };
        if let Some(shown) = given.to_ns().and_then(|given_ns| self.shown(given_ns)) {
            // SAFETY: as above.
            unsafe { date.write_unaligned(Timespec::from_ns(shown)) };
        }
    }

    /// Replaces a date in a `struct statx` by the date to show.
    ///
    /// # Safety
    /// `date` must be readable and writable.
    unsafe fn show_x(&mut self, date: *mut ExtendedTime) {
        // SAFETY: guaranteed by the caller.
        let given = unsafe { date.read_unaligned() };
        let ns = Timespec {
            s: given.s,
            ns: given.ns.into(),
        };
        if let Some(shown) = ns.to_ns().and_then(|given_ns| self.shown(given_ns)) {
            let shown = ExtendedTime {
                s: shown / NS_PER_S,
                ns: (shown % NS_PER_S) as u32,
                ..given
            };
            // SAFETY: as above.
            unsafe { date.write_unaligned(shown) };
        }
    }

    /// Returns the date to show instead of `given_ns`; `None` if that date is shown unchanged. Both
    /// are in nanoseconds since 1970.
    fn shown(&mut self, given_ns: i64) -> Option<i64> {
        if self.from_ns == 0 || given_ns < self.from_ns {
            return None;
        }
        let [last_ns, shown_ns] = self.last;
        if given_ns == last_ns {
            return Some(shown_ns);
        }
        let answer = ask(ImageCall::FileDate {
            file: self.file,
            date_ns: given_ns,
        });
        // A negative answer is an error, or a date before 1970.
        let shown_ns = if answer < 0 { given_ns } else { answer as i64 };
        self.last = [given_ns, shown_ns];
        Some(shown_ns)
    }
}

/// Returns the first date that the kernel may have set in this session, in nanoseconds since 1970;
/// 0 if dates are not virtual.
fn from_ns() -> i64 {
    page().dates_from_ns.load(Relaxed)
}

/// Returns the device number in the form of `struct stat`, from its parts in `struct statx`
/// (`new_encode_dev`).
fn device(major: u64, minor: u64) -> u64 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Date in a `struct statx`: `struct statx_timestamp`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ExtendedTime {
    s: i64,
    ns: u32,
    gap: i32,
}

// Layout of `struct stat`, equal on both architectures.
const STAT_BYTES: usize = 144;
const ACCESS: usize = 72;
const MODIFICATION: usize = 88;
const CHANGE: usize = 104;
const AT_EMPTY_PATH: usize = 0x1000;
