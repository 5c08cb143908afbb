//! The image: Timeloom's code that runs inside guest programs.
//!
//! The launcher maps it at [`timeloom_page::IMAGE_ADDRESS`] at every `execve` and points the
//! auxiliary vector at it, so that the program uses it as the kernel's vDSO. It has three kinds of
//! entry:
//!
//! 1. **As a vDSO** (`clock.rs`): `clock_gettime` and related functions. The C library, Go and
//!    others call these like any function, on any stack, in any signal handler. They read the clock
//!    page and return.
//! 2. **As the handler of SIGSYS** (`trap.rs`). A seccomp filter makes every system call that
//!    carries time arrive here instead of in the kernel. The handler executes the call in virtual
//!    time, and writes the result into the interrupted context.
//! 3. **As the handler of SIGSEGV** (`intercepted.rs`), if the time-stamp counter is emulated: then
//!    the instructions that read it fault.
//!
//! A SIGSYS that another process sent is delivered to the program, as is any other SIGSEGV (also in
//! `intercepted.rs`).
//!
//! The filter passes system calls that are made *from inside this image* (it compares the
//! instruction's address); the handler itself thereby makes system calls.
//!
//! # Why a wait runs inside the handler
//!
//! A timed wait keeps its *virtual* deadline and waits in the kernel in turns (`wait.rs`). A turn
//! that ends early because the clock was paused is followed by another; a turn that has become too
//! long because the clock's rate was raised is ended by a *kick*: SIGSYS sent by the supervisor to
//! the threads that it finds inside the image's waiting instruction.
//!
//! The handler keeps no state outside its own stack frame: no thread-local storage, no allocation,
//! no locks. Nothing is lost if the program's own signal handler interrupts the wait and leaves it
//! by `siglongjmp`, if the thread is cancelled in it, or if a `vfork` child shares the memory.
//!
//! # Kernel calls that a turn may use
//!
//! Freezing a process interrupts its system calls. `ppoll`, `pselect6`, `futex` and
//! `clock_nanosleep` are then restarted by the kernel, and return EINTR only if a handler of the
//! program ran, as in native execution. `epoll_wait`, `semtimedop` and some others return EINTR for
//! a freeze too: the image then determines that no handler ran from the place at which the kernel
//! would have put the handler's frame (`wait.rs`), and starts another turn. Each wait therefore
//! uses the kernel's own queue, and is woken in the native order and number.
//!
//! # Under a filter of the program's own
//!
//! A program may install a seccomp filter that allows only its own calls. `confined.rs`
//! rewrites it before it is installed: calls from inside the image pass, except at three known
//! instructions, where the image asks for the verdict of the program's filters (`verdict.rs`). A
//! call that the kernel's vDSO would make for the program goes through the program's filters, too
//! ([`arch::syscall_as_program`]).
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

/// Linking fails if the compiler could not eliminate every panic: the symbol called here does not
/// exist.
#[cfg(timeloom_image)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn timeloom_the_image_must_not_panic() -> !;
    }
    // SAFETY: never linked, see above.
    unsafe { timeloom_the_image_must_not_panic() }
}
