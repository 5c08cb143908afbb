//! Events that change the experiment while it runs.

use std::fmt;

use timeloom_net::LinkChange;
use timeloom_time::Duration;

use crate::plan::{LinkName, Wire};
use crate::table::{table, words};
use crate::words::BitRate;

table! {
/// Change of the experiment at a virtual instant.
#[noun = "an event"]
pub struct Event {
    /// Virtual time at which the change takes effect.
    pub at: Duration,
    /// Link that changes: its two nodes in either order, or its name.
    pub link: Option<LinkName>,
    /// New properties of the link.
    #[flatten(WireChange)]
    pub wire: WireChange,
    /// Attack that starts or stops.
    pub attack: Option<String>,
    /// Start or stop of the attack.
    pub action: Option<AttackAction>,
}
}

words! {
/// Change of an attack.
pub enum AttackAction {
    /// The attack begins. It must have no `at`, and begins once.
    Start = "start",
    /// The programs of the attack are killed.
    Stop = "stop",
}
}

table! {
/// New properties of a link, in both directions. Those that are left out stay as they are.
#[noun = "a link's new properties"]
#[derive(Copy)]
pub struct WireChange {
    /// Bit rate of transmissions that begin from then on.
    pub rate: Option<BitRate>,
    /// Propagation delay. Packets in flight keep theirs, and no packet overtakes another.
    pub delay: Option<Duration>,
    /// Maximum additional random delay.
    pub jitter: Option<Duration>,
    /// Probability that a packet is lost, from 0 to 1.
    #[within(Wire::LOSSES)]
    pub loss: Option<f64>,
    /// State of the link. When it goes down, the packets in its queue are lost.
    pub state: Option<LinkState>,
}
}

words! {
/// State of a link.
pub enum LinkState {
    /// The link transmits.
    Up = "up",
    /// The link loses all packets that enter it.
    Down = "down",
}
}

impl WireChange {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if a link of kernel objects cannot change in this way.
    pub fn is_beyond_the_kernel(&self) -> bool {
        self.delay.is_some() || self.jitter.is_some() || self.loss.is_some()
    }

    /// Returns the change in the form of the network model.
    pub fn in_model(&self) -> LinkChange {
        LinkChange {
            rate_bps: self.rate.map(BitRate::as_bits_per_s),
            delay: self.delay,
            loss: self.loss,
            jitter: self.jitter,
            up: self.state.map(|state| state == LinkState::Up),
        }
    }
}

/// Formats the change for an event of the results, such as `delay 200 ms, loss 0.1`.
impl fmt::Display for WireChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.state.map(|state| state.word().to_owned()),
            self.rate.map(|rate| format!("rate {rate}")),
            self.delay.map(|delay| format!("delay {delay}")),
            self.jitter.map(|jitter| format!("jitter {jitter}")),
            self.loss.map(|loss| format!("loss {loss}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}
