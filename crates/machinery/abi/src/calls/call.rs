//! Types of the table of system calls: [`Call`] is one row.

use crate::calls::{CallCondition, Handler, SupervisorService};

/// System call and its treatment: one row of [`crate::calls::CALLS`].
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Name of the call in the kernel.
    pub name: &'static str,
    /// Numbers of the call, by architecture.
    pub numbers: Numbers,
    /// Treatment of the call in every guest. `None` if only some guests treat it: their filters use
    /// the columns below.
    pub treatment: Option<Treatment>,
    /// Condition on the arguments under which the call is treated. Otherwise the kernel executes
    /// it.
    pub when: CallCondition,
    /// Part of the image that handles the call if a filter traps it. The image is Timeloom's code
    /// inside each guest process.
    pub handler: Option<Handler>,
    /// Condition that replaces `when` in sessions that emulate the time-stamp counter.
    pub emulating_tsc: Option<CallCondition>,
    /// Condition that replaces `when` in sessions that show virtual dates of files.
    pub file_times: Option<CallCondition>,
    /// Condition that replaces `when` on hosts with a network card of the model.
    pub with_card: Option<CallCondition>,
    /// Requests after which the call always traps in the requesting process and its descendants.
    pub on_demand: &'static [Extra],
    /// Description of the call in the last column of `docs/coverage.md`.
    pub outcome: &'static str,
}

/// Component that executes or refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The call traps; the image handles it inside the process.
    Trap,
    /// The filter passes the call to the supervisor, which handles it by this service.
    Ask(SupervisorService),
    /// The filter refuses the call with ENOSYS. Every known caller has a fallback.
    Refuse,
}

/// Request of a process that makes further calls trap. A second seccomp filter, which its
/// descendants inherit, traps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The process has requested timestamps of packets.
    Stamps,
    /// The process has set a timerfd that reports changes of its clock, so its reads must trap.
    Reads,
    /// The process has set a timeout of a socket. This also traps all calls of `Stamps` and
    /// `Reads`.
    Timeouts,
    /// The process has a signal mask or an action that concerns its own use of SIGSYS.
    Signals,
}

/// Numbers of a call on the two supported architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Number on x86-64; `None` if that architecture lacks the call.
    pub x86_64: Option<u32>,
    /// Number on 64-bit ARM; `None` if that architecture lacks the call.
    pub aarch64: Option<u32>,
}

impl Numbers {
    /// Returns the number on the target architecture, or `None` if it lacks the call.
    pub const fn here(self) -> Option<u32> {
        if cfg!(target_arch = "aarch64") {
            self.aarch64
        } else {
            self.x86_64
        }
    }
}

impl Call {
    /// Returns the call's number on the target architecture, or `None` if it lacks the call.
    pub const fn number(&self) -> Option<u32> {
        self.numbers.here()
    }

    /// Returns true if the filters of some session trap the call, so that the image receives it.
    pub const fn traps(&self) -> bool {
        let asked_or_trapped = match self.treatment {
            Some(Treatment::Trap) => true,
            Some(Treatment::Ask(_)) => self.when.traps_otherwise(),
            Some(Treatment::Refuse) | None => false,
        };
        let in_some =
            self.emulating_tsc.is_some() || self.file_times.is_some() || self.with_card.is_some();
        asked_or_trapped || in_some || !self.on_demand.is_empty()
    }

    /// Returns true if the call traps in processes that have requested `extra`.
    pub const fn is_for(&self, extra: Extra) -> bool {
        let mut index = 0;
        while index < self.on_demand.len() {
            if self.on_demand[index] as u8 == extra as u8 {
                return true;
            }
            index += 1;
        }
        false
    }
}
