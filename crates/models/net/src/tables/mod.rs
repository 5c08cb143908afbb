//! State of a world: tables of nodes and of waiting packets. The tables do not depend on
//! [`World`](crate::World), so that each can be tested alone.

pub(crate) mod address;
pub(crate) mod arp;
pub(crate) mod buffers;
pub(crate) mod changes;
pub(crate) mod crossings;
pub(crate) mod flow;
pub(crate) mod icmp_limit;
pub(crate) mod kernel_timers;
pub(crate) mod links;
pub(crate) mod macs;
pub(crate) mod outside;
pub(crate) mod ports;
pub(crate) mod refusal;
pub(crate) mod residents;
pub(crate) mod router;
pub(crate) mod slab;
pub(crate) mod source;
pub(crate) mod sparse;
pub(crate) mod stats;
pub(crate) mod switch;
