//! The processor's counter on which the pages of timelines are based.

#[cfg(target_arch = "x86_64")]
pub(super) use timeloom_timeline::shm::TscClock as Cycles;

/// Type without values: on other architectures there is no such counter, and pages are based on
/// CLOCK_MONOTONIC.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(super) enum Cycles {}

#[cfg(not(target_arch = "x86_64"))]
impl Cycles {
    pub(super) fn trusted() -> Result<Self, ()> {
        Err(())
    }

    pub(super) fn calibrate(self) -> Result<timeloom_timeline::shm::CoreScale, std::fmt::Error> {
        match self {}
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl timeloom_clock::counter::CycleCounter for Cycles {
    fn width_bits(&self) -> u32 {
        match *self {}
    }

    fn cycles(&self) -> u64 {
        match *self {}
    }
}
