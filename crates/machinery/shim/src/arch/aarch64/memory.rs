//! C's memory functions. They process eight bytes at a time, then single bytes. The image copies
//! little; the largest objects are `select`'s sets of descriptors.

use core::arch::asm;

/// Copies `length` bytes between ranges that do not overlap.
///
/// # Safety
/// Same requirements as C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller for both ranges.
    unsafe {
        asm!(
            "2:",
            "subs {left}, {left}, #8",
            "b.lo 3f",
            "ldr {word}, [{from}], #8",
            "str {word}, [{to}], #8",
            "b 2b",
            "3:",
            "adds {left}, {left}, #8",
            "b.eq 5f",
            "4:",
            "ldrb {word:w}, [{from}], #1",
            "strb {word:w}, [{to}], #1",
            "subs {left}, {left}, #1",
            "b.ne 4b",
            "5:",
            left = inout(reg) length => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            word = out(reg) _,
            options(nostack),
        );
    }
    to
}

/// Copies `length` bytes forwards.
///
/// # Safety
/// Same requirements as C's `memmove`. (The image moves bytes only between distinct buffers, or
/// from a buffer onto itself; copying forwards is correct for both.)
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller for both ranges.
    unsafe { memcpy(to, from, length) }
}

/// Sets `length` bytes to `byte`.
///
/// # Safety
/// Same requirements as C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    let word = u64::from(byte as u8) * 0x0101_0101_0101_0101;
    // SAFETY: guaranteed by the caller for the range.
    unsafe {
        asm!(
            "2:",
            "subs {left}, {left}, #8",
            "b.lo 3f",
            "str {word}, [{to}], #8",
            "b 2b",
            "3:",
            "adds {left}, {left}, #8",
            "b.eq 5f",
            "4:",
            "strb {word:w}, [{to}], #1",
            "subs {left}, {left}, #1",
            "b.ne 4b",
            "5:",
            left = inout(reg) length => _,
            to = inout(reg) to => _,
            word = in(reg) word,
            options(nostack),
        );
    }
    to
}
