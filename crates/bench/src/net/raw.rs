//! The paper's emulation portal, as a baseline: whole frames through a raw
//! packet socket, one call for each frame, in a namespace of its own.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

use timeloom_fabric::Namespace;

/// Frames per second that get through, of 1,000 bytes of IP each.
pub(super) fn run(span: time::Duration) -> Result<f64, String> {
    let namespace = Namespace::create("baseline").map_err(|error| error.to_string())?;
    let sockets = namespace.run(|| -> io::Result<(OwnedFd, OwnedFd)> {
        bring_up_loopback()?;
        Ok((packet_socket()?, packet_socket()?))
    });
    let sockets = sockets.map_err(|error| error.to_string())?;
    let (from, to) = sockets.map_err(|error| error.to_string())?;
    carry(&from, &to, span).map_err(|error| error.to_string())
}

/// Ethernet header and packet.
const FRAME: usize = 14 + 1_000;
/// An EtherType for local experiments (IEEE 802): nothing else answers it.
const LOCAL: u16 = 0x88b5;

fn carry(from: &OwnedFd, to: &OwnedFd, span: time::Duration) -> io::Result<f64> {
    let mut frame = [0u8; FRAME];
    frame[12..14].copy_from_slice(&LOCAL.to_be_bytes());
    let done = Arc::new(AtomicBool::new(false));
    let receiver = to.as_raw_fd();
    std::thread::scope(|scope| {
        let over = Arc::clone(&done);
        let taken = scope.spawn(move || {
            super::model::go_first();
            let mut count = 0u64;
            let mut buffer = [0u8; 2_048];
            while !over.load(Ordering::Relaxed) {
                // SAFETY: the buffer is as long as is said.
                let length = unsafe {
                    libc::recv(
                        receiver,
                        buffer.as_mut_ptr().cast(),
                        buffer.len(),
                        libc::MSG_DONTWAIT,
                    )
                };
                if length == FRAME as isize {
                    count += 1;
                } else {
                    std::thread::yield_now();
                }
            }
            count
        });
        let start = time::Instant::now();
        let mut result = Ok(());
        while start.elapsed() < span {
            for _ in 0..64 {
                // SAFETY: the frame is as long as is said.
                let sent = unsafe { libc::send(from.as_raw_fd(), frame.as_ptr().cast(), FRAME, 0) };
                if sent < 0 {
                    let error = io::Error::last_os_error();
                    if error.raw_os_error() != Some(libc::ENOBUFS) {
                        result = Err(error);
                    }
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        let wall_s = start.elapsed().as_secs_f64();
        let count = taken.join().expect("the receiver does not panic");
        result.map(|()| count as f64 / wall_s)
    })
}

fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    for (level, name, value) in [
        (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
        (libc::SOL_SOCKET, libc::SO_RCVBUF, 4 << 20),
    ] {
        let value: libc::c_int = value;
        // SAFETY: the kernel reads an int from a valid place.
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    }
    // SAFETY: an address of zeros is a valid one; its fields are set below.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = LOCAL.to_be();
    address.sll_ifindex = LOOPBACK;
    // SAFETY: the address is as long as is said.
    let bound = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// The loopback interface is the first in every namespace.
const LOOPBACK: i32 = 1;

fn bring_up_loopback() -> io::Result<()> {
    // SAFETY: plain numbers.
    let fd: RawFd =
        unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a request of zeros is a valid one; its fields are set below.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the kernel reads the request, which names an interface and flags.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
