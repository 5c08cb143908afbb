//! The state of a world: what nodes know and what waits at them. Nothing here knows the
//! [`World`](crate::World), so each table can be tested alone.

pub(crate) mod buffers;
pub(crate) mod icmp_limit;
pub(crate) mod slab;
