//! The image: Timeloom's code that runs inside guest programs.
//!
//! At every `execve` the launcher maps the image at [`timeloom_abi::IMAGE_ADDRESS`] and points the
//! auxiliary vector at it, so that the program uses the image as the kernel's vDSO. It has three
//! kinds of entry:
//!
//! 1. **As a vDSO** (`clock.rs`): `clock_gettime` and related functions. The C library, Go and
//!    others call these like any function, on any stack, in any signal handler. They read the clock
//!    page and return.
//! 2. **As the handler of SIGSYS** (`trap.rs`). A seccomp filter makes every system call that
//!    carries time arrive here instead of in the kernel. The handler executes the call in virtual
//!    time, and writes the result into the interrupted context.
//! 3. **As the handler of SIGSEGV** (`intercepted.rs`), if the time-stamp counter is emulated:
//!    instructions that read it then fault.
//!
//! A SIGSYS that another process sent, and a SIGSEGV with another cause, are delivered to the
//! program (also in `intercepted.rs`).
//!
//! The filter lets system calls from *inside this image* pass (it compares the instruction's
//! address). So the handler itself can make system calls.
//!
//! # Why a wait runs inside the handler
//!
//! A timed wait keeps its *virtual* deadline and waits in the kernel in slices (`wait.rs`). If a
//! slice ends early because the clock was paused, another one follows. If a slice has become too
//! long because the clock's rate was raised, the supervisor ends it by an *interrupt*: it sends
//! SIGSYS to the threads that it finds at the image's waiting instruction.
//!
//! The handler keeps no state outside its own stack frame: no thread-local storage, no allocation,
//! no locks. So nothing is lost if the program's own signal handler interrupts the wait and leaves
//! it by `siglongjmp`, if the thread is cancelled in the wait, or if a `vfork` child shares the
//! memory.
//!
//! # Kernel calls that a slice may use
//!
//! Freezing a process interrupts its system calls. The kernel then restarts `ppoll`, `pselect6`,
//! `futex` and `clock_nanosleep`; these return EINTR only if a handler of the program ran, as
//! natively. `epoll_wait`, `semtimedop` and some others return EINTR after a freeze too. The image
//! must then determine whether a handler ran. It examines the memory in which the kernel would have
//! put the handler's frame (`wait.rs`); if no handler ran, it starts another slice. Each wait
//! therefore uses the kernel's own queue, and waiting threads are woken in the native order and
//! number.
//!
//! # Under a filter of the program's own
//!
//! A program may install a seccomp filter that allows only its own calls. `confined.rs` rewrites
//! the filter before it is installed: calls from inside the image pass, except at three known
//! instructions, where the image asks for the verdict of the program's filters (`verdict.rs`). A
//! call that natively the kernel's vDSO would make for the program goes through the program's
//! filters, too ([`arch::syscall_as_program`]).
//!
//! # Constraints on this crate
//!
//! No writable data and no panics (the link fails if one is reachable), no
//! thread-local storage, little stack: a handler may run on an alternate stack of 8 KiB.
#![no_std]

mod abi;
mod aio;
mod arch;
mod bpf;
mod card;
mod clock;
mod confined;
mod cpu;
mod cpu_timer;
mod dates;
mod extra;
mod files;
mod futex;
mod gdb;
mod intercepted;
mod ipc;
mod memory;
mod nr;
mod phc;
mod poll;
mod queues;
mod select;
mod signal;
mod sleep;
mod socket;
mod stack;
mod stamps;
mod sys;
mod timerfd;
mod trap;
mod verdict;
mod wait;

/// Makes the link fail if the compiler could not eliminate every panic: the function called here
/// does not exist.
#[cfg(timeloom_image)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn timeloom_the_image_must_not_panic() -> !;
    }
    // SAFETY: this code is never linked, see above.
    unsafe { timeloom_the_image_must_not_panic() }
}
