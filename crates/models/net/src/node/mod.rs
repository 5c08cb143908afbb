//! Handling of packets by each kind of node. All functions are methods of [`World`](crate::World);
//! the state on which they work is in [`tables`](crate::tables).

pub(crate) mod arp;
pub(crate) mod crossing;
pub(crate) mod departure;
pub(crate) mod fragment;
pub(crate) mod frame;
pub(crate) mod host;
pub(crate) mod icmp;
pub(crate) mod kernel_tcp;
pub(crate) mod raw;
pub(crate) mod resident;
pub(crate) mod router;
pub(crate) mod switch;
pub(crate) mod traffic;
pub(crate) mod train;
