//! PTP clocks of a simulated network.

use timeloom_time::Duration;

use super::{Rules, at};
use crate::plan::Ptp;

pub(super) fn check(rules: &mut Rules<'_>) {
    let Some(network) = &rules.plan.network else {
        return;
    };
    let ptp = network.ptp;
    for (key, interval) in [
        ("sync_interval", ptp.sync_interval),
        ("delay_interval", ptp.delay_interval),
        ("announce_interval", ptp.announce_interval),
    ] {
        if interval.is_some_and(|interval| Ptp::log_of(interval).is_none()) {
            let message = format!("PTP knows no `{key}` like this");
            let help = "write a power of two of a second from 7812500 ns to 16 s: 1 s, 500 ms, 250 ms, 125 ms, 62500 us …";
            rules.broken(&at(&[], ["network", "ptp", key]), message, help);
        }
    }
    for (name, clock) in &network.clocks {
        let path = at(&[], ["network", "clocks", name, "resolution"]);
        if !(Duration::from_ns(1)..=Duration::from_ms(1)).contains(&clock.resolution) {
            let help = "a network card's counter has some nanoseconds: 1 ns … 1 ms";
            rules.broken(&path, "no clock has such a resolution", help);
        }
    }
}
