//! Measurements of Hannon et al. (PADS 2019, Figure 7): means over the raw logs that they
//! published, in microseconds. They include only the handlers on the boards, and neither the
//! propagation of the edge on the wire nor the latency until a handler runs.

/// Half of a pause: its beginning or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The board sends SIGSTOP to all its processes.
    Pause,
    /// The board sends SIGCONT to all its processes.
    Resume,
}

/// Number of boards, number of processes on each, and mean times of pause and resume in µs.
const MEASURED: [(usize, usize, f64, f64); 12] = [
    (1, 1, 44.9, 36.2),
    (1, 2, 66.5, 52.6),
    (1, 4, 97.8, 79.8),
    (1, 8, 154.0, 128.7),
    (1, 16, 284.6, 236.5),
    (2, 1, 32.1, 26.5),
    (2, 2, 48.2, 40.8),
    (2, 4, 73.9, 63.6),
    (2, 8, 124.7, 106.8),
    (4, 1, 29.4, 25.3),
    (4, 2, 45.9, 39.9),
    (4, 4, 71.9, 62.8),
];

/// Returns the paper's mean for this number of boards and of processes on each, in µs; `None` if
/// the combination was not measured.
pub(super) fn mean_us(side: Side, boards: usize, processes: usize) -> Option<f64> {
    let found = MEASURED
        .iter()
        .find(|measured| (measured.0, measured.1) == (boards, processes))?;
    Some(match side {
        Side::Pause => found.2,
        Side::Resume => found.3,
    })
}
