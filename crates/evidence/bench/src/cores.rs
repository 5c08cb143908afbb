//! Which of the processors a thread runs on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that the process may use, by number.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

/// Keeps the calling thread on this processor; false where it is refused, or there is
/// none of that number.
pub(crate) fn pin(core: usize) -> bool {
    core < CpuSet::MAX_CPU && allow(&[core])
}

/// Keeps the calling thread, and what it starts, on these processors; false where that is
/// refused.
pub(crate) fn allow(cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).is_ok()
}

/// The last processor that we may use: interrupts mostly go to the first.
pub(crate) fn measuring_core() -> usize {
    allowed().last().copied().unwrap_or(0)
}
