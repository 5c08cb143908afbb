//! CPU affinity of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the processors that the process may use.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

/// Pins the calling thread to this processor; returns false if that is refused or the processor
/// does not exist.
pub(crate) fn pin(core: usize) -> bool {
    core < CpuSet::MAX_CPU && allow(&[core])
}

/// Restricts the calling thread, and those that it starts, to these processors; returns false if
/// that is refused.
pub(crate) fn allow(cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).is_ok()
}

/// Returns the last allowed processor: interrupts mostly go to the first.
pub(crate) fn measuring_core() -> usize {
    allowed().last().copied().unwrap_or(0)
}
