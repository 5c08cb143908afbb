//! ICMP echo requests, timed; `ping` is not on every machine.
//!
//! As `ping` does, it takes the instant at which the kernel received the reply,
//! not the later one at which it got the processor back.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sends `count` requests of 64 bytes from the calling thread's namespace,
/// `gap` apart, and gives back their round-trip times in ns.
pub(super) fn ping(target: Ipv4Addr, count: u32, gap: Duration) -> io::Result<Vec<i64>> {
    let socket = open(target)?;
    let mut times = Vec::new();
    for sequence in 0..count {
        let request = request(sequence as u16);
        let began = now_ns();
        // SAFETY: the kernel reads as many bytes as there are.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            let (icmp, at) = receive(&socket)?;
            if icmp[0] == ECHO_REPLY && icmp[6..8] == (sequence as u16).to_be_bytes() {
                times.push(at - began);
                break;
            }
        }
        std::thread::sleep(gap);
    }
    // The first looked for the neighbours.
    times.remove(0);
    Ok(times)
}

/// The civil clock, with which the kernel stamps.
fn now_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to a timespec that is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The next ICMP message, and when the kernel received it.
fn receive(socket: &OwnedFd) -> io::Result<([u8; 64], i64)> {
    // A raw socket gets the IP header, too.
    let mut answer = [0u8; 84];
    let mut control = [0u64; 16];
    let mut part = libc::iovec {
        iov_base: answer.as_mut_ptr().cast(),
        iov_len: answer.len(),
    };
    // SAFETY: a msghdr is plain old data; zero is a value of every field.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message names buffers that are ours, with their lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the message in.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let mut at = now_ns();
    if !header.is_null() {
        // SAFETY: a header that is there lies in the control buffer.
        let kind = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if kind == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
            // SAFETY: this kind of message carries a timespec.
            let time: libc::timespec =
                unsafe { core::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
            at = time.tv_sec * 1_000_000_000 + time.tv_nsec;
        }
    }
    Ok((answer[20..].try_into().expect("64 bytes"), at))
}

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

fn open(target: Ipv4Addr) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_ICMP) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(target).to_be(),
        },
        sin_zero: [0; 8],
    };
    let patience = libc::timeval {
        tv_sec: 5,
        tv_usec: 0,
    };
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads an address, a number and a time of the lengths given.
    let answers = unsafe {
        [
            libc::connect(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            ),
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as u32,
            ),
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const patience).cast(),
                size_of_val(&patience) as u32,
            ),
        ]
    };
    if answers != [0, 0, 0] {
        return Err(io::Error::last_os_error());
    }
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
