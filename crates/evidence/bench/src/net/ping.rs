//! Round-trip times of ICMP echo requests, since `ping` is not installed on every machine.
//!
//! As in `ping`, the arrival time is that at which the kernel received the reply. The thread itself
//! continues later.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, send,
    socket_with,
};
use timeloom_sys::clock::realtime_ns;
use timeloom_sys::control::{self, ControlBuffer, ControlMessage};
use timeloom_sys::stamps;

/// Sends `count` requests of 64 bytes, `gap` apart, from the network namespace of the calling
/// thread. Returns their round-trip times in ns.
pub(super) fn ping(target: Ipv4Addr, count: u32, gap: Duration) -> io::Result<Vec<i64>> {
    let socket = open(target)?;
    let mut times = Vec::new();
    for sequence in 0..count {
        let request = request(sequence as u16);
        let began = realtime_ns();
        send(&socket, &request, SendFlags::empty())?;
        loop {
            let (icmp, at) = receive(&socket)?;
            if icmp[0] == ECHO_REPLY && icmp[6..8] == (sequence as u16).to_be_bytes() {
                times.push(at - began);
                break;
            }
        }
        std::thread::sleep(gap);
    }
    // The first time includes neighbour resolution.
    times.remove(0);
    Ok(times)
}

/// Returns the next ICMP message, and the time at which the kernel received it.
fn receive(socket: &OwnedFd) -> io::Result<([u8; 64], i64)> {
    // A raw socket also receives the IP header.
    let mut answer = [0u8; 84];
    let mut control = ControlBuffer::default();
    control::receive(socket, &mut answer, &mut control, RecvFlags::empty())?;
    let stamp = control.messages().find_map(|message| match message {
        ControlMessage::Arrived { realtime_ns } => realtime_ns,
        _ => None,
    });
    let at = stamp.unwrap_or_else(realtime_ns);
    Ok((answer[20..].try_into().expect("64 bytes"), at))
}

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

fn open(target: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::ICMP),
    )?;
    connect(&socket, &SocketAddrV4::new(target, 0))?;
    stamps::of_arrivals(&socket)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(5)))?;
    Ok(socket)
}

fn request(sequence: u16) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = ECHO_REQUEST;
    bytes[6..8].copy_from_slice(&sequence.to_be_bytes());
    let words = bytes.chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}
