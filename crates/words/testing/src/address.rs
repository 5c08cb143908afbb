//! Addresses for those who must be told where to listen before they do.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that kernels give to whoever asks for any (32768 and up by themselves).
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// An address of the loopback network that nobody else has or gets: its host is this process, and
/// its port is asked for once. (A port that was free a moment ago may be taken by now.)
///
/// # Panics
/// When a process has used them up.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.start);
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(PORTS.contains(&port), "no address is left");
    // Linux numbers processes by 22 bits at most.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, 64 | a, b, c), port).into()
}
