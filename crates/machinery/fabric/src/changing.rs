//! Links that change while the network runs: their rate, and whether they pass frames.
//!
//! A link that is down loses all frames at both of its ends, in a queue (`pfifo`) without room. The
//! interfaces stay up and keep their addresses and routes, as if the line were interrupted behind
//! the next device. Frames that wait in the queue of a rated link are lost when it goes down.

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use parking_lot::Mutex;
use rustix::io::Errno;
use timeloom_sys::interface::index_of;

use crate::netlink::RouteSocket;
use crate::tbf::{self, QueueOf};
use crate::{Fabric, KernelError, Namespace};

/// Link of a network that has been built.
#[derive(Debug)]
pub struct ChangingLink {
    title: String,
    ends: [End; 2],
    state: Mutex<LinkState>,
}

#[derive(Debug)]
struct End {
    namespace: Namespace,
    interface: String,
    queue: QueueOf,
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LinkState {
    rate_bits_per_s: Option<u64>,
    is_up: bool,
}

/// Least rate of the kernel's shaper, which computes in whole bytes per second.
const LEAST_RATE: u64 = 8;

impl Fabric {
    /// Returns the link between two nodes, which has this rate; `None` if there is no such link.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub fn changing_link(
        &self,
        [a, b]: [&str; 2],
        rate_bits_per_s: Option<u64>,
    ) -> std::io::Result<Option<ChangingLink>> {
        let end = |node: &str, peer: &str| -> std::io::Result<Option<End>> {
            let Some(port) = self.port(node, peer) else {
                return Ok(None);
            };
            Ok(Some(End {
                namespace: port.namespace.try_clone()?,
                interface: port.interface.to_owned(),
                queue: match self.station(node) {
                    Some(_) => QueueOf::Station,
                    None => QueueOf::Port,
                },
            }))
        };
        let (Some(near), Some(far)) = (end(a, b)?, end(b, a)?) else {
            return Ok(None);
        };
        Ok(Some(ChangingLink {
            title: format!("{a} - {b}"),
            ends: [near, far],
            state: Mutex::new(LinkState {
                rate_bits_per_s,
                is_up: true,
            }),
        }))
    }
}

impl ChangingLink {
    /// Sets the rate of both directions, and whether the link passes frames. What is `None` stays
    /// as it is.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change, of which a part may have been made.
    pub fn change(
        &self,
        rate_bits_per_s: Option<u64>,
        is_up: Option<bool>,
    ) -> Result<(), KernelError> {
        let mut state = self.state.lock();
        let new = LinkState {
            rate_bits_per_s: rate_bits_per_s.or(state.rate_bits_per_s),
            is_up: is_up.unwrap_or(state.is_up),
        };
        if let Some(rate) = new.rate_bits_per_s.filter(|rate| *rate < LEAST_RATE) {
            let action = format!("change link `{}`", self.title);
            let text = format!("{rate} bit/s is below {LEAST_RATE} bit/s, the least of the kernel");
            return Err(KernelError::new(action, std::io::Error::other(text)));
        }
        for end in &self.ends {
            end.namespace.run(|| end.set(&self.title, new))??;
        }
        *state = new;
        Ok(())
    }
}

impl End {
    /// Gives the interface the queue of a link in this state.
    fn set(&self, title: &str, state: LinkState) -> Result<(), KernelError> {
        let action = || format!("change link `{title}` at {}", self.interface);
        let index = index_of(&self.interface).map_err(|error| KernelError::new(action(), error))?;
        let mut route = RouteSocket::open_here()?;
        let changed = match (state.is_up, state.rate_bits_per_s) {
            (true, Some(rate)) => {
                let request = tbf::shape(index, rate, self.queue);
                route.change(request, NLM_F_CREATE | NLM_F_REPLACE)
            }
            (true, None) => route.change(RouteNetlinkMessage::DelQueueDiscipline(root(index)), 0),
            (false, _) => route.change(closed(index), NLM_F_CREATE | NLM_F_REPLACE),
        };
        changed.map_err(|refusal| {
            refusal.during(action()).missing_if(
                &[Errno::NOENT],
                "the tbf queue in the kernel (CONFIG_NET_SCH_TBF)",
            )
        })
    }
}

/// Returns the message about the queue of an interface.
fn root(index: u32) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.family = AddressFamily::Unspec;
    message.header.index = index.cast_signed();
    message.header.parent = TcHandle::ROOT;
    message
}

/// Returns the request that gives an interface a queue without room. Its handle differs from that
/// of a token bucket, which it replaces.
fn closed(index: u32) -> RouteNetlinkMessage {
    let mut message = root(index);
    message.header.handle = TcHandle { major: 2, minor: 0 };
    // The options of pfifo are `struct tc_fifo_qopt`, which is the limit, and not attributes.
    let limit = DefaultNla::new(TCA_OPTIONS, 0u32.to_ne_bytes().to_vec());
    message.attributes = vec![
        TcAttribute::Kind("pfifo".to_owned()),
        TcAttribute::Other(limit),
    ];
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

const TCA_OPTIONS: u16 = 2;
