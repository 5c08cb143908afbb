//! Alternate stacks that are too small for two signals.
//!
//! A signal's frame takes 4704 bytes here (more where vectors are longer than
//! 64 bytes). A program's handler that makes a call which traps needs two of them,
//! and what our handler takes: a stack of 8 KiB cannot do. The kernel puts the
//! second frame below the stack without looking, onto whatever lies there. When it
//! could, that has happened before our first instruction; what remains is to
//! end the program, and to say why.

use super::Context;
use super::syscall;
use crate::intercepted::SIGSEGV;
use crate::nr;
use crate::signal::Action;

/// Ends the program if the frame of the signal, which begins at `frame`, reaches below
/// the alternate stack that the thread was on.
pub(crate) fn check_stack(context: &Context, frame: usize) {
    let [bottom, _, size] = context.stack;
    let was_on_it = context.stack_pointer.wrapping_sub(bottom).wrapping_sub(1) < size;
    if was_on_it && (frame as u64) < bottom {
        end();
    }
}

/// As the kernel ends a program whose stack has no room for a signal.
#[cold]
fn end() -> ! {
    let action = Action::DEFAULT;
    // SAFETY: what is written and read is ours.
    unsafe {
        syscall(
            nr::WRITE,
            [2, MESSAGE.as_ptr() as usize, MESSAGE.len(), 0, 0, 0],
        );
        syscall(
            nr::RT_SIGACTION,
            [SIGSEGV, &raw const action as usize, 0, 8, 0, 0],
        );
        let process = syscall(nr::GETPID, [0; 6]) as usize;
        syscall(nr::KILL, [process, SIGSEGV, 0, 0, 0, 0]);
        loop {
            // It was blocked.
            syscall(nr::EXIT_GROUP, [128 + SIGSEGV, 0, 0, 0, 0, 0]);
        }
    }
}

const MESSAGE: &str = "timeloom: a signal handler on an alternate stack (sigaltstack) made a call that \
    carries time, for which the stack is too small under the clock; give it 16 KiB, or what \
    sysconf(_SC_SIGSTKSZ) says. The program is ended, since what lies below has been overwritten.\n";
