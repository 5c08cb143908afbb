//! Alternate stacks on which there is no room for what a trapped call takes.
//!
//! A signal's frame and the image's own lie on the stack that a program's handlers have.
//! On x86-64 the kernel looks whether its frame fits, and nobody but we whether ours does.
//! On 64-bit ARM the kernel puts its frame of 4704 bytes below the stack without looking,
//! onto whatever lies there. When it could, that has happened before our first instruction.
//! What is left in both is to write nothing more, to end the program, and to say why.

use timeloom_calls::Handler;

use crate::arch::Context;
use crate::intercepted::SIGSEGV;
use crate::nr;
use crate::signal::Action;
use crate::sys::syscall;

/// Ends the program if the signal's frame, which begins at `frame`, lies on an alternate
/// stack or was to, and what its call takes below that does not.
pub(crate) fn check(handler: Option<Handler>, context: &Context, frame: usize) {
    let [bottom, size] = context.alternate_stack();
    let was_on_it = context.stack_pointer().wrapping_sub(bottom).wrapping_sub(1) < size;
    let is_on_it = frame.wrapping_sub(bottom) < size;
    let room = frame.wrapping_sub(bottom) as isize;
    let taken = handler.map_or(0, |handler| handler.stack_bytes()) as isize;
    if (was_on_it || is_on_it) && room < taken {
        end();
    }
}

/// What is made sure of by the assembly in front of the handlers, before anything is written:
/// enough for signals that are no calls, and for this module.
pub(crate) const LEAST_ROOM: usize = 320;

/// Where that assembly goes if there is less.
#[cold]
#[unsafe(no_mangle)]
extern "C" fn timeloom_end_for_want_of_stack() -> ! {
    end()
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
    sysconf(_SC_SIGSTKSZ) says. The program is ended, since what lies below is not the stack's.\n";
