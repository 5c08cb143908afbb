//! Handler of SIGSYS, where trapped calls enter the image.

use timeloom_abi::calls::verdict::{JUDGED, STRICT};
use timeloom_abi::calls::{Handler, INTERRUPT_CODE, TRAP_MARK, handler_of};

use crate::abi::{SI_USER, SYS_SECCOMP, SignalInfo};
use crate::arch::Context;
use crate::sys::{errno, syscall};
use crate::verdict::{self, Verdict};
use crate::{
    aio, arch, card, clock, confined, cpu, cpu_timer, dates, files, futex, intercepted, ipc,
    memory, poll, queues, select, signal, sleep, socket, stack, stamps, timerfd, wait,
};

/// Handles SIGSYS. The launcher installs this function with SA_SIGINFO, SA_ONSTACK, SA_NODEFER, a
/// full mask (except for faults) and `timeloom_restorer`.
///
/// An interrupt (SIGSYS from the supervisor) must be handled before the program's handlers run,
/// hence the full mask. A trapped call must let the program's handlers run as the call itself
/// would: it waits under the program's mask, either from the start or while it is in the kernel.
///
/// # Safety
/// Only the kernel may call this function.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_trapped(_: i32, info: *mut SignalInfo, context: *mut Context) {
    // SAFETY: the kernel gives valid pointers to both, for this call.
    let (info, context) = unsafe { (&mut *info, &mut *context) };
    let by_filter = info.code == SYS_SECCOMP;
    if by_filter && let Some(answer) = verdict::answer(info) {
        return context.set_result(answer);
    }
    let is_judged = by_filter && info.errno == i32::from(JUDGED);
    let is_call = is_judged || (by_filter && info.errno == i32::from(TRAP_MARK));
    let call = info.call as usize;
    let handler = if is_call { handler_of(call) } else { None };
    stack::check(handler, context, arch::frame(info, context));
    if is_judged && !is_allowed(info, context) {
        return;
    }
    if is_call {
        let keeps_signals_out = handler
            .is_some_and(|it| it.is_uninterrupted() || (it.waits_under_a_mask() && !is_native(it)));
        if !keeps_signals_out {
            signal::set_mask(context.mask);
        }
        let result = match handler {
            Some(handler) if !is_native(handler) => dispatch(handler, call, context),
            // The program was released from the session, and uses the machine's time; or the call
            // is not in the table, and a filter of the program trapped it. SAFETY: the program's
            // own call, on its own behalf.
            _ => unsafe { syscall(call, context.arguments()) },
        };
        // A handler of the program ran during the wait. It may have changed, in its frame, the mask
        // of the interrupted code.
        if result == errno::EINTR && !keeps_signals_out {
            context.mask = signal::mask();
        }
        context.set_result(result);
    } else if by_filter && info.errno == i32::from(STRICT) {
        confined::end_strictly(call);
    } else if is_interrupt(info) {
        wait::handle_interrupt(context);
    } else {
        intercepted::forward(info, context);
    }
}

/// Returns true if the program's own filters allow a call. Otherwise performs their action and
/// returns false.
#[cold]
#[inline(never)]
fn is_allowed(info: &mut SignalInfo, context: &mut Context) -> bool {
    match verdict::of(info.call as usize, context.arguments()) {
        Verdict::Allowed => return true,
        Verdict::Returns(result) => context.set_result(result),
        Verdict::Traps(data) => {
            info.errno = data;
            intercepted::forward(info, context);
        }
    }
    false
}

/// Returns true if the supervisor sent the signal. If a user has too many signals queued, the
/// kernel sends a signal without its information; such a signal counts as the supervisor's too.
fn is_interrupt(info: &SignalInfo) -> bool {
    info.code == INTERRUPT_CODE || (info.code == SI_USER && info.call_address == 0)
}

/// Returns true if the kernel must execute the call because the program was released from its
/// session.
fn is_native(handler: Handler) -> bool {
    clock::page().is_released() && !handler.guards_image()
}

/// Executes a call by its handler. The match has no wildcard: a handler in the table without an arm
/// here does not compile.
fn dispatch(handler: Handler, call: usize, context: &mut Context) -> isize {
    let args = context.arguments();
    match handler {
        Handler::ClockGettime => clock::clock_gettime(args),
        Handler::Gettimeofday => clock::gettimeofday(args),
        Handler::Nanosleep => sleep::nanosleep(args),
        Handler::ClockNanosleep => sleep::clock_nanosleep(args),
        Handler::Ppoll => poll::ppoll(args),
        Handler::Pselect6 => select::pselect6(args),
        Handler::EpollPwait => poll::epoll_pwait(args, context.mask),
        Handler::EpollPwait2 => poll::epoll_pwait2(args, context.mask),
        Handler::Futex => futex::futex(args),
        Handler::FutexWaitv => queues::futex_waitv(args),
        Handler::FutexWait => queues::futex_wait(args),
        Handler::RtSigtimedwait => queues::rt_sigtimedwait(args),
        Handler::Semtimedop => queues::semtimedop(args),
        Handler::Semop => queues::semtimedop([args[0], args[1], args[2], 0, 0, 0]),
        Handler::MessageQueue => queues::message_queue(call, args),
        Handler::Read => timerfd::read(args),
        Handler::Readv => timerfd::readv(args),
        Handler::Recvfrom => socket::recvfrom(args),
        Handler::Recvmsg => socket::recvmsg(args),
        Handler::Recvmmsg => queues::recvmmsg(args),
        Handler::Accept => socket::accept(call, args),
        Handler::Connect => socket::connect(args),
        Handler::Write => socket::write(args),
        Handler::Writev => socket::writev(args),
        Handler::Sendto => socket::sendto(args),
        Handler::Sendmsg => socket::sendmsg(args),
        Handler::Sendmmsg => socket::sendmmsg(args),
        Handler::IoGetevents => aio::io_getevents(args),
        Handler::IoPgetevents => aio::io_pgetevents(args),
        Handler::Ioctl => stamps::ioctl(args),
        Handler::Open => card::open(call, args),
        Handler::IpcStatus => ipc::status(call, args),
        Handler::Sysinfo => queues::sysinfo(args),
        Handler::Times => cpu::times(args),
        Handler::Getrusage => cpu::getrusage(args),
        Handler::Wait4 => cpu::wait4(args),
        Handler::Waitid => cpu::waitid(args),
        Handler::Utimensat => files::utimensat(args),
        Handler::Stat => dates::in_stat(call, args, 1),
        Handler::Newfstatat => dates::in_stat(call, args, 2),
        Handler::Statx => dates::statx(args),
        Handler::Setsockopt => socket::setsockopt(args),
        Handler::RtSigprocmask => signal::rt_sigprocmask(context),
        Handler::RtSigaction => signal::rt_sigaction(args),
        Handler::RtSigsuspend => signal::rt_sigsuspend(args),
        Handler::RtSigpending => intercepted::rt_sigpending(args),
        Handler::RtSigreturn => signal::rt_sigreturn(context),
        Handler::Ptrace => signal::ptrace(args),
        Handler::OnRange => memory::on_range(call, args),
        Handler::Mmap => memory::mmap(args),
        Handler::Mremap => memory::mremap(args),
        Handler::RemapFilePages => memory::remap_file_pages(args),
        Handler::ArchPrctl => memory::arch_prctl(),
        Handler::Prctl => confined::prctl(args),
        Handler::Seccomp => confined::seccomp(args),
        Handler::TimerfdSettime => timerfd::settime(args),
        Handler::TimerSettime => cpu_timer::timer_settime(args),
        Handler::TimerGettime => cpu_timer::timer_gettime(args),
        Handler::Setitimer => cpu::setitimer(args),
        Handler::Getitimer => cpu::getitimer(args),
        Handler::Time => arch::time(args),
        Handler::Poll => arch::poll(args),
        Handler::Select => arch::select(args),
        Handler::EpollWait => arch::epoll_wait(args, context.mask),
        Handler::Utime => arch::utime(args),
        Handler::Utimes => arch::utimes(args),
        Handler::Futimesat => arch::futimesat(args),
    }
}
