//! Alternate stacks without enough space for a trapped call.
//!
//! The frame of a signal and the image's own frames are on the stack on which the program's
//! handlers run. On x86-64 the kernel checks that its frame fits; the image must check its own. On
//! 64-bit ARM the kernel writes its frame of 4704 bytes below the stack without a check, over any
//! data there, before the image's first instruction. In both cases the image writes nothing more,
//! ends the program, and reports the cause.

use timeloom_abi::calls::Handler;

use crate::arch::Context;
use crate::intercepted::SIGSEGV;
use crate::nr;
use crate::signal::Action;
use crate::sys::syscall;

/// Ends the program if the space on an alternate stack does not suffice for the call. The signal's
/// frame begins at `frame`, on the alternate stack or below it; the space counts from the stack's
/// lowest address to the frame.
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

/// Space in bytes that the assembly at the entry of the handlers checks before anything is written.
/// It suffices for signals that are not traps, and for this module.
pub(crate) const LEAST_ROOM: usize = 320;

/// Ends the program. The assembly at the entry jumps here if there is less space than
/// [`LEAST_ROOM`].
#[cold]
#[unsafe(no_mangle)]
extern "C" fn timeloom_end_for_want_of_stack() -> ! {
    end()
}

/// Ends the program as the kernel does if a stack has no space for a signal.
#[cold]
fn end() -> ! {
    let action = Action::DEFAULT;
    // SAFETY: the calls read and write memory of the image.
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
            // This is reached if the signal was blocked.
            syscall(nr::EXIT_GROUP, [128 + SIGSEGV, 0, 0, 0, 0, 0]);
        }
    }
}

const MESSAGE: &str = "timeloom: a signal handler on an alternate stack (sigaltstack) made a call that \
    carries time, for which the stack is too small under the clock; give it 16 KiB, or what \
    sysconf(_SC_SIGSTKSZ) says. The program is ended, since what lies below is not the stack's.\n";
