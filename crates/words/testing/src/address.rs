//! Addresses for programs that must be given a listening address before they listen.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range of ports that kernels assign dynamically (32768 and up by default).
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Returns an address of the loopback network that is used by no other process and returned only
/// once: its host is derived from this process, and its port is not reused. (A port that was free a
/// moment ago may be taken by now.)
///
/// # Panics
/// Panics if this process has used up the ports.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.start);
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(PORTS.contains(&port), "no address is left");
    // Linux process numbers have at most 22 bits.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, 64 | a, b, c), port).into()
}
