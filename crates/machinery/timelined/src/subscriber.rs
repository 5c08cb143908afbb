//! Client that has bound itself to a timeline and may subscribe to violations of its requirement.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use timeloom_clock::quality::Shortfall;
use timeloom_clock::timeline::BindingId;
use timeloom_timeline::protocol::{BindingEvent, DaemonMessage, encode, packet};

/// Binding as seen by its client: the connection, the shortfall, and the subscription.
pub(crate) struct Subscriber {
    pub(crate) client: Arc<OwnedFd>,
    pub(crate) subscribed: bool,
    pub(crate) shortfall: Option<Shortfall>,
}

impl Subscriber {
    /// Sends the present state of the binding. A client that does not read its events is
    /// disconnected, because it must not assume that its requirement is still met.
    pub(crate) fn send(&self, binding: BindingId) {
        let event = match self.shortfall {
            None => BindingEvent::Restored { binding: binding.0 },
            Some(shortfall) => BindingEvent::Violated {
                binding: binding.0,
                shortfall: shortfall.into(),
            },
        };
        let packet = encode(&DaemonMessage::Event(event));
        if packet::send(&*self.client, &packet, None, false).is_err() {
            let _ = rustix::net::shutdown(&*self.client, rustix::net::Shutdown::Both);
        }
    }
}
