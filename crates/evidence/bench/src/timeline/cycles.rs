//! The processor's counter on which a timeline's pages are based.

#[cfg(target_arch = "x86_64")]
pub(super) use timeloom_publish::Tsc as Cycles;

/// On other architectures, pages are based on CLOCK_MONOTONIC: there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(super) enum Cycles {}

#[cfg(not(target_arch = "x86_64"))]
impl Cycles {
    pub(super) fn trusted() -> Result<Self, ()> {
        Err(())
    }

    pub(super) fn calibrate(self) -> Result<timeloom_publish::CoreScale, std::fmt::Error> {
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
