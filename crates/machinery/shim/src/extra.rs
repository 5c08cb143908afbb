//! Additional filters that a process gets at the first call that needs them.
//!
//! Few programs set a timeout on a socket, request packet timestamps, use a timerfd that reports
//! clock changes, or use SIGSYS. In those that do, `recv`, `read`, `rt_sigaction` and others must
//! trap; all other programs should not have this cost. The first call of that kind therefore adds a
//! second seccomp filter to the process, for all its threads and descendants.
//!
//! The kernel has no query for a filter, and the image keeps no state. But a filter can answer: it
//! refuses a `close` of one impossible descriptor by an error that the kernel never returns for
//! `close`. (The call is `close` because a program that has confined itself by its own filter is
//! usually still allowed to make it.)

use timeloom_abi::calls::{Extra, TRAP_MARK, extra_count, extra_numbers, verdict};

use crate::arch::AUDIT_ARCH;
use crate::bpf::{
    ADDRESS_HIGH, ADDRESS_LOW, ARCHITECTURE, FIRST_ARGUMENT, IMAGE_BEGIN, IMAGE_END, IMAGE_HIGH,
    Instruction, NUMBER, Program, RETURN_ALLOW, RETURN_ERRNO, RETURN_NOTIFY, RETURN_TRAP,
    SPEC_ALLOW, TSYNC, done, if_at_least, if_equal, load,
};
use crate::confined;
use crate::sys::{errno, nr, syscall};

/// Adds the filter by which the calls that `extra` needs trap. Returns true if the process has it.
pub(crate) fn install(extra: Extra) -> bool {
    // The filter for timeouts also traps all calls that the other options of files need.
    let is_of_files = extra != Extra::Signals;
    if is_installed(extra) || (is_of_files && is_installed(Extra::Timeouts)) {
        return true;
    }
    // This filter is newer than a filter of the program, so its traps take precedence over the
    // traps and errnos of that filter. Its traps therefore ask for the verdict of the program's
    // filter.
    let has_precedence = confined::has_filter();
    let installed = |filters: &'static [&'static [Instruction]; 2]| {
        let filter = filters[usize::from(has_precedence)];
        Program {
            length: filter.len() as u16,
            instructions: filter.as_ptr(),
        }
    };
    let program = installed(match extra {
        Extra::Stamps => &STAMPS,
        Extra::Reads => &READS,
        Extra::Timeouts => &TIMEOUTS,
        Extra::Signals => &SIGNALS,
    });
    let mut result = program.install(TSYNC | SPEC_ALLOW);
    // `Extra::Signals` affects only what programs are shown. That does not justify taking
    // privileges from the programs that this one starts.
    if result == errno::EACCES && is_of_files {
        // The program has dropped its privileges since it was started.
        confined::give_up_new_privileges();
        result = program.install(TSYNC | SPEC_ALLOW);
    }
    if result > 0 {
        // Another thread has its own filters, so the kernel cannot apply this one to all threads.
        // It is applied to the calling thread and its children.
        result = program.install(SPEC_ALLOW);
    }
    result == 0
}

fn is_installed(extra: Extra) -> bool {
    let descriptor = probe_of(extra) as usize;
    // SAFETY: no such descriptor can exist, since the number is negative.
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

/// Returns a filter that traps the calls of `extra`, with a mark, unless the image makes them.
const fn filter<const CALLS: usize, const LENGTH: usize>(
    extra: Extra,
    mark: u16,
) -> [Instruction; LENGTH] {
    let calls: [u32; CALLS] = extra_numbers(extra);
    let probe = probe_of(extra);
    // Indices of the steps after the comparisons, counted from the first of these steps.
    const ALLOWED: usize = 1;
    const CHECKED: usize = 2;
    const PROBED: usize = 12;
    assert!(LENGTH == CALLS + AROUND);
    let mut steps = [RETURN_ALLOW; LENGTH];
    let behind = 3 + CALLS;
    steps[0] = load(ARCHITECTURE);
    // A call of another architecture has other numbers. The filter that every guest has refuses it.
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
    steps[behind + 3] = if_equal(IMAGE_HIGH, 0, 7);
    steps[behind + 4] = load(ADDRESS_LOW);
    steps[behind + 5] = if_at_least(IMAGE_END, 5, 0);
    steps[behind + 6] = if_at_least(IMAGE_BEGIN, 0, 4);
    steps[behind + 7] = if_equal(IMAGE_BEGIN + verdict::FORESEE, 1, 0);
    steps[behind + 8] = if_equal(IMAGE_BEGIN + verdict::JUDGE, 0, 1);
    steps[behind + 9] = done(RETURN_NOTIFY); // without a listener: not made
    steps[behind + 10] = RETURN_ALLOW;
    steps[behind + 11] = done(RETURN_TRAP | mark as u32);
    steps[behind + 12] = load(FIRST_ARGUMENT);
    steps[behind + 13] = if_equal(probe, 0, 1);
    steps[behind + 14] = done(RETURN_ERRNO | (-errno::ECANCELED) as u32);
    steps[behind + 15] = RETURN_ALLOW;
    steps
}

/// Defines two filters for an [`Extra`]: for a process without its own filters, and for one with
/// some.
macro_rules! filters {
    ($($name:ident: $extra:expr,)*) => {
        $(static $name: [&[Instruction]; 2] = {
            const COUNT: usize = extra_count($extra);
            const LENGTH: usize = COUNT + AROUND;
            static USUAL: [Instruction; LENGTH] = filter::<COUNT, LENGTH>($extra, TRAP_MARK);
            static NEWER: [Instruction; LENGTH] =
                filter::<COUNT, LENGTH>($extra, verdict::JUDGED);
            [&USUAL, &NEWER]
        };)*
    };
}

filters! {
    STAMPS: Extra::Stamps,
    READS: Extra::Reads,
    TIMEOUTS: Extra::Timeouts,
    SIGNALS: Extra::Signals,
}

/// Number of instructions of the filter, not counting the comparisons with call numbers.
const AROUND: usize = 19;
