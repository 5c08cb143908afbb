//! Route metrics of a station, from which its TCP takes parameters.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink::RouteSocket;
use crate::{KernelError, Namespace};

/// Number by which the kernel knows the metric for the minimum retransmission timeout.
pub(crate) const RTAX_RTO_MIN: u16 = 13;

/// Replaces the metrics of all routes to other hosts. The calling thread must be inside `station`.
pub(crate) fn set_metrics(station: &Namespace, metrics: &[RouteMetric]) -> Result<(), KernelError> {
    let mut socket = RouteSocket::open_here()?;
    let failed = |step: &str| format!("{step} the routes of `{}`", station.name());
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let some = socket.list(RouteNetlinkMessage::GetRoute(of(family)));
        all.extend(some.map_err(|refusal| refusal.during(failed("list")))?);
    }
    for route in all.into_iter().filter_map(|it| with_metrics(it, metrics)) {
        socket
            .change(
                RouteNetlinkMessage::NewRoute(route),
                NLM_F_CREATE | NLM_F_REPLACE,
            )
            .map_err(|refusal| refusal.during(failed("change")))?;
    }
    Ok(())
}

fn of(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message
}

/// Returns the route with these metrics; `None` for an entry that is not a route to other hosts.
fn with_metrics(route: RouteNetlinkMessage, metrics: &[RouteMetric]) -> Option<RouteMessage> {
    let RouteNetlinkMessage::NewRoute(mut route) = route else {
        return None;
    };
    let header = &route.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    // The kernel reports the age of an IPv6 route, but does not accept that attribute in a request.
    let is_given = |attribute: &RouteAttribute| {
        !matches!(
            attribute,
            RouteAttribute::Metrics(_) | RouteAttribute::CacheInfo(_)
        )
    };
    route.attributes.retain(is_given);
    let metrics = RouteAttribute::Metrics(metrics.to_vec());
    route.attributes.push(metrics);
    Some(route)
}
