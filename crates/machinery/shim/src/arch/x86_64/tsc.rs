//! The time-stamp counter as a program sees it that reads it itself, where that
//! is emulated.
//!
//! The kernel can make `rdtsc` fault (`PR_SET_TSC`). The fault is a general
//! protection fault and arrives as SIGSEGV (`intercepted.rs`); what is told here is
//! whether such an instruction stands there, and what it is to return: the
//! machine's counter, carried on at the machine's frequency as the host's
//! CLOCK_MONOTONIC_RAW goes. So it stands in a pause, follows the dilation and
//! the host's crystal, and is not changed by a daemon that steers the clock, just
//! as the real one.

use super::Context;
use crate::abi::Timespec;
use crate::clock::{page, raw};
use crate::sys::{errno, nr, readable, syscall};

/// If the context stands at an instruction that reads the counter: does what it
/// would have done and moves behind it. Returns whether it did.
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

/// Whether it is `rdtscp` rather than `rdtsc`, and its length in bytes.
fn decode(address: usize) -> Option<(bool, usize)> {
    let mut code = Code { address, seen: 0 };
    let mut length = 0;
    loop {
        let byte = code.byte(length)?;
        length += 1;
        match byte {
            0x0f => break,
            // Prefixes: segments, sizes, repetitions, REX. They change nothing
            // here. (LOCK does: it makes another fault of it.)
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

/// An instruction of the program.
struct Code {
    address: usize,
    /// The last word that was found to be readable.
    seen: usize,
}

impl Code {
    fn byte(&mut self, index: usize) -> Option<u8> {
        let at = self.address.wrapping_add(index);
        // An aligned word does not reach into a page that may not be there.
        let word = at & !7;
        if word != self.seen {
            if !readable(word, 8) {
                return None;
            }
            self.seen = word;
        }
        // SAFETY: the kernel has just read it.
        Some(unsafe { (at as *const u8).read() })
    }
}

/// The counter, above what any read showed that was over when this one began.
///
/// Programs count on two reads to differ: they divide by the difference. The
/// image has no place to note the last value, so a read lasts until the counter
/// has moved under it. That takes no extra time unless the clock runs a thousand
/// times slower than the machine's, or stands; then this thread is about to be
/// stopped.
fn next() -> u64 {
    let first = page().tsc_at(raw());
    let mut turns = 0;
    loop {
        let now = page().tsc_at(raw());
        // Without a supervisor the clock may stand for ever. After a minute or more
        // the program is told so: a busy machine may keep a supervisor waiting for
        // seconds between stopping the clock and stopping its programs.
        if now != first || turns == MOST_TURNS {
            return now;
        }
        turns += 1;
        if turns > SPINS {
            let turn = Timespec { s: 0, ns: 50_000 };
            let turn = &raw const turn as usize;
            // SAFETY: reads 16 bytes of `turn`.
            unsafe { syscall(nr::CLOCK_NANOSLEEP, [1, 0, turn, 0, 0, 0]) };
        }
    }
}

/// What Linux puts into the register that `rdtscp` reads: node and processor.
fn processor() -> u64 {
    let (mut cpu, mut node) = (0u32, 0u32);
    let (at_cpu, at_node) = (&raw mut cpu as usize, &raw mut node as usize);
    // SAFETY: writes four bytes each.
    unsafe { syscall(nr::GETCPU, [at_cpu, at_node, 0, 0, 0, 0]) };
    u64::from(node) << 12 | u64::from(cpu)
}

/// `prctl(PR_GET_TSC | PR_SET_TSC, …)` of a program, which must not switch our
/// trap off, nor learn of it.
pub(crate) fn prctl(args: [usize; 6]) -> isize {
    let [option, value, ..] = args;
    if !page().emulates_tsc() {
        // SAFETY: the program's own call, on its own behalf.
        return unsafe { syscall(nr::PRCTL, args) };
    }
    if option == PR_SET_TSC {
        // That it faults is nothing we could tell from our own trap.
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
/// An instruction has fifteen bytes at most, and these have an opcode of two.
const MOST_PREFIXES: usize = 13;
const SPINS: u32 = 100;
const MOST_TURNS: u32 = SPINS + 600_000;
