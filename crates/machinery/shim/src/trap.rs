//! The handler of SIGSYS: where trapped calls arrive.

use crate::abi::{SYS_SECCOMP, SignalInfo};
use crate::arch::{Context, check_stack, old_call, only_reads_a_clock};
use crate::sys::{nr, syscall};
use crate::{
    aio, clock, cpu, cpu_timer, files, futex, phc, poll, queues, select, signal, sleep, socket,
    timerfd, wait,
};

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
    // The information lies at the beginning of the frame.
    check_stack(context, &raw const *info as usize);
    if info.code == SYS_SECCOMP {
        let call = info.call as usize;
        if !only_reads_a_clock(call) {
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
    if clock::page().is_released() && !guards_sigsys(call) {
        // Let go from the session: the kernel's own, in the machine's time.
        // SAFETY: the program's own call, on its own behalf.
        return unsafe { syscall(call, args) };
    }
    match call {
        nr::CLOCK_GETTIME => clock::clock_gettime(args),
        nr::GETTIMEOFDAY => clock::gettimeofday(args),
        nr::NANOSLEEP => sleep::nanosleep(args),
        nr::CLOCK_NANOSLEEP => sleep::clock_nanosleep(args),
        nr::PPOLL => poll::ppoll(args),
        nr::PSELECT6 => select::pselect6(args),
        nr::EPOLL_PWAIT => poll::epoll_pwait(args),
        nr::EPOLL_PWAIT2 => poll::epoll_pwait2(args),
        nr::IO_GETEVENTS => aio::io_getevents(args),
        nr::IO_PGETEVENTS => aio::io_pgetevents(args),
        nr::IOCTL => phc::ioctl(args),
        nr::FUTEX => futex::futex(args),
        nr::MQ_TIMEDSEND | nr::MQ_TIMEDRECEIVE => queues::message_queue(call, args),
        nr::FUTEX_WAITV => queues::futex_waitv(args),
        nr::RT_SIGTIMEDWAIT => queues::rt_sigtimedwait(args),
        nr::SEMTIMEDOP => queues::semtimedop(args),
        nr::SEMOP => queues::semtimedop([args[0], args[1], args[2], 0, 0, 0]),
        nr::RECVMMSG => queues::recvmmsg(args),
        nr::SETSOCKOPT => socket::setsockopt(args),
        nr::READ => timerfd::read(args),
        nr::READV => timerfd::readv(args),
        nr::TIMERFD_SETTIME => timerfd::settime(args),
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
        nr::TIMER_SETTIME => cpu_timer::timer_settime(args),
        nr::TIMER_GETTIME => cpu_timer::timer_gettime(args),
        nr::WAIT4 => cpu::wait(call, args, args[3]),
        nr::WAITID => cpu::wait(call, args, args[4]),
        nr::UTIMENSAT => files::utimensat(args),
        nr::RT_SIGPROCMASK => signal::rt_sigprocmask(context),
        nr::RT_SIGACTION => signal::rt_sigaction(args),
        nr::RT_SIGSUSPEND => signal::rt_sigsuspend(args),
        #[cfg(target_arch = "x86_64")]
        nr::RT_SIGPENDING => crate::arch::fault::rt_sigpending(args),
        #[cfg(target_arch = "x86_64")]
        nr::PRCTL => crate::arch::tsc::prctl(args),
        _ => match old_call(call, args) {
            Some(result) => result,
            // Trapped by the filter and unknown here: image and filter disagree.
            // The native call is the least surprising answer.
            // SAFETY: the program's own call, on its own behalf.
            None => unsafe { syscall(call, args) },
        },
    }
}

/// Calls that trap for what they could do to SIGSYS. A program that was let go
/// keeps the filter, so what these guard it still needs.
fn guards_sigsys(call: usize) -> bool {
    matches!(
        call,
        nr::RT_SIGPROCMASK
            | nr::RT_SIGACTION
            | nr::RT_SIGSUSPEND
            | nr::PPOLL
            | nr::PSELECT6
            | nr::EPOLL_PWAIT
            | nr::EPOLL_PWAIT2
            | nr::IO_PGETEVENTS
    )
}
