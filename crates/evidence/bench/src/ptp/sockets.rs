//! Datagrams with the kernel's stamps of departure and arrival, over loopback.
//!
//! The same mechanism that programs use on real interfaces (SO_TIMESTAMPING),
//! where it needs no privilege and no namespace. Every datagram's departure is
//! stamped, Follow_Ups too: that is what is measured.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};

/// One end of a link.
pub(super) struct Stamped {
    socket: UdpSocket,
    next_id: u32,
}

/// Software stamps, numbered per socket, departures without their payload.
const FLAGS: libc::c_int = (libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY) as libc::c_int;

impl Stamped {
    /// Two ends of a new link.
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = (
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        );
        a.connect(b.local_addr()?)?;
        b.connect(a.local_addr()?)?;
        Ok((Self::new(a)?, Self::new(b)?))
    }

    fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let flags = FLAGS;
        // SAFETY: the option's value is one int.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of_val(&flags) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, next_id: 0 })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Sends, and names the departure.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<u32> {
        self.socket.send(bytes)?;
        self.next_id = self.next_id.wrapping_add(1);
        Ok(self.next_id.wrapping_sub(1))
    }

    /// The next datagram with its arrival, ns of CLOCK_REALTIME.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<(usize, i64)> {
        let (length, news) = self.message(buffer, 0)?;
        Some((length, news.stamp_ns?))
    }

    /// The next departure that became known.
    pub(super) fn departed(&self) -> Option<(u32, i64)> {
        let (_, news) = self.message(&mut [], libc::MSG_ERRQUEUE)?;
        Some((news.id?, news.stamp_ns?))
    }

    fn message(&self, buffer: &mut [u8], flags: libc::c_int) -> Option<(usize, News)> {
        let mut control = Control([0; 512]);
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: a header of zeroes is one without address, parts and control.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len();
        // SAFETY: the header's buffers live until the call returns.
        let length =
            unsafe { libc::recvmsg(self.fd(), &raw mut header, flags | libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).ok()?;
        Some((length, News::of(&header)))
    }
}

/// As aligned as a control message's header must be.
#[repr(align(8))]
struct Control([u8; 512]);

#[derive(Default)]
struct News {
    stamp_ns: Option<i64>,
    id: Option<u32>,
}

impl News {
    /// Reads what the kernel said besides the datagram.
    fn of(header: &libc::msghdr) -> Self {
        let mut news = Self::default();
        // SAFETY: the kernel has filled the header's control buffer.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !at.is_null() {
            // SAFETY: CMSG_* only return headers within the control buffer.
            let (kind, data) =
                unsafe { (((*at).cmsg_level, (*at).cmsg_type), libc::CMSG_DATA(at)) };
            match kind {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                    // SAFETY: three timespecs, the first from software.
                    let stamp: libc::timespec =
                        unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    news.stamp_ns = Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                }
                (libc::SOL_IP, libc::IP_RECVERR) => {
                    // SAFETY: an extended error; its data is the number.
                    let error: libc::sock_extended_err =
                        unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                    news.id = Some(error.ee_data);
                }
                _ => {}
            }
            // SAFETY: as above.
            at = unsafe { libc::CMSG_NXTHDR(header, at) };
        }
        news
    }
}
