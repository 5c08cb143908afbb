//! What a station's routes tell its TCP.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink::RouteSocket;
use crate::{KernelError, Namespace};

/// The kernel's number of the metric.
pub(crate) const RTAX_RTO_MIN: u16 = 13;

/// Gives all routes to others these metrics in place of theirs. To be called inside of
/// `station`.
pub(crate) fn set_metrics(station: &Namespace, metrics: &[RouteMetric]) -> Result<(), KernelError> {
    let mut socket = RouteSocket::open_here()?;
    let all = socket.list(RouteNetlinkMessage::GetRoute(of_ipv4()));
    let failed = |step: &str| format!("{step} the routes of `{}`", station.name());
    let all = all.map_err(|refusal| refusal.during(failed("list")))?;
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

fn of_ipv4() -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message
}

/// `None` for what is no route to somebody else.
fn with_metrics(route: RouteNetlinkMessage, metrics: &[RouteMetric]) -> Option<RouteMessage> {
    let RouteNetlinkMessage::NewRoute(mut route) = route else {
        return None;
    };
    let header = &route.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let is_metrics = |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::Metrics(_));
    route.attributes.retain(|attribute| !is_metrics(attribute));
    let metrics = RouteAttribute::Metrics(metrics.to_vec());
    route.attributes.push(metrics);
    Some(route)
}
