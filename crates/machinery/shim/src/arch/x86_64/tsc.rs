//! Emulation of the time-stamp counter for programs that read it by `rdtsc` or `rdtscp`.
//!
//! The kernel can make `rdtsc` fault (`PR_SET_TSC`). The fault is a general protection fault and
//! arrives as SIGSEGV (`intercepted.rs`). This module detects such an instruction and computes its
//! result: the machine's counter at the start of the session, advanced at the machine's frequency
//! by the host's CLOCK_MONOTONIC_RAW. The emulated counter therefore stops during a pause, and
//! follows the dilation and the host's oscillator. Like a real counter, it is not changed by a
//! daemon that adjusts the clock.

use super::Context;
use crate::abi::Timespec;
use crate::clock::{page, raw};
use crate::sys::{errno, nr, readable, syscall};

/// If the context is at an instruction that reads the counter, emulates the instruction and
/// advances past it. Returns true in that case.
pub(crate) fn emulate(context: &mut Context) -> bool {
    let Some((reads_processor, length)) = decode(context.instruction()) else {
        return false;
    };
    let ticks = next();
    context.set_counter(ticks);
    if reads_processor {
        context.set_processor(processor());
    }
    context.set_instruction(context.instruction().wrapping_add(length));
    true
}

/// Decodes the instruction at this address. Returns true for `rdtscp` and false for `rdtsc`, with
/// the length in bytes; `None` for other instructions.
fn decode(address: usize) -> Option<(bool, usize)> {
    let mut code = Code { address, seen: 0 };
    let mut length = 0;
    loop {
        let byte = code.byte(length)?;
        length += 1;
        match byte {
            0x0f => break,
            // Prefixes: segments, sizes, repetitions, REX. They have no effect on these
            // instructions. (LOCK does: it causes another fault.)
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3
                if length <= MOST_PREFIXES => {}
            _ => return None,
        }
    }
    match code.byte(length)? {
        0x31 => Some((false, length + 1)),
        0x01 if code.byte(length + 1)? == 0xf9 => Some((true, length + 2)),
        _ => None,
    }
}

/// Bytes of an instruction of the program.
struct Code {
    address: usize,
    /// Address of the last word that was found to be readable.
    seen: usize,
}

impl Code {
    fn byte(&mut self, index: usize) -> Option<u8> {
        let at = self.address.wrapping_add(index);
        // An aligned word never extends into the next page, which may not exist.
        let word = at & !7;
        if word != self.seen {
            if !readable(word, 8) {
                return None;
            }
            self.seen = word;
        }
        // SAFETY: the kernel has just read the word.
        Some(unsafe { (at as *const u8).read() })
    }
}

/// Returns the emulated counter. The value is greater than the result of any read that ended before
/// this one began.
///
/// Programs rely on two reads being different: they divide by the difference. The image has no
/// place to store the last value, so a read lasts until the counter has moved on. That takes no
/// extra time unless the clock runs a thousand times slower than the machine's, or is stopped. If
/// it is stopped, this thread is about to be stopped too.
fn next() -> u64 {
    let first = page().tsc_at(raw());
    let mut turns = 0;
    loop {
        let now = page().tsc_at(raw());
        // If the supervisor has died, the clock may be stopped for ever. After a minute or more the
        // program therefore gets the same value again. The limit is that long because a busy
        // machine may delay a supervisor for seconds between stopping the clock and stopping its
        // programs.
        if now != first || turns == MOST_TURNS {
            return now;
        }
        turns += 1;
        if turns > SPINS {
            let turn = Timespec { s: 0, ns: 50_000 };
            let turn = &raw const turn as usize;
            // SAFETY: the call reads 16 bytes of `turn`.
            unsafe { syscall(nr::CLOCK_NANOSLEEP, [1, 0, turn, 0, 0, 0]) };
        }
    }
}

/// Returns the value that Linux puts into the register that `rdtscp` reads: node and processor.
fn processor() -> u64 {
    let (mut cpu, mut node) = (0u32, 0u32);
    let (at_cpu, at_node) = (&raw mut cpu as usize, &raw mut node as usize);
    // SAFETY: the call writes four bytes to each address.
    unsafe { syscall(nr::GETCPU, [at_cpu, at_node, 0, 0, 0, 0]) };
    u64::from(node) << 12 | u64::from(cpu)
}

/// Handles `prctl(PR_GET_TSC | PR_SET_TSC, …)` of a program. The program must neither disable nor
/// detect the trap of the image.
pub(crate) fn prctl(args: [usize; 6]) -> isize {
    let [option, value, ..] = args;
    if !page().emulates_tsc() {
        // SAFETY: the program's own call, on its own behalf.
        return unsafe { syscall(nr::PRCTL, args) };
    }
    if option == PR_SET_TSC {
        // A trap that the program itself requests could not be distinguished from the image's.
        return if value == PR_TSC_ENABLE as usize {
            0
        } else {
            errno::EINVAL
        };
    }
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::PRCTL, args) };
    if result == 0 && option == PR_GET_TSC {
        // SAFETY: the kernel has just written there.
        unsafe { (value as *mut u32).write_unaligned(PR_TSC_ENABLE) };
    }
    result
}

const PR_GET_TSC: usize = 25;
const PR_SET_TSC: usize = 26;
const PR_TSC_ENABLE: u32 = 1;
/// Maximum number of prefixes: an instruction has at most fifteen bytes, and the opcode of these
/// has two.
const MOST_PREFIXES: usize = 13;
const SPINS: u32 = 100;
const MOST_TURNS: u32 = SPINS + 600_000;
