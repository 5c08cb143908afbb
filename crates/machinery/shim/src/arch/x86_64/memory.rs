//! C's memory functions, implemented by the processor's string instructions.

use core::arch::asm;

/// Copies `length` bytes between ranges that do not overlap.
///
/// # Safety
/// Same requirements as C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller for both ranges.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
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
    // SAFETY: guaranteed by the caller for the range.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}
