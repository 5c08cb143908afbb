//! The handler of SIGSYS: where trapped calls arrive.

use crate::abi::{Context, SYS_SECCOMP, SignalInfo};
use crate::sys::{nr, syscall};
use crate::{clock, cpu, files, futex, poll, queues, select, signal, sleep, socket, wait};

/// Installed for SIGSYS by the launcher, with SA_SIGINFO, SA_ONSTACK,
/// SA_NODEFER, a full mask (but for faults) and `timeloom_restorer`.
///
/// A kick has to decide before the program's handlers run, hence the mask. A
/// trapped call must let them run as the call itself would: it waits under the
/// mask that the program had.
///
/// # Safety
/// Called by the kernel only.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_handler(_: i32, info: *const SignalInfo, context: *mut Context) {
    // SAFETY: the kernel gives valid pointers to both, for this call.
    let (info, context) = unsafe { (&*info, &mut *context) };
    if info.code == SYS_SECCOMP {
        let call = info.call as usize;
        if !matches!(call, nr::CLOCK_GETTIME | nr::GETTIMEOFDAY | nr::TIME) {
            signal::set_mask(context.mask);
        }
        let result = dispatch(call, context);
        context.set_result(result);
    } else {
        wait::handle_kick(context);
    }
}

fn dispatch(call: usize, context: &mut Context) -> isize {
    let args = context.arguments();
    match call {
        nr::CLOCK_GETTIME => clock::clock_gettime(args),
        nr::GETTIMEOFDAY => clock::gettimeofday(args),
        nr::TIME => clock::time(args),
        nr::NANOSLEEP => sleep::nanosleep(args),
        nr::CLOCK_NANOSLEEP => sleep::clock_nanosleep(args),
        nr::POLL => poll::poll(args),
        nr::PPOLL => poll::ppoll(args),
        nr::SELECT => select::select(args),
        nr::PSELECT6 => select::pselect6(args),
        nr::EPOLL_WAIT => poll::epoll_wait(args),
        nr::EPOLL_PWAIT => poll::epoll_pwait(args),
        nr::EPOLL_PWAIT2 => poll::epoll_pwait2(args),
        nr::FUTEX => futex::futex(args),
        nr::MQ_TIMEDSEND | nr::MQ_TIMEDRECEIVE => queues::message_queue(call, args),
        nr::FUTEX_WAITV => queues::futex_waitv(args),
        nr::RT_SIGTIMEDWAIT => queues::rt_sigtimedwait(args),
        nr::SEMTIMEDOP => queues::semtimedop(args),
        nr::SEMOP => queues::semtimedop([args[0], args[1], args[2], 0, 0, 0]),
        nr::RECVMMSG => queues::recvmmsg(args),
        nr::SETSOCKOPT => socket::setsockopt(args),
        nr::READ => socket::read(args),
        nr::READV => socket::readv(args),
        nr::RECVFROM => socket::recvfrom(args),
        nr::RECVMSG => socket::recvmsg(args),
        nr::ACCEPT | nr::ACCEPT4 => socket::accept(call, args),
        nr::CONNECT => socket::connect(args),
        nr::WRITE => socket::write(args),
        nr::WRITEV => socket::writev(args),
        nr::SENDTO => socket::sendto(args),
        nr::SENDMSG => socket::sendmsg(args),
        nr::SENDMMSG => socket::sendmmsg(args),
        nr::SYSINFO => queues::sysinfo(args),
        nr::TIMES => cpu::times(args),
        nr::GETRUSAGE => cpu::getrusage(args),
        nr::SETITIMER => cpu::setitimer(args),
        nr::GETITIMER => cpu::getitimer(args),
        nr::WAIT4 => cpu::wait(call, args, args[3]),
        nr::WAITID => cpu::wait(call, args, args[4]),
        nr::UTIMENSAT => files::utimensat(args),
        nr::UTIME | nr::UTIMES => files::set_to_now(files::HERE, args[0]),
        nr::FUTIMESAT => files::set_to_now(args[0], args[1]),
        nr::RT_SIGPROCMASK => signal::rt_sigprocmask(context),
        nr::RT_SIGACTION => signal::rt_sigaction(args),
        nr::RT_SIGSUSPEND => signal::rt_sigsuspend(args),
        // Trapped by the filter and unknown here: image and filter disagree.
        // The native call is the least surprising answer.
        // SAFETY: the program's own call, on its own behalf.
        _ => unsafe { syscall(call, args) },
    }
}

// What the handler returns into. The unwind information says that everything
// is to be found in the interrupted context, so that a thread cancelled during
// a wait, an exception thrown from a handler and a debugger all get through.
// The letters: 'z' length, 'R' encoding, 'S' signal frame. Offsets are those of
// `mcontext_t` in the `ucontext_t` to which rsp points here.
core::arch::global_asm!(
    ".pushsection .text.timeloom_restorer, \"ax\", @progbits",
    ".globl timeloom_restorer, timeloom_syscall",
    ".hidden timeloom_restorer, timeloom_syscall",
    ".type timeloom_restorer, @function",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_def_cfa rsp, 0",
    // DW_CFA_def_cfa_expression: DW_OP_breg7 (rsp) 160, DW_OP_deref.
    ".cfi_escape 0x0f, 0x04, 0x77, 0xa0, 0x01, 0x06",
    // DW_CFA_expression REG: DW_OP_breg7 offset (both LEB128).
    ".cfi_escape 0x10, 0x08, 0x02, 0x77, 0x28", // r8 at 40
    ".cfi_escape 0x10, 0x09, 0x02, 0x77, 0x30", // r9 at 48
    ".cfi_escape 0x10, 0x0a, 0x02, 0x77, 0x38", // r10 at 56
    ".cfi_escape 0x10, 0x0b, 0x03, 0x77, 0xc0, 0x00", // r11 at 64
    ".cfi_escape 0x10, 0x0c, 0x03, 0x77, 0xc8, 0x00", // r12 at 72
    ".cfi_escape 0x10, 0x0d, 0x03, 0x77, 0xd0, 0x00", // r13 at 80
    ".cfi_escape 0x10, 0x0e, 0x03, 0x77, 0xd8, 0x00", // r14 at 88
    ".cfi_escape 0x10, 0x0f, 0x03, 0x77, 0xe0, 0x00", // r15 at 96
    ".cfi_escape 0x10, 0x05, 0x03, 0x77, 0xe8, 0x00", // rdi at 104
    ".cfi_escape 0x10, 0x04, 0x03, 0x77, 0xf0, 0x00", // rsi at 112
    ".cfi_escape 0x10, 0x06, 0x03, 0x77, 0xf8, 0x00", // rbp at 120
    ".cfi_escape 0x10, 0x03, 0x03, 0x77, 0x80, 0x01", // rbx at 128
    ".cfi_escape 0x10, 0x01, 0x03, 0x77, 0x88, 0x01", // rdx at 136
    ".cfi_escape 0x10, 0x00, 0x03, 0x77, 0x90, 0x01", // rax at 144
    ".cfi_escape 0x10, 0x02, 0x03, 0x77, 0x98, 0x01", // rcx at 152
    ".cfi_escape 0x10, 0x07, 0x03, 0x77, 0xa0, 0x01", // rsp at 160
    ".cfi_escape 0x10, 0x10, 0x03, 0x77, 0xa8, 0x01", // rip at 168
    // An unwinder looks up the address before the one returned to.
    "nop",
    "timeloom_restorer:",
    "mov eax, 15", // rt_sigreturn
    "timeloom_syscall:",
    "syscall",
    // Where the launcher's injected calls come to a stop.
    "int3",
    ".cfi_endproc",
    ".size timeloom_restorer, . - timeloom_restorer",
    ".popsection",
);
