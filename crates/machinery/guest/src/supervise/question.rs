//! Requests of guests to the supervisor: each system call that the filter sends to the supervisor,
//! with typed arguments. The arguments are decoded only here.

use timeloom_abi::calls::{ImageCall, SupervisorService, TERMINAL_INPUT, Treatment, rows};

use crate::linux::remote::{Alleged, Plain};
use crate::supervise::clock_calls::ClockCall;
use crate::supervise::notify::Notification;
use crate::supervise::real_time::RealTime;
use crate::supervise::timer_calls::posix::PosixCall;
use crate::supervise::timer_calls::{SetTimer, TimerCall};

/// System call of a guest that waits for the supervisor's answer.
pub(crate) enum Question {
    /// `execve` or `execveat`, which the supervisor follows.
    Exec,
    /// `ptrace` with these arguments: a request that resumes a tracee, or `PTRACE_TRACEME`.
    Trace([u64; 6]),
    /// Call that creates, sets or reads a timer.
    Timer(TimerCall),
    /// Call that sets or steers a clock of the asker's host.
    Clock(ClockCall),
    /// `io_uring_setup`, which is refused or reported.
    IoUring,
    /// `ioctl` with this command, one of [`TERMINAL_INPUT`].
    TerminalInput(u32),
    /// Call that is executed in real time, and reported.
    RealTime(RealTime),
    /// `unshare` of the time namespace (`None`), or `setns` with this descriptor.
    TimeNamespace(Option<i32>),
    /// `sigaltstack` with this stack.
    SignalStack(Alleged<SignalStack>),
    /// Question of the image; `None` if it is not valid, so that the image cannot have asked it.
    Image(Option<ImageCall<Alleged>>),
    /// Call for which the table has no service of the supervisor.
    Unknown,
}

/// `stack_t`, with those fields that are used here.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SignalStack {
    address: u64,
    pub(crate) flags: i32,
    gap: i32,
    pub(crate) size: u64,
}

const _: () = assert!(size_of::<SignalStack>() == size_of::<libc::stack_t>());

// SAFETY: the structure consists of numbers without padding.
unsafe impl Plain for SignalStack {}

impl Question {
    /// Decodes the call of a notification.
    pub(crate) fn in_call(notification: &Notification) -> Self {
        notification.decode(Self::of)
    }

    /// Decodes a call's number and arguments.
    pub(crate) fn of(call: i64, args: [u64; 6]) -> Self {
        let asking = rows(call).find_map(|row| match row.treatment {
            Some(Treatment::Ask(service)) => Some((row, service)),
            _ => None,
        });
        let Some((row, service)) = asking else {
            return Self::Unknown;
        };
        let [first, second, third, fourth, fifth, _] = args;
        let set_timer = || SetTimer {
            flags: second as i32,
            new: Alleged::at(third),
            old: Alleged::at(fourth),
        };
        let on_posix = |call| {
            Self::Timer(TimerCall::Posix {
                id: first as i32,
                call,
            })
        };
        match service {
            SupervisorService::Exec => Self::Exec,
            SupervisorService::Trace => Self::Trace(args),
            SupervisorService::TimerfdCreate => Self::Timer(TimerCall::DescriptorCreate {
                clock: first as i32,
                flags: second as i32,
            }),
            SupervisorService::TimerfdSettime => Self::Timer(TimerCall::DescriptorSet {
                descriptor: first as i32,
                set: set_timer(),
            }),
            SupervisorService::TimerfdGettime => Self::Timer(TimerCall::DescriptorGet {
                descriptor: first as i32,
                current: Alleged::at(second),
            }),
            SupervisorService::TimerCreate => Self::Timer(TimerCall::Create {
                clock: first as i32,
                event: Alleged::at(second),
                id: Alleged::at(third),
            }),
            SupervisorService::TimerSettime => on_posix(PosixCall::Set(set_timer())),
            SupervisorService::TimerGettime => on_posix(PosixCall::Get(Alleged::at(second))),
            SupervisorService::TimerGetoverrun => on_posix(PosixCall::Overrun),
            SupervisorService::TimerDelete => on_posix(PosixCall::Delete),
            SupervisorService::Setitimer => Self::Timer(TimerCall::SetInterval {
                new: Alleged::at(second),
                old: Alleged::at(third),
            }),
            SupervisorService::Getitimer => Self::Timer(TimerCall::GetInterval {
                current: Alleged::at(second),
            }),
            SupervisorService::Alarm => Self::Timer(TimerCall::Alarm {
                seconds: first as u32,
            }),
            SupervisorService::ClockSettime => Self::Clock(ClockCall::ClockSettime {
                clock: first as i32,
                time: Alleged::at(second),
            }),
            SupervisorService::Settimeofday => Self::Clock(ClockCall::Settimeofday {
                time: Alleged::at(first),
                zone: Alleged::at(second),
            }),
            SupervisorService::Adjtimex => Self::Clock(ClockCall::Adjtimex {
                timex: Alleged::at(first),
            }),
            SupervisorService::ClockAdjtime => Self::Clock(ClockCall::ClockAdjtime {
                clock: first as i32,
                timex: Alleged::at(second),
            }),
            SupervisorService::IoUring => Self::IoUring,
            SupervisorService::RealTime => Self::RealTime(RealTime::Call { name: row.name }),
            SupervisorService::Device if TERMINAL_INPUT.contains(&(second as u32)) => {
                Self::TerminalInput(second as u32)
            }
            SupervisorService::Device => Self::RealTime(RealTime::Device {
                command: second as u32,
                argument: Alleged::at(third),
            }),
            SupervisorService::SocketOption => Self::RealTime(RealTime::SocketOption {
                socket: first as i32,
                place: (second as u32, third as u32),
                value: Alleged::at(fourth),
                length: fifth,
            }),
            SupervisorService::CpuLimit => Self::RealTime(RealTime::CpuLimit {
                limit: Alleged::at(second),
            }),
            SupervisorService::CpuLimitOf => Self::RealTime(RealTime::CpuLimit {
                limit: Alleged::at(third),
            }),
            SupervisorService::Schedule => Self::RealTime(RealTime::Schedule {
                attributes: Alleged::at(second),
            }),
            SupervisorService::TimeNamespace if call == libc::SYS_unshare => {
                Self::TimeNamespace(None)
            }
            SupervisorService::TimeNamespace => Self::TimeNamespace(Some(first as i32)),
            SupervisorService::SignalStack => Self::SignalStack(Alleged::at(first)),
            SupervisorService::Image => Self::Image(ImageCall::decode(args)),
        }
    }
}
