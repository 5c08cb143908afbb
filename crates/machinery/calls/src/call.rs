//! A row of the table.

use crate::{Handler, Service, When};

/// One system call, and what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// As the kernel calls it.
    pub name: &'static str,
    /// Its numbers.
    pub numbers: Numbers,
    /// What happens to it in every guest. `None`: nothing, but some guests' filters treat
    /// it, as the columns below say.
    pub treatment: Option<Treatment>,
    /// When that happens; otherwise it passes.
    pub when: When,
    /// Which part of the image answers it where it traps.
    pub handler: Option<Handler>,
    /// When it traps where the time-stamp counter is emulated, instead of `when`.
    pub emulating_tsc: Option<When>,
    /// Condition for the trap in sessions that show virtual dates of files, instead of `when`.
    pub file_times: Option<When>,
    /// In processes that have asked for one of these it always traps.
    pub on_demand: &'static [Extra],
    /// What happens, for people: the last column of `docs/coverage.md`.
    pub outcome: &'static str,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Handled in the process, by the image.
    Trap,
    /// Handled by the supervisor.
    Ask(Service),
    /// Answered with ENOSYS, on which every known caller falls back.
    Refuse,
}

/// What a process has asked for that makes further calls trap in it, and in what it
/// starts, by a second filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The times at which packets came or went.
    Stamps,
    /// Reads of a timer that tells when its clock is set.
    Reads,
    /// Timeouts of sockets. All that the two above make trap traps here too.
    Timeouts,
    /// Its own SIGSYS in a mask or an action.
    Signals,
}

/// A call's number on each architecture that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// On x86-64.
    pub x86_64: Option<u32>,
    /// On 64-bit ARM.
    pub aarch64: Option<u32>,
}

impl Numbers {
    /// Where this is compiled for.
    pub const fn here(self) -> Option<u32> {
        if cfg!(target_arch = "aarch64") {
            self.aarch64
        } else {
            self.x86_64
        }
    }
}

impl Call {
    /// Its number where this is compiled for.
    pub const fn number(&self) -> Option<u32> {
        self.numbers.here()
    }

    /// Whether it can come to the image while its program is in a session.
    pub const fn traps(&self) -> bool {
        let asked_or_trapped = match self.treatment {
            Some(Treatment::Trap) => true,
            Some(Treatment::Ask(_)) => self.when.traps_otherwise(),
            Some(Treatment::Refuse) | None => false,
        };
        let in_some = self.emulating_tsc.is_some() || self.file_times.is_some();
        asked_or_trapped || in_some || !self.on_demand.is_empty()
    }

    /// Whether it traps in processes that have asked for this.
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
