//! A row of the table.

use crate::{Handler, Service, When};

/// A system call and its treatment.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Name in the kernel.
    pub name: &'static str,
    /// Numbers of the call.
    pub numbers: Numbers,
    /// Treatment in every guest. `None`: none, but the filters of some guests treat the call, as
    /// the columns below specify.
    pub treatment: Option<Treatment>,
    /// Condition for the treatment; otherwise the call passes.
    pub when: When,
    /// Part of the image that handles the call if it traps.
    pub handler: Option<Handler>,
    /// Condition for the trap if the time-stamp counter is emulated, instead of `when`.
    pub emulating_tsc: Option<When>,
    /// Condition for the trap in sessions that show virtual dates of files, instead of `when`.
    pub file_times: Option<When>,
    /// The call always traps in processes that have requested one of these.
    pub on_demand: &'static [Extra],
    /// Description for the last column of `docs/coverage.md`.
    pub outcome: &'static str,
}

/// Treatment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Handled in the process, by the image.
    Trap,
    /// Handled by the supervisor.
    Ask(Service),
    /// Answered with ENOSYS, for which every known caller has a fallback.
    Refuse,
}

/// Request of a process that makes further calls trap in it and in its descendants, by a second
/// filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Timestamps of packets.
    Stamps,
    /// Reads of a timer that reports changes of its clock.
    Reads,
    /// Timeouts of sockets. Also makes all calls of the two above trap.
    Timeouts,
    /// SIGSYS of the program in a mask or an action.
    Signals,
}

/// Numbers of a call on each architecture that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// On x86-64.
    pub x86_64: Option<u32>,
    /// On 64-bit ARM.
    pub aarch64: Option<u32>,
}

impl Numbers {
    /// Returns the number on the target architecture.
    pub const fn here(self) -> Option<u32> {
        if cfg!(target_arch = "aarch64") {
            self.aarch64
        } else {
            self.x86_64
        }
    }
}

impl Call {
    /// Returns the number on the target architecture.
    pub const fn number(&self) -> Option<u32> {
        self.numbers.here()
    }

    /// Returns true if the call can reach the image while its program is in a session.
    pub const fn traps(&self) -> bool {
        let asked_or_trapped = match self.treatment {
            Some(Treatment::Trap) => true,
            Some(Treatment::Ask(_)) => self.when.traps_otherwise(),
            Some(Treatment::Refuse) | None => false,
        };
        let in_some = self.emulating_tsc.is_some() || self.file_times.is_some();
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
