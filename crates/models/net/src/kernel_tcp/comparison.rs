//! Limits of the comparison with a kernel's own timers, which docs/skip-loss.md describes.

use super::TcpTimerStats;

/// Returns the activity of one connection's timers, judged by the limits of the comparison. `stats`
/// are its counts; `has_flight` is true if more than two segments have been in flight at once.
pub(super) fn judged(stats: &TcpTimerStats, has_flight: bool) -> TcpTimerStats {
    let by_timers = stats.timeouts + stats.probes;
    let is_lossy = by_timers > MANY && by_timers * OF_BY_TIMERS > stats.segments
        || stats.resent > MANY && stats.resent * OF_AGAIN > stats.segments
        || stats.collapses > SOME && stats.collapses * OF_COLLAPSES > stats.segments;
    TcpTimerStats {
        lossy: is_lossy.into(),
        connections: 1,
        resent: if has_flight { stats.resent } else { 0 },
        ..*stats
    }
}

/// At a loss of 10 % in both directions, a timer retransmits a fifth of all requests, and one of
/// nine segments of a bulk transfer is sent again. The least counts keep short connections from
/// exceeding the shares by chance.
const MANY: u64 = 20;
const SOME: u64 = 3;
const OF_BY_TIMERS: u64 = 3;
const OF_AGAIN: u64 = 6;
const OF_COLLAPSES: u64 = 50;
