//! Transfers of several datagrams or frames per system call, and of datagram trains (GSO).

use core::ptr::{from_mut, null_mut};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::RecvFlags;

use crate::control::{self, ControlMessage};
use crate::option::{done, set};

/// Buffers for `N` datagrams or frames, and the results of the last receive call.
#[derive(Debug)]
pub struct ReceiveBatch<const N: usize> {
    room: usize,
    /// Packet bytes. Each packet has `room` bytes.
    storage: Vec<u8>,
    envelopes: Box<[Envelope; N]>,
    /// True if the socket receives frames. The address of a frame gives its direction.
    frames: bool,
    filled: usize,
}

/// Metadata of one packet, as reported by the kernel.
#[derive(Debug, Clone, Copy)]
struct Envelope {
    address: libc::sockaddr_ll,
    control: Area,
    control_len: usize,
    length: usize,
}

/// Area for control messages, which start at multiples of 8 bytes.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
struct Area([u8; CONTROL_LEN]);

/// Buffer for the one control message that accompanies a datagram train on sending.
#[repr(C, align(8))]
struct Short([u8; 32]);

/// Size of the control area in bytes. A timestamp takes 32 bytes, auxiliary data 40, the length of
/// a train's datagrams 24.
const CONTROL_LEN: usize = 128;

/// Datagram or frame of a [`ReceiveBatch`].
#[derive(Clone, Copy, Debug)]
pub struct ReceivedDatagram<'a> {
    /// Bytes received, truncated to the size of the buffer.
    pub bytes: &'a [u8],
    /// Original length of the packet; equal to the length of `bytes` unless [`RecvFlags::TRUNC`]
    /// was set.
    pub length: usize,
    /// True for a frame that this machine sent by the interface.
    pub is_outgoing: bool,
    control: &'a [u8],
}

impl ReceivedDatagram<'_> {
    /// Returns the packet's control messages.
    pub fn messages(&self) -> impl Iterator<Item = ControlMessage> + '_ {
        control::messages(self.control)
    }
}

impl<const N: usize> ReceiveBatch<N> {
    /// Creates a batch for datagrams of at most `room` bytes.
    pub fn datagrams(room: usize) -> Self {
        let empty = Envelope {
            // SAFETY: plain old data; zero is a valid value of every field.
            address: unsafe { core::mem::zeroed() },
            control: Area([0; CONTROL_LEN]),
            control_len: 0,
            length: 0,
        };
        Self {
            room,
            // The system provides zeroed memory, which is not touched before it is used.
            storage: vec![0; room * N],
            envelopes: Box::new([empty; N]),
            frames: false,
            filled: 0,
        }
    }

    /// Creates a batch for frames of a packet socket, of at most `room` bytes.
    pub fn frames(room: usize) -> Self {
        Self {
            frames: true,
            ..Self::datagrams(room)
        }
    }

    /// Receives at most `most` packets and returns their number.
    ///
    /// # Errors
    /// Fails as recvmmsg(2) does.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        most: usize,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        self.filled = 0;
        let empty = libc::iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let mut parts = [empty; N];
        // SAFETY: plain old data; null pointers and zero lengths are valid.
        let mut headers: [libc::mmsghdr; N] = unsafe { core::mem::zeroed() };
        let rooms = self.storage.chunks_exact_mut(self.room);
        let rooms = rooms.zip(self.envelopes.iter_mut());
        for ((header, part), (room, envelope)) in headers.iter_mut().zip(&mut parts).zip(rooms) {
            let header = &mut header.msg_hdr;
            part.iov_base = room.as_mut_ptr().cast();
            part.iov_len = room.len();
            header.msg_iov = from_mut(part);
            header.msg_iovlen = 1;
            if self.frames {
                header.msg_name = (&raw mut envelope.address).cast();
                header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            }
            header.msg_control = envelope.control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_LEN as _;
        }
        // SAFETY: every header points to a buffer, a control area and, for frames, an address, each
        // of the stated size. All are alive and not otherwise accessed until the call returns;
        // there are `N` of each.
        let answer = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                most.min(N) as libc::c_uint,
                flags.bits().cast_signed() as _,
                null_mut(),
            )
        };
        self.filled = usize::try_from(answer).map_err(|_| io::Error::last_os_error())?;
        let filled = self.envelopes.iter_mut().take(self.filled);
        for (header, envelope) in headers.iter().zip(filled) {
            envelope.control_len = header.msg_hdr.msg_controllen;
            envelope.length = header.msg_len as usize;
        }
        Ok(self.filled)
    }

    /// Returns the packets of the last receive call, in the order of arrival.
    pub fn received(&self) -> impl Iterator<Item = ReceivedDatagram<'_>> {
        let rooms = self.storage.chunks_exact(self.room);
        let filled = rooms.zip(self.envelopes.iter()).take(self.filled);
        filled.map(|(room, envelope)| ReceivedDatagram {
            bytes: &room[..envelope.length.min(room.len())],
            length: envelope.length,
            is_outgoing: self.frames && envelope.address.sll_pkttype == libc::PACKET_OUTGOING,
            control: &envelope.control.0[..envelope.control_len.min(CONTROL_LEN)],
        })
    }
}

/// Permits the kernel to deliver several datagrams of equal length at once, as a train
/// ([`ControlMessage::Segments`]).
///
/// # Errors
/// Fails before Linux 5.0.
pub fn take_trains(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, &1)
}

/// Makes the kernel split all data sent on this socket into datagrams of `segment` bytes. A value
/// of 0 disables the splitting.
///
/// # Errors
/// Fails before Linux 4.18.
pub fn cut_into(socket: impl AsFd, segment: u16) -> io::Result<()> {
    set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        &libc::c_int::from(segment),
    )
}

/// Sends `bytes` on a connected UDP socket without blocking: as one datagram, or as a train of
/// datagrams of `segment` bytes, of which the last may be shorter.
///
/// # Errors
/// Fails as sendmsg(2) does.
pub fn send_train(socket: impl AsFd, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Short([0; 32]);
    // SAFETY: a message header of zeros is a valid, empty one.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    if let Some(segment) = segment {
        message.msg_control = (&raw mut control).cast();
        // SAFETY: `control` is aligned and has space for one message of two bytes; the macros
        // compute addresses within it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(2) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(2) as _;
            core::ptr::write_unaligned(libc::CMSG_DATA(header).cast(), segment);
        }
    }
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the header points to `vector` and `control`, which outlive the call; the kernel only
    // reads `bytes`.
    let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) };
    done(if sent < 0 { -1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_train_arrives_as_its_datagrams() {
        let a = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let b = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        a.connect(b.local_addr().expect("bound"))
            .expect("connected");
        let bytes: Vec<u8> = (0..250).collect();
        send_train(&a, &bytes, Some(100)).expect("sent");
        send_train(&a, &bytes[..10], None).expect("sent");
        let mut batch = ReceiveBatch::<8>::datagrams(1_000);
        let mut lengths = Vec::new();
        while lengths.len() < 4 {
            batch.receive(&b, 3, RecvFlags::DONTWAIT).expect("received");
            lengths.extend(batch.received().map(|datagram| datagram.bytes.len()));
        }
        assert_eq!(lengths, [100, 100, 50, 10]);
    }

    #[test]
    fn a_train_is_taken_whole_where_it_was_asked_for() {
        let a = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let b = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        a.connect(b.local_addr().expect("bound"))
            .expect("connected");
        take_trains(&b).expect("Linux 5.0");
        send_train(&a, &[1; 250], Some(100)).expect("sent");
        let mut batch = ReceiveBatch::<2>::datagrams(1_000);
        batch.receive(&b, 2, RecvFlags::DONTWAIT).expect("one");
        let train = batch.received().next().expect("one");
        assert_eq!(train.bytes.len(), 250);
        let expected = [ControlMessage::Segments(100)];
        assert_eq!(train.messages().collect::<Vec<_>>(), expected);
    }
}
