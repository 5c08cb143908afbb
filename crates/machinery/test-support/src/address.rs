//! Addresses for programs that must be given a listening address before they listen.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below the range from which kernels assign ports dynamically (by default, 32768 and up).
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Returns an address on the loopback network (127.0.0.0/8) that no other test process uses.
///
/// The host part is derived from the process number and the port is never returned twice, so
/// programs can be given the address before they listen. (Asking the kernel for a free port would
/// not be safe: another program may take the port before the test uses it.)
///
/// # Panics
/// Panics if this process has used up the ports.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.start);
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(PORTS.contains(&port), "no address is left");
    // A Linux process number has at most 22 bits, so the upper octet of four is zero.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, 64 | a, b, c), port).into()
}
