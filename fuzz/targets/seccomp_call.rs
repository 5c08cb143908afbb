//! A system call of a guest: the seccomp filter, run by an interpreter, does what the
//! written table of calls says.
//!
//! Input: one byte (bit 0: of another architecture; bit 1: near the image), four of the number or
//! the place in the table (see `fuzzing::call`), eight of the instruction's address, and eight of each
//! argument; four of the architecture. What is missing is zero.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut bytes = [0; 65];
    let length = input.len().min(bytes.len());
    bytes[..length].copy_from_slice(&input[..length]);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let mut address = word(5);
    if bytes[0] & 2 != 0 {
        // In the image, or just beside it.
        address = (address % 0x2_0000).wrapping_add(0x6800_0000_0000 - 0x8000);
    }
    let args = core::array::from_fn(|index| word(13 + 8 * index));
    let architecture = (bytes[0] & 1 != 0).then_some(half(61));
    timeloom_guest::fuzzing::call(architecture, half(1) as i32, address, args);
});
