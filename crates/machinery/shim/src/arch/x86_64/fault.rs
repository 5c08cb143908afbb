//! SIGSEGV where the time-stamp counter is emulated: ours when an instruction
//! that reads the counter raised it, else the program's.
//!
//! The program must not notice that there is another handler before its own, and
//! the image can keep nothing. So the kernel keeps it:
//!
//! - **The program's action** lies in the kernel's action of SIGSEGV. Its handler
//!   is where the kernel expects the address that a handler returns to, which for
//!   ours need not be told. Its mask is the mask. Its flags are the flags, but for
//!   those that would take effect on us, which are noted in flags that mean
//!   nothing for this signal. An action is copied by `fork`, shared by threads
//!   and of its own in a `vfork` child, as the kernel does it.
//! - **Whether the program blocks SIGSEGV** lies in the mask's bit of SIGSTKFLT,
//!   a signal that no kernel sends. A fault while SIGSEGV is really blocked kills,
//!   so it never is. The bit is inherited, restored at the return from handlers,
//!   and in force during waits, as every bit is.
//! - **A SIGSEGV sent while the program blocks it** is sent on as SIGSTKFLT, which
//!   is then really blocked and stays pending until the program unblocks it.
//!
//! A fault of the program's own reaches its handler in the kernel's own frame:
//! same stack, same siginfo, same registers, at the cost of a few instructions.

use super::{Context, tsc};
use crate::abi::{NS_PER_S, SIGSYS_BIT, Timespec};
use crate::clock::page;
use crate::signal::{self, Action, SIG_DFL, SIG_IGN};
use crate::sys::{errno, nr, readable, syscall};

/// What the kernel is to have for a mask of the program's.
pub(crate) fn kernel_mask(program: u64) -> u64 {
    let mask = program & !SIGSYS_BIT;
    if !page().emulates_tsc() {
        return mask;
    }
    let blocked = if mask & SEGV_BIT != 0 { STKFLT_BIT } else { 0 };
    mask & !(SEGV_BIT | STKFLT_BIT) | blocked
}

/// What the program is to see of a mask of the kernel's.
pub(crate) fn program_mask(kernel: u64) -> u64 {
    if !page().emulates_tsc() {
        return kernel;
    }
    let blocked = if kernel & STKFLT_BIT != 0 {
        SEGV_BIT
    } else {
        0
    };
    kernel & !(SEGV_BIT | STKFLT_BIT) | blocked
}

/// What the kernel is to have for the program's action on SIGSEGV.
pub(crate) fn kernel_action(program: &Action) -> Action {
    let has = |flag: u64, noted: u64| {
        if program.flags & flag != 0 { noted } else { 0 }
    };
    let own = SA_SIGINFO | SA_NODEFER | SA_RESTORER;
    let noted = has(SA_SIGINFO, NOTED_SIGINFO) | has(SA_NODEFER, NOTED_NODEFER);
    let (flags, mask) = if is_handler(program.handler) {
        let deferred = STKFLT_BIT & !has(SA_NODEFER, STKFLT_BIT);
        let kept = program.flags & (SA_ONSTACK | SA_RESTART);
        (own | noted | kept, kernel_mask(program.mask) | deferred)
    } else {
        // Nothing of the program's runs, and it must not be interrupted either.
        (own | noted | SA_ONSTACK | SA_RESTART, 0)
    };
    let entry = if program.flags & SA_RESETHAND != 0 {
        &raw const timeloom_fault_once
    } else {
        &raw const timeloom_fault
    };
    Action {
        handler: entry as usize,
        flags,
        restorer: program.handler,
        mask,
    }
}

/// The program's action on SIGSEGV, from what the kernel has.
pub(crate) fn program_action(kernel: &Action) -> Action {
    let has = |noted: u64, flag: u64| {
        if kernel.flags & noted != 0 { flag } else { 0 }
    };
    let once = kernel.handler == &raw const timeloom_fault_once as usize;
    let kept = if is_handler(kernel.restorer) {
        kernel.flags & (SA_ONSTACK | SA_RESTART)
    } else {
        0
    };
    let own = if once { SA_RESETHAND } else { 0 } | SA_RESTORER;
    // Deferred while it is handled, its bit is in the mask in any case.
    let mask = if kernel.flags & NOTED_NODEFER != 0 {
        program_mask(kernel.mask)
    } else {
        kernel.mask & !STKFLT_BIT
    };
    Action {
        handler: kernel.restorer,
        flags: has(NOTED_SIGINFO, SA_SIGINFO) | has(NOTED_NODEFER, SA_NODEFER) | kept | own,
        restorer: &raw const timeloom_restorer as usize,
        mask,
    }
}

fn is_handler(handler: usize) -> bool {
    !matches!(handler, SIG_DFL | SIG_IGN)
}

/// `rt_sigpending(set, size)`: SIGSEGV waits under another's name.
pub(crate) fn rt_sigpending(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGPENDING, args) };
    if result == 0 && args[1] == 8 {
        let set = args[0] as *mut u64;
        // SAFETY: the kernel has just written there.
        unsafe { set.write_unaligned(program_mask(set.read_unaligned())) };
    }
    result
}

/// What `sigtimedwait` is to wait for instead of `set`, if that holds SIGSEGV.
pub(crate) fn awaited(set: usize) -> Option<u64> {
    if !page().emulates_tsc() || !readable(set, 8) {
        return None;
    }
    // SAFETY: the kernel has just read it.
    let set = unsafe { (set as *const u64).read_unaligned() };
    (set & SEGV_BIT != 0).then_some(set & !SEGV_BIT | STKFLT_BIT)
}

/// The result of such a wait, and its `siginfo` (or null), under the right name.
pub(crate) fn renamed(result: isize, info: usize) -> isize {
    if result != SIGSTKFLT as isize {
        return result;
    }
    if info != 0 {
        // SAFETY: the kernel has just written there.
        unsafe { (info as *mut i32).write_unaligned(SIGSEGV as i32) };
    }
    SIGSEGV as isize
}

/// Called from `timeloom_fault` on the frame that the kernel made. Returns the
/// program's handler to go on to, or zero to return from the signal.
///
/// # Safety
/// By that code only: both pointers are the kernel's.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_decide(
    _: i32,
    info: *const [u64; 16],
    context: *mut Context,
    handler: usize,
    once: usize,
) -> usize {
    // SAFETY: the kernel gives valid pointers to both, for this call.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let code = (info[1] & 0xffff_ffff) as i32;
    if code == SI_KERNEL && context.is_general_protection() && tsc::emulate(context) {
        return 0;
    }
    let by_processor = code > 0;
    let blocked = context.mask & STKFLT_BIT != 0;
    if !by_processor && blocked {
        defer(info, code);
        return 0;
    }
    if !by_processor && handler == SIG_IGN {
        return 0;
    }
    if !is_handler(handler) || blocked {
        die(info);
        return 0;
    }
    if once != 0 {
        set_action(SIGSEGV, &kernel_action(&Action::DEFAULT));
    }
    handler
}

/// Sends on what the program is not to get yet.
fn defer(info: &[u64; 16], code: i32) {
    let action = Action {
        handler: timeloom_deferred as *const () as usize,
        flags: SA_SIGINFO | SA_RESTART | SA_RESTORER,
        restorer: &raw const timeloom_restorer as usize,
        // What it sends arrives when it has returned.
        mask: SEGV_BIT,
    };
    set_action(SIGSTKFLT, &action);
    let info = info.as_ptr() as usize;
    // To the thread if it was sent to the thread, else to whichever lets it in.
    // SAFETY: the kernel reads the 128 bytes of a `siginfo_t`. To one's own
    // process any code may be sent.
    unsafe {
        if code == SI_TKILL {
            queue_to_this_thread(SIGSTKFLT, info);
        } else {
            let pid = syscall(nr::GETPID, [0; 6]) as usize;
            syscall(nr::RT_SIGQUEUEINFO, [pid, SIGSTKFLT, info, 0, 0, 0]);
        }
    }
}

/// The handler of SIGSTKFLT: what was put off is due.
///
/// # Safety
/// Called by the kernel only.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_deferred(_: i32, info: *const u64, _: *mut Context) {
    // SAFETY: the kernel's own `siginfo_t`.
    unsafe { queue_to_this_thread(SIGSEGV, info as usize) };
}

/// Ends the process as the kernel does for want of a handler: by SIGSEGV, with
/// these registers, at the return from ours.
fn die(info: &[u64; 16]) {
    set_action(SIGSEGV, &Action::DEFAULT);
    signal::block(SEGV_BIT);
    // SAFETY: a whole `siginfo_t`.
    unsafe { queue_to_this_thread(SIGSEGV, info.as_ptr() as usize) };
}

/// # Safety
/// `info` must be the address of a `siginfo_t`.
unsafe fn queue_to_this_thread(signal: usize, info: usize) {
    // SAFETY: the kernel reads the structure.
    unsafe {
        let pid = syscall(nr::GETPID, [0; 6]) as usize;
        let thread = syscall(nr::GETTID, [0; 6]) as usize;
        // A full queue of signals (of this user) empties; nothing else can fail.
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

unsafe extern "C" {
    static timeloom_fault: u8;
    static timeloom_fault_once: u8;
    static timeloom_restorer: u8;
}

// The handler of SIGSEGV. At the top of its stack lies, in the place of the
// address to return to, the program's handler (see above). That place gets the
// true address at once, so that an unwinder gets through; then the image decides,
// and the program's handler finds stack and arguments as the kernel left them.
core::arch::global_asm!(
    ".pushsection .text.timeloom_fault, \"ax\", @progbits",
    ".globl timeloom_fault, timeloom_fault_once",
    ".hidden timeloom_fault, timeloom_fault_once",
    ".type timeloom_fault, @function",
    ".type timeloom_fault_once, @function",
    ".cfi_startproc",
    "timeloom_fault_once:",
    "mov r8d, 1",
    "jmp 1f",
    "timeloom_fault:",
    "xor r8d, r8d",
    "1:",
    "mov rcx, [rsp]",
    "lea rax, [rip + timeloom_restorer]",
    "mov [rsp], rax",
    "mov ebx, edi",
    "mov rbp, rsi",
    "mov r12, rdx",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call timeloom_decide",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "jz 2f",
    "mov rcx, rax",
    "mov edi, ebx",
    "mov rsi, rbp",
    "mov rdx, r12",
    "xor eax, eax",
    "jmp rcx",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size timeloom_fault, . - timeloom_fault",
    ".popsection",
);

pub(crate) const SIGSEGV: usize = 11;
pub(crate) const SIGSTKFLT: usize = 16;
const SEGV_BIT: u64 = 1 << (SIGSEGV - 1);
const STKFLT_BIT: u64 = 1 << (SIGSTKFLT - 1);
const SI_KERNEL: i32 = 0x80;
const SI_TKILL: i32 = -6;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
/// SA_NOCLDSTOP and SA_NOCLDWAIT, which are about SIGCHLD.
const NOTED_SIGINFO: u64 = 1;
const NOTED_NODEFER: u64 = 2;
const MOST_TURNS: u32 = 1_000;
