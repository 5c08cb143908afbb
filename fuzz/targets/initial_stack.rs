//! The stack of a program that was just executed, in another process: what its
//! supervisor takes for the vDSO's address there is that entry, or nothing.
//!
//! Input: words of eight bytes; the last ones may be cut off.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let words = input.chunks_exact(8);
    let stack: Vec<u64> = words
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect();
    timeloom_guest::fuzzing::initial_stack(&stack);
});
