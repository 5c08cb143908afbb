//! Times of the last operations on shared memory, semaphores and message queues of System V, which
//! the kernel records in whole seconds of the machine's CLOCK_REALTIME.

use timeloom_abi::calls::number;

use crate::abi::NS_PER_S;
use crate::stamps::shown_ns;
use crate::sys::syscall;

/// Handles `shmctl(id, command, status)`, `semctl(id, index, command, status)` and `msgctl(id,
/// command, status)`, if the command returns such a time.
pub(crate) fn status(call: usize, args: [usize; 6]) -> isize {
    // SAFETY: the program's own call; the kernel checks the pointer.
    let result = unsafe { syscall(call, args) };
    if result < 0 {
        return result;
    }
    // Both architectures use the structures of `asm-generic`.
    let (status, times) = match call {
        SHMCTL => (args[2], 56..80),
        MSGCTL => (args[2], 48..72),
        SEMCTL if cfg!(target_arch = "x86_64") => (args[3], 48..72),
        _ => (args[3], 48..64),
    };
    // On x86-64 an additional word follows each of the two times of a semaphore set.
    let step = if call == SEMCTL && cfg!(target_arch = "x86_64") {
        16
    } else {
        8
    };
    for place in times.step_by(step) {
        let time = status.wrapping_add(place) as *mut i64;
        // SAFETY: the kernel has just written the whole structure.
        unsafe { time.write_unaligned(shown_s(time.read_unaligned())) };
    }
    result
}

/// Converts a second of the machine's CLOCK_REALTIME to the virtual clock. Assumes that the event
/// happened in the middle of that second.
fn shown_s(machine_s: i64) -> i64 {
    if machine_s == 0 {
        return 0; // "never"
    }
    let middle_ns = machine_s.wrapping_mul(NS_PER_S).wrapping_add(NS_PER_S / 2);
    shown_ns(middle_ns).div_euclid(NS_PER_S)
}

const SHMCTL: usize = number("shmctl");
const SEMCTL: usize = number("semctl");
const MSGCTL: usize = number("msgctl");
