//! Handlers of `select` and `pselect6`.
//!
//! The kernel overwrites the descriptor sets, and clears them on a timeout. A wait of several slices
//! therefore uses copies and stores the last result.

use crate::abi::Timespec;
use crate::poll::{Invalid, SignalMask, deadline_of, store_left};
use crate::sys::{errno, nr, readable, syscall};
use crate::wait::{Deadline, WaitSlice, until};

/// Handles `pselect6(count, read, write, except, timespec, [mask, mask_size])`.
pub(crate) fn pselect6(args: [usize; 6]) -> isize {
    let (Ok(deadline), Ok(mask)) = (deadline_of(args[4]), packed_mask(args[5])) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(nr::PSELECT6, args) };
    };
    let result = wait(args, deadline, &mask);
    store_left(args[4], deadline, 1);
    result
}

/// Waits for both `select` and `pselect6`, whose first four arguments are the same.
pub(crate) fn wait(args: [usize; 6], deadline: Deadline, mask: &SignalMask) -> isize {
    let [count, sets @ .., _, _] = args;
    let bytes = (count as i32).max(0).unsigned_abs().div_ceil(64) as usize * 8;
    if bytes > MOST_BYTES
        || sets
            .iter()
            .any(|&set| set != 0 && bytes > 0 && !readable(set, bytes))
    {
        // There are no copies for bad pointers, and for more than 65,536 descriptors there is no
        // space for copies. The wait then is one slice on the original sets.
        return until(deadline, errno::ENOSYS, |slice| {
            slice_on(slice, count, sets, mask)
        });
    }
    with_space(bytes, |space| {
        let copies = [0, 1, 2].map(|i| if sets[i] == 0 { 0 } else { space + i * bytes });
        let copy_all = |from: [usize; 3], to: [usize; 3]| {
            for (from, to) in from.into_iter().zip(to) {
                if from != 0 {
                    // SAFETY: both buffers are `bytes` long; the program's memory was tested.
                    unsafe { core::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                }
            }
        };
        let result = until(deadline, 0, |slice| {
            copy_all(sets, copies);
            slice_on(slice, count, copies, mask)
        });
        if result >= 0 {
            copy_all(copies, sets);
        }
        result
    })
}

/// Runs `body` with the address of a buffer for three sets of `bytes` each.
fn with_space(bytes: usize, body: impl FnOnce(usize) -> isize) -> isize {
    if bytes <= SMALL_BYTES {
        let mut space = [0u64; 3 * SMALL_BYTES / 8];
        return body(space.as_mut_ptr() as usize);
    }
    // Arguments: PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS. SAFETY: an anonymous mapping of
    // the image.
    let space = unsafe { syscall(nr::MMAP, [0, 3 * bytes, 3, 0x22, usize::MAX, 0]) };
    if space < 0 {
        return space;
    }
    let result = body(space as usize);
    // SAFETY: the mapping was made above.
    unsafe { syscall(nr::MUNMAP, [space as usize, 3 * bytes, 0, 0, 0, 0]) };
    result
}

fn slice_on(slice: &WaitSlice, count: usize, sets: [usize; 3], mask: &SignalMask) -> isize {
    let mut wall = slice.wall;
    let timeout = wall
        .as_mut()
        .map_or(0, |wall| wall as *mut Timespec as usize);
    let packed = [mask.address(), 8];
    // SAFETY: the kernel checks the sets; the other arguments are in the image's memory.
    unsafe {
        slice.block(
            nr::PSELECT6,
            [
                count,
                sets[0],
                sets[1],
                sets[2],
                timeout,
                packed.as_ptr() as usize,
            ],
        )
    }
}

/// Loads the sixth argument of `pselect6`: a pointer to the pair (mask, size).
fn packed_mask(address: usize) -> Result<SignalMask, Invalid> {
    if address == 0 {
        return Ok(SignalMask::Unchanged);
    }
    if !readable(address, 16) {
        return Err(Invalid);
    }
    // SAFETY: the kernel has just read the pair.
    let [mask, size] = unsafe { (address as *const [usize; 2]).read_unaligned() };
    SignalMask::load(mask, size)
}

/// Size in bytes of a set of 1,024 descriptors (FD_SETSIZE). Sets up to this size are copied to the
/// stack.
const SMALL_BYTES: usize = 128;
/// Size in bytes of a set of 65,536 descriptors. Sets up to this size are copied to a mapping.
const MOST_BYTES: usize = 8192;
