//! ICMP echo requests, timed; `ping` is not on every machine.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Sends `count` requests of 64 bytes from the calling thread's namespace,
/// `gap` apart, and gives back their round-trip times in ns.
pub(super) fn ping(target: Ipv4Addr, count: u32, gap: Duration) -> io::Result<Vec<i64>> {
    let socket = open(target)?;
    let mut times = Vec::new();
    for sequence in 0..count {
        let request = request(sequence as u16);
        let began = Instant::now();
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
            let mut answer = [0u8; 256];
            // SAFETY: the kernel writes no more bytes than there are.
            let length = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    answer.as_mut_ptr().cast(),
                    answer.len(),
                    0,
                )
            };
            let took = began.elapsed();
            if length < 0 {
                return Err(io::Error::last_os_error());
            }
            // A raw socket gets the IP header too, and all that is ICMP.
            let icmp = &answer[20..];
            if icmp[0] == ECHO_REPLY && icmp[6..8] == (sequence as u16).to_be_bytes() {
                times.push(took.as_nanos() as i64);
                break;
            }
        }
        std::thread::sleep(gap);
    }
    // The first looked for the neighbours.
    times.remove(0);
    Ok(times)
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
    // SAFETY: the kernel reads an address and a time of the lengths given.
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
                libc::SO_RCVTIMEO,
                (&raw const patience).cast(),
                size_of_val(&patience) as u32,
            ),
        ]
    };
    if answers != [0, 0] {
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
