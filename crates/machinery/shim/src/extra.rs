//! Filters that a process gets when it asks for something that needs them.
//!
//! Few programs give a socket a timeout, ask for the times of packets, have a
//! timerfd that tells when the clock is set, or care for their SIGSYS. Those that do need
//! `recv`, `read`, `rt_sigaction` and others to trap; all others should not pay for it. So
//! the first call of that kind adds a second seccomp filter to the process, for all its
//! threads and whatever it starts.
//!
//! A filter cannot be asked for in the ordinary way, and the image keeps no
//! state. But a filter can answer: it refuses a `close` of one impossible
//! descriptor with an error that the kernel never gives there. (`close`, since a
//! program that has locked itself in by a filter of its own still may.)

use timeloom_calls::{Extra, TRAP_MARK, extra_count, extra_numbers};
use timeloom_page::{ADDRESS_HIGH_HALF, IMAGE_ADDRESS, IMAGE_LIMIT};

use crate::arch::AUDIT_ARCH;
use crate::sys::{errno, nr, syscall};

/// Makes the calls trap that `extra` needs. Returns whether they do.
pub(crate) fn install(extra: Extra) -> bool {
    // Timeouts make everything trap that the others of files need.
    let is_of_files = extra != Extra::Signals;
    if is_installed(extra) || (is_of_files && is_installed(Extra::Timeouts)) {
        return true;
    }
    let (instructions, length) = match extra {
        Extra::Stamps => (STAMPS.as_ptr(), STAMPS.len()),
        Extra::Reads => (READS.as_ptr(), READS.len()),
        Extra::Timeouts => (TIMEOUTS.as_ptr(), TIMEOUTS.len()),
        Extra::Signals => (SIGNALS.as_ptr(), SIGNALS.len()),
    };
    let program = Program {
        length: length as u16,
        instructions,
    };
    let add = || {
        let program = &raw const program as usize;
        // SAFETY: the kernel reads the program, which is constant.
        unsafe { syscall(nr::SECCOMP, [SET_MODE_FILTER, FLAGS, program, 0, 0, 0]) }
    };
    let mut result = add();
    // What is only shown is not worth what this takes from the programs that it starts.
    if result == errno::EACCES && is_of_files {
        // A program that has given its privileges away since it was started.
        // SAFETY: no pointers.
        unsafe { syscall(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) };
        result = add();
    }
    result == 0
}

fn is_installed(extra: Extra) -> bool {
    let descriptor = probe_of(extra) as usize;
    // SAFETY: no such descriptor can exist: it is negative.
    unsafe { syscall(nr::CLOSE, [descriptor, 0, 0, 0, 0, 0]) == errno::ECANCELED }
}

const fn probe_of(extra: Extra) -> u32 {
    match extra {
        Extra::Stamps => 0xa4c9_1e51,
        Extra::Timeouts => 0xa4c9_1e52,
        Extra::Reads => 0xa4c9_1e53,
        Extra::Signals => 0xa4c9_1e54,
    }
}

/// `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// A filter that traps the calls that `extra` needs when they are made outside of the
/// image.
const fn filter<const CALLS: usize, const LENGTH: usize>(extra: Extra) -> [Instruction; LENGTH] {
    let calls: [u32; CALLS] = extra_numbers(extra);
    let probe = probe_of(extra);
    // Steps behind the comparisons, counted from the first of them.
    const ALLOWED: usize = 1;
    const CHECKED: usize = 2;
    const PROBED: usize = 9;
    assert!(LENGTH == CALLS + AROUND);
    let mut steps = [RETURN_ALLOW; LENGTH];
    let behind = 3 + CALLS;
    steps[0] = load(ARCHITECTURE);
    // A call of another architecture has other numbers; it is refused by the
    // filter that every guest has.
    steps[1] = if_equal(AUDIT_ARCH, 0, (behind + ALLOWED - 2) as u8);
    steps[2] = load(NUMBER);
    let mut index = 0;
    while index < CALLS {
        let here = 3 + index;
        steps[here] = if_equal(calls[index], (behind + CHECKED - here - 1) as u8, 0);
        index += 1;
    }
    steps[behind] = if_equal(nr::CLOSE as u32, (PROBED - 1) as u8, 0);
    steps[behind + 1] = RETURN_ALLOW;
    steps[behind + 2] = load(ADDRESS_HIGH);
    steps[behind + 3] = if_equal(ADDRESS_HIGH_HALF, 0, 4);
    steps[behind + 4] = load(ADDRESS_LOW);
    steps[behind + 5] = if_at_least((IMAGE_ADDRESS + IMAGE_LIMIT) as u32, 2, 0);
    steps[behind + 6] = if_at_least(IMAGE_ADDRESS as u32, 0, 1);
    steps[behind + 7] = RETURN_ALLOW;
    steps[behind + 8] = done(RETURN_TRAP);
    steps[behind + 9] = load(FIRST_ARGUMENT);
    steps[behind + 10] = if_equal(probe, 0, 1);
    steps[behind + 11] = done(RETURN_ERRNO | (-errno::ECANCELED) as u32);
    steps[behind + 12] = RETURN_ALLOW;
    steps
}

const fn if_at_least(k: u32, then: u8, otherwise: u8) -> Instruction {
    Instruction {
        code: JUMP_AT_LEAST,
        then,
        otherwise,
        k,
    }
}

const fn load(offset: u32) -> Instruction {
    Instruction {
        code: 0x20,
        then: 0,
        otherwise: 0,
        k: offset,
    }
}

const fn if_equal(k: u32, then: u8, otherwise: u8) -> Instruction {
    Instruction {
        code: 0x15,
        then,
        otherwise,
        k,
    }
}

const fn done(action: u32) -> Instruction {
    Instruction {
        code: 0x06,
        then: 0,
        otherwise: 0,
        k: action,
    }
}

static STAMPS: [Instruction; length(Extra::Stamps)] =
    filter::<{ extra_count(Extra::Stamps) }, _>(Extra::Stamps);

static READS: [Instruction; length(Extra::Reads)] =
    filter::<{ extra_count(Extra::Reads) }, _>(Extra::Reads);

static TIMEOUTS: [Instruction; length(Extra::Timeouts)] =
    filter::<{ extra_count(Extra::Timeouts) }, _>(Extra::Timeouts);

static SIGNALS: [Instruction; length(Extra::Signals)] =
    filter::<{ extra_count(Extra::Signals) }, _>(Extra::Signals);

/// How many instructions such a filter has.
const fn length(extra: Extra) -> usize {
    extra_count(extra) + AROUND
}

/// Instructions around the comparisons with calls' numbers.
const AROUND: usize = 16;

const RETURN_ALLOW: Instruction = done(0x7fff_0000);
const RETURN_TRAP: u32 = 0x0003_0000 | TRAP_MARK as u32;
const RETURN_ERRNO: u32 = 0x0005_0000;
const JUMP_AT_LEAST: u16 = 0x35;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ADDRESS_LOW: u32 = 8;
const ADDRESS_HIGH: u32 = 12;
const FIRST_ARGUMENT: u32 = 16;
const SET_MODE_FILTER: usize = 1;
/// TSYNC (all threads), SPEC_ALLOW (without it every call would be slower).
const FLAGS: usize = 1 | 1 << 2;
const PR_SET_NO_NEW_PRIVS: usize = 38;
