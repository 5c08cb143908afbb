//! Civil time of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use timeloom_time::{Instant, Utc};

/// Returns the civil time as this machine keeps it.
pub(crate) fn civil_now() -> Instant<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Instant::from_ns(since.map_or(0, |since| since.as_nanos() as i64))
}
