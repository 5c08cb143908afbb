//! CPU affinity of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the processors on which the process may run.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

/// Restricts the calling thread to one processor. Returns false if the kernel refuses that, or if
/// the processor does not exist.
pub(crate) fn pin(core: usize) -> bool {
    core < CpuSet::MAX_CPU && allow(&[core])
}

/// Restricts the calling thread, and threads that it starts, to these processors. Returns false if
/// the kernel refuses that.
pub(crate) fn allow(cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).is_ok()
}

/// Returns the last permitted processor, because most interrupts go to the first one.
pub(crate) fn measuring_core() -> usize {
    allowed().last().copied().unwrap_or(0)
}
