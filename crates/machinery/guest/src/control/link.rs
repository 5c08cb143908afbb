//! New properties of a link, as a client requests them.

use std::fmt;

use serde::{Deserialize, Serialize};
use timeloom_time::Duration;

/// New properties of a link. Those that are `None` stay as they are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkProperties {
    /// Bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Propagation delay in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<i64>,
    /// Greatest additional random delay in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<i64>,
    /// Probability that a packet is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// True if the link is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

impl LinkProperties {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for LinkProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |name, ns: Option<i64>| ns.map(|ns| format!("{name} {}", Duration::from_ns(ns)));
        let parts = [
            self.up.map(|up| if up { "up" } else { "down" }.to_owned()),
            self.rate_bps.map(|rate| format!("rate {rate} bit/s")),
            time("delay", self.delay_ns),
            time("jitter", self.jitter_ns),
            self.loss.map(|loss| format!("loss {loss}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}
