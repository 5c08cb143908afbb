//! UDP, many datagrams at a time.
//!
//! Full datagrams have one length, so the kernel is handed trains of them
//! (UDP_SEGMENT), and hands over trains in turn (UDP_GRO): its cost is per
//! train then. Kernels without either get single datagrams.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use crate::peer::Datagrams;

/// A socket to one other engine. The kernel drops what others send to it.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    trains: bool,
    buffers: Vec<u8>,
    dropped: u64,
}

/// Trains taken in by one call.
const AT_ONCE: usize = 8;
/// The largest train.
const TRAIN: usize = 65_536;
/// Segments that the kernel cuts one train into at most.
const SEGMENTS: usize = 64;
/// Bytes that one train may have to send: a datagram of IPv4.
const TRAIN_OUT: usize = 65_507;
/// What the kernel may keep for us in each direction: some milliseconds of
/// 10 Gbit/s, and a bound for floods.
const KEPT: libc::c_int = 4 << 20;

/// Room for the one control message of each train, and aligned for it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 32]);

impl Socket {
    /// A socket bound to `local`, for the engine at `remote`.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn connect(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        Self::new(UdpSocket::bind(local)?, remote)
    }

    /// A socket for the engine at the other end, from one that is bound.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn new(socket: UdpSocket, remote: SocketAddr) -> io::Result<Self> {
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_raw_fd();
        // Less than was asked for is what the system allows.
        for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            let _ = set_option(fd, libc::SOL_SOCKET, option, KEPT);
        }
        let _ = set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
        // Asking for no segmentation succeeds exactly where there is some.
        let trains = set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        Ok(Self {
            socket,
            trains,
            buffers: vec![0; AT_ONCE * TRAIN],
            dropped: 0,
        })
    }

    /// Whether trains are sent; `false` sends every datagram for itself.
    pub fn set_trains(&mut self, trains: bool) {
        self.trains = trains;
    }

    /// Datagrams that the kernel did not take.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Sends all. What the kernel does not take is dropped and counted, as a
    /// network would: nothing here waits.
    ///
    /// # Errors
    ///
    /// When the socket is of no use any more.
    pub fn send(&mut self, datagrams: &Datagrams) -> io::Result<()> {
        let lengths = &datagrams.lengths;
        let (mut first, mut at) = (0, 0);
        while first < lengths.len() {
            let each = lengths[first] as usize;
            let (mut last, mut bytes) = (first + 1, each);
            let most = if self.trains { SEGMENTS } else { 1 };
            while last < lengths.len() && last - first < most {
                let next = lengths[last] as usize;
                if next > each || bytes + next > TRAIN_OUT {
                    break;
                }
                bytes += next;
                last += 1;
                // The last one of a train may be shorter.
                if next < each {
                    break;
                }
            }
            let train = &datagrams.bytes[at..at + bytes];
            match self.send_train(train, (last - first > 1).then_some(each as u16)) {
                Ok(()) => {}
                Err(error) if is_passing(&error) => self.dropped += (last - first) as u64,
                Err(error) => return Err(error),
            }
            at += bytes;
            first = last;
        }
        Ok(())
    }

    fn send_train(&self, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
        let mut vector = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control([0; 32]);
        // SAFETY: a message header of zeros is a valid, empty one.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if let Some(segment) = segment {
            message.msg_control = (&raw mut control).cast();
            // SAFETY: `control` has room for one message of two bytes and is
            // aligned; the macros compute places within it.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(2) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_UDP;
                (*header).cmsg_type = libc::UDP_SEGMENT;
                (*header).cmsg_len = libc::CMSG_LEN(2) as _;
                ptr::write_unaligned(libc::CMSG_DATA(header).cast(), segment);
            }
        }
        // SAFETY: the header points to `vector` and `control`, which live; the
        // kernel only reads `bytes`.
        let sent = unsafe { libc::sendmsg(self.fd(), &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Takes in what is there, at most `budget` trains of datagrams, and hands
    /// each datagram to `act`. Gives back how many trains there were.
    ///
    /// # Errors
    ///
    /// When the socket is of no use any more.
    pub fn receive(&mut self, budget: usize, mut act: impl FnMut(&[u8])) -> io::Result<usize> {
        let mut taken = 0;
        while taken < budget {
            let wanted = AT_ONCE.min(budget - taken);
            let (count, lengths) = match self.receive_trains(wanted) {
                Ok(got) => got,
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            };
            for (buffer, (length, segment)) in self.buffers.chunks(TRAIN).zip(&lengths[..count]) {
                let train = &buffer[..*length];
                let segment = if *segment == 0 { train.len() } else { *segment };
                train.chunks(segment.max(1)).for_each(&mut act);
            }
            taken += count;
            if count < wanted {
                break;
            }
        }
        Ok(taken)
    }

    /// Fills the buffers: how many, and of each its length and that of its
    /// segments, 0 when it is a single one.
    fn receive_trains(&mut self, wanted: usize) -> io::Result<(usize, [(usize, usize); AT_ONCE])> {
        let mut controls = [Control([0; 32]); AT_ONCE];
        let empty = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        let mut vectors = [empty; AT_ONCE];
        // SAFETY: message headers of zeros are valid, empty ones.
        let mut messages: [libc::mmsghdr; AT_ONCE] = unsafe { zeroed() };
        for (index, buffer) in self.buffers.chunks_mut(TRAIN).enumerate() {
            vectors[index].iov_base = buffer.as_mut_ptr().cast();
            vectors[index].iov_len = buffer.len();
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[index]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: `wanted` headers are filled in, and what they point to lives
        // and is nobody else's.
        let count = unsafe {
            libc::recvmmsg(
                self.fd(),
                messages.as_mut_ptr(),
                wanted as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut lengths = [(0, 0); AT_ONCE];
        for (message, place) in messages.iter().zip(&mut lengths).take(count as usize) {
            *place = (message.msg_len as usize, segment_of(&message.msg_hdr));
        }
        Ok((count as usize, lengths))
    }

    /// The descriptor, to be waited on.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// When the kernel does not say.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// The length of the segments of a train that came in, 0 for a single one.
fn segment_of(message: &libc::msghdr) -> usize {
    // SAFETY: the kernel has written control messages within the buffer and
    // set its length; the macros stay within that.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_UDP && (*header).cmsg_type == libc::UDP_GRO {
                let length: libc::c_int = ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return usize::try_from(length).unwrap_or(0);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    0
}

/// The kernel is full, or the other end is not there: a network would lose the
/// datagram as well. Its refusals (of a train too large, for one) likewise.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock | ConnectionRefused | Interrupted | HostUnreachable | NetworkUnreachable
    ) || matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EMSGSIZE | libc::EPERM)
    )
}

fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads an int from a valid place.
    let done = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
