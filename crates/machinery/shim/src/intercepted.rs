//! Signals that the image receives before the program: SIGSYS, by which calls trap, and SIGSEGV if
//! the time-stamp counter is emulated. The program can still use both.
//!
//! The image has no state of its own. The kernel keeps the state of an intercepted signal under a
//! *stand-in*: a signal that programs do not send.
//!
//! - **The program's mask bit of the signal** is the mask bit of the stand-in. A trap or fault
//!   while the signal itself is blocked kills the process, so the image never blocks it. The
//!   stand-in's bit is inherited, restored at the return from handlers, and effective during waits,
//!   like every bit.
//! - **A signal that arrives while the program blocks it** is re-sent as the stand-in, which is
//!   blocked in the kernel and stays pending until the program unblocks it.
//! - **The program's action** is an action in the kernel. For SIGSEGV it is the action of SIGSEGV
//!   itself, so that a fault of the program reaches its handler in the kernel's own frame (same
//!   stack, same registers). For SIGSYS it is the action of the stand-in, as which every SIGSYS of
//!   the program is re-sent. The kernel therefore copies an action at `fork`, shares it between
//!   threads, separates it in a `vfork` child, and at an exec resets it or, if ignored, keeps it.
//!
//! The kernel calls the program's handler through `timeloom_intercepted` (`arch`). That entry's
//! action in the kernel stores the program's handler in the field of the restorer, whose value is
//! fixed for the image's handlers. Flags that must not apply to the image's entry are stored in
//! flags that have no meaning for these signals.

use crate::abi::{NS_PER_S, SYS_SECCOMP, SignalInfo, Timespec};
use crate::arch::{self, Context, is_emulated};
use crate::clock::page;
use crate::extra;
use crate::signal::{self, Action, SIG_DFL, SIG_IGN};
use crate::sys::{errno, nr, readable, syscall};
use crate::wait;
use timeloom_abi::calls::Extra;

/// A signal that the image receives before the program.
#[derive(Clone, Copy)]
struct Intercepted {
    signal: usize,
    stand_in: usize,
    /// Signal under which the kernel stores the program's action.
    home: usize,
}

const SYS: Intercepted = Intercepted {
    signal: SIGSYS,
    stand_in: SIGSTKFLT,
    home: SIGSTKFLT,
};
/// The stand-in is far from both ends of the range of real-time signals, which programs use first.
const SEGV: Intercepted = Intercepted {
    signal: SIGSEGV,
    stand_in: 50,
    home: SIGSEGV,
};

impl Intercepted {
    /// Returns the entry of `signal` if the image currently receives it before the program.
    fn by_signal(signal: usize) -> Option<Self> {
        match signal {
            SIGSYS => Some(SYS),
            SIGSEGV if page().emulates_tsc() => Some(SEGV),
            _ => None,
        }
    }

    const fn bit(self) -> u64 {
        bit(self.signal)
    }

    const fn stand_in_bit(self) -> u64 {
        bit(self.stand_in)
    }
}

const fn bit(signal: usize) -> u64 {
    1 << (signal - 1)
}

/// Returns true if a signal is a stand-in: reserved by the image and hidden from the program.
pub(crate) fn is_stand_in(signal: usize) -> bool {
    signal == SYS.stand_in || (signal == SEGV.stand_in && page().emulates_tsc())
}

/// Returns the signal under which the kernel stores the program's action of `signal`.
pub(crate) fn home_of(signal: usize) -> usize {
    Intercepted::by_signal(signal).map_or(signal, |kept| kept.home)
}

/// Converts a signal mask of the program to the kernel's form, with bits of stand-ins.
pub(crate) fn kernel_mask(program: u64) -> u64 {
    // A mask that `program_mask` has not converted has only the stand-in's bit.
    let mut mask = if program & (SYS.bit() | SYS.stand_in_bit()) != 0 {
        program & !SYS.bit() | SYS.stand_in_bit()
    } else {
        program
    };
    if page().emulates_tsc() {
        let is_blocked = mask & SEGV.bit() != 0;
        mask &= !(SEGV.bit() | SEGV.stand_in_bit());
        if is_blocked {
            mask |= SEGV.stand_in_bit();
        }
    }
    mask
}

/// Converts a mask that the program has written into a kernel frame to the kernel's form. Besides
/// the bits that the program has set, the frame still has those of the stand-ins.
pub(crate) fn without_kept(mask: u64) -> u64 {
    let instead = |mask: u64, kept: Intercepted| match mask & kept.bit() {
        0 => mask,
        bit => mask & !bit | kept.stand_in_bit(),
    };
    let mask = instead(mask, SYS);
    if page().emulates_tsc() {
        instead(mask, SEGV)
    } else {
        mask
    }
}

/// Converts a mask of the kernel to the program's form. In the result, a signal and its substitute
/// are both set or both clear, so a full mask stays full.
pub(crate) fn program_mask(kernel: u64) -> u64 {
    let mut mask = kernel & !SYS.bit();
    if kernel & SYS.stand_in_bit() != 0 {
        mask |= SYS.bit();
    }
    if page().emulates_tsc() {
        let is_blocked = mask & SEGV.stand_in_bit() != 0;
        mask &= !(SEGV.bit() | SEGV.stand_in_bit());
        if is_blocked {
            mask |= SEGV.bit() | SEGV.stand_in_bit();
        }
    }
    mask
}

/// Adds the stand-ins of its intercepted signals to a set of signals that a program waits for.
pub(crate) fn with_stand_ins(set: u64) -> u64 {
    if set & SYS.bit() != 0 {
        set | SYS.stand_in_bit()
    } else {
        set
    }
}

/// Returns true if a mask contains SIGSYS on purpose. C libraries temporarily block all signals,
/// including the two reserved for the library, which programs do not block; such masks do not
/// count.
pub(crate) fn names_sigsys(mask: u64) -> bool {
    mask & SYS.bit() != 0 && is_of_programs(mask)
}

/// Returns true if a program has made the mask, and not a runtime that blocks all signals.
pub(crate) fn is_of_programs(mask: u64) -> bool {
    mask & OF_LIBRARIES != OF_LIBRARIES
}

/// Returns true if the mask of a handler contains SIGSYS but not all signals. Most handlers' masks
/// with SIGSYS block all signals.
pub(crate) fn singles_out_sigsys(mask: u64) -> bool {
    names_sigsys(mask) && mask | OF_LIBRARIES | NEVER_BLOCKED != u64::MAX
}

/// Makes calls that only query masks, actions or pending signals trap too, so that the image
/// converts their results.
pub(crate) fn show() {
    // If this fails, such queries return the stand-in instead of the signal.
    extra::install(Extra::Signals);
}

/// Converts the program's action of `signal` to the form in which the kernel stores it.
pub(crate) fn kernel_action(signal: usize, program: &Action) -> Action {
    match Intercepted::by_signal(signal) {
        Some(kept) => wrapped(kept, program),
        None => Action {
            mask: kernel_mask(program.mask),
            ..arch::returning_through_the_image(program)
        },
    }
}

/// Converts the action that the kernel stores for `signal` to the program's form.
pub(crate) fn program_action(signal: usize, kernel: &Action) -> Action {
    match Intercepted::by_signal(signal) {
        Some(kept) if is_wrapped(kernel) => unwrapped(kept, kernel),
        _ => Action {
            mask: program_mask(kernel.mask),
            ..*kernel
        },
    }
}

fn wrapped(kept: Intercepted, program: &Action) -> Action {
    let has = |flag: u64, noted: u64| {
        if program.flags & flag != 0 { noted } else { 0 }
    };
    let is_own = kept.home == kept.signal;
    if !is_own && !is_handler(program.handler) {
        // The kernel ignores the stand-in, or [`forward`] performs the default action.
        return Action {
            mask: kernel_mask(program.mask),
            ..*program
        };
    }
    let own = SA_SIGINFO | SA_RESTORER | if is_own { SA_NODEFER } else { 0 };
    let noted = has(SA_SIGINFO, NOTED_SIGINFO) | has(SA_NODEFER, NOTED_NODEFER);
    let (flags, mask) = if is_handler(program.handler) {
        // While the handler runs, the signal is deferred under its stand-in.
        let deferred = kept.stand_in_bit() & !has(SA_NODEFER, kept.stand_in_bit());
        let mask = kernel_mask(program.mask);
        let passed = if is_own { 0 } else { SA_NODEFER };
        let passed = program.flags & (SA_ONSTACK | SA_RESTART | passed);
        (
            own | noted | passed,
            if is_own { mask | deferred } else { mask },
        )
    } else {
        // No code of the program runs, and the program's calls must not be interrupted.
        (own | noted | SA_ONSTACK | SA_RESTART, 0)
    };
    let entry = if program.flags & SA_RESETHAND != 0 {
        &raw const timeloom_intercepted_once
    } else {
        &raw const timeloom_intercepted
    };
    Action {
        handler: entry as usize,
        flags,
        restorer: program.handler,
        mask,
    }
}

fn unwrapped(kept: Intercepted, kernel: &Action) -> Action {
    let has = |noted: u64, flag: u64| {
        if kernel.flags & noted != 0 { flag } else { 0 }
    };
    let once = kernel.handler == &raw const timeloom_intercepted_once as usize;
    let passed = if is_handler(kernel.restorer) {
        kernel.flags & (SA_ONSTACK | SA_RESTART)
    } else {
        0
    };
    let own = if once { SA_RESETHAND } else { 0 } | SA_RESTORER;
    // If the signal is deferred while its handler runs, the mask contains its bit in any case.
    let mask = if kept.home != kept.signal || kernel.flags & NOTED_NODEFER != 0 {
        program_mask(kernel.mask)
    } else {
        program_mask(kernel.mask & !kept.stand_in_bit())
    };
    Action {
        handler: kernel.restorer,
        flags: has(NOTED_SIGINFO, SA_SIGINFO) | has(NOTED_NODEFER, SA_NODEFER) | passed | own,
        restorer: &raw const timeloom_restorer as usize,
        mask,
    }
}

fn is_wrapped(kernel: &Action) -> bool {
    kernel.handler == &raw const timeloom_intercepted as usize
        || kernel.handler == &raw const timeloom_intercepted_once as usize
}

pub(crate) fn is_handler(handler: usize) -> bool {
    !matches!(handler, SIG_DFL | SIG_IGN)
}

/// Sets the restart flag of SIGSYS after the program has set its own action. The image's handler
/// may interrupt a call on behalf of the program's; the kernel then restarts the call according to
/// the program's flag.
pub(crate) fn restart_as(program: &Action) {
    let mut own = signal::action(SIGSYS);
    let restarts = !is_handler(program.handler) || program.flags & SA_RESTART != 0;
    own.flags = own.flags & !SA_RESTART | if restarts { SA_RESTART } else { 0 };
    set_action(SIGSYS, &own);
}

/// Handles `rt_sigpending(set, size)`. Pending signals may be stored as their stand-ins.
pub(crate) fn rt_sigpending(args: [usize; 6]) -> isize {
    wait::for_due_signals();
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGPENDING, args) };
    if result == 0 && args[1] == 8 {
        let set = args[0] as *mut u64;
        // SAFETY: the kernel has just written there.
        unsafe { set.write_unaligned(pending(set.read_unaligned())) };
    }
    result
}

/// Converts the kernel's set of pending signals to the program's form.
fn pending(kernel: u64) -> u64 {
    let stand_ins = if page().emulates_tsc() {
        SYS.stand_in_bit() | SEGV.stand_in_bit()
    } else {
        SYS.stand_in_bit()
    };
    program_mask(kernel) & !stand_ins
}

/// Returns the set for `sigtimedwait` that replaces the one at address `set`. Returns `None` if
/// that set has no intercepted signal.
pub(crate) fn awaited(set: usize) -> Option<u64> {
    if !readable(set, 8) {
        return None;
    }
    // SAFETY: the kernel has just read the set.
    let set = unsafe { (set as *const u64).read_unaligned() };
    let wanted = kernel_mask(set);
    (wanted != set).then_some(wanted)
}

/// Replaces a stand-in by its signal, in the result of such a wait and in its `siginfo` at address
/// `info`, which may be null.
pub(crate) fn renamed(result: isize, info: usize) -> isize {
    let kept = match result as usize {
        stand_in if stand_in == SYS.stand_in => SYS,
        stand_in if stand_in == SEGV.stand_in && page().emulates_tsc() => SEGV,
        _ => return result,
    };
    if info != 0 {
        // SAFETY: the kernel has just written there.
        unsafe { (info as *mut i32).write_unaligned(kept.signal as i32) };
    }
    kept.signal as isize
}

/// Handles a SIGSYS that is meant for the program. The signal is re-sent as the stand-in, and takes
/// the program's action after the image's handler has returned, or when the program unblocks it.
pub(crate) fn forward(info: &SignalInfo, context: &mut Context) {
    let is_blocked = context.mask & SYS.stand_in_bit() != 0;
    let action = signal::action(SYS.home);
    let handler = program_action(SIGSYS, &action).handler;
    // A filter of the program has raised the signal. Such a signal cannot be deferred or ignored.
    let is_forced = info.code == SYS_SECCOMP;
    let ends = handler == SIG_DFL && !is_blocked;
    if ends || (is_forced && (is_blocked || !is_handler(handler))) {
        return die(SYS, info);
    }
    if action.handler == SIG_DFL {
        // Otherwise the stand-in, once unblocked, would end the program under its own number.
        set_action(SYS.home, &entered_by_default());
    }
    send_on(SYS, info, !is_blocked || info.code == SI_TKILL);
    // If the program's handler is about to run, an interrupted wait of the image ends. A wait whose
    // own mask admitted the signal handles it in its next slice.
    wait::handle_interrupt(context);
}

/// Decides how an intercepted signal is handled. Called by `timeloom_intercepted` on the frame that
/// the kernel has made. Returns the address of the program's handler to call, or zero to return
/// from the signal.
///
/// # Safety
/// Only that code may call this function: both pointers must be the kernel's.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_decide(
    number: i32,
    info: *mut SignalInfo,
    context: *mut Context,
    handler: usize,
    once: usize,
) -> usize {
    // SAFETY: the kernel gives valid pointers to both, for this call.
    let (info, context) = unsafe { (&mut *info, &mut *context) };
    if number as usize == SYS.stand_in {
        info.signal = SIGSYS as i32;
        if !is_handler(handler) {
            if handler == SIG_DFL {
                die(SYS, info);
            }
            return 0;
        }
        if once != 0 {
            set_action(SYS.home, &Action::DEFAULT);
        }
        return handler;
    }
    if is_emulated(info, context) {
        return 0;
    }
    let by_processor = info.code > 0;
    let is_blocked = context.mask & SEGV.stand_in_bit() != 0;
    if !by_processor && is_blocked {
        defer(info);
        return 0;
    }
    if !by_processor && handler == SIG_IGN {
        return 0;
    }
    if !is_handler(handler) || is_blocked {
        die(SEGV, info);
        return 0;
    }
    if once != 0 {
        set_action(SIGSEGV, &entered_by_default());
    }
    handler
}

/// Returns the kernel action that replaces the default action if the image must decide first.
fn entered_by_default() -> Action {
    wrapped(SEGV, &Action::DEFAULT)
}

/// Re-sends a SIGSEGV that the program blocks as its stand-in.
fn defer(info: &SignalInfo) {
    let action = Action {
        handler: timeloom_deferred as *const () as usize,
        flags: SA_SIGINFO | SA_RESTART | SA_RESTORER,
        restorer: &raw const timeloom_restorer as usize,
        // The re-sent signal arrives after the handler has returned.
        mask: SEGV.bit(),
    };
    set_action(SEGV.stand_in, &action);
    send_on(SEGV, info, info.code == SI_TKILL);
}

/// Re-sends a signal as its stand-in, either to this thread or to any thread of the process that
/// does not block it.
fn send_on(kept: Intercepted, info: &SignalInfo, to_this_thread: bool) {
    let info = core::ptr::from_ref(info) as usize;
    // SAFETY: the kernel reads the 128 bytes of a `siginfo_t`, which begins at `info`. A process
    // may send itself a signal with any code.
    unsafe {
        if to_this_thread {
            queue_to_this_thread(kept.stand_in, info);
        } else {
            let pid = syscall(nr::GETPID, [0; 6]) as usize;
            syscall(nr::RT_SIGQUEUEINFO, [pid, kept.stand_in, info, 0, 0, 0]);
        }
    }
}

/// Handles SIGSEGV's stand-in: delivers the deferred SIGSEGV.
///
/// # Safety
/// Only the kernel may call this function.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_deferred(_: i32, info: *const u64, _: *mut Context) {
    // SAFETY: `info` is the kernel's own `siginfo_t`.
    unsafe { queue_to_this_thread(SIGSEGV, info as usize) };
}

/// Ends the process as the kernel does without a handler: by this signal, with the interrupted
/// registers, when the image's handler returns.
fn die(kept: Intercepted, info: &SignalInfo) {
    set_action(kept.signal, &Action::DEFAULT);
    signal::block(kept.bit());
    let info = core::ptr::from_ref(info) as usize;
    // SAFETY: `info` is the beginning of a whole `siginfo_t`.
    unsafe { queue_to_this_thread(kept.signal, info) };
}

/// Queues a signal to the calling thread, with the `siginfo_t` at address `info`.
///
/// # Safety
/// `info` must be the address of a `siginfo_t`.
unsafe fn queue_to_this_thread(signal: usize, info: usize) {
    // SAFETY: the kernel reads the structure.
    unsafe {
        let pid = syscall(nr::GETPID, [0; 6]) as usize;
        let thread = syscall(nr::GETTID, [0; 6]) as usize;
        // EAGAIN means that the signal queue of the user is full, which is temporary. No other
        // error is possible.
        for _ in 0..MOST_TURNS {
            let args = [pid, thread, signal, info, 0, 0];
            if syscall(nr::RT_TGSIGQUEUEINFO, args) != errno::EAGAIN {
                return;
            }
            let rest = Timespec {
                s: 0,
                ns: NS_PER_S / 1000,
            };
            let rest = &raw const rest as usize;
            syscall(nr::CLOCK_NANOSLEEP, [1, 0, rest, 0, 0, 0]);
        }
    }
}

fn set_action(signal: usize, action: &Action) {
    let action = core::ptr::from_ref(action) as usize;
    // SAFETY: the kernel reads the action.
    unsafe { syscall(nr::RT_SIGACTION, [signal, action, 0, 8, 0, 0]) };
}

// Entry of an intercepted signal. The field of the return address holds the program's handler. The
// entry first restores the true return address, so that unwinders work. Then the image decides. If
// the program's handler is to run, it is called with stack and arguments as the kernel left them,
// except for the signal's number, which is taken from the `siginfo_t`.
unsafe extern "C" {
    static timeloom_intercepted: u8;
    static timeloom_intercepted_once: u8;
    static timeloom_restorer: u8;
}

pub(crate) const SIGSYS: usize = 31;
pub(crate) const SIGSEGV: usize = 11;
const SIGSTKFLT: usize = 16;
/// Signals that a kernel mask must not block while the image handles them.
pub(crate) const KEPT_BITS: u64 = SYS.bit() | SEGV.bit();
/// Signals 32 and 33, which C libraries reserve for themselves.
const OF_LIBRARIES: u64 = bit(32) | bit(33);
/// SIGKILL and SIGSTOP, which cannot be blocked.
const NEVER_BLOCKED: u64 = bit(9) | bit(19);
const SI_TKILL: i32 = -6;
const SA_SIGINFO: u64 = 4;
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
pub(crate) const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
/// Flags that store other flags: SA_NOCLDSTOP and SA_NOCLDWAIT, which have a meaning only for
/// SIGCHLD.
const NOTED_SIGINFO: u64 = 1;
const NOTED_NODEFER: u64 = 2;
const MOST_TURNS: u32 = 1_000;
