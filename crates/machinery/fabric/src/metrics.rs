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

/// Routing table of the station's own addresses.
const RT_TABLE_LOCAL: u8 = 255;

/// Replaces the metrics of all routes to other hosts, and to the station's own IPv4 addresses. The
/// calling thread must be inside `station`.
pub(crate) fn set_metrics(station: &Namespace, metrics: &[RouteMetric]) -> Result<(), KernelError> {
    let mut socket = RouteSocket::open_here()?;
    let changes = format!("change the routes of `{}`", station.name());
    for route in routes(station)?
        .into_iter()
        .filter_map(|it| with_metrics(it, metrics))
    {
        socket
            .change(
                RouteNetlinkMessage::NewRoute(route),
                NLM_F_CREATE | NLM_F_REPLACE,
            )
            .map_err(|refusal| refusal.during(changes.clone()))?;
    }
    Ok(())
}

fn of(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message
}

/// Returns the number of unicast routes to other hosts whose metrics do not include `metric`:
/// programs have added them. The calling thread must be inside `station`.
pub(crate) fn routes_without(
    station: &Namespace,
    metric: &RouteMetric,
) -> Result<usize, KernelError> {
    let mut count = 0;
    for route in routes(station)? {
        let RouteNetlinkMessage::NewRoute(route) = route else {
            continue;
        };
        let has = route
            .attributes
            .iter()
            .any(|it| matches!(it, RouteAttribute::Metrics(metrics) if metrics.contains(metric)));
        count += usize::from(is_to_others(&route.header) && !has);
    }
    Ok(count)
}

fn routes(station: &Namespace) -> Result<Vec<RouteNetlinkMessage>, KernelError> {
    let mut socket = RouteSocket::open_here()?;
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let some = socket.list(RouteNetlinkMessage::GetRoute(of(family)));
        all.extend(some.map_err(|refusal| {
            refusal.during(format!("list the routes of `{}`", station.name()))
        })?);
    }
    Ok(all)
}

fn is_to_others(header: &RouteHeader) -> bool {
    header.table == RouteHeader::RT_TABLE_MAIN && header.kind == RouteType::Unicast
}

/// Returns true for a route to an IPv4 address of the station itself, 127.0.0.1 included.
fn is_local(header: &RouteHeader) -> bool {
    header.table == RT_TABLE_LOCAL
        && header.kind == RouteType::Local
        && header.address_family == AddressFamily::Inet
}

/// Returns the route with these metrics; `None` for an entry that is not a route to other hosts, nor
/// one to an own IPv4 address.
fn with_metrics(route: RouteNetlinkMessage, metrics: &[RouteMetric]) -> Option<RouteMessage> {
    let RouteNetlinkMessage::NewRoute(mut route) = route else {
        return None;
    };
    let header = &route.header;
    if !is_to_others(header) && !is_local(header) {
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
