//! Netlink messages that create bridges and cables, as plain values.

use std::net::IpAddr;
use std::os::fd::RawFd;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    BridgePortState, BridgeStpState, InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoPortData,
    InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};

use crate::spec::broadcast;
use timeloom_wire::MacAddress;

/// An end of a cable to be created.
#[derive(Debug)]
pub(crate) struct CableEnd<'a> {
    pub(crate) index: u32,
    pub(crate) name: &'a str,
    pub(crate) mac: MacAddress,
}

/// Returns the message that creates the bridge of a switch. It has no spanning tree, so ports
/// forward at once. It floods multicast as a simple switch does; snooping would hold multicast back
/// until a host joins the group.
pub(crate) fn bridge(index: u32, name: &str, mac: MacAddress) -> RouteNetlinkMessage {
    bridge_that_forwards(0, index, name, mac)
}

/// Returns the message that creates a bridge which also forwards PTP's peer-delay messages. They
/// are sent to 01-80-C2-00-00-0E, a link-local address, so a switch does not forward them.
pub(crate) fn splice(index: u32, name: &str, mac: MacAddress) -> RouteNetlinkMessage {
    bridge_that_forwards(1 << 0x0e, index, name, mac)
}

/// Returns the message that creates a bridge; bit n of `groups` permits forwarding to link-local
/// address 01-80-C2-00-00-0n.
fn bridge_that_forwards(
    groups: u16,
    index: u32,
    name: &str,
    mac: MacAddress,
) -> RouteNetlinkMessage {
    let settings = vec![
        InfoBridge::StpState(BridgeStpState::Disabled),
        InfoBridge::ForwardDelay(0),
        InfoBridge::MulticastSnooping(false),
        InfoBridge::GroupFwdMask(groups),
    ];
    let mut message = end(&CableEnd { index, name, mac });
    message.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Bridge),
        LinkInfo::Data(InfoData::Bridge(settings)),
    ]));
    RouteNetlinkMessage::NewLink(message)
}

/// Returns the message that creates a cable. The end `near` is up and in the namespace of the
/// netlink socket. The end `far` is down, in `far_namespace` if that is given and otherwise in the
/// same namespace. The kernel configures the far end before it joins the two ends, and an end that
/// is not joined cannot come up.
pub(crate) fn cable(
    near: &CableEnd<'_>,
    far: &CableEnd<'_>,
    far_namespace: Option<RawFd>,
) -> RouteNetlinkMessage {
    let mut peer = end(far);
    peer.header.flags = LinkFlags::empty();
    peer.header.change_mask = LinkFlags::empty();
    peer.attributes
        .extend(far_namespace.map(LinkAttribute::NetNsFd));
    let mut message = end(near);
    message.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    RouteNetlinkMessage::NewLink(message)
}

/// Returns the message that adds an interface to a bridge.
pub(crate) fn plug(index: u32, bridge: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Controller(bridge));
    RouteNetlinkMessage::SetLink(message)
}

/// Returns the message that brings an interface up.
pub(crate) fn up(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    RouteNetlinkMessage::SetLink(message)
}

/// Returns the message that takes an interface down, which is required to rename it.
pub(crate) fn down(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.change_mask = LinkFlags::Up;
    RouteNetlinkMessage::SetLink(message)
}

/// Returns the message that renames an interface.
pub(crate) fn rename(index: u32, name: &str) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
        .attributes
        .push(LinkAttribute::IfName(name.to_owned()));
    RouteNetlinkMessage::SetLink(message)
}

/// Returns the message that adds an address to an interface. An IPv6 address is valid at once,
/// without duplicate address detection.
pub(crate) fn address(index: u32, address: IpAddr, prefix_len: u8) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Address(address),
        AddressAttribute::Local(address),
    ];
    message.header.family = match address {
        IpAddr::V4(address) => {
            let broadcast = broadcast(address, prefix_len);
            message
                .attributes
                .extend(broadcast.map(AddressAttribute::Broadcast));
            AddressFamily::Inet
        }
        IpAddr::V6(_) => {
            let flags = AddressAttribute::Flags(AddressFlags::Nodad);
            message.attributes.push(flags);
            AddressFamily::Inet6
        }
    };
    RouteNetlinkMessage::NewAddress(message)
}

/// Returns the message that queries an interface.
pub(crate) fn query(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    RouteNetlinkMessage::GetLink(message)
}

/// Returns true if the interface in the answer to [`query`] carries frames: it must be operational,
/// and must be forwarding if it is the port of a bridge.
pub(crate) fn carries_frames(answer: &RouteNetlinkMessage) -> bool {
    let RouteNetlinkMessage::NewLink(message) = answer else {
        return false;
    };
    let operational = message
        .attributes
        .contains(&LinkAttribute::OperState(State::Up));
    let mut port_states = message
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => Some(infos),
            _ => None,
        })
        .flatten()
        .filter_map(|info| match info {
            LinkInfo::PortData(InfoPortData::BridgePort(port)) => Some(port),
            _ => None,
        })
        .flatten()
        .filter_map(|port| match port {
            InfoBridgePort::State(state) => Some(state),
            _ => None,
        });
    operational && port_states.all(|state| *state == BridgePortState::Forwarding)
}

fn end(end: &CableEnd<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = end.index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes = vec![
        LinkAttribute::IfName(end.name.to_owned()),
        LinkAttribute::Address(end.mac.0.to_vec()),
    ];
    message
}
